"""multiply-vectors: multiply vectors element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import OtherTables, common_lengths, joined
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Multiplies vectors of several tables (or files) element by element.

Usage: multiply-vectors [options] <rspecifier1> <rspecifier2> [<rspecifier3> ...] <wspecifier>
   or: multiply-vectors [options] <rxfilename1> <rxfilename2> [<rxfilename3> ...] <wxfilename>
e.g.:  multiply-vectors ark:1.ark ark:2.ark ark:out.ark
       multiply-vectors foo.vec bar.vec baz.vec
"""

Lengths = npt.NDArray[np.int64]


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
    with Tables() as tables:
        writer, blocks = tables.write("vector", target), tables.read("vector", source)
        factors = OtherTables(tables, "vector", others)

        def multiply(block: ArrayBlock) -> ArrayBlock:
            return block.with_vectors(*product(factors.find(block), options.length_tolerance, block.names()))

        counts = map_table(blocks, writer, multiply)
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def multiply_files(options: Options, sources: Sequence[str], target: str) -> int:
    """Multiply single files."""
    vectors = [io_ark.read_object("vector", name) for name in sources]
    try:
        result, _ = product([[each] for each in vectors], options.length_tolerance, [""])
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    io_ark.write_object("vector", target, result, binary=options.binary)
    logger.info("Wrote multiplied vector to %s", target)
    return 0


def product(factors: Sequence[Sequence[Vector]], tolerance: int, keys: Sequence[str]) -> tuple[Vector, Lengths]:
    """Multiply vectors, truncated to the shortest.

    Args:
        factors: of each table, the factor for each entry.
        tolerance: by how much the lengths of an entry's factors may differ.
        keys: of the entries.

    Returns:
        The elements of all products, and how many each has.

    Raises:
        Skip: the lengths differ by more than the tolerance, or one is empty.
    """
    lengths = common_lengths(factors, tolerance, keys)
    return reduce(np.multiply, [joined(each, lengths) for each in factors]), np.array(lengths)
