"""Find the map from features to an array of the same shape, and the best shift in time.

A *map* changes only numbers, not their positions: it adds an offset, scales, converts logarithms, normalizes or clips.
"""

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

# Straight lines that convert natural logarithms: slope, offset (None if it is fitted) and name. They are tried in this
# order, and the first line within the tolerance is chosen.
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
# Complexity of maps with fitted numbers, in words of an answer: with numbers that all columns share, and with numbers
# for each column. The simplest map has the fewest words.
NUMBER_WORDS, COLUMN_WORDS = 3, 5
MIN_FRAMES_OF_COLUMN_MAP = 10  # With fewer frames, numbers for each column could map any features to any target.
MIN_DEVIATION = 1e-10  # Standard deviation that replaces smaller ones before a division, to avoid infinity.
INTEGER_LIMITS = (0, 127, -128, 255, 32767, -32768, 65535)  # Smallest and largest integers of 8 and 16 bits.
OFFSET_ERROR = 1e-2  # Largest error of an offset of natural log energies that is recognized as a scale of samples.
ZERO_OFFSET = 1e-3  # Largest magnitude of an offset of log energies that counts as 0.
MAX_SCALE_OFFSET = 50.0  # Largest offset of natural log energies that a scale of the samples (here e ** 25) explains.
MAX_LISTED_COLUMNS = 8  # Number of columns that a description of an order lists.
Cells = tuple[npt.NDArray[Any], ...]  # Indices of the compared cells, as np.ix_(rows, columns) returns them.
Map = tuple[str, Doubles, int]  # Name, mapped features (frames, columns), and complexity in words, as in a Fit.


@dataclass(frozen=True)
class Fit:
    """A map from features to an array of the same shape, and the difference between the mapped features and the array.

    Attributes:
        name: description of the map. "" if the map changes nothing.
        residual: the difference (:func:`measure_residual`).
        mapped: the mapped features (frames, columns).
        word_count: complexity of the map in words of an answer: 0 if the map changes nothing, or else at least 1.
    """

    name: str
    residual: float
    mapped: Doubles
    word_count: int = 1


def measure_residual(first: Doubles, second: Doubles, step: float = 0.0) -> float:
    """Return the 99.9th percentile of the absolute differences between two nonempty arrays of the same shape.

    Return 1/30 of the largest absolute difference instead if this is larger than the percentile. A few differences may
    be large, because nearly silent frames have large rounding errors in single precision. Each absolute difference is
    first reduced by ``step``, the largest rounding error of stored numbers, but not below 0.
    """
    differences = np.maximum(np.abs(first - second).ravel() - step, 0)
    index = round(0.999 * (len(differences) - 1))
    return float(max(np.partition(differences, index)[index], differences.max() / THRESHOLDS.outlier))


