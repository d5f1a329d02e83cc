"""paste-vectors: concatenate vectors of several tables."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, lookup, map_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import missing
from kaldi_compat.cli.program import ERROR_STATUS, NoOptions, program

USAGE = """
Appends to each vector of the first table the vectors of the other tables with the same key. Keys that are not in the
first table are left out.

Usage: paste-vectors [options] <rspecifier1> <rspecifier2> [<rspecifier3> ...] <wspecifier>
e.g.:  paste-vectors ark:1.vec ark:2.vec ark,t:-
"""


@program("paste-vectors", USAGE, at_least=3)
def main(options: NoOptions, source: str, *others_and_target: str) -> int:
    """Paste tables."""
    *others, target = others_and_target
    with ExitStack() as stack:
        writer = stack.enter_context(io_ark.Writer[Vector]("vector", target))
        reader = stack.enter_context(io_ark.SequentialReader[Vector]("vector", source, blocks=True))
        tables = [(name, BlockTable(stack.enter_context(LookupReader[Vector]("vector", name)))) for name in others]

        def paste(key: str, vector: Vector) -> Vector:
            return np.concatenate([vector, *(lookup(key, other, missing(key, name)) for name, other in tables)])

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            names = block.names()
            found = [table.values(names) for _, table in tables]
            parts = [[part for _, part in block.entries()], *(each for each in found if each is not None)]
            if len(parts) <= len(found):
                return None
            lengths = np.array([[len(part) for part in each] for each in parts]).sum(axis=0)
            values = np.concatenate([part for entry in zip(*parts, strict=True) for part in entry])
            return block.with_vectors(values, lengths)

        counts = map_table(reader, writer, paste, of_block)
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS
