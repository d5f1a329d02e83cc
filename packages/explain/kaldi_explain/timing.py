"""Estimate the shift and the first frame of an array by correlation with the energies of audio."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_explain.arrangements import Mask
from kaldi_explain.models import mel_filters
from kaldi_explain.sources import AudioSource

MILLISECONDS = (10.0, 12.5, 5.0, 8.0, 16.0, 20.0, 30.0, 15.0, 4.0, 40.0, 32.0, 50.0, 60.0)
SAMPLES = (256, 512, 160, 200, 128, 320, 300, 240, 275, 441, 480, 220, 441, 64, 1024)
STEP_S = 0.005  # between the frames of the audio's energies
QUIET = 1e-5  # share of the mean energy below which bands do not count
BANDS, ROWS_PER_BAND = 12, 6
SMOOTH_S = 0.0125  # frames nearer to each other are alike
MOST = 9  # assumptions about parts
UNLIKELY = 0.6  # share of the best one's score that they have at least
COMPONENTS = 4  # of the array that are compared with the bands
MARGIN = 8  # frames that an array may begin before the audio, or end after it
FAR = 0.02  # by which each frame from the beginning makes frames of the whole audio less likely
TRIED_LAGS, APART = 6, 3
CERTAIN = 0.6  # score of frames that are certainly where they are assumed
FEWEST_ROWS = 12  # less, and anything correlates
MANY_ROWS, MANY_COLUMNS = 4000, 600  # of which the components of an array are found


@dataclass(frozen=True)
class Timing:
    """Assumed times of the rows of an array."""

    shift: int  # samples from one row to the next
    center: float  # sample in the middle of the first row's frame
    score: float  # share of the array's variance that the audio's energies explain, 0 to 1
    is_whole: bool  # True if the rows span the whole audio


class Pattern:
    """Principal components of an array over time, from the first row that counts to the last."""

    def __init__(self, target: Doubles, rows: Mask) -> None:
        places = np.flatnonzero(rows)
        self.begin, end = int(places[0]), int(places[-1]) + 1
        self.rows = rows[self.begin : end]
        self.counts = {len(self.rows)} | ({len(rows)} if not self.begin else set())  # with silence at its end
        self.components = components_of(target[self.begin : end], self.rows)

    def timings(
        self, source: AudioSource, stride: int = 1, *, parts: bool = True, certain: float = CERTAIN
    ) -> list[Timing]:
        """Return when the first row of the array, of each so many frames, may have been in audio or its parts.

        A score above ``certain`` for the whole audio rules out parts.
        """
        count = len(self.rows)

        def off(shift: float) -> float:
            """Return how many rows more or less than the array has the whole audio gives."""
            return min(abs(source.length / shift / stride - each) for each in self.counts)

        shifts = usual_shifts(source.rate)
        whole = sorted(
            (each for each in shifts if off(each) <= 3 + 2048 / each / stride), key=lambda each: off(each) > 2
        )
        if count < FEWEST_ROWS or self.rows.sum() < FEWEST_ROWS // 2:
            return [Timing(each * stride, 0.0125 * source.rate, 0.0, True) for each in whole]
        found = [self._best(source, each * stride, is_whole=True)[0] for each in whole]
        found.sort(key=lambda each: -each.score)
        if (found and found[0].score > certain) or not parts:
            found = [*found[:2], *[each for each in found[2:] if off(each.shift / stride) <= 2][:2]]
        else:
            exact = [each for each in found if off(each.shift / stride) <= 1][:3]
            centered = [Timing(each.shift, 0.0, each.score, True) for each in exact]  # whatever the correlation says
            estimated = round(source.length / count / stride)
            if not whole and 0.002 * source.rate < estimated < 0.1 * source.rate:
                found.append(self._best(source, estimated * stride, is_whole=True)[0])
            possible = [each * stride for each in shifts if each * stride * (count - 2 * MARGIN) <= source.length]
            found += [best for each in possible for best in self._best(source, each, is_whole=False)]
            found.sort(key=lambda each: -each.score)
            likely = [each for each in found if each.score > UNLIKELY * found[0].score][:MOST]
            found = [*dict.fromkeys([*exact, *centered, *likely])]
        return [Timing(each.shift, each.center - self.begin * each.shift, each.score, each.is_whole) for each in found]

    def _best(self, source: AudioSource, shift: int, *, is_whole: bool) -> list[Timing]:
        """Return the two best assumptions with a shift in samples that are some frames apart."""
        step = max(int(STEP_S * source.rate), 1)
        energies = energies_of(source, step, min(max(int(self.rows.sum()) // ROWS_PER_BAND, 3), BANDS))
        bands_of_steps = _uncorrelated(energies, max(1, round(shift / step)))
        independent = min(1.0, shift / (SMOOTH_S * source.rate))
        count, found = len(self.rows), list[Timing]()
        total = max(int(source.length / shift), count) + 2 * MARGIN
        lags = np.arange(total - count + 1)
        for offset in (0.0, shift / 4, shift / 2, 3 * shift / 4):
            centers = offset + (np.arange(total) - MARGIN) * shift
            at = (centers - 2.5 * step) / step
            bands = np.stack([np.interp(at, np.arange(len(band)), band) for band in bands_of_steps.T])
            near = correlations_at(self.components, self.rows, bands)
            inside = (lags > MARGIN - 3) & (lags < len(lags) - MARGIN + 3)
            near *= np.clip(1 - FAR * np.abs(lags - MARGIN), 0, 1) if is_whole else inside
            for _ in range(TRIED_LAGS):
                lag = int(near.argmax())
                near[max(lag - APART, 0) : lag + APART + 1] = 0
                inside_rows = bands[:, lag : lag + count][:, self.rows]
                score = explained_share(self.components[:, self.rows], inside_rows, independent)
                found.append(Timing(shift, float(centers[lag]), score, is_whole))
        found.sort(key=lambda each: -each.score)
        other = (each for each in found if abs(each.center - found[0].center) > APART * shift)
        return [found[0], *itertools.islice(other, 1)]


def usual_shifts(rate: float) -> list[int]:
    """Return the usual numbers of samples from one frame to the next."""
    return list(dict.fromkeys([int(rate * each / 1000) for each in MILLISECONDS[:3]] + [*SAMPLES] +
                              [int(rate * each / 1000) for each in MILLISECONDS[3:]]))  # fmt: skip


def explained_share(components: Doubles, bands: Doubles, independent: float = 1.0) -> float:
    """Return the share of the variance of components (n, frames) that is linear in bands (m, frames).

    What chance explains is subtracted; ``independent`` is the share of the frames that are not like their neighbours.
    """
    design = np.vstack((bands, np.ones(bands.shape[1]))).T
    wanted = components.T - components.mean(1)
    left = wanted - design @ np.linalg.lstsq(design, wanted, rcond=None)[0]
    count, unknown = independent * len(design), design.shape[1]
    chance = (count - 1) / max(count - unknown, 1)
    return float(max(0.0, 1 - chance * float((left**2).sum() / max((wanted**2).sum(), 1e-30))))


def components_of(target: Doubles, rows: Mask) -> Doubles:
    """Return the components (COMPONENTS, frames) that vary most, zero in the rows that do not count."""
    values = target
    if target.min() >= 0 and target.max() > 50 * np.median(target):
        values = np.log(target + 1e-6 * target.max())
    values = np.clip(values, *np.quantile(values[rows], (0.05, 0.95), axis=0))  # silence is far from all others
    chosen = values[rows]
    mean, deviation = chosen.mean(0), chosen.std(0)
    scaled = (values - mean) / np.where(deviation > 0, deviation, 1)
    scaled[~rows] = 0
    some = scaled[rows][:: 1 + int(rows.sum()) // MANY_ROWS]
    if some.shape[1] > MANY_COLUMNS:  # means of neighbouring columns
        parts = np.array_split(scaled, COMPONENTS, axis=1)
        return np.stack([part.mean(1) for part in parts])
    _, directions = np.linalg.eigh(some.T @ some)
    return np.ascontiguousarray((scaled @ directions[:, -COMPONENTS:]).T)


@functools.lru_cache(maxsize=16)
def energies_of(source: AudioSource, step: int, count: int) -> Doubles:
    """Return energies of so many bands (frames, count) of frames of five steps, a step apart."""
    size, rate = 5 * step, source.rate
    points = 1 << (size - 1).bit_length()
    if len(source.samples) < size:
        return np.zeros((1, count))
    frames = np.lib.stride_tricks.sliding_window_view(source.samples, size)[::step]
    bins, weights, starts = mel_filters("hertz", rate, points, count, 0.0, 0.0)
    window = np.hanning(size).astype(np.float32)
    found = []
    for first in range(0, len(frames), 4096):
        spectrum = np.fft.rfft(frames[first : first + 4096] * window, points)
        power = spectrum.real**2 + spectrum.imag**2
        found.append(np.add.reduceat(power[:, bins] * weights, starts, axis=1))
    return np.concatenate(found)


def _uncorrelated(energies: Doubles, width: int) -> Doubles:
    """Return uncorrelated sums of log energies of bands (frames, count), smoothed over so many frames."""
    padded = np.pad(energies, ((width // 2 + 1, width - width // 2 - 1), (0, 0)), mode="edge")
    sums = np.cumsum(padded, axis=0)
    smooth = (sums[width:] - sums[:-width]) / width if width > 1 else energies
    bands = np.log(np.maximum(smooth, 0) + QUIET * smooth.mean() + 1e-30)
    if len(bands) < 2 * bands.shape[1]:
        return np.zeros_like(bands)
    values, directions = np.linalg.eigh(np.cov(bands.T) + 1e-9 * np.eye(bands.shape[1]))
    return np.asarray((bands - bands.mean(0)) @ (directions / np.sqrt(values)))


def correlations_at(first: Doubles, rows: Mask, second: Doubles) -> Doubles:
    """Return for each lag how much of series (n, T) uncorrelated longer ones (m, U) explain: from 0 to about 1.

    ``rows`` (T,) are the times that count; the series are zero at others.
    """
    count, total = first.shape[1], second.shape[1]
    size, inside, number = 1 << (total + count).bit_length(), slice(0, total - count + 1), rows.sum()
    wide, squares = (np.fft.rfft(each, size) for each in (second, second**2))

    def products(transforms: npt.NDArray[np.complexfloating], series: Doubles) -> Doubles:
        return np.fft.irfft(transforms * np.fft.rfft(series, size).conj(), size)[..., inside]

    mask = rows.astype(np.float64)
    power = np.maximum(products(squares, mask) - products(wide, mask) ** 2 / number, 0.1 * number)
    centered = np.where(rows, first - first[:, rows].mean(1, keepdims=True), 0)
    norms = (centered**2).sum(1)
    explained = sum((products(wide, series) ** 2 / power).sum(0) for series in centered)
    return np.asarray(explained / max(float(norms.sum()), 1e-30))
