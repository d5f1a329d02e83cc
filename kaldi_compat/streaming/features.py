"""Audio that arrives in chunks, for a batch of streams at once: the whole utterance's numbers, as they become known.

A stream is called with the next chunk for each of its slots, and with which of them end with it; it gives the frames
that are decided by then. It holds what coming frames still look at and no more, so its memory is bounded however long
the audio. A slot that has ended is empty again and takes the next utterance.

How far along each slot is, is counted in NumPy: chunks may lie on a GPU without the GPU ever being waited for.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError
from kaldi_compat.features.spectral import Generator, SpectralFeature, Warp
from kaldi_compat.functional.batches import zero_past
from kaldi_compat.functional.cmvn import normalized_by, sliding_windows, window_mean_and_variance
from kaldi_compat.functional.deltas import delta_context, deltas_inside, shifted_delta_context, shifted_deltas_inside
from kaldi_compat.functional.frames import num_frames, reflected
from kaldi_compat.functional.splice import splice_inside
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions, SlidingCmvnOptions, SpliceOptions

__all__ = [
    "ContextStream",
    "Counts",
    "DeltaStream",
    "FeatureStream",
    "Flags",
    "History",
    "ShiftedDeltaStream",
    "SlidingCmvnStream",
    "SpliceStream",
    "Stream",
    "StreamChain",
    "WindowStream",
]

# Numbers of items or frames, one for each slot.
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class History:
    """The part of each slot's past that is still needed, addressed by its number from the start of the utterance.

    Attributes:
        start: (slots,): the first item that is kept. It may lie ahead of ``end``: items on the way there are not kept.
        end: (slots,): how many items came so far.
    """

    def __init__(self, slots: int) -> None:
        self.start: Counts = np.zeros(slots, np.int64)
        self.end: Counts = np.zeros(slots, np.int64)
        self._items: Tensor | None = None  # (slots, width, ...): what was kept, and behind it the latest chunk
        self._width = 0  # of the kept part
        self._seam: Counts = np.zeros(slots, np.int64)  # number of the latest chunk's first item

    def append(self, chunk: Tensor, lengths: Counts) -> None:
        """Add the first ``lengths`` items of ``chunk`` (slots, T, ...) to each slot."""
        self._width = 0 if self._items is None else self._items.shape[1]
        self._items = chunk if self._items is None else torch.cat((self._items, chunk), 1)
        self._seam = self.end
        self.end = self.end + lengths

    def as_column(self, counts: Counts) -> Tensor:
        """Counts (slots,) as a column (slots, 1) on the items' device."""
        assert self._items is not None
        return torch.from_numpy(counts)[:, None].to(self._items.device, non_blocking=True)

    def numbers(self, first: Counts, count: int) -> Tensor:
        """``count`` numbers from ``first`` (slots,) on, on the items' device: (slots, count)."""
        column = self.as_column(first)
        return column + torch.arange(count, device=column.device)

    def at(self, numbers: Tensor) -> Tensor:
        """Items by number: (slots, n) to (slots, n, ...). Numbers that are not there give something of no meaning."""
        assert self._items is not None
        if self._items.shape[1] == 0:
            return self._items.new_zeros(*numbers.shape, *self._items.shape[2:])
        start, seam = self.as_column(self.start), self.as_column(self._seam)
        column = torch.where(numbers < seam, numbers - start, self._width + numbers - seam)
        column = column.clamp(0, self._items.shape[1] - 1)
        column = column.reshape(*column.shape, *[1] * (self._items.ndim - 2))
        return torch.take_along_dim(self._items, column, 1)

    def run(self, first: Counts, count: int) -> Tensor:
        """``count`` items from number ``first`` (slots,) on: (slots, count, ...). A view where all slots are as far."""
        assert self._items is not None
        kept = self._seam - self.start
        column = np.where(kept == self._width, first - self.start, -1)
        column = np.where(first >= self._seam, self._width + first - self._seam, column)
        begin, end = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if begin == end and 0 <= begin <= self._items.shape[1] - count:
            return self._items[:, begin : begin + count]
        return self.at(self.numbers(first, count))

    def keep_from(self, start: Counts, ended: Flags) -> None:
        """Let go of all items before ``start``, and of all those of slots that have ended."""
        start, end = np.where(ended, 0, start), np.where(ended, 0, self.end)
        width = int((end - start).max(initial=0))
        self._items = self.run(start, width).clone() if width else None
        self.start, self.end = start, end


