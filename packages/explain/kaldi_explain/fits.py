"""Maps between arrays of features of the same shape: offsets, scales and normalization. Shifts in time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_explain.options import DB_80
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.work import charge_microseconds

# Straight lines that convert natural logarithms: slope, offset (None for any offset) and name. They are tried in this
# order, and the first line within the tolerance is taken.
LINES: tuple[tuple[float, float | None, str], ...] = (
    (0.25 / math.log(10), 1.0, "(x + 4) / 4 of logarithms to base 10, as in Whisper"),
    (1 / 9.138, 4.268 / 9.138, "(x + 4.268) / 9.138, as in AST, EAT and ImageBind"),
    (0.5 / 6.55582, -15.41663 / 2 / 6.55582, "(x - 15.41663) / (2 * 6.55582), as in BEATs"),
    (1 / math.log(10), None, "logarithms to base 10"),
    (10 / math.log(10), None, "decibels (10 log10)"),
    (20 / math.log(10), None, "decibels of magnitudes (20 log10)"),
    (1 / math.log(2), None, "logarithms to base 2"),
    (0.5, None, "logarithms of magnitudes"),
    (2.0, None, "logarithms of squares"),
    (-1.0, None, "the sign changed"),
)
MEAN = "minus the mean of each column over the recording"
LOG_OF_SCALE = 2 * math.log(32768)  # Difference of log energies between 16-bit samples and samples in -1 to 1.
# Numbers of words that a map with fitted numbers counts as: numbers for all columns, and numbers for each column. The
# map with the fewest words is the simplest.
NUMBER_WORDS, COLUMN_WORDS = 3, 5
INTEGER_LIMITS = (0, 127, -128, 255, 32767, -32768, 65535)  # Smallest and largest integers of 8 and 16 bits.
Cells = tuple[npt.NDArray[Any], ...]  # Indices of the compared cells, as np.ix_(rows, columns) returns them.
Map = tuple[str, Doubles, int]  # Name, mapped features (frames, columns), and number of words, as in a Fit.


@dataclass(frozen=True)
class Fit:
    """A map from one array to another.

    Attributes:
        name: name of the map. "" if the arrays are equal.
        residual: absolute difference after the map, see :func:`measure_residual`.
        mapped: the first array, mapped.
        word_count: number of words that the map counts for: 0 without a map, the most with numbers for each column.
    """

    name: str
    residual: float
    mapped: Doubles
    word_count: int = 1


def select_all_cells(array: Doubles) -> Cells:
    """Return the indices that select all cells of an array (frames, columns)."""
    return np.ix_(*map(np.arange, array.shape))


def measure_residual(first: Doubles, second: Doubles, step: float = 0.0) -> float:
    """Return the 99.9th percentile of the absolute differences of two arrays, or if larger, 1/30 of their maximum.

    A few differences may be larger, because nearly silent frames have large rounding errors in single precision.
    ``step`` is the largest error of the stored numbers, which is subtracted from all differences.
    """
    difference = np.maximum(np.abs(first - second).ravel() - step, 0)
    index = round(0.999 * (len(difference) - 1))
    return float(max(np.partition(difference, index)[index], difference.max() / THRESHOLDS.outlier))


def measure_distance(features: Doubles, target: Doubles) -> float:
    """Return the distance of two arrays (frames, columns) from 0 to 1, regardless of each column's offset and scale.

    For each column, a straight line is fitted. The distance is the root of the mean, over the columns, of the share of
    the variance that the line does not explain. A column that is constant in both arrays counts as explained, and in
    only one array as unexplained. The distance is 1 for arrays without frames.
    """
    if not len(features):
        return 1.0
    a, b = (x - x.mean(0) for x in (features, target))
    power, target_power, common = (np.einsum("ij,ij->j", x, y) for x, y in ((a, a), (b, b), (a, b)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unexplained = np.clip(1 - (common / power) * (common / target_power), 0, 1)
    unexplained[(power == 0) | (target_power == 0)] = 1
    unexplained[(power == 0) & (target_power == 0)] = 0
    return float(np.sqrt(unexplained.mean()))


def find_limits(target: Doubles, *, is_rounded: bool = False) -> tuple[float, float]:
    """Return the smallest and largest value of an array if it may have been clipped to them.

    An extreme value that occurs fewer than three times is not a limit, and is replaced with -inf or inf. If
    ``is_rounded`` is True, the smallest or largest number of an integer type is a limit even if it occurs once.
    """
    low, high = float(target.min()), float(target.max())

    def is_limit(value: float) -> bool:
        return bool(np.sum(target == value) >= THRESHOLDS.limit_cells) or (is_rounded and value in INTEGER_LIMITS)

    return (low if is_limit(low) else -math.inf, high if is_limit(high) else math.inf)


def describe_limits(limits: tuple[float, float], features: Doubles, mapped: Doubles, tolerance: float) -> str:
    """Describe the limits that mapped features exceed by more than a tolerance, or return "" for no such limit.

    A lower limit that is 80 dB below the maximum (``top_db`` of librosa) is described as such. ``features`` are natural
    logarithms before the map, which give the distance between the limit and the maximum of ``mapped`` in dB.
    """
    (low, high), names = limits, []
    is_below = low - mapped > tolerance
    if is_below.any():
        # Two cells, the largest one and one below the limit, give the slope that converts the distance to logarithms.
        cells = [int(mapped.argmax()), int(is_below.argmax())]
        logs, values = features.ravel()[cells], mapped.ravel()[cells]
        distance = (values[0] - low) * np.ptp(logs) / (np.ptp(values) or math.nan)
        is_80_db = bool(abs(distance - DB_80["span"] * math.log(10) / 10) < THRESHOLDS.floor_error)
        names.append(f"at least {low:.6g}{', 80 dB below the maximum' * is_80_db}")
    if (mapped - high > tolerance).any():
        names.append(f"at most {high:.6g}")
    return f"clipped to {' and '.join(names)}" if names else ""


def find_simplest_map(
    features: Doubles, target: Doubles, tolerance: float, cells: Cells | None = None,
    references: Sequence[Doubles] = (), earlier_maps: Sequence[Map] = (), step: float = 0.0,
) -> Fit:  # fmt: skip
    """Return the simplest map from features to an array, among the maps whose residual is within the tolerance.

    If there is none, return the simplest map after which fewer than 10% of the values differ, or else the simplest map
    whose residual is within 25% of the smallest. A map with numbers for each column is returned only if after each
    simpler map, at least 10% of the values differ. If several values of the array are equal to its smallest or largest
    value, the mapped features are clipped to this value.

    Args:
        features, target: arrays (frames, columns).
        tolerance: largest residual of an explanation.
        cells: the cells that are compared. None for all.
        references: features of more or fewer frames, whose means and deviations may have been used.
        earlier_maps: normalizations of the features before they were arranged.
        step: largest error of the stored numbers.
    """
    cells, fits = cells or select_all_cells(target), list[Fit]()
    charge_microseconds(1000 + 0.2 * features.size)
    limits, nearly_exact_fit = find_limits(target[cells], is_rounded=step > 0), None
    for name, mapped, word_count in _list_maps(features, target, cells, references, earlier_maps, limits):
        clipped = np.clip(mapped, *limits)
        clipping = describe_limits(limits, features[cells], mapped[cells], tolerance + step)
        fit = Fit(
            "; ".join(filter(None, (name, clipping))), measure_residual(clipped[cells], target[cells], step),
            clipped if clipping else mapped, word_count + NUMBER_WORDS * bool(clipping),
        )  # fmt: skip
        if fit.residual <= tolerance and not (nearly_exact_fit and word_count >= COLUMN_WORDS):
            return fit
        fits.append(fit)
        if nearly_exact_fit is None:
            is_wrong = np.abs((fit.mapped - target)[cells]) > tolerance + step
            nearly_exact_fit = fit if np.mean(is_wrong) < THRESHOLDS.few_cells else None
    charge_microseconds(3000 + 0.8 * features.size)
    limit = 1.25 * min((fit.residual for fit in fits if math.isfinite(fit.residual)), default=math.inf)
    return nearly_exact_fit or next((fit for fit in fits if fit.residual <= limit), fits[0])


def _list_maps(
    features: Doubles, target: Doubles, cells: Cells, references: Sequence[Doubles], earlier_maps: Sequence[Map],
    limits: tuple[float, float],
) -> Iterator[Map]:  # fmt: skip
    """Yield the maps from features to a target array that may explain it, roughly from simple to complex.

    A map is its description, the mapped features (frames, columns), and its number of words. Straight lines are fitted
    to the cells whose target is strictly within ``limits``. :func:`find_simplest_map` describes the other arguments.
    """
    yield "", features, 0
    maps = [
        *(map_ for sample in (features, *references) for map_ in list_normalizations(features, sample)),
        *earlier_maps,
    ]
    yield from maps
    cell_features, cell_targets = features[cells], target[cells]
    inside = (cell_targets > limits[0]) & (cell_targets < limits[1])
    inside = inside if inside.any() else np.ones_like(inside)
    offset = float(np.median((cell_targets - cell_features)[inside]))
    yield describe_offset(offset), features + offset, NUMBER_WORDS
    for slope, fixed_offset, name in LINES:
        fitted = float(np.median((cell_targets - slope * cell_features)[inside])) if fixed_offset is None else 0.0
        offset = fitted if fixed_offset is None else fixed_offset
        is_named = fixed_offset is not None or abs(offset) < 1e-3 * max(1.0, slope)
        line_name = name if is_named else f"{name}, {describe_offset(offset, slope)}"
        yield line_name, slope * features + offset, 1 if is_named else NUMBER_WORDS
        if fixed_offset is not None:
            yield f"{name}, of samples in -1 to 1", slope * (features - LOG_OF_SCALE) + fixed_offset, NUMBER_WORDS
    logarithms = [(slope, name) for slope, fixed_offset, name in LINES if fixed_offset is None]
    centered = [(name, mapped) for name, mapped, _ in maps if MEAN in name]
    for (mean, mapped), (slope, name) in itertools.product(centered, logarithms):
        yield f"{name}; {mean}", slope * mapped, NUMBER_WORDS
    slope, offset = fit_line(cell_features[inside], cell_targets[inside])
    if abs(offset) < 1e-6 * np.abs(cell_targets).max():
        name = "" if f"{slope:.6g}" == "1" else f"times {slope:.6g}"
        yield name, slope * features, NUMBER_WORDS
    yield f"times {slope:.6g}, plus {offset:.6g}", slope * features + offset, NUMBER_WORDS
    # With fewer than 10 frames, numbers for each column could map any features to any target.
    if len(cell_features) >= 10:
        slopes, offsets, columns = np.ones(features.shape[1]), np.zeros(features.shape[1]), cells[1].ravel()
        inside = inside | ~inside.any(0)
        for slope, name in [(1.0, ""), *logarithms]:
            offsets[columns] = (inside * (cell_targets - slope * cell_features)).sum(0) / inside.sum(0)
            description = f"{name}{name and '; '}plus a number for each column (mean of a speaker or corpus)"
            yield description, slope * features + offsets, COLUMN_WORDS
        slopes[columns], offsets[columns] = fit_line(cell_features, cell_targets, inside)
        yield (
            "times and plus a number for each column (CMVN of a speaker or corpus)",
            slopes * features + offsets,
            COLUMN_WORDS,
        )


def list_normalizations(features: Doubles, sample: Doubles) -> Iterator[Map]:
    """Yield maps that normalize features (frames, columns) by means and deviations, of each column or of all columns.

    ``sample``, from which the means and deviations are taken, is the features, or more or fewer of their frames.
    """
    source = "" if sample is features else f" of {len(sample)} frames"
    divided = "minus the mean and divided by the standard deviation"
    centered = features - sample.mean(0)
    yield f"{MEAN}{source}", centered, 1
    for ddof, name in ((0, ""), (1, " (of a sample)")):
        if len(sample) > ddof:
            deviation = np.maximum(sample.std(0, ddof=ddof), 1e-10)
            yield f"{divided}{name} of each column{source}", centered / deviation, 1
    centered = features - sample.mean()
    yield f"minus the mean over all columns and frames{source}", centered, 1
    yield f"{divided} over all{source}", centered / max(float(sample.std()), 1e-10), 1


def describe_offset(offset: float, slope: float = 1.0) -> str:
    """Describe a constant offset of log energies, such as "plus 1", and its reason, if the offset shows one.

    A reason is another scale of the samples, or power that is divided by the number of FFT points. ``slope`` is the
    factor from natural logarithms to the numbers of the array.
    """
    sign = "plus" if offset > 0 else "minus"
    for factor, words in ((1.0, "2 ln 32768"), (0.5, "ln 32768"), (1 / math.log(10), "2 log10 32768")):
        if abs(abs(offset) - factor * LOG_OF_SCALE) < 1e-2 * factor:
            return f"{sign} {factor * LOG_OF_SCALE:.4g} = {words} (samples on another scale)"
    natural_offset = offset / abs(slope)
    points = next((2**n for n in range(7, 13) if abs(abs(natural_offset) - n * math.log(2)) < 1e-3), 0)
    meaning = f"= ln {points} (power divided by the number of FFT points)" if points else ""
    if not meaning and 1e-3 < abs(natural_offset) < 50:  # Larger offsets cannot come from the scale of samples.
        meaning = f"(of log energies: samples times {math.exp(natural_offset / 2):.4g})"
    return f"{sign} {abs(offset):.6g} {meaning}".rstrip()


def fit_line(x: Doubles, y: Doubles, inside: npt.NDArray[np.bool_] | None = None) -> tuple[Any, Any]:
    """Fit a line to points (n,), or a line to each column of points (n, columns), by least squares.

    Only the points that the mask ``inside`` selects are used. It selects at least one point of each column. Return the
    slope and the offset, as numbers or with the shape (columns,). The slope is 1 if all ``x`` are equal.
    """
    weights = np.ones(x.shape) if inside is None else inside.astype(np.float64)
    x_mean, y_mean = ((weights * values).sum(0) / weights.sum(0) for values in (x, y))
    centered = weights * (x - x_mean)
    power = (centered * centered).sum(0)
    slope = np.where(power > 0, (centered * (y - y_mean)).sum(0) / np.where(power > 0, power, 1), 1.0)
    return slope, y_mean - slope * x_mean


def select_common_frames(features: Doubles, target: Doubles, shift: int) -> tuple[Doubles, Doubles]:
    """Return the frames that both arrays share if frame ``i`` of ``target`` is frame ``i + shift`` of ``features``."""
    features, target = features[max(shift, 0) :], target[max(-shift, 0) :]
    count = min(len(features), len(target))
    return features[:count], target[:count]


def find_best_shift(features: Doubles, target: Doubles, expected_shift: int = 0, max_deviation: int = 4) -> int:
    """Return the shift in frames, at most ``max_deviation`` from ``expected_shift``, at which the arrays agree best.

    Both arrays have the shape (frames, columns), and :func:`select_common_frames` defines a shift. Of equally good
    shifts, the shift nearest to ``expected_shift`` is returned.
    """

    def measure_shift(shift: int) -> tuple[float, int]:
        """Return the distance of the arrays (:func:`measure_distance`) at a shift, and the deviation of the shift."""
        a, b = select_common_frames(features, target, shift)
        # A straight line fits one common frame exactly, so fewer than two frames count as the largest distance.
        return (round(measure_distance(a, b), 6) if len(a) > 1 else 1.0, abs(shift - expected_shift))

    return min(range(expected_shift - max_deviation, expected_shift + max_deviation + 1), key=measure_shift)


def describe_frame_counts(counts: dict[str, int]) -> list[str]:
    """Describe additional (positive) and missing (negative) frames at the "start" and the "end" of an array."""
    return [f"{abs(count)} frame{'s' * (abs(count) > 1)} {'too many' if count > 0 else 'left out'} at the {where}"
            for where, count in counts.items() if count]  # fmt: skip


def compute_correlations(features: Doubles, target: Doubles) -> Doubles:
    """Return the correlation of each column of ``target`` with each column of ``features``.

    The result has the shape (columns of the target, columns of the features). Constant columns have a correlation of 0.
    """
    a, b = (x - x.mean(0) for x in (features, target))
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.outer(np.sqrt((b * b).sum(0)), np.sqrt((a * a).sum(0)))
        return np.asarray(np.nan_to_num((b.T @ a) / norms))


def match_columns(features: Doubles, target: Doubles) -> list[int] | None:
    """Return for each column of the target the index of the features' column that equals it up to offset and scale.

    Scales are positive. Return None if at least one column of the target has no such column.
    """
    correlations = compute_correlations(features, target)
    best = correlations.argmax(1)  # Below, 1e-6 allows for rounding in single precision.
    return best.tolist() if (correlations.max(1) > 1 - 1e-6).all() else None


def describe_order(order: Sequence[int], column_count: int) -> str:
    """Describe ``order``, the indices of columns selected from ``column_count`` columns. Return "" for all in order."""
    order, all_columns = list(order), list(range(column_count))
    names = {
        "the first column last": [*all_columns[1:], 0],
        "the last column first": [column_count - 1, *all_columns[:-1]],
        "the columns in reverse order": all_columns[::-1],
        "the first column left out": all_columns[1:],
        "the last column left out": all_columns[:-1],
        f"columns {order[0]} to {order[-1]} only": [*range(order[0], order[-1] + 1)],
        "": all_columns,
    }
    shown = ", ".join(map(str, order[:8])) + ", ..." * (len(order) > 8)
    return next((name for name, named_order in names.items() if named_order == order), f"columns {shown}")
