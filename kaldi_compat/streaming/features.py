"""Features of audio that arrives in chunks, for a batch of streams at once, equal to those of the whole utterance.

Call a stream with the next chunk of each slot, and say which slots end with it. The stream returns the frames that no
later audio can change. It keeps only the samples or frames that later frames need, so its memory is bounded for audio
of any length. A slot that has ended is empty and takes the next utterance.

The position of each slot is counted in NumPy, so chunks on a GPU never make the CPU wait for the GPU.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact.plan import plan_of
from kaldi_compat.exact.stream import ChunkStream
from kaldi_compat.features.calls import Warp
from kaldi_compat.features.engines import is_exact
from kaldi_compat.features.module import ConfiguredModule
from kaldi_compat.features.postprocessing import Deltas, OnlineCmvn, ShiftedDeltas, SlidingCmvn, Splice
from kaldi_compat.features.spectral import SpectralFeature, frame_seeds
from kaldi_compat.functional.array_api import is_traced_or_differentiated
from kaldi_compat.functional.batches import zero_past
from kaldi_compat.functional.cmvn import (
    cmvn_stats,
    filled_window,
    normalized_by,
    normalized_online,
    sliding_windows,
    window_mean_and_variance,
)
from kaldi_compat.functional.deltas import delta_context, deltas_inside, shifted_delta_context, shifted_deltas_inside
from kaldi_compat.functional.splice import splice_inside
from kaldi_compat.options.base import changes
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions, SlidingCmvnOptions, SpliceOptions
from kaldi_compat.tensors.dither import Generator
from kaldi_compat.tensors.frames import num_frames, reflected

__all__ = [
    "ContextStream",
    "Counts",
    "DeltaStream",
    "FeatureStream",
    "Flags",
    "History",
    "OnlineCmvnStream",
    "ShiftedDeltaStream",
    "SlidingCmvnStream",
    "SpliceStream",
    "Stream",
    "StreamChain",
    "WindowStream",
]

# Numbers of items or frames, shape (slots,).
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Options = TypeVar("Options")


class History:
    """Buffer of the past items of each slot, addressed by their number from the start of the utterance.

    An item is a sample or a frame.

    Attributes:
        start: number of the first item that is kept, (slots,). May exceed ``end``: the items in between are discarded
            on arrival.
        end: number of items received so far, (slots,).
    """

    def __init__(self, slots: int) -> None:
        self.start: Counts = np.zeros(slots, np.int64)
        self.end: Counts = np.zeros(slots, np.int64)
        self._items: Tensor | None = None  # (slots, width, ...): kept items, then the latest chunk
        self._width = 0  # of the kept part
        self._seam: Counts = np.zeros(slots, np.int64)  # number of the latest chunk's first item

    def append(self, chunk: Tensor, lengths: Counts) -> None:
        """Append the first ``lengths`` items of ``chunk`` (slots, T, ...) to each slot."""
        self._width = 0 if self._items is None else self._items.shape[1]
        self._items = chunk if self._items is None else torch.cat((self._items, chunk), 1)
        self._seam = self.end
        self.end = self.end + lengths

    def as_column(self, counts: Counts) -> Tensor:
        """Return counts (slots,) as a column (slots, 1) on the items' device."""
        assert self._items is not None
        return torch.from_numpy(counts)[:, None].to(self._items.device, non_blocking=True)

    def numbers(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` item numbers starting at ``first`` (slots,), on the items' device: (slots, count)."""
        column = self.as_column(first)
        return column + torch.arange(count, device=column.device)

    def at(self, numbers: Tensor) -> Tensor:
        """Return items by number: (slots, n) -> (slots, n, ...). The result for numbers not kept is undefined."""
        assert self._items is not None
        if self._items.shape[1] == 0:
            return self._items.new_zeros(*numbers.shape, *self._items.shape[2:])
        start, seam = self.as_column(self.start), self.as_column(self._seam)
        column = torch.where(numbers < seam, numbers - start, self._width + numbers - seam)
        column = column.clamp(0, self._items.shape[1] - 1)
        column = column.reshape(*column.shape, *[1] * (self._items.ndim - 2))
        return torch.take_along_dim(self._items, column, 1)

    def run(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` items from ``first`` (slots,) on: (slots, count, ...). A view if all slots are aligned."""
        assert self._items is not None
        kept = self._seam - self.start
        column = np.where(kept == self._width, first - self.start, -1)
        column = np.where(first >= self._seam, self._width + first - self._seam, column)
        begin, end = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if begin == end and 0 <= begin <= self._items.shape[1] - count:
            return self._items[:, begin : begin + count]
        return self.at(self.numbers(first, count))

    def keep_from(self, start: Counts, ended: Flags) -> None:
        """Discard the items before ``start``, and all items of slots that have ended."""
        start, end = np.where(ended, 0, start), np.where(ended, 0, self.end)
        width = int((end - start).max(initial=0))
        self._items = self.run(start, width).clone() if width else None
        self.start, self.end = start, end


class Stream(abc.ABC):
    """Base class of streams: frames computed chunk by chunk, for ``slots`` streams at once.

    Call a stream with a chunk of each slot.

    Args:
        chunk: samples (slots, T), or frames (slots, T, dim). With one slot, the first axis may be omitted.
        lengths: number of valid items of the chunk in each slot, (slots,); all if None, 0 for a slot that waits.
        final: True for slots that end with this chunk: one bool for all, or (slots,). They return their last frames
            and start anew.

    Returns:
        The frames (slots, frames, dim), and the number of frames of each slot, (slots,) on the CPU; the frames after it
        are zero. For a chunk without the slots' axis, the frames (frames, dim) alone.

    Raises:
        AudioError: the chunk is not a tensor of that shape, or a length does not fit it.
    """

    item_axes = 0  # axes of one item: none for a sample, one for a frame
    # Of the latest chunk, for flush():
    _is_batched = False
    _item_shape: tuple[int, ...] = ()
    _item_dtype = torch.float32
    _item_device = torch.device("cpu")

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self.reset()

    @abc.abstractmethod
    def reset(self) -> None:
        """Discard everything received so far, in every slot."""

    @abc.abstractmethod
    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Return the frames that a chunk (slots, T, ...) decides, and their counts (slots,)."""

    def flush(self, **parameters: Any) -> Any:
        """End all slots: return the frames that the end of the audio decides, and reset.

        Args:
            parameters: further keyword arguments of a call, such as ``vtln_warp`` or ``generator``.

        Returns:
            As a call: (slots, frames, dim) and counts (slots,); the frames (frames, dim) alone for one slot whose last
            chunk had no axis of slots, or which received none.
        """
        batch_axes = (self.slots,) if self._is_batched or self.slots > 1 else ()
        empty = torch.zeros(
            *batch_axes,
            0,
            *(self._item_shape or (0,) * self.item_axes),
            dtype=self._item_dtype,
            device=self._item_device,
        )
        return self(empty, final=True, **parameters)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._description()}, {self.slots} slot{'s' * (self.slots != 1)}>"

    def _description(self) -> str:
        options = getattr(self, "options", None)
        return "" if options is None else f" of {type(options).__name__}({changes(options)})"

    def __call__(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
    ) -> Any:
        if not isinstance(chunk, Tensor):
            raise AudioError(f"a chunk must be a tensor, not {type(chunk).__name__}: pass torch.as_tensor(chunk)")
        alone = chunk.ndim == self.item_axes + 1 and self.slots == 1
        batch = chunk.unsqueeze(0) if alone else chunk
        if batch.ndim != self.item_axes + 2 or batch.shape[0] != self.slots:
            raise AudioError(
                f"a chunk for {self.slots} slots must have the shape ({self.slots}, T{', dim' * self.item_axes}), "
                f"not {tuple(chunk.shape)}"
            )
        self._is_batched, self._item_shape = not alone, tuple(batch.shape[2:])
        self._item_dtype, self._item_device = batch.dtype, batch.device
        frames, counts = self._advance(batch, self._lengths(lengths, batch.shape[1]), self._ended(final))
        return frames[0] if alone else (frames, torch.from_numpy(counts))

    def _lengths(self, lengths: Tensor | Sequence[int] | None, width: int) -> Counts:
        if lengths is None:
            return np.full(self.slots, width)
        counted = torch.as_tensor(lengths, dtype=torch.int64, device="cpu").numpy()
        if counted.shape != (self.slots,) or bool(((counted < 0) | (counted > width)).any()):
            raise AudioError(f"lengths must be {self.slots} integers from 0 to {width}, not {counted.tolist()}")
        return counted

    def _ended(self, final: bool | Tensor | Sequence[bool]) -> Flags:
        if isinstance(final, bool):
            return np.full(self.slots, final)
        return torch.as_tensor(final, dtype=torch.bool, device="cpu").expand(self.slots).numpy()


