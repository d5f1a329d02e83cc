"""ivector-normalize-length: give speaker vectors the same length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaldi_compat.cli.log import logger, vlog
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import program
from kaldi_compat.exact.products import scaled
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Scales speaker vectors to the length sqrt(dimension), or to the length 1 with --scaleup=false.

Usage: ivector-normalize-length [options] <ivector-rspecifier> <ivector-wspecifier>
e.g.:  ivector-normalize-length ark:ivectors.ark ark:normalized_ivectors.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of ivector-normalize-length."""

    normalize: bool = option(True, "scale the vectors; false copies them")
    scaleup: bool = option(True, "scale to the square root of the dimension instead of 1")


@program("ivector-normalize-length", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Normalize a table."""
    ratios: list[float] = []

    def normalize(key: str, vector: Vector) -> Vector:
        ratio = length(vector) / (np.sqrt(len(vector)) if options.scaleup else 1.0)
        ratios.append(float(np.float32(ratio)))
        vlog(2, "Ratio for key %s is %g", key, ratios[-1])
        if ratios[-1] == 0.0:
            logger.warning("Zero iVector")
            return vector
        return scaled(vector, 1.0 / ratios[-1]) if options.normalize else vector

    with np.errstate(all="ignore"):
        counts = convert_table(lambda block: block.map(normalize), "vector", source, target)
        logger.info("Processed %d iVectors.", counts.done)
        if ratios:
            mean = np.float32(np.sum(ratios) / len(ratios))
            squares = np.square(ratios, dtype=np.float32).sum(dtype=np.float64)
            deviation = np.sqrt(squares / len(ratios) - mean * mean)
            logger.info(
                "Average ratio of iVector to expected length was %g, standard deviation was %g", mean, deviation
            )
    return counts.status


def length(vector: Vector) -> np.float32:
    """Return the Euclidean length. As in Kaldi, squares are added one after the other in single precision."""
    result: np.float32 = np.sqrt(np.add.accumulate(np.append(np.float32(0), vector * vector))[-1])
    return result
