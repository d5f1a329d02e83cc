"""A batch's audio as one row of samples, without padding, for devices that need much work at once.

Utterances follow each other, each starting at a multiple of the frame shift. So all frames of the row lie on one grid.
Frames across a border between utterances are computed too and dropped: about two per utterance.

Threads read wave files into pinned memory in which the samples lie on such a grid already (:class:`PinnedMemory`), and
a row is put together on the GPU from what they have read. Audio that comes in another way (from archives, commands,
recordings with segments; resampled, with several channels, or reflected at its ends) is copied into pinned memory
first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat import kernels
from kaldi_compat.dump.entries import OnGrid
from kaldi_compat.dump.noise import frame_seeds, utterance_state
from kaldi_compat.dump.read import RowMemory
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.tensors.frames import num_frames, reflected

Samples = npt.NDArray[np.int16] | npt.NDArray[np.float32]

# Rows are rounded up to a multiple of this many frames, since cuFFT makes a plan for each number of frames.
FRAMES_AT_ONCE = 1024
# Bytes before the samples of nearly all wave files. Others come to lie beside the grid, and are copied.
HEADER = 44
# Samples from which on starting a copy to the GPU takes less time than copying them on the host, some 10 us.
LEAST_PIECE = 1 << 16


@dataclass(frozen=True)
class Row:
    """Utterances on one grid of frames.

    Attributes:
        pieces: where parts of the audio start, and their samples: int16, or float32 if they were resampled; in pinned
            memory if they will be copied to a GPU. What no piece covers is silence.
        length: number of samples.
        first_frames: index on the grid of each utterance's first frame.
        counts: number of frames of each utterance.
        frames: number of frames of the grid.
    """

    pieces: tuple[tuple[int, Tensor], ...]
    length: int
    first_frames: tuple[int, ...]
    counts: tuple[int, ...]
    frames: int


class PinnedMemory(RowMemory):
    """Pinned memory for wave files, whose samples come to lie at multiples of the frame shift.

    Args:
        shift: the frame shift in samples.
    """

    def __init__(self, shift: int) -> None:
        self._step = 2 * shift

    def allocate(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory of at least this many bytes: ordinary memory if there is no pinned memory left."""
        try:
            self.tensor = torch.empty(-(-size // 2), dtype=torch.int16, pin_memory=True)
        except RuntimeError as error:
            if not kernels.is_out_of_memory(error):
                raise
            self.tensor = None
            return super().allocate(size)
        memory: npt.NDArray[np.uint8] = self.tensor.numpy().view(np.uint8)
        return memory

    def place(self, end: int) -> int:
        """Return where a file is read to, after one that ends at ``end``."""
        return -(-(end + HEADER) // self._step) * self._step - HEADER


def pack(
    utterances: Sequence[Samples],
    options: FrameOptions,
    *,
    pinned: bool = False,
    places: Sequence[OnGrid | None] | None = None,
) -> Row:
    """Put utterances on one grid of frames.

    Args:
        utterances: samples of each.
        options: of the frames.
        pinned: use pinned memory.
        places: of each utterance's samples in pinned memory, if they are there; these are not copied.

    >>> row = pack([np.zeros(1000, np.int16), np.zeros(500, np.int16)], FrameOptions())
    >>> row.first_frames, row.counts, row.length
    ((0, 7), (4, 1), 164080)
    """
    size, shift = options.window_size, options.window_shift
    counts = [num_frames(len(each), size, shift, options.snip_edges) for each in utterances]
    # Without snip_edges, an utterance takes as many samples as its frames span.
    spans = [
        len(each) if options.snip_edges else (count - 1) * shift + size if count else 0
        for each, count in zip(utterances, counts, strict=True)
    ]
    first_frames: list[int] = []
    runs: list[tuple[int, int, OnGrid | None]] = []  # of utterances: the first, the end, and their place
    at = 0
    for first, end, place in _runs(spans, places or [None] * len(spans), shift):
        start = at
        for i in range(first, end):
            if place is not None and places and (own := places[i]) is not None:
                at = start + (own.start - place.start) // shift  # between files lies a header
            first_frames.append(at)
            at += -(-spans[i] // shift)
        runs.append((first, end, place))
    frames = -(-max(at, 1) // FRAMES_AT_ONCE) * FRAMES_AT_ONCE
    length = (frames - 1) * shift + size
    dtype = torch.float32 if utterances and utterances[0].dtype == np.float32 else torch.int16
    pieces: list[tuple[int, Tensor]] = []
    for first, end, place in runs or [(0, 0, None)]:
        begin = first_frames[first] * shift if first_frames else 0
        if place is not None:
            samples = first_frames[end - 1] * shift + spans[end - 1] - begin
            pieces.append((begin, place.tensor[place.start : place.start + samples]))
            continue
        stop = length if end == len(utterances) else first_frames[end] * shift
        copied = torch.zeros(stop - begin, dtype=dtype, pin_memory=pinned)
        row = copied.numpy()
        for i in range(first, end):
            audio = utterances[i] if options.snip_edges else _with_reflections(utterances[i], counts[i], options)
            row[first_frames[i] * shift - begin :][: len(audio)] = audio
        pieces.append((begin, copied))
    return Row(tuple(pieces), length, tuple(first_frames), tuple(counts), frames)


def _runs(
    spans: Sequence[int], places: Sequence[OnGrid | None], shift: int
) -> Iterator[tuple[int, int, OnGrid | None]]:
    """Yield runs of utterances, first and end, with the place of the first if they follow each other on a grid."""

    def follows(i: int) -> bool:
        place, before = places[i], places[i - 1]
        if place is None or before is None or place.tensor is not before.tensor:
            return False
        gap = place.start - before.start - -(-spans[i - 1] // shift) * shift
        return 0 <= gap <= 2 * shift and gap % shift == 0

    copied = first = 0
    for end in range(1, len(spans) + 1):
        if end < len(spans) and follows(end):
            continue
        place, last = places[first], places[end - 1]
        if place is not None and last is not None and last.start + spans[end - 1] - place.start >= LEAST_PIECE:
            if copied < first:
                yield copied, first, None
            yield first, end, place
            copied = end
        first = end
    if copied < len(spans):
        yield copied, len(spans), None


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
