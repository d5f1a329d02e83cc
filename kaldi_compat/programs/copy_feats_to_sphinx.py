"""copy-feats-to-sphinx: write the features of each utterance to a file in Sphinx format."""

from functools import partial

from io_ark.codecs.sphinx import encode_sphinx_block
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option
from kaldi_compat.programs.copy_feats_to_htk import write_files

USAGE = """
Writes the features of each utterance to a file in Sphinx format. The file is named after the utterance.

Usage: copy-feats-to-sphinx [options] <feats-rspecifier>
e.g.:  copy-feats-to-sphinx --output-dir=sphinx --output-ext=mfc scp:feats.scp
"""


class Options(BaseOptions):
    output_ext: str = option("mfc", "extension of the files")
    output_dir: str = option("./", "directory of the files; created if its parent exists")


@program("copy-feats-to-sphinx", USAGE, Options)
def main(options: Options, source: str) -> int:
    """Write a Sphinx file for each matrix of a table. Return 0 if there are matrices and all are written, else 1."""
    return write_files(options, source, "Sphinx", partial(encode_sphinx_block, big_endian=False))
