"""feat-to-len: write the number of frames of each utterance, or print the total."""

from __future__ import annotations

import io_ark
from io_ark.codecs.info import InfoCodec
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Shaped
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Writes a table of the number of frames of each utterance or, without a wspecifier, prints the total.

Usage: feat-to-len [options] <feats-rspecifier> [<lengths-wspecifier>]
e.g.:  feat-to-len scp:feats.scp ark,t:feats.lengths
       feat-to-len scp:feats.scp
"""


@program("feat-to-len", USAGE)
def main(options: NoOptions, source: str, target: str | None = None) -> int:
    """Write the table or print the total."""
    codec = InfoCodec("matrix")
    if target is None:
        with io_ark.SequentialReader[Shaped](codec, source) as reader:
            write_text("-", f"{sum(feats.shape[0] for _, feats in reader)}\n")
    else:
        with io_ark.Writer[int]("int", target) as writer, io_ark.SequentialReader[Shaped](codec, source) as reader:
            map_table(reader, writer, lambda _, feats: feats.shape[0])
    return 0
