"""copy-feats-to-htk: write the features of each utterance to a file in HTK format."""

from typing import Any

from io_ark.codecs.htk import encode_htk_block
from kaldi_compat.cli.files import Encode, FileSink
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import visit_blocks
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Writes the features of each utterance to a file in HTK format. The file is named after the utterance.

Usage: copy-feats-to-htk [options] <feats-rspecifier>
e.g.:  copy-feats-to-htk --output-dir=htk --output-ext=fea scp:feats.scp
"""


class Options(BaseOptions):
    output_ext: str = option("fea", "extension of the files")
    output_dir: str = option("./", "directory of the files; created if its parent exists")
    sample_period: int = option(100000, "sampPeriod of the HTK header: the frame shift in units of 100 ns")
    sample_kind: int = option(
        9, "parmKind of the HTK header: 6 MFCC, 7 FBANK, 9 USER, 11 PLP, plus HTK's bits for energy, deltas etc."
    )


@program("copy-feats-to-htk", USAGE, Options)
def main(options: Options, source: str) -> int:
    """Write an HTK file for each matrix of a table. Return 0 if there are matrices and all are written, else 1."""
    kind = options.sample_kind % 2**16  # As in Kaldi, the header takes the lowest 16 bits.
    return write_files(options, source, "HTK", lambda block: encode_htk_block(block, options.sample_period, kind))


def write_files(options: Any, source: str, file_format: str, encode: Encode) -> int:
    """Write each matrix of a table, encoded by ``encode``, to a file.

    ``options`` has ``output_dir`` and ``output_ext``. ``file_format`` is the name of the format in messages.
    Return 0 if there are matrices and all are written, otherwise 1.
    """
    sink = FileSink(options.output_dir, options.output_ext, file_format, encode, source)
    with Tables() as tables:
        counts = visit_blocks(sink.write, tables.read("matrix", source))
    # The word is misspelled as in Kaldi's message, for which scripts may search.
    logger.info("%d %s feature files generated in the direcory: %s", counts.done, file_format, options.output_dir)
    return 1 if counts.failed else counts.status
