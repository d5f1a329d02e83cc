"""paste-vectors: concatenate vectors of several tables."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import combine_tables
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Appends to each vector of the first table the vectors of the other tables with the same key. Keys that are not in the
first table are left out.

Usage: paste-vectors [options] <rspecifier1> <rspecifier2> [<rspecifier3> ...] <wspecifier>
e.g.:  paste-vectors ark:1.vec ark:2.vec ark,t:-
"""


@program("paste-vectors", USAGE, min_arguments=3)
def main(options: NoOptions, source: str, *others_and_target: str) -> int:
    """Concatenate the vectors that several tables have under each key. Return 0 if there is output, otherwise 255."""
    *others, target = others_and_target
    return combine_tables("vector", source, others, target, concatenate_vectors)


def concatenate_vectors(
    tables: Sequence[Sequence[Vector]], keys: Sequence[str]
) -> tuple[Vector, npt.NDArray[np.int64]]:
    """Concatenate the vectors of each entry. ``tables[t][e]`` is the vector of entry e in table t.

    Return the elements of all results, and the numbers (entries,) of elements of the results. ``keys`` is not used.
    """
    lengths = np.array([[len(vector) for vector in vectors] for vectors in tables]).sum(axis=0)
    return np.concatenate([vector for entry in zip(*tables, strict=True) for vector in entry]), lengths
