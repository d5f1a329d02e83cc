"""copy-feats-to-sphinx: write the features of each utterance to a file in Sphinx format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from io_ark.codecs.sphinx import encode_block
from kaldi_compat.cli.files import FileSink
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import for_each
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Writes the features of each utterance to a file in Sphinx format, named after the utterance.

Usage: copy-feats-to-sphinx [options] <feats-rspecifier>
e.g.:  copy-feats-to-sphinx --output-dir=sphinx --output-ext=mfc scp:feats.scp
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of copy-feats-to-sphinx."""

    output_ext: str = option("mfc", "extension of the files")
    output_dir: str = option("./", "directory of the files; created if its parent exists")


@program("copy-feats-to-sphinx", USAGE, Options)
def main(options: Options, source: str) -> int:
    """Write the files."""
    sink = FileSink(options.output_dir, options.output_ext, "Sphinx", partial(encode_block, big_endian=False))
    with Tables() as tables:
        counts = for_each(sink.write, tables.read("matrix", source))
    # The misspelt word is Kaldi's.
    logger.info("%d Sphinx feature files generated in the direcory: %s", counts.done, options.output_dir)
    return 1 if counts.failed else counts.status
