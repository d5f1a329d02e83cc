"""Streams: frames of samples or of other frames that arrive in chunks, for a batch of streams at once.

Call a stream with the next chunk of each slot, and say which slots end with it. The stream returns the frames that no
later audio can change. It keeps only the samples or frames that later frames need, so its memory is bounded for audio
of any length. A slot that has ended is empty and takes the next utterance.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact.stream import WindowFlow
from kaldi_compat.functional.array_api import check_plain
from kaldi_compat.functional.batches import zero_past
from kaldi_compat.functional.checks import check_lengths_are_no_rate, check_samples, rate_advice
from kaldi_compat.torch.calls import ChainCall, StreamCall
from kaldi_compat.torch.streaming.history import Counts, Flags, History

Options = TypeVar("Options")
Options_co = TypeVar("Options_co", covariant=True)
# Frames of a chunk without the axis of slots; frames and their counts for a chunk with this axis.
ChunkFrames: TypeAlias = Tensor | tuple[Tensor, Tensor]


class Configured(Protocol[Options_co]):
    """Part of :class:`kaldi_compat.torch.features.module.ConfiguredModule` that a stream uses."""

    @property
    def options(self) -> Options_co: ...


class Stream(StreamCall, abc.ABC, Generic[Options]):
    """Base class of streams, which compute the output of a module chunk by chunk, for ``slots`` utterances together.

    A module's method ``stream`` makes its stream. Call it with a chunk of each slot.

    Args:
        chunk: samples (slots, T), or frames (slots, T, dim). With one slot, the first axis may be omitted.
        lengths: number of valid items of the chunk in each slot, (slots,); all if None, 0 for a slot that waits.
        final: True for slots that end with this chunk: one bool for all, or (slots,). They return their last frames
            and start a new utterance.

    Returns:
        The frames (slots, frames, dim), and the number of frames of each slot, (slots,) on the CPU; the frames after it
        are zero. For a chunk without the slots' axis, the frames (frames, dim) alone.

    Raises:
        AudioError: the chunk is not a tensor of that shape, or a length does not fit it.
    """

    takes: ClassVar[str]  # the module, for messages
    item_axes = 1  # axes of one item: none for a sample, one for a frame
    # Form of the latest chunk, for flush().
    _is_batched = False
    _item_shape: tuple[int, ...] = ()
    _item_dtype = torch.float32
    _item_device = torch.device("cpu")

    def __init__(self, module: Configured[Options], slots: int = 1) -> None:
        kind = getattr(module, "_stream", None)
        if kind is None or not isinstance(self, kind):
            raise OptionError(f"{type(self).__name__} takes a module: {self.takes}, not {type(module).__name__}")
        self.module, self.options, self.slots = module, module.options, slots
        self.reset()

    @abc.abstractmethod
    def reset(self) -> None:
        """Discard everything received so far, in every slot."""

    @abc.abstractmethod
    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Return the frames that a chunk (slots, T, ...) decides, and their counts (slots,)."""

    def flush(self, **parameters: Any) -> Any:
        """End all slots, return their last frames, and reset.

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
        module = repr(self.module).replace("\n", "")
        return f"<{type(self).__name__} of {module}, {self.slots} slot{'s' * (self.slots != 1)}>"

    def _take(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
    ) -> ChunkFrames:
        if not isinstance(chunk, Tensor):
            raise AudioError(f"a chunk must be a tensor, not {type(chunk).__name__}: pass torch.as_tensor(chunk)")
        if self.item_axes:
            check_plain(chunk, AudioError)
        else:
            check_samples(chunk)
        alone = chunk.ndim == self.item_axes + 1 and self.slots == 1
        batch = chunk.unsqueeze(0) if alone else chunk
        if batch.ndim != self.item_axes + 2 or batch.shape[0] != self.slots:
            raise AudioError(
                f"a chunk for {self.slots} slots must have the shape ({self.slots}, T{', dim' * self.item_axes}), "
                f"not {tuple(chunk.shape)}"
            )
        self._is_batched, self._item_shape = not alone, tuple(batch.shape[2:])
        self._item_dtype, self._item_device = batch.dtype, batch.device
        frames, counts = self._advance(batch, self._check_lengths(lengths, batch.shape[1]), self._expand_final(final))
        return frames[0] if alone else (frames, torch.from_numpy(counts))

    if not TYPE_CHECKING:  # type checkers take it from StreamCall
        __call__ = _take

    def _check_lengths(self, lengths: Tensor | Sequence[int] | None, width: int) -> Counts:
        if lengths is None:
            return np.full(self.slots, width)
        if self.item_axes == 0:
            check_lengths_are_no_rate(lengths, rate_advice(lengths))
        counted = torch.as_tensor(lengths, dtype=torch.int64, device="cpu").numpy()
        if counted.shape != (self.slots,) or bool(((counted < 0) | (counted > width)).any()):
            raise AudioError(f"lengths must be {self.slots} integers from 0 to {width}, not {counted.tolist()}")
        return counted

    def _expand_final(self, final: bool | Tensor | Sequence[bool]) -> Flags:
        if isinstance(final, bool):
            return np.full(self.slots, final)
        return torch.as_tensor(final, dtype=torch.bool, device="cpu").expand(self.slots).numpy()


class WindowStream(WindowFlow, Stream[Options]):
    """Base class of streams whose frames each depend on a window of items, and are decided once it is complete."""

    history: History

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        self.history = History(self.slots)
        self.done: Counts = np.zeros(self.slots, np.int64)

    def _frames_in(self, end: Counts) -> Counts:
        return end  # a frame for each frame, unless a subclass says otherwise

    def _frames(self, first: Counts, counts: Counts) -> Tensor:
        longest = int(counts.max(initial=0))
        frames = self._compute(first, longest)
        if (counts < longest).any():
            return zero_past(frames, torch.from_numpy(counts).to(frames.device, non_blocking=True))
        return frames

    @abc.abstractmethod
    def _compute(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` frames of each slot, starting at frame ``first`` (slots,): (slots, count, dim)."""


