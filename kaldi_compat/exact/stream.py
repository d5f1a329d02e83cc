"""Streams of frames: the base classes of all engines and front-end steps, and the stream of the exact engine."""

from __future__ import annotations

import abc
import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.engine import SeedSource, convert_to_samples, make_chunk_call
from kaldi_compat.exact.plan import Plan

# Number of items or frames: an int for one stream, an array (slots,) for several streams.
Count = Any
SPACE = 8192  # Number of samples for which a stream allocates its buffer at first.


def maximum(count: Count, other: Count) -> Count:
    """Return the larger of two counts, or of each pair of elements if the counts are arrays."""
    return max(count, other) if isinstance(count, int) else np.maximum(count, other)


def minimum(count: Count, other: Count) -> Count:
    """Return the smaller of two counts, or of each pair of elements if the counts are arrays."""
    return min(count, other) if isinstance(count, int) else np.minimum(count, other)


def where(condition: Any, count: Count, other: Count) -> Count:
    """Return ``count`` where ``condition``, a bool or an array of booleans, is true, and ``other`` elsewhere."""
    return (count if condition else other) if isinstance(condition, bool) else np.where(condition, count, other)


def pack_floats(numbers: Sequence[float], buffer: Any, start: int = 0) -> None:
    """Convert numbers to float32, and write them into ``buffer``, a float32 array, from index ``start`` on.

    This takes half the time of ``array.array``.

    Raises:
        struct.error: an item is not a number.
        OverflowError: a finite number is too large for single precision.
    """
    if len(numbers) > SPACE:  # The call below copies its numbers to a tuple. Writing in chunks bounds its size.
        for begin in range(0, len(numbers), SPACE):
            pack_floats(numbers[begin : begin + SPACE], buffer, start + begin)
    else:
        # A float has 4 bytes. A call with the arguments ``buffer, offset, *numbers`` would take 25% longer.
        functools.partial(_make_packer(len(numbers)), buffer, 4 * start)(*numbers)


@functools.lru_cache(maxsize=64)
def _make_packer(count: int) -> Any:
    return struct.Struct(f"{count}f").pack_into


def refuse_after_failure(has_failed: bool) -> None:
    """Raise an AudioError if an earlier call has failed when some parts of the stream had already taken the chunk."""
    if has_failed:
        raise AudioError(
            "an earlier chunk has failed after a part of the stream had taken it, so later frames would be wrong: "
            "call reset()"
        )


class WindowFlow(abc.ABC):
    """Base class of streams of frames, which are computed from windows of items (samples or frames of input).

    A stream takes a chunk of items, computes the frames whose windows are complete, and discards the items that no
    later frame needs. A subclass defines the windows and computes frames.
    """

    history: Any  # Items that later frames need, with the attributes and methods of ArrayHistory.
    done: Count  # Number of frames returned so far.

    def _advance(self, chunk: Any, lengths: Count, ended: Any) -> tuple[Any, Count]:
        """Append a chunk to the history. Return the frames that no later chunk can change, and the number of frames.

        Args:
            chunk: the next items.
            lengths: number of items in the chunk, or in each slot of a batch.
            ended: True where the utterance ends with this chunk. The next chunk then starts a new utterance.

        After an exception, the stream is as before the call, so that the caller can pass the chunk again or leave it
        out.
        """
        history = self.history
        state = history.save()
        try:
            history.append(chunk, lengths)
            end = history.end
            known_count = where(ended, self._count_frames(end), self._count_decided_frames(end))
            counts = maximum(known_count - self.done, 0)
            frames = self._compute_frames(self.done, counts)
            done = self.done + counts
            history.discard_before(self._find_first_needed_item(done, end), ended)
        except BaseException:
            history.restore(state)
            raise
        self.done = where(ended, 0, done)
        return frames, counts

    @abc.abstractmethod
    def _count_frames(self, end: Count) -> Count:
        """Return the number of frames of a stream that ends after ``end`` items."""

    @abc.abstractmethod
    def _count_decided_frames(self, end: Count) -> Count:
        """Return the number of frames that depend only on the first ``end`` items, if more items may follow."""

    @abc.abstractmethod
    def _find_first_needed_item(self, done: Count, end: Count) -> Count:
        """Return the index of the first item that frame ``done`` or a later frame may need, after ``end`` items."""

    @abc.abstractmethod
    def _compute_frames(self, first: Count, counts: Count) -> Any:
        """Return the ``counts`` frames from frame ``first`` on."""


