"""multiply-vectors: multiply vectors element by element."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, lookup, map_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import common_length, missing
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Multiplies vectors of several tables (or files) element by element.

Usage: multiply-vectors [options] <rspecifier1> <rspecifier2> [<rspecifier3> ...] <wspecifier>
   or: multiply-vectors [options] <rxfilename1> <rxfilename2> [<rxfilename3> ...] <wxfilename>
e.g.:  multiply-vectors ark:1.ark ark:2.ark ark:out.ark
       multiply-vectors foo.vec bar.vec baz.vec
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of multiply-vectors."""

    length_tolerance: int = option(0, "truncate to the shortest if lengths differ by at most this; skip others")
    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")


@program("multiply-vectors", USAGE, Options, at_least=3)
def main(options: Options, source: str, *others_and_target: str) -> int:
    """Multiply tables, or single files."""
    *others, target = others_and_target
    if not io_ark.is_table_rspecifier(source):
        return multiply_files(options, [source, *others], target)
    with ExitStack() as stack:
        writer = stack.enter_context(io_ark.Writer[Vector]("vector", target))
        reader = stack.enter_context(io_ark.SequentialReader[Vector]("vector", source, blocks=True))
        tables = [(name, BlockTable(stack.enter_context(LookupReader[Vector]("vector", name)))) for name in others]

        def multiply(key: str, vector: Vector) -> Vector:
            factors = [vector, *(lookup(key, other, missing(key, name)) for name, other in tables)]
            return product(factors, options.length_tolerance, key)

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            names, values = block.names(), block.values
            if options.length_tolerance < 0:  # refuses equal lengths, too
                return None
            found = [table.values(names) for _, table in tables]
            for vectors in found:
                if vectors is None or not np.array_equal([len(each) for each in vectors], block.shapes[:, 0]):
                    return None
                values = values * np.concatenate(vectors)
            return block.with_vectors(values) if block.shapes[:, 0].all() else None

        counts = map_table(reader, writer, multiply, of_block)
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def multiply_files(options: Options, sources: Sequence[str], target: str) -> int:
    """Multiply single files."""
    try:
        result = product([io_ark.read_object("vector", name) for name in sources], options.length_tolerance)
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    io_ark.write_object("vector", target, result, binary=options.binary)
    logger.info("Wrote multiplied vector to %s", target)
    return 0


def product(vectors: Sequence[Vector], tolerance: int, key: str = "") -> Vector:
    """Multiply vectors, truncated to the shortest.

    Raises:
        Skip: the lengths differ by more than the tolerance, or one is empty.
    """
    shortest = common_length(list(map(len, vectors)), tolerance, key)
    result = np.ones(shortest, np.float32)
    for vector in vectors:
        result *= vector[:shortest]
    return result
