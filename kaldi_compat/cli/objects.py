"""Types of the objects in tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from io_ark.blocks import Block, Skip, Wave, WaveBlock
from kaldi_compat.cli.log import logger

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float32]
DoubleMatrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def compute_duration(num_samples: int, rate: float) -> float:
    """Return the length of audio in seconds, in single precision as in Kaldi (src/feat/wave-reader.h)."""
    return float(np.float32(num_samples) / np.float32(rate))


def list_waves(block: Block) -> list[Wave]:
    """Return the audio of a block's entries."""
    return [wave for _, wave in block.entries()]


def compute_durations(block: Block) -> npt.NDArray[np.float64]:
    """Return the length of each entry's audio in seconds, in single precision as in Kaldi."""
    if isinstance(block, WaveBlock):
        return block.durations()
    return np.array([compute_duration(wave.samples.shape[1], wave.sample_frequency) for wave in list_waves(block)])


def select_channel(block: Block, channel: int) -> WaveBlock:
    """Return a channel of each entry's audio.

    Args:
        block: the audio.
        channel: number of the channel, from 0. If it is negative, the audio should have one channel; the first is
            returned, with Kaldi's warning if there are more.

    Raises:
        Skip: a block of several entries has audio with several channels, or without 16-bit samples.
    """
    if isinstance(block, WaveBlock):
        return block
    if len(block) > 1:
        raise Skip
    (wave,) = list_waves(block)
    if channel < 0 and len(wave.samples) > 1:
        logger.warning(
            "Channel not specified but you have data with %d channels; defaulting to zero", len(wave.samples)
        )
    (key,) = block.names()
    return WaveBlock.of(key, wave._replace(samples=wave.samples[max(channel, 0) :][:1]))