def stream_options(given: Options | ConfiguredModule | None, kind: type[Options]) -> Options:
    """Return the options of a stream: those given, those of a module, or Kaldi's defaults if None.

    Raises:
        OptionError: the options are of another kind.

    >>> from kaldi_compat import Deltas
    >>> from kaldi_compat.streaming.features import stream_options
    >>> stream_options(Deltas(delta_order=1), DeltaOptions).delta_order
    1
    """
    options = given.options if isinstance(given, ConfiguredModule) else kind() if given is None else given
    if not isinstance(options, kind):
        raise OptionError(f"this stream takes {kind.__name__} or a module with them, not {type(given).__name__}")
    return options


class WindowStream(Stream):
    """Base class of streams whose frames each depend on a window of items, and are decided once it is complete."""

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        self._history = History(self.slots)
        self._done: Counts = np.zeros(self.slots, np.int64)  # frames returned so far

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
        """Return the number of frames of a stream that ends after ``end`` items."""

    @abc.abstractmethod
    def _frames_decided_by(self, end: Counts) -> Counts:
        """Return the number of frames that are known after ``end`` items, whatever follows."""

    @abc.abstractmethod
    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        """Return the first item that frame ``done`` or a later one may need, after ``end`` items."""

    @abc.abstractmethod
    def _compute(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` frames of each slot, starting at frame ``first`` (slots,): (slots, count, dim)."""


class FeatureStream(WindowStream):
    """Spectral feature of audio in chunks: the frames that the feature computes for the whole utterance.

    With ``snip_edges=False``, the first frame waits for its right half, and the frames that reach past the end of the
    audio come with the final chunk, where the audio is reflected (Kaldi: OnlineGenericBaseFeature).

    A call also takes ``vtln_warp`` (one factor, or one for each slot) and ``generator``, as the feature does. Dithering
    draws noise for all slots up to the longest. Only a single slot with a :class:`~kaldi_compat.KaldiRandom` repeats
    the noise of the whole utterance.

    Args:
        feature: ``Fbank``, ``Mfcc``, ``Plp`` or ``Spectrogram``.
        slots: number of streams.

    >>> import torch
    >>> from kaldi_compat import Fbank
    >>> from kaldi_compat.streaming.features import FeatureStream
    >>> stream = FeatureStream(Fbank(dither=0.0, snip_edges=False))
    >>> stream(torch.zeros(500)).shape, stream(torch.zeros(300)).shape, stream.flush().shape
    (torch.Size([2, 23]), torch.Size([2, 23]), torch.Size([1, 23]))
    """

    _has_history = False  # whether the utterance under way is in the history

    def __init__(self, feature: SpectralFeature, slots: int = 1) -> None:
        if not isinstance(feature, SpectralFeature):
            raise OptionError(f"FeatureStream takes a module, such as Fbank(options), not {type(feature).__name__}")
        # A single stream of plain audio on a CPU takes a short cut through the exact engine. Anything else during an
        # utterance makes it go on with the history.
        self._scale_is_known = False
        self._chunks = ChunkStream(plan_of(feature.options)) if slots == 1 and is_exact(feature) else None
        super().__init__(slots)
        self.options = feature.options
        self._parameters: dict[str, Any] = {}  # of the call under way
        self._size, self._shift = feature.options.window_size, feature.options.window_shift
        self._first = 0 if feature.options.snip_edges else self._shift // 2 - self._size // 2
        # _compute lays out the audio of the frames, with its reflected ends: the feature must not reflect it again.
        self._name = repr(feature).replace("\n", "")
        self._feature = feature
        if not feature.options.snip_edges:
            example = next(feature.buffers())
            snipped = dataclasses.replace(feature.options, snip_edges=True)
            whole = type(feature)(snipped, engine=feature.engine, dft=feature.dft)
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
        if (
            self._chunks is not None
            and not self._has_history
            and lengths is None
            and isinstance(final, bool)
            and isinstance(vtln_warp, float)
            and self._is_plain(chunk)
        ):
            return self._exact_frames(self._chunks, chunk, final, vtln_warp, generator)
        self._continue_with_history()
        self._parameters = {"vtln_warp": vtln_warp, "generator": generator}
        frames = super().__call__(chunk, lengths, final=final)
        self._has_history = bool(self._history.end.any() or self._done.any())
        return frames

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        super().reset()
        self._has_history = False
        if self._chunks is not None:
            self._chunks.reset()

    def _is_plain(self, chunk: Tensor) -> bool:
        """Return True if the exact engine can compute a chunk (T,) or (1, T)."""
        return (
            type(chunk) is Tensor
            and chunk.dtype in (torch.int16, torch.float32)
            and (chunk.ndim == 1 or (chunk.ndim == 2 and len(chunk) == 1))
            and chunk.device.type == "cpu"
            and self._feature.window.device.type == "cpu"
            and not is_traced_or_differentiated(chunk)
        )

    def _exact_frames(
        self, chunks: ChunkStream, chunk: Tensor, final: bool, vtln_warp: float, generator: Generator
    ) -> Any:
        self._is_batched, self._item_dtype, self._item_device = chunk.ndim == 2, chunk.dtype, chunk.device
        if self._feature.warns_of_scale and not self._scale_is_known:
            self._feature.check_scale(chunk)
            self._scale_is_known = bool(chunk.any())
        samples = chunk.detach().numpy()
        seeds = frame_seeds(generator) if self.options.dither != 0 else None
        features = chunks.advance(samples[0] if chunk.ndim == 2 else samples, final, vtln_warp, seeds)
        frames = torch.from_numpy(features)
        return (frames[None], torch.tensor([len(frames)])) if chunk.ndim == 2 else frames

    def _continue_with_history(self) -> None:
        """Move what the exact engine has kept to the history."""
        chunks = self._chunks
        if chunks is None or not (chunks.start or len(chunks.buffer)):
            return
        start = np.array([chunks.start])
        self._history.start, self._history.end = start, start
        self._history.append(torch.from_numpy(chunks.buffer)[None], np.array([len(chunks.buffer)]))
        self._done = np.array([chunks.done])
        chunks.reset()

    def _description(self) -> str:
        return f" of {self._name}"

    def _frames_in(self, end: Counts) -> Counts:
        return num_frames(end, self._size, self._shift, self.options.snip_edges)

    def _frames_decided_by(self, end: Counts) -> Counts:
        inside = num_frames(end - self._first, self._size, self._shift)
        return np.minimum(inside, self._frames_in(end))

    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        start = self._first + done * self._shift
        # The reflection at the end needs up to a frame of past audio.
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
    """Function of frames and their neighbours, with the first and the last frame repeated past the edges.

    Args:
        function: maps (slots, left + frames + right, dim) to (slots, frames, any dim).
        left, right: number of frames of context before and after each frame.
        slots: number of streams.
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
    """Deltas of frames in chunks: :func:`~kaldi_compat.functional.deltas.add_deltas` as a stream.

    Its latency is ``delta_order * delta_window`` frames.

    Args:
        options: order and window, or a module that has them; Kaldi's defaults if None.
        slots: number of streams.

    >>> import torch
    >>> from kaldi_compat.streaming.features import DeltaStream
    >>> stream = DeltaStream()
    >>> stream(torch.zeros(10, 13)).shape, stream(torch.zeros(10, 13), final=True).shape
    (torch.Size([6, 39]), torch.Size([14, 39]))
    """

    def __init__(self, options: DeltaOptions | Deltas | None = None, slots: int = 1) -> None:
        given = stream_options(options, DeltaOptions)
        context = delta_context(given)
        super().__init__(lambda frames: deltas_inside(frames, given), context, context, slots)


class ShiftedDeltaStream(ContextStream):
    """Shifted deltas of frames in chunks: :func:`~kaldi_compat.functional.deltas.add_shifted_deltas` as a stream.

    Args:
        options: window, blocks and shift, or a module that has them; Kaldi's defaults if None.
        slots: number of streams.

    >>> import torch
    >>> from kaldi_compat.streaming.features import ShiftedDeltaStream
    >>> ShiftedDeltaStream()(torch.zeros(30, 7), final=True).shape
    torch.Size([30, 56])
    """

    def __init__(self, options: ShiftedDeltaOptions | ShiftedDeltas | None = None, slots: int = 1) -> None:
        given = stream_options(options, ShiftedDeltaOptions)
        super().__init__(lambda frames: shifted_deltas_inside(frames, given), *shifted_delta_context(given), slots)


class SpliceStream(ContextStream):
    """Spliced frames in chunks: :func:`~kaldi_compat.functional.splice.splice` as a stream.

    Its latency is ``right_context`` frames.

    Args:
        options: the context, or a module that has them; Kaldi's defaults if None.
        slots: number of streams.

    >>> import torch
    >>> from kaldi_compat.streaming.features import SpliceStream
    >>> SpliceStream()(torch.zeros(30, 13)).shape
    torch.Size([26, 117])
    """

    def __init__(self, options: SpliceOptions | Splice | None = None, slots: int = 1) -> None:
        given = stream_options(options, SpliceOptions)
        super().__init__(lambda frames: splice_inside(frames, given), given.left_context, given.right_context, slots)


class SlidingCmvnStream(WindowStream):
    """Sliding-window CMVN of frames in chunks: :func:`~kaldi_compat.functional.cmvn.sliding_cmvn` as a stream.

    With ``center=True``, a frame waits for the second half of its window. With ``center=False``, only the first frames
    wait, until ``min_cmn_window`` of them have arrived.

    Args:
        options: the window, or a module that has them; Kaldi's defaults if None.
        slots: number of streams.

    >>> import torch
    >>> from kaldi_compat.options.postprocessing import SlidingCmvnOptions
    >>> from kaldi_compat.streaming.features import SlidingCmvnStream
    >>> stream = SlidingCmvnStream(SlidingCmvnOptions(min_cmn_window=10))
    >>> stream(torch.zeros(8, 13)).shape, stream(torch.zeros(8, 13)).shape
    (torch.Size([0, 13]), torch.Size([16, 13]))
    """

    item_axes = 1

    def __init__(self, options: SlidingCmvnOptions | SlidingCmvn | None = None, slots: int = 1) -> None:
        super().__init__(slots)
        self.options = stream_options(options, SlidingCmvnOptions)

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


class OnlineCmvnStream(WindowStream):
    """Online CMVN of frames in chunks (:class:`~kaldi_compat.OnlineCmvn`), which adapts to the speaker of each slot.

    No frame waits for later ones. What an utterance that has ended tells of its speaker fills up the first windows of
    the slot's next utterance; :meth:`new_speaker` forgets it.

    Args:
        module: has the statistics of a corpus and the options.
        slots: number of streams.

    >>> import torch
    >>> from kaldi_compat import OnlineCmvn
    >>> from kaldi_compat.streaming.features import OnlineCmvnStream
    >>> stream = OnlineCmvnStream(OnlineCmvn(torch.tensor([[40.0, 10.0], [200.0, 0.0]]), cmn_window=2, global_frames=1))
    >>> stream(torch.tensor([[1.0]])).tolist(), stream(torch.tensor([[3.0], [5.0]]), final=True).tolist()
    ([[-1.5]], [[1.0], [1.0]])
    """

    item_axes = 1

    def __init__(self, module: OnlineCmvn, slots: int = 1) -> None:
        if not isinstance(module, OnlineCmvn):
            raise OptionError(f"OnlineCmvnStream takes a module OnlineCmvn(stats), not {type(module).__name__}")
        self._module, self.options = module, module.options
        super().__init__(slots)

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        super().reset()
        self._seen = torch.zeros(self.slots, *self._module.stats.shape, dtype=torch.float64)
        self._speaker = self._seen

    def new_speaker(self, slots: Flags | Sequence[bool] | None = None) -> None:
        """Forget the speakers of some slots, (slots,); of all if None. Call it between utterances."""
        kept = torch.zeros(self.slots) if slots is None else ~torch.as_tensor(slots)
        self._seen = self._speaker = self._speaker * kept.to(self._speaker)[:, None, None]

    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        self._seen, self._speaker = self._seen.to(chunk.device), self._speaker.to(chunk.device)
        self._seen = self._seen + cmvn_stats(chunk, lengths=torch.from_numpy(lengths).to(chunk.device))
        result = super()._advance(chunk, lengths, ended)
        is_over = torch.from_numpy(ended).to(chunk.device)[:, None, None]
        self._speaker = torch.where(is_over, self._seen, self._speaker)
        return result

    def _frames_in(self, end: Counts) -> Counts:
        return end

    def _frames_decided_by(self, end: Counts) -> Counts:
        return end

    def _oldest_needed(self, done: Counts, end: Counts) -> Counts:
        return np.maximum(done - self.options.cmn_window + 1, 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        history, options = self._history, self.options
        end, kept = history.as_column(np.maximum(history.end, 1)), history.as_column(history.start)
        times = torch.minimum(history.numbers(first, count), end - 1)
        frames = history.at(history.numbers(history.start, int((history.end - history.start).max(initial=1))))
        now = torch.take_along_dim(frames, (times - kept).clamp(min=0)[..., None], 1)
        start = (times + 1 - options.cmn_window).clamp(min=0)
        window = window_mean_and_variance(frames, (start - kept).clamp(min=0), times + 1 - kept)
        known = self._speaker[:, :1, -1:].clamp(min=1)  # statistics of no frames are not added
        speaker = torch.cat((self._speaker[..., :-1], known.expand(-1, 2, 1)), -1)[:, None]
        most = self._speaker[:, 0, -1:].clamp(max=options.speaker_frames)
        window = filled_window(window, speaker, most, options)
        window = filled_window(window, self._module.stats.to(frames.device), options.global_frames, options)
        return normalized_online(now, window, options, self._module.skip_dims)


class StreamChain:
    """Chain of streams, each applied to the output of the one before. Called like the first of them.

    Args:
        streams: the streams, with the same number of slots.

    Raises:
        AudioError: there are no streams, or their numbers of slots differ.

    >>> import torch
    >>> from kaldi_compat import Mfcc
    >>> from kaldi_compat.streaming.features import DeltaStream, FeatureStream, StreamChain
    >>> chain = StreamChain(FeatureStream(Mfcc(dither=0.0)), DeltaStream())
    >>> chain(torch.zeros(16000), final=True).shape
    torch.Size([98, 39])
    """

    def __init__(self, *streams: Stream) -> None:
        if not streams or len({stream.slots for stream in streams}) != 1:
            raise AudioError("a StreamChain needs at least one stream, and the same number of slots in each")
        self.slots = streams[0].slots
        self.streams = streams

    def reset(self) -> None:
        """Discard everything received so far, in every slot of every stream."""
        for stream in self.streams:
            stream.reset()

    def flush(self, **parameters: Any) -> Any:
        """End all slots of all streams: return the frames that the end of the audio decides, and reset.

        Args:
            parameters: further keyword arguments of a call, for the first stream.

        Returns:
            As a call.
        """
        return self._through_others(self.streams[0].flush(**parameters), final=True)

    def __repr__(self) -> str:
        return f"<StreamChain {' -> '.join(map(repr, self.streams))}>"

    def __call__(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
        **parameters: Any,
    ) -> Any:
        result = self.streams[0](chunk, lengths, final=final, **parameters)
        return self._through_others(result, final)

    def _through_others(self, result: Any, final: bool | Tensor | Sequence[bool]) -> Any:
        for stream in self.streams[1:]:
            if isinstance(result, tuple):
                result = stream(*result, final=final)
            else:
                result = stream(result, final=final)
        return result
