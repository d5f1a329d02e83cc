"""Estimate the frame shift and the first frame of an array by correlation with the energies of audio."""

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
from kaldi_explain.work import charge

# Usual frame shifts: common shifts in milliseconds, shifts in samples, and rare shifts in milliseconds.
SHIFTS_MS, SHIFTS, RARE_SHIFTS_MS = (
    (10.0, 12.5, 5.0),
    (256, 512, 160, 200, 128, 320, 300, 240, 275, 441, 480, 220, 64, 1024),
    (8.0, 16.0, 20.0, 30.0, 15.0, 4.0, 40.0, 32.0, 50.0, 60.0),
)


@dataclass(frozen=True)
class Timing:
    """Assumed times of the rows of an array.

    Attributes:
        shift: number of samples from one row to the next.
        center: sample in the middle of the first row's frame.
        score: share of the array's variance that the audio's energies explain, 0 to 1.
        is_whole: True if the rows span the whole audio.
    """

    shift: int
    center: float
    score: float
    is_whole: bool


class Pattern:
    """Principal components of an array over time, from the first row that depends on the audio to the last.

    ``target`` is the array (frames, columns). The mask ``rows`` (frames,) selects the rows that depend on the audio.
    """

    def __init__(self, target: Doubles, rows: Mask) -> None:
        indices = np.flatnonzero(rows)
        self.begin, end = int(indices[0]), int(indices[-1]) + 1
        self.rows = rows[self.begin : end]
        # Numbers of rows that the whole audio may have. `self.rows` may lack masked rows of silence at the end.
        self.counts = {len(self.rows)} | ({len(rows)} if not self.begin else set())
        self.components = compute_components(target[self.begin : end], self.rows)

    def list_timings(
        self, source: AudioSource, stride: int = 1, *, parts: bool = True, certain: float = THRESHOLDS.certain
    ) -> list[Timing]:
        """Return the assumed times of the array's rows in the audio ``source``, the best first.

        A row is ``stride`` frames after the previous row. Parts of the audio are also considered if ``parts`` is True
        and the score of the whole audio is at most ``certain``. An array of few rows is assumed to cover the audio.
        """
        count = len(self.rows)

        def measure_excess(shift: float) -> float:
            """Return the difference in rows between the whole audio and the array, for a frame shift in samples."""
            return min(abs(source.length / shift / stride - rows) for rows in self.counts)

        shifts = list_usual_shifts(source.rate)
        # With these shifts, the array covers the whole audio, up to three rows and 2048 samples.
        whole_shifts = [shift for shift in shifts if measure_excess(shift) <= 3 + 2048 / shift / stride]
        whole_shifts.sort(key=lambda shift: measure_excess(shift) > 2)
        if count < THRESHOLDS.timing_rows or self.rows.sum() < THRESHOLDS.timing_rows // 2:
            # Assume that the first frame is 25 ms long, and begins with the audio.
            return [Timing(shift * stride, 0.0125 * source.rate, 0.0, True) for shift in whole_shifts]
        timings = [self._find_best_timings(source, shift * stride, is_whole=True)[0] for shift in whole_shifts]
        timings.sort(key=lambda timing: -timing.score)
        if (timings and timings[0].score > certain) or not parts:
            near_timings = [timing for timing in timings[2:] if measure_excess(timing.shift / stride) <= 2]
            timings = [*timings[:2], *near_timings[:2]]
        else:
            exact_timings = [timing for timing in timings if measure_excess(timing.shift / stride) <= 1][:3]
            # The array may cover the whole audio even if the correlation is low, so keep these timings.
            from_beginning = [Timing(timing.shift, 0.0, timing.score, True) for timing in exact_timings]
            estimated_shift = round(source.length / count / stride)
            if not whole_shifts and 0.002 * source.rate < estimated_shift < 0.1 * source.rate:
                timings.append(self._find_best_timings(source, estimated_shift * stride, is_whole=True)[0])
            row_shifts = [x * stride for x in shifts if x * stride * (count - 2 * THRESHOLDS.margin) <= source.length]
            timings += [best for shift in row_shifts for best in self._find_best_timings(source, shift, is_whole=False)]
            timings.sort(key=lambda timing: -timing.score)
            limit = THRESHOLDS.certain * timings[0].score if timings else 0.0
            likely_timings = [timing for timing in timings if timing.score > limit][:9]
            timings = [*dict.fromkeys([*exact_timings, *from_beginning, *likely_timings])]
        return [replace(timing, center=timing.center - self.begin * timing.shift) for timing in timings]

    def _find_best_timings(self, source: AudioSource, shift: int, *, is_whole: bool) -> list[Timing]:
        """Return one or two timings with ``shift`` samples from row to row, the best first.

        The second timing begins more than three rows before or after the first. With ``is_whole``, the array is assumed
        to cover the whole audio, so timings that begin earlier or later than the audio are less likely to be selected.
        Otherwise, the array may cover a part of the audio, and all timings within the audio are equally likely.
        """
        step = max(int(0.005 * source.rate), 1)
        energies = compute_energies(source, step, min(max(int(self.rows.sum()) // 6, 3), 12))
        bands_of_steps = _decorrelate_bands(energies, max(1, round(shift / step)))
        independent_share = min(
            1.0, shift / (0.0125 * source.rate)
        )  # Frames less than 12.5 ms apart depend on each other.
        count, timings, min_distance = len(self.rows), list[Timing](), 3  # The distance is a number of rows.
        total = max(int(source.length / shift), count) + 2 * THRESHOLDS.margin
        lags = np.arange(total - count + 1)
        charge(2500 + 3 * (total + count) + 0.2 * energies.size)
        for offset in (0.0, shift / 4, shift / 2, 3 * shift / 4):
            centers = offset + (np.arange(total) - THRESHOLDS.margin) * shift
            # An energy is computed from 5 steps of audio, and belongs to the middle of these steps.
            positions = (centers - 2.5 * step) / step
            bands = np.stack([np.interp(positions, np.arange(len(band)), band) for band in bands_of_steps.T])
            scores = correlate_at_lags(self.components, self.rows, bands)
            is_inside = (lags > THRESHOLDS.margin - 3) & (lags < len(lags) - THRESHOLDS.margin + 3)
            # An array of the whole audio rarely begins late or early, so each frame of delay costs 2% of the score.
            scores *= np.clip(1 - 0.02 * np.abs(lags - THRESHOLDS.margin), 0, 1) if is_whole else is_inside
            for _ in range(6):
                lag = int(scores.argmax())
                scores[max(lag - min_distance, 0) : lag + min_distance + 1] = 0
                selected_bands = bands[:, lag : lag + count][:, self.rows]
                score = compute_explained_share(self.components[:, self.rows], selected_bands, independent_share)
                timings.append(Timing(shift, float(centers[lag]), score, is_whole))
        timings.sort(key=lambda timing: -timing.score)
        best = timings[0]
        distant = (timing for timing in timings if abs(timing.center - best.center) > min_distance * shift)
        return [best, *itertools.islice(distant, 1)]


def list_usual_shifts(rate: float) -> list[int]:
    """Return usual frame shifts in samples, the most common first, for a sampling rate in Hz."""
    common, rare = ([int(rate * shift / 1000) for shift in shifts] for shifts in (SHIFTS_MS, RARE_SHIFTS_MS))
    return list(dict.fromkeys([*common, *SHIFTS, *rare]))


def compute_explained_share(components: Doubles, bands: Doubles, independent: float = 1.0) -> float:
    """Return the share of the variance of components (n, frames) that is a linear function of bands (m, frames).

    The share is at least 0, and is reduced by what chance explains (adjusted R squared). ``independent`` is the share
    of frames that count as independent observations.
    """
    design = np.vstack((bands, np.ones(bands.shape[1]))).T
    centered = components.T - components.mean(1)
    unexplained = centered - design @ np.linalg.lstsq(design, centered, rcond=None)[0]
    count, unknown = independent * len(design), design.shape[1]
    chance = (count - 1) / max(count - unknown, 1)
    return float(max(0.0, 1 - chance * float((unexplained**2).sum() / max((centered**2).sum(), 1e-30))))


def compute_components(target: Doubles, rows: Mask) -> Doubles:
    """Return at most ``THRESHOLDS.components`` principal components (components, frames) of an array (frames, columns).

    The largest component is the last. Components are 0 outside of the mask ``rows`` (frames,). The columns are first
    clipped and scaled to unit variance, and powers are converted to logarithms. If there are more than 600 columns, the
    components are means of neighboring columns.
    """
    values = target
    if target.min() >= 0 and target.max() > 50 * np.median(target):
        # Powers and magnitudes have a much larger range than their logarithms.
        values = np.log(target + 1e-6 * target.max())
    # Clip to the range of 90% of the values, because silence would otherwise dominate the variance.
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
    """Return the energies (frames, band_count) of triangular bands, equally spaced in mel from 0 Hz to Nyquist.

    A frame has ``5 * step`` samples and a Hann window, and the frame shift is ``step`` samples. Audio that is shorter
    than a frame has one frame of zeros.
    """
    size, rate = 5 * step, source.rate
    points = 1 << (size - 1).bit_length()
    if len(source.samples) < size:
        return np.zeros((1, band_count))
    frames = np.lib.stride_tricks.sliding_window_view(source.samples, size)[::step]
    charge(0.012 * len(frames) * points)
    bins, weights, starts = make_mel_filters("hertz", rate, points, band_count, 0.0, 0.0)
    window, energies = np.hanning(size).astype(np.float32), []
    for first in range(0, len(frames), 4096):
        spectrum = np.fft.rfft(frames[first : first + 4096] * window, points)
        power = spectrum.real**2 + spectrum.imag**2
        energies.append(np.add.reduceat(power[:, bins] * weights, starts, axis=1))
    return np.concatenate(energies)


def _decorrelate_bands(energies: Doubles, width: int) -> Doubles:
    """Return uncorrelated weighted sums, of unit variance, of the log energies of bands, both (frames, count).

    The energies are first smoothed over ``width`` frames. The sums are 0 if there are fewer than two frames per band.
    """
    padded = np.pad(energies, ((width // 2 + 1, width - width // 2 - 1), (0, 0)), mode="edge")
    cumulative_sums = np.cumsum(padded, axis=0)
    smooth = (cumulative_sums[width:] - cumulative_sums[:-width]) / width if width > 1 else energies
    bands = np.log(np.maximum(smooth, 0) + 1e-5 * smooth.mean() + 1e-30)
    if len(bands) < 2 * bands.shape[1]:
        return np.zeros_like(bands)
    values, directions = np.linalg.eigh(np.cov(bands.T) + 1e-9 * np.eye(bands.shape[1]))
    return np.asarray((bands - bands.mean(0)) @ (directions / np.sqrt(values)))


def correlate_at_lags(components: Doubles, rows: Mask, bands: Doubles) -> Doubles:
    """Estimate the share of the variance of components that bands explain at each lag: (U - T + 1,).

    At lag k, ``components`` (n, T) are compared with ``bands[:, k : k + T]`` at the times that the mask ``rows`` (T,)
    selects. ``bands`` (m, U) have unit variance and are uncorrelated, but only over their whole length, so the estimate
    may exceed 1.
    """
    length, total_length = components.shape[1], bands.shape[1]
    size, inside, row_count = 1 << (total_length + length).bit_length(), slice(0, total_length - length + 1), rows.sum()
    spectra, squared_spectra = (np.fft.rfft(series, size) for series in (bands, bands**2))

    def correlate(transforms: npt.NDArray[np.complexfloating], series: Doubles) -> Doubles:
        """Return the correlations, at each lag, of the series with these Fourier transforms and ``series`` (T,)."""
        return np.fft.irfft(transforms * np.fft.rfft(series, size).conj(), size)[..., inside]

    mask = rows.astype(np.float64)
    # Bands of unit variance usually have the power row_count. The floor limits the share of bands that hardly vary.
    power = np.maximum(correlate(squared_spectra, mask) - correlate(spectra, mask) ** 2 / row_count, 0.1 * row_count)
    centered = np.where(rows, components - components[:, rows].mean(1, keepdims=True), 0)
    norms = (centered**2).sum(1)
    explained = sum((correlate(spectra, series) ** 2 / power).sum(0) for series in centered)
    return np.asarray(explained / max(float(norms.sum()), 1e-30))
