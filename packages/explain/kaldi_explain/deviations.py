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
        """Largest difference between a right value and the features."""
        return self.step + THRESHOLDS.outlier * self.tolerance

    @property
    def aligned_features(self) -> Doubles:
        """The frames of the features that ``values`` should equal."""
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
    """Find where and why an array differs from features. If over 75% of rows or columns differ, name "most frames"."""
    values, features, compared = comparison.values, comparison.aligned_features, ~comparison.ignored
    compared[comparison.padding] = False
    wrong = compared & (np.abs(values - features) > comparison.limit)
    # Columns that are wrong nearly everywhere must not make all rows wrong.
    is_bad = wrong.mean(0) > 1 - THRESHOLDS.few_places
    rows = wrong[:, ~is_bad].sum(1) > THRESHOLDS.few_places * np.maximum(compared[:, ~is_bad].sum(1), 1)
    if rows.sum() > (1 - THRESHOLDS.few_places) * len(rows) or is_bad.sum() > (1 - THRESHOLDS.few_places) * len(is_bad):
        return Deviations([], ["most frames"], compared)
    columns = wrong[~rows].sum(0) > THRESHOLDS.few_places * np.maximum(compared[~rows].sum(0), 1)
    wrong[rows], wrong[:, columns] = False, False
    row_reasons, unnamed_rows, missing = _explain_rows(comparison, np.flatnonzero(rows), ~columns & compared.any(0))
    column_reasons, unnamed_columns = _explain_columns(comparison, np.flatnonzero(columns), ~rows & compared.any(1))
    unexplained = [describe_spans(unnamed_rows + comparison.first_frame, "frame")] if len(unnamed_rows) else []
    unexplained += [describe_spans(unnamed_columns + comparison.first_column, "column")] if len(unnamed_columns) else []
    unexplained += [name_values(wrong, comparison.first_frame, comparison.first_column)] if wrong.any() else []
    compared[np.setdiff1d(np.flatnonzero(rows), unnamed_rows)] = False
    compared[:, np.setdiff1d(np.flatnonzero(columns), unnamed_columns)] = False
    return Deviations([*row_reasons, *column_reasons], unexplained, compared, missing)


def _explain_rows(comparison: Comparison, rows: Places, columns: Mask) -> tuple[list[str], Places, tuple[int, int]]:
    """Return reasons for wrong frames, the frames without a reason, and the numbers of frames missing at both ends.

    ``rows`` are the indices of the wrong frames. The mask ``columns`` (columns,) selects the compared columns.
    """
    if not len(rows):
        return [], rows, (0, 0)
    sources = np.array(_find_sources(comparison, rows, columns))
    is_copy = sources >= 0
    reasons, missing = _name_copies(comparison, rows[is_copy], sources[is_copy])
    right_rows = np.setdiff1d(np.arange(len(comparison.values)), rows)
    means = [part.mean(0) for part in (comparison.values, comparison.values[right_rows], comparison.aligned_features)]
    frames_of: dict[str, list[int]] = {}  # Maps reasons to frames.
    for row in rows[~is_copy].tolist():
        frames_of.setdefault(_name_row(comparison, row, columns, means), []).append(row)
    unnamed, first = frames_of.pop("", []), comparison.first_frame
    reasons += [f"{describe_spans(np.array(frames) + first, 'frame')} {name}" for name, frames in frames_of.items()]
    return reasons, np.array(unnamed, int), missing


