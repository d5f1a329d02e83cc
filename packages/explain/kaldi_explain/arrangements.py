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
# Smallest number of columns of features that are recognized in stacked frames or deltas, and largest in stacked frames.
MIN_DIM, MAX_STACKED_DIM = 4, 160


@dataclass(frozen=True)
class Arrangement:
    """A transformation of computed features to the rows of an array, such as stacking frames or appending deltas.

    Attributes:
        words: name of the transformation. "" for no transformation.
        columns: the array's columns that are the features themselves, not copies of neighboring frames or deltas.
        apply: function that transforms features (frames, columns) to rows of the array.
        stride: distance of successive rows in frames of the features.
        taps: for deltas without their features, weights of the neighboring frames that are summed. Otherwise ().
        order: for deltas without their features, their order. Otherwise 0.
    """

    words: str
    columns: slice
    apply: Callable[[Doubles], Doubles] = lambda features: features
    stride: int = 1
    taps: tuple[float, ...] = ()
    order: int = 0


PLAIN = Arrangement("", slice(None))


def repair_features(features: npt.ArrayLike) -> tuple[list[str], Doubles]:
    """Convert features to doubles, remove axes of length 1 until two axes remain, and restore swapped bytes.

    Return descriptions of the repairs, ["bytes of the numbers swapped"] or [], and the features (frames, dim). Raise
    FeatureError if the array is not numeric, does not have two axes, is empty, or contains NaN or infinity.
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
        shown = f"{array.dtype} of shape {array.shape}{advice}"
        raise FeatureError(f"features must be a nonempty array (frames, dim) of numbers, not {shown}")
    if array.dtype.kind == "f" and not _has_plausible_magnitudes(array) and _has_plausible_magnitudes(array.byteswap()):
        array, repairs = array.byteswap(), ["bytes of the numbers swapped"]
    if not np.isfinite(array).all():
        bad_values = name_values(~np.isfinite(array))
        raise FeatureError(f"the features contain NaN or infinity in {bad_values}: replace them with finite numbers")
    return repairs, array.astype(np.float64)


def _has_plausible_magnitudes(array: npt.NDArray[Any]) -> bool:
    """Return True if an array has nonzero values whose magnitudes are all below 1e20, with a median above 1e-20."""
    huge, tiny = 1e20, 1e-20  # Numbers with swapped bytes have random exponents, so they exceed these limits.
    with np.errstate(invalid="ignore"):  # NumPy warns when it converts a signaling NaN.
        magnitudes = np.abs(array[array != 0].astype(np.float64))
    has_only_finite_values = magnitudes.size > 0 and np.isfinite(magnitudes).all()
    return bool(has_only_finite_values and magnitudes.max() < huge and np.median(magnitudes) > tiny)


def find_reason_against_features(target: Doubles) -> str:
    """Return why an array (frames, columns) cannot be features, such as few distinct values. Return "" if it can."""
    levels = np.unique(target[:: max(1, len(target) // 1000)])  # Fewer than 2,000 rows of a long array are enough.
    if len(levels) == 1:
        return f"all values are {levels[0]:g}"
    if not (np.ptp(target, axis=0) > 0).any() or not (np.ptp(target, axis=1) > 0).any():
        return "the values do not change in time, or not between columns"
    # A small array has few distinct values in any case.
    if len(levels) < THRESHOLDS.distinct_values and target.size > 4 * THRESHOLDS.distinct_values:
        shown = ", ".join(f"{level:g}" for level in levels[:4]) + ", ..." * (len(levels) > 4)
        return f"it has {len(levels)} distinct values ({shown}), as masks, labels and decisions do"
    return ""


def list_orientations(target: Doubles) -> list[tuple[list[str], Doubles]]:
    """Return pairs of a description, such as ["transposed"] or [], and the array ``target`` in a possible orientation.

    The orientations are ``target`` (frames, columns) itself, its transpose, and the transpose of an array (columns,
    frames) that was reshaped to (frames, columns) by mistake. The last orientation is included only if both axes have
    more than four elements, and if its neighboring rows and columns differ less than half as much as in ``target``.
    """
    orientations: list[tuple[list[str], Doubles]] = [([], target), (["transposed"], target.T)]
    reshaped = target.reshape(target.shape[::-1]).T
    if min(target.shape) > 4:
        new, old = (sum(np.abs(np.diff(array, axis=axis)).mean() for axis in (0, 1)) for array in (reshaped, target))
        if new < 0.5 * old:
            orientations.append((["reshaped where a transposition was meant"], reshaped))
    return orientations


def find_informative_rows_and_columns(target: Doubles) -> tuple[Mask, Mask]:
    """Return masks (rows,) and (columns,) of the rows and columns of an array that depend on audio.

    A row does not depend on audio (padding, masks, digital silence) if it equals a neighboring row. If two or more
    columns vary, a row that has the same value in all of these columns does not depend on audio either. A column does
    not depend on audio if it is constant in the rows that depend on audio or, without such rows, in the whole array.
    """
    is_varying = np.ptp(target, axis=0) > 0
    equals_next_row = (np.diff(target, axis=0) == 0).all(axis=1)
    rows = ~(np.append(equals_next_row, False) | np.append(False, equals_next_row))
    if is_varying.sum() > 1:
        rows &= np.ptp(target[:, is_varying], axis=1) > 0
    columns = is_varying & (np.ptp(target[rows], axis=0) > 0) if rows.any() else is_varying
    return rows, columns


def describe_spans(indices: npt.NDArray[Any], name: str) -> str:
    """Describe ascending indices, such as "frames 3 to 9, 12" for the name "frame". List only the first six spans."""
    max_spans, spans = 6, np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1)
    shown = [f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans[:max_spans]]
    return f"{name}{'s' * (len(indices) > 1)} {', '.join(shown)}{', ...' * (len(spans) > max_spans)}"


def name_values(mask: Mask, first_frame: int = 0, first_column: int = 0) -> str:
    """Describe the values that a ``mask`` (frames, columns) selects, such as "1 value (frame 3, column 0)".

    Only the first four values are listed. The mask begins at ``first_frame`` and ``first_column`` of the array.
    """
    places = (np.argwhere(mask)[: THRESHOLDS.named] + np.array([first_frame, first_column])).tolist()
    shown = "; ".join(f"frame {frame}, column {column}" for frame, column in places)
    count = int(mask.sum())
    return f"{count} value{'s' * (count > 1)} ({shown}{'; ...' * (count > THRESHOLDS.named)})"


def list_arrangements(target: Doubles) -> list[Arrangement]:
    """Return the arrangements that stack overlapping frames or append deltas, and that fit an array (rows, columns).

    If none fits, return the arrangements that join frames without overlap and may fit, and then :data:`PLAIN`.
    """
    derived = [*_list_stacked_arrangements(target), *_list_delta_arrangements(target)]
    return derived or [*_list_joined_frames(target), PLAIN]


def _list_stacked_arrangements(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangement that stacks overlapping frames (splicing, low frame rate), if it fits an array.

    In such an array (rows, columns), successive rows share frames. If several arrangements fit, the arrangement with
    the fewest frames in a row (``stack``) is chosen, and among these the arrangement whose rows are the fewest frames
    apart (``stride``). It is yielded twice: with padding at the ends of the recording, and without padding.
    """
    rows, columns = target.shape
    for stack in range(2, THRESHOLDS.stack + 1):
        dim, remainder = divmod(columns, stack)
        # The last row is not compared, because it may be padded in another way. A single compared row would always fit.
        if remainder or not MIN_DIM <= dim <= MAX_STACKED_DIM or rows < 4:
            continue
        for stride in range(1, stack):
            shared_by_later, shared_by_earlier = target[1:-1, : (stack - stride) * dim], target[:-2, stride * dim :]
            if measure_distance(shared_by_later, shared_by_earlier) < THRESHOLDS.same:
                words, middle = f"{stack} frames stacked, every {stride}", (stack - 1) // 2
                block = slice(middle * dim, (middle + 1) * dim)
                options = LowFrameRateOptions(stack=stack, stride=stride)
                yield Arrangement(words, block, functools.partial(low_frame_rate, options=options), stride)
                windows = functools.partial(_stack_windows, stack=stack, stride=stride)
                yield Arrangement(f"{words}, without padding", slice(0, dim), windows, stride)
                return


