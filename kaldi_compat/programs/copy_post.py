"""copy-post: copy posteriors, optionally scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from io_ark.blocks import Block, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import copied, map_table
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
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
    codec = PosteriorArraysCodec()
    with Tables() as tables:
        blocks, writer = tables.read(codec, source), tables.write(codec, target)

        def copy(block: PosteriorBlock) -> Block:
            return copied(block, writer) if options.scale == 1.0 else scaled(block, options.scale)

        counts = map_table(blocks, writer, copy)
    logger.info("Done copying %d posteriors.", counts.done)
    return counts.status


def scaled(block: PosteriorBlock, scale: float) -> PosteriorBlock:
    """Multiply each weight by ``scale`` in single precision; a scale of zero removes all entries."""
    counts, classes, weights = block.posteriors
    if scale == 0.0:
        changed = block.posteriors._replace(counts=np.zeros_like(counts), integers=classes[:0], weights=weights[:0])
    else:
        changed = block.posteriors._replace(weights=weights * np.float32(scale))
    return replace(block, posteriors=changed, data=block.data[:0], ends=block.ends[:0])
