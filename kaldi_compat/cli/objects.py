"""Name the types of objects in tables, and measure audio or select its channels."""

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
    """Compute the duration of ``num_samples`` samples at ``rate`` Hz in seconds, rounded to float32 as in Kaldi."""
    return float(np.float32(num_samples) / np.float32(rate))


def list_waves(block: Block) -> list[Wave]:
    """Return the audio of each entry of a block."""
    return [wave for _, wave in block.entries()]


def compute_durations(block: Block) -> npt.NDArray[np.float64]:
    """Compute the duration of each entry's audio in seconds, float64 (entries,), rounded to float32 as in Kaldi."""
    if isinstance(block, WaveBlock):
        return block.compute_durations()
    return np.array([compute_duration(wave.samples.shape[1], wave.sample_frequency) for wave in list_waves(block)])


def select_channel(block: Block, channel: int) -> WaveBlock:
    """Return a block with one channel of each entry's audio.

    Args:
        block: the audio.
        channel: index of an existing channel, or a negative number to select the first channel, and to warn if there
            are other channels.

    Raises:
        Skip: a block of several entries contains audio with several channels, or samples that are not 16-bit.
    """
    if isinstance(block, WaveBlock):
        return block
    if len(block) > 1:
        raise Skip  # An empty Skip asks the caller to split the block.
    (wave,) = list_waves(block)
    if channel < 0 and len(wave.samples) > 1:
        logger.warning(
            "Channel not specified but you have data with %d channels; defaulting to zero", len(wave.samples)
        )
    (key,) = block.decode_keys()
    return WaveBlock.from_wave(key, wave._replace(samples=wave.samples[max(channel, 0) :][:1]))
