"""Layouts of features in an array: stacking, deltas, transposition, padding."""

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
from kaldi_compat.explain.fits import similarity
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.functional.deltas import add_deltas
from kaldi_compat.functional.stacking import low_frame_rate, stack_frames
from kaldi_compat.options.frontend import LowFrameRateOptions, StackFramesOptions
from kaldi_compat.options.postprocessing import DeltaOptions, SlidingCmvnOptions

SAME = 2e-3  # similarity of columns that single precision rounds
MAX_COLUMNS = 520  # of features without stacking and deltas
MAX_CEPSTRA = 40  # columns of features of which the first may be left out
MAX_STACK, MOST_SKIPPED = 16, 10
HUGE, TINY = 1e20, 1e-20  # numbers beyond are those of swapped bytes
WINDOWS = (300, 600, 100, 200, 150, 50, 400, 500, 1000)


@dataclass(frozen=True)
class Layout:
    """Transformation of features after they have been computed.

    Attributes:
        said: what it is, in words; an empty string if nothing is done.
        columns: columns of the features.
        apply: does it to features (frames, columns).
        stride: frames of the features from one row to the next.
        more: frames that the first row has beyond that.
    """

    said: str
    columns: int
    apply: Callable[[Doubles], Doubles] = lambda features: features
    stride: int = 1
    more: int = 0

    def frames(self, rows: int) -> int:
        """Return about the number of frames that give so many rows."""
        return rows * self.stride + self.more


def checked(features: npt.ArrayLike) -> tuple[list[str], Doubles]:
    """Return an array of features in double precision, and in words what had to be done to its numbers.

    Raises:
        FeatureError: it does not have two dimensions, is empty, or holds NaN.
    """
    array, said = np.asarray(features), []
    while array.ndim > 2 and 1 in array.shape:
        array = array.squeeze(array.shape.index(1))
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
        raise FeatureError(f"features must be an array (frames, dim), not {array.dtype} {array.shape}")
    if array.dtype.kind == "f" and not _is_plausible(array) and _is_plausible(array.byteswap()):
        array, said = array.byteswap(), ["bytes of the numbers swapped"]
    if not np.isfinite(array).all():
        raise FeatureError("the features hold NaN or infinity: explain needs numbers")
    return said, array.astype(np.float64)


def _is_plausible(array: npt.NDArray[Any]) -> bool:
    with np.errstate(invalid="ignore"):  # of signalling NaN
        sizes = np.abs(array[array != 0].astype(np.float64))
    return bool(np.isfinite(sizes).all() and sizes.size and sizes.max() < HUGE and np.median(sizes) > TINY)


def upright(target: Doubles, frames: float) -> tuple[list[str], Doubles]:
    """Undo transposition and padding of an array that should have about so many frames."""

    def wrong(array: Doubles) -> float:
        return abs(len(without_padding(array)) - frames)

    said = []
    if wrong(target.T) <= 4 < wrong(target) and wrong(target) > 0.02 * frames:
        target, said = target.T, ["transposed"]
    torn = target.reshape(target.shape[::-1]).T
    if min(target.shape) > 4 and _roughness(torn) < 0.5 * _roughness(target):
        target, said = torn, ["reshaped where a transposition was meant"]
    for where, way in (("end", 1), ("start", -1)):
        if abs(len(target) - frames) <= 4:  # rows of the same values are silence
            break
        found = without_padding(target[::way])[::way]
        said += [f"{len(target) - len(found)} rows of padding at the {where}"] * (len(found) < len(target))
        target = found
    return said, target


def _roughness(target: Doubles) -> float:
    """Return how much neighbouring numbers differ in both directions."""
    return float(sum(np.abs(np.diff(target, axis=axis)).mean() for axis in (0, 1)))


def without_padding(target: Doubles) -> Doubles:
    """Return an array without rows of one value, or of the same values, at the end."""
    rest = target
    for same in ((target == target[-1, 0]).all(1), (target == target[-1]).all(1)):
        padded = len(target) if same.all() else int(np.argmin(same[::-1]))
        if 1 < padded < len(target) and len(target) - padded < len(rest):
            rest = target[: len(target) - padded]
    return rest


