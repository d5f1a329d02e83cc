"""compute-vad: detect voiced frames by their energy."""

from __future__ import annotations

from dataclasses import dataclass

from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.program import program
from kaldi_compat.exact import ragged
from kaldi_compat.functional.vad import compute_vad
from kaldi_compat.options.base import option
from kaldi_compat.options.postprocessing import VadOptions

USAGE = """
Detects voiced frames for speaker recognition: writes a vector per utterance with 1 for voiced and 0 for unvoiced
frames. A frame is voiced if enough of the frames around it have a log energy (the first column) above a threshold.

Usage: compute-vad [options] <feats-rspecifier> <vad-wspecifier>
e.g.:  compute-vad scp:feats.scp ark:vad.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options(VadOptions):
    """Options of compute-vad."""

    omit_unvoiced_utts: bool = option(False, "write no output for utterances without any voiced frame")


@program("compute-vad", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Detect voiced frames in a table. The status is 0 if an utterance has a voiced frame."""
    frames = voiced_frames = voiced = unvoiced = 0

    def judge(key: str, feats: Matrix) -> Vector:
        nonlocal frames, voiced_frames, voiced, unvoiced
        if len(feats) == 0:
            raise Skip(f"Empty feature matrix for utterance {key}")
        decision = compute_vad(feats, options)
        count = int(decision.sum(dtype=int))
        frames += len(decision)
        voiced_frames += count
        if count:
            voiced += 1
            return decision
        unvoiced += 1
        if options.omit_unvoiced_utts:
            raise Skip(f"No frames were judged voiced for utterance {key}")
        logger.warning("No frames were judged voiced for utterance %s", key)
        return decision

    def of_block(block: ArrayBlock) -> ArrayBlock | None:
        nonlocal frames, voiced_frames, voiced
        feats = block.matrix()
        if feats is None:
            return None
        decisions, numbers = ragged.voiced(feats, block.rows(), options)
        if not numbers.all():
            return None
        frames += len(decisions)
        voiced_frames += int(numbers.sum())
        voiced += len(numbers)
        return block.with_vectors(decisions)

    counts = convert_table("matrix", source, target, judge, kind_out="vector", block_function=of_block)
    logger.info(
        "Applied energy based voice activity detection; processed %d utterances successfully; "
        "%d had empty features, and %d were completely unvoiced.",
        voiced,
        counts.total - voiced - unvoiced,
        unvoiced,
    )
    if frames:
        logger.info("Proportion of voiced frames was %g over %d frames.", voiced_frames / frames, frames)
    return 0 if voiced else 1
