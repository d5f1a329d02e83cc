"""SpecAugment, which masks and warps the features of each utterance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from io_ark.text import quote_value
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.exact.rand import TORCH_GENERATOR, make_generator_error
from kaldi_compat.functional.array_api import check_plain
from kaldi_compat.functional.batches import check_lengths
from kaldi_compat.options.base import convert_number
from kaldi_compat.torch.data.arguments import check_whole_number

MAX_WIDTH = 1 << 31  # Exclusive limit on the number and width of masks, so that int64 holds their sums.


class SpecAugment(nn.Module):
    """Mask ranges of frames and of columns of features, and warp their time axis (SpecAugment).

    Masks lie within the frames of an utterance, and padding is not changed. In evaluation mode (``eval()``), features
    are returned unchanged.

    Source: Park et al., "SpecAugment: a simple data augmentation method for automatic speech recognition", Interspeech
    2019. The defaults are the policy LD of this paper, without time warping.

    Args:
        num_frequency_masks: number of masks of columns.
        frequency_mask: maximum number of columns in a mask.
        num_time_masks: number of masks of frames.
        time_mask: maximum number of frames in a mask.
        time_mask_ratio: maximum fraction of an utterance's frames in a mask.
        time_warp: exclusive limit on the number of frames by which a random frame is moved. Use 0 if there are targets
            for every frame, such as alignments, because targets are not warped.
        fill: value of masked features; None for the mean of each column over the frames of the utterance.

    Shape: features ``(frames, dim)`` or ``(B, frames, dim)``; lengths ``(B,)``; returns features of the same shape.

    Raises:
        OptionError: a number is negative, too large or not a whole number, the ratio is not within 0 to 1, or ``fill``
            is not a number.
        FeatureError: the features have a wrong shape or type, or the lengths do not match the features.

    See also: :class:`~kaldi_compat.torch.data.datasets.FeatureDataset`, whose ``transform`` may be a SpecAugment. The
    masks then depend on the utterance and the epoch.

    >>> import torch
    >>> from kaldi_compat import SpecAugment
    >>> masked = SpecAugment(frequency_mask=10, fill=0.0)(torch.ones(2, 98, 40), torch.tensor([98, 48]))
    >>> masked.shape, masked[1, 48:].sum()
    (torch.Size([2, 98, 40]), tensor(2000.))
    """

    def __init__(
        self,
        num_frequency_masks: int = 2,
        frequency_mask: int = 27,
        num_time_masks: int = 2,
        time_mask: int = 100,
        time_mask_ratio: float = 1.0,
        time_warp: int = 0,
        fill: float | None = None,
    ) -> None:
        super().__init__()
        self.num_frequency_masks, self.frequency_mask = num_frequency_masks, frequency_mask
        self.num_time_masks, self.time_mask, self.time_mask_ratio = num_time_masks, time_mask, time_mask_ratio
        self.time_warp, self.fill = time_warp, None if fill is None else convert_number("fill", fill)
        for name in ("num_frequency_masks", "frequency_mask", "num_time_masks", "time_mask", "time_warp"):
            if check_whole_number(name, getattr(self, name)) >= MAX_WIDTH:
                raise OptionError(f"{name} must be below {MAX_WIDTH}: pass a smaller number")
        if not 0 <= convert_number("time_mask_ratio", time_mask_ratio) <= 1:
            raise OptionError(f"time_mask_ratio={quote_value(time_mask_ratio)} must be from 0 to 1")

    def extra_repr(self) -> str:
        return (
            f"frequency={self.num_frequency_masks}x{self.frequency_mask}, time={self.num_time_masks}x{self.time_mask}, "
            f"time_mask_ratio={self.time_mask_ratio:g}, time_warp={self.time_warp}, fill={self.fill}"
        )

    def forward(
        self, features: Tensor, lengths: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Mask and warp features. In evaluation mode, return the features unchanged.

        Args:
            features: features of one utterance ``(frames, dim)``, or a batch ``(B, frames, dim)``.
            lengths: number of frames of each utterance, ``(B,)``; None if there is no padding.
            generator: source of the random numbers; torch's global generator on the CPU if None.

        Returns:
            Features of the shape of the input.

        Raises:
            FeatureError: the features have a wrong shape or type, or the lengths do not match the features.
            OptionError: ``generator`` has a wrong type.
        """
        if not isinstance(features, Tensor):
            raise FeatureError(
                f"features must be a tensor, not {type(features).__name__}: convert them with torch.as_tensor"
            )
        check_plain(features, FeatureError)
        if features.ndim not in (2, 3):
            raise FeatureError(
                f"features must have the shape (frames, dim) or (B, frames, dim), not {tuple(features.shape)}"
            )
        if not features.is_floating_point():
            raise FeatureError(f"features must be floating-point numbers, not {features.dtype}: pass features.float()")
        if not self.training:
            return features
        batch = features if features.ndim == 3 else features[None]
        num_rows, longest, dim = batch.shape
        checked = check_lengths(lengths, batch)
        # (rows, 1): number of frames of each utterance.
        counts = (torch.full((num_rows,), longest) if checked is None else checked).to(batch.device)[:, None]
        draws = self._draw_numbers(num_rows, generator).to(batch.device)
        warp_draws, time_draws, frequency_draws = draws.tensor_split((1, 1 + self.num_time_masks), 1)
        if self.time_warp > 0:
            batch = _warp_time(batch, counts, warp_draws[:, 0], self.time_warp)
        is_valid = (torch.arange(longest, device=batch.device) < counts)[..., None]
        max_frames = (self.time_mask_ratio * counts).long().clamp(max=self.time_mask)
        is_frame_masked = _mask_intervals(longest, counts, max_frames, time_draws)
        dims = torch.full_like(counts, dim)
        is_column_masked = _mask_intervals(dim, dims, dims.clamp(max=self.frequency_mask), frequency_draws)
        is_masked = is_frame_masked[..., None] | is_column_masked[:, None]
        fill = batch.new_tensor(self.fill) if self.fill is not None else _average_columns(batch, is_valid)
        return torch.where(is_masked & is_valid, fill, batch).view_as(features)

    def _draw_numbers(self, num_rows: int, generator: torch.Generator | None) -> Tensor:
        """Draw two uniform numbers for the warp and two for each mask of each row: ``(num_rows, 1 + masks, 2)``.

        Raise OptionError if ``generator`` has a wrong type.
        """
        if not isinstance(generator, torch.Generator | None):
            raise make_generator_error(generator, TORCH_GENERATOR)
        shape = num_rows, 1 + self.num_time_masks + self.num_frequency_masks, 2
        device = "cpu" if generator is None else generator.device
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=device)


