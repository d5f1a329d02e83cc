"""A batch's audio as one row of samples, without padding, for devices that need much work at once.

Utterances follow each other, each starting at a multiple of the frame shift. So all frames of the row lie on one grid.
Frames across a border between utterances are computed too and dropped: about two per utterance.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.dump.noise import frame_seeds, utterance_state
from kaldi_compat.functional.frames import num_frames, reflected
from kaldi_compat.options.spectral import FrameOptions

__all__ = ["FRAMES_AT_ONCE", "Row", "RowNoise", "Samples", "pack"]

Samples = npt.NDArray[np.int16] | npt.NDArray[np.float32]

# Rows are rounded up to a multiple of this many frames, since cuFFT makes a plan for each number of frames.
FRAMES_AT_ONCE = 1024


@dataclass(frozen=True)
class Row:
    """Utterances on one grid of frames.

    Attributes:
        samples: all audio, int16, or float32 if it was resampled; in pinned memory if it will be copied to a GPU.
        first_frames: index on the grid of each utterance's first frame.
        counts: number of frames of each utterance.
        frames: number of frames of the grid.
    """

    samples: Tensor
    first_frames: tuple[int, ...]
    counts: tuple[int, ...]
    frames: int


def pack(utterances: Sequence[Samples], options: FrameOptions, *, pinned: bool = False) -> Row:
    """Put utterances on one grid of frames.

    >>> row = pack([np.zeros(1000, np.int16), np.zeros(500, np.int16)], FrameOptions())
    >>> row.first_frames, row.counts, len(row.samples)
    ((0, 7), (4, 1), 164080)
    """
    size, shift = options.window_size, options.window_shift
    counts = [num_frames(len(each), size, shift, options.snip_edges) for each in utterances]
    first_frames, at = [], 0
    for each, count in zip(utterances, counts, strict=True):
        first_frames.append(at)
        # Without snip_edges, an utterance takes as many samples as its frames span.
        span = len(each) if options.snip_edges else (count - 1) * shift + size if count else 0
        at += -(-span // shift)
    frames = -(-max(at, 1) // FRAMES_AT_ONCE) * FRAMES_AT_ONCE
    dtype = torch.float32 if utterances and utterances[0].dtype == np.float32 else torch.int16
    samples = torch.zeros((frames - 1) * shift + size, dtype=dtype, pin_memory=pinned)
    place = samples.numpy()
    for each, first, count in zip(utterances, first_frames, counts, strict=True):
        audio = each if options.snip_edges else _with_reflections(each, count, options)
        place[first * shift : first * shift + len(audio)] = audio
    return Row(samples, tuple(first_frames), tuple(counts), frames)


def _with_reflections(samples: Samples, count: int, options: FrameOptions) -> Samples:
    """Return the samples that the frames span, which extend beyond both ends of the audio."""
    if count == 0:
        return samples[:0]
    size, shift = options.window_size, options.window_shift
    first = shift // 2 - size // 2
    index = reflected(torch.arange(first, first + (count - 1) * shift + size), len(samples))
    extended: Samples = samples[index.numpy()]
    return extended


class RowNoise:
    """Replaces Kaldi's generator for the frames of a row; each utterance has the noise of UtteranceNoise."""

    def __init__(self, row: Row, keys: Sequence[str], seed: int) -> None:
        self._seeds = np.zeros(row.frames, np.int32)
        for key, first, count in zip(keys, row.first_frames, row.counts, strict=True):
            self._seeds[first : first + count] = frame_seeds(utterance_state(seed, key), 0, count)

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return states for the noise of all frames of the row."""
        return self._seeds[:count]

    def part(self, first: int) -> RowNoise:
        """Return the noise of the frames from ``first`` on."""
        rest = copy.copy(self)
        rest._seeds = self._seeds[first:]
        return rest
