"""feat-to-len: write the number of frames of each utterance, or print the total."""

from __future__ import annotations

from typing import Any

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
        with io_ark.SequentialReader[Shaped](codec, source, blocks=True) as reader:
            write_text("-", f"{sum(map(frames_of, reader.blocks()))}\n")
    else:
        with (
            io_ark.Writer[int]("int", target) as writer,
            io_ark.SequentialReader[Shaped](codec, source, blocks=True) as reader,
        ):
            map_table(
                reader,
                writer,
                lambda _, feats: feats.shape[0],
                lambda block: block.with_numbers(block.shapes[:, 0]),
            )
    return 0


def frames_of(item: Any) -> int:
    """Return the number of frames of an entry, or of all entries of a block."""
    return int(item[1].shape[0] if isinstance(item, tuple) else item.shapes[:, 0].sum())
