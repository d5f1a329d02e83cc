"""vector-sum: add up vectors of several tables, of one table, or of several files."""

from kaldi_compat.cli.program import program
from kaldi_compat.cli.sums import recognize_form, sum_files, sum_table, sum_tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Adds up vectors. These are the vectors of each key in several tables, all vectors of one table, or the vectors in
several files.

Usage: vector-sum [options] <rspecifier1> [<rspecifier2> ...] <wspecifier>
   or: vector-sum [options] <rspecifier> <wxfilename>
   or: vector-sum [options] <rxfilename1> [<rxfilename2> ...] <wxfilename>
e.g.:  vector-sum ark:1.weights ark:2.weights ark:combined.weights
       vector-sum --binary=false ark:vecs.ark sum.vec
"""


class Options(BaseOptions):
    average: bool = option(False, "divide the sum of one table by the number of its vectors")
    # Kaldi's program does not initialize this option. It is mostly false in usual builds, so the default here is false.
    binary: bool = option(False, "write a single file in binary (for tables, the wspecifier decides)")


@program("vector-sum", USAGE, Options, min_arguments=2)
def main(options: Options, *sources_and_target: str) -> int:
    """Add up tables, the entries of a table, or files. Return 1 for wrong arguments or many skipped entries, else 0."""
    form = recognize_form(sources_and_target)
    if form == "tables":
        return sum_tables("vector", sources_and_target, 1.0, [1.0] * (len(sources_and_target) - 2))
    if form == "table":
        return sum_table("vector", *sources_and_target, average=options.average, binary=options.binary)
    if form == "files":
        return sum_files("vector", sources_and_target, average=False, binary=options.binary)
    return main.report_usage_error()
