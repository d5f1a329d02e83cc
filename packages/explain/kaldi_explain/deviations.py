"""Describe the places where an array differs from the features that explain it, with verified reasons."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_explain.arrangements import Mask, describe_spans, name_values
from kaldi_explain.thresholds import THRESHOLDS

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Comparison:
    """An array and the features that give the larger part of it, both (frames, columns).

    Attributes:
        values: frames of the array for which there are features.
        features: the features of the whole recording, mapped to the array.
        shift: frame of the features that is the first frame of ``values``.
        slope, offset: the map (columns,) from the features to the array.
        tolerance: largest difference of 99.9% of the values, beyond ``step``.
        step: largest error of the stored numbers.
        ignored: mask (frames, columns) of values that cannot be compared.
        padding: mask (frames,) of padding at the ends.
        first_frame, first_column: place of the first value in the whole array.
    """

    values: Doubles
    features: Doubles
    shift: int
    slope: Doubles
    offset: Doubles
    tolerance: float
    step: float
    ignored: Mask
    padding: Mask
    first_frame: int
    first_column: int

    @property
    def limit(self) -> float:
        """Largest difference of a value that is right."""
        return self.step + THRESHOLDS.outlier * self.tolerance

    @property
    def aligned(self) -> Doubles:
        """The frames of the features that ``values`` should be."""
        return self.features[self.shift : self.shift + len(self.values)]


@dataclass(frozen=True)
class Deviations:
    """Places where an array differs from features.

    Attributes:
        reasons: descriptions of frames and columns whose reason was verified.
        unexplained: descriptions of frames, columns and values that differ without a verified reason.
        compared: mask (frames, columns) of the values that the features should give.
        missing: numbers of frames that are left out before and after the main part. Negative numbers count inserted
            frames.
    """

    reasons: list[str]
    unexplained: list[str]
    compared: Mask
    missing: tuple[int, int] = (0, 0)


def find_deviations(comparison: Comparison) -> Deviations:
    """Return the places where an array differs from features. If most places differ, no reason is searched for."""
    values, features, compared = comparison.values, comparison.aligned, ~comparison.ignored
    compared[comparison.padding] = False
    wrong = compared & (np.abs(values - features) > comparison.limit)
    columns = wrong.mean(0) > 1 - THRESHOLDS.few_places
    rows = wrong[:, ~columns].sum(1) > THRESHOLDS.few_places * np.maximum(compared[:, ~columns].sum(1), 1)
    if rows.sum() > (1 - THRESHOLDS.few_places) * len(rows) or columns.sum() > (1 - THRESHOLDS.few_places) * len(
        columns
    ):
        return Deviations([], ["most frames"], compared)
    columns = wrong[~rows].sum(0) > THRESHOLDS.few_places * np.maximum(compared[~rows].sum(0), 1)
    wrong[rows], wrong[:, columns] = False, False
    row_reasons, odd_rows, missing = _explain_rows(comparison, np.flatnonzero(rows), ~columns & compared.any(0))
    column_reasons, odd_columns = _explain_columns(comparison, np.flatnonzero(columns), ~rows & compared.any(1))
    unexplained = [describe_spans(odd_rows + comparison.first_frame, "frame")] if len(odd_rows) else []
    unexplained += [describe_spans(odd_columns + comparison.first_column, "column")] if len(odd_columns) else []
    unexplained += [name_values(wrong, comparison.first_frame, comparison.first_column)] if wrong.any() else []
    compared[np.setdiff1d(np.flatnonzero(rows), odd_rows)] = False
    compared[:, np.setdiff1d(np.flatnonzero(columns), odd_columns)] = False
    return Deviations([*row_reasons, *column_reasons], unexplained, compared, missing)


def _explain_rows(comparison: Comparison, rows: Places, columns: Mask) -> tuple[list[str], Places, tuple[int, int]]:
    """Return reasons for wrong frames, the frames without a reason, and the numbers of frames missing at both ends.

    ``rows`` are the wrong frames. The mask ``columns`` selects the columns that are compared.
    """
    if not len(rows):
        return [], rows, (0, 0)
    sources = np.array(_find_sources(comparison, rows, columns))
    is_copy = sources >= 0
    reasons, missing = _name_copies(comparison, rows[is_copy], sources[is_copy])
    right_rows = np.setdiff1d(np.arange(len(comparison.values)), rows)
    means = [part.mean(0) for part in (comparison.values, comparison.values[right_rows], comparison.aligned)]
    names: dict[str, list[int]] = {}
    for row in rows[~is_copy].tolist():
        names.setdefault(_name_row(comparison, row, columns, means), []).append(row)
    unnamed = names.pop("", [])
    reasons += [
        f"{describe_spans(np.array(frames) + comparison.first_frame, 'frame')} {name}" for name, frames in names.items()
    ]
    return reasons, np.array(unnamed, int), missing


def _name_row(comparison: Comparison, row: int, columns: Mask, means: list[Doubles]) -> str:
    """Describe how a wrong frame came about, such as "masked with 0". Return "" if no simple rule explains the frame.

    Args:
        comparison: the array and the features.
        row: the wrong frame.
        columns: mask of the columns that are compared.
        means: arrays (columns,) of means with which the frame may have been masked.
    """
    value, slope, offset = (part[columns] for part in (comparison.values[row], comparison.slope, comparison.offset))
    if np.ptp(value) <= 2 * comparison.step:
        return f"masked with {np.median(value):g}"
    before = float(np.median((value - offset) / np.where(slope == 0, 1, slope)))
    if (np.abs(slope * before + offset - value) <= comparison.limit).all():
        return f"masked with {before:.4g} before that"
    # The mean may have been taken over slightly different frames, so it may differ by 1% of a column's deviation.
    error = THRESHOLDS.recognized * comparison.values[:, columns].std(0) + comparison.step
    if any((np.abs(mean[columns] - value) <= error).all() for mean in means):
        return "masked with the mean of each column"
    return _name_constant(comparison, value - comparison.aligned[row][columns])


def _name_constant(comparison: Comparison, difference: Doubles) -> str:
    """Describe a difference that is constant. Return "" for any other difference."""
    constant = float(np.median(difference))
    is_constant = (np.abs(difference - constant) <= comparison.limit).all()
    return f"{'plus' if constant > 0 else 'minus'} {abs(constant):.4g}" if is_constant else ""


def _is_equal(comparison: Comparison, first: Doubles, second: Doubles) -> npt.NDArray[np.bool_]:
    """Return the mask (n,) of the frames (n, columns) that are equal in both arrays."""
    difference = np.abs(first - second)
    usual = np.quantile(difference, 1 - THRESHOLDS.few_cells, axis=-1) <= comparison.step + comparison.tolerance
    return np.asarray((difference.max(-1) <= comparison.limit) & usual)


def _find_sources(comparison: Comparison, rows: Places, columns: Mask) -> list[int]:
    """Return for each wrong frame the index of the nearest equal frame of the features, or -1 if no frame is equal.

    All frames of the features are searched for the first wrong frames, and nearby frames for the remaining ones.
    """
    values, features = comparison.values[:, columns], comparison.features[:, columns]
    sources = np.full(len(rows), -1)
    for distance in sorted(range(-THRESHOLDS.near_frames, THRESHOLDS.near_frames + 1), key=abs):
        places = rows + comparison.shift + distance
        unknown = np.flatnonzero((sources < 0) & (places >= 0) & (places < len(features)))
        equal = _is_equal(comparison, values[rows[unknown]], features[places[unknown]])
        sources[unknown[equal]] = places[unknown[equal]]
    for index in np.flatnonzero(sources < 0)[: THRESHOLDS.searched_frames].tolist():
        value = values[rows[index]]
        same = np.flatnonzero(_is_equal(comparison, value, features) & (np.ptp(value) > 0))
        if len(same):
            sources[index] = same[np.abs(same - rows[index] - comparison.shift).argmin()]
    return [int(source) for source in sources]


def _name_copies(comparison: Comparison, rows: Places, sources: Places) -> tuple[list[str], tuple[int, int]]:
    """Describe frames that were repeated, swapped, left out or inserted, and count the frames missing at both ends."""
    names, missing, first = [], [0, 0], comparison.first_frame
    last, copies = len(comparison.values) - 1, list[tuple[int, int]]()
    for distance, run in _find_runs(rows, sources - comparison.shift):
        is_start = run[0] == 0 and len(run) >= THRESHOLDS.run
        is_end = run[-1] == last and len(run) >= THRESHOLDS.run
        if not (is_start or is_end):
            copies += [(row, row + distance) for row in run]
            continue
        place, later = (run[-1] + 1, distance) if is_start else (run[0], -distance)
        missing[1 if is_end else 0] = distance
        plural = "s" * (abs(later) > 1)
        change = "left out" if later < 0 else "inserted"
        names.append(f"{abs(later)} frame{plural} {change} before frame {place + first}")
    described = [*_describe_copies([(row + first, source + first) for row, source in copies])]
    more = len(described) - THRESHOLDS.named
    names += described[: THRESHOLDS.named] + ([f"{more} more copies of frames"] if more > 0 else [])
    return names, (missing[0], missing[1])


def _find_runs(rows: Places, sources: Places) -> Iterator[tuple[int, list[int]]]:
    """Group neighboring frames that are equally far from their sources. Yield the distance and frames of each group."""
    numbered = enumerate(zip(rows.tolist(), sources.tolist(), strict=True))
    keyed = itertools.groupby(numbered, key=lambda item: (item[1][1] - item[1][0], item[1][0] - item[0]))
    for (distance, _), group in keyed:
        yield distance, [row for _, (row, _) in group]


def _describe_copies(copies: list[tuple[int, int]]) -> Iterator[str]:
    """Describe copied frames: swapped frames, repetitions of one frame, and copies of several frames."""
    source_of = dict(copies)
    swapped = {(row, source) for row, source in copies if row < source and source_of.get(source) == row}
    yield from (f"frames {row} and {source} swapped" for row, source in swapped)
    alone = [(row, source) for row, source in copies if not {(row, source), (source, row)} & swapped]

    def grouped(key: Callable[[int, int], int]) -> Iterator[tuple[list[int], list[int]]]:
        for _, group in itertools.groupby(enumerate(alone), key=lambda item: (key(*item[1]), item[1][0] - item[0])):
            rows, sources = zip(*(pair for _, pair in group), strict=True)
            yield list(rows), list(sources)

    repeats = [(rows, sources[0]) for rows, sources in grouped(lambda _, source: source) if len(rows) > 1]
    for rows, source in repeats:
        yield f"{describe_spans(np.array(rows), 'frame')} repeat frame {source}"
    repeated = {row for rows, _ in repeats for row in rows}
    alone = [pair for pair in alone if pair[0] not in repeated]
    for rows, sources in grouped(lambda row, source: source - row):
        one = len(rows) == 1
        copied, original = (describe_spans(np.array(frames), "frame") for frames in (rows, sources))
        yield f"{copied} repeat{'s' * one} {original}"


def _explain_columns(comparison: Comparison, columns: Places, rows: Mask) -> tuple[list[str], Places]:
    """Return reasons for wrong columns, and the columns without a reason. The mask ``rows`` selects compared frames."""
    names: dict[str, list[int]] = {}
    values, features = comparison.values[rows], comparison.aligned[rows]
    for column in columns.tolist():
        names.setdefault(_describe_column(comparison, column, values, features), []).append(column)
    unnamed = names.pop("", [])
    first = comparison.first_column
    reasons = [f"{describe_spans(np.array(places) + first, 'column')} {name}" for name, places in names.items()]
    return reasons, np.array(unnamed, int)


def _describe_column(comparison: Comparison, column: int, values: Doubles, features: Doubles) -> str:
    """Describe how a column of ``values`` differs from ``features``, for example "masked with 0".

    Return "" if no simple rule explains the difference.
    """
    value = values[:, column]
    if np.ptp(value) <= 2 * comparison.step:
        return f"masked with {np.median(value):g}"
    same = np.flatnonzero(_is_equal(comparison, value, features.T))
    if len(same):
        return f"repeats column {same[np.abs(same - column).argmin()] + comparison.first_column}"
    return _name_constant(comparison, value - features[:, column])
