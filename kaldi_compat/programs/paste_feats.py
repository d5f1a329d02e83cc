"""paste-feats: append features of several tables frame by frame."""

from functools import partial

import io_ark
from kaldi_compat.cli.paste import combine_files, combine_tables, paste_columns
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.options.declaration import option

USAGE = """
Appends features of several tables (or files) to each other, frame by frame.

Usage: paste-feats [options] <feats-rspecifier1> <feats-rspecifier2> [<feats-rspecifier3> ...] <feats-wspecifier>
   or: paste-feats [options] <feats-rxfilename1> <feats-rxfilename2> [<feats-rxfilename3> ...] <feats-wxfilename>
e.g.:  paste-feats ark:feats1.ark "ark:select-feats 0-3 ark:feats2.ark ark:- |" ark:feats-out.ark
       paste-feats foo.mat bar.mat baz.mat
"""


class Options(FileOptions):
    length_tolerance: int = option(
        0, "truncate to the shortest if numbers of frames differ by at most this; skip others"
    )


@program("paste-feats", USAGE, Options, min_arguments=3)
def main(options: Options, source: str, *others_and_target: str) -> int:
    """Paste the columns of several tables or files. Return 0 with output, else 255 for tables or 1 for files."""
    *others, target = others_and_target
    paste = partial(paste_columns, tolerance=options.length_tolerance)
    if io_ark.is_table_rspecifier(source):
        return combine_tables("matrix", source, others, target, paste)
    names = [source, *others]
    return combine_files("matrix", names, target, paste, binary=options.binary, label="appended features")