def measure_distance(features: Doubles, target: Doubles) -> float:
    """Return the distance between two arrays (frames, columns), from 0 to 1. Offsets and scales of columns are ignored.

    In each column, a straight line is fitted to the points (feature, target), and leaves a share of the variance
    unexplained. The distance is the square root of the mean share of the columns. The share is 0 for a column that is
    constant in both arrays, and 1 for a column that is constant in only one. Without frames, the distance is 1.
    """
    if not len(features):
        return 1.0
    x, y = (array - array.mean(0) for array in (features, target))
    x_power, y_power, product = (np.einsum("ij,ij->j", a, b) for a, b in ((x, x), (y, y), (x, y)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # A line explains the square of the correlation. The two quotients avoid an overflow of their product.
        unexplained = np.clip(1 - (product / x_power) * (product / y_power), 0, 1)
    unexplained[(x_power == 0) | (y_power == 0)] = 1
    unexplained[(x_power == 0) & (y_power == 0)] = 0
    return float(np.sqrt(unexplained.mean()))


def find_limits(target: Doubles, *, is_rounded: bool = False) -> tuple[float, float]:
    """Return the limits (low, high) to which an array may have been clipped: its smallest and its largest value.

    Either value is a limit only if it occurs at least three times or, with ``is_rounded``, if it is the smallest or
    largest number of an integer type (``INTEGER_LIMITS``). Otherwise, -inf or inf replaces the low or high limit.
    """

    def is_limit(value: float) -> bool:
        return np.sum(target == value) >= THRESHOLDS.limit_cells or (is_rounded and value in INTEGER_LIMITS)

    low, high = float(target.min()), float(target.max())
    return (low if is_limit(low) else -math.inf, high if is_limit(high) else math.inf)


def describe_limits(limits: tuple[float, float], features: Doubles, mapped: Doubles, tolerance: float) -> str:
    """Describe the limits (low, high) to which mapped features are clipped, such as "clipped to at least -4".

    A limit is described only if a feature in ``mapped`` is beyond it by more than ``tolerance``. Return "" if neither
    limit is described. ``features`` are the features before the map, in the same shape. If they are natural logarithms,
    a lower limit 80 dB below the largest mapped feature is described as such, because librosa's ``top_db`` sets it.
    """
    (low, high), descriptions = limits, []
    span = DB_80["span"] * math.log(10) / 10  # 80 dB as a difference of natural logarithms.
    is_below = low - mapped > tolerance
    if is_below.any():
        # Two cells show the slope of the map, which converts a distance of mapped features to natural logarithms.
        cells = [int(mapped.argmax()), int(is_below.argmax())]
        logs, values = features.ravel()[cells], mapped.ravel()[cells]
        log_distance = (values[0] - low) * np.ptp(logs) / (np.ptp(values) or math.nan)
        is_80_db = bool(abs(log_distance - span) < THRESHOLDS.floor_error)
        descriptions.append(f"at least {low:.6g}{', 80 dB below the maximum' * is_80_db}")
    if (mapped - high > tolerance).any():
        descriptions.append(f"at most {high:.6g}")
    return f"clipped to {' and '.join(descriptions)}" if descriptions else ""


def find_simplest_map(
    features: Doubles, target: Doubles, tolerance: float, cells: Cells | None = None,
    references: Sequence[Doubles] = (), earlier_maps: Sequence[Map] = (), step: float = 0.0,
) -> Fit:  # fmt: skip
    """Return the simplest map from features to an array. Maps are tried from simple to complex.

    The result is the first map whose residual is at most ``tolerance``. If no residual is that small, the result is the
    first map after which fewer than 10% of the values differ by more than ``tolerance + step``. If there is no such map
    either, it is the first map whose residual is at most 25% above the smallest residual. Maps with numbers for each
    column are not accepted after a map with fewer than 10% different values. Mapped features are clipped to the limits
    to which the array may have been clipped (:func:`find_limits`).

    Args:
        features, target: the features and the array, both (frames, columns).
        tolerance: largest residual of an explanation.
        cells: indices of the cells that are compared. None for all.
        references: arrays (any number of frames, columns) whose means and deviations may have normalized the features.
        earlier_maps: maps by which the features may have been normalized before a later step, such as stacking.
        step: largest rounding error of the array's stored numbers.
    """
    cells, fits = cells or np.ix_(*map(np.arange, target.shape)), list[Fit]()
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
    max_residual = 1.25 * min((fit.residual for fit in fits if math.isfinite(fit.residual)), default=math.inf)
    return nearly_exact_fit or next((fit for fit in fits if fit.residual <= max_residual), fits[0])


def _list_maps(
    features: Doubles, target: Doubles, cells: Cells, references: Sequence[Doubles], earlier_maps: Sequence[Map],
    limits: tuple[float, float],
) -> Iterator[Map]:  # fmt: skip
    """Yield the maps that may convert features to the array ``target``, roughly from simple to complex.

    Straight lines are fitted to the compared cells with a ``target`` strictly between the ``limits`` (low, high), or to
    all compared cells of an array or column without such a cell. See :func:`find_simplest_map` for other arguments.
    """
    yield "", features, 0
    normalizations = [map_ for sample in (features, *references) for map_ in list_normalizations(features, sample)]
    normalizations += earlier_maps
    yield from normalizations
    cell_features, cell_targets = features[cells], target[cells]
    is_inside = (cell_targets > limits[0]) & (cell_targets < limits[1])
    is_inside = is_inside if is_inside.any() else np.ones_like(is_inside)
    yield from _list_lines(features, cell_features[is_inside], cell_targets[is_inside])
    # Maps with MEAN in their names subtract the mean of each column, which removes the offset of a line, so they are
    # combined only with slopes. A division by the standard deviation would remove the slope as well.
    slopes = [(slope, line_name) for slope, fixed_offset, line_name in LINES if fixed_offset is None]
    centered = [(mean_name, mapped) for mean_name, mapped, _ in normalizations if MEAN in mean_name]
    for (mean_name, mapped), (slope, line_name) in itertools.product(centered, slopes):
        yield f"{line_name}; {mean_name}", slope * mapped, NUMBER_WORDS
    slope, offset = fit_line(cell_features[is_inside], cell_targets[is_inside])
    if abs(offset) < 1e-6 * np.abs(cell_targets).max():  # Such an offset is a rounding error.
        name = "" if f"{slope:.6g}" == "1" else f"times {slope:.6g}"
        yield name, slope * features, NUMBER_WORDS
    yield f"times {slope:.6g}, plus {offset:.6g}", slope * features + offset, NUMBER_WORDS
    if len(cell_features) >= MIN_FRAMES_OF_COLUMN_MAP:
        yield from _list_column_lines(features, cell_features, cell_targets, is_inside, cells[1].ravel())


def _list_lines(features: Doubles, x: Doubles, y: Doubles) -> Iterator[Map]:
    """Yield a map that adds a number to features (frames, columns), and maps that apply each of the ``LINES``.

    The number, and offsets of lines that are not fixed, are fitted to features ``x`` (n,) and the array's values ``y``
    (n,) in the same cells. A line with a fixed offset is also applied to the features that the audio would have if its
    16-bit samples were scaled to -1 to 1.
    """
    offset = float(np.median(y - x))
    yield describe_offset(offset), features + offset, NUMBER_WORDS
    for slope, fixed_offset, name in LINES:
        if fixed_offset is not None:
            yield name, slope * features + fixed_offset, 1
            yield f"{name}, of samples in -1 to 1", slope * (features - LOG_OF_SCALE) + fixed_offset, NUMBER_WORDS
            continue
        offset = float(np.median(y - slope * x))
        is_zero = abs(offset) < ZERO_OFFSET * max(1.0, slope)
        line_name = name if is_zero else f"{name}, {describe_offset(offset, slope)}"
        yield line_name, slope * features + offset, 1 if is_zero else NUMBER_WORDS


def _list_column_lines(
    features: Doubles, x: Doubles, y: Doubles, is_inside: npt.NDArray[np.bool_], columns: npt.NDArray[Any]
) -> Iterator[Map]:
    """Yield maps that add a fitted number to each column of features (frames, columns), or also scale each column.

    Numbers are added to the features, and to the features times each slope of ``LINES`` with a free offset. They are
    fitted to the features ``x`` and the array ``y``, both (compared rows, compared columns), in the cells of the mask
    ``is_inside``, or in all cells of a column without such a cell. ``columns`` are indices of the compared columns.
    """
    slopes, offsets = np.ones(features.shape[1]), np.zeros(features.shape[1])
    selected = is_inside | ~is_inside.any(0)
    scalings = [(slope, f"{name}; ") for slope, fixed_offset, name in LINES if fixed_offset is None]
    for slope, name in [(1.0, ""), *scalings]:
        offsets[columns] = (selected * (y - slope * x)).sum(0) / selected.sum(0)
        description = f"{name}plus a number for each column (mean of a speaker or corpus)"
        yield description, slope * features + offsets, COLUMN_WORDS
    slopes[columns], offsets[columns] = fit_line(x, y, selected)
    description = "times and plus a number for each column (CMVN of a speaker or corpus)"
    yield description, slopes * features + offsets, COLUMN_WORDS


def list_normalizations(features: Doubles, sample: Doubles) -> Iterator[Map]:
    """Yield maps that subtract a mean from features (frames, columns), or also divide by a standard deviation.

    The mean and the standard deviation are computed from the array ``sample`` (any number of frames, columns), for each
    column or over all values. Unless ``sample`` is ``features`` itself, the descriptions name its number of frames.
    """
    source = "" if sample is features else f" of {len(sample)} frames"
    divided = "minus the mean and divided by the standard deviation"
    centered = features - sample.mean(0)
    yield f"{MEAN}{source}", centered, 1
    for ddof, name in ((0, ""), (1, " (of a sample)")):
        if len(sample) > ddof:  # One frame has no deviation with ddof=1.
            deviation = np.maximum(sample.std(0, ddof=ddof), MIN_DEVIATION)
            yield f"{divided}{name} of each column{source}", centered / deviation, 1
    centered = features - sample.mean()
    yield f"minus the mean over all columns and frames{source}", centered, 1
    yield f"{divided} over all{source}", centered / max(float(sample.std()), MIN_DEVIATION), 1


def describe_offset(offset: float, slope: float = 1.0) -> str:
    """Describe a number ``offset`` that was added to log energies, such as "plus 1", and any likely reason for it.

    The reason may be a different scale of the samples, or power that was divided by the number of FFT points. The log
    energies are natural logarithms times ``slope``.
    """
    sign = "plus" if offset > 0 else "minus"
    for factor, words in ((1.0, "2 ln 32768"), (0.5, "ln 32768"), (1 / math.log(10), "2 log10 32768")):
        if abs(abs(offset) - factor * LOG_OF_SCALE) < OFFSET_ERROR * factor:
            return f"{sign} {factor * LOG_OF_SCALE:.4g} = {words} (samples on another scale)"
    natural_offset = abs(offset / slope)
    exponents = range(7, 13)  # FFTs of speech features usually have 2 ** 7 = 128 to 2 ** 12 = 4096 points.
    points = next((2**n for n in exponents if abs(natural_offset - n * math.log(2)) < ZERO_OFFSET), 0)
    meaning = f"= ln {points} (power divided by the number of FFT points)" if points else ""
    if not meaning and ZERO_OFFSET < natural_offset < MAX_SCALE_OFFSET:
        # Energies are proportional to the square of the samples, so the exponent is halved.
        meaning = f"(of log energies: samples times {math.exp(offset / abs(slope) / 2):.4g})"
    return f"{sign} {abs(offset):.6g} {meaning}".rstrip()


def fit_line(x: Doubles, y: Doubles, selected: npt.NDArray[np.bool_] | None = None) -> tuple[Any, Any]:
    """Fit a line to points ``x`` and ``y`` (n,), or a line to each column of points (n, columns), by least squares.

    Return the slope and the offset, as numbers or as arrays (columns,). The mask ``selected`` selects the points that
    are used, at least one of each column. None selects all. If all selected ``x`` of a line are equal, its slope is 1.
    """
    weights = np.ones(x.shape) if selected is None else selected.astype(np.float64)
    x_mean, y_mean = ((weights * values).sum(0) / weights.sum(0) for values in (x, y))
    centered = weights * (x - x_mean)
    power = (centered * centered).sum(0)
    slope = np.where(power > 0, (centered * (y - y_mean)).sum(0) / np.where(power > 0, power, 1), 1.0)
    return slope, y_mean - slope * x_mean


def select_common_frames(features: Doubles, target: Doubles, shift: int) -> tuple[Doubles, Doubles]:
    """Return the overlapping frames of two arrays (frames, columns). ``target[i]`` matches ``features[i + shift]``."""
    features, target = features[max(shift, 0) :], target[max(-shift, 0) :]
    count = min(len(features), len(target))
    return features[:count], target[:count]


def find_best_shift(features: Doubles, target: Doubles, expected_shift: int = 0, max_deviation: int = 4) -> int:
    """Return the ``shift`` in frames at which ``features[i + shift]`` and ``target[i]`` have the smallest distance.

    The distance (:func:`measure_distance`) is computed from the overlapping frames of the two arrays (frames, columns).
    Try shifts up to ``max_deviation`` frames from ``expected_shift``, and choose the nearest of several best shifts.
    """

    def measure_shift(shift: int) -> tuple[float, int]:
        """Return the distance of the overlapping frames, and how far ``shift`` is from ``expected_shift``."""
        a, b = select_common_frames(features, target, shift)
        # A straight line fits one common frame exactly, so fewer than two frames count as the largest distance.
        return (round(measure_distance(a, b), 6) if len(a) > 1 else 1.0), abs(shift - expected_shift)

    return min(range(expected_shift - max_deviation, expected_shift + max_deviation + 1), key=measure_shift)


def describe_frame_counts(counts: dict[str, int]) -> list[str]:
    """Describe how many additional frames an array has at its "start" and "end". Negative counts are missing frames."""
    return [f"{abs(count)} frame{'s' * (abs(count) > 1)} {'too many' if count > 0 else 'left out'} at the {where}"
            for where, count in counts.items() if count]  # fmt: skip


def compute_correlations(features: Doubles, target: Doubles) -> Doubles:
    """Return correlations (target columns, feature columns) of the columns of two arrays, or 0 for constant columns."""
    a, b = (x - x.mean(0) for x in (features, target))
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.outer(np.sqrt((b * b).sum(0)), np.sqrt((a * a).sum(0)))
        return np.asarray(np.nan_to_num((b.T @ a) / norms))


def match_columns(features: Doubles, target: Doubles) -> list[int] | None:
    """Return, for each column of ``target``, the index of the column of ``features`` from which it was computed.

    Both arrays have the shape (frames, columns). A positive scale and an offset convert a column of ``features`` to its
    column of ``target``. Return None if a column of ``target`` cannot be computed from any column of ``features``.
    """
    correlations = compute_correlations(features, target)
    best = correlations.argmax(1)
    min_correlation = 1 - 1e-6  # Rounding in single precision may reduce a correlation of 1 to this number.
    return best.tolist() if (correlations.max(1) > min_correlation).all() else None


def describe_order(order: Sequence[int], column_count: int) -> str:
    """Describe a selection from ``column_count`` columns, such as "columns 1 to 8 only".

    ``order`` holds the indices of the selected columns. Return "" if all columns are selected in ascending order.
    """
    order, all_columns = list(order), list(range(column_count))
    span = f"columns {order[0]} to {order[-1]}" if len(order) > 1 else f"column {order[0]}"
    orders = {
        "": all_columns,
        "the first column last": [*all_columns[1:], 0],
        "the last column first": [column_count - 1, *all_columns[:-1]],
        "the columns in reverse order": all_columns[::-1],
        "the first column left out": all_columns[1:],
        "the last column left out": all_columns[:-1],
        f"{span} only": [*range(order[0], order[-1] + 1)],
    }
    listed = ", ".join(map(str, order[:MAX_LISTED_COLUMNS])) + ", ..." * (len(order) > MAX_LISTED_COLUMNS)
    return next((name for name, named_order in orders.items() if named_order == order), f"columns {listed}")
