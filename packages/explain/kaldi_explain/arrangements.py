"""Arrangement of features in an array: orientation, masked cells, stacked frames, deltas, windows, rounding."""

from __future__ import annotations

import functools
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
from kaldi_explain.fits import similarity

Mask = npt.NDArray[np.bool_]
SAME = 2e-3  # similarity of columns that single precision rounds
ALIKE = 0.7  # correlation of the same column in neighbouring frames
MAX_STACK, MOST_STACKED = 16, 160  # frames, and columns of each
HUGE, TINY = 1e20, 1e-20  # numbers beyond are those of swapped bytes
WINDOWS = (300, 600, 100, 200, 150, 50, 400, 500, 1000)
FEWEST_LEVELS = 16  # distinct numbers that features have
COARSEST = 0.1  # rounding of numbers, as a share of their spread
OF_A_STEP = 0.05  # by how much rounding again may change a rounded number
MAX_NAMED = 4  # Number of single values, or of copied frames, that are named.
ROUNDING_SLACK = 1.25  # Factor of the rounding step that allows for the error of a fitted slope and offset.
FEWEST_BESIDE_ZERO = 10  # Smallest count of each integer from -2 to 2 that shows how numbers were rounded.
TRUNCATED_ZEROS = 1.6  # Ratio of zeros to the mean count of -2, -1, 1 and 2. Rounding toward zero gives 2.


@dataclass(frozen=True)
class Arrangement:
    """Transformation of features after they have been computed."""

    said: str  # what it is, in words; an empty string if nothing is done
    columns: slice  # the columns of the array that are features themselves, not copies of neighbours or deltas
    apply: Callable[[Doubles], Doubles] = lambda features: features  # does it to features (frames, columns)
    stride: int = 1  # frames of the features from one row to the next

    def is_whole(self, columns: int) -> bool:
        """Return True if all columns of an array are features themselves."""
        return self.columns.indices(columns) == (0, columns, 1)


PLAIN = Arrangement("", slice(None))


def check(features: npt.ArrayLike) -> tuple[list[str], Doubles]:
    """Return an array of features in double precision, and in words what had to be done to its numbers.

    Raises:
        FeatureError: it does not have two dimensions, is empty, or holds NaN.
    """
    array, said = np.asarray(features), []
    while array.ndim > 2 and 1 in array.shape:
        array = array.squeeze(array.shape.index(1))
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
        batch = ": pass one array of the batch" * (array.ndim > 2)
        raise FeatureError(f"features must be an array (frames, dim), not {array.dtype} {array.shape}{batch}")
    if array.dtype.kind == "f" and not _is_plausible(array) and _is_plausible(array.byteswap()):
        array, said = array.byteswap(), ["bytes of the numbers swapped"]
    if not np.isfinite(array).all():
        odd = ~np.isfinite(array)
        raise FeatureError(f"the features hold NaN or infinity in {name_values(odd)}: explain needs numbers")
    return said, array.astype(np.float64)


def _is_plausible(array: npt.NDArray[Any]) -> bool:
    with np.errstate(invalid="ignore"):  # of signalling NaN
        sizes = np.abs(array[array != 0].astype(np.float64))
    return bool(np.isfinite(sizes).all() and sizes.size and sizes.max() < HUGE and np.median(sizes) > TINY)


