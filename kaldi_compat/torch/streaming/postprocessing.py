"""Streams of deltas, splicing and CMVN, whose frames are equal to the frames of the whole utterance."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.functional.cmvn import (
    apply_mean_and_variance,
    cmvn_statistics,
    compute_sliding_windows,
    compute_window_mean_and_variance,
    fill_window,
    normalize_frames_online,
)
from kaldi_compat.functional.deltas import (
    compute_inner_deltas,
    compute_inner_shifted_deltas,
    count_delta_context,
    count_shifted_delta_context,
)
from kaldi_compat.functional.splice import splice_inner_frames
from kaldi_compat.options.postprocessing import (
    DeltaOptions,
    OnlineCmvnOptions,
    ShiftedDeltaOptions,
    SlidingCmvnOptions,
    SpliceOptions,
)
from kaldi_compat.torch.streaming.base import Configured, Options, WindowStream
from kaldi_compat.torch.streaming.history import Counts, Flags, History


class ContextStream(WindowStream[Options]):
    """Base class of streams that need a fixed number of neighbors of each frame, and repeat frames at the edges."""

    def __init__(self, module: Configured[Options], slots: int = 1) -> None:
        super().__init__(module, slots)
        self._left, self._right = self._get_context()

    @abc.abstractmethod
    def _get_context(self) -> tuple[int, int]:
        """Return the numbers of neighbors before and after each frame."""

    @abc.abstractmethod
    def _compute_inside(self, features: Tensor) -> Tensor:
        """Compute (slots, frames, new_dim) from frames with their neighbors, (slots, left + frames + right, dim)."""

    def _count_decided_frames(self, end: Counts) -> Counts:
        return np.maximum(end - self._right, 0)

    def _find_first_needed_item(self, done: Counts, end: Counts) -> Counts:
        return np.maximum(np.minimum(done - self._left, end - 1), 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Compute ``count`` frames from their neighbors. Beyond the edges, the first or the last frame is repeated."""
        indices = self.history.list_indices(first - self._left, self._left + count + self._right)
        last_index = self.history.to_column(np.maximum(self.history.end - 1, 0))
        return self._compute_inside(self.history.get_items(torch.minimum(indices.clamp(min=0), last_index)))


class DeltaStream(ContextStream[DeltaOptions]):
    """Stream that appends deltas to frames (:func:`~kaldi_compat.functional.deltas.add_deltas`).

    The latency is ``delta_order * delta_window`` frames.

    Args:
        module: :class:`~kaldi_compat.Deltas`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import Deltas
    >>> stream = Deltas().stream()
    >>> stream(torch.zeros(10, 13)).shape, stream(torch.zeros(10, 13), final=True).shape
    (torch.Size([6, 39]), torch.Size([14, 39]))
    """

    takes = "Deltas()"

    def _get_context(self) -> tuple[int, int]:
        """Return the numbers of neighbors before and after each frame, which are equal."""
        context = count_delta_context(self.options)
        return context, context

    def _compute_inside(self, features: Tensor) -> Tensor:
        return compute_inner_deltas(features, self.options)


class ShiftedDeltaStream(ContextStream[ShiftedDeltaOptions]):
    """Stream that appends shifted deltas to frames (:func:`~kaldi_compat.functional.deltas.add_shifted_deltas`).

    Args:
        module: :class:`~kaldi_compat.ShiftedDeltas`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import ShiftedDeltas
    >>> ShiftedDeltas().stream()(torch.zeros(30, 7), final=True).shape
    torch.Size([30, 56])
    """

    takes = "ShiftedDeltas()"

    def _get_context(self) -> tuple[int, int]:
        return count_shifted_delta_context(self.options)

    def _compute_inside(self, features: Tensor) -> Tensor:
        return compute_inner_shifted_deltas(features, self.options)


class SpliceStream(ContextStream[SpliceOptions]):
    """Stream that splices frames with their neighbors (:func:`~kaldi_compat.functional.splice.splice`).

    The latency is ``right_context`` frames.

    Args:
        module: :class:`~kaldi_compat.Splice`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import Splice
    >>> Splice().stream()(torch.zeros(30, 13)).shape
    torch.Size([26, 117])
    """

    takes = "Splice()"

    def _get_context(self) -> tuple[int, int]:
        return self.options.left_context, self.options.right_context

    def _compute_inside(self, features: Tensor) -> Tensor:
        return splice_inner_frames(features, self.options)