class Stream(abc.ABC):
    """Something computed frame by frame for ``slots`` streams at once.

    Call it with a chunk of each stream:

    Args:
        chunk: ``(slots, T)`` samples, or ``(slots, T, dim)`` frames; without the first axis where there is one slot.
        lengths: ``(slots,)``: how much of the chunk counts in each slot; all of it if None. Zero for a slot that waits.
        final: Which slots end with this chunk: one bool for all, or ``(slots,)``. Their last frames come out, and the
            slot starts anew.

    Returns:
        ``(slots, frames, dim)`` and how many frames count in each slot, ``(slots,)`` on the CPU; the others are zero.
        For one slot without the batch axis the ``(frames, dim)`` alone.
    """

    item_axes = 0  # axes of one item: none for a sample, one for a frame

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self.reset()

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all that came, in every slot."""

    @abc.abstractmethod
    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """The frames that a chunk (slots, T, ...) decides, and their counts (slots,)."""

    def __call__(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
    ) -> Any:
        if not isinstance(chunk, Tensor):
            raise AudioError(f"a chunk is a tensor, not {type(chunk).__name__} (torch.as_tensor makes one)")
        alone = chunk.ndim == self.item_axes + 1 and self.slots == 1
        batch = chunk.unsqueeze(0) if alone else chunk
        if batch.ndim != self.item_axes + 2 or batch.shape[0] != self.slots:
            raise AudioError(
                f"a chunk for {self.slots} slots has the shape ({self.slots}, T{', dim' * self.item_axes}), "
                f"not {tuple(chunk.shape)}"
            )
        frames, counts = self._advance(batch, self._lengths(lengths, batch.shape[1]), self._ended(final))
        return frames[0] if alone else (frames, torch.from_numpy(counts))

    def _lengths(self, lengths: Tensor | Sequence[int] | None, width: int) -> Counts:
        if lengths is None:
            return np.full(self.slots, width)
        counted = torch.as_tensor(lengths, dtype=torch.int64, device="cpu").numpy()
        if counted.shape != (self.slots,) or bool(((counted < 0) | (counted > width)).any()):
            raise AudioError(f"lengths must be {self.slots} numbers from 0 to {width}, not {counted.tolist()}")
        return counted

    def _ended(self, final: bool | Tensor | Sequence[bool]) -> Flags:
        if isinstance(final, bool):
            return np.full(self.slots, final)
        return torch.as_tensor(final, dtype=torch.bool, device="cpu").expand(self.slots).numpy()


class WindowStream(Stream):
    """A stream of frames each of which looks at a window of items, and is decided once that is there."""

    def reset(self) -> None:
        """Forget all that came, in every slot."""
        self._history = History(self.slots)
        self._done: Counts = np.zeros(self.slots, np.int64)  # frames that came out so far

    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        history = self._history
        history.append(chunk, lengths)
        known = self._frames_decided_by(history.end)
        if ended.any():
            known = np.where(ended, self._frames_in(history.end), known)
        counts = np.maximum(known - self._done, 0)
        longest = int(counts.max(initial=0))
        frames = self._compute(self._done, longest)
        if (counts < longest).any():
            frames = zero_past(frames, torch.from_numpy(counts).to(frames.device, non_blocking=True))
        self._done = self._done + counts
        history.keep_from(self._oldest_needed(self._done, history.end), ended)
        self._done = np.where(ended, 0, self._done)
        return frames, counts

    @abc.abstractmethod
    def _frames_in(self, end: Counts) -> Counts:
        """How many frames a stream has that ends after ``end`` items."""

    @abc.abstractmethod
    def _frames_decided_by(self, end: Counts) -> Counts:
        """How many frames are known after ``end`` items, whatever follows."""

    @abc.abstractmethod
    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        """The first item that the frames from ``done`` on may look at, given that ``end`` items came."""

    @abc.abstractmethod
    def _compute(self, first: Counts, count: int) -> Tensor:
        """``count`` frames for each slot from frame ``first`` (slots,) on: (slots, count, dim)."""


class FeatureStream(WindowStream):
    """A spectral feature on audio in chunks: the frames that the feature gives for the whole utterance.

    With ``snip_edges=False`` the first frame waits for its right half, and the frames that reach beyond the end of the
    audio come with the final chunk, reflected there (Kaldi: OnlineGenericBaseFeature, NumFrames without flush).

    Args:
        feature: ``Fbank``, ``Mfcc``, ``Plp`` or ``Spectrogram``.
        slots: Number of streams.

    A call also takes ``vtln_warp`` (one, or one for each slot) and ``generator``, as the feature does.
    Dithering draws noise for all slots up to the longest; only a single slot with a
    :class:`~kaldi_compat.exact.rand.KaldiRandom` repeats the noise of the whole utterance.

    >>> from kaldi_compat import Fbank
    >>> stream = FeatureStream(Fbank(dither=0.0))
    >>> stream(torch.zeros(500)).shape, stream(torch.zeros(300), final=True).shape
    (torch.Size([1, 23]), torch.Size([2, 23]))
    """

    def __init__(self, feature: SpectralFeature, slots: int = 1) -> None:
        super().__init__(slots)
        self.options = feature.options
        self._parameters: dict[str, Any] = {}  # of the call under way
        self._size, self._shift = feature.options.window_size, feature.options.window_shift
        self._first = 0 if feature.options.snip_edges else self._shift // 2 - self._size // 2
        # The frames' own audio is laid out in full, reflected ends included, and cut where each frame starts.
        self._feature = feature
        if not feature.options.snip_edges:
            example = next(feature.buffers())
            whole = type(feature)(dataclasses.replace(feature.options, snip_edges=True))
            self._feature = whole.to(example.device, example.dtype)

    def __call__(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
        vtln_warp: Warp = 1.0,
        generator: Generator = None,
    ) -> Any:
        self._parameters = {"vtln_warp": vtln_warp, "generator": generator}
        return super().__call__(chunk, lengths, final=final)

    def _frames_in(self, end: Counts) -> Counts:
        return num_frames(end, self._size, self._shift, self.options.snip_edges)

    def _frames_decided_by(self, end: Counts) -> Counts:
        inside = num_frames(end - self._first, self._size, self._shift)
        return np.minimum(inside, self._frames_in(end))

    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        start = self._first + done * self._shift
        # The reflection at the end looks back by up to a frame.
        return start if self.options.snip_edges else np.maximum(np.minimum(start, end - self._size), 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        history = self._history
        samples = (count - 1) * self._shift + self._size if count else 0
        start = self._first + first * self._shift
        if self.options.snip_edges or bool(((start >= 0) & (start + samples <= history.end)).all()):
            audio = history.run(start, samples)
        else:
            audio = history.at(
                reflected(history.numbers(start, samples), history.as_column(np.maximum(history.end, 1)))
            )
        frames: Tensor = self._feature(audio, **self._parameters)
        return frames


class ContextStream(WindowStream):
    """A function of frames and their neighbours, with the first and the last frame repeated beyond the edges.

    Args:
        function: Takes ``(slots, left + frames + right, dim)`` and gives ``(slots, frames, any dim)``.
        left, right: Frames before and after that it looks at.
        slots: Number of streams.
    """

    item_axes = 1

    def __init__(self, function: Callable[[Tensor], Tensor], left: int, right: int, slots: int = 1) -> None:
        super().__init__(slots)
        self._function, self._left, self._right = function, left, right

    def _frames_in(self, end: Counts) -> Counts:
        return end

    def _frames_decided_by(self, end: Counts) -> Counts:
        return np.maximum(end - self._right, 0)

    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        return np.maximum(np.minimum(done - self._left, end - 1), 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        numbers = self._history.numbers(first - self._left, self._left + count + self._right)
        last = self._history.as_column(np.maximum(self._history.end - 1, 0))
        return self._function(self._history.at(torch.minimum(numbers.clamp(min=0), last)))


class DeltaStream(ContextStream):
    """:func:`~kaldi_compat.functional.deltas.add_deltas` on frames in chunks, ``delta_order * delta_window`` frames late.

    >>> stream = DeltaStream()
    >>> stream(torch.zeros(10, 13)).shape, stream(torch.zeros(10, 13), final=True).shape
    (torch.Size([6, 39]), torch.Size([14, 39]))
    """

    def __init__(self, options: DeltaOptions | None = None, slots: int = 1) -> None:
        options = options or DeltaOptions()
        context = delta_context(options)
        super().__init__(lambda frames: deltas_inside(frames, options), context, context, slots)


class ShiftedDeltaStream(ContextStream):
    """:func:`~kaldi_compat.functional.deltas.add_shifted_deltas` on frames in chunks."""

    def __init__(self, options: ShiftedDeltaOptions | None = None, slots: int = 1) -> None:
        options = options or ShiftedDeltaOptions()
        super().__init__(lambda frames: shifted_deltas_inside(frames, options), *shifted_delta_context(options), slots)


class SpliceStream(ContextStream):
    """:func:`~kaldi_compat.functional.splice.splice` on frames in chunks, ``right_context`` frames late."""

    def __init__(self, options: SpliceOptions | None = None, slots: int = 1) -> None:
        options = options or SpliceOptions()
        super().__init__(
            lambda frames: splice_inside(frames, options), options.left_context, options.right_context, slots
        )


class SlidingCmvnStream(WindowStream):
    """:func:`~kaldi_compat.functional.cmvn.sliding_cmvn` on frames in chunks.

    With ``center=True`` a frame waits for the second half of its window. With ``center=False`` only the first frames
    wait, until there are ``min_cmn_window`` of them.

    >>> stream = SlidingCmvnStream(SlidingCmvnOptions(min_cmn_window=10))
    >>> stream(torch.zeros(8, 13)).shape, stream(torch.zeros(8, 13)).shape
    (torch.Size([0, 13]), torch.Size([16, 13]))
    """

    item_axes = 1

    def __init__(self, options: SlidingCmvnOptions | None = None, slots: int = 1) -> None:
        super().__init__(slots)
        self.options = options or SlidingCmvnOptions()

    def _frames_in(self, end: Counts) -> Counts:
        return end

    def _frames_decided_by(self, end: Counts) -> Counts:
        if self.options.center:
            behind = self.options.cmn_window - self.options.cmn_window // 2 - 1
            return np.maximum(np.where(end >= self.options.cmn_window, end - behind, 0), 0)
        return np.where(end >= self.options.min_cmn_window, end, 0)

    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        # A window that would reach beyond the end of the utterance moves back by as much.
        oldest: Counts = np.minimum(done, end) - self.options.cmn_window
        if not self.options.center:
            oldest = np.where(end < self.options.min_cmn_window, 0, oldest)
        return np.maximum(oldest, 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        history = self._history
        end, kept = history.as_column(np.maximum(history.end, 1)), history.as_column(history.start)
        times = torch.minimum(history.numbers(first, count), end - 1)
        window_start, window_end = sliding_windows(times, end, self.options)
        frames = history.at(history.numbers(history.start, int((history.end - history.start).max(initial=1))))
        now = torch.take_along_dim(frames, (times - kept).clamp(min=0)[..., None], 1)
        mean, variance, size = window_mean_and_variance(frames, window_start - kept, window_end - kept)
        return normalized_by(now, mean, variance, size, self.options)


class StreamChain:
    """Streams one after the other, each fed with what the one before gives: called as the first of them.

    >>> from kaldi_compat import Mfcc
    >>> chain = StreamChain(FeatureStream(Mfcc(dither=0.0)), DeltaStream())
    >>> chain(torch.zeros(16000), final=True).shape
    torch.Size([98, 39])
    """

    def __init__(self, *streams: Stream) -> None:
        if not streams or len({stream.slots for stream in streams}) != 1:
            raise AudioError("a chain is made of one or more streams with the same number of slots")
        self.slots = streams[0].slots
        self.streams = streams

    def reset(self) -> None:
        """Forget all that came, in every slot of every stream."""
        for stream in self.streams:
            stream.reset()

    def __call__(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
        **parameters: Any,
    ) -> Any:
        first, *others = self.streams
        result = first(chunk, lengths, final=final, **parameters)
        for stream in others:
            if isinstance(result, tuple):
                result = stream(*result, final=final)
            else:
                result = stream(result, final=final)
        return result