def why_no_features(target: Doubles) -> str:
    """Return why an array cannot be features, in words; an empty string if it can."""
    levels = np.unique(target[:: max(1, len(target) // 1000)])
    if len(levels) == 1:
        return f"all values are {levels[0]:g}"
    if not (np.ptp(target, axis=0) > 0).any() or not (np.ptp(target, axis=1) > 0).any():
        return "the values do not change in time, or not between columns"
    if len(levels) < FEWEST_LEVELS and target.size > 4 * FEWEST_LEVELS:
        shown = ", ".join(f"{each:g}" for each in levels[:4]) + ", ..." * (len(levels) > 4)
        return f"it has {len(levels)} distinct values ({shown}), as masks, labels and decisions do"
    return ""


def orientations(target: Doubles) -> list[tuple[list[str], Doubles]]:
    """Return an array as it is and transposed, and reshaped if its numbers are smoother then."""
    found: list[tuple[list[str], Doubles]] = [([], target), (["transposed"], target.T)]
    torn = target.reshape(target.shape[::-1]).T
    if min(target.shape) > 4 and _roughness(torn) < 0.5 * _roughness(target):
        found.append((["reshaped where a transposition was meant"], torn))
    return found


def _roughness(target: Doubles) -> float:
    """Return how much neighbouring numbers differ in both directions."""
    return float(sum(np.abs(np.diff(target, axis=axis)).mean() for axis in (0, 1)))


def informative(target: Doubles) -> tuple[Mask, Mask]:
    """Return masks of the rows and columns that depend on audio: not of one value, nor copies of a neighbour.

    The others are masked, padded, or digital silence.
    """
    moving = np.ptp(target, axis=0) > 0
    same = (np.diff(target, axis=0) == 0).all(axis=1)
    rows = ~(np.append(same, False) | np.append(False, same))
    rows &= np.ptp(target[:, moving], axis=1) > 0 if moving.sum() > 1 else True
    columns = moving & (np.ptp(target[rows], axis=0) > 0) if rows.any() else moving
    return rows, columns


def spans(places: npt.NDArray[Any], name: str) -> str:
    """Return numbers of rows or columns in words: "frame 7", "frames 3 to 9, 12"."""
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs[:6]]
    return f"{name}{'s' * (len(places) > 1)} {', '.join(shown)}{', ...' * (len(runs) > 6)}"


def name_values(wrong: Mask, first_frame: int = 0, first_column: int = 0) -> str:
    """Return the number of values in a mask (frames, columns), and where the first of them are."""
    places = [(int(row) + first_frame, int(column) + first_column) for row, column in np.argwhere(wrong)[:MAX_NAMED]]
    named = "; ".join(f"frame {row}, column {column}" for row, column in places)
    count = int(wrong.sum())
    return f"{count} value{'s' * (count > 1)} ({named}{'; ...' * (count > MAX_NAMED)})"


def arrangements_of(target: Doubles) -> list[Arrangement]:
    """Return the arrangements that an array may have, as its own numbers show."""
    found = [*_stacked(target), *_with_deltas(target)]
    return found or [*_joined(target), PLAIN]


def _stacked(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements of stacked neighbouring frames that overlap (low frame rate, splicing)."""
    rows, columns = target.shape
    for stack in range(2, MAX_STACK + 1):
        dim, rest = divmod(columns, stack)
        if rest or not 4 <= dim <= MOST_STACKED or rows < 4:
            continue
        for stride in range(1, stack):
            later, earlier = target[1:-1, : (stack - stride) * dim], target[:-2, stride * dim :]
            if similarity(later, earlier) < SAME:
                said, middle = f"{stack} frames stacked, every {stride}", (stack - 1) // 2
                block = slice(middle * dim, (middle + 1) * dim)
                options = LowFrameRateOptions(stack=stack, stride=stride)
                yield Arrangement(said, block, functools.partial(low_frame_rate, options=options), stride)
                windows = functools.partial(_windows, stack=stack, stride=stride)
                yield Arrangement(f"{said}, without padding", slice(0, dim), windows, stride)
                return


def _joined(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements of neighbouring frames joined without overlap: columns a frame apart resemble."""
    columns = target.shape[1]
    if columns < 16 or len(target) < 8:
        return
    centered = target - target.mean(0)
    sizes = np.sqrt(np.einsum("ij,ij->j", centered, centered))
    centered = centered / np.where(sizes > 0, sizes, 1)

    def alike(apart: int) -> float:
        return float(np.median(np.einsum("ij,ij->j", centered[:, apart:], centered[:, :-apart])))

    for size in range(2, min(MAX_STACK, columns // 8) + 1):
        dim, rest = divmod(columns, size)
        if not rest and alike(dim) > max(ALIKE, alike(dim - 1), alike(dim + 1)):
            yield joined_frames(size, dim)


def joined_frames(size: int, columns: int) -> Arrangement:
    """Return the arrangement of so many frames of so many columns joined without overlap."""
    join = functools.partial(stack_frames, options=StackFramesOptions(size=size))
    return Arrangement(f"{size} frames stacked, every {size}", slice(0, columns), join, size)


def _windows(features: Doubles, stack: int, stride: int) -> Doubles:
    starts = np.arange(0, max(len(features) - stack + 1, 0), stride)
    windows: Doubles = features[starts[:, None] + np.arange(stack)]
    return windows.reshape(len(starts), stack * features.shape[1])


def _with_deltas(target: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements of features with deltas after them."""
    rows, columns = target.shape
    for order in (2, 1):
        dim, rest = divmod(columns, order + 1)
        for window in (2, 1, 3, 4):
            edge = order * window
            if rest or dim < 4 or rows < 2 * edge + 4:
                continue
            options = DeltaOptions(delta_order=order, delta_window=window)
            if similarity(add_deltas(target[:, :dim], options)[edge:-edge], target[edge:-edge]) < 10 * SAME:
                said, block = f"deltas of {window} frames on each side appended, order {order}", slice(0, dim)
                yield Arrangement(said, block, functools.partial(add_deltas, options=options))
                repeated = functools.partial(_repeat, order=order, window=window)
                yield Arrangement(f"{said}, each of the padded one before", block, repeated)
                return


def _repeat(features: Doubles, order: int, window: int) -> Doubles:
    """Return deltas as torchaudio computes them: those of the second order are deltas of the first, with its edges."""
    parts = [features]
    for _ in range(order):
        parts.append(add_deltas(parts[-1], DeltaOptions(delta_order=1, delta_window=window))[:, features.shape[1] :])
    return np.hstack(parts)


def sliding_arrangements() -> list[Arrangement]:
    """Return the arrangements of normalization in a sliding window."""

    def layout(window: int, center: bool, norm_vars: bool) -> Arrangement:
        options = SlidingCmvnOptions(cmn_window=window, center=center, norm_vars=norm_vars)
        said = f"minus the mean{' and divided by the deviation' * norm_vars} in a window of {window} frames"
        where = "" if center else ", which ends at the frame"
        return Arrangement(
            f"{said} (sliding CMN{where})", slice(None), functools.partial(sliding_cmvn, options=options)
        )

    sliding = [layout(window, center, False) for window in WINDOWS for center in (True, False)]
    running = Arrangement("minus the mean of the frames up to each (running CMN)", slice(None), _without_running_mean)
    return [*sliding, *(layout(window, True, True) for window in WINDOWS[:2]), running]


def _without_running_mean(features: Doubles) -> Doubles:
    return features - np.cumsum(features, axis=0) / np.arange(1, len(features) + 1)[:, None]


def _compress(values: Doubles, method: int) -> Doubles:
    return np.asarray(compress(values, method), np.float64)


def _of_bits(values: Doubles) -> Doubles:
    bits = values.astype(np.float32).view(np.uint32)
    rounded: npt.NDArray[np.float32] = ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded.astype(np.float64)


# How numbers are stored, so that rounding them again changes nothing.
STORAGES: dict[str, Callable[[Doubles], Doubles]] = {
    "rounded to integers": np.rint,
    "stored as bfloat16": _of_bits,  # before float16, which has more digits
    "stored as float16": lambda values: values.astype(np.float16).astype(np.float64),
    "stored compressed, 8 bits a value in each column": functools.partial(_compress, method=2),
    "stored compressed, 8 bits a value": functools.partial(_compress, method=5),
    "stored compressed, 16 bits a value": functools.partial(_compress, method=3),
}


@dataclass(frozen=True)
class Storage:
    """Rounding of an array's numbers, as they show it."""

    words: list[str]  # what it is; empty without rounding
    step: float  # largest error of the numbers
    values: Doubles  # the array; numbers that were rounded toward zero are in the middle of what they stand for


def storage(target: Doubles) -> Storage:
    """Return how an array's numbers have been rounded."""
    if len(target) < 9 or np.abs(target).max() > 6e4:
        return Storage([], 0.0, target)
    levels = np.sort(target, axis=0)  # so that neighbours of all sizes are levels next to each other
    between, spread = (levels[1:] + levels[:-1]) / 2, float(np.median(target.std(0)))
    for said, rounded in STORAGES.items():
        step = float(np.abs(rounded(between) - between).max())
        if step < COARSEST * spread and np.abs(rounded(target) - target).max() < OF_A_STEP * step:
            if rounded is np.rint and target.min() < 0 < target.max():
                return _storage_of_integers(target, said, step)
            return Storage([f"{said} (by up to {step:.2g})"], ROUNDING_SLACK * step, target)
    return Storage([], 0.0, target)


def _storage_of_integers(target: Doubles, said: str, step: float) -> Storage:
    """Return how integers of both signs have been rounded: two steps around zero become zero in most languages."""
    counts = [int(np.sum(target == each)) for each in (-2, -1, 0, 1, 2)]
    beside = counts[:2] + counts[3:]
    is_certain = min(beside) >= FEWEST_BESIDE_ZERO  # or else it is the most usual rounding
    if is_certain and counts[2] <= TRUNCATED_ZEROS * sum(beside) / len(beside):
        return Storage([f"{said} (by up to {step:.2g})"], ROUNDING_SLACK * step, target)
    is_extreme = (target == target.max()) | (target == target.min())  # perhaps clipped
    middle = np.where(is_extreme, target, target + step * np.sign(target))
    said = "rounded toward zero to integers" if is_certain else said
    return Storage([f"{said} (by up to {2 * step:.2g})"], 2 * ROUNDING_SLACK * step, middle)