def _list_joined_frames(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements that join several frames in each row, without overlap, and may fit an array.

    The arrangement with the fewest frames in a row comes first. In such an array (rows, columns), a column correlates
    strongly with the same column of the next frame in the row, and less with the two neighbors of that column.
    """
    columns = target.shape[1]
    # Each row joins at least two frames of at least 8 columns. In fewer than 8 rows, a correlation may be chance.
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
    """Concatenate ``stack`` successive frames in each row, and start a row every ``stride`` frames.

    Convert (frames, dim) to (rows, stack * dim). Frames at the end that do not fill a row are dropped.
    """
    starts = np.arange(0, max(len(features) - stack + 1, 0), stride)
    windows: Doubles = features[starts[:, None] + np.arange(stack)]
    return windows.reshape(len(starts), stack * features.shape[1])


def _list_delta_arrangements(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements that append deltas as in Kaldi, and then as in torchaudio, if an array has deltas.

    An array (rows, columns) has deltas if its last columns are the deltas of its first columns. Rows at the ends are
    not compared, because the two libraries pad differently. The first order and window that fit are used.
    """
    rows, columns = target.shape
    for order, window in itertools.product((2, 1), (2, 1, 3, 4)):
        dim, remainder = divmod(columns, order + 1)
        edge = order * window  # Number of rows at each end whose deltas depend on the padding.
        if remainder or dim < MIN_DIM or rows < 2 * edge + 4:
            continue
        options = DeltaOptions(delta_order=order, delta_window=window)
        deltas = add_deltas(target[:, :dim], options)
        # Rounding errors have a larger share in deltas, which are small differences.
        if measure_distance(deltas[edge:-edge], target[edge:-edge]) < 10 * THRESHOLDS.same:
            words, block = f"deltas of {window} frames on each side appended, order {order}", slice(0, dim)
            yield Arrangement(words, block, functools.partial(add_deltas, options=options))
            append = functools.partial(_append_torchaudio_deltas, order=order, window=window)
            yield Arrangement(f"{words}, each of the padded one before", block, append)
            return


def _append_torchaudio_deltas(features: Doubles, order: int, window: int) -> Doubles:
    """Append deltas of orders 1 to ``order``, over ``window`` frames on each side, to features, as torchaudio does.

    Convert (frames, dim) to (frames, (order + 1) * dim). Each order is computed from padded deltas of the order below.
    """
    parts, options = [features], DeltaOptions(delta_order=1, delta_window=window)
    for _ in range(order):
        parts.append(add_deltas(parts[-1], options)[:, features.shape[1] :])
    return np.hstack(parts)


def make_deltas_alone(order: int, window: int) -> Arrangement:
    """Return the arrangement that replaces features with deltas of one order, over ``window`` frames on each side."""
    options, distances = DeltaOptions(delta_order=order, delta_window=window), np.arange(-window, window + 1)
    # First deltas are the slopes of lines that are fitted to the frames of the window. Second deltas repeat the fit.
    slope_taps = distances / np.sum(distances**2)
    taps = functools.reduce(np.convolve, [slope_taps] * order)
    words = f"deltas of {window} frames on each side, order {order}, without the features"
    return Arrangement(
        words, slice(None), lambda features: add_deltas(features, options)[:, -features.shape[1] :],
        taps=tuple(taps), order=order,
    )  # fmt: skip


def may_be_deltas(target: Doubles) -> bool:
    """Return True if an array (frames, columns) has more than 20 frames, and small means in over 90% of its columns.

    Deltas have small means, because the sum of all deltas is about the last frame of the features minus the first
    frame. A mean is small if its magnitude is below 0.15 standard deviations of its column.
    """
    is_small = np.abs(target.mean(0)) < 0.15 * target.std(0)
    return bool(len(target) > 20 and is_small.mean() > 0.9)


def list_sliding_arrangements(features: Doubles, target: Doubles, first_frame: int) -> Iterator[Arrangement]:
    """Yield arrangements that normalize features in a sliding window, whose length is fitted to an array.

    Kaldi's windows, which move inward at the edges of the features, come first. A running mean follows, and then
    windows that are truncated at the edges, as in much public code. The features (frames, columns) belong to the whole
    recording. The first row of the array ``target`` (rows, columns) is frame ``first_frame`` of the features.
    """
    # All columns have the same window, so four columns serve to find it.
    columns = np.unique(np.linspace(0, features.shape[1] - 1, 4).astype(int))
    # The windows of the sample's last frames are cut off, but in a long array they continue. Therefore, a long array
    # is compared only with the first half of the sample.
    max_rows = THRESHOLDS.settled_rows
    sample, goal = features[:max_rows, columns], target[: max_rows // 2 if len(target) > max_rows else None, columns]
    for center, norm_vars in ((True, False), (False, False), (True, True)):
        make = functools.partial(_make_sliding_arrangement, center=center, norm_vars=norm_vars)
        yield _fit_window(make, sample, goal, first_frame)
    yield Arrangement("minus the mean of the frames up to each (running CMN)", slice(None), _subtract_running_mean)
    for center in (True, False):
        yield _fit_window(functools.partial(_make_truncated_arrangement, center=center), sample, goal, first_frame)


def _fit_window(make: Callable[[int], Arrangement], features: Doubles, goal: Doubles, first_frame: int) -> Arrangement:
    """Return ``make(window)`` for the window length in frames that brings the features closest to the array ``goal``.

    The first row of ``goal`` (rows, columns) is frame ``first_frame`` of the features (frames, columns). After usual
    lengths and lengths on a log scale, lengths near the best length are tried, in steps that become smaller.
    """

    def measure_cost(window: int) -> float:
        """Charge the work, and return the distance (0 to 1) of the arranged features from the array."""
        charge_microseconds(100 + 0.1 * features.size)
        return measure_distance(*select_common_frames(make(window).apply(features), goal, first_frame))

    # The longest window is left out, because the mean over all frames is no sliding mean.
    log_scale = np.unique(np.geomspace(5, max(len(features), 6), 40).astype(int))[:-1]
    usual = [window for window in (300, 600, 100, 200) if window < len(features)]
    costs = {window: measure_cost(window) for window in dict.fromkeys([*usual, *log_scale.tolist()])}
    step = 256  # Difference in frames between the best window and the next two windows. Halved if neither is better.
    while step:
        best = min(costs, key=costs.__getitem__)
        for window in (best - step, best + step):
            if 1 < window < len(features) and window not in costs:
                costs[window] = measure_cost(window)
        step = step // 2 if min(costs, key=costs.__getitem__) == best else step
    return make(min(costs, key=costs.__getitem__))


def _make_sliding_arrangement(window: int, center: bool, norm_vars: bool) -> Arrangement:
    """Return the arrangement that subtracts from each frame the mean of its window of ``window`` frames, as in Kaldi.

    The window is centered on the frame, or ends at it if ``center`` is False. With ``norm_vars``, the difference is
    divided by the standard deviation of the frames in the window.
    """
    options = SlidingCmvnOptions(cmn_window=window, center=center, norm_vars=norm_vars)
    words = f"minus the mean{' and divided by the deviation' * norm_vars} in a window of {window} frames"
    end = "" if center else ", which ends at the frame"
    return Arrangement(f"{words} (sliding CMN{end})", slice(None), functools.partial(sliding_cmvn, options=options))


def _make_truncated_arrangement(window: int, center: bool) -> Arrangement:
    """Return the arrangement that subtracts from each frame the mean of its window, cut off at the features' edges.

    The window of ``window`` frames is centered on the frame, or ends at it if ``center`` is False.
    """
    frames_before = window // 2 if center else window - 1

    def subtract_window_mean(features: Doubles) -> Doubles:
        """Subtract from each frame of ``features`` (frames, columns) the mean of the frames in its window."""
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


def _round_to_bfloat16(values: Doubles) -> Doubles:
    """Round values to the nearest bfloat16, and ties away from zero. Return float64 values of the same shape."""
    bits = values.astype(np.float32).view(np.uint32)
    # A bfloat16 is the upper half of a float32. Half of its last bit is added, so that dropping the lower half rounds.
    rounded: npt.NDArray[np.float32] = ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded.astype(np.float64)


# Functions that round arrays (frames, columns) as a storage format does. Rounding stored numbers again changes little
# or nothing, which shows the format.
STORAGES: dict[str, Callable[[Doubles], Doubles]] = {
    "rounded to integers": np.rint,
    "stored as bfloat16": _round_to_bfloat16,  # Must precede float16, whose digits can represent most bfloat16 values.
    "stored as float16": lambda values: values.astype(np.float16).astype(np.float64),
    "stored compressed, 8 bits a value in each column": lambda values: np.asarray(compress(values, 2), np.float64),
    "stored compressed, 8 bits a value": lambda values: np.asarray(compress(values, 5), np.float64),
    "stored compressed, 16 bits a value": lambda values: np.asarray(compress(values, 3), np.float64),
}


@dataclass(frozen=True)
class Storage:
    """An array, and the rounding of its numbers when they were stored.

    Attributes:
        words: description of the rounding, as a list of one string. [] if the numbers were not rounded.
        step: largest difference between ``values`` and the numbers before rounding, plus a margin of a quarter.
        values: the array (frames, columns). A number that was rounded toward zero is replaced with the middle of the
            interval that is rounded to it.
    """

    words: list[str]
    step: float
    values: Doubles


def find_storage(target: Doubles) -> Storage:
    """Return how the numbers of an array (frames, columns) were rounded when they were stored.

    The rounding is the first in :data:`STORAGES` that hardly changes the array, and whose largest error is below 10% of
    the median of the columns' standard deviations. Integers of both signs may have been rounded toward zero
    (:func:`_find_integer_rounding`). Arrays with fewer than 9 frames, or with magnitudes above 60,000 (the largest
    float16 is 65,504), count as not rounded.
    """
    sorted_values = np.sort(target, axis=0)
    # The midpoint of two neighboring values is not a stored number, so rounding the midpoints shows the largest error.
    midpoints, spread = (sorted_values[1:] + sorted_values[:-1]) / 2, float(np.median(target.std(0)))
    storages = STORAGES if len(target) >= 9 and np.abs(target).max() <= 6e4 else {}
    for words, round_values in storages.items():
        step = float(np.abs(round_values(midpoints) - midpoints).max())
        # Rounding stored numbers again changes them by less than a twentieth of the step.
        if step < THRESHOLDS.coarse * spread and np.abs(round_values(target) - target).max() < 0.05 * step:
            values = target
            if round_values is np.rint and target.min() < 0 < target.max():
                words, step, values = _find_integer_rounding(target, words, step)
            # Maps from features to the array add errors, so the accepted step is 25% larger.
            return Storage([f"{words} (by up to {step:.2g})"], 1.25 * step, values)
    return Storage([], 0.0, target)


def _find_integer_rounding(integers: Doubles, words: str, step: float) -> tuple[str, float, Doubles]:
    """Return the rounding of integers (frames, columns): a description, the largest error, and ``Storage.values``.

    ``words`` and ``step`` describe rounding to nearest. After rounding toward zero, as in most languages, zeros are
    about twice as frequent as any of -2, -1, 1 and 2, because they stand for all numbers from -1 to 1. The limit is 1.6
    times the mean count of these four integers. If any of them occurs fewer than 10 times, the rounding is unknown, and
    ``words`` is returned with the larger error and the values of rounding toward zero.
    """
    zero_count, *other_counts = [int(np.sum(integers == number)) for number in (0, -2, -1, 1, 2)]
    is_known = min(other_counts) >= 10
    if is_known and zero_count <= 1.6 * sum(other_counts) / len(other_counts):
        return words, step, integers
    # Extreme values may have been clipped, so they are not moved to the middle of the interval that is rounded to them.
    is_extreme = (integers == integers.max()) | (integers == integers.min())
    centered = np.where(is_extreme, integers, integers + step * np.sign(integers))
    return "rounded toward zero to integers" if is_known else words, 2 * step, centered
