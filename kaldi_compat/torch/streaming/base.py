"""Base classes of streams, which compute frames from samples or frames that arrive in chunks.

A stream has one or several slots, and a slot processes one utterance at a time. Call the stream with the next chunk of
each slot, and pass ``final`` for the slots whose utterance ends with this chunk. The stream returns the frames that no
later input can change, and stores only the input that later frames need, so its memory is bounded. A slot whose
utterance has ended takes the next utterance.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from io_ark.text import quote_value
from kaldi_compat.errors import AudioError, FeatureError, OptionError
from kaldi_compat.exact.stream import WindowFlow, refuse_after_failure
from kaldi_compat.functional.array_api import check_plain, refuse_export
from kaldi_compat.functional.batches import check_lengths, zero_padding
from kaldi_compat.functional.checks import check_samples, make_chunk_error, refuse_rate_as_lengths
from kaldi_compat.torch.calls import ChainCall, StreamCall
from kaldi_compat.torch.streaming.history import Counts, Flags, History

Options = TypeVar("Options")
Options_co = TypeVar("Options_co", covariant=True)
# Result of a call: the frames (frames, dim) for a chunk without the slot axis; otherwise the frames
# (slots, frames, dim) and their counts (slots,).
ChunkFrames: TypeAlias = Tensor | tuple[Tensor, Tensor]


def refuse_export_of_stream(chunk: Tensor) -> None:
    """Raise an OptionError if the call of a stream with ``chunk`` is being exported or traced.

    The exported program would not keep the audio that a stream stores, so each chunk would count as the first chunk.
    """
    refuse_export(
        chunk,
        "a stream cannot be exported or traced, because it stores audio between calls: export the module for whole "
        "utterances, or call the stream outside of the model",
    )


class Configured(Protocol[Options_co]):
    """Attributes of :class:`kaldi_compat.torch.features.module.ConfiguredModule` that a stream uses."""

    @property
    def options(self) -> Options_co: ...


class Stream(StreamCall, abc.ABC, Generic[Options]):
    """Base class of streams, which compute the output of a module chunk by chunk for ``slots`` utterances.

    The method ``stream`` of a module returns a stream of the module. Call the stream with a chunk of each slot. The
    following sections describe a call.

    Args:
        chunk: samples (slots, T), or frames (slots, T, dim). With one slot, the first axis may be omitted.
        lengths: number of valid samples or frames in each slot, (slots,), 0 without input; None if all are valid.
        final: True for the slots whose utterance ends with this chunk, one bool for all slots or (slots,). These slots
            return their last frames and start a new utterance.

    Returns:
        The frames (slots, frames, dim), and the number of frames of each slot, (slots,) on the CPU. Frames beyond
        this number are zero. For a chunk without the slot axis, only the frames (frames, dim).

    Raises:
        AudioError: the chunk is not a tensor of a valid shape, or a length or ``final`` is invalid.
        FeatureError: the frames are not floating-point numbers, or are no input of the module.
        OptionError: the call is exported or traced.
    """

    takes: ClassVar[str]  # Example of the module that the stream takes, for error messages.
    item_axes = 1  # Number of axes of an item of a chunk: 0 for a sample, 1 for a frame.
    # Shape, data type and device of the latest chunk that was not refused. flush() sends an empty chunk like it.
    _is_batched = False
    _item_shape: tuple[int, ...] = ()
    _item_dtype = torch.float32
    _item_device = torch.device("cpu")

    def __init__(self, module: Configured[Options], slots: int = 1) -> None:
        """Make a stream of ``module`` with ``slots`` slots. Raise OptionError unless the module has such a stream."""
        stream_class = getattr(module, "_stream", None)
        if stream_class is None or not isinstance(self, stream_class):
            raise OptionError(
                f"{type(self).__name__} takes a module such as {self.takes}, not {type(module).__name__}: "
                "call the method stream() of a module"
            )
        self.module, self.options, self.slots = module, module.options, slots
        self.reset()

    @abc.abstractmethod
    def reset(self) -> None:
        """Discard everything received so far, in every slot."""

    @abc.abstractmethod
    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Take a chunk (slots, T, ...). Return the next frames (slots, frames, dim) that no later chunk can change.

        Also return the number of these frames in each slot, (slots,). ``lengths`` (slots,) counts the valid items of
        the chunk. ``ended`` (slots,) marks the slots whose utterance ends with the chunk.
        """

    def flush(self, **parameters: Any) -> Any:
        """End the utterance in every slot, return the last frames, and reset the stream.

        Args:
            parameters: further keyword arguments of a call, such as ``vtln_warp`` or ``generator``.

        Returns:
            The frames (slots, frames, dim) and their counts (slots,). With a single slot, only the frames
            (frames, dim), unless the latest chunk had the slot axis.
        """
        batch_axes = (self.slots,) if self._is_batched or self.slots > 1 else ()
        shape = (*batch_axes, 0, *(self._item_shape or (0,) * self.item_axes))
        empty = torch.zeros(shape, dtype=self._item_dtype, device=self._item_device)
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
        """Take the next chunk of each slot, and return the frames that no later chunk can change. See the class."""
        if not isinstance(chunk, Tensor):
            raise make_chunk_error(chunk, expects_tensor=True)
        refuse_export_of_stream(chunk)
        if self.item_axes:
            if check_plain(chunk, AudioError) != "f":
                raise FeatureError(f"features must be floating-point numbers, not {chunk.dtype}: convert them")
        else:
            check_samples(chunk)
        is_single = chunk.ndim == self.item_axes + 1 and self.slots == 1
        batch = chunk.unsqueeze(0) if is_single else chunk
        if batch.ndim != self.item_axes + 2 or batch.shape[0] != self.slots:
            raise AudioError(
                f"a chunk for {self.slots} slot{'s' * (self.slots != 1)} must have the shape "
                f"({self.slots}, T{', dim' * self.item_axes}), not {tuple(chunk.shape)}; only a chunk for one slot may "
                "leave out the first axis"
            )
        frames, counts = self._advance(batch, self._check_lengths(lengths, batch.shape[1]), self._expand_final(final))
        self._is_batched, self._item_shape = not is_single, tuple(batch.shape[2:])
        self._item_dtype, self._item_device = batch.dtype, batch.device
        return frames[0] if is_single else (frames, torch.from_numpy(counts))

    if not TYPE_CHECKING:  # StreamCall declares __call__ for type checkers.
        __call__ = _take

    def _check_lengths(self, lengths: Tensor | Sequence[int] | None, num_items: int) -> Counts:
        """Return the lengths of a chunk as an array (slots,). None means that all ``num_items`` items are valid.

        Raise AudioError unless the lengths are integers from 0 to ``num_items``, one for each slot.
        """
        if lengths is None:
            return np.full(self.slots, num_items)
        if self.item_axes == 0:
            refuse_rate_as_lengths(lengths)
        placeholder = np.broadcast_to(np.int16(0), (self.slots, num_items))  # Array of this shape without memory.
        return np.asarray(check_lengths(lengths, placeholder, -1, AudioError), np.int64)

    def _expand_final(self, final: bool | Tensor | Sequence[bool]) -> Flags:
        """Return ``final`` as an array (slots,). Raise AudioError if ``final`` does not match the slots."""
        if isinstance(final, bool):
            return np.full(self.slots, final)
        try:
            return torch.as_tensor(final, dtype=torch.bool, device="cpu").expand(self.slots).numpy()
        except (TypeError, ValueError, RuntimeError):
            shown = f"{quote_value(final)} for {self.slots} slot{'s' * (self.slots != 1)}"
            raise AudioError(f"final must be a bool, or one bool for each slot, not {shown}") from None


