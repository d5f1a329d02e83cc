"""shift-feats: features moved in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import option

USAGE = """
Moves features in time without changing the number of frames; the frame at the edge is repeated.

Usage: shift-feats [options] <feats-rspecifier> <feats-wspecifier>
   or: shift-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.:  shift-feats --shift=-1 scp:foo.scp ark:bar.ark
       shift-feats --shift=1 foo.mat bar.mat
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of shift-feats."""

    shift: int = option(0, "frames by which the features move towards the end")
    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")


@program("shift-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Shift a table, or a single file."""
    counts = convert("matrix", source, target, lambda key, m: shifted(m, options.shift, key), binary=options.binary)
    logger.info("Shifted %d features by %d frames; %d with errors.", counts.done, options.shift, counts.failed)
    return counts.status


def shifted(matrix: Matrix, shift: int, key: str = "") -> Matrix:
    """Row ``r`` of the result is row ``r - shift``, or the nearest there is.

    Raises:
        Skip: the matrix is empty.
    """
    if len(matrix) == 0:
        raise Skip(f"{key} is empty" if key else "the matrix is empty")
    return matrix[np.clip(np.arange(len(matrix)) - shift, 0, len(matrix) - 1)]
