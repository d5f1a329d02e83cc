"""Describe where an array differs from the features that explain it, and why.

A *reason* is a change of whole frames or columns after the features were computed, which has been verified: masking
(overwriting), copying, inserting or leaving out frames, or adding a number.
"""

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
Pairs = list[tuple[int, int]]  # Wrong frames in ascending order, each with its *source*: the frame that it equals.
EdgeShifts = tuple[int, int]


@dataclass(frozen=True)
class Comparison:
    """An array and the features that explain most of its values.

    Attributes:
        values: rows (frames, columns) of the array for which there are features.
        features: features (all_frames, columns) of the whole recording, mapped to the numbers of the array.
        shift: index of the features' frame that the first row of ``values`` should equal.
        slope, offset: factors and offsets (columns,) by which ``features`` were mapped to the numbers of the array.
        tolerance: largest difference, in addition to ``step``, that most values may have. See :attr:`max_difference`.
        step: largest rounding error of the array's stored numbers.
        ignored: mask (frames, columns) of values that cannot be compared.
        padding: mask (frames,) of the rows at the ends of the array that are padding.
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
    def max_difference(self) -> float:
        """Largest difference from the features at which a single value counts as right: ``step`` plus 30 tolerances."""
        return self.step + THRESHOLDS.outlier * self.tolerance

    @property
    def aligned_features(self) -> Doubles:
        """The features (frames, columns) that ``values`` should equal."""
        return self.features[self.shift : self.shift + len(self.values)]


@dataclass(frozen=True)
class Deviations:
    """Frames, columns and single values of an array that differ from features.

    Attributes:
        reasons: descriptions of the frames and columns with a reason, such as "frame 30 repeats frame 29".
        unexplained: descriptions of the frames, columns and values without a reason.
        compared: mask (frames, columns) of the compared values, except in frames and columns with a reason.
        edge_shifts: shifts, in frames, of the first and of the last frames of the array. Frames that are shifted by
            ``n`` equal the features ``n`` frames later than expected. If a frame was left out, the shift is -1 for the
            first frames or 1 for the last frames. If a frame was inserted, the signs are reversed.
    """

    reasons: list[str]
    unexplained: list[str]
    compared: Mask
    edge_shifts: EdgeShifts = (0, 0)


def find_deviations(comparison: Comparison) -> Deviations:
    """Find the frames, columns and single values of an array that differ from the features, and the reasons.

    A compared value is wrong if it differs by more than ``comparison.max_difference``. A column is mostly wrong if its
    values in over 75% of the frames are wrong. A frame is wrong if over 25% of its compared values outside these
    columns are wrong. A column is wrong if over 25% of its compared values outside the wrong frames are wrong. If over
    75% of the frames are wrong, or over 75% of the columns are mostly wrong, the only description is "most frames".
    """
    compared, max_share = ~comparison.ignored, THRESHOLDS.few_places
    compared[comparison.padding] = False
    is_wrong = compared & (np.abs(comparison.values - comparison.aligned_features) > comparison.max_difference)
    # Columns that are wrong nearly everywhere must not make all frames wrong.
    is_usable_column = is_wrong.mean(0) <= 1 - max_share
    wrong_counts, compared_counts = is_wrong[:, is_usable_column].sum(1), compared[:, is_usable_column].sum(1)
    is_wrong_row = wrong_counts > max_share * np.maximum(compared_counts, 1)
    if max(is_wrong_row.mean(), 1 - is_usable_column.mean()) > 1 - max_share:
        return Deviations([], ["most frames"], compared)
    is_wrong_column = is_wrong[~is_wrong_row].sum(0) > max_share * np.maximum(compared[~is_wrong_row].sum(0), 1)
    wrong_rows, wrong_columns = np.flatnonzero(is_wrong_row), np.flatnonzero(is_wrong_column)
    right_rows, right_columns = ~is_wrong_row & compared.any(1), ~is_wrong_column & compared.any(0)
    row_reasons, unexplained_rows, edge_shifts = _explain_rows(comparison, wrong_rows, right_columns)
    column_reasons, unexplained_columns = _explain_columns(comparison, wrong_columns, right_rows)
    is_wrong[is_wrong_row], is_wrong[:, is_wrong_column] = False, False  # Only single wrong values remain.
    first_frame, first_column = comparison.first_frame, comparison.first_column
    unexplained = [describe_spans(unexplained_rows + first_frame, "frame")] if len(unexplained_rows) else []
    unexplained += [describe_spans(unexplained_columns + first_column, "column")] if len(unexplained_columns) else []
    unexplained += [name_values(is_wrong, first_frame, first_column)] if is_wrong.any() else []
    compared[np.setdiff1d(wrong_rows, unexplained_rows)] = False
    compared[:, np.setdiff1d(wrong_columns, unexplained_columns)] = False
    return Deviations([*row_reasons, *column_reasons], unexplained, compared, edge_shifts)


def _explain_rows(comparison: Comparison, wrong_rows: Indices, columns: Mask) -> tuple[list[str], Indices, EdgeShifts]:
    """Return descriptions of wrong frames with a reason, indices of wrong frames without a reason, and edge shifts.

    See :attr:`Deviations.edge_shifts` for the edge shifts. Only the columns in the mask ``columns`` are compared.
    """
    if not len(wrong_rows):
        return [], wrong_rows, (0, 0)
    sources = _find_sources(comparison, wrong_rows, columns)
    is_copy = sources >= 0
    reasons, edge_shifts = _describe_moved_frames(comparison, wrong_rows[is_copy], sources[is_copy])
    right_frames = np.delete(comparison.values, wrong_rows, axis=0)
    means = [frames.mean(0) for frames in (comparison.values, right_frames, comparison.aligned_features)]
    groups = _group_by_reason(wrong_rows[~is_copy], lambda row: _describe_row(comparison, row, columns, means))
    unexplained_rows = groups.pop("", np.array([], int))
    reasons += [f"{describe_spans(rows + comparison.first_frame, 'frame')} {reason}" for reason, rows in groups.items()]
    return reasons, unexplained_rows, edge_shifts


def _group_by_reason(places: Indices, find_reason: Callable[[int], str]) -> dict[str, Indices]:
    """Map each reason that ``find_reason`` returns, including "", to the indices in ``places`` with this reason."""
    groups: dict[str, list[int]] = {}
    for place in places.tolist():
        groups.setdefault(find_reason(place), []).append(place)
    return {reason: np.array(group) for reason, group in groups.items()}


def _describe_row(comparison: Comparison, row: int, columns: Mask, means: list[Doubles]) -> str:
    """Return the reason why frame ``row`` is wrong, such as "masked with 0" or "plus 1", or "" if it is unknown.

    The frame may be masked with a number or with one of the ``means`` (columns,), or a number may be added to it. Only
    the columns in the mask ``columns`` are compared.
    """
    values, slope, offset = (part[columns] for part in (comparison.values[row], comparison.slope, comparison.offset))
    if np.ptp(values) <= 2 * comparison.step:
        return f"masked with {np.median(values):g}"
    # If the features were masked before the map, the map has converted the mask to a different value in each column.
    mask_value = float(np.median((values - offset) / np.where(slope == 0, 1, slope)))
    if (np.abs(slope * mask_value + offset - values) <= comparison.max_difference).all():
        return f"masked with {mask_value:.4g} before that"
    # The mask may be the mean of slightly different frames, so it may differ from our mean by a small share of the
    # column's standard deviation.
    max_error = THRESHOLDS.recognized * comparison.values[:, columns].std(0) + comparison.step
    if any((np.abs(mean[columns] - values) <= max_error).all() for mean in means):
        return "masked with the mean of each column"
    return _describe_offset(comparison, values - comparison.aligned_features[row][columns])


def _describe_offset(comparison: Comparison, difference: Doubles) -> str:
    """Return, for example, "plus 1" if ``difference`` (n,) is constant up to ``comparison.max_difference``, or ""."""
    constant = float(np.median(difference))
    is_constant = (np.abs(difference - constant) <= comparison.max_difference).all()
    return f"{'plus' if constant > 0 else 'minus'} {abs(constant):.4g}" if is_constant else ""


def _find_equal_vectors(comparison: Comparison, vectors: Doubles, others: Doubles) -> Mask:
    """Compare ``vectors`` with ``others``, both frames or columns (n, size), and return the mask (n,) of equal pairs.

    A single vector (size,) is compared with all ``others``. Two vectors are equal if no elements differ by more than
    ``comparison.max_difference``, and 90% of the elements by at most ``comparison.tolerance`` plus ``comparison.step``.
    """
    difference = np.abs(vectors - others)
    is_near = np.quantile(difference, 1 - THRESHOLDS.few_cells, axis=-1) <= comparison.step + comparison.tolerance
    return np.asarray((difference.max(-1) <= comparison.max_difference) & is_near)


def _find_sources(comparison: Comparison, wrong_rows: Indices, columns: Mask) -> Indices:
    """Return indices (n,) of the sources of wrong frames in the features, with -1 for a frame without a source.

    The source of a wrong frame is the equal frame of the features that is nearest to the frame that it should equal. At
    first, only frames at distances of up to ``THRESHOLDS.near_frames`` are compared. Then the first
    ``THRESHOLDS.searched_frames`` wrong frames without a source are compared with all frames. A wrong frame of equal
    values is skipped, because it was probably masked. Only the columns in the mask ``columns`` are compared.
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

    ``rows`` are the indices of wrong frames, and ``sources`` the indices of the equal frames of the features. If at
    least ``THRESHOLDS.run`` neighboring frames at an end of the array are shifted equally, frames were left out or
    inserted next to them. All other frames were copied. At most ``THRESHOLDS.named`` descriptions of copies are
    returned, and a count of the remaining descriptions.
    """
    reasons, copies, first_frame = list[str](), Pairs(), comparison.first_frame
    start_shift, end_shift = 0, 0
    pairs = list(zip(rows.tolist(), (sources - comparison.shift).tolist(), strict=True))
    for run, run_sources in _find_runs(pairs, lambda row, source: source - row):
        first_row, last_row, shift = run[0], run[-1], run_sources[0] - run[0]
        if len(run) >= THRESHOLDS.run and first_row == 0:
            start_shift = shift
            reasons.append(_describe_inserted_frames(shift, first_frame + last_row + 1))
        elif len(run) >= THRESHOLDS.run and last_row == len(comparison.values) - 1:
            end_shift = shift
            reasons.append(_describe_inserted_frames(-shift, first_frame + first_row))
        else:
            copies += [(row + first_frame, source + first_frame) for row, source in zip(run, run_sources, strict=True)]
    descriptions = [*_describe_copies(copies)]
    reasons += descriptions[: THRESHOLDS.named]
    remaining_count = len(descriptions) - THRESHOLDS.named
    if remaining_count > 0:
        reasons.append(f"{remaining_count} more cop{'y' if remaining_count == 1 else 'ies'} of frames")
    return reasons, (start_shift, end_shift)


def _describe_inserted_frames(count: int, frame: int) -> str:
    """Describe ``count`` frames that were inserted before ``frame``, or ``-count`` frames that were left out there."""
    return f"{abs(count)} frame{'s' * (abs(count) > 1)} {'left out' if count < 0 else 'inserted'} before frame {frame}"


def _find_runs(pairs: Pairs, key: Callable[[int, int], int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the frames and their sources for each run of neighboring frames with the same ``key(frame, source)``."""
    # In a run of neighboring frames, the frame minus its position in the list is constant.
    items = [((key(frame, source), frame - position), frame, source) for position, (frame, source) in enumerate(pairs)]
    for _, run in itertools.groupby(items, key=lambda item: item[0]):
        _, frames, sources = zip(*run, strict=True)
        yield list(frames), list(sources)


