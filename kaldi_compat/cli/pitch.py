"""Shared code of the programs that track pitch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock, encode_keys
from io_ark.codecs.wave import AudioBlock, Wave
from kaldi_compat.cli.log import logger, vlog
from kaldi_compat.cli.loop import Counts, Sink, write_block
from kaldi_compat.cli.objects import audio_block
from kaldi_compat.errors import AudioError
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.tracker import Analysis, track_block

__all__ = ["analyses_of_block", "audio_blocks", "track_of_block", "write_pitch"]

LOG_EVERY = 50


def audio_blocks(reader: io_ark.SequentialReader[Wave], options: PitchOptions) -> Iterator[AudioBlock]:
    """Yield the first channel of each utterance in blocks.

    Raises:
        AudioError: an utterance has another sampling rate; those before it have been yielded.
    """
    for found in reader.blocks():
        item: Any = found if len(found) > 1 else next(found.entries())
        block = audio_block(item)
        if block is None:
            assert isinstance(item, tuple)
            key, wave = item
            if len(wave.samples) > 1:
                logger.warning(
                    "Channel not specified but you have data with %d channels; defaulting to zero", len(wave.samples)
                )
            block = AudioBlock.of(key, Wave(wave.sample_frequency, wave.samples[:1]))
        mismatch = np.flatnonzero(block.rates.astype(np.float64) != options.sample_frequency)
        if not len(mismatch):
            yield block
            continue
        first = int(mismatch[0])
        if first:
            names = block.names()[:first]
            yield replace(
                block,
                keys=encode_keys(names),
                starts=block.starts[:first],
                lengths=block.lengths[:first],
                rates=block.rates[:first],
            )
        raise AudioError(
            f"Sample frequency mismatch: you specified {options.sample_frequency:g} but data has "
            f"{block.rates[first]:g} (use --sample-frequency option).  Utterance is {block.names()[first]}"
        )


def track_of_block(block: AudioBlock, options: PitchOptions) -> ArrayBlock:
    """Track the pitch of a block of utterances."""
    features, rows = track_block(block.samples, block.starts, block.lengths, options)
    counts = np.diff(rows)
    shapes = np.stack((counts, np.full_like(counts, features.shape[1])), axis=1)
    return ArrayBlock(block.keys, features.reshape(-1), shapes)


def analyses_of_block(block: AudioBlock, options: PitchOptions) -> tuple[list[str], list[Analysis]]:
    """Analyse a block of utterances for the simulation of online decoding: keys and analyses."""
    places = zip(block.starts.tolist(), block.lengths.tolist(), strict=True)
    return block.names(), [Analysis.of(block.samples[a : a + n], options) for a, n in places]


def write_pitch(tracks: Iterable[ArrayBlock], writer: Sink) -> Counts:
    """Write blocks of pitch features and count them. As in Kaldi, utterances without frames are written, too."""
    counts = Counts()
    for block in tracks:
        write_block(writer, _without_empty_columns(block))
        for frames in block.shapes[:, 0].tolist():
            if frames == 0:
                logger.warning("No frames output in pitch extraction")
            counts.done += 1
            if counts.done % LOG_EVERY == 0:
                vlog(2, "Processed %d utterances", counts.done)
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts


def _without_empty_columns(block: ArrayBlock) -> ArrayBlock:
    """Return the block with the shape (0, 0) for matrices without rows."""
    empty = block.shapes[:, 0] == 0
    if not empty.any():
        return block
    shapes: Any = np.where(empty[:, None], 0, block.shapes)
    return replace(block, shapes=shapes)
