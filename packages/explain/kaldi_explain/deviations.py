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

Indices = npt.NDArray[np.intp]  # Ascending indices of frames or columns.
Pairs = list[tuple[int, int]]  # Copied frames in ascending order, each with its source: the frame that it equals.
EdgeShifts = tuple[int, int]


@dataclass(frozen=True)
class Comparison:
    """An array and the features that explain most of its values.

    Attributes:
        values: rows (frames, columns) of the array for which there are features.
        features: features (all_frames, columns) of the whole recording, mapped to the numbers of the array.
        shift: index of the features' frame that the first row of ``values`` should equal.
        slope, offset: factors and offsets (columns,) of the map from the features to the array.
        tolerance: largest difference of 99.9% of the values, beyond ``step``.
        step: largest rounding error of the array's stored numbers.
        ignored: mask (frames, columns) of values that cannot be compared.
        padding: mask (frames,) of the rows of padding at the ends.
        first_frame, first_column: indices of the first row and column of ``values`` in the whole array.
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
        """Largest difference between a value and the features at which the value still counts as right."""
        return self.step + THRESHOLDS.outlier * self.tolerance

    @property
    def aligned_features(self) -> Doubles:
        """The features (frames, columns) that ``values`` should equal."""
        return self.features[self.shift : self.shift + len(self.values)]


@dataclass(frozen=True)
class Deviations:
    """Places where an array differs from features.

    Attributes:
        reasons: descriptions of frames and columns with a verified reason, such as "frame 30 repeats frame 29".
        unexplained: descriptions of frames, columns and values that differ without a verified reason.
        compared: mask (frames, columns) of compared values, except those in frames and columns with a verified reason.
        edge_shifts: shifts, in frames, of a run of frames at the start of the array and of a run at the end. A run that
            is shifted by ``n`` equals the features that are ``n`` frames later than expected. A shift is 0 without
            such a run, -1 at the start or 1 at the end if a frame was left out, and the opposite if one was inserted.
    """

    reasons: list[str]
    unexplained: list[str]
    compared: Mask
    edge_shifts: EdgeShifts = (0, 0)


def find_deviations(comparison: Comparison) -> Deviations:
    """Find the frames, columns and single values of an array that differ from the features, and verify reasons.

    A column is bad if its values differ by more than ``comparison.limit`` in over 75% of the frames. A frame is wrong
    if over 25% of its compared values differ in the columns that are not bad. A column is wrong if over 25% of its
    compared values differ in the frames that are not wrong. If over 75% of the frames are wrong or over 75% of the
    columns are bad, the only description is "most frames", without a reason.
    """
    compared, max_share = ~comparison.ignored, THRESHOLDS.few_places
    compared[comparison.padding] = False
    is_wrong = compared & (np.abs(comparison.values - comparison.aligned_features) > comparison.limit)
    # Columns that are wrong nearly everywhere must not make all frames wrong.
    is_bad = is_wrong.mean(0) > 1 - max_share
    is_wrong_row = is_wrong[:, ~is_bad].sum(1) > max_share * np.maximum(compared[:, ~is_bad].sum(1), 1)
    if max(is_wrong_row.mean(), is_bad.mean()) > 1 - max_share:
        return Deviations([], ["most frames"], compared)
    is_wrong_column = is_wrong[~is_wrong_row].sum(0) > max_share * np.maximum(compared[~is_wrong_row].sum(0), 1)
    wrong_rows, wrong_columns = np.flatnonzero(is_wrong_row), np.flatnonzero(is_wrong_column)
    row_reasons, other_rows, edge_shifts = _explain_rows(comparison, wrong_rows, ~is_wrong_column & compared.any(0))
    column_reasons, other_columns = _explain_columns(comparison, wrong_columns, ~is_wrong_row & compared.any(1))
    is_wrong[is_wrong_row], is_wrong[:, is_wrong_column] = False, False  # Only single values remain.
    first_frame, first_column = comparison.first_frame, comparison.first_column
    unexplained = [describe_spans(other_rows + first_frame, "frame")] if len(other_rows) else []
    unexplained += [describe_spans(other_columns + first_column, "column")] if len(other_columns) else []
    unexplained += [name_values(is_wrong, first_frame, first_column)] if is_wrong.any() else []
    compared[np.setdiff1d(wrong_rows, other_rows)] = False
    compared[:, np.setdiff1d(wrong_columns, other_columns)] = False
    return Deviations([*row_reasons, *column_reasons], unexplained, compared, edge_shifts)


def _explain_rows(comparison: Comparison, wrong_rows: Indices, columns: Mask) -> tuple[list[str], Indices, EdgeShifts]:
    """Return reasons for wrong frames, the frames without a reason, and :attr:`Deviations.edge_shifts`.

    The mask ``columns`` (columns,) selects the columns that are compared.
    """
    if not len(wrong_rows):
        return [], wrong_rows, (0, 0)
    sources = _find_sources(comparison, wrong_rows, columns)
    is_copy = sources >= 0
    reasons, edge_shifts = _describe_moved_frames(comparison, wrong_rows[is_copy], sources[is_copy])
    right_frames = np.delete(comparison.values, wrong_rows, axis=0)
    means = [frames.mean(0) for frames in (comparison.values, right_frames, comparison.aligned_features)]
    groups = _group_places(wrong_rows[~is_copy], lambda row: _describe_row(comparison, row, columns, means))
    other_rows, first = np.array(groups.pop("", []), int), comparison.first_frame
    reasons += [f"{describe_spans(np.array(rows) + first, 'frame')} {reason}" for reason, rows in groups.items()]
    return reasons, other_rows, edge_shifts


def _group_places(places: Indices, describe: Callable[[int], str]) -> dict[str, list[int]]:
    """Map the description that ``describe`` returns for a place, or "", to all places with this description."""
    groups: dict[str, list[int]] = {}
    for place in places.tolist():
        groups.setdefault(describe(place), []).append(place)
    return groups


def _describe_row(comparison: Comparison, row: int, columns: Mask, means: list[Doubles]) -> str:
    """Describe a wrong frame that was masked with a number or with means, or changed by a number in all columns.

    A description is, for example, "masked with 0" or "plus 1". Return "" for any other frame. Only the columns that the
    mask ``columns`` selects are compared. ``means`` are the means (columns,) with which a frame may have been masked.
    """
    values, slope, offset = (part[columns] for part in (comparison.values[row], comparison.slope, comparison.offset))
    if np.ptp(values) <= 2 * comparison.step:
        return f"masked with {np.median(values):g}"
    # If the features were masked before the map, the map has converted the mask to a different value in each column.
    mask_value = float(np.median((values - offset) / np.where(slope == 0, 1, slope)))
    if (np.abs(slope * mask_value + offset - values) <= comparison.limit).all():
        return f"masked with {mask_value:.4g} before that"
    # The mean of slightly different frames may differ by 1% of a column's standard deviation.
    max_error = THRESHOLDS.recognized * comparison.values[:, columns].std(0) + comparison.step
    if any((np.abs(mean[columns] - values) <= max_error).all() for mean in means):
        return "masked with the mean of each column"
    return _describe_offset(comparison, values - comparison.aligned_features[row][columns])


def _describe_offset(comparison: Comparison, difference: Doubles) -> str:
    """Return a description such as "plus 1" if the difference (n,) between array and features is constant, or else "".

    All elements must be within ``comparison.limit`` of their median.
    """
    constant = float(np.median(difference))
    is_constant = (np.abs(difference - constant) <= comparison.limit).all()
    return f"{'plus' if constant > 0 else 'minus'} {abs(constant):.4g}" if is_constant else ""


def _find_equal_vectors(comparison: Comparison, vectors: Doubles, others: Doubles) -> Mask:
    """Return the mask (n,) of vectors, which are frames or columns, that equal the vectors ``others``.

    Both arrays have the shape (n, size). A single vector (size,) is compared with all ``others``. Vectors are equal if
    no element differs by more than ``comparison.limit``, and 90% of the elements differ by at most ``tolerance`` plus
    ``step`` of the comparison.
    """
    difference = np.abs(vectors - others)
    is_near = np.quantile(difference, 1 - THRESHOLDS.few_cells, axis=-1) <= comparison.step + comparison.tolerance
    return np.asarray((difference.max(-1) <= comparison.limit) & is_near)


def _find_sources(comparison: Comparison, wrong_rows: Indices, columns: Mask) -> Indices:
    """Return for each wrong frame the index of the nearest equal frame of the features, or -1: (n,).

    First, up to ``THRESHOLDS.near_frames`` frames before and after the expected frame are compared. Then the first
    ``THRESHOLDS.searched_frames`` wrong frames without a source are compared with all frames, unless all their values
    are equal, because such a frame was probably masked. Only the columns that the mask ``columns`` selects count.
    """
    values, features = comparison.values[:, columns], comparison.features[:, columns]
    expected, sources = wrong_rows + comparison.shift, np.full(len(wrong_rows), -1)
    for distance in sorted(range(-THRESHOLDS.near_frames, THRESHOLDS.near_frames + 1), key=abs):
        neighbors = expected + distance
        unknown = np.flatnonzero((sources < 0) & (neighbors >= 0) & (neighbors < len(features)))
        is_equal = _find_equal_vectors(comparison, values[wrong_rows[unknown]], features[neighbors[unknown]])
        sources[unknown[is_equal]] = neighbors[unknown[is_equal]]
    for index in np.flatnonzero(sources < 0)[: THRESHOLDS.searched_frames].tolist():
        frame = values[wrong_rows[index]]
        equal_frames = np.flatnonzero(_find_equal_vectors(comparison, frame, features) & (np.ptp(frame) > 0))
        if len(equal_frames):
            sources[index] = equal_frames[np.abs(equal_frames - expected[index]).argmin()]
    return sources


def _describe_moved_frames(comparison: Comparison, rows: Indices, sources: Indices) -> tuple[list[str], EdgeShifts]:
    """Describe frames that were repeated, swapped, left out or inserted. Also return :attr:`Deviations.edge_shifts`.

    ``rows`` are the indices of wrong frames, and ``sources`` the indices of the equal frames of the features. A run of
    ``THRESHOLDS.run`` or more frames at an end of the array that are shifted equally shows that frames were left out or
    inserted between the run and the other frames. All other frames were copied.
    """
    reasons, edge_shifts, first = list[str](), [0, 0], comparison.first_frame
    pairs, copies = list(zip(rows.tolist(), (sources - comparison.shift).tolist(), strict=True)), Pairs()
    for run, run_sources in _find_runs(pairs, lambda row, source: source - row):
        shift = run_sources[0] - run[0]
        if len(run) >= THRESHOLDS.run and run[0] == 0:
            edge_shifts[0] = shift
            reasons.append(_describe_inserted_frames(shift, first + run[-1] + 1))
        elif len(run) >= THRESHOLDS.run and run[-1] == len(comparison.values) - 1:
            edge_shifts[1] = shift
            reasons.append(_describe_inserted_frames(-shift, first + run[0]))
        else:
            copies += [(row + first, source + first) for row, source in zip(run, run_sources, strict=True)]
    descriptions = [*_describe_copies(copies)]
    more_count = len(descriptions) - THRESHOLDS.named
    reasons += descriptions[: THRESHOLDS.named] + [f"{more_count} more copies of frames"] * (more_count > 0)
    return reasons, (edge_shifts[0], edge_shifts[1])


def _describe_inserted_frames(count: int, frame: int) -> str:
    """Describe ``count`` frames that were inserted before ``frame``, or ``-count`` frames that were left out there."""
    return f"{abs(count)} frame{'s' * (abs(count) > 1)} {'left out' if count < 0 else 'inserted'} before frame {frame}"


def _find_runs(pairs: Pairs, key: Callable[[int, int], int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the frames and the sources of each run of neighboring frames with the same ``key(frame, source)``."""
    # In a run of neighboring frames, the frame minus its position in the list is constant.
    for _, group in itertools.groupby(enumerate(pairs), key=lambda item: (key(*item[1]), item[1][0] - item[0])):
        frames, sources = zip(*(pair for _, pair in group), strict=True)
        yield list(frames), list(sources)


