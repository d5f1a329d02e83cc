"""Streams of low frame rate features, of stacks of frames, and of functions of single frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.functional.batches import zero_padding
from kaldi_compat.functional.stacking import count_stacks, stack_frames
from kaldi_compat.options.frontend import LowFrameRateOptions, StackFramesOptions
from kaldi_compat.torch.streaming.base import Configured, Stream, WindowStream
from kaldi_compat.torch.streaming.history import Counts, Flags


class LowFrameRateStream(WindowStream[LowFrameRateOptions]):
    """Stream that concatenates neighboring frames at a lower frame rate.

    See :func:`~kaldi_compat.functional.stacking.low_frame_rate`.

    Args:
        module: :class:`~kaldi_compat.LowFrameRate`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import LowFrameRate
    >>> stream = LowFrameRate().stream()
    >>> stream(torch.zeros(12, 80)).shape, stream(torch.zeros(12, 80), final=True).shape
    (torch.Size([2, 560]), torch.Size([2, 560]))
    """

    takes = "LowFrameRate()"

    def __init__(self, module: Configured[LowFrameRateOptions], slots: int = 1) -> None:
        super().__init__(module, slots)
        self._left = (self.options.stack - 1) // 2  # Number of frames before the center of a stack.

    def _count_frames(self, end: Counts) -> Counts:
        """Return the numbers of stacks (slots,) of utterances of ``end`` (slots,) frames."""
        count: Counts = count_stacks(end, self.options)
        return count

    def _count_decided_frames(self, end: Counts) -> Counts:
        """Return the numbers of stacks (slots,) that are complete after ``end`` (slots,) frames."""
        num_needed = self.options.stack - self._left  # Number of frames that the first stack needs.
        return np.where(end >= num_needed, (end - num_needed) // self.options.stride + 1, 0)

    def _find_first_needed_item(self, done: Counts, end: Counts) -> Counts:
        return np.maximum(np.minimum(done * self.options.stride - self._left, end - 1), 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Gather and join the frames of each stack. Beyond the edges, the first or the last frame is repeated."""
        history, stack, stride = self.history, self.options.stack, self.options.stride
        start = history.to_column(first * stride - self._left)
        offsets = torch.arange(count, device=start.device)[:, None] * stride
        offsets = (offsets + torch.arange(stack, device=start.device)).flatten()
        indices = torch.minimum((start + offsets).clamp(min=0), history.to_column(np.maximum(history.end - 1, 0)))
        frames = history.get_items(indices)
        return frames.reshape(self.slots, count, stack * frames.shape[-1])


class StackFramesStream(WindowStream[StackFramesOptions]):
    """Stream that concatenates consecutive frames (:func:`~kaldi_compat.functional.stacking.stack_frames`).

    Args:
        module: :class:`~kaldi_compat.StackFrames`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import StackFrames
    >>> stream = StackFrames().stream()
    >>> stream(torch.zeros(3, 80)).shape, stream(torch.zeros(2, 80), final=True).shape
    (torch.Size([1, 160]), torch.Size([2, 160]))
    """

    takes = "StackFrames()"

    def _count_frames(self, end: Counts) -> Counts:
        return -(-end // self.options.size)

    def _count_decided_frames(self, end: Counts) -> Counts:
        return end // self.options.size

    def _find_first_needed_item(self, done: Counts, end: Counts) -> Counts:
        return np.minimum(done * self.options.size, end)

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Join the frames of each stack. The last stack of an utterance may have fewer frames."""
        history = self.history
        frames = history.get_items(history.list_indices(first * self.options.size, count * self.options.size))
        available = torch.from_numpy(np.maximum(history.end - first * self.options.size, 0)).clamp(max=frames.shape[1])
        return stack_frames(frames, self.options, lengths=available)


class FrameStream(Stream[Any]):
    """Stream of a module that computes each frame independently.

    Args:
        module: ``Floor``, ``GlobalCmvn``, or ``Cmvn`` with statistics. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import Floor
    >>> Floor().stream()(torch.tensor([[-1.0, 2.0]])).tolist()
    [[0.0, 2.0]]
    """

    takes = "GlobalCmvn(statistics)"
    module: Any

    def reset(self) -> None:
        """Do nothing, because the stream stores no frames."""

    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Call the module with the chunk, because no output frame depends on several input frames."""
        is_full = bool((lengths == chunk.shape[1]).all())
        computed = self.module(chunk)
        counts = None if is_full else torch.from_numpy(lengths).to(chunk.device, non_blocking=True)
        return zero_padding(computed, counts), lengths
