"""Arrangement of features in an array: orientation, masked cells, stacked frames, deltas, windows, rounding."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs import compress
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.functional.deltas import add_deltas
from kaldi_compat.functional.stacking import low_frame_rate, stack_frames
from kaldi_compat.options.frontend import LowFrameRateOptions, StackFramesOptions
from kaldi_compat.options.postprocessing import DeltaOptions, SlidingCmvnOptions
from kaldi_explain.fits import measure_distance, select_common_frames
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.work import charge_microseconds

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Arrangement:
    """Transformation of features after they have been computed.

    Attributes:
        words: name of the transformation. "" for no transformation.
        columns: columns of the array that are the features, not copies of neighboring frames or deltas.
        apply: function that transforms features (frames, columns).
        stride: number of frames of the features from one row to the next.
        taps: factors of neighboring frames whose weighted sum gives a row, for deltas without features. () otherwise.
        order: order of deltas without their features. 0 otherwise.
    """

    words: str
    columns: slice
    apply: Callable[[Doubles], Doubles] = lambda features: features
    stride: int = 1
    taps: tuple[float, ...] = ()
    order: int = 0

    def is_whole(self, column_count: int) -> bool:
        """Return True if all ``column_count`` columns of an array are features, not copies of neighbors or deltas."""
        return self.columns.indices(column_count) == (0, column_count, 1)


PLAIN = Arrangement("", slice(None))


def check_features(features: npt.ArrayLike) -> tuple[list[str], Doubles]:
    """Check features, remove axes of length 1 until two axes remain, restore swapped bytes, and convert to doubles.

    Returns:
        Descriptions of the repairs, such as "bytes of the numbers swapped", or []; and the features (frames, dim).

    Raises:
        FeatureError: the array is not numeric, does not have two dimensions, is empty, or contains NaN or infinity.
    """
    try:
        array, repairs = np.asarray(features), list[str]()
    # NumPy cannot convert nested lists of unequal lengths, nor tensors with gradients, of bfloat16 or on a GPU.
    except (ValueError, RuntimeError, TypeError) as error:
        raise FeatureError(f"cannot convert the features to an array (frames, dim) of numbers: {error}") from None
    while array.ndim > 2 and 1 in array.shape:
        array = array.squeeze(array.shape.index(1))
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
        advice = ": pass one array of the batch" * (array.ndim > 2)
        advice += ": to compare with audio, write for example explain(features, samples, 16000)" * (array.ndim == 1)
        shown = f"{array.dtype} {array.shape}{advice}"
        raise FeatureError(f"features must be a nonempty array (frames, dim) of numbers, not {shown}")
    if array.dtype.kind == "f" and not _has_plausible_magnitudes(array) and _has_plausible_magnitudes(array.byteswap()):
        array, repairs = array.byteswap(), ["bytes of the numbers swapped"]
    if not np.isfinite(array).all():
        bad_values = name_values(~np.isfinite(array))
        raise FeatureError(f"the features contain NaN or infinity in {bad_values}: replace them with finite numbers")
    return repairs, array.astype(np.float64)


def _has_plausible_magnitudes(array: npt.NDArray[Any]) -> bool:
    """Return True if nonzero magnitudes exist, are finite and below 1e20, and have a median above 1e-20."""
    with np.errstate(invalid="ignore"):  # NumPy warns when it converts a signaling NaN.
        magnitudes = np.abs(array[array != 0].astype(np.float64))
    is_finite = np.isfinite(magnitudes).all() and magnitudes.size
    return bool(is_finite and magnitudes.max() < 1e20 and np.median(magnitudes) > 1e-20)


def find_reason_against_features(target: Doubles) -> str:
    """Return a reason why an array (frames, columns) cannot be features, such as few distinct values, or ""."""
    # At most 2,000 rows show the distinct values of a long array.
    levels = np.unique(target[:: max(1, len(target) // 1000)])
    if len(levels) == 1:
        return f"all values are {levels[0]:g}"
    if not (np.ptp(target, axis=0) > 0).any() or not (np.ptp(target, axis=1) > 0).any():
        return "the values do not change in time, or not between columns"
    if len(levels) < THRESHOLDS.distinct_values and target.size > 4 * THRESHOLDS.distinct_values:
        shown = ", ".join(f"{level:g}" for level in levels[:4]) + ", ..." * (len(levels) > 4)
        return f"it has {len(levels)} distinct values ({shown}), as masks, labels and decisions do"
    return ""


def list_orientations(target: Doubles) -> list[tuple[list[str], Doubles]]:
    """Return the orientations that an array may have: pairs of descriptions of the changes and the changed array.

    The orientations are the array (rows, columns), its transpose, and the features of which the array would be a
    reshaped copy instead of a transpose. The third orientation is included only if both axes have more than four
    elements, and if its roughness is less than half of the array's.
    """
    orientations: list[tuple[list[str], Doubles]] = [([], target), (["transposed"], target.T)]
    reshaped = target.reshape(target.shape[::-1]).T
    if min(target.shape) > 4 and _measure_roughness(reshaped) < 0.5 * _measure_roughness(target):
        orientations.append((["reshaped where a transposition was meant"], reshaped))
    return orientations


def _measure_roughness(target: Doubles) -> float:
    """Return the sum of the mean absolute differences between neighboring rows and between neighboring columns."""
    return float(sum(np.abs(np.diff(target, axis=axis)).mean() for axis in (0, 1)))


def find_informative_rows_and_columns(target: Doubles) -> tuple[Mask, Mask]:
    """Return masks (rows,) and (columns,) of the rows and columns of an array that depend on audio.

    A row that equals a neighboring row, or whose values are equal in all columns that vary, was masked or padded, or is
    digital silence. A column is not selected if it is constant in the selected rows.
    """
    is_varying = np.ptp(target, axis=0) > 0
    repeats = (np.diff(target, axis=0) == 0).all(axis=1)
    rows = ~(np.append(repeats, False) | np.append(False, repeats))
    rows &= np.ptp(target[:, is_varying], axis=1) > 0 if is_varying.sum() > 1 else True
    columns = is_varying & (np.ptp(target[rows], axis=0) > 0) if rows.any() else is_varying
    return rows, columns


def describe_spans(places: npt.NDArray[Any], name: str) -> str:
    """Describe ascending indices of a "frame" or "column" (``name``) by at most six runs: "frames 3 to 9, 12"."""
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs[:6]]
    return f"{name}{'s' * (len(places) > 1)} {', '.join(shown)}{', ...' * (len(runs) > 6)}"


def name_values(wrong: Mask, first_frame: int = 0, first_column: int = 0) -> str:
    """Describe the values that the mask ``wrong`` (frames, columns) selects: their number and the first four places.

    The mask begins at ``first_frame`` and ``first_column`` of the array.
    """
    places = [
        (int(row) + first_frame, int(column) + first_column) for row, column in np.argwhere(wrong)[: THRESHOLDS.named]
    ]
    shown = "; ".join(f"frame {row}, column {column}" for row, column in places)
    count = int(wrong.sum())
    return f"{count} value{'s' * (count > 1)} ({shown}{'; ...' * (count > THRESHOLDS.named)})"


def list_arrangements(target: Doubles) -> list[Arrangement]:
    """Return the arrangements of stacked frames and of deltas that fit an array (frames, columns).

    If none fits, return the arrangements of joined frames that the array suggests, and then :data:`PLAIN`.
    """
    derived = [*_list_stacked_arrangements(target), *_list_delta_arrangements(target)]
    return derived or [*_list_joined_frames(target), PLAIN]


def _list_stacked_arrangements(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangement of stacked frames (low frame rate, splicing) that fits an array, or nothing if none fits.

    It has the smallest stack, and then the smallest stride, for which the frames that successive rows share are equal
    in both rows. Also yield this arrangement without padding at the ends of the recording.
    """
    rows, columns = target.shape
    for stack in range(2, THRESHOLDS.stack + 1):
        dim, remainder = divmod(columns, stack)
        # The last row is not compared, because it may be padded in another way. A single compared row would always fit.
        if remainder or not 4 <= dim <= 160 or rows < 4:
            continue
        for stride in range(1, stack):
            later, earlier = target[1:-1, : (stack - stride) * dim], target[:-2, stride * dim :]
            if measure_distance(later, earlier) < THRESHOLDS.same:
                words, middle = f"{stack} frames stacked, every {stride}", (stack - 1) // 2
                block = slice(middle * dim, (middle + 1) * dim)
                options = LowFrameRateOptions(stack=stack, stride=stride)
                yield Arrangement(words, block, functools.partial(low_frame_rate, options=options), stride)
                windows = functools.partial(_stack_windows, stack=stack, stride=stride)
                yield Arrangement(f"{words}, without padding", slice(0, dim), windows, stride)
                return


