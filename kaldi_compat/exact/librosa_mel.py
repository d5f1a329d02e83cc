"""librosa's mel filters (librosa/filters.py), which Whisper and other models use in place of Kaldi's."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.mel import convert_hertz_to_mel, convert_mel_to_hertz
from kaldi_compat.options.base import require

F32 = np.float32
KNEE = 15.0  # Position in mel of 1 kHz, up to which Slaney's scale is linear. It is logarithmic above.
STEP = math.log(6.4) / 27.0  # Logarithm of the ratio of two frequencies above 1 kHz that are 1 mel apart.


def convert_hertz_to_slaney_mel(hertz: npt.ArrayLike) -> Floats:
    """Convert frequencies in Hz, of any shape, to Slaney's mel scale: linear up to 1 kHz, and logarithmic above."""
    hertz = np.asarray(hertz, np.float64)
    return np.where(hertz <= 1000, 3 * hertz / 200, KNEE + np.log(np.maximum(hertz, 1) / 1000) / STEP).astype(F32)


def convert_slaney_mel_to_hertz(mel: npt.ArrayLike) -> Floats:
    """Convert mel on Slaney's scale to Hz: the inverse of :func:`convert_hertz_to_slaney_mel`."""
    mel = np.asarray(mel, np.float64)
    return np.where(mel <= KNEE, 200 * mel / 3, 1000 * np.exp((mel - KNEE) * STEP)).astype(F32)


def compute_librosa_filters(
    num_bins: int,
    points: int,
    sample_frequency: float,
    low_freq: float = 0.0,
    high_freq: float = 0.0,
    *,
    slaney_scale: bool = True,
    norm: str = "slaney",
    floor_to_int_bin: bool = False,
) -> Floats:
    """Return librosa's triangular mel filters for a power spectrum (librosa: ``filters.mel``).

    Args:
        num_bins: number of filters.
        points: number of FFT points.
        sample_frequency: sampling rate in Hz.
        low_freq, high_freq: edges in Hz; a ``high_freq`` of zero or less is an offset from the Nyquist frequency.
        slaney_scale: True for Slaney's mel scale, False for HTK's.
        norm: "slaney" for filters of equal area, "" for filters of equal height.
        floor_to_int_bin: True to round the edges of filters down to bins of an FFT with one more point, as
            python_speech_features does.

    Returns:
        Weights, float32 (points // 2 + 1, num_bins).

    Raises:
        OptionError: the edges are out of order or out of range, there are fewer than 3 filters, a filter has no FFT
            bin, or the norm is unknown.
    """
    nyquist = 0.5 * sample_frequency
    top = high_freq if high_freq > 0 else nyquist + high_freq
    require(num_bins >= 3, f"num_bins={num_bins} must be at least 3")
    require(
        0 <= low_freq < nyquist and low_freq < top <= nyquist,
        f"low_freq={low_freq:g} and high_freq={top:g} Hz must lie, in this order, between 0 and the Nyquist "
        f"frequency of {nyquist:g} Hz",
    )
    require(norm in ("", "slaney"), f"norm must be 'slaney' or '', not {norm!r}")
    to_mel, to_hertz = (
        (convert_hertz_to_slaney_mel, convert_slaney_mel_to_hertz)
        if slaney_scale
        else (convert_hertz_to_mel, convert_mel_to_hertz)
    )
    lowest, highest = to_mel(F32(low_freq)), to_mel(F32(top))
    edges = to_hertz(lowest + np.arange(num_bins + 2, dtype=F32) * ((highest - lowest) / F32(num_bins + 1)))
    grid = np.arange(points // 2 + 1, dtype=F32)[:, None]  # The FFT bins: indices or Hz, like ``edges``.
    if floor_to_int_bin:
        edges = np.floor(edges * F32((points + 1.0) / sample_frequency))
    else:
        grid = grid * F32(sample_frequency / points)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    is_inside = (grid > left) & (grid < right)
    require(
        bool(is_inside.any(0).all()),
        f"num_bins={num_bins} from {low_freq:g} to {top:g} Hz is too many for {points} FFT points: use fewer bins "
        "(at least 3), a wider band or a longer FFT",
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(grid <= center, (grid - left) / (center - left), (right - grid) / (right - center))
        if norm:
            weights *= 2 / (right - left)
    return np.where(is_inside, weights, 0).astype(F32)
