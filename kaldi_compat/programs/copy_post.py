"""copy-post: copy posteriors, optionally scaled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.blocks import PosteriorArrays
from io_ark.codecs.posterior import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import copied, map_table
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Copies tables of posteriors, optionally scaled.

Usage: copy-post [options] <post-rspecifier> <post-wspecifier>
e.g.:  copy-post --scale=0.5 ark:1.post ark,t:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of copy-post."""

    scale: float = option(1.0, "factor on the posteriors; 0 removes them")


@program("copy-post", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table."""
    with (
        io_ark.SequentialReader[PosteriorArrays](PosteriorArraysCodec(), source, blocks=True) as reader,
        io_ark.Writer[PosteriorArrays](PosteriorArraysCodec(), target) as writer,
    ):
        counts = map_table(
            reader,
            writer,
            lambda _, posterior: scaled(posterior, options.scale),
            lambda block: copied(block, writer) if options.scale == 1.0 else None,
        )
    logger.info("Done copying %d posteriors.", counts.done)
    return counts.status


def scaled(posterior: PosteriorArrays, scale: float) -> PosteriorArrays:
    """Multiply each weight by ``scale`` in single precision; a scale of zero removes all entries."""
    if scale == 1.0:
        return posterior
    if scale == 0.0:
        return PosteriorArrays(np.zeros_like(posterior.counts), posterior.integers[:0], posterior.weights[:0])
    return posterior._replace(weights=posterior.weights * np.float32(scale))