def _name_row(comparison: Comparison, row: int, columns: Mask, means: list[Doubles]) -> str:
    """Describe how the wrong frame ``row`` came about, such as "masked with 0". Return "" without a simple reason.

    The mask ``columns`` selects the compared columns. ``means`` are arrays (columns,) with which the frame may have
    been masked.
    """
    values, slope, offset = (part[columns] for part in (comparison.values[row], comparison.slope, comparison.offset))
    if np.ptp(values) <= 2 * comparison.step:
        return f"masked with {np.median(values):g}"
    # A frame that was masked before the map has one value, which the map converts to a different value in each column.
    mask_value = float(np.median((values - offset) / np.where(slope == 0, 1, slope)))
    if (np.abs(slope * mask_value + offset - values) <= comparison.limit).all():
        return f"masked with {mask_value:.4g} before that"
    # The mean may have been taken over slightly different frames, so it may differ by 1% of a column's deviation.
    error = THRESHOLDS.recognized * comparison.values[:, columns].std(0) + comparison.step
    if any((np.abs(mean[columns] - values) <= error).all() for mean in means):
        return "masked with the mean of each column"
    return _describe_offset(comparison, values - comparison.aligned_features[row][columns])


def _describe_offset(comparison: Comparison, difference: Doubles) -> str:
    """Return a description such as "plus 1" if array minus features, (n,), is constant within the limit, or else ""."""
    constant = float(np.median(difference))
    is_constant = (np.abs(difference - constant) <= comparison.limit).all()
    return f"{'plus' if constant > 0 else 'minus'} {abs(constant):.4g}" if is_constant else ""


def _mark_equal_frames(comparison: Comparison, frames: Doubles, others: Doubles) -> npt.NDArray[np.bool_]:
    """Return the mask (n,) of frames that equal ``others`` within the limit, in 90% of columns within the tolerance."""
    difference = np.abs(frames - others)
    is_near = np.quantile(difference, 1 - THRESHOLDS.few_cells, axis=-1) <= comparison.step + comparison.tolerance
    return np.asarray((difference.max(-1) <= comparison.limit) & is_near)


def _find_sources(comparison: Comparison, rows: Places, columns: Mask) -> list[int]:
    """Return for each wrong frame the index of the nearest equal frame of the features, or -1 if no frame is equal.

    Nearby frames are searched first. For the first 32 wrong frames without a source nearby, all frames are searched,
    unless the wrong frame is constant. ``rows`` are indices of wrong frames. The mask ``columns`` selects columns.
    """
    values, features = comparison.values[:, columns], comparison.features[:, columns]
    sources = np.full(len(rows), -1)
    for distance in sorted(range(-THRESHOLDS.near_frames, THRESHOLDS.near_frames + 1), key=abs):
        neighbors = rows + comparison.shift + distance
        unknown = np.flatnonzero((sources < 0) & (neighbors >= 0) & (neighbors < len(features)))
        equal = _mark_equal_frames(comparison, values[rows[unknown]], features[neighbors[unknown]])
        sources[unknown[equal]] = neighbors[unknown[equal]]
    for index in np.flatnonzero(sources < 0)[: THRESHOLDS.searched_frames].tolist():
        frame = values[rows[index]]
        same = np.flatnonzero(_mark_equal_frames(comparison, frame, features) & (np.ptp(frame) > 0))
        if len(same):
            sources[index] = same[np.abs(same - rows[index] - comparison.shift).argmin()]
    return [int(source) for source in sources]


def _name_copies(comparison: Comparison, rows: Places, sources: Places) -> tuple[list[str], tuple[int, int]]:
    """Describe frames that were repeated, swapped, left out or inserted, and count the frames missing at both ends.

    ``rows`` are the indices of the wrong frames, and ``sources`` the indices of the equal frames of the features. Three
    or more shifted frames up to an end show a missing frame. Inserted frames are counted as negative numbers.
    """
    names, missing, first = [], [0, 0], comparison.first_frame
    last, copies = len(comparison.values) - 1, list[tuple[int, int]]()
    for distance, run in _find_runs(rows, sources - comparison.shift):
        is_start = run[0] == 0 and len(run) >= THRESHOLDS.run
        is_end = run[-1] == last and len(run) >= THRESHOLDS.run
        if not (is_start or is_end):
            copies += [(row, row + distance) for row in run]
            continue
        next_row, inserted = (run[-1] + 1, distance) if is_start else (run[0], -distance)
        missing[1 if is_end else 0] = distance
        plural = "s" * (abs(inserted) > 1)
        change = "left out" if inserted < 0 else "inserted"
        names.append(f"{abs(inserted)} frame{plural} {change} before frame {next_row + first}")
    described = [*_describe_copies([(row + first, source + first) for row, source in copies])]
    more_count = len(described) - THRESHOLDS.named
    names += described[: THRESHOLDS.named] + ([f"{more_count} more copies of frames"] if more_count > 0 else [])
    return names, (missing[0], missing[1])