class AudioFlow(WindowFlow):
    """Frames of audio in chunks (Kaldi: OnlineGenericBaseFeature)."""

    _size: int
    _shift: int
    _snip_edges: bool
    _first: int  # Index of the first frame's first sample. It may be negative if snip_edges is False.

    def _set_frame_layout(self, size: int, shift: int, snip_edges: bool) -> None:
        """Set the size and the shift of frames in samples. With ``snip_edges``, frames lie wholly in the audio."""
        self._size, self._shift, self._snip_edges = size, shift, snip_edges
        self._first = 0 if snip_edges else shift // 2 - size // 2
        # Number of samples that complete the first frame. Without snip_edges, shorter audio may have no frame at all.
        self._needed = size if snip_edges else max(self._first + size, shift - shift // 2)

    def _count_frames(self, end: Count) -> Count:
        return self._count_decided_frames(end) if self._snip_edges else (end + self._shift // 2) // self._shift

    def _count_decided_frames(self, end: Count) -> Count:
        return maximum((end - self._needed) // self._shift + 1, 0)

    def _find_first_needed_item(self, done: Count, end: Count) -> Count:
        start = self._first + done * self._shift
        # The frames at the end of the audio are reflected, so they may need its last `_size` samples.
        return start if self._snip_edges else maximum(minimum(start, end - self._size), 0)


class ArrayHistory:
    """Buffer of the past samples of one stream, as float32.

    Attributes:
        buffer: (size,): memory for samples. Its first sample is sample ``origin`` of the utterance.
        origin: index in the utterance of the buffer's first sample.
        start: index in the utterance of the first sample that is still needed.
        end: number of samples of the utterance received so far.
    """

    def __init__(self) -> None:
        self.buffer: Floats = np.empty(0, np.float32)
        self.origin = self.start = self.end = 0

    @property
    def samples(self) -> Floats:
        """Samples ``start`` to ``end - 1`` of the utterance, float32 (samples,)."""
        return self.buffer[self.start - self.origin : self.end - self.origin]

    def save(self) -> int:
        """Return the state for :meth:`restore`: the number of samples received so far."""
        return self.end

    def restore(self, state: int) -> None:
        """Remove the chunk that was appended since :meth:`save`."""
        self.end = state

    def append(self, chunk: npt.NDArray[Any] | Sequence[float], length: int) -> Floats:
        """Append a chunk of ``length`` samples, an array or a list, and return its copy in the buffer, (length,).

        For a list, raise struct.error if an item is not a number, or OverflowError if it is too large for float32.
        """
        if self.end - self.origin + length > len(self.buffer):
            self._make_room(length)
        begin = self.end - self.origin
        chunk_copy: Floats = self.buffer[begin : begin + length]
        if isinstance(chunk, np.ndarray):
            chunk_copy[:] = chunk
        else:
            pack_floats(chunk, chunk_copy)
        self.end += length
        return chunk_copy

    def _make_room(self, length: int) -> None:
        """Move the samples to the start of the buffer, or of a larger buffer, so that ``length`` more samples fit."""
        samples = self.samples
        if len(samples) + length > len(self.buffer):
            self.buffer = np.empty(max(len(samples) + length, SPACE), np.float32)
        self.buffer[: len(samples)] = samples
        self.origin = self.start

    def discard_before(self, start: int, ended: bool) -> None:
        """Discard the samples before ``start``, or all samples if the utterance has ``ended``."""
        self.start = min(max(start, self.start), self.end)
        if self.start - self.origin > SPACE:  # Copy the samples to free a buffer that a long chunk has enlarged.
            self.buffer, self.origin = self.samples.copy(), self.start
        if ended:
            self.origin = self.start = self.end = 0


class ChunkStream(AudioFlow):
    """Stream of the features of ``plan`` by the exact engine, which equal the features of the whole utterance.

    Attributes:
        history: the samples that later frames need.
        done: number of frames returned so far.
    """

    def __init__(self, plan: Plan) -> None:
        self._set_frame_layout(plan.size, plan.shift, plan.options.snip_edges)
        self._call = make_chunk_call(plan)
        self._is_dithered = plan.options.dither != 0
        self._vtln_warp = 1.0
        self._seeds: SeedSource | None = None
        self.reset()

    def reset(self) -> None:
        """Discard all samples. The next chunk starts a new utterance."""
        self.history = ArrayHistory()
        self.done = 0

    def advance(
        self, chunk: npt.NDArray[Any], final: bool, vtln_warp: float = 1.0, seeds: SeedSource | None = None
    ) -> Floats:
        """Return the features (frames, dim) of the frames that a chunk completes.

        Args:
            chunk: samples (T,). Other shapes, and numbers that are not real, raise AudioError.
            final: True if the utterance ends with this chunk. The next chunk then starts a new utterance.
            vtln_warp: VTLN factor.
            seeds: source of the ``rand_r()`` states for the dithering noise; None for no noise.
        """
        self._vtln_warp, self._seeds = vtln_warp, seeds
        samples = convert_to_samples(chunk)
        features: Floats = self._advance(samples, len(samples), final)[0]
        return features

    @property
    def num_ready_frames(self) -> int:
        """Number of frames that :meth:`compute_next_frames` can return before more samples arrive."""
        num_frames: int = (self.history.end - self._needed) // self._shift + 1 - self.done
        return num_frames if num_frames > 0 else 0

    def compute_next_frames(self, count: int, seeds: SeedSource | None = None) -> Floats:
        """Return the features (count, dim) of the next ``count`` frames. ``count`` is at most :attr:`num_ready_frames`.

        For ``seeds``, see :meth:`advance`.
        """
        history = self.history
        self._seeds = seeds
        features = self._compute_frames(self.done, count)
        self.done += count
        if history.end - history.start > SPACE // 2:  # Discarding copies the remaining samples, so it is rare.
            history.discard_before(self._find_first_needed_item(self.done, history.end), False)
        return features

    def _compute_frames(self, first: int, counts: int) -> Floats:
        history = self.history
        length, begin = history.end - history.origin, self._first + first * self._shift - history.origin
        seeds = self._seeds(counts) if self._is_dithered and self._seeds is not None else None
        features: Floats = self._call(history.buffer, length, begin, counts, self._vtln_warp, seeds)
        return features
