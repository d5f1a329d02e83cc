"""get-post-on-ali: look up the posteriors of an alignment's integers."""

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from io_ark.text import format_count
from kaldi_compat.cli.alignments import get_pair_frames, make_frame_vectors
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError

USAGE = """
Writes, for each frame, the posterior of the integer that an alignment has there. The posterior is 0 if the frame does
not list the integer.

Usage: get-post-on-ali [options] <posteriors-rspecifier> <alignments-rspecifier> <weights-wspecifier>
e.g.:  get-post-on-ali ark:post.ark ark,s,cs:ali.ark ark:weights.ark
"""


@program("get-post-on-ali", USAGE)
def main(options: NoOptions, source: str, alignments: str, target: str) -> int:
    """Write the weight of each frame's aligned integer. As in Kaldi, the exit status is 0 even for an empty table."""
    with Tables() as tables:
        blocks = tables.read(PosteriorArraysCodec(), source, is_needed=lambda key: table.has_key(key), min_bytes=0)
        table, writer = tables.open_lookup("int-vector", alignments), tables.open_writer("vector", target)
        counts = map_table(
            blocks, writer, lambda block: look_up_weights(block, table.require_values(block, lambda key: ""))
        )
    logger.info(
        "Done getting the posteriors under the alignment path for %d utterances. %d with missing alignments.",
        counts.done, counts.failed,
    )  # fmt: skip
    return 0


def look_up_weights(block: PosteriorBlock, alignments: list[npt.NDArray[np.int32]]) -> ArrayBlock:
    """Look up the weight of each frame's aligned integer. The weight is 0 if the frame does not list the integer.

    If a frame lists the integer twice, the first weight counts. ``alignments`` has the aligned integers (frames,) of
    each utterance.

    Raises:
        FeatureError: the posteriors and the alignment of an utterance differ in number of frames.
    """
    lengths = list(map(len, alignments))
    if lengths != block.frames.tolist():
        raise FeatureError(
            f"the posteriors have {format_count(block.frames[0], 'frame')}, but the alignment has {lengths[0]}: "
            "compute both from the same features"
        )
    frames = get_pair_frames(block.posteriors)
    # The matches are in reverse order, so that the first weight of a frame is assigned last.
    matches = np.flatnonzero(np.concatenate(alignments)[frames] == block.posteriors.integers)[::-1]
    values = np.zeros(sum(lengths), np.float32)
    values[frames[matches]] = block.posteriors.weights[matches]
    return make_frame_vectors(block, values)