def _find_runs(rows: Places, sources: Places) -> Iterator[tuple[int, list[int]]]:
    """Group neighboring frames that are equally far from their sources. Yield source minus frame, and the frames."""
    # In a run of neighboring frames, the frame minus its position in the list is constant.
    numbered = enumerate(zip(rows.tolist(), sources.tolist(), strict=True))
    keyed = itertools.groupby(numbered, key=lambda item: (item[1][1] - item[1][0], item[1][0] - item[0]))
    for (distance, _), group in keyed:
        yield distance, [row for _, (row, _) in group]


def _describe_copies(copies: list[tuple[int, int]]) -> Iterator[str]:
    """Describe pairs of a copied frame and its source: swapped frames, repetitions of one frame, and runs of copies."""
    source_of = dict(copies)
    swapped = {(row, source) for row, source in copies if row < source and source_of.get(source) == row}
    yield from (f"frames {row} and {source} swapped" for row, source in swapped)
    pairs = [(row, source) for row, source in copies if not {(row, source), (source, row)} & swapped]

    def group_pairs(key: Callable[[int, int], int]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield rows and sources of runs of neighboring rows whose pairs have the same ``key(row, source)``."""
        for _, group in itertools.groupby(enumerate(pairs), key=lambda item: (key(*item[1]), item[1][0] - item[0])):
            rows, sources = zip(*(pair for _, pair in group), strict=True)
            yield list(rows), list(sources)

    repeats = [(rows, sources[0]) for rows, sources in group_pairs(lambda _, source: source) if len(rows) > 1]
    for rows, source in repeats:
        yield f"{describe_spans(np.array(rows), 'frame')} repeat frame {source}"
    repeated = {row for rows, _ in repeats for row in rows}
    pairs = [pair for pair in pairs if pair[0] not in repeated]
    for rows, sources in group_pairs(lambda row, source: source - row):
        is_single = len(rows) == 1
        copied, original = (describe_spans(np.array(frames), "frame") for frames in (rows, sources))
        yield f"{copied} repeat{'s' * is_single} {original}"


def _explain_columns(comparison: Comparison, columns: Places, rows: Mask) -> tuple[list[str], Places]:
    """Return reasons for wrong ``columns``, and the columns without a reason. The mask ``rows`` selects frames."""
    columns_of: dict[str, list[int]] = {}  # Maps reasons to columns.
    values, features = comparison.values[rows], comparison.aligned_features[rows]
    for column in columns.tolist():
        columns_of.setdefault(_describe_column(comparison, column, values, features), []).append(column)
    unnamed = columns_of.pop("", [])
    first = comparison.first_column
    reasons = [f"{describe_spans(np.array(wrong) + first, 'column')} {name}" for name, wrong in columns_of.items()]
    return reasons, np.array(unnamed, int)


def _describe_column(comparison: Comparison, column: int, values: Doubles, features: Doubles) -> str:
    """Describe how a column of ``values`` differs from ``features``, such as "masked with 0". Return "" if unknown."""
    column_values = values[:, column]
    if np.ptp(column_values) <= 2 * comparison.step:
        return f"masked with {np.median(column_values):g}"
    same = np.flatnonzero(_mark_equal_frames(comparison, column_values, features.T))
    if len(same):
        return f"repeats column {same[np.abs(same - column).argmin()] + comparison.first_column}"
    return _describe_offset(comparison, column_values - features[:, column])
