"""How well audio matches itself some time later: the normalized cross-correlation that pitch is tracked in.

The steps of Ghahremani et al., "A pitch extraction algorithm tuned for automatic speech recognition" (ICASSP 2014), up
to the search, as Kaldi takes them (src/feat/pitch-functions.cc): low-pass and resample, cut into windows, correlate at
every whole lag, and interpolate to lags spaced evenly in log pitch. Arrays may be NumPy's or torch's.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.arrays import Array, as_like, astype, float64, matmul, namespace
from kaldi_compat.options import PitchOptions, as_float32
from kaldi_compat.sinc import num_resampled, period_filters, windowed_sinc

Floats = npt.NDArray[np.float32]

_BLOCK = 256  # frames correlated at once: what they need stays in the cache


def downsampled(samples: Array, options: PitchOptions) -> Array:
    """Audio at the rate that pitch is tracked at: ``(..., samples)`` -> ``(..., fewer)``.

    Summed in double, which keeps a constant signal constant to the last bit (its windows then have no energy).
    """
    rate_in, rate_out = int(options.sample_frequency), int(options.resample_frequency)
    count = num_resampled(samples.shape[-1], rate_in, rate_out)
    first, weights = period_filters(rate_in, rate_out, as_float32(options.lowpass_cutoff), options.lowpass_filter_width)
    phases, taps = weights.shape
    period = rate_in // math.gcd(rate_in, rate_out)
    periods = -(-count // phases)
    after = max(0, (periods - 1) * period + first + taps - samples.shape[-1])
    padded = pad(float64(samples), -first, after)
    windows = sliding_windows(padded, taps, period)[..., :periods, :]
    resampled = matmul(windows, as_like(weights.T.astype(np.float64), padded))
    return astype(resampled.reshape(*samples.shape[:-1], periods * phases)[..., :count], samples.dtype)


@dataclass(frozen=True)
class Lags:
    """The lags at which audio is compared with itself.

    Attributes:
        first, last: whole lags in resampled samples at which correlations are measured.
        seconds: ``(states,)``: the lags that are the states of the search, evenly spaced in log pitch, from the
            shortest.
        weights: ``(last - first + 1, states)``: interpolates from the former to the latter (Kaldi: ArbitraryResample).
    """

    first: int
    last: int
    seconds: Floats
    weights: Floats

    @property
    def pitch(self) -> Floats:
        """The pitch of each state in Hz: ``(states,)``."""
        return (1.0 / self.seconds.astype(np.float64)).astype(np.float32)

    @classmethod
    @functools.lru_cache(maxsize=16)
    def of(cls, options: PitchOptions) -> Lags:
        """The lags for these options, rounded to float32 where Kaldi rounds: that decides how many there are."""
        rate = as_float32(options.resample_frequency)
        max_f0, min_f0 = as_float32(options.max_f0), as_float32(options.min_f0)
        margin = options.upsample_filter_width / (2.0 * rate)
        first = math.ceil(rate * (1.0 / max_f0 - margin))
        last = math.floor(rate * (1.0 / min_f0 + margin))

        lags = []
        lag, longest = np.float32(1.0 / max_f0), np.float32(1.0 / min_f0)
        ratio = 1.0 + as_float32(options.delta_pitch)
        while lag <= longest:
            lags.append(lag)
            lag = np.float32(float(lag) * ratio)
        seconds = np.array(lags, np.float32)

        samples = np.arange(last - first + 1, dtype=np.float32)[:, None]
        offset = seconds + np.float32(-first) / np.float32(rate)
        cutoff = as_float32(rate * 0.5)
        width = np.float32(options.upsample_filter_width / (2.0 * cutoff))
        inside = samples >= np.ceil(np.float32(rate) * (offset - width))
        inside &= samples <= np.floor(np.float32(rate) * (offset + width))
        sinc = windowed_sinc(offset - samples / np.float32(rate), cutoff, options.upsample_filter_width)
        return cls(first, last, seconds, np.where(inside, sinc / np.float32(rate), np.float32(0)))


def pad(x: Array, before: int, after: int) -> Array:
    """Zeros before and after the last axis."""
    padded: Array
    if isinstance(x, np.ndarray):
        padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])
    else:
        padded = namespace(x).nn.functional.pad(x, (before, after))
    return padded


def sliding_windows(x: Array, size: int, step: int) -> Array:
    """Overlapping windows of the last axis, a view: ``(..., samples)`` -> ``(..., windows, size)``."""
    windows: Array
    if isinstance(x, np.ndarray):
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=-1)[..., ::step, :]
    else:
        windows = x.unfold(-1, size, step)
    return windows


def first_window_start(options: PitchOptions) -> int:
    """The resampled sample that the first frame's window starts at; negative where frames are centred."""
    if options.snip_edges:
        return 0
    return options.window_shift // 2 - full_window(options) // 2