class StreamChain(ChainCall):
    """Chain of streams: a stream is applied to the output of the previous stream. Called like the first stream.

    Args:
        streams: the streams, with the same number of slots.

    Raises:
        AudioError: no stream is passed, or the streams differ in their slots.

    >>> import torch
    >>> from kaldi_compat import Deltas, Mfcc, StreamChain
    >>> chain = StreamChain(Mfcc(dither=0.0).stream(), Deltas().stream())
    >>> chain(torch.zeros(16000), final=True).shape
    torch.Size([98, 39])
    """

    def __init__(self, *streams: Stream[Any]) -> None:
        if not streams or len({stream.slots for stream in streams}) != 1:
            raise AudioError("a StreamChain needs at least one stream, and the same number of slots in each")
        self.slots = streams[0].slots
        self.streams = streams

    def reset(self) -> None:
        """Discard everything received so far, in every slot of every stream."""
        for stream in self.streams:
            stream.reset()

    def flush(self, **parameters: Any) -> Any:
        """End all slots of all streams, return their last frames, and reset.

        Args:
            parameters: further keyword arguments of a call, for the first stream.

        Returns:
            See the call.
        """
        return self._pass_on(self.streams[0].flush(**parameters), final=True)

    def __repr__(self) -> str:
        return f"<StreamChain {' -> '.join(map(repr, self.streams))}>"

    if not TYPE_CHECKING:  # type checkers take it from ChainCall

        def __call__(self, chunk, lengths=None, *, final=False, **parameters):
            return self._pass_on(self.streams[0](chunk, lengths, final=final, **parameters), final)

    def _pass_on(self, result: Any, final: bool | Tensor | Sequence[bool]) -> Any:
        for stream in self.streams[1:]:
            result = stream(*result, final=final) if isinstance(result, tuple) else stream(result, final=final)
        return result
