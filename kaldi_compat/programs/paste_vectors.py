"""paste-vectors: concatenate vectors of several tables."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import LookupReader, lookup, map_table
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
        reader = stack.enter_context(io_ark.SequentialReader[Vector]("vector", source))
        readers = [(name, stack.enter_context(LookupReader[Vector]("vector", name))) for name in others]

        def paste(key: str, vector: Vector) -> Vector:
            return np.concatenate([vector, *(lookup(key, other, missing(key, name)) for name, other in readers)])

        counts = map_table(reader, writer, paste)
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS
