"""matrix-dim: print the numbers of rows and columns of matrices."""

import io_ark
from io_ark.codecs import InfoCodec
from io_ark.streams import open_output
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables

USAGE = """
Prints the numbers of rows and columns of matrices. For a file, prints the two numbers, separated by a tab. For a
table, prints a line with the key and the two numbers for each matrix.

Usage: matrix-dim [options] (<matrix-rspecifier>|<matrix-rxfilename>)
e.g.:  matrix-dim final.mat | cut -f 2
"""


@program("matrix-dim", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print the sizes of the matrices in a table or a file. The exit status is 1 for an empty table, otherwise 0."""
    codec = InfoCodec("matrix")
    if not io_ark.is_table_rspecifier(source):
        rows, columns = io_ark.load(source, kind=codec).shape
        write_text("-", f"{rows}\t{columns}\n")
        return 0
    count = 0
    with Tables() as tables, open_output("-") as output:
        for block in tables.read(codec, source):
            lines = (f"{key}\t{info.shape[0]}\t{info.shape[1]}\n" for key, info in block.entries())
            output.write("".join(lines).encode(errors="surrogateescape"))
            count += len(block)
    if not count:
        logger.warning("No features read from rspecifier '%s'", source)
    return 0 if count else 1