def _describe_copies(copies: Pairs) -> Iterator[str]:
    """Yield descriptions of copied frames: swapped frames, several frames that repeat one frame, and repeated runs."""
    source_by_row = dict(copies)
    swapped = {(row, source) for row, source in copies if row < source and source_by_row.get(source) == row}
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
    """Return descriptions of wrong columns with a reason, and indices of wrong columns without a reason.

    Only the frames in the mask ``rows`` are compared.
    """
    values, features = comparison.values[rows], comparison.aligned_features[rows]
    groups = _group_by_reason(wrong_columns, lambda column: _describe_column(comparison, column, values, features))
    unexplained_columns, first_column = groups.pop("", np.array([], int)), comparison.first_column
    reasons = [f"{describe_spans(columns + first_column, 'column')} {reason}" for reason, columns in groups.items()]
    return reasons, unexplained_columns


def _describe_column(comparison: Comparison, column: int, values: Doubles, features: Doubles) -> str:
    """Return the reason why a column is wrong, such as "masked with 0", "repeats column 3" or "plus 1", or else "".

    ``values`` and ``features`` (frames, columns) are the compared frames of the array and of the features.
    """
    column_values = values[:, column]
    if np.ptp(column_values) <= 2 * comparison.step:
        return f"masked with {np.median(column_values):g}"
    equal_columns = np.flatnonzero(_find_equal_vectors(comparison, column_values, features.T))
    if len(equal_columns):
        nearest = equal_columns[np.abs(equal_columns - column).argmin()]
        return f"repeats column {nearest + comparison.first_column}"
    return _describe_offset(comparison, column_values - features[:, column])
