"""multiply-vectors: multiply vectors element by element."""

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np
import numpy.typing as npt

import io_ark
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import combine_files, combine_tables, find_common_lengths, join_arrays
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.options.declaration import option

USAGE = """
Multiplies vectors of several tables (or files) element by element.

Usage: multiply-vectors [options] <rspecifier1> <rspecifier2> [<rspecifier3> ...] <wspecifier>
   or: multiply-vectors [options] <rxfilename1> <rxfilename2> [<rxfilename3> ...] <wxfilename>
e.g.:  multiply-vectors ark:1.ark ark:2.ark ark:out.ark
       multiply-vectors foo.vec bar.vec baz.vec
"""

Lengths = npt.NDArray[np.int64]


class Options(FileOptions):
    length_tolerance: int = option(0, "truncate to the shortest if lengths differ by at most this; skip others")


@program("multiply-vectors", USAGE, Options, min_arguments=3)
def main(options: Options, source: str, *others_and_target: str) -> int:
    """Multiply the vectors of several tables or files. Return 0 with output, else 255 for tables or 1 for files."""
    *others, target = others_and_target
    multiply = partial(multiply_vectors, tolerance=options.length_tolerance)
    if io_ark.is_table_rspecifier(source):
        return combine_tables("vector", source, others, target, multiply)
    names = [source, *others]
    return combine_files("vector", names, target, multiply, binary=options.binary, label="multiplied vector")


def multiply_vectors(
    factors: Sequence[Sequence[Vector]], keys: Sequence[str], *, tolerance: int
) -> tuple[Vector, Lengths]:
    """Multiply each entry's vectors element by element, after truncating them to the length of the shortest vector.

    ``factors[t][e]`` is the vector of entry e in table t. ``keys`` are the keys of the entries, for messages, and
    ``tolerance`` is the maximum difference between the lengths of an entry's vectors.

    Returns:
        The elements of all products, and the numbers (entries,) of elements of the products.

    Raises:
        Skip: the lengths differ by more than the tolerance, or a vector is empty.
    """
    lengths = find_common_lengths(factors, tolerance, keys)
    return reduce(np.multiply, [join_arrays(vectors, lengths) for vectors in factors]), np.array(lengths)
