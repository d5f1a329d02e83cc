"""feat-to-len: write the number of frames of each utterance, or print the total."""

from io_ark.blocks import ArrayBlock, ShapeBlock
from io_ark.codecs import InfoCodec
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables

USAGE = """
Counts the frames of features. Writes a table of the number of frames of each utterance or, without a wspecifier,
prints the total.

Usage: feat-to-len [options] <feats-rspecifier> [<lengths-wspecifier>]
e.g.:  feat-to-len scp:feats.scp ark,t:feats.lengths
       feat-to-len scp:feats.scp
"""


@program("feat-to-len", USAGE)
def main(options: NoOptions, source: str, target: str | None = None) -> int:
    """Write the number of frames of each utterance or, without ``target``, print their sum. The exit status is 0."""
    codec = InfoCodec("matrix")
    if target is not None:
        convert_table(count_rows, codec, source, target, kind_out="int", output_first=True)
        return 0
    with Tables() as tables:
        total = sum(int(block.shapes[:, 0].sum()) for block in tables.read(codec, source))
    write_text("-", f"{total}\n")
    return 0


def count_rows(block: ShapeBlock) -> ArrayBlock:
    """Return a block with the number of rows of each matrix."""
    return block.with_numbers(block.shapes[:, 0])
