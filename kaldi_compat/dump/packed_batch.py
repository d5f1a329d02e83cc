"""A batch's audio as one row of samples, without padding, for devices that need much work at once.

Utterances follow each other, each starting at a multiple of the frame shift. So all frames of the row lie on one grid.
Frames across a border between utterances are computed too and dropped: about two per utterance.

Threads read wave files into pinned memory in which the samples lie on such a grid already (:class:`PinnedMemory`), and
a row is put together on the GPU from what they have read. Audio that comes in another way (from archives, commands,
recordings with segments; resampled, with several channels, or reflected at its ends) is copied into pinned memory
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from io_ark.blocks import WaveBlock
from kaldi_compat.dump.entries import Audio, OnGrid
from kaldi_compat.dump.read import RowMemory
from kaldi_compat.exact.arrays import Integers
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch.kernels.transfers import host_memory
from kaldi_compat.torch.tensors.frames import num_frames, reflected

if TYPE_CHECKING:
    from torch import Tensor

Samples = npt.NDArray[np.int16] | npt.NDArray[np.float32]

# Rows are rounded up to a multiple of this many frames, since cuFFT makes a plan for each number of frames.
FRAMES_AT_ONCE = 1024
# Bytes before the samples of nearly all wave files. Others come to lie beside the grid, and are copied.
HEADER = 44
# Samples from which on starting a copy to the GPU takes less time than copying them on the host, some 10 us.
LEAST_PIECE = 1 << 16


@dataclass(frozen=True)
class Part:
    """Utterances to be packed, with their samples at the rate of the feature.

    Attributes:
        audio: the utterances as they were read.
        samples: where the samples of all of them are.
        starts, lengths: (utterances,): of each one's samples.
        warps: VTLN factor of each.
    """

    audio: Audio
    samples: Samples
    starts: Integers
    lengths: Integers
    warps: list[float]

    @property
    def place(self) -> OnGrid | None:
        """Place of the samples in memory that a device can copy from; None if they are elsewhere."""
        block = self.audio.block
        return self.audio.place if isinstance(block, WaveBlock) and self.samples is block.samples else None


@dataclass(frozen=True)
class Row:
    """Utterances on one grid of frames.

    Attributes:
        pieces: where parts of the audio start, and their samples: int16, or float32 if they were resampled; in pinned
            memory if they will be copied to a GPU. What no piece covers is silence.
        length: number of samples.
        first_frames: (utterances,): index on the grid of each utterance's first frame.
        counts: (utterances,): number of frames of each utterance.
        frames: number of frames of the grid.
    """

    pieces: tuple[tuple[int, Tensor], ...]
    length: int
    first_frames: Integers
    counts: Integers
    frames: int


class PinnedMemory(RowMemory):
    """Pinned memory for wave files, whose samples come to lie at multiples of the frame shift.

    Args:
        shift: the frame shift in samples.
    """

    def __init__(self, shift: int) -> None:
        self.lead, self.alignment = HEADER, 2 * shift

    def allocate(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory of at least this many bytes: ordinary memory if there is no pinned memory left."""
        memory = host_memory([-(-size // 2)], np.int16)
        self.tensor = memory if memory.is_pinned() else None
        found: npt.NDArray[np.uint8] = memory.numpy().view(np.uint8)
        return found


def pack(parts: Sequence[Part], options: FrameOptions, *, pinned: bool = False) -> Row:
    """Put utterances on one grid of frames.

    Args:
        parts: the utterances.
        options: how audio is cut into frames.
        pinned: use pinned memory, and do not copy samples that are in it.
    """
    size, shift = options.window_size, options.window_shift
    lengths = np.concatenate([part.lengths for part in parts])
    counts = num_frames(lengths, size, shift, options.snip_edges)
    # Without snip_edges, an utterance takes as many samples as its frames span.
    spans = lengths if options.snip_edges else np.where(counts > 0, (counts - 1) * shift + size, 0)
    steps = -(-spans // shift)  # from an utterance's first frame to that of the next
    runs: list[tuple[int, int, OnGrid | None]] = []  # of utterances: the first, the end, and their place
    begin = 0
    for part in parts:
        end = begin + len(part.lengths)
        if part.place is not None:
            gaps = np.diff(part.starts) - steps[begin : end - 1] * shift
            on_grid = (gaps >= 0) & (gaps <= 2 * shift) & (gaps % shift == 0)  # between files lies a header
            steps[begin : end - 1] += np.where(on_grid, gaps // shift, 0)
            runs += _runs(part, part.place, begin, spans, on_grid)
        begin = end
    first_frames = np.cumsum(steps) - steps
    frames = -(-max(int(steps.sum()), 1) // FRAMES_AT_ONCE) * FRAMES_AT_ONCE
    length = (frames - 1) * shift + size
    begins = (first_frames * shift).tolist()
    places = ((part.samples, np.stack((part.starts, part.lengths), 1).tolist()) for part in parts)
    audio = [(samples, start, length) for samples, own in places for start, length in own]
    pieces: list[tuple[int, Tensor]] = []
    copied = 0
    for first, end, place in [*runs, (len(lengths), len(lengths), None)]:
        if copied < first:
            stop = length if first == len(lengths) else begins[first]
            own = slice(copied, first)
            copy = _copied(audio[own], begins[own], stop, counts[own].tolist(), options, pinned)
            pieces.append((begins[copied], copy))
        if place is not None:
            size_of_piece = begins[end - 1] + int(spans[end - 1]) - begins[first]
            pieces.append((begins[first], place.tensor[place.start : place.start + size_of_piece]))
        copied = end
    return Row(tuple(pieces), length, first_frames, counts, frames)


def _runs(
    part: Part, place: OnGrid, begin: int, spans: Integers, on_grid: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int, OnGrid]]:
    """Yield runs of utterances that lie on a grid in pinned memory: first, end, and place of the first.

    Those of few samples are left out, since copying them on the host takes less time than starting a copy.
    """
    starts = part.starts.tolist()
    bounds = [0, *(np.flatnonzero(~on_grid) + 1).tolist(), len(starts)]
    for first, end in pairwise(bounds):
        if starts[end - 1] + int(spans[begin + end - 1]) - starts[first] >= LEAST_PIECE:
            yield begin + first, begin + end, OnGrid(place.tensor, place.start + starts[first])


def _copied(
    audio: Sequence[tuple[Samples, int, int]], begins: Sequence[int], stop: int, counts: Sequence[int],
    options: FrameOptions, pinned: bool,
) -> Tensor:  # fmt: skip
    """Return a copy of the samples of these utterances on the grid, up to the sample ``stop`` of the row."""
    copied = host_memory([stop - begins[0]], np.float32 if audio[0][0].dtype == np.float32 else np.int16, pinned=pinned)
    row, end = copied.numpy(), 0
    for (samples, start, length), begin, count in zip(audio, begins, counts, strict=True):
        each = samples[start : start + length]
        if not options.snip_edges:
            each = _with_reflections(each, count, options)
        at = begin - begins[0]
        row[end:at] = 0
        end = at + len(each)
        row[at:end] = each
    row[end:] = 0
    return copied


def _with_reflections(samples: Samples, count: int, options: FrameOptions) -> Samples:
    """Return the samples that the frames span, which extend beyond both ends of the audio."""
    size, shift = options.window_size, options.window_shift
    first = shift // 2 - size // 2
    index = reflected(np.arange(first, first + (count - 1) * shift + size), len(samples))
    extended: Samples = samples[index] if count else samples[:0]
    return extended