def _scale_to_integer(uniform: Tensor, maximum: Tensor) -> Tensor:
    """Map uniform numbers in [0, 1) to integers from 0 to ``maximum``, inclusive."""
    return (uniform * (maximum + 1)).long()


def _mask_intervals(size: int, lengths: Tensor, max_width: Tensor, draws: Tensor) -> Tensor:
    """Return a mask ``(rows, size)`` that is True in random intervals of an axis.

    Args:
        size: length of the axis.
        lengths: ``(rows, 1)``: the intervals lie within this length from the start of the axis.
        max_width: ``(rows, 1)``: maximum length of an interval.
        draws: ``(rows, intervals, 2)``: uniform numbers in [0, 1) for the length and the start of each interval.
    """
    width = _scale_to_integer(draws[..., 0], max_width)
    start = _scale_to_integer(draws[..., 1], lengths - width)[..., None]
    positions = torch.arange(size, device=draws.device)
    return ((positions >= start) & (positions < start + width[..., None])).any(1)


def _average_columns(batch: Tensor, is_valid: Tensor) -> Tensor:
    """Return the column means ``(rows, 1, dim)`` of the frames for which ``is_valid`` ``(rows, frames, 1)`` is True."""
    total = torch.where(is_valid, batch, batch.new_zeros(())).sum(1, keepdim=True)
    return total / is_valid.sum(1, keepdim=True).clamp(min=1)


def _warp_time(batch: Tensor, counts: Tensor, draws: Tensor, max_shift: int) -> Tensor:
    """Move a random frame of each utterance, and interpolate the frames before and after this frame linearly.

    Utterances of fewer than 5 frames are not changed.

    Args:
        batch: features ``(rows, longest, dim)``; the result has the same shape.
        counts: ``(rows, 1)``: number of frames of each utterance.
        draws: ``(rows, 2)``: uniform numbers in [0, 1) that determine the frame and its shift.
        max_shift: exclusive limit on the shift of the frame, in frames.
    """
    last_frame = counts - 1
    margin = (last_frame // 2).clamp(0, max_shift)  # The chosen frame is at least this far from both ends.
    center = margin + _scale_to_integer(draws[:, :1], last_frame - 2 * margin)
    largest_shift = (margin - 1).clamp(min=0)
    new_center = center + _scale_to_integer(draws[:, 1:], 2 * largest_shift) - largest_shift
    # Positions need double precision, because rounding to float32 would shift the last frames of a long utterance.
    frame = torch.arange(batch.shape[1], dtype=torch.float64, device=batch.device).expand(len(batch), -1)
    source_before = frame * center / new_center.clamp(min=1)
    source_after = center + (frame - new_center) * (last_frame - center) / (last_frame - new_center).clamp(min=1)
    source = torch.where(frame < new_center, source_before, source_after)  # Position of each frame before the warp.
    source = torch.where((frame < counts) & (largest_shift > 0), source, frame)  # Padding is not warped.
    low_index = source.long()
    high_index = (low_index + 1).clamp(max=batch.shape[1] - 1)
    weight = (source - low_index)[..., None].to(batch.dtype)
    low_frames, high_frames = (batch.gather(1, index[..., None].expand_as(batch)) for index in (low_index, high_index))
    return torch.lerp(low_frames, high_frames, weight)
