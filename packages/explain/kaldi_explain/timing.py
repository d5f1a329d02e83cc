"""Estimate when the rows of an array begin in audio, by correlation with the energies of the audio."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_explain.arrangements import Mask
from kaldi_explain.other_libraries import make_mel_filters
from kaldi_explain.sources import AudioSource
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.work import charge_microseconds

SHIFTS_MS = (10.0, 12.5, 5.0)  # Common frame shifts in milliseconds.
SHIFTS = (256, 512, 160, 200, 128, 320, 300, 240, 275, 441, 480, 220, 64, 1024)  # Usual frame shifts in samples.
RARE_SHIFTS_MS = (8.0, 16.0, 20.0, 30.0, 15.0, 4.0, 40.0, 32.0, 50.0, 60.0)  # Rare frame shifts in milliseconds.
MIN_SHIFT_SECONDS, MAX_SHIFT_SECONDS = 0.002, 0.1  # Limits of a frame shift that is estimated from the number of rows.
# Largest difference between the number of rows of the whole audio and of an array that may cover it: three rows, and
# the rows that the longest usual frames, of 2048 samples, lack at the ends of the audio.
MAX_EXCESS_ROWS, MAX_EXCESS_SAMPLES = 3, 2048
MAX_NEAR_EXCESS_ROWS = 2  # Largest difference, in rows, for which a timing of the whole audio is preferred.
# The energies of the audio are computed in frames of 5 steps of 5 ms, because the usual frame length is 25 ms.
STEP_SECONDS, STEPS_PER_FRAME, HALF_FRAME_SECONDS = 0.005, 5, 0.0125
# In a part of the audio, the array begins fewer than 3 rows before the audio, and ends at most 3 rows after it.
MAX_OUTSIDE_ROWS = 3
DELAY_COST = 0.02  # Share of the estimate that each row between the beginnings of the audio and of the array costs.
MAX_LIKELY_TIMINGS = 9  # Largest number of likely timings, because all usual features are tried with each timing.
MAX_PEAKS = 6  # Number of timings whose score is computed for one position of the rows relative to the audio.
MIN_DISTANCE_ROWS = 3  # Timings whose first rows are at most this far apart count as the same timing.


@dataclass(frozen=True)
class Timing:
    """Assumed times of the rows of an array in audio."""

    row_shift: int  # Number of samples from one row to the next.
    center: float  # Index of the sample in the middle of the first row's frame.
    score: float  # Share, from 0 to 1, of the array's variance that the energies of the audio explain.
    is_whole: bool  # True if the rows span the whole audio.


class Pattern:
    """Principal components of an array over time, from the first row that depends on the audio to the last.

    ``target`` is the array (frames, columns). The mask ``rows`` (frames,) selects the rows that depend on the audio.
    """

    def __init__(self, target: Doubles, rows: Mask) -> None:
        indices = np.flatnonzero(rows)
        self.begin, end = int(indices[0]), int(indices[-1]) + 1
        self.rows = rows[self.begin : end]
        # Numbers of rows that the whole audio may have. `self.rows` may lack masked rows of silence at the end.
        self.row_counts = {len(self.rows)} | ({len(rows)} if not self.begin else set())
        self.components = compute_components(target[self.begin : end], self.rows)

    def list_timings(
        self, source: AudioSource, stride: int = 1, *, tries_parts: bool = True, certain: float = THRESHOLDS.certain
    ) -> list[Timing]:
        """Return likely times of the array's rows, which begin ``stride`` frames apart, in the audio ``source``.

        At first, the rows are assumed to cover the whole audio with a usual frame shift. If a score exceeds
        ``certain``, or ``tries_parts`` is False, return at most four of these timings, the best first. Otherwise,
        return up to three timings with the right number of rows, these timings from the first sample on, and likely
        timings in the whole audio and in parts. For too few rows, return timings of the whole audio with scores of 0.
        """
        row_shifts = [shift * stride for shift in list_usual_shifts(source.rate)]
        # Difference between the numbers of rows of the whole audio and of the array, for each shift between rows.
        excess = {shift: min(abs(source.length / shift - n) for n in self.row_counts) for shift in row_shifts}
        whole_shifts = [shift for shift in excess if excess[shift] <= MAX_EXCESS_ROWS + MAX_EXCESS_SAMPLES / shift]
        whole_shifts.sort(key=lambda shift: excess[shift] > MAX_NEAR_EXCESS_ROWS)
        if len(self.rows) < THRESHOLDS.timing_rows or self.rows.sum() < THRESHOLDS.timing_rows // 2:
            first_center = HALF_FRAME_SECONDS * source.rate
            return [Timing(row_shift, first_center, score=0.0, is_whole=True) for row_shift in whole_shifts]
        timings = [self._find_best_timings(source, row_shift, is_whole=True)[0] for row_shift in whole_shifts]
        timings.sort(key=lambda timing: -timing.score)
        if (timings and timings[0].score > certain) or not tries_parts:
            near_timings = [timing for timing in timings[2:] if excess[timing.row_shift] <= MAX_NEAR_EXCESS_ROWS]
            timings = [*timings[:2], *near_timings[:2]]
        else:
            exact_timings = [timing for timing in timings if excess[timing.row_shift] <= 1][:3]
            # The array may cover the whole audio even if the scores are low, so keep these timings.
            from_first_sample = [replace(timing, center=0.0) for timing in exact_timings]
            likely_timings = self._find_likely_timings(source, timings, row_shifts, stride)
            timings = list(dict.fromkeys([*exact_timings, *from_first_sample, *likely_timings]))
        # The array begins `self.begin` rows before the rows of the pattern.
        return [replace(timing, center=timing.center - self.begin * timing.row_shift) for timing in timings]

    def _find_likely_timings(
        self, source: AudioSource, whole_timings: list[Timing], row_shifts: list[int], stride: int
    ) -> list[Timing]:
        """Return at most ``MAX_LIKELY_TIMINGS`` likely timings in the whole audio and in parts of it, the best first.

        ``whole_timings`` are timings of the whole audio. If the list is empty, a frame shift is estimated from the
        number of rows, which begin ``stride`` frames apart. Parts are searched with all ``row_shifts`` for which the
        array, without ``THRESHOLDS.margin`` rows at both ends, is not longer than the audio.
        """
        timings, count = list(whole_timings), len(self.rows)
        shift = round(source.length / count / stride)
        if not whole_timings and MIN_SHIFT_SECONDS * source.rate < shift < MAX_SHIFT_SECONDS * source.rate:
            timings += self._find_best_timings(source, shift * stride, is_whole=True)[:1]
        for row_shift in row_shifts:
            if row_shift * (count - 2 * THRESHOLDS.margin) <= source.length:
                timings += self._find_best_timings(source, row_shift, is_whole=False)
        timings.sort(key=lambda timing: -timing.score)
        min_score = THRESHOLDS.certain * timings[0].score if timings else 0.0
        return [timing for timing in timings if timing.score > min_score][:MAX_LIKELY_TIMINGS]

    def _find_best_timings(self, source: AudioSource, row_shift: int, *, is_whole: bool) -> list[Timing]:
        """Return one or two of the best timings of rows that begin ``row_shift`` samples apart, the best first.

        The second timing begins more than ``MIN_DISTANCE_ROWS`` rows before or after the first. With ``is_whole``, the
        array is assumed to cover the whole audio, so timings that begin earlier or later than the audio are less likely
        to be selected. Otherwise, the array may cover any part of the audio.
        """
        step = max(int(STEP_SECONDS * source.rate), 1)
        band_count = min(max(int(self.rows.sum()) // 6, 3), 12)  # More bands would fit few rows by chance.
        # Rows that are closer than half a frame depend on each other, so they count as fewer rows.
        independent_share = min(1.0, row_shift / (HALF_FRAME_SECONDS * source.rate))
        energies = compute_energies(source, step, band_count)
        bands_of_steps = _decorrelate_bands(energies, max(1, round(row_shift / step)))
        # The bands begin before the audio and end after it, so that the array may reach beyond both ends.
        time_count = max(int(source.length / row_shift), len(self.rows)) + 2 * THRESHOLDS.margin
        charge_microseconds(2500 + 3 * (time_count + len(self.rows)) + 0.2 * energies.size)
        timings = list[Timing]()
        for quarter in range(4):  # The first row may begin at any sample, so try each quarter of a row shift.
            centers = quarter * row_shift / 4 + (np.arange(time_count) - THRESHOLDS.margin) * row_shift
            # Frames of energies begin one step apart, so the middle of the first frame is half a frame after sample 0.
            steps = (centers - 0.5 * STEPS_PER_FRAME * step) / step
            bands = np.stack([np.interp(steps, np.arange(len(band)), band) for band in bands_of_steps.T])
            for lag, score in self._find_best_lags(bands, independent_share, is_whole=is_whole):
                timings.append(Timing(row_shift, float(centers[lag]), score, is_whole))
        timings.sort(key=lambda timing: -timing.score)
        best, min_distance = timings[0], MIN_DISTANCE_ROWS * row_shift
        distant = (timing for timing in timings if abs(timing.center - best.center) > min_distance)
        return [best, *itertools.islice(distant, 1)]

    def _find_best_lags(self, bands: Doubles, independent_share: float, *, is_whole: bool) -> list[tuple[int, float]]:
        """Return the ``MAX_PEAKS`` likeliest lags of the array behind the audio, each with its score.

        ``bands`` (bands, times) are uncorrelated energies of the audio. At lag k, row i of the array is compared with
        ``bands[:, i + k]``. At lag ``THRESHOLDS.margin``, the array and the audio begin together. ``independent_share``
        is the share of rows that count as independent observations. :meth:`_find_best_timings` describes ``is_whole``.
        """
        estimates = correlate_at_lags(self.components, self.rows, bands)
        delays = np.arange(len(estimates)) - THRESHOLDS.margin  # Delays, in rows, of the array behind the audio.
        max_delay = len(estimates) - 2 * THRESHOLDS.margin + MAX_OUTSIDE_ROWS
        is_inside = (delays > -MAX_OUTSIDE_ROWS) & (delays < max_delay)
        estimates *= np.clip(1 - DELAY_COST * np.abs(delays), 0, 1) if is_whole else is_inside
        peaks = list[tuple[int, float]]()
        for _ in range(MAX_PEAKS):
            lag = int(estimates.argmax())
            estimates[max(lag - MIN_DISTANCE_ROWS, 0) : lag + MIN_DISTANCE_ROWS + 1] = 0
            bands_at_lag = bands[:, lag : lag + len(self.rows)][:, self.rows]
            score = compute_explained_share(self.components[:, self.rows], bands_at_lag, independent_share)
            peaks.append((lag, score))
        return peaks


def list_usual_shifts(rate: float) -> list[int]:
    """Return the usual frame shifts in samples at the sampling rate ``rate`` in Hz, the most common first."""
    common, rare = ([int(rate * shift / 1000) for shift in shifts] for shifts in (SHIFTS_MS, RARE_SHIFTS_MS))
    return list(dict.fromkeys([*common, *SHIFTS, *rare]))


def compute_explained_share(components: Doubles, bands: Doubles, independent_share: float = 1.0) -> float:
    """Return the share of the variance of components (n, frames) that linear functions of bands (m, frames) explain.

    The share is at least 0, and is reduced by the share that chance would explain (adjusted R squared).
    ``independent_share`` is the share of frames that count as independent observations.
    """
    design = np.vstack((bands, np.ones(bands.shape[1]))).T
    centered = components.T - components.mean(1)
    residuals = centered - design @ np.linalg.lstsq(design, centered, rcond=None)[0]
    observation_count, coefficient_count = independent_share * len(design), design.shape[1]
    correction = (observation_count - 1) / max(observation_count - coefficient_count, 1)
    unexplained_share = float((residuals**2).sum() / max((centered**2).sum(), 1e-30))
    return float(max(0.0, 1 - correction * unexplained_share))


def compute_components(target: Doubles, rows: Mask) -> Doubles:
    """Return at most ``THRESHOLDS.components`` principal components of an array ``target`` (frames, columns).

    The result (components, frames) has the largest component last, and is 0 outside the mask ``rows`` (frames,). An
    array of fewer columns has one component per column. Powers are first converted to logarithms. Columns are clipped
    to their 5% and 95% quantiles and scaled to unit variance. More than 600 columns are averaged in groups instead.
    """
    values = target
    if target.min() >= 0 and target.max() > 50 * np.median(target):
        # Powers and magnitudes have a much larger range than their logarithms. The added number limits this range.
        values = np.log(target + 1e-6 * target.max())
    # Without clipping, silence would dominate the variance.
    values = np.clip(values, *np.quantile(values[rows], (0.05, 0.95), axis=0))
    mean, deviation = values[rows].mean(0), values[rows].std(0)
    scaled = (values - mean) / np.where(deviation > 0, deviation, 1)
    scaled[~rows] = 0
    sample = scaled[rows][:: 1 + int(rows.sum()) // 4000]  # At most 4000 rows, to limit the time.
    if sample.shape[1] > 600:  # Principal components of more columns take too long.
        parts = np.array_split(scaled, THRESHOLDS.components, axis=1)
        return np.stack([part.mean(1) for part in parts])
    _, directions = np.linalg.eigh(sample.T @ sample)
    return np.ascontiguousarray((scaled @ directions[:, -THRESHOLDS.components :]).T)


@functools.lru_cache(maxsize=16)
def compute_energies(source: AudioSource, step: int, band_count: int) -> Doubles:
    """Return the energies (frames, band_count) of audio in triangular bands from 0 Hz to Nyquist, evenly spaced in mel.

    A frame has ``STEPS_PER_FRAME * step`` samples and a Hann window, and the frame shift is ``step`` samples. Audio
    that is shorter than a frame has one frame of zeros.
    """
    size, rate = STEPS_PER_FRAME * step, source.rate
    points = 1 << (size - 1).bit_length()
    if len(source.samples) < size:
        return np.zeros((1, band_count))
    frames = np.lib.stride_tricks.sliding_window_view(source.samples, size)[::step]
    charge_microseconds(0.012 * len(frames) * points)
    bins, weights, starts = make_mel_filters("hertz", rate, points, band_count, low=0.0, high=0.0)
    window, energies = np.hanning(size).astype(np.float32), []
    for first in range(0, len(frames), THRESHOLDS.frames):
        spectrum = np.fft.rfft(frames[first : first + THRESHOLDS.frames] * window, points)
        power = spectrum.real**2 + spectrum.imag**2
        energies.append(np.add.reduceat(power[:, bins] * weights, starts, axis=1))
    return np.concatenate(energies)


def _decorrelate_bands(energies: Doubles, width: int) -> Doubles:
    """Smooth energies (frames, bands) over ``width`` frames, and return weighted sums (frames, bands) of their logs.

    The sums are uncorrelated and have unit variance. They are 0 if there are fewer than two frames per band.
    """
    # The mean of `width` frames around a frame is a difference of two cumulative sums, which begin with an extra frame.
    padded = np.pad(energies, ((width // 2 + 1, width - width // 2 - 1), (0, 0)), mode="edge")
    cumulative_sums = np.cumsum(padded, axis=0)
    smooth = (cumulative_sums[width:] - cumulative_sums[:-width]) / width if width > 1 else energies
    # The floor, 50 dB below the mean energy, limits the logarithms of silence, and 1e-30 those of digital silence.
    bands = np.log(np.maximum(smooth, 0) + 1e-5 * smooth.mean() + 1e-30)
    if len(bands) < 2 * bands.shape[1]:
        return np.zeros_like(bands)
    values, directions = np.linalg.eigh(np.cov(bands.T) + 1e-9 * np.eye(bands.shape[1]))
    return np.asarray((bands - bands.mean(0)) @ (directions / np.sqrt(values)))


def correlate_at_lags(components: Doubles, rows: Mask, bands: Doubles) -> Doubles:
    """Return the estimated share (U - T + 1,) of the variance of components that bands explain at each lag.

    At lag k, ``components`` (n, T) are compared with ``bands[:, k : k + T]`` at the times in the mask ``rows`` (T,).
    ``bands`` (m, U) have unit variance and are uncorrelated over their whole length only, so estimates may exceed 1.
    """
    length, total_length, row_count = components.shape[1], bands.shape[1], rows.sum()
    fft_size, lags = 1 << (total_length + length).bit_length(), slice(0, total_length - length + 1)
    spectra, squared_spectra = (np.fft.rfft(series, fft_size) for series in (bands, bands**2))

    def correlate(transforms: npt.NDArray[np.complexfloating], series: Doubles) -> Doubles:
        """Return the sums (m, lags) of products of ``series`` (T,) and the bands with these Fourier transforms."""
        return np.fft.irfft(transforms * np.fft.rfft(series, fft_size).conj(), fft_size)[..., lags]

    mask = rows.astype(np.float64)
    # The power of a band at the selected times is about row_count. The floor of a tenth keeps a band that hardly varies
    # at these times from explaining a large share.
    power = np.maximum(correlate(squared_spectra, mask) - correlate(spectra, mask) ** 2 / row_count, 0.1 * row_count)
    centered = np.where(rows, components - components[:, rows].mean(1, keepdims=True), 0)
    explained = sum((correlate(spectra, series) ** 2 / power).sum(0) for series in centered)
    return np.asarray(explained / max(float((centered**2).sum()), 1e-30))