def _list_joined_frames(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements of frames joined without overlap that an array may have, by ascending number of frames.

    In an array of joined frames, a column correlates strongly with the same column of the next joined frame, and less
    with the two columns beside it.
    """
    columns = target.shape[1]
    # An array of joined frames has at least two frames of 8 columns. Fewer than 8 rows do not show a correlation.
    if columns < 16 or len(target) < 8:
        return
    centered = target - target.mean(0)
    norms = np.sqrt(np.einsum("ij,ij->j", centered, centered))
    centered = centered / np.where(norms > 0, norms, 1)

    def correlate(distance: int) -> float:
        """Return the median of the correlations of all pairs of columns that are ``distance`` columns apart."""
        return float(np.median(np.einsum("ij,ij->j", centered[:, distance:], centered[:, :-distance])))

    for size in range(2, min(THRESHOLDS.stack, columns // 8) + 1):
        dim, remainder = divmod(columns, size)
        if not remainder and correlate(dim) > max(THRESHOLDS.alike, correlate(dim - 1), correlate(dim + 1)):
            yield make_joined_frames(size, dim)


def make_joined_frames(size: int, column_count: int) -> Arrangement:
    """Return the arrangement that joins ``size`` frames of ``column_count`` columns in each row, without overlap."""
    join = functools.partial(stack_frames, options=StackFramesOptions(size=size))
    return Arrangement(f"{size} frames stacked, every {size}", slice(0, column_count), join, size)


def _stack_windows(features: Doubles, stack: int, stride: int) -> Doubles:
    """Join ``stack`` frames in each row, without padding. A row begins every ``stride`` frames, and is always full."""
    starts = np.arange(0, max(len(features) - stack + 1, 0), stride)
    windows: Doubles = features[starts[:, None] + np.arange(stack)]
    return windows.reshape(len(starts), stack * features.shape[1])


def _list_delta_arrangements(target: Doubles) -> Iterator[Arrangement]:
    """If the array's last columns are deltas of its first columns, yield Kaldi's arrangement, then torchaudio's.

    Only the first order and window that fit count. The ends are not compared, because the libraries pad differently.
    """
    rows, columns = target.shape
    for order, window in itertools.product((2, 1), (2, 1, 3, 4)):
        dim, remainder = divmod(columns, order + 1)
        edge = order * window
        if remainder or dim < 4 or rows < 2 * edge + 4:
            continue
        options = DeltaOptions(delta_order=order, delta_window=window)
        deltas = add_deltas(target[:, :dim], options)
        if measure_distance(deltas[edge:-edge], target[edge:-edge]) < 10 * THRESHOLDS.same:
            words, block = f"deltas of {window} frames on each side appended, order {order}", slice(0, dim)
            yield Arrangement(words, block, functools.partial(add_deltas, options=options))
            repeated = functools.partial(_repeat_deltas, order=order, window=window)
            yield Arrangement(f"{words}, each of the padded one before", block, repeated)
            return


def _repeat_deltas(features: Doubles, order: int, window: int) -> Doubles:
    """Append torchaudio's deltas to features (frames, columns). Edges of deltas are repeated before the next order."""
    parts, options = [features], DeltaOptions(delta_order=1, delta_window=window)
    for _ in range(order):
        parts.append(add_deltas(parts[-1], options)[:, features.shape[1] :])
    return np.hstack(parts)


def make_deltas_alone(order: int, window: int) -> Arrangement:
    """Return the arrangement that replaces features by deltas of order ``order`` with Kaldi's window ``window``."""
    options, distances = DeltaOptions(delta_order=order, delta_window=window), np.arange(-window, window + 1)
    slope = distances / np.sum(distances**2)
    taps = functools.reduce(np.convolve, [slope] * order)

    def apply(features: Doubles) -> Doubles:
        """Return the deltas of features (frames, columns)."""
        return add_deltas(features, options)[:, -features.shape[1] :]

    words = f"deltas of {window} frames on each side, order {order}, without the features"
    return Arrangement(words, slice(None), apply, taps=tuple(taps), order=order)


def may_be_deltas(target: Doubles) -> bool:
    """Return True if an array has over 20 frames, and over 90% of columns have means within 0.15 deviations of 0."""
    is_small = np.abs(target.mean(0)) < 0.15 * target.std(0)
    return bool(len(target) > 20 and is_small.mean() > 0.9)


def list_sliding_arrangements(features: Doubles, target: Doubles, start: int) -> Iterator[Arrangement]:
    """Yield normalizations of features in sliding windows of the best length for an array, and one by running means.

    First come Kaldi's windows, which move inward at an edge of the features, then the running mean, and then windows
    that an edge truncates, as in much public code. The features (frames, columns) belong to the whole recording. The
    first row of the array ``target`` (rows, columns) is frame ``start`` of the features.
    """
    # All columns have the same window, so four columns serve to find it.
    columns = np.unique(np.linspace(0, features.shape[1] - 1, 4).astype(int))
    # The end of the sample truncates the windows of its last frames, but in a long array these windows continue. A long
    # array is therefore compared with the first half of the sample.
    limit = THRESHOLDS.settled_rows
    sample, goal = features[:limit, columns], target[: limit // 2 if len(target) > limit else None, columns]

    def find_best_window(make: Callable[[int], Arrangement]) -> Arrangement:
        """Return ``make(window)`` for the best window in frames, in a search that begins with a list of lengths."""

        def measure_cost(window: int) -> float:
            """Return the distance of the array from the sample, normalized in windows of ``window`` frames."""
            charge_microseconds(100 + 0.1 * sample.size)
            return measure_distance(*select_common_frames(make(window).apply(sample), goal, start))

        costs = {window: measure_cost(window) for window in _list_window_lengths(len(sample))}
        step = 256  # Distance in frames to windows beside the best. It is halved if none of them is better.
        while step:
            best = min(costs, key=costs.__getitem__)
            for window in (best - step, best + step):
                if 1 < window < len(sample) and window not in costs:
                    costs[window] = measure_cost(window)
            step = step // 2 if min(costs, key=costs.__getitem__) == best else step
        return make(min(costs, key=costs.__getitem__))

    for center, norm_vars in ((True, False), (False, False), (True, True)):
        yield find_best_window(functools.partial(_make_sliding_arrangement, center=center, norm_vars=norm_vars))
    yield Arrangement("minus the mean of the frames up to each (running CMN)", slice(None), _subtract_running_mean)
    for center in (True, False):
        yield find_best_window(functools.partial(_make_truncated_arrangement, center=center))


def _list_window_lengths(frame_count: int) -> list[int]:
    """Return lengths of windows in frames: the usual lengths, then lengths from 5 that grow by about equal factors.

    A window of all ``frame_count`` frames is left out, because its mean is the mean of each column.
    """
    grid = np.unique(np.geomspace(5, max(frame_count, 6), 40).astype(int))
    usual = [window for window in (300, 600, 100, 200) if window < frame_count]
    return [*dict.fromkeys([*usual, *grid[:-1].tolist()])]


def _make_sliding_arrangement(window: int, center: bool, norm_vars: bool) -> Arrangement:
    """Return the arrangement that subtracts means, and with ``norm_vars`` divides by deviations, in a sliding window.

    The window of ``window`` frames is centered on each frame, or ends at each frame if ``center`` is False.
    """
    options = SlidingCmvnOptions(cmn_window=window, center=center, norm_vars=norm_vars)
    words = f"minus the mean{' and divided by the deviation' * norm_vars} in a window of {window} frames"
    end = "" if center else ", which ends at the frame"
    return Arrangement(f"{words} (sliding CMN{end})", slice(None), functools.partial(sliding_cmvn, options=options))


def _make_truncated_arrangement(window: int, center: bool) -> Arrangement:
    """Return the arrangement that subtracts the mean in a sliding window, which the edges of the features truncate.

    The window of ``window`` frames is centered on each frame, or ends at each frame if ``center`` is False.
    """
    frames_before = window // 2 if center else window - 1

    def subtract_window_mean(features: Doubles) -> Doubles:
        """Subtract from each frame of features (frames, columns) the mean of the frames in its window."""
        cumulative_sums = np.concatenate((np.zeros((1, features.shape[1])), np.cumsum(features, axis=0)))
        starts = np.arange(len(features)) - frames_before
        starts, ends = starts.clip(0), (starts + window).clip(max=len(features))
        means: Doubles = (cumulative_sums[ends] - cumulative_sums[starts]) / (ends - starts)[:, None]
        return features - means

    position = "" if center else "which ends at the frame, "
    words = f"minus the mean in a window of {window} frames (sliding CMN, {position}truncated at the edges)"
    return Arrangement(words, slice(None), subtract_window_mean)


def _subtract_running_mean(features: Doubles) -> Doubles:
    """Subtract from each frame of features (frames, columns) the mean of this frame and all earlier frames."""
    return features - np.cumsum(features, axis=0) / np.arange(1, len(features) + 1)[:, None]


def _compress(values: Doubles, method: int) -> Doubles:
    """Return values (rows, columns) after compression with Kaldi's method number ``method`` and decompression."""
    return np.asarray(compress(values, method), np.float64)


def _round_to_bfloat16(values: Doubles) -> Doubles:
    """Return values rounded to the nearest bfloat16. Ties are rounded away from zero."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded: npt.NDArray[np.float32] = ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded.astype(np.float64)


# Functions that round numbers as a storage format does. Rounding stored numbers again changes little or nothing, which
# shows the format.
STORAGES: dict[str, Callable[[Doubles], Doubles]] = {
    "rounded to integers": np.rint,
    "stored as bfloat16": _round_to_bfloat16,  # Must precede float16, whose digits can represent most bfloat16 values.
    "stored as float16": lambda values: values.astype(np.float16).astype(np.float64),
    "stored compressed, 8 bits a value in each column": functools.partial(_compress, method=2),
    "stored compressed, 8 bits a value": functools.partial(_compress, method=5),
    "stored compressed, 16 bits a value": functools.partial(_compress, method=3),
}


@dataclass(frozen=True)
class Storage:
    """Rounding of an array's numbers.

    Attributes:
        words: name of the rounding. Empty without rounding.
        step: largest error of the numbers.
        values: the array. Numbers that were rounded toward zero are moved to the middle of the interval that they
            stand for.
    """

    words: list[str]
    step: float
    values: Doubles


def find_storage(target: Doubles) -> Storage:
    """Return the first rounding in :data:`STORAGES` that an array shows, or a storage without words and error.

    Arrays with fewer than 9 frames, or with magnitudes above 60,000 (float16 ends at 65,504), count as not rounded.
    """
    if len(target) < 9 or np.abs(target).max() > 6e4:
        return Storage([], 0.0, target)
    levels = np.sort(target, axis=0)
    # The midpoint of two neighboring values lies between stored levels, so rounding the midpoints shows the step.
    midpoints, spread = (levels[1:] + levels[:-1]) / 2, float(np.median(target.std(0)))
    for words, round_values in STORAGES.items():
        step = float(np.abs(round_values(midpoints) - midpoints).max())
        # Rounding stored numbers again changes them by less than a twentieth of the step.
        if step < THRESHOLDS.coarse * spread and np.abs(round_values(target) - target).max() < 0.05 * step:
            if round_values is np.rint and target.min() < 0 < target.max():
                return _find_integer_storage(target, words, step)
            return _make_storage(target, words, step)
    return Storage([], 0.0, target)


def _make_storage(values: Doubles, words: str, step: float) -> Storage:
    """Return the storage of values rounded by up to ``step``. Its step is 25% larger, to allow for a fitted map."""
    return Storage([f"{words} (by up to {step:.2g})"], 1.25 * step, values)


def _find_integer_storage(target: Doubles, words: str, step: float) -> Storage:
    """Return the storage of integers ``target`` of both signs, which were rounded to nearest or toward zero.

    ``words`` and ``step`` describe rounding to the nearest integer. Most languages convert to integers by rounding
    toward zero, which turns all numbers between -1 and 1 into zero.
    """
    counts = [int(np.sum(target == number)) for number in (-2, -1, 0, 1, 2)]
    other_counts = counts[:2] + counts[3:]
    is_certain = min(other_counts) >= 10  # With fewer numbers, the larger error, of rounding toward zero, is assumed.
    # Rounding toward zero gives about twice as many zeros as ones. Rounding to nearest gives equal counts.
    if is_certain and counts[2] <= 1.6 * sum(other_counts) / len(other_counts):
        return _make_storage(target, words, step)
    # Extreme values may have been clipped, so they are not moved to the middle of a step.
    is_extreme = (target == target.max()) | (target == target.min())
    centered = np.where(is_extreme, target, target + step * np.sign(target))
    return _make_storage(centered, "rounded toward zero to integers" if is_certain else words, 2 * step)