def _gather_stored_frames(history: History, first: Counts, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the stored frames, and ``count`` frames of each slot that begin at frame ``first``, (slots,).

    Returns:
        start: (slots, 1): index of the first stored frame.
        indices: (slots, count): indices of the ``count`` frames, clipped to the last received frame.
        frames: (slots, width, dim): all stored frames, where ``width`` is the largest number of frames of a slot.
        current: (slots, count, dim): the frames with these indices.
    """
    start = history.to_column(history.start)
    indices = torch.minimum(history.list_indices(first, count), history.to_column(np.maximum(history.end, 1)) - 1)
    frames = history.get_items(history.list_indices(history.start, int((history.end - history.start).max(initial=1))))
    return start, indices, frames, torch.take_along_dim(frames, (indices - start).clamp(min=0)[..., None], 1)


class SlidingCmvnStream(WindowStream[SlidingCmvnOptions]):
    """Stream of sliding-window CMVN (:func:`~kaldi_compat.functional.cmvn.sliding_cmvn`).

    With ``center=True``, a frame waits for the second half of its window. With ``center=False``, only the first
    ``min_cmn_window`` frames wait, until all of them have arrived.

    Args:
        module: :class:`~kaldi_compat.SlidingCmvn`. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import SlidingCmvn
    >>> stream = SlidingCmvn(min_cmn_window=10).stream()
    >>> stream(torch.zeros(8, 13)).shape, stream(torch.zeros(8, 13)).shape
    (torch.Size([0, 13]), torch.Size([16, 13]))
    """

    takes = "SlidingCmvn()"

    def _count_decided_frames(self, end: Counts) -> Counts:
        """Return the numbers of frames (slots,) whose windows are complete after ``end`` (slots,) frames of input."""
        if self.options.center:
            # Number of frames in a window after the frame that it normalizes.
            right = self.options.cmn_window - self.options.cmn_window // 2 - 1
            return np.maximum(np.where(end >= self.options.cmn_window, end - right, 0), 0)
        return np.where(end >= self.options.min_cmn_window, end, 0)

    def _find_first_needed_item(self, done: Counts, end: Counts) -> Counts:
        """Return the index (slots,) of the first frame that the windows of frame ``done`` and later frames may need."""
        # At the end of an utterance, a window is moved back to end at the last frame, and then needs older frames.
        oldest: Counts = np.minimum(done, end) - self.options.cmn_window
        if not self.options.center:
            oldest = np.where(end < self.options.min_cmn_window, 0, oldest)
        return np.maximum(oldest, 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Normalize frames by the mean and variance of their windows."""
        start, indices, frames, current = _gather_stored_frames(self.history, first, count)
        end = self.history.to_column(np.maximum(self.history.end, 1))
        window_start, window_end = compute_sliding_windows(indices, end, self.options)
        # The rows of padding of a slot without new frames repeat its last frame, whose window may be discarded.
        first_column = (window_start - start).clamp(min=0)
        mean, variance, size = compute_window_mean_and_variance(frames, first_column, window_end - start)
        return apply_mean_and_variance(current, mean, variance, size, self.options)


class OnlineCmvnStream(WindowStream[OnlineCmvnOptions]):
    """Stream of online CMVN (:class:`~kaldi_compat.OnlineCmvn`), which adapts to the speaker of each slot.

    The stream has no latency. At the start of an utterance, the window is filled up with the statistics of the earlier
    utterances of the same slot, which :meth:`new_speaker` discards.

    Args:
        module: :class:`~kaldi_compat.OnlineCmvn`, which has corpus statistics. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import OnlineCmvn
    >>> stream = OnlineCmvn(torch.tensor([[40.0, 10.0], [200.0, 0.0]]), cmn_window=2, global_frames=1).stream()
    >>> stream(torch.tensor([[1.0]])).tolist(), stream(torch.tensor([[3.0], [5.0]]), final=True).tolist()
    ([[-1.5]], [[1.0], [1.0]])
    """

    takes = "OnlineCmvn(statistics)"
    module: Any

    def reset(self) -> None:
        """Discard everything received so far, in every slot, and the statistics of all speakers."""
        super().reset()
        self._item_shape = (self.module.statistics.shape[1] - 1,)
        # CMVN statistics (slots, 2, dim + 1) of the speaker of each slot, with and without the current utterance.
        self._statistics = torch.zeros(self.slots, *self.module.statistics.shape, dtype=torch.float64)
        self._past_statistics = self._statistics

    def new_speaker(self, slots: Flags | Sequence[bool] | None = None) -> None:
        """Discard the statistics of the speakers. Call this method between utterances.

        Args:
            slots: (slots,): True for the slots that get a new speaker; None for all slots.
        """
        is_kept = torch.zeros(self.slots) if slots is None else ~torch.as_tensor(slots)
        self._past_statistics = self._past_statistics * is_kept.to(self._past_statistics)[:, None, None]
        self._statistics = self._past_statistics

    def _advance(self, chunk: Tensor, lengths: Counts, ended: Flags) -> tuple[Tensor, Counts]:
        """Normalize a chunk. When an utterance ends, add its statistics to the statistics of the speaker."""
        self.module._check_dimension(chunk)
        device = chunk.device
        self._past_statistics = self._past_statistics.to(device)
        chunk_statistics = cmvn_statistics(chunk, lengths=torch.from_numpy(lengths).to(device))
        statistics = self._statistics.to(device) + chunk_statistics
        result = super()._advance(chunk, lengths, ended)
        self._statistics = statistics
        has_ended = torch.from_numpy(ended).to(device)[:, None, None]
        self._past_statistics = torch.where(has_ended, self._statistics, self._past_statistics)
        return result

    def _count_decided_frames(self, end: Counts) -> Counts:
        return end

    def _find_first_needed_item(self, done: Counts, end: Counts) -> Counts:
        return np.maximum(done - self.options.cmn_window + 1, 0)

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Normalize frames by their windows, filled up with the statistics of the speaker and then of the corpus."""
        options = self.options
        start, indices, frames, current = _gather_stored_frames(self.history, first, count)
        window_start = (indices + 1 - options.cmn_window).clamp(min=0)
        window = compute_window_mean_and_variance(frames, (window_start - start).clamp(min=0), indices + 1 - start)
        # Without statistics, a count of 1 avoids a division by zero.
        counts = self._past_statistics[:, :1, -1:].clamp(min=1)
        speaker_statistics = torch.cat((self._past_statistics[..., :-1], counts.expand(-1, 2, 1)), -1)[:, None]
        max_frames = self._past_statistics[:, 0, -1:].clamp(max=options.speaker_frames)
        window = fill_window(window, speaker_statistics, max_frames, options)
        window = fill_window(window, self.module.statistics.to(frames.device), options.global_frames, options)
        return normalize_frames_online(current, window, options, self.module.skip_dims)