def full_window(options: PitchOptions) -> int:
    """Resampled samples that a frame looks at: its window and the longest lag."""
    return options.window_size + Lags.of(options).last


def frame_windows(signal: Array, frames: int, options: PitchOptions, lengths: Any = None) -> Array:
    """What each frame looks at, with zeros past the ends.

    Args:
        signal: ``(..., samples)`` resampled.
        frames: how many are wanted.
        lengths: ``(...,)`` samples that count of each signal, which is zero past them; all if none.

    Returns:
        ``(..., frames, full_window)``
    """
    size, shift, start = full_window(options), options.window_shift, first_window_start(options)
    before = max(0, -start)
    padded = pad(signal, before, max(0, start + (frames - 1) * shift + size - signal.shape[-1]))
    windows = sliding_windows(padded[..., before + start :], size, shift)[..., :frames, :]
    if options.preemphasis_coefficient == 0.0:
        return windows
    # Each window by itself: its first sample is scaled as if the one before were its equal.
    xp = namespace(signal)
    position = as_like(start + shift * np.arange(frames)[:, None] + np.arange(size), signal)
    ends = as_like(signal.shape[-1] if lengths is None else lengths, signal)[..., None, None]
    previous = xp.concatenate((windows[..., :1], windows[..., :-1]), -1)
    previous = xp.where(position == 0, windows, previous)
    inside = (position >= 0) & (position < ends)
    emphasized: Array = xp.where(inside, windows - as_float32(options.preemphasis_coefficient) * previous, 0 * windows)
    return emphasized


def correlations(windows: Array, size: int, first_lag: int, last_lag: int) -> tuple[Array, Array]:
    """Products of a window with later ones: ``(..., full_window)`` -> two ``(..., lags)``.

    Returns:
        inner: the dot product of the first ``size`` samples with the ``size`` samples from each lag on.
        norm: the product of the two's energies. The mean of the first window is taken from all samples before.
    """
    xp = namespace(windows)
    mean = astype(float64(windows[..., :size]).sum(-1) / size, windows.dtype)
    centred = windows - mean[..., None]
    base = centred[..., :size]
    if isinstance(windows, np.ndarray):
        later = sliding_windows(centred[..., first_lag : last_lag + size], size, 1)
        inner = np.einsum("...n,...ln->...l", base, later)
    else:  # a product of matrices would be subject to TF32 and autocast, and would copy all windows
        inner = xp.stack([(base * centred[..., k : k + size]).sum(-1) for k in range(first_lag, last_lag + 1)], -1)
    # The energy of every window at once: squares times a band of ones, which adds no cancellation.
    span = last_lag - first_lag + size
    band = np.tri(span, last_lag - first_lag + 1, dtype=np.float32)
    band = band - np.tri(span, last_lag - first_lag + 1, -size, dtype=np.float32)
    squares = centred[..., first_lag : last_lag + size] ** 2
    energies = matmul(squares, astype(as_like(band, centred), centred.dtype))
    return inner, (base**2).sum(-1)[..., None] * energies


def correlate(signal: Array, frames: int, options: PitchOptions, lengths: Any = None) -> tuple[Array, Array]:
    """Inner products and norms of each frame at whole lags: ``(..., samples)`` -> two ``(..., frames, lags)``.

    What ``lengths`` is, see :func:`frame_windows`.
    """
    lags = Lags.of(options)
    windows = frame_windows(signal, frames, options, lengths)
    blocks = [
        correlations(windows[..., start : start + _BLOCK, :], options.window_size, lags.first, lags.last)
        for start in range(0, frames, _BLOCK)
    ]
    inner, norm = zip(*blocks, strict=True)
    xp = namespace(signal)
    return xp.concatenate(inner, -2), xp.concatenate(norm, -2)


def nccf(inner: Array, norm: Array, ballast: Any) -> Array:
    """Normalized cross-correlation, ``inner / sqrt(norm + ballast)``; 0 where nothing sounds at all.

    The ballast (a number, or one for each frame) draws quiet frames to zero.
    """
    xp = namespace(inner)
    squared = norm + ballast
    silent = squared <= 0
    correlation: Array = xp.where(silent, 0 * inner, inner / xp.sqrt(xp.where(silent, 1 + 0 * squared, squared)))
    return correlation
