"""A batch's audio as one row of samples, without padding, for a device that wants much at once.

Utterances stand one after the other, each starting at a multiple of the frame shift. So all frames of the row lie on
one grid, and those that reach over a border between utterances are computed too and thrown away: some two in an
utterance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.dump.noise import frame_seeds, utterance_state
from kaldi_compat.functional.frames import num_frames, reflected
from kaldi_compat.options.spectral import FrameOptions

Samples = npt.NDArray[np.int16]

# Rows come in multiples of so many frames: cuFFT makes and keeps a plan for each number of frames that it meets.
FRAMES_AT_ONCE = 1024


@dataclass(frozen=True)
class Row:
    """Utterances on one grid of frames.

    Attributes:
        samples: all audio, int16; in pinned memory if a GPU is to fetch it.
        first_frames: where on the grid each utterance starts.
        counts: how many frames each has.
        frames: of the grid.
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
        # Where edges are not cut off, an utterance takes as many samples as its frames span.
        span = len(each) if options.snip_edges else (count - 1) * shift + size if count else 0
        at += -(-span // shift)
    frames = -(-max(at, 1) // FRAMES_AT_ONCE) * FRAMES_AT_ONCE
    samples = torch.zeros((frames - 1) * shift + size, dtype=torch.int16, pin_memory=pinned)
    place = samples.numpy()
    for each, first, count in zip(utterances, first_frames, counts, strict=True):
        audio = each if options.snip_edges else _with_reflections(each, count, options)
        place[first * shift : first * shift + len(audio)] = audio
    return Row(samples, tuple(first_frames), tuple(counts), frames)


def _with_reflections(samples: Samples, count: int, options: FrameOptions) -> Samples:
    """The samples that the frames span, which reach beyond both ends of the audio."""
    if count == 0:
        return samples[:0]
    size, shift = options.window_size, options.window_shift
    first = shift // 2 - size // 2
    index = reflected(torch.arange(first, first + (count - 1) * shift + size), len(samples))
    extended: Samples = samples[index.numpy()]
    return extended


class RowNoise:
    """Stands where Kaldi's generator stands, for the frames of a row: each utterance's as UtteranceNoise has them."""

    def __init__(self, row: Row, keys: Sequence[str], seed: int) -> None:
        self._seeds = np.zeros(row.frames, np.int32)
        for key, first, count in zip(keys, row.first_frames, row.counts, strict=True):
            self._seeds[first : first + count] = frame_seeds(utterance_state(seed, key), 0, count)

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """States for the noise of all frames of the row."""
        return self._seeds[:count]


def padded(features: Tensor, first_frames: Tensor, longest: int) -> Tensor:
    """Utterances of a row's features, which start at these frames, as a padded batch (B, longest, dim).

    What stands past an utterance's own frames is of no meaning.
    """
    index = first_frames.unsqueeze(1) + torch.arange(longest, device=features.device)
    return features[index.clamp(max=len(features) - 1)]
