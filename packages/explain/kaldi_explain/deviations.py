"""Name the places where an array differs from the features that give the rest of it, with reasons that are verified."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_explain import fits
from kaldi_explain.arrangements import MAX_NAMED, Mask, name_values, spans

Places = npt.NDArray[np.intp]

LARGEST_OUTLIER = 30.0  # Factor of the tolerance. A value that differs by more is wrong, as in fits.residual_of.
WRONG_SHARE = 0.25  # Share of wrong values from which a whole frame or column is wrong.
RIGHT_SHARE = 0.25  # Smallest share of right frames. With fewer, nothing is said of the others.
NEAR_FRAMES = 8  # Distance in frames within which the frames after a missing or inserted one are searched.
MAX_SEARCHED = 32  # Number of frames that are compared with every frame of the features.
SHORTEST_RUN = 3  # Number of frames in a row, up to an end of the array, that show that frames were left out.
MEAN_ERROR = 1e-2  # Share of a column's deviation within which a value is its mean.


@dataclass(frozen=True)
class Comparison:
    """An array and the features that give most of it, both (frames, columns)."""

    values: Doubles  # the array's frames for which there are features
    features: Doubles  # all frames of the features, mapped as the array is
    shift: int  # number of the features' frame that is the array's first one here
    slope: Doubles  # (columns,) of the map from the features to the array
    offset: Doubles  # (columns,) of the map from the features to the array
    tolerance: float  # largest difference of 99.9% of the values, beyond ``step``
    step: float  # largest error of the stored numbers
    ignored: Mask  # (frames, columns) of values that cannot be compared
    padding: Mask  # (frames,) of frames at the ends that are padding
    first_frame: int  # number of the first frame in the whole array
    first_column: int  # number of the first column in the whole array

    @property
    def limit(self) -> float:
        """Largest difference of a value that is right."""
        return self.step + LARGEST_OUTLIER * self.tolerance

    @property
    def aligned(self) -> Doubles:
        """The features' frames that the array's should be."""
        return self.features[self.shift : self.shift + len(self.values)]


@dataclass(frozen=True)
class Deviations:
    """Places where an array differs from features."""

    reasons: list[str]  # what was verified of frames and columns, in words
    left: list[str]  # frames, columns and values that differ without a reason that was verified, in words
    counted: Mask  # (frames, columns) of the values that the features should give
    missing: tuple[int, int] = (0, 0)  # frames that are left out (below zero: inserted) before and after the main part

    @property
    def is_verified(self) -> bool:
        """Return True if there is a reason for every difference."""
        return not self.left


def find_deviations(comparison: Comparison) -> Deviations:
    """Return the places where an array differs from features."""
    given, made, shown = comparison.values, comparison.aligned, ~comparison.ignored
    shown[comparison.padding] = False
    wrong = shown & (np.abs(given - made) > comparison.limit)
    columns = wrong.mean(0) > 1 - RIGHT_SHARE
    rows = wrong[:, ~columns].sum(1) > WRONG_SHARE * np.maximum(shown[:, ~columns].sum(1), 1)
    if rows.sum() > (1 - RIGHT_SHARE) * len(rows) or columns.sum() > (1 - RIGHT_SHARE) * len(columns):
        return Deviations([], ["most frames"], shown)
    columns = wrong[~rows].sum(0) > WRONG_SHARE * np.maximum(shown[~rows].sum(0), 1)
    wrong[rows], wrong[:, columns] = False, False
    row_reasons, rows_left, missing = _explain_rows(comparison, np.flatnonzero(rows), ~columns & shown.any(0))
    column_reasons, columns_left = _explain_columns(comparison, np.flatnonzero(columns), ~rows & shown.any(1))
    left = [spans(rows_left + comparison.first_frame, "frame")] if len(rows_left) else []
    left += [spans(columns_left + comparison.first_column, "column")] if len(columns_left) else []
    left += [name_values(wrong, comparison.first_frame, comparison.first_column)] if wrong.any() else []
    shown[np.setdiff1d(np.flatnonzero(rows), rows_left)] = False
    shown[:, np.setdiff1d(np.flatnonzero(columns), columns_left)] = False
    return Deviations([*row_reasons, *column_reasons], left, shown, missing)


def _explain_rows(comparison: Comparison, rows: Places, columns: Mask) -> tuple[list[str], Places, tuple[int, int]]:
    """Return reasons for wrong frames, the frames without a reason, and the frames missing at both ends."""
    if not len(rows):
        return [], rows, (0, 0)
    sources = _sources_of(comparison, rows, columns)
    copied = np.array([each >= 0 for each in sources], bool)
    said, missing = _name_copies(comparison, rows[copied], np.array(sources)[copied])
    rest = rows[~copied]
    others = np.setdiff1d(np.arange(len(comparison.values)), rows)
    means = [each.mean(0) for each in (comparison.values, comparison.values[others], comparison.aligned)]
    names: dict[str, list[int]] = {}
    for row in rest.tolist():
        names.setdefault(_row_in_words(comparison, row, columns, means), []).append(row)
    left = names.pop("", [])
    said += [f"{spans(np.array(some) + comparison.first_frame, 'frame')} {name}" for name, some in names.items()]
    return said, np.array(left, int), missing


def _row_in_words(comparison: Comparison, row: int, columns: Mask, means: list[Doubles]) -> str:
    """Return what a wrong frame holds, in words; an empty string if no simple rule gives it."""
    value, slope, offset = (each[columns] for each in (comparison.values[row], comparison.slope, comparison.offset))
    if np.ptp(value) <= 2 * comparison.step:
        return f"masked with {np.median(value):g}"
    before = float(np.median((value - offset) / np.where(slope == 0, 1, slope)))
    if (np.abs(slope * before + offset - value) <= comparison.limit).all():
        return f"masked with {before:.4g} before that"
    deviation = comparison.values[:, columns].std(0)
    if any((np.abs(mean[columns] - value) <= MEAN_ERROR * deviation + comparison.step).all() for mean in means):
        return "masked with the mean of each column"
    return _constant_in_words(comparison, value - comparison.aligned[row][columns])


def _constant_in_words(comparison: Comparison, difference: Doubles) -> str:
    constant = float(np.median(difference))
    is_constant = (np.abs(difference - constant) <= comparison.limit).all()
    return f"{'plus' if constant > 0 else 'minus'} {abs(constant):.4g}" if is_constant else ""


def _is_equal(comparison: Comparison, first: Doubles, second: Doubles) -> npt.NDArray[np.bool_]:
    """Return True for each frame (n, columns) that equals another one."""
    difference = np.abs(first - second)
    usual = np.quantile(difference, 1 - fits.FEW_CELLS, axis=-1) <= comparison.step + comparison.tolerance
    return np.asarray((difference.max(-1) <= comparison.limit) & usual)


def _sources_of(comparison: Comparison, rows: Places, columns: Mask) -> list[int]:
    """Return for each wrong frame the number of the features' frame that it is; -1 if it is none of them."""
    values, features = comparison.values[:, columns], comparison.features[:, columns]
    found = np.full(len(rows), -1)
    for distance in sorted(range(-NEAR_FRAMES, NEAR_FRAMES + 1), key=abs):
        at = rows + comparison.shift + distance
        open_ = np.flatnonzero((found < 0) & (at >= 0) & (at < len(features)))
        equal = _is_equal(comparison, values[rows[open_]], features[at[open_]])
        found[open_[equal]] = at[open_[equal]]
    for number in np.flatnonzero(found < 0)[:MAX_SEARCHED].tolist():
        value = values[rows[number]]
        same = np.flatnonzero(_is_equal(comparison, value, features) & (np.ptp(value) > 0))
        if len(same):
            found[number] = same[np.abs(same - rows[number] - comparison.shift).argmin()]
    return [int(each) for each in found]


