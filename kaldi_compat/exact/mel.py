"""Mel filter bank and its VTLN warp: Kaldi's src/feat/mel-computations.cc.

The filter banks are computed once per option set and warp factor, in float32 where Kaldi uses it. The edges of a bin
are differences of nearly equal mel values, so rounding decides the last digits of its weights.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from io_ark.libm import logf
from io_ark.logs import Logger
from kaldi_compat.errors import OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.libm import expf
from kaldi_compat.options.base import require
from kaldi_compat.options.spectral import FrameOptions, MelFeatureOptions

logger = Logger("kaldi_compat")
F32 = np.float32


def convert_hertz_to_mel(frequency: Floats | np.float32) -> Floats:
    """Convert frequencies in Hz to mel, ``1127 ln(1 + f / 700)``, rounded at each step as in Kaldi."""
    mel: Floats = F32(1127) * logf(F32(1) + frequency / F32(700))
    return mel


def convert_mel_to_hertz(mel: Floats | np.float32) -> Floats:
    """Convert mel to frequencies in Hz: the inverse of :func:`convert_hertz_to_mel`."""
    frequency: Floats = F32(700) * (expf(mel / F32(1127)) - F32(1))
    return frequency


@dataclass(frozen=True)
class MelBanks:
    """Triangular filters on a power spectrum."""

    # (fft_bins, num_mel_bins), float32. As in Kaldi, the weights of the last FFT bin, at the Nyquist frequency, are 0.
    weights: Floats
    centers: Floats  # (num_mel_bins,): center frequencies of the filters in Hz.


@dataclass(frozen=True)
class VtlnWarp:
    """Kaldi's piecewise linear warp of frequencies in Hz.

    The frequency ``f`` becomes ``f / factor`` between the two inflection points. ``low`` and ``high`` stay unchanged.
    """

    low: np.float32  # Lower edge of the mel filters in Hz.
    high: np.float32  # Upper edge of the mel filters in Hz.
    lower_cutoff: np.float32  # The lower inflection point is this frequency in Hz times max(1, factor).
    upper_cutoff: np.float32  # The upper inflection point is this frequency in Hz times min(1, factor).
    factor: np.float32  # VTLN warp factor.

    def __call__(self, frequency: Floats) -> Floats:
        """Warp frequencies in Hz (Kaldi: VtlnWarpFreq). Frequencies below ``low`` or above ``high`` stay unchanged.

        Raise OptionError if an inflection point does not lie between ``low`` and ``high``.
        """
        lower = self.lower_cutoff * max(F32(1), self.factor)
        upper = self.upper_cutoff * min(F32(1), self.factor)
        require(
            bool(lower > self.low and upper < self.high),
            f"vtln_warp={self.factor:g} moves an inflection point of the warp ({lower:g} and {upper:g} Hz) out of the "
            f"mel bins' range ({self.low:g} to {self.high:g} Hz): change vtln_low or vtln_high",
        )
        scale = F32(1) / self.factor
        left_slope = (scale * lower - self.low) / (lower - self.low)
        right_slope = (self.high - scale * upper) / (self.high - upper)
        warped = np.select(
            [(frequency < self.low) | (frequency > self.high), frequency < lower, frequency < upper],
            [frequency, self.low + left_slope * (frequency - self.low), scale * frequency],
            self.high + right_slope * (frequency - self.high),
        )
        return np.asarray(warped, F32)


def _make_vtln_warp(options: MelFeatureOptions, low: np.float32, high: np.float32, factor: np.float32) -> VtlnWarp:
    """Return the warp by ``factor`` for mel filters from ``low`` to ``high`` Hz.

    Raise OptionError unless the factor is positive, and ``vtln_low`` and ``vtln_high`` lie in this order between the
    edges ``low`` and ``high``.
    """
    nyquist = F32(0.5) * F32(options.sample_frequency)
    lower_cutoff = F32(options.vtln_low)
    # A negative vtln_high is an offset from the Nyquist frequency.
    upper_cutoff = F32(options.vtln_high) + (nyquist if options.vtln_high < 0 else F32(0))
    require(bool(factor > 0), f"vtln_warp must be positive, not {factor:g}")
    require(
        bool(max(F32(0), low) < lower_cutoff < upper_cutoff < high),
        f"vtln_low={lower_cutoff:g} and vtln_high={upper_cutoff:g} Hz must lie, in this order, between the mel bins' "
        f"low_freq={low:g} and high_freq={high:g} Hz",
    )
    return VtlnWarp(low, high, lower_cutoff, upper_cutoff, factor)


def _write_bins_to_log(weights: Floats) -> None:
    """Log the first FFT bin and the nonzero weights of each mel bin, in the format of Kaldi's ``--debug-mel``.

    ``weights`` are (fft_bins, num_mel_bins). An empty mel bin has the first FFT bin -1.
    """
    for index, column in enumerate(weights.T):
        fft_bins = np.flatnonzero(column)
        values = " ".join(f"{weight:g}" for weight in column[fft_bins])
        logger.info("bin %d, offset = %d, vec =  [ %s ]", index, fft_bins[0] if len(fft_bins) else -1, values)


def count_fft_points(options: FrameOptions) -> int:
    """Return the number of FFT points of a frame. Raise OptionError for an odd number."""
    points = options.padded_window_size
    advice = "change frame_length, or pass round_to_power_of_two=True"
    require(points % 2 == 0, f"the FFT's {points} points (frame_length in samples) must be an even number: {advice}")
    return points


@functools.lru_cache(maxsize=256)
def compute_mel_banks(options: MelFeatureOptions, vtln_warp: float = 1.0) -> MelBanks:
    """Compute the triangular mel filters of a feature (Kaldi: MelBanks).

    Args:
        options: options of the mel filters and of the frames. With ``debug_mel``, the filters are also logged.
        vtln_warp: VTLN factor; 1 for no warp.

    Raises:
        OptionError: the edge frequencies are out of order or not within 0 to the Nyquist frequency, a mel bin has no
            FFT bin (unless ``allow_empty_bins``), the FFT has an odd number of points, or the VTLN factor or cutoffs
            are invalid. Kaldi refuses these options.
    """
    points, num_bins = count_fft_points(options), options.num_mel_bins
    nyquist = F32(0.5) * F32(options.sample_frequency)
    low = F32(options.low_freq)
    high = F32(options.high_freq) if options.high_freq > 0 else nyquist + F32(options.high_freq)
    require(
        bool(0 <= low < nyquist and 0 < high <= nyquist and low < high),
        f"low_freq={low:g} and high_freq={high:g} Hz must lie, in this order, between 0 and the Nyquist frequency of "
        f"{nyquist:g} Hz",
    )
    mel_low, mel_high = convert_hertz_to_mel(low), convert_hertz_to_mel(high)
    delta = (mel_high - mel_low) / F32(num_bins + 1)
    edges = (mel_low + np.arange(num_bins + 2, dtype=F32) * delta).astype(F32)
    factor = F32(vtln_warp)
    if factor != 1:
        edges = convert_hertz_to_mel(_make_vtln_warp(options, low, high, factor)(convert_mel_to_hertz(edges)))
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    mel = convert_hertz_to_mel(F32(options.sample_frequency) / F32(points) * np.arange(points // 2, dtype=F32))[:, None]
    is_inside = (mel > left) & (mel < right)
    weights = np.where(mel <= center, (mel - left) / (center - left), (right - mel) / (right - center))
    empty_bins = np.flatnonzero(~is_inside.any(0))
    if len(empty_bins) and not options.allow_empty_bins:
        raise OptionError(
            f"num_mel_bins={num_bins} from {low:g} to {high:g} Hz is too many for {points} FFT points: mel bin "
            f"{empty_bins[0]} holds no bin of the FFT; use fewer mel bins (at least 3), a wider band or longer frames, "
            "or pass allow_empty_bins=True, as torchaudio does"
        )
    # As in Kaldi, the bin of the Nyquist frequency has no weight.
    weights = np.concatenate((np.where(is_inside, weights, 0), np.zeros((1, num_bins)))).astype(F32)
    if options.debug_mel:
        _write_bins_to_log(weights)
    return MelBanks(weights, convert_mel_to_hertz(center))
