"""Computations of other libraries that neither Kaldi nor kaldi-compat has.

- Mel filters: librosa's on HTK's and Slaney's scale, triangles in Hz, python_speech_features' edges on bins of the FFT,
  SpeechBrain's symmetric triangles, and mel scales with another corner frequency.
- Windows: the periodic cosine windows of torch and SciPy.
- Paddings: the centered frames of librosa and torch, HiFi-GAN's, and python_speech_features' zeros.
- Resampling: soxr, torchaudio with a Kaiser window, SciPy's polyphase and FFT filters, and linear interpolation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import OptionError
from kaldi_compat.exact import tables
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_compat.exact.librosa_mel import convert_hertz_to_slaney_mel, convert_slaney_mel_to_hertz
from kaldi_compat.exact.mel import compute_mel_banks
from kaldi_compat.exact.resample import resample_linearly
from kaldi_compat.options.spectral import FbankOptions
from kaldi_explain.work import charge_microseconds

F32 = np.float32
SLANEY_SCALES = ("slaney", "slaney-height")
EDGE_TOLERANCE_HZ = 1.0  # Largest excess of an upper edge over the Nyquist frequency that is accepted.
RESPONSE_POINTS = 1 << 18  # Number of points of the FFT that gives the frequency response of a resampling filter.


def convert_to_mel(hertz: Doubles, is_slaney: bool = False, corner: float = 700.0) -> Doubles:
    """Convert frequencies in Hz, of any shape, to Slaney's mel scale or to ``ln(1 + hertz / corner)``.

    With a ``corner`` of 700 Hz, the logarithmic scale is proportional to Kaldi's scale.
    """
    return np.asarray(convert_hertz_to_slaney_mel(hertz), np.float64) if is_slaney else np.log1p(hertz / corner)


def convert_to_hertz(mel: Doubles, is_slaney: bool = False, corner: float = 700.0) -> Doubles:
    """Convert mel values of any shape to Hz: the inverse of :func:`convert_to_mel` with the same other arguments."""
    return np.asarray(convert_slaney_mel_to_hertz(mel), np.float64) if is_slaney else corner * np.expm1(mel)


@functools.lru_cache(maxsize=256)
def make_mel_filters(
    mel: str, rate: float, points: int, filter_count: int, low: float, high: float, warp: float = 1.0,
    corner: float = 700.0,
) -> tuple[npt.NDArray[np.intp], Doubles, npt.NDArray[np.intp]]:  # fmt: skip
    """Return ``filter_count`` mel filters for the spectrum of an FFT of ``points`` points, as a list of weights.

    The option ``mel`` selects the shape of the filters. ``rate`` is the sampling rate, ``low`` and ``high`` are the
    edges of the filters, and ``corner`` is the corner frequency of the mel scale, all in Hz. A ``high`` of 0 or less is
    an offset from the Nyquist frequency. A VTLN factor ``warp`` other than 1 always selects Kaldi's filters.

    The nonzero weights are listed filter by filter. Return the FFT bin (n,) of each weight, the weights (n,), and the
    index (filter_count,) of each filter's first weight. A filter without an FFT bin has one weight of zero. Raise
    OptionError if ``low`` is below 0 or not below ``high``, if ``high`` is above the Nyquist frequency (by more than
    ``EDGE_TOLERANCE_HZ``, except for Kaldi's filters), or if Kaldi refuses another option.
    """
    if warp != 1 or (mel == "kaldi" and corner == 700):
        options = FbankOptions(
            sample_frequency=rate, frame_length=find_milliseconds(points, rate), round_to_power_of_two=False,
            num_mel_bins=filter_count, low_freq=low, high_freq=high, allow_empty_bins=True,
        )  # fmt: skip
        weights = compute_mel_banks(options, warp).weights.astype(np.float64)
    else:
        high = high if high > 0 else 0.5 * rate + high
        if not 0 <= low < high <= 0.5 * rate + EDGE_TOLERANCE_HZ:
            raise OptionError(
                f"low_freq={low:g} and high_freq={high:g} Hz cannot be the edges of filters: choose ascending edges "
                f"from 0 to {0.5 * rate:g} Hz"
            )
        weights = _make_triangles(mel, rate, points, filter_count, low, high, corner)
    is_used = weights.T != 0
    is_used[~is_used.any(1), 0] = True  # reduceat needs a weight for every filter, so an empty filter gets a zero.
    filters, fft_bins = np.nonzero(is_used)
    return fft_bins, weights.T[is_used], np.searchsorted(filters, np.arange(filter_count))


def _make_triangles(
    mel: str, rate: float, points: int, filter_count: int, low: float, high: float, corner: float
) -> Doubles:
    """Return the weights (points / 2 + 1, filter_count) of triangular filters between the edges ``low`` and ``high``.

    Both edges are frequencies in Hz. :func:`make_mel_filters` describes the other parameters.
    """
    is_slaney = mel in SLANEY_SCALES
    low_mel, high_mel = convert_to_mel(np.array([low, high]), is_slaney, corner).tolist()
    # Each filter rises from an edge to the next edge, and falls to the edge after that.
    edges = convert_to_hertz(np.linspace(low_mel, high_mel, filter_count + 2), is_slaney, corner)
    if mel.startswith("snapped"):
        rounding_points = points + 1 if mel == "snapped-more" else points
        # The small term keeps rounding errors from moving an edge on a bin down to the previous bin.
        edges = np.floor(edges * rounding_points / rate + 1e-3) * rate / points
    fft_bins = (np.arange(points // 2 + 1) * rate / points)[:, None]
    if mel == "kaldi":
        edges, fft_bins = convert_to_mel(edges, corner=corner), convert_to_mel(fft_bins, corner=corner)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    right = 2 * center - left if mel == "symmetric" else right
    with np.errstate(divide="ignore", invalid="ignore"):
        rising, falling = (fft_bins - left) / (center - left), (right - fft_bins) / (right - center)
        weights = np.where(fft_bins < center, rising, falling)
    if mel == "snapped":
        weights = np.where((fft_bins == center) & (left < right), 1, weights)
    weights = np.where((fft_bins >= left) & (fft_bins <= right) & np.isfinite(weights), weights, 0).clip(0)
    has_equal_areas = mel in ("slaney", "htk-area")
    return weights * (2 / (right - left)) if has_equal_areas else weights


def find_milliseconds(samples: int, rate: float) -> float:
    """Return a time in ms that Kaldi converts to ``samples`` samples at ``rate`` Hz, with as few decimals as possible.

    If no time with up to 7 decimals fits, return the middle of the interval of fitting times.
    """
    exact = 1000 * samples / rate
    for digits in range(1, 8):  # Also try a time that is rounded up, because Kaldi rounds numbers of samples down.
        for time in (round(exact, digits), round(exact + 0.6 * 10**-digits, digits)):
            if int(F32(rate) * 0.001 * F32(time)) == samples:
                return float(time)
    return 1000 * (samples + 0.5) / rate


@functools.lru_cache(maxsize=64)
def make_window(window_type: str, size: int, blackman_coeff: float, is_periodic: bool) -> Doubles:
    """Return a window (size,) of the type ``window_type``. Only the Blackman window uses ``blackman_coeff``.

    A periodic window is computed with one more sample at its end, which is then removed.
    """
    return tables.make_window(window_type, size + is_periodic, blackman_coeff)[:size].astype(np.float64)


def count_padding(padding: str, size: int, points: int, shift: int) -> tuple[int, int]:
    """Return the numbers of samples that a padding adds before and after the audio. Negative numbers remove samples.

    The paddings "inside", "reflect-window", "constant-window" and "reflect-shift" belong to frames that are as long as
    the FFT of ``points`` samples, with the window of ``size`` samples in their middle. ``shift`` is the number of
    samples from frame to frame. The zeros with which "zeros" fills the last frame are not counted.
    """
    if padding in ("", "zeros"):
        return 0, 0
    if padding in ("reflect", "constant"):
        return points // 2, points // 2
    # The padding belongs to frames as long as the FFT. A frame of a model is only the window in the middle, so the
    # padding is counted without the samples before the first window and after the last window.
    fft_padding = {"inside": 0, "reflect-shift": (points - shift) // 2}.get(padding, points // 2)
    start_count = fft_padding - (points - size) // 2
    return start_count, 2 * fft_padding - (points - size) - start_count


def pad(audio: Floats, padding: str, size: int, points: int, shift: int) -> Floats:
    """Return audio (T,) with samples added or removed at its ends. See :func:`count_padding` for the other arguments.

    Raise OptionError if the audio is too short to be reflected, or if ``shift`` exceeds ``size`` with "reflect-shift".
    """
    if padding == "zeros":  # Zeros are only added to complete the last frame.
        return np.pad(audio, (0, -(max(len(audio), size) - size) % shift))
    start_count, end_count = count_padding(padding, size, points, shift)
    if not start_count and not end_count:
        return audio
    if padding == "inside":
        return audio[-start_count : len(audio) + end_count]
    mode = padding.partition("-")[0]
    if min(start_count, end_count) < 0:
        raise OptionError(f"a shift of {shift} samples is longer than a frame of {size}: use a shorter shift")
    if mode == "reflect" and len(audio) <= max(start_count, end_count):
        raise OptionError(
            f"padding={padding!r} needs more than {max(start_count, end_count)} samples: use longer audio"
        )
    return np.pad(audio, (start_count, end_count), mode=mode)  # type: ignore[call-overload, no-any-return]


Resampler = Callable[[Floats, int, int], Any]  # Function of samples (T,), their rate and the new rate in Hz.


def list_resamplers(rate: int, new_rate: int) -> dict[str, Resampler]:
    """Return a dictionary from descriptions to resamplers, whose parameters may depend on both rates in Hz."""
    numerator = new_rate // math.gcd(rate, new_rate)
    # If the reduced ratio of the rates has a numerator above 16, soxr attenuates a frequency f by the share
    # factor * (f / half of the lower rate) ** power. These two numbers, and the filter of soxr, were fitted to the
    # output of soxr. The other filters have the parameters of torchaudio and SciPy.
    loss = (0.00217, 8.0) if new_rate < rate else (0.00425, 15.4)
    loss = loss if numerator > 16 else (0.0, 1.0)
    partial, by_kaiser = functools.partial, _resample_by_kaiser_window
    return {
        "as Kaldi and torchaudio do": resample_as_kaldi,
        "by soxr (librosa, sox)": partial(by_kaiser, cutoff=0.957, half_width=104.0, beta=15.0, loss=loss),
        "by torchaudio with a Kaiser window": partial(by_kaiser, cutoff=0.99, half_width=6 / 0.99, beta=14.769656),
        "by a polyphase filter (scipy.signal.resample_poly)": partial(by_kaiser, cutoff=1.0, half_width=10, beta=5.0),
        "by an FFT (scipy.signal.resample)": resample_by_fft,
        "by linear interpolation": _resample_by_interpolation,
    }


def resample_as_kaldi(samples: Floats, rate: int, new_rate: int) -> Floats:
    """Resample audio (T,) from ``rate`` to ``new_rate`` in Hz with the default filter of Kaldi and torchaudio."""
    charge_microseconds(0.1 * (len(samples) + len(samples) * new_rate / rate))
    # The cutoff is 99% of the lower Nyquist frequency, and the filter has 6 zeros on each side.
    return resample_linearly(samples, rate, new_rate, cutoff=0.495 * min(rate, new_rate), num_zeros=6)


def resample_by_fft(samples: Floats, rate: int, new_rate: int) -> Any:
    """Resample audio (T,) from ``rate`` to ``new_rate`` in Hz by truncating or zero-padding its spectrum."""
    charge_microseconds(0.1 * len(samples))
    return np.fft.irfft(np.fft.rfft(samples), len(samples) * new_rate // rate) * (new_rate / rate)


def _resample_by_interpolation(samples: Floats, rate: int, new_rate: int) -> Any:
    return np.interp(np.arange(len(samples) * new_rate // rate) * (rate / new_rate), np.arange(len(samples)), samples)


def _resample_by_kaiser_window(
    samples: Floats, rate: int, new_rate: int, *, cutoff: float, half_width: float, beta: float,
    loss: tuple[float, float] = (0.0, 1.0),
) -> Any:  # fmt: skip
    """Resample audio (T,) from ``rate`` to ``new_rate`` in Hz with a Kaiser-windowed sinc filter, applied by FFT.

    Inserting zeros between samples would repeat the spectrum of the audio in images. The spectrum and its images are
    multiplied by the gains of the filter, and then folded into the band of the new rate, as decimation does.

    The cutoff frequency is ``cutoff`` times half of the lower rate. The window has the shape ``beta``, and half of its
    length is ``half_width`` samples at the lower rate. The gain at a frequency is reduced by the share
    ``loss[0] * r ** loss[1]``, where r is the ratio of the frequency to half of the lower rate, at most 1.
    """
    charge_microseconds(0.3 * (len(samples) + 2 * len(samples) * new_rate / rate) + 30_000)
    higher, lower, divisor = max(rate, new_rate), min(rate, new_rate), math.gcd(rate, new_rate)
    filter_rate = min(rate * new_rate // divisor, 4 * higher)
    # A whole number of periods of both rates has a whole number of new samples. Zeros for the filter and 32 more
    # samples separate the end of the audio from its beginning, because the FFT treats the audio as periodic.
    period, new_period = rate // divisor, new_rate // divisor
    period_count = -(-(len(samples) + int(2 * half_width / lower * rate) + 32) // period)
    points, new_points = period_count * period, period_count * new_period
    spectrum = np.fft.fft(samples.astype(np.float64), points)
    top_bin = int(min(1.5 * higher, filter_rate / 2) * points / rate)  # The filter removes higher frequencies.
    bins = np.arange(-top_bin, top_bin)
    gains = _compute_kaiser_gains(np.abs(bins) * (rate / points), lower, filter_rate, cutoff, half_width, beta)
    gains *= 1 - loss[0] * np.minimum(np.abs(bins) * (2 * rate / points / lower), 1) ** loss[1]
    images, new_bins = spectrum[bins % points] * gains, bins % new_points
    folded = np.bincount(new_bins, images.real, new_points) + 1j * np.bincount(new_bins, images.imag, new_points)
    return np.fft.ifft(folded).real[: -(-len(samples) * new_rate // rate)] * (new_rate / rate)


def _compute_kaiser_gains(
    frequencies: Doubles, lower_rate: int, filter_rate: int, cutoff: float, half_width: float, beta: float
) -> Doubles:
    """Return the gains (n,) of a Kaiser-windowed sinc filter at ``frequencies`` (n,) in Hz.

    ``lower_rate`` is the lower rate of resampling in Hz, and ``filter_rate`` is the sampling rate of the filter in Hz.
    :func:`_resample_by_kaiser_window` describes the other arguments.
    """
    half_length = int(half_width / lower_rate * filter_rate)
    times = np.arange(-half_length, half_length + 1) / filter_rate  # Times of the taps in seconds.
    impulse = np.sinc(cutoff * lower_rate * times)
    impulse *= np.i0(beta * np.sqrt(np.clip(1 - (times * lower_rate / half_width) ** 2, 0, 1)))
    centered = np.zeros(RESPONSE_POINTS)  # The middle of the filter is the first sample, so the response is real.
    centered[np.round(times * filter_rate).astype(int)] = impulse / impulse.sum()
    response = np.fft.rfft(centered).real
    return np.interp(frequencies, np.arange(len(response)) * (filter_rate / RESPONSE_POINTS), response)
