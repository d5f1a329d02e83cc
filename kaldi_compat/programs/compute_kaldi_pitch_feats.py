"""compute-kaldi-pitch-feats: track the pitch of audio."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock, Block, WaveBlock
from kaldi_compat.cli.log import log_verbose, logger
from kaldi_compat.cli.loop import Counts, Sink, compute_results
from kaldi_compat.cli.objects import select_channel
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import AudioError
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.online import Analysis, compute_first_pass_pitch
from kaldi_compat.pitch.tracker import track_block

USAGE = """
Tracks the pitch of audio. Each frame has two features: the normalized cross-correlation (NCCF, from -1 to 1, higher in
voiced frames) and the pitch in Hz. They are usually piped into process-kaldi-pitch-feats.

Usage: compute-kaldi-pitch-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-kaldi-pitch-feats --sample-frequency=8000 scp:wav.scp ark:-

See also: process-kaldi-pitch-feats, compute-and-process-kaldi-pitch-feats
"""
LOG_EVERY = 50  # Number of utterances between two verbose messages about progress.


@program("compute-kaldi-pitch-feats", USAGE, PitchOptions)
def main(options: PitchOptions, source: str, target: str) -> int:
    """Track the pitch of a table of audio. The exit status is 0 if an utterance is written, otherwise 1."""
    track = partial(_track_first_pass if options.simulate_first_pass_online else track_utterances, options=options)
    with Tables() as tables:
        blocks, writer = tables.read("wave", source), tables.open_writer("matrix", target)
        audio = select_audio(tables.compute_ahead(blocks), options)
        return write_pitch(tables.map_in_threads(track, audio), writer).status


def _track_first_pass(block: WaveBlock, options: PitchOptions) -> ArrayBlock:
    """Track the pitch of a block of utterances as the first pass of online decoding does."""
    keys, analyses = analyze_utterances(block, options)
    return ArrayBlock.from_arrays(keys, [compute_first_pass_pitch(analysis, options) for analysis in analyses])


def select_audio(blocks: Iterable[Block], options: PitchOptions) -> Iterator[Any]:
    """Yield blocks with the audio of the first channel of each utterance, on the scale of 16-bit integers.

    Raises:
        AudioError: the sampling rate of an utterance differs from the options. Earlier utterances have been yielded.
    """

    def select_first_channel(block: Block) -> WaveBlock:
        """Select the first channel of each utterance of a block. Raise AudioError for a different sampling rate."""
        audio = select_channel(block, -1)
        if (audio.rates.astype(np.float32) != as_float32(options.sample_frequency)).any():
            raise AudioError(
                f"Sample frequency mismatch: you specified {options.sample_frequency:g} but data has "
                f"{audio.rates[0]:g} (use --sample-frequency option).  Utterance is {block.decode_keys()[0]}"
            )
        return audio

    return compute_results(select_first_channel, blocks, Counts())


def track_utterances(block: WaveBlock, options: PitchOptions) -> ArrayBlock:
    """Return the track (frames, 2) of each utterance of a block: the normalized correlation, and the pitch in Hz."""
    features, bounds = track_block(block.samples, block.starts, block.lengths, options)
    counts = np.diff(bounds)
    shapes = np.stack((counts, np.full_like(counts, features.shape[1])), axis=1)
    return ArrayBlock(block.keys, features.reshape(-1), shapes)


def analyze_utterances(block: WaveBlock, options: PitchOptions) -> tuple[list[str], list[Analysis]]:
    """Return the keys of a block, and the :class:`Analysis` of the pitch of each utterance."""
    ranges = zip(block.starts.tolist(), block.lengths.tolist(), strict=True)
    return block.decode_keys(), [
        Analysis.from_audio(block.samples[start : start + size], options) for start, size in ranges
    ]


def write_pitch(blocks: Iterable[ArrayBlock], writer: Sink) -> Counts:
    """Write blocks of pitch features, and count the utterances.

    As in Kaldi, utterances without frames are also written and counted as done, with a warning.
    """
    counts = Counts()
    for block in blocks:
        writer.write_block(_drop_empty_columns(block))
        for num_frames in block.shapes[:, 0].tolist():
            if num_frames == 0:
                logger.warning("No frames output in pitch extraction")
            counts.done += 1
            if counts.done % LOG_EVERY == 0:
                log_verbose(2, "Processed %d utterances", counts.done)
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts


def _drop_empty_columns(block: ArrayBlock) -> ArrayBlock:
    """Return the block with the shape (0, 0) for matrices without rows, as Kaldi writes such matrices."""
    is_empty = block.shapes[:, 0] == 0
    if not is_empty.any():
        return block
    shapes: Any = np.where(is_empty[:, None], 0, block.shapes)
    return replace(block, shapes=shapes)
