"""compute-vad: detect voiced frames by their energy."""

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.program import program
from kaldi_compat.functional import block_vad as vad
from kaldi_compat.options.declaration import option
from kaldi_compat.options.postprocessing import VadOptions

USAGE = """
Detects voiced frames for speaker recognition. Writes a vector for each utterance, with 1 for voiced and 0 for unvoiced
frames. A frame is voiced if enough of the frames around it have a log energy (the first column) above a threshold.

Usage: compute-vad [options] <feats-rspecifier> <vad-wspecifier>
e.g.:  compute-vad scp:feats.scp ark:vad.ark
"""


class Options(VadOptions):
    omit_unvoiced_utts: bool = option(False, "write no output for utterances without any voiced frame")


@program("compute-vad", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Detect the voiced frames of a table. The exit status is 0 if an utterance has a voiced frame, otherwise 1."""
    num_frames = num_voiced_frames = num_voiced_utts = num_unvoiced_utts = 0

    def detect_voiced_frames(block: ArrayBlock) -> ArrayBlock:
        """Return a vector (frames,) for each utterance, 1 for voiced and 0 for unvoiced frames. Update the counts.

        With ``--omit-unvoiced-utts``, utterances without voiced frames are dropped. Raise Skip for empty features.
        """
        nonlocal num_frames, num_voiced_frames, num_voiced_utts, num_unvoiced_utts
        feats = stack_rows(block)
        if feats.size == 0:
            raise Skip(f"Empty feature matrix for utterance {block.decode_keys()[0]}")
        decisions, voiced_counts = vad.detect_voiced(feats, block.compute_row_bounds(), options)
        num_frames += len(decisions)
        num_voiced_frames += int(voiced_counts.sum())
        num_voiced_utts += int((voiced_counts > 0).sum())
        num_unvoiced_utts += int((voiced_counts == 0).sum())
        for key, count in zip(block.decode_keys(), voiced_counts.tolist(), strict=True):
            if count == 0:
                logger.warning("No frames were judged voiced for utterance %s", key)
        decision_block = block.with_vectors(decisions)
        return decision_block.select(voiced_counts > 0) if options.omit_unvoiced_utts else decision_block

    counts = convert_table(detect_voiced_frames, "matrix", source, target, kind_out="vector")
    logger.info(
        "Applied energy based voice activity detection; processed %d utterances successfully; "
        "%d had empty features, and %d were completely unvoiced.",
        num_voiced_utts, counts.total - num_voiced_utts - num_unvoiced_utts, num_unvoiced_utts,
    )  # fmt: skip
    if num_frames:
        logger.info("Proportion of voiced frames was %g over %g frames.", num_voiced_frames / num_frames, num_frames)
    return 0 if num_voiced_utts else 1
