"""feat-to-dim: write the dimension of features."""

import io_ark
from io_ark.codecs import InfoCodec
from io_ark.errors import ArkError
from io_ark.tables.overwriting import refuse_overwriting
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import OptionError

USAGE = """
Writes the dimension of features. The output is a file with the dimension of the first utterance or, given a
wspecifier, a table of the dimensions of all utterances.

Usage: feat-to-dim [options] <feats-rspecifier> <dim-wxfilename>
   or: feat-to-dim [options] <feats-rspecifier> <dim-wspecifier>
e.g.:  feat-to-dim scp:feats.scp -
"""


@program("feat-to-dim", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Write a table of dimensions, or the dimension of the first utterance to a file. Return the exit status 0."""
    codec = InfoCodec("matrix")
    if io_ark.is_table_wspecifier(target):
        convert_table(lambda block: block.with_numbers(block.shapes[:, 1]), codec, source, target, kind_out="int")
        return 0
    refuse_overwriting(target, [source])  # The output is opened too late to notice an overwritten input.
    with Tables() as tables:
        blocks = tables.read(codec, source)
        try:
            first_block = next(blocks, None)
        except ArkError:
            write_text(target, "")  # Kaldi opens the output before it reads a script file's first object.
            raise
        if first_block is None:
            raise OptionError(f"Could not read any features from {source} (empty archive?)")
        write_text(target, f"{first_block.shapes[0, 1]}\n")
    return 0
