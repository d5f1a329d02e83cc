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
    warps: list[float]  # VTLN warp factor of each utterance.

    @property
    def place(self) -> OnGrid | None:
        """Place of the samples in pinned memory. None if they are in other memory, for example after resampling."""
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
        memory = allocate_host_memory([-(-size // 2)], np.int16)  # A sample has 2 bytes.
        self.tensor = memory if memory.is_pinned() else None
        content: npt.NDArray[np.uint8] = memory.numpy().view(np.uint8)
        return content


def pack_utterances(parts: Sequence[Part], options: FrameOptions, *, pinned: bool = False) -> Row:
    """Put consecutive utterances on one grid of frames, and return their samples and their places on the grid.

    With ``pinned``, use pinned memory for the samples that are copied on the host.
    """
    size, shift = options.window_size, options.window_shift
    lengths = np.concatenate([part.lengths for part in parts])
    counts = count_frames(lengths, size, shift, options.snip_edges)
    # Number of samples that the frames of each utterance need. Without snip_edges, frames extend beyond the utterance.
    spans = lengths if options.snip_edges else np.where(counts > 0, (counts - 1) * shift + size, 0)
    steps = -(-spans // shift)  # Frames from an utterance's first frame to the first frame of the next utterance.
    # Runs of consecutive utterances whose samples are not copied on the host: index of the first utterance, index after
    # the last utterance, and place of the first sample.
    runs: list[tuple[int, int, OnGrid | None]] = []
    part_first = 0  # Index in the batch of the first utterance of the part.
    for part in parts:
        part_end = part_first + len(part.lengths)
        if part.place is not None:
            gaps = np.diff(part.starts) - steps[part_first : part_end - 1] * shift
            # A gap, in samples, is room for the header of the next file.
            on_grid = (gaps >= 0) & (gaps <= 2 * shift) & (gaps % shift == 0)
            steps[part_first : part_end - 1] += np.where(on_grid, gaps // shift, 0)
            runs += _find_runs(part, part.place, part_first, spans, on_grid)
        part_first = part_end
    first_frames = np.cumsum(steps) - steps
    frame_count = -(-max(int(steps.sum()), 1) // ROW_MULTIPLE_FRAMES) * ROW_MULTIPLE_FRAMES
    length = (frame_count - 1) * shift + size
    positions = (first_frames * shift).tolist()  # Position in the row of each utterance's first sample.
    audio: list[tuple[Samples, int, int]] = []
    if sum(end - first for first, end, _ in runs) < len(lengths):  # Copy the utterances that are not in a run.
        for part in parts:
            audio += zip(repeat(part.samples), part.starts.tolist(), part.lengths.tolist(), strict=False)
    pieces: list[tuple[int, Tensor]] = []
    placed_count = 0  # Number of utterances that have a piece.
    # The last run is empty, so that the loop also copies the utterances after all other runs.
    for first, end, place in [*runs, (len(lengths), len(lengths), None)]:
        if placed_count < first:
            stop = length if first == len(lengths) else positions[first]
            group = slice(placed_count, first)
            piece = _copy_to_piece(audio[group], positions[group], stop, counts[group].tolist(), options, pinned)
            pieces.append((positions[placed_count], piece))
        if place is not None:
            piece_length = positions[end - 1] + int(spans[end - 1]) - positions[first]
            pieces.append((positions[first], place.tensor[place.start : place.start + piece_length]))
        placed_count = end
    return Row(tuple(pieces), length, first_frames, counts, frame_count)


def _find_runs(
    part: Part, place: OnGrid, part_first: int, spans: Integers, on_grid: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int, OnGrid]]:
    """Yield (index of the first utterance, end index, place) for each run of utterances on a grid in pinned memory.

    Indices refer to the batch, in which the first utterance of the part has the index ``part_first``. ``place`` is the
    place of the part's samples. ``spans`` (utterances of the batch,) has the number of samples that each utterance
    needs. ``on_grid`` (utterances of the part - 1,) is True if an utterance shares a grid with the next utterance.
    Short runs are left out, because copying them on the host takes less time than starting a copy to the GPU.
    """
    starts = part.starts.tolist()
    bounds = [0, *(np.flatnonzero(~on_grid) + 1).tolist(), len(starts)]
    for first, end in pairwise(bounds):
        if starts[end - 1] + int(spans[part_first + end - 1]) - starts[first] >= MIN_PIECE_SAMPLES:
            yield part_first + first, part_first + end, OnGrid(place.tensor, place.start + starts[first])


def _copy_to_piece(
    audio: Sequence[tuple[Samples, int, int]], positions: Sequence[int], stop: int, counts: Sequence[int],
    options: FrameOptions, pinned: bool,
) -> Tensor:  # fmt: skip
    """Copy utterances, with silence between them, into a piece of a row, and return the piece.

    The piece has the samples ``positions[0]`` to ``stop - 1`` of the row. It is float32 if the first utterance is
    float32, and otherwise int16. For each utterance, ``audio`` has an array, the index of the first sample in it, and
    the number of samples; ``positions`` has the position of the first sample in the row, and ``counts`` the number of
    frames. Without ``snip_edges``, the audio is reflected at its ends. With ``pinned``, the piece is pinned memory.
    """
    dtype = np.float32 if audio[0][0].dtype == np.float32 else np.int16
    memory = allocate_host_memory([stop - positions[0]], dtype, pinned=pinned)
    piece, end = memory.numpy(), 0
    for (samples, start, length), position, count in zip(audio, positions, counts, strict=True):
        utterance = samples[start : start + length]
        if not options.snip_edges:
            utterance = _extend_by_reflection(utterance, count, options)
        first = position - positions[0]
        piece[end:first] = 0
        end = first + len(utterance)
        piece[first:end] = utterance
    piece[end:] = 0
    return memory


def _extend_by_reflection(samples: Samples, count: int, options: FrameOptions) -> Samples:
    """Return the samples that ``count`` frames need without ``snip_edges``. The audio is reflected at its ends."""
    size, shift = options.window_size, options.window_shift
    first = shift // 2 - size // 2  # First sample of the first frame, whose center is half a hop into the audio.
    index = reflect_indices(np.arange(first, first + (count - 1) * shift + size), len(samples))
    extended_samples: Samples = samples[index] if count else samples[:0]
    return extended_samples
