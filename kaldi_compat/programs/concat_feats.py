"""concat-feats: concatenate the features of several files in time."""

import numpy as np

import io_ark
from io_ark.text import format_count
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.options.base import require

USAGE = """
Concatenates the frames of several files, which must have the same dimension.

Usage: concat-feats [options] <feats-rxfilename1> <feats-rxfilename2> [<feats-rxfilename3> ...] <feats-wxfilename>
e.g.:  concat-feats mfcc/foo.ark:12343 mfcc/foo.ark:56789 -
"""


@program("concat-feats", USAGE, FileOptions, min_arguments=3)
def main(options: FileOptions, *sources_and_target: str) -> int:
    """Concatenate the frames of several files into one file, and return the exit status 0."""
    *sources, target = sources_and_target
    matrices = [io_ark.load(source, kind="matrix") for source in sources]
    for source, matrix in zip(sources, matrices, strict=True):
        require(
            matrix.shape[1] == matrices[0].shape[1],
            f"{source} has {format_count(matrix.shape[1], 'column')}, but {sources[0]} has {matrices[0].shape[1]}: "
            "concatenate features of one dimension",
        )
    io_ark.save(target, np.concatenate(matrices), kind="matrix", binary=options.binary)
    return 0
