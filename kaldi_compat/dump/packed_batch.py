"""Pack the audio of a batch into one row of samples without padding, for GPUs, which need large batches.

An utterance starts at a multiple of the frame shift, so the frames of all utterances lie on one grid. The frames across
a border between utterances (about two per utterance) are computed and dropped.

Threads read wave files into pinned memory in which the samples already lie on such a grid (:class:`PinnedMemory`), and
the GPU assembles a row from this memory. Other audio (from archives, commands or recordings with segments; resampled,
with several channels, or reflected at its ends) is first copied into pinned memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from io_ark.blocks import WaveBlock
from kaldi_compat.dump.entries import Audio, OnGrid
from kaldi_compat.dump.read import RowMemory
from kaldi_compat.exact.arrays import Integers
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch.kernels.transfers import allocate_host_memory
from kaldi_compat.torch.tensors.frames import count_frames, reflect_indices

if TYPE_CHECKING:
    from torch import Tensor

Samples = npt.NDArray[np.int16] | npt.NDArray[np.float32]

# The number of frames in a row is rounded up to a multiple of this value, because cuFFT needs a plan for each number.
ROW_MULTIPLE_FRAMES = 1024
# Header size in bytes of nearly all wave files. After a header of another size, the samples are not on the grid and
# are copied on the host.
HEADER_BYTES = 44
# Minimum size, in samples, of audio that is copied to the GPU separately. Less audio is first joined with other audio
# on the host, because that takes less time than starting a copy to the GPU (about 10 microseconds).
MIN_PIECE_SAMPLES = 1 << 16


@dataclass(frozen=True)
class Part:
    """Utterances to be packed, with their samples at the rate of the feature."""

    audio: Audio  # The utterances as they were read.
    samples: Samples  # Array (samples,) with the samples of all utterances.
    starts: Integers  # (utterances,): index in ``samples`` of each utterance's first sample.
    lengths: Integers  # (utterances,): number of samples of each utterance.
    warps: list[float]  # VTLN factor of each utterance.

    @property
    def place(self) -> OnGrid | None:
        """Place of the samples in pinned memory. None if they lie in other memory, for example after resampling."""
        block = self.audio.block
        return self.audio.place if isinstance(block, WaveBlock) and self.samples is block.samples else None


@dataclass(frozen=True)
class Row:
    """Utterances whose samples are placed on one grid of frames, to be computed together."""

    # Position in the row of the first sample, and the samples, of each piece of audio. The samples are int16, or
    # float32 after resampling, and in pinned memory if they will be copied to a GPU. The row is silent between pieces.
    pieces: tuple[tuple[int, Tensor], ...]
    length: int  # Number of samples of the row.
    first_frames: Integers  # (utterances,): index on the grid of each utterance's first frame.
    counts: Integers  # (utterances,): number of frames of each utterance.
    frames: int  # Number of frames of the grid, including frames between utterances.


class PinnedMemory(RowMemory):
    """Pinned memory that places samples of wave files at multiples of the frame shift, which is ``shift`` samples."""

    def __init__(self, shift: int) -> None:
        self.lead, self.alignment = HEADER_BYTES, 2 * shift  # A sample has 2 bytes.

    def allocate(self, size: int) -> npt.NDArray[np.uint8]:
        """Return at least ``size`` bytes of new memory. ``tensor`` becomes this memory, or None if it is not pinned."""
        memory = allocate_host_memory([-(-size // 2)], np.int16)
        self.tensor = memory if memory.is_pinned() else None
        content: npt.NDArray[np.uint8] = memory.numpy().view(np.uint8)
        return content


def pack_utterances(parts: Sequence[Part], options: FrameOptions, *, pinned: bool = False) -> Row:
    """Put utterances on one grid of frames, and return their samples and their places on the grid.

    Args:
        parts: audio of consecutive utterances.
        options: options of the feature.
        pinned: True to use pinned memory for the samples that are copied on the host.
    """
    size, shift = options.window_size, options.window_shift
    lengths = np.concatenate([part.lengths for part in parts])
    counts = count_frames(lengths, size, shift, options.snip_edges)
    # Samples that the frames of each utterance need. Without snip_edges, frames extend beyond the utterance.
    spans = lengths if options.snip_edges else np.where(counts > 0, (counts - 1) * shift + size, 0)
    steps = -(-spans // shift)  # Frames from an utterance's first frame to the first frame of the next utterance.
    # Runs of consecutive utterances whose samples are not copied on the host: index of the first utterance, index after
    # the last utterance, and place of the first sample.
    runs: list[tuple[int, int, OnGrid | None]] = []
    begin = 0
    for part in parts:
        end = begin + len(part.lengths)
        if part.place is not None:
            gaps = np.diff(part.starts) - steps[begin : end - 1] * shift
            on_grid = (gaps >= 0) & (gaps <= 2 * shift) & (gaps % shift == 0)  # A gap is room for the next header.
            steps[begin : end - 1] += np.where(on_grid, gaps // shift, 0)
            runs += _find_runs(part, part.place, begin, spans, on_grid)
        begin = end
    first_frames = np.cumsum(steps) - steps
    frame_count = -(-max(int(steps.sum()), 1) // ROW_MULTIPLE_FRAMES) * ROW_MULTIPLE_FRAMES
    length = (frame_count - 1) * shift + size
    begins = (first_frames * shift).tolist()
    audio: list[tuple[Samples, int, int]] = []
    if sum(end - first for first, end, _ in runs) < len(lengths):  # Copy the utterances that are not in a run.
        for part in parts:
            audio += zip(repeat(part.samples), part.starts.tolist(), part.lengths.tolist(), strict=False)
    pieces: list[tuple[int, Tensor]] = []
    copied_end = 0
    # The last run is empty, so that the loop also copies the utterances after all other runs.
    for first, end, place in [*runs, (len(lengths), len(lengths), None)]:
        if copied_end < first:
            stop = length if first == len(lengths) else begins[first]
            group = slice(copied_end, first)
            piece = _copy_to_row(audio[group], begins[group], stop, counts[group].tolist(), options, pinned)
            pieces.append((begins[copied_end], piece))
        if place is not None:
            size_of_piece = begins[end - 1] + int(spans[end - 1]) - begins[first]
            pieces.append((begins[first], place.tensor[place.start : place.start + size_of_piece]))
        copied_end = end
    return Row(tuple(pieces), length, first_frames, counts, frame_count)


def _find_runs(
    part: Part, place: OnGrid, begin: int, spans: Integers, on_grid: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int, OnGrid]]:
    """Yield runs of utterances on a grid in pinned memory: first index, index after the last, and place of the audio.

    Short runs are left out, since copying them on the host takes less time than starting a copy to the GPU. ``part`` is
    the part whose first utterance has the index ``begin`` in the batch. ``spans`` has the number of samples that each
    utterance of the batch needs. ``on_grid`` (utterances of the part - 1,) is True for an utterance that shares a grid
    with the next utterance.
    """
    starts = part.starts.tolist()
    bounds = [0, *(np.flatnonzero(~on_grid) + 1).tolist(), len(starts)]
    for first, end in pairwise(bounds):
        if starts[end - 1] + int(spans[begin + end - 1]) - starts[first] >= MIN_PIECE_SAMPLES:
            yield begin + first, begin + end, OnGrid(place.tensor, place.start + starts[first])


def _copy_to_row(
    audio: Sequence[tuple[Samples, int, int]], begins: Sequence[int], stop: int, counts: Sequence[int],
    options: FrameOptions, pinned: bool,
) -> Tensor:  # fmt: skip
    """Copy utterances, with silence between them, into one piece of a row: its samples ``begins[0]`` to ``stop - 1``.

    For each utterance, ``audio`` has an array, the index of the first sample in it, and the number of samples;
    ``begins`` has the position of the first sample in the row, and ``counts`` the number of frames. Without
    ``snip_edges``, the edges of the audio are reflected. Return the piece as float32 if the first utterance is float32,
    otherwise as int16.
    """
    memory = allocate_host_memory(
        [stop - begins[0]], np.float32 if audio[0][0].dtype == np.float32 else np.int16, pinned=pinned
    )
    row, end = memory.numpy(), 0
    for (samples, start, length), begin, count in zip(audio, begins, counts, strict=True):
        utterance = samples[start : start + length]
        if not options.snip_edges:
            utterance = _extend_by_reflection(utterance, count, options)
        position = begin - begins[0]
        row[end:position] = 0
        end = position + len(utterance)
        row[position:end] = utterance
    row[end:] = 0
    return memory


def _extend_by_reflection(samples: Samples, count: int, options: FrameOptions) -> Samples:
    """Return the samples of ``count`` frames without ``snip_edges``. The audio is reflected beyond its ends."""
    size, shift = options.window_size, options.window_shift
    first = shift // 2 - size // 2
    index = reflect_indices(np.arange(first, first + (count - 1) * shift + size), len(samples))
    extended_samples: Samples = samples[index] if count else samples[:0]
    return extended_samples
