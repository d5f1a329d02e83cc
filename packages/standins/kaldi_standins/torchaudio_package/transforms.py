"""Modules of ``torchaudio.transforms`` that speech front ends use: resampling, deltas and masks."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_standins.torchaudio_package.functional import (
    apply_filters,
    compute_deltas,
    make_sinc_filters,
    mask_along_axis,
    mask_along_axis_iid,
)

__all__ = ["ComputeDeltas", "FrequencyMasking", "Resample", "TimeMasking"]


class ComputeDeltas(torch.nn.Module):
    """Compute deltas as :func:`~kaldi_standins.torchaudio_package.functional.compute_deltas` does.

    Args:
        win_length: length of the window in frames. An even number is reduced by 1.
        mode: padding at the edges, a mode of ``torch.nn.functional.pad``.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.transforms import ComputeDeltas
    >>> ComputeDeltas()(torch.zeros(1, 13, 50)).shape
    torch.Size([1, 13, 50])
    """

    def __init__(self, win_length: int = 5, mode: str = "replicate") -> None:
        super().__init__()
        self.win_length, self.mode = win_length, mode

    def forward(self, specgram: Tensor) -> Tensor:
        """Return the deltas of features (..., dim, frames), of the same shape.

        Raises:
            ValueError: the window has fewer than 3 frames.
        """
        return compute_deltas(specgram, self.win_length, self.mode)


class FrequencyMasking(torch.nn.Module):
    """Mask a random range of frequencies in spectrograms (..., freq, time).

    Args:
        freq_mask_param: exclusive upper bound of the length of the range, in frequency bins.
        iid_masks: True to mask a different range in each spectrogram.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.transforms import FrequencyMasking
    >>> FrequencyMasking(20)(torch.ones(1, 80, 100)).shape
    torch.Size([1, 80, 100])
    """

    axis, p = -2, 1.0

    def __init__(self, freq_mask_param: int, iid_masks: bool = False) -> None:
        super().__init__()
        self.mask_param, self.iid_masks = freq_mask_param, iid_masks

    def forward(self, specgram: Tensor, mask_value: float | Tensor = 0.0) -> Tensor:
        """Return the masked spectrograms (..., freq, time). Masked elements have the value ``mask_value``."""
        if self.iid_masks:
            return mask_along_axis_iid(specgram, self.mask_param, mask_value, self.axis, self.p)
        return mask_along_axis(specgram, self.mask_param, float(mask_value), self.axis, self.p)


class TimeMasking(FrequencyMasking):
    """Mask a random range of time in spectrograms (..., freq, time).

    Args:
        time_mask_param: exclusive upper bound of the length of the range, in frames.
        iid_masks: True to mask a different range in each spectrogram.
        p: maximum fraction of the frames that is masked, from 0 to 1.

    Raises:
        ValueError: ``p`` is not between 0 and 1.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.transforms import TimeMasking
    >>> TimeMasking(20)(torch.ones(1, 80, 100)).shape
    torch.Size([1, 80, 100])
    """

    axis = -1

    def __init__(self, time_mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"p={p} must lie within 0 to 1")
        super().__init__(time_mask_param, iid_masks)
        self.p = p


class Resample(torch.nn.Module):
    """Resample audio as :func:`~kaldi_standins.torchaudio_package.functional.resample` does, with stored filters.

    Args:
        orig_freq, new_freq: sampling rates in Hz, whole numbers.
        resampling_method: "sinc_interp_hann" or "sinc_interp_kaiser".
        lowpass_filter_width: number of zero crossings of the filter on each side.
        rolloff: cutoff frequency, relative to half of the lower rate.
        beta: shape of the Kaiser window. None for torchaudio's default.
        dtype: type of the filters. None for float32.

    Raises:
        OptionError: a rate, the width or the method is invalid. The error is also a ValueError.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.transforms import Resample
    >>> Resample(8000, 16000)(torch.zeros(1, 80)).shape
    torch.Size([1, 160])
    """

    kernel: Tensor

    def __init__(
        self,
        orig_freq: int = 16000,
        new_freq: int = 16000,
        resampling_method: str = "sinc_interp_hann",
        lowpass_filter_width: int = 6,
        rolloff: float = 0.99,
        beta: float | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.orig_freq, self.new_freq = orig_freq, new_freq
        filters = make_sinc_filters(orig_freq, new_freq, lowpass_filter_width, rolloff, resampling_method, beta, dtype)
        if orig_freq != new_freq:
            # Checkpoints of torchaudio's Resample contain a buffer with this name and shape, so they can be loaded.
            self.register_buffer("kernel", filters)

    def forward(self, waveform: Tensor) -> Tensor:
        """Return the resampled audio (..., ceil(T * new_freq / orig_freq)), or ``waveform`` itself for equal rates.

        Raises:
            TypeError: the samples are not floating point.
        """
        if self.orig_freq == self.new_freq:
            return waveform
        return apply_filters(waveform, self.orig_freq, self.new_freq, self.kernel)