def _name_copies(comparison: Comparison, rows: Places, sources: Places) -> tuple[list[str], tuple[int, int]]:
    """Return in words how frames were repeated, swapped, left out or inserted, and the frames missing at both ends."""
    said, missing, first = [], [0, 0], comparison.first_frame
    last, copies = len(comparison.values) - 1, list[tuple[int, int]]()
    for distance, run in _runs(rows, sources - comparison.shift):
        is_start = run[0] == 0 and len(run) >= SHORTEST_RUN
        is_end = run[-1] == last and len(run) >= SHORTEST_RUN
        if not (is_start or is_end):
            copies += [(row, row + distance) for row in run]
            continue
        place, later = (run[-1] + 1, distance) if is_start else (run[0], -distance)
        missing[1 if is_end else 0] = distance
        plural = "s" * (abs(later) > 1)
        change = "left out" if later < 0 else "inserted"
        said.append(f"{abs(later)} frame{plural} {change} before frame {place + first}")
    named = [*_copies_in_words([(row + first, source + first) for row, source in copies])]
    more = len(named) - MAX_NAMED
    return [*said, *named[:MAX_NAMED], *([f"{more} more copies of frames"] if more > 0 else [])], (
        missing[0],
        missing[1],
    )


def _runs(rows: Places, sources: Places) -> Iterator[tuple[int, list[int]]]:
    """Yield runs of neighbouring frames that are equally far from their sources, with that distance."""
    numbered = enumerate(zip(rows.tolist(), sources.tolist(), strict=True))
    keyed = itertools.groupby(numbered, key=lambda each: (each[1][1] - each[1][0], each[1][0] - each[0]))
    for (distance, _), group in keyed:
        yield distance, [row for _, (row, _) in group]


