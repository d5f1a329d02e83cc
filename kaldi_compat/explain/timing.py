"""When the frames of an array were: their shift and the first one, by the correlation with the audio's energies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.explain.arrangements import Mask
from kaldi_compat.explain.models import mel_filters
from kaldi_compat.explain.sources import AudioSource

MILLISECONDS = (10.0, 12.5, 5.0, 8.0, 16.0, 20.0, 30.0, 15.0, 4.0, 40.0, 32.0, 50.0, 60.0)
SAMPLES = (256, 512, 160, 200, 128, 320, 300, 240, 275, 441, 480, 220, 441, 64, 1024)
STEP_S = 0.005  # between the frames of the audio's energies
QUIET = 1e-5  # share of the mean energy below which bands do not count
BANDS, ROWS_PER_BAND = 12, 6
SMOOTH_S = 0.0125  # frames nearer to each other are alike
MOST = 8  # assumptions about parts
COMPONENTS = 4  # of the array that are compared with the bands
MARGIN = 8  # frames that an array may begin before the audio, or end after it
TRIED_LAGS = 4
CERTAIN = 0.6  # share of frames that are certainly where they are assumed
FEWEST_ROWS = 12  # less, and anything correlates
MANY_ROWS, MANY_COLUMNS = 4000, 600  # of which the components of an array are found


@dataclass(frozen=True)
class Timing:
    """Assumption of when the rows of an array were.

    Attributes:
        shift: samples from one row to the next.
        centre: sample in the middle of the first row's frame.
        score: share of the array's variance that the audio's energies explain, 0 to 1.
        is_whole: True if the rows span the whole audio.
    """

    shift: int
    centre: float
    score: float
    is_whole: bool


def timings(target: Doubles, rows: Mask, source: AudioSource, stride: int = 1, *, parts: bool = True) -> list[Timing]:
    """Return when the rows of an array may have been, the best first.

    Args:
        target: the array (frames, dim).
        rows: the rows that count.
        source: the audio.
        stride: frames from one row to the next.
        parts: look for parts of the audio as well.
    """
    told = np.flatnonzero(rows)
    begin, target, rows = int(told[0]), target[told[0] : told[-1] + 1], rows[told[0] : told[-1] + 1]
    found = _timings(target, rows, source, stride, parts=parts)
    return [Timing(each.shift, each.centre - begin * each.shift, each.score, each.is_whole) for each in found]


def _timings(target: Doubles, rows: Mask, source: AudioSource, stride: int, *, parts: bool) -> list[Timing]:
    count = len(target)
    shifts = dict.fromkeys(usual_shifts(source.rate))
    whole = [each for each in shifts if abs(source.length / each / stride - count) <= 3 + 2048 / each / stride]
    whole.sort(key=lambda each: abs(source.length / each / stride - count) > 2)
    if count < FEWEST_ROWS or rows.sum() < FEWEST_ROWS // 2:
        middle = 0.0125 * source.rate
        return [Timing(each * stride, middle, 0.0, True) for each in whole]
    series = Series(target, rows, source)
    found = [series.best(each * stride, is_whole=True) for each in whole]
    found.sort(key=lambda each: -each.score)
    if (found and found[0].score > CERTAIN) or not parts:
        likely = [each for each in found[2:] if abs(source.length / each.shift - count) <= 2]
        return [*found[:2], *likely[:2]]
    possible = [each for each in shifts if each * stride * (count - 2 * MARGIN) <= source.length]
    estimated = round(source.length / count / stride)
    if not whole and 0.002 * source.rate < estimated < 0.1 * source.rate:
        found.append(series.best(estimated * stride, is_whole=True))
    found += [series.best(each * stride, is_whole=False) for each in possible]
    best = {(each.shift, each.centre): each for each in sorted(found, key=lambda each: each.score)}
    return [*best.values()][: -MOST - 1 : -1]


def usual_shifts(rate: float) -> list[int]:
    """Return the usual numbers of samples from one frame to the next."""
    return list(dict.fromkeys([int(rate * each / 1000) for each in MILLISECONDS[:3]] + [*SAMPLES] +
                              [int(rate * each / 1000) for each in MILLISECONDS[3:]]))  # fmt: skip


class Series:
    """What an array and the audio's energies have in common: a few components of the one, and bands of the other."""

    def __init__(self, target: Doubles, rows: Mask, source: AudioSource) -> None:
        self._source = source
        self._components = components_of(target, rows)
        self._step = max(int(STEP_S * source.rate), 1)
        self._bands = _bands(source, self._step, min(max(int(rows.sum()) // ROWS_PER_BAND, 3), BANDS))

    def best(self, shift: int, *, is_whole: bool) -> Timing:
        """Return the best assumption with a shift in samples."""
        return max(self._timings(shift, is_whole=is_whole), key=lambda each: each.score)

    def _timings(self, shift: int, *, is_whole: bool) -> Iterator[Timing]:
        count = self._components.shape[1]
        total = max(int(self._source.length / shift), count) + 2 * MARGIN
        lags = np.arange(total - count + 1)
        for offset in (0.0, shift / 4, shift / 2, 3 * shift / 4):
            centres = offset + (np.arange(total) - MARGIN) * shift
            at = (centres - 2.5 * self._step) / self._step
            bands = np.stack([np.interp(at, np.arange(len(band)), band) for band in self._bands.T])
            near = correlations_at(self._components, bands)
            inside = lags <= 2 * MARGIN if is_whole else (lags > MARGIN - 3) & (lags < len(lags) - MARGIN + 3)
            near = np.where(inside, near, 0)
            for lag in np.argsort(near)[-TRIED_LAGS:]:
                independent = min(1.0, shift / (SMOOTH_S * self._source.rate))
                score = explained_share(self._components, bands[:, lag : lag + count], independent)
                yield Timing(shift, float(centres[lag]), score, is_whole)


def explained_share(components: Doubles, bands: Doubles, independent: float = 1.0) -> float:
    """Return the share of the components' variance that is linear in the bands, less what chance explains.

    Args:
        components: (n, frames).
        bands: (m, frames).
        independent: share of the frames that are not like their neighbours.
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


def _bands(source: AudioSource, step: int, count: int) -> Doubles:
    """Return log energies of so many bands (frames, count) of frames of five steps, a step apart."""
    size, rate = 5 * step, source.rate
    points = 1 << (size - 1).bit_length()
    audio = source.samples
    if len(audio) < size:
        return np.zeros((1, count))
    frames = np.lib.stride_tricks.sliding_window_view(audio, size)[::step]
    filters = mel_filters("hertz", rate, points, count, 0.0, 0.0)
    window = np.hanning(size).astype(np.float32)
    found = []
    for first in range(0, len(frames), 4096):
        spectrum = np.fft.rfft(frames[first : first + 4096] * window, points)
        found.append(filters(spectrum.real**2 + spectrum.imag**2))
    energies = np.concatenate(found)
    bands = np.log(energies + QUIET * energies.mean() + 1e-30)
    values, directions = np.linalg.eigh(np.cov(bands.T) + 1e-9 * np.eye(count))
    uncorrelated: Doubles = (bands - bands.mean(0)) @ (directions / np.sqrt(values))
    return uncorrelated


def correlations_at(first: Doubles, second: Doubles) -> Doubles:
    """Return for each lag how much of series (n, T) uncorrelated longer ones (m, U) explain: from 0 to about 1."""
    count, total = first.shape[1], second.shape[1]
    size = 1 << (total + count).bit_length()
    centred = first - first.mean(1, keepdims=True)
    norms = np.sqrt((centred**2).sum(1))
    second = second - second.mean(1, keepdims=True)
    transforms = np.fft.rfft(second, size)
    sums, squares = (np.cumsum(np.pad(each, ((0, 0), (1, 0))), axis=1) for each in (second, second**2))
    inside = slice(0, total - count + 1)
    mean = (sums[:, count:] - sums[:, : total - count + 1]) / count
    power = np.maximum(squares[:, count:] - squares[:, : total - count + 1] - count * mean**2, 0.1 * count)
    best = np.zeros((len(first), total - count + 1))
    for number, (series, norm) in enumerate(zip(np.fft.rfft(centred, size), norms, strict=True)):
        if norm > 0:
            products = np.fft.irfft(transforms * series.conj(), size)[:, inside]
            best[number] = (products**2 / (norm**2 * power)).sum(0)
    return (norms**2 / max(float((norms**2).sum()), 1e-30)) @ best  # type: ignore[no-any-return]
