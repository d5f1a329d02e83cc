"""paste-vectors: concatenate vectors of several tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import OtherTables
from kaldi_compat.cli.program import ERROR_STATUS, NoOptions, program
from kaldi_compat.cli.tables import Tables

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
    with Tables() as tables:
        writer, blocks = tables.write("vector", target), tables.read("vector", source)
        parts = OtherTables(tables, "vector", others)
        counts = map_table(blocks, writer, lambda block: pasted(block, parts.find(block)))
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def pasted(block: ArrayBlock, parts: Sequence[Sequence[Vector]]) -> ArrayBlock:
    """Concatenate vectors.

    Args:
        block: has the keys of the results.
        parts: of each table, the vector of each result.
    """
    lengths = np.array([[len(vector) for vector in vectors] for vectors in parts]).sum(axis=0)
    return block.with_vectors(
        np.concatenate([vector for entry in zip(*parts, strict=True) for vector in entry]), lengths
    )
