"""select-voiced-frames: keep the voiced frames of features."""

import numpy as np

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, stack_rows
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError

USAGE = """
Copies the voiced frames of features. The decisions, 1 for voiced and 0 for unvoiced, come from compute-vad or similar.

Usage: select-voiced-frames [options] <feats-rspecifier> <vad-rspecifier> <feats-wspecifier>
e.g.:  select-voiced-frames scp:feats.scp scp:vad.scp ark:-
"""


@program("select-voiced-frames", USAGE)
def main(options: NoOptions, source: str, decisions: str, target: str) -> int:
    """Copy the frames that the table ``decisions`` marks as voiced. Return 0 if an entry is written, otherwise 1."""
    with Tables() as tables:
        blocks, activity_table = tables.read("matrix", source), tables.open_lookup("vector", decisions)

        def select_frames(block: ArrayBlock) -> ArrayBlock:
            """Keep frames with activity 1. Raise Skip for empty features and missing, mismatched or zero activities.

            Raise FeatureError if an activity is neither 0 nor 1.
            """
            feats, (key, *_) = stack_rows(block), block.decode_keys()
            if feats.size == 0:
                raise Skip(f"Empty feature matrix for utterance {key}")
            activities = activity_table.require_values(block, lambda key: f"No VAD input found for utterance {key}")
            activity, lengths = np.concatenate(activities), block.shapes[:, 0]
            if not np.array_equal(list(map(len, activities)), lengths):
                raise Skip(
                    f"Mismatch in number for frames {len(feats)} for features and VAD {len(activity)}, "
                    f"for utterance {key}"
                )
            is_voiced = activity == 1
            voiced_counts = np.add.reduceat(is_voiced, block.compute_row_bounds()[:-1], dtype=np.int64)
            if not np.add.reduceat(activity != 0, block.compute_row_bounds()[:-1]).all():
                raise Skip(f"No features were judged as voiced for utterance {key}")
            if not (is_voiced | (activity == 0)).all():
                raise FeatureError("the voice activity of each frame must be 0 or 1: compute it with compute-vad")
            return block.with_rows(feats[is_voiced], voiced_counts)

        counts = map_table(blocks, tables.open_writer("matrix", target), select_frames)
    logger.info("Done selecting voiced frames; processed %d utterances, %d had errors.", counts.done, counts.failed)
    return counts.status
