"""Functions of ``torchaudio.functional`` that follow Kaldi, and its resampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kaldi_compat.errors import OptionError
from kaldi_compat.functional import cmvn, deltas
from kaldi_compat.options.postprocessing import DeltaOptions, SlidingCmvnOptions
from kaldi_compat.torch.features.pitch import Pitch

__all__ = [
    "add_deltas", "compute_deltas", "compute_kaldi_pitch", "mask_along_axis", "mask_along_axis_iid", "resample",
    "sliding_window_cmn",
]  # fmt: skip

KAISER_BETA = 14.769656459379492  # torchaudio's default shape of the Kaiser window.
# Maps resampling methods to windows. torchaudio before version 2.0 has the last two names.
METHODS = {"sinc_interp_hann": "hann", "sinc_interp_kaiser": "kaiser",
           "sinc_interpolation": "hann", "kaiser_window": "kaiser"}  # fmt: skip


def compute_kaldi_pitch(
    waveform: Tensor,
    sample_rate: float,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    min_f0: float = 50,
    max_f0: float = 400,
    soft_min_f0: float = 10.0,
    penalty_factor: float = 0.1,
    lowpass_cutoff: float = 1000,
    resample_frequency: float = 4000,
    delta_pitch: float = 0.005,
    nccf_ballast: float = 7000,
    lowpass_filter_width: int = 1,
    upsample_filter_width: int = 5,
    max_frames_latency: int = 0,
    frames_per_chunk: int = 0,
    simulate_first_pass_online: bool = False,
    recompute_frame: int = 500,
    snip_edges: bool = True,
) -> Tensor:
    """Track pitch, like the function that torchaudio removed in version 2.1 (Kaldi: compute-kaldi-pitch-feats).

    Args:
        waveform: samples (..., T), on any scale.
        sample_rate: sampling rate in Hz.
        frame_length, frame_shift: length of a frame, and time from one frame to the next, in milliseconds.
        min_f0, max_f0, soft_min_f0, penalty_factor, lowpass_cutoff, resample_frequency, delta_pitch, nccf_ballast,
            lowpass_filter_width, upsample_filter_width, max_frames_latency, frames_per_chunk,
            simulate_first_pass_online, recompute_frame, snip_edges: see
            :class:`~kaldi_compat.options.pitch.PitchOptions`.

    Returns:
        Columns (..., frames, 2), in Kaldi's order: normalized correlation (NCCF), and pitch in Hz.

    Raises:
        OptionError: Kaldi refuses an option.
        AudioError: the samples have an unsupported type, are not finite, or are too loud.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import compute_kaldi_pitch
    >>> tone = 0.2 * torch.sin(2 * torch.pi * 200 * torch.arange(16000) / 16000)
    >>> compute_kaldi_pitch(tone, 16000).shape
    torch.Size([98, 2])
    """
    options = {name: value for name, value in locals().items() if name not in ("waveform", "sample_rate")}
    track = Pitch(sample_frequency=float(sample_rate), **options)
    rows = track(waveform.reshape(-1, waveform.shape[-1]))
    return rows.reshape(*waveform.shape[:-1], *rows.shape[1:])


def sliding_window_cmn(
    specgram: Tensor, cmn_window: int = 600, min_cmn_window: int = 100, center: bool = False, norm_vars: bool = False
) -> Tensor:
    """Normalize features by the mean and optionally the variance over a sliding window (Kaldi: apply-cmvn-sliding).

    Args:
        specgram: features (..., frames, dim).
        cmn_window: length of the window in frames.
        min_cmn_window: smallest length of the window at the start, in frames. Ignored if ``center`` is True.
        center: True to center the window on the frame. False for a window that ends at the frame.
        norm_vars: True to divide by the standard deviation.

    Returns:
        Normalized features (..., frames, dim).

    Raises:
        OptionError: the window has no frames.
        FeatureError: the features have a wrong shape or type.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import sliding_window_cmn
    >>> sliding_window_cmn(torch.randn(300, 80)).shape
    torch.Size([300, 80])
    """
    options = SlidingCmvnOptions(
        cmn_window=cmn_window, min_cmn_window=min_cmn_window, center=center, norm_vars=norm_vars
    )
    normalized: Tensor = cmvn.sliding_cmvn(specgram, options)
    return normalized


def compute_deltas(specgram: Tensor, win_length: int = 5, mode: str = "replicate") -> Tensor:
    """Compute deltas as torchaudio does: slopes along the last axis. The result does not contain the features.

    Args:
        specgram: features (..., dim, frames).
        win_length: length of the window in frames. An even number is reduced by 1.
        mode: padding at the edges, a mode of ``torch.nn.functional.pad``.

    Returns:
        Deltas (..., dim, frames).

    Raises:
        ValueError: the window has fewer than 3 frames.

    See also :func:`add_deltas`, which computes Kaldi's deltas.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import compute_deltas
    >>> compute_deltas(torch.arange(6.0)[None])[0, 2:4].tolist()
    [1.0, 1.0]
    """
    if win_length < 3:
        raise ValueError(f"Window length should be greater than or equal to 3. Found win_length {win_length}")
    size = (win_length - 1) // 2
    weights = torch.arange(-size, size + 1, dtype=specgram.dtype, device=specgram.device)
    rows = specgram.reshape(1, -1, specgram.shape[-1])
    padded = torch.nn.functional.pad(rows, (size, size), mode=mode)
    slopes = padded.unfold(-1, 2 * size + 1, 1) @ weights / (weights @ weights)
    return slopes.reshape(specgram.shape)


def add_deltas(features: Any, delta_order: int = 2, delta_window: int = 2) -> Any:
    """Append deltas to features (Kaldi: add-deltas).

    Args:
        features: array or tensor (..., frames, dim).
        delta_order: largest order of the deltas. 2 appends deltas and deltas of deltas.
        delta_window: number of frames on each side of a frame from which a delta is computed.

    Returns:
        Features and deltas (..., frames, dim * (1 + delta_order)).

    Raises:
        OptionError: Kaldi refuses the order or the window.
        FeatureError: the features have a wrong shape or type.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import add_deltas
    >>> add_deltas(torch.zeros(10, 13)).shape
    torch.Size([10, 39])
    """
    return deltas.add_deltas(features, DeltaOptions(delta_order=delta_order, delta_window=delta_window))


def mask_along_axis(specgram: Tensor, mask_param: int, mask_value: float, axis: int, p: float = 1.0) -> Tensor:
    """Mask the same random range of an axis in all spectrograms (..., freq, time).

    Args:
        specgram: spectrograms (..., freq, time).
        mask_param: exclusive upper bound of the length of the range, in bins or frames.
        mask_value: value of masked elements.
        axis: the axis that is masked, one of the last two.
        p: maximum fraction of the axis that is masked, from 0 to 1.

    Returns:
        Masked spectrograms (..., freq, time).

    Raises:
        ValueError: ``axis`` is not one of the last two axes, or ``p`` is not between 0 and 1.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import mask_along_axis
    >>> mask_along_axis(torch.ones(80, 100), 20, 0.0, axis=1).shape
    torch.Size([80, 100])
    """
    return _mask_range(specgram, mask_param, mask_value, axis, p, lambda: torch.rand(1).reshape(()).to(specgram.device))


def mask_along_axis_iid(
    specgrams: Tensor, mask_param: int, mask_value: float | Tensor, axis: int, p: float = 1.0
) -> Tensor:
    """Mask a different random range of an axis in each spectrogram (..., freq, time).

    For the arguments, the result and the errors, see :func:`mask_along_axis`.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import mask_along_axis_iid
    >>> mask_along_axis_iid(torch.ones(4, 80, 100), 20, 0.0, axis=2).shape
    torch.Size([4, 80, 100])
    """
    batch: dict[str, Any] = {"size": specgrams.shape[:-2], "device": specgrams.device, "dtype": specgrams.dtype}
    return _mask_range(specgrams, mask_param, mask_value, axis, p, lambda: torch.rand(**batch))


def _mask_range(
    batch: Tensor, length_bound: int, value: float | Tensor, axis: int, p: float, draw: Callable[[], Tensor]
) -> Tensor:
    """Mask random ranges in spectrograms ``batch`` (..., freq, time).

    ``draw`` is called twice, for the lengths and the starts of the ranges. It returns one random number in [0, 1), or
    one for each spectrogram. For the other arguments and the errors, see :func:`mask_along_axis`.
    """
    if axis % batch.ndim < batch.ndim - 2:
        raise ValueError(f"axis={axis} is not one of the last two axes: pass -2 for frequency or -1 for time")
    if not 0 <= p <= 1:
        raise ValueError(f"p={p} must lie within 0 to 1")
    size = batch.shape[axis]
    length_bound = length_bound if p == 1 else min(length_bound, int(size * p))
    if length_bound < 1:
        return batch
    length = draw() * length_bound
    start = (draw() * (size - length)).long()[..., None, None]
    positions = torch.arange(size, device=batch.device)
    if axis % batch.ndim == batch.ndim - 2:
        positions = positions[:, None]
    mask = (positions >= start) & (positions < start + length.long()[..., None, None])
    return torch.where(mask, value, batch) if isinstance(value, Tensor) else batch.masked_fill(mask, value)


def resample(
    waveform: Tensor,
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
) -> Tensor:
    """Resample audio with torchaudio's windowed sinc filter, which differs from Kaldi's.

    Args:
        waveform: samples (..., T), floating point.
        orig_freq, new_freq: sampling rates in Hz, whole numbers.
        lowpass_filter_width: number of zero crossings of the filter on each side.
        rolloff: cutoff frequency, relative to half of the lower rate.
        resampling_method: "sinc_interp_hann" or "sinc_interp_kaiser".
        beta: shape of the Kaiser window. None for torchaudio's default.

    Returns:
        Samples (..., ceil(T * new_freq / orig_freq)), or the waveform itself if the rates are equal.

    Raises:
        OptionError: a rate, the width or the method is invalid. The error is also a ValueError.
        TypeError: the samples are not floating point.

    See also :func:`kaldi_compat.torch.features.resample.resample_waveform`, which resamples as Kaldi does.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.functional import resample
    >>> resample(torch.zeros(2, 441), 44100, 16000).shape
    torch.Size([2, 160])
    """
    if orig_freq == new_freq:
        return waveform
    require_floats(waveform)
    design = (lowpass_filter_width, rolloff, resampling_method, beta)
    filters = make_sinc_filters(orig_freq, new_freq, *design, waveform.dtype)
    return apply_filters(waveform, orig_freq, new_freq, filters.to(waveform.device))


def make_sinc_filters(
    orig_freq: int,
    new_freq: int,
    width: int,
    rolloff: float,
    method: str,
    beta: float | None,
    dtype: torch.dtype | None,
) -> Tensor:
    """Return filters (phases, 1, taps) for :func:`resample`, one for each output sample of a period.

    Args:
        orig_freq, new_freq, rolloff, beta: as for :func:`resample`.
        width, method: ``lowpass_filter_width`` and ``resampling_method`` of :func:`resample`.
        dtype: type of the computation and of the filters. If None, the times of taps are float64, the times of phases
            are float32, and the filters are float32, as in torchaudio.

    Raises:
        OptionError: a rate, the width or the method is invalid.
    """
    if not all(rate > 0 and rate == int(rate) for rate in (orig_freq, new_freq)):
        raise OptionError(f"sampling rates must be positive whole numbers of Hz, not {orig_freq} and {new_freq}")
    if width <= 0:
        raise OptionError(f"lowpass_filter_width must be positive, not {width}")
    if method not in METHODS:
        raise OptionError(f"invalid resampling_method: {method}: choose sinc_interp_hann or sinc_interp_kaiser")
    period, phases = reduce_rates(orig_freq, new_freq)
    cutoff = min(period, phases) * rolloff
    reach = math.ceil(width * period / cutoff)  # Number of input samples on each side.
    tap_times = torch.arange(-reach, reach + period, dtype=dtype or torch.float64) / period
    # From here on, the unit of time is the distance of the filter's zero crossings.
    times = (cutoff * (tap_times - torch.arange(phases, dtype=dtype)[:, None, None] / phases)).clamp(-width, width)
    if METHODS[method] == "kaiser":
        shape = torch.tensor(KAISER_BETA if beta is None else beta, dtype=times.dtype)
        window = torch.i0(shape * torch.sqrt(1 - (times / width) ** 2)) / torch.i0(shape)
    else:
        window = torch.cos(math.pi / 2 * times / width) ** 2
    return (torch.sinc(times) * window * cutoff / period).to(dtype or torch.float32)


def apply_filters(waveform: Tensor, orig_freq: int, new_freq: int, filters: Tensor) -> Tensor:
    """Resample audio with precomputed filters, such as the result of :func:`make_sinc_filters`.

    Args:
        waveform: samples (..., T), floating point.
        orig_freq, new_freq: sampling rates in Hz.
        filters: one filter for each output sample of a period, of shape (phases, 1, taps) and the type of the samples.

    Returns:
        Samples (..., ceil(T * new_freq / orig_freq)) of the same type.

    Raises:
        TypeError: the samples are not floating point.
    """
    require_floats(waveform)
    period, phases = reduce_rates(orig_freq, new_freq)
    reach = (filters.shape[-1] - period) // 2
    rows = torch.nn.functional.pad(waveform.reshape(-1, 1, waveform.shape[-1]), (reach, reach + period))
    samples = torch.nn.functional.conv1d(rows, filters, stride=period).transpose(1, 2).flatten(1)
    count = -(-phases * waveform.shape[-1] // period)
    return samples[:, :count].reshape(*waveform.shape[:-1], count)


def require_floats(waveform: Tensor) -> None:
    """Raise TypeError unless the samples are floating point."""
    if not waveform.is_floating_point():
        raise TypeError(f"expected floating point samples, not {waveform.dtype}: convert the samples with .float()")


def reduce_rates(orig_freq: int, new_freq: int) -> tuple[int, int]:
    """Return the numbers of input and output samples in a period, the shortest time with whole numbers of both."""
    common = math.gcd(int(orig_freq), int(new_freq))
    return int(orig_freq) // common, int(new_freq) // common