def layouts_of(target: Doubles, frames: float) -> list[Layout]:
    """Return the layouts that an array of about so many frames may have, as its own numbers show."""
    rows, columns = target.shape
    found = [*_stacked(target), *_with_deltas(target)]
    if found:
        return found
    found = [Layout("", columns)] if columns <= MAX_COLUMNS else []
    if columns <= MAX_CEPSTRA:
        found.append(Layout("the first column left out", columns + 1, lambda features: features[:, 1:]))
        found.append(Layout("the first column last", columns, lambda features: np.roll(features, -1, 1)))
    ratio = round(frames / rows)
    if frames >= 20 and 2 <= ratio <= MOST_SKIPPED and abs(frames / ratio - rows) <= 4:
        if columns <= MAX_COLUMNS:
            found.append(Layout(f"one frame in {ratio}", columns, lambda features: features[::ratio], ratio))
        if columns % ratio == 0:
            options, said = StackFramesOptions(size=ratio), f"{ratio} frames stacked, every {ratio}"
            found.append(Layout(said, columns // ratio, functools.partial(stack_frames, options=options), ratio))
    return found


def _stacked(target: Doubles) -> Iterator[Layout]:
    """Yield the layouts of stacked neighbouring frames (low frame rate, splicing)."""
    rows, columns = target.shape
    for stack in range(2, MAX_STACK + 1):
        dim, rest = divmod(columns, stack)
        if rest or dim < 4 or rows < 4:
            continue
        for stride in range(1, stack):
            later, earlier = target[1:-1, : (stack - stride) * dim], target[:-2, stride * dim :]
            if similarity(later, earlier) < SAME:
                said, options = (
                    f"{stack} frames stacked, every {stride}",
                    LowFrameRateOptions(stack=stack, stride=stride),
                )
                yield Layout(said, dim, functools.partial(low_frame_rate, options=options), stride)
                windows = functools.partial(_windows, stack=stack, stride=stride)
                yield Layout(f"{said}, without padding", dim, windows, stride, stack - stride)
                return


def _windows(features: Doubles, stack: int, stride: int) -> Doubles:
    starts = np.arange(0, max(len(features) - stack + 1, 0), stride)
    windows: Doubles = features[starts[:, None] + np.arange(stack)]
    return windows.reshape(len(starts), stack * features.shape[1])


def _with_deltas(target: Doubles) -> Iterator[Layout]:
    """Yield the layouts of features with deltas after them."""
    rows, columns = target.shape
    for order in (2, 1):
        dim, rest = divmod(columns, order + 1)
        for window in (2, 1, 3, 4):
            edge = order * window
            if rest or dim < 4 or rows < 2 * edge + 4:
                continue
            options = DeltaOptions(delta_order=order, delta_window=window)
            if similarity(add_deltas(target[:, :dim], options)[edge:-edge], target[edge:-edge]) < 10 * SAME:
                said = f"deltas of {window} frames on each side appended, order {order}"
                yield Layout(said, dim, functools.partial(add_deltas, options=options))
                repeated = functools.partial(_repeated, order=order, window=window)
                yield Layout(f"{said}, each of the padded one before", dim, repeated)
                return


def _repeated(features: Doubles, order: int, window: int) -> Doubles:
    """Return deltas as torchaudio computes them: those of the second order are deltas of the first, with its edges."""
    parts = [features]
    for _ in range(order):
        parts.append(add_deltas(parts[-1], DeltaOptions(delta_order=1, delta_window=window))[:, features.shape[1] :])
    return np.hstack(parts)


def sliding_layouts(columns: int) -> list[Layout]:
    """Return the layouts of normalization in a sliding window."""

    def layout(window: int, center: bool, norm_vars: bool) -> Layout:
        options = SlidingCmvnOptions(cmn_window=window, center=center, norm_vars=norm_vars)
        said = f"minus the mean{' and divided by the deviation' * norm_vars} in a window of {window} frames"
        where = "" if center else ", which ends at the frame"
        return Layout(f"{said} (sliding CMN{where})", columns, functools.partial(sliding_cmvn, options=options))

    sliding = [layout(window, center, False) for window in WINDOWS for center in (True, False)]
    running = Layout("minus the mean of the frames up to each (running CMN)", columns, _without_running_mean)
    return [*sliding, *(layout(window, True, True) for window in WINDOWS[:2]), running]


def _without_running_mean(features: Doubles) -> Doubles:
    return features - np.cumsum(features, axis=0) / np.arange(1, len(features) + 1)[:, None]


def _compressed(values: Doubles, method: int) -> Doubles:
    return np.asarray(compress(values, method), np.float64)


def _of_bits(values: Doubles) -> Doubles:
    bits = values.astype(np.float32).view(np.uint32)
    rounded: npt.NDArray[np.float32] = ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded.astype(np.float64)


# How numbers are stored, so that rounding them again changes nothing.
STORAGES: dict[str, Callable[[Doubles], Doubles]] = {
    "rounded to integers": np.rint,
    "stored as float16": lambda values: values.astype(np.float16).astype(np.float64),
    "stored as bfloat16": _of_bits,
    "stored compressed, 8 bits a value in each column": functools.partial(_compressed, method=2),
    "stored compressed, 8 bits a value": functools.partial(_compressed, method=5),
    "stored compressed, 16 bits a value": functools.partial(_compressed, method=3),
}


def storage(target: Doubles) -> tuple[list[str], float]:
    """Return how an array's numbers have been rounded, in words, and the largest error of that."""
    if len(target) < 9 or np.abs(target).max() > 6e4:
        return [], 0.0
    levels = np.sort(target, axis=0)  # so that neighbours of all sizes are levels next to each other
    between = (levels[1:] + levels[:-1]) / 2
    for said, rounded in STORAGES.items():
        step = float(np.abs(rounded(between) - between).max())
        if np.abs(rounded(target) - target).max() < 0.05 * step:
            return [f"{said} (rounded by up to {step:.2g})"], 1.25 * step
    return [], 0.0
