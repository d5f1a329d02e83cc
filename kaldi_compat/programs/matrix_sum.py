"""matrix-sum: add up matrices of several tables, of one table, or of several files."""

from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.sums import recognize_form, sum_files, sum_table, sum_tables
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import as_float32, require
from kaldi_compat.options.declaration import option

USAGE = """
Adds up matrices. These are the matrices of each key in several tables, all matrices of one table, or the matrices in
several files.

Usage: matrix-sum [options] <rspecifier1> [<rspecifier2> ...] <wspecifier>
   or: matrix-sum [options] <rspecifier> <wxfilename>
   or: matrix-sum [options] <rxfilename1> [<rxfilename2> ...] <wxfilename>
e.g.:  matrix-sum --scale2=-1 ark:1.ark ark:2.ark ark:difference.ark
       matrix-sum --binary=false scp:data/train/cmvn.scp global_cmvn.stats
"""


class Options(FileOptions):
    average: bool = option(False, "divide the sum by the number of tables or files")
    scale1: float = option(1.0, "factor on the first of several tables")
    scale2: float = option(1.0, "factor on the second of several tables")


@program("matrix-sum", USAGE, Options, min_arguments=2)
def main(options: Options, *sources_and_target: str) -> int:
    """Add up tables, the entries of a table, or files. Return 1 for wrong arguments or many skipped entries, else 0."""
    form, count = recognize_form(sources_and_target), len(sources_and_target) - 1
    if form == "none":
        return main.report_usage_error()
    if form == "tables":
        scales = [1.0 / count] * count if options.average else [options.scale1, options.scale2, *[1.0] * count][:count]
        return sum_tables("matrix", sources_and_target, scales[0], scales[1:])
    require(
        as_float32(options.scale1) == as_float32(options.scale2) == 1.0,
        "--scale1 and --scale2 need several tables: name tables or remove the options",
    )
    if form == "files":
        return sum_files("matrix", sources_and_target, average=options.average, binary=options.binary)
    if options.average:
        raise OptionError("--average option not compatible with type two usage.")
    return sum_table("matrix", *sources_and_target, average=False, binary=options.binary)
