"""extend-transform-dim: a transform for features of more dimensions."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert
from kaldi_compat.cli.program import program
from kaldi_compat.functional.transform import extend_transform
from kaldi_compat.options.base import option, require

USAGE = """
Extends a linear or affine transform of d dimensions to more, which it leaves as they are.

Usage: extend-transform-dim [options] (<transform-rspecifier>|<transform-rxfilename>)
                            (<transform-wspecifier>|<transform-wxfilename>)
e.g.:  extend-transform-dim --new-dimension=117 in.mat big.mat
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of extend-transform-dim."""

    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")
    new_dimension: int = option(-1, "dimension to extend to; must be given")

    def __post_init__(self) -> None:
        require(self.new_dimension >= 0, "--new-dimension must be given: the dimension to extend to")


@program("extend-transform-dim", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Extend a single transform, or a table of them."""
    counts = convert(
        "matrix", source, target, lambda _, each: extend_transform(each, options.new_dimension), binary=options.binary
    )
    logger.info("Increased transform dim to %d for %d matrices.", options.new_dimension, counts.done)
    return counts.status
