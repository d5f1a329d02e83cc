"""copy-int-vector: copy vectors of integers."""

import io_ark
from io_ark.codecs import PlainIntVectorCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import are_tables, map_table, pack_if_possible
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.tables import Tables

USAGE = """
Copies vectors of integers, such as alignments.

Usage: copy-int-vector [options] <vector-rspecifier> <vector-wspecifier>
   or: copy-int-vector [options] <vector-rxfilename> <vector-wxfilename>
e.g.:  copy-int-vector --binary=false foo -
       copy-int-vector ark:1.ali ark,t:-
"""


@program("copy-int-vector", USAGE, FileOptions)
def main(options: FileOptions, source: str, target: str) -> int:
    """Copy a table or a single file of integer vectors. Return 1 for a table without output, otherwise 0."""
    if are_tables(source, target):
        with Tables() as tables:
            writer = tables.open_writer("int-vector", target)
            counts = map_table(tables.read("int-vector", source), writer, lambda block: pack_if_possible(block, writer))
        logger.info("Copied %d vectors of int32.", counts.done)
        return counts.status
    codec = PlainIntVectorCodec()
    io_ark.save(target, io_ark.load(source, kind=codec), kind=codec, binary=options.binary)
    logger.info("Copied vector to %s", target)
    return 0