class WindowStream(WindowFlow, Stream[Options]):
    """Base class of streams whose frames depend on a window of samples or frames.

    A frame is decided when its window is complete.
    """

    history: History

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        self.history = History(self.slots)
        self.done: Counts = np.zeros(self.slots, np.int64)  # Number of frames that each slot has returned.

    def _count_frames(self, end: Counts) -> Counts:
        """Return the numbers of output frames (slots,) of utterances of ``end`` (slots,) samples or frames."""
        return end  # Subclasses override this if their output has a different number of frames.

    def _compute_frames(self, first: Counts, counts: Counts) -> Tensor:
        """Return ``counts`` (slots,) frames from frame ``first`` (slots,) on, as zero-padded (slots, longest, dim)."""
        longest = int(counts.max(initial=0))
        frames = self._compute(first, longest)
        if (counts < longest).any():
            return zero_padding(frames, torch.from_numpy(counts).to(frames.device, non_blocking=True))
        return frames

    @abc.abstractmethod
    def _compute(self, first: Counts, count: int) -> Tensor:
        """Return frames ``first`` to ``first + count - 1`` of each slot, (slots, count, dim). ``first`` is (slots,)."""


class StreamChain(ChainCall):
    """Chain of streams, in which the output of a stream is the input of the next stream.

    The chain is called with the same arguments as its first stream.

    Args:
        streams: the streams, with the same number of slots.

    Raises:
        AudioError: no stream is passed, or the streams differ in their number of slots.

    >>> import torch
    >>> from kaldi_compat import Deltas, Mfcc, StreamChain
    >>> chain = StreamChain(Mfcc(dither=0.0).stream(), Deltas().stream())
    >>> chain(torch.zeros(16000), final=True).shape
    torch.Size([98, 39])
    """

    _has_failed = False  # True if some streams have taken a chunk, and others have not.

    def __init__(self, *streams: Stream[Any]) -> None:
        if not streams:
            raise AudioError("a StreamChain has no streams: pass at least one stream")
        if len({stream.slots for stream in streams}) != 1:
            raise AudioError("the streams of a StreamChain differ in slots: pass streams with the same number of slots")
        self.slots = streams[0].slots
        self.streams = streams

    def reset(self) -> None:
        """Discard everything received so far, in every slot of every stream."""
        self._has_failed = False
        for stream in self.streams:
            stream.reset()

    def flush(self, **parameters: Any) -> Any:
        """End the utterance in every slot, return the last frames of the last stream, and reset all streams.

        Args:
            parameters: further keyword arguments of a call of the first stream.

        Returns:
            The same as :meth:`Stream.flush`.
        """
        refuse_after_failure(self._has_failed)
        return self._pass_on_result(self.streams[0].flush(**parameters), final=True)

    def __repr__(self) -> str:
        return f"<StreamChain {' -> '.join(map(repr, self.streams))}>"

    if not TYPE_CHECKING:  # ChainCall declares __call__ for type checkers.

        def __call__(self, chunk, lengths=None, *, final=False, **parameters):
            refuse_after_failure(self._has_failed)
            return self._pass_on_result(self.streams[0](chunk, lengths, final=final, **parameters), final)

    def _pass_on_result(self, result: Any, final: bool | Tensor | Sequence[bool]) -> Any:
        """Pass the result of the first stream through the other streams, and return the result of the last stream."""
        self._has_failed = True
        for stream in self.streams[1:]:
            result = stream(*result, final=final) if isinstance(result, tuple) else stream(result, final=final)
        self._has_failed = False
        return result
