"""What maps one array of features to another: offsets, scales, normalization, stacking, a shift in time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.options.postprocessing import SlidingCmvnOptions

Doubles = npt.NDArray[np.float64]
LOGARITHMS = {
    1 / math.log(10): "logarithms to base 10",
    10 / math.log(10): "decibels (10 log10)",
    20 / math.log(10): "decibels of magnitudes (20 log10)",
    1 / math.log(2): "logarithms to base 2",
    0.5: "logarithms of magnitudes",
    2.0: "logarithms of squares",
}
SCALE = 2 * math.log(32768)


@dataclass(frozen=True)
class Fit:
    """A map from one array to another.

    Attributes:
        name: what it does, in words; an empty string if the arrays are equal.
        residual: absolute difference after it, see :func:`residual_of`.
        mapped: the first array, mapped.
    """

    name: str
    residual: float
    mapped: Doubles


def residual_of(first: Doubles, second: Doubles) -> float:
    """Return the difference that 99.9% of the values stay below, or a thirtieth of the largest, if that is more.

    Where a frame is nearly silent, single precision decides digits that ports in double precision have otherwise.
    """
    difference = np.abs(first - second)
    return float(max(np.quantile(difference, 0.999), difference.max() / 30))


def similarity(features: Doubles, target: Doubles) -> float:
    """Return how far arrays differ if each column may have an offset and a scale of its own: from 0 to 1.

    It is the root of the share of the variance that is not explained, averaged over the columns.
    """
    a, b = (x - x.mean(0) for x in (features, target))
    power, other = (a * a).sum(0), (b * b).sum(0)
    both = (power > 0) & (other > 0)
    unexplained = np.ones(len(power))
    share = ((a[:, both] * b[:, both]).sum(0)) ** 2 / (power[both] * other[both])
    unexplained[both] = np.clip(1 - share, 0, 1)
    unexplained[(power == 0) & (other == 0)] = 0
    return float(np.sqrt(unexplained.mean()))


def simplest(features: Doubles, target: Doubles, tolerance: float) -> Fit:
    """Return the simplest map whose residual is below the tolerance, or else near the least residual of all."""
    found = list(fits(features, target))
    enough = max(tolerance, 1.25 * min(fit.residual for fit in found))
    return next(fit for fit in found if fit.residual <= enough)


def fits(features: Doubles, target: Doubles) -> Iterator[Fit]:
    """Yield maps between arrays of the same shape, the simplest first."""

    def fit(name: str, mapped: Doubles) -> Fit:
        return Fit(name, residual_of(mapped, target), mapped)

    yield fit("", features)
    yield fit("minus the mean of each column over the recording", features - features.mean(0))
    normalized = features - features.mean(0)
    for ddof, of in ((0, ""), (1, " (of a sample)")):
        if len(features) > ddof:
            deviation = np.maximum(features.std(0, ddof=ddof), 1e-10)
            yield fit(
                f"minus the mean and divided by the standard deviation{of} of each column", normalized / deviation
            )
    yield fit("minus the mean over all columns and frames", features - features.mean())
    deviation = max(float(features.std()), 1e-10)
    yield fit("minus the mean and divided by the standard deviation over all", (features - features.mean()) / deviation)
    if len(features) > 1:
        options = SlidingCmvnOptions(cmn_window=300, center=True)
        yield fit("minus the mean in a window of 300 frames (sliding CMN)", np.asarray(sliding_cmvn(features, options)))
    offset = float((target - features).mean())
    yield fit(offset_name(offset), features + offset)
    for slope, words in LOGARITHMS.items():
        offset = float((target - slope * features).mean())
        said = words if abs(offset) < 1e-3 * max(1.0, abs(slope)) else f"{words}, plus {offset:.6g}"
        yield fit(said, slope * features + offset)
    slope, offset = _line(features.ravel(), target.ravel())
    yield fit(f"times {slope:.6g}, plus {offset:.6g}", slope * features + offset)
    yield fit("plus a number for each column (global mean)", features + (target - features).mean(0))
    columns = [_line(a, b) for a, b in zip(features.T, target.T, strict=True)]
    slopes, offsets = np.array(columns).T
    yield fit("times and plus a number for each column (global CMVN)", slopes * features + offsets)


def offset_name(offset: float) -> str:
    """Return a constant offset in words: of log energies, it is another scale of the audio."""
    if abs(abs(offset) - SCALE) < 1e-2:
        return f"{'plus' if offset > 0 else 'minus'} 20.79 = 2 ln 32768 (samples on another scale)"
    return f"plus {offset:.6g}"


def _line(x: Doubles, y: Doubles) -> tuple[float, float]:
    """Return slope and offset of the line through points, by least squares."""
    centered = x - x.mean()
    power = float((centered * centered).sum())
    slope = float((centered * (y - y.mean())).sum()) / power if power > 0 else 1.0
    return slope, float(y.mean() - slope * x.mean())


def shifted(features: Doubles, target: Doubles, most: int = 4) -> tuple[int, Doubles, Doubles]:
    """Return the shift in frames at which arrays agree best, and the frames that both have.

    A shift of 1 means that the first frame of the target is the second one of the features.
    """

    def overlap(shift: int) -> tuple[Doubles, Doubles]:
        first, second = features[max(shift, 0) :], target[max(-shift, 0) :]
        count = min(len(first), len(second))
        return first[:count], second[:count]

    def cost(shift: int) -> tuple[float, int]:
        a, b = overlap(shift)
        return (round(similarity(a, b), 6) if len(a) > 1 else 1.0, abs(shift))

    best = min(range(-most, most + 1), key=cost)
    return (best, *overlap(best))


def unstacked(target: Doubles) -> tuple[int, int, Doubles]:
    """Undo stacking of neighbouring frames (low frame rate).

    Returns:
        Number of stacked frames, frames from one row to the next, and the single frames; 1, 1 and the array itself if
        it is not stacked.
    """
    rows, columns = target.shape
    for stack in range(2, 17):
        dim, rest = divmod(columns, stack)
        if rest or dim < 10 or rows < 4:
            continue
        for stride in range(1, stack):
            later, earlier = target[1:-1, : (stack - stride) * dim], target[:-2, stride * dim :]
            if np.allclose(later, earlier, atol=1e-5):
                middle = (stack - 1) // 2 if np.allclose(target[0, :dim], target[0, dim : 2 * dim], atol=1e-5) else 0
                frames = np.empty(((rows - 1) * stride + stack - middle, dim))
                for row, stacked in enumerate(target.reshape(rows, stack, dim)):
                    first = row * stride - middle
                    frames[max(first, 0) : first + stack] = stacked[max(-first, 0) :]
                return stack, stride, frames
    return 1, 1, target


def without_padding(target: Doubles) -> tuple[int, Doubles]:
    """Remove rows of one value at the end. Returns their number and the rest."""
    same = (target == target[:, :1]).all(1) & (target[:, 0] == target[-1, 0])
    padded = len(target) if same.all() else int(np.argmin(same[::-1]))
    return (padded, target[: len(target) - padded]) if 1 < padded < len(target) else (0, target)


def transposed(target: Any, frames: int) -> bool:
    """Return True if an array's columns are its frames, given about how many frames it should have."""
    rows, columns = target.shape
    return bool(abs(columns - frames) <= 4 < abs(rows - frames))