def _copies_in_words(copies: list[tuple[int, int]]) -> Iterator[str]:
    """Yield in words which frames are copies: swapped ones, repetitions of one frame, copies of several."""
    source_of = dict(copies)
    swapped = {(row, source) for row, source in copies if row < source and source_of.get(source) == row}
    yield from (f"frames {row} and {source} swapped" for row, source in swapped)
    alone = [(row, source) for row, source in copies if not {(row, source), (source, row)} & swapped]

    def grouped(key: Callable[[int, int], int]) -> Iterator[tuple[list[int], list[int]]]:
        for _, group in itertools.groupby(enumerate(alone), key=lambda each: (key(*each[1]), each[1][0] - each[0])):
            rows, sources = zip(*(pair for _, pair in group), strict=True)
            yield list(rows), list(sources)

    repeats = [(rows, sources[0]) for rows, sources in grouped(lambda _, source: source) if len(rows) > 1]
    for rows, source in repeats:
        yield f"{spans(np.array(rows), 'frame')} repeat frame {source}"
    repeated = {row for rows, _ in repeats for row in rows}
    alone = [pair for pair in alone if pair[0] not in repeated]
    for rows, sources in grouped(lambda row, source: source - row):
        one = len(rows) == 1
        yield f"{spans(np.array(rows), 'frame')} repeat{'s' * one} {spans(np.array(sources), 'frame')}"


def _explain_columns(comparison: Comparison, columns: Places, rows: Mask) -> tuple[list[str], Places]:
    """Return reasons for wrong columns, and the columns without a reason."""
    names: dict[str, list[int]] = {}
    values, features = comparison.values[rows], comparison.aligned[rows]
    for column in columns.tolist():
        names.setdefault(_column_in_words(comparison, column, values, features), []).append(column)
    left = names.pop("", [])
    said = [f"{spans(np.array(some) + comparison.first_column, 'column')} {name}" for name, some in names.items()]
    return said, np.array(left, int)


def _column_in_words(comparison: Comparison, column: int, values: Doubles, features: Doubles) -> str:
    """Return what a wrong column holds, in words; an empty string if no simple rule gives it."""
    value = values[:, column]
    if np.ptp(value) <= 2 * comparison.step:
        return f"masked with {np.median(value):g}"
    same = np.flatnonzero(_is_equal(comparison, value, features.T))
    if len(same):
        return f"repeats column {same[np.abs(same - column).argmin()] + comparison.first_column}"
    return _constant_in_words(comparison, value - features[:, column])
