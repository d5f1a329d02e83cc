"""feat-to-dim: write the dimension of features."""

from __future__ import annotations

import io_ark
from io_ark.codecs.info import InfoCodec
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Shaped
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.errors import OptionError

USAGE = """
Writes the dimension of the first utterance's features to a file or, given a wspecifier, a table of all dimensions.

Usage: feat-to-dim [options] <feats-rspecifier> <dim-wxfilename>
   or: feat-to-dim [options] <feats-rspecifier> <dim-wspecifier>
e.g.:  feat-to-dim scp:feats.scp -
"""


@program("feat-to-dim", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Write the table of dimensions, or the first dimension."""
    to_table = io_ark.is_table_wspecifier(target)
    with io_ark.SequentialReader[Shaped](InfoCodec("matrix"), source, blocks=to_table) as reader:
        if to_table:
            with io_ark.Writer[int]("int", target) as writer:
                map_table(
                    reader,
                    writer,
                    lambda _, feats: feats.shape[1],
                    lambda block: block.with_numbers(block.shapes[:, 1]),
                )
        else:
            first = next(iter(reader), None)
            if first is None:
                raise OptionError(f"Could not read any features from {source} (empty archive?)")
            write_text(target, f"{first[1].shape[1]}\n")
    return 0