def _describe_copies(copies: Pairs) -> Iterator[str]:
    """Describe copied frames: first swapped frames, then repetitions of one frame, and then runs of copied frames."""
    source_of = dict(copies)
    swapped = {(row, source) for row, source in copies if row < source and source_of.get(source) == row}
    yield from (f"frames {row} and {source} swapped" for row, source in swapped)
    pairs = [(row, source) for row, source in copies if not {(row, source), (source, row)} & swapped]
    repeated_rows: set[int] = set()
    for rows, sources in _find_runs(pairs, lambda _, source: source):
        if len(rows) > 1:
            repeated_rows |= {*rows}
            yield f"{describe_spans(np.array(rows), 'frame')} repeat frame {sources[0]}"
    pairs = [(row, source) for row, source in pairs if row not in repeated_rows]
    for rows, sources in _find_runs(pairs, lambda row, source: source - row):
        copied, original = (describe_spans(np.array(frames), "frame") for frames in (rows, sources))
        yield f"{copied} repeat{'s' * (len(rows) == 1)} {original}"


def _explain_columns(comparison: Comparison, wrong_columns: Indices, rows: Mask) -> tuple[list[str], Indices]:
    """Return reasons for wrong columns, and the columns without a reason. The mask ``rows`` selects compared frames."""
    values, features = comparison.values[rows], comparison.aligned_features[rows]
    groups = _group_places(wrong_columns, lambda column: _describe_column(comparison, column, values, features))
    other_columns, first = np.array(groups.pop("", []), int), comparison.first_column
    reasons = [f"{describe_spans(np.array(columns) + first, 'column')} {reason}" for reason, columns in groups.items()]
    return reasons, other_columns


def _describe_column(comparison: Comparison, column: int, values: Doubles, features: Doubles) -> str:
    """Describe a wrong column that was masked with a number, repeats another column, or was changed by a number.

    ``values`` and ``features`` (frames, columns) are the compared frames of the array and of the features. Return ""
    for any other column. A description is, for example, "masked with 0" or "repeats column 3".
    """
    column_values = values[:, column]
    if np.ptp(column_values) <= 2 * comparison.step:
        return f"masked with {np.median(column_values):g}"
    equal_columns = np.flatnonzero(_find_equal_vectors(comparison, column_values, features.T))
    if len(equal_columns):
        return f"repeats column {equal_columns[np.abs(equal_columns - column).argmin()] + comparison.first_column}"
    return _describe_offset(comparison, column_values - features[:, column])
