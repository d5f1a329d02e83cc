"""Maps from one array of features to another of its shape: offsets, scales, normalization; and shifts in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles

# Straight lines that have a name: slope, offset (None for any), words. The simplest first.
LINES: tuple[tuple[float, float | None, str], ...] = (
    (0.25 / math.log(10), 1.0, "(x + 4) / 4 of logarithms to base 10, as in Whisper"),
    (1 / 9.138, 4.268 / 9.138, "(x + 4.268) / 9.138, as in AST, EAT and ImageBind"),
    (0.5 / 6.55582, -15.41663 / 2 / 6.55582, "(x - 15.41663) / (2 * 6.55582), as in BEATs"),
    (1 / math.log(10), None, "logarithms to base 10"),
    (10 / math.log(10), None, "decibels (10 log10)"),
    (20 / math.log(10), None, "decibels of magnitudes (20 log10)"),
    (1 / math.log(2), None, "logarithms to base 2"),
    (0.5, None, "logarithms of magnitudes"),
    (2.0, None, "logarithms of squares"),
    (-1.0, None, "the sign changed"),
)
LOG_OF_SCALE = 2 * math.log(32768)  # between log energies of samples in -1 to 1 and of 16-bit samples
FFT_POINTS = [2**n for n in range(7, 13)]
LEAST_OFFSET, LARGEST_OFFSET = 1e-3, 50.0  # of log energies, if it may come from another scale of the samples
WORDS_PER_COLUMN = 5  # of a map with numbers for each column: more than any other
LEAST_FRAMES_PER_COLUMN = 10  # with fewer frames, numbers for each column map anything to anything
FEW_CELLS = 0.1  # share of cells that may differ where the others are mapped exactly


@dataclass(frozen=True)
class Fit:
    """A map from one array to another.

    Attributes:
        name: what it does, in words; an empty string if the arrays are equal.
        residual: absolute difference after it, see :func:`residual_of`.
        mapped: the first array, mapped.
        words: how much the map says: 0 for none, more for one with numbers, most for one with numbers of each column.
    """

    name: str
    residual: float
    mapped: Doubles
    words: int = 1


@dataclass(frozen=True)
class Cells:
    """The cells of an array that count.

    Attributes:
        rows, columns: masks.
    """

    rows: npt.NDArray[np.bool_]
    columns: npt.NDArray[np.bool_]

    @classmethod
    def all_of(cls, array: Doubles) -> Cells:
        """Return all cells of an array."""
        return cls(np.ones(len(array), bool), np.ones(array.shape[1], bool))

    def of(self, array: Doubles) -> Doubles:
        """Return these cells of an array."""
        return array[self.rows][:, self.columns]


def residual_of(first: Doubles, second: Doubles) -> float:
    """Return the difference that 99.9% of the values stay below, or a thirtieth of the largest, if that is more.

    Where a frame is nearly silent, single precision decides digits that ports in double precision have otherwise.
    """
    difference = np.abs(first - second).ravel()
    most = round(0.999 * (len(difference) - 1))
    return float(max(np.partition(difference, most)[most], difference.max() / 30))


def similarity(features: Doubles, target: Doubles) -> float:
    """Return how far arrays differ if each column may have an offset and a scale of its own: from 0 to 1.

    It is the root of the share of the variance that is not explained, averaged over the columns.
    """
    a, b = (x - x.mean(0) for x in (features, target))
    power, other, common = (np.einsum("ij,ij->j", x, y) for x, y in ((a, a), (b, b), (a, b)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unexplained = np.clip(1 - (common / power) * (common / other), 0, 1)
    unexplained[(power == 0) | (other == 0)] = 1
    unexplained[(power == 0) & (other == 0)] = 0
    return float(np.sqrt(unexplained.mean()))


def simplest(
    features: Doubles, target: Doubles, tolerance: float, cells: Cells | None = None, others: Sequence[Doubles] = ()
) -> Fit:
    """Return the simplest map whose residual is below the tolerance.

    If there is none, it is the simplest one that leaves few values different, or else near the least residual of all.
    The arguments are those of :func:`fits`.
    """
    cells, found = cells or Cells.all_of(target), []
    for fit in fits(features, target, cells, others):
        if fit.residual <= tolerance:
            return fit
        found.append(fit)
    enough = 1.25 * min((fit.residual for fit in found if math.isfinite(fit.residual)), default=math.inf)
    few = (fit for fit in found if np.mean(np.abs(cells.of(fit.mapped - target)) > tolerance) < FEW_CELLS)
    return next(few, next((fit for fit in found if fit.residual <= enough), found[0]))


def fits(features: Doubles, target: Doubles, cells: Cells, others: Sequence[Doubles] = ()) -> Iterator[Fit]:
    """Yield maps between arrays of the same shape, the simplest first.

    Args:
        features, target: the arrays.
        cells: the cells that count.
        others: features of more or fewer frames, whose means and deviations may have been subtracted.
    """

    def fit(name: str, mapped: Doubles, words: int = 1) -> Fit:
        return Fit(name, residual_of(cells.of(mapped), cells.of(target)), mapped, words)

    yield fit("", features, 0)
    for each in (features, *others):
        yield from _normalized(features, each, fit)
    yield fit("minus the mean of each frame over its columns", features - features.mean(1, keepdims=True))
    yield fit("divided by the largest value", features / max(float(np.abs(features).max()), 1e-30))
    chosen, wanted = cells.of(features), cells.of(target)
    offset = float(np.median(wanted - chosen))
    yield fit(offset_name(offset), features + offset, 3)
    for slope, known, words in LINES:
        offset = float(np.median(wanted - slope * chosen)) if known is None else known
        said = (
            words
            if known is not None or abs(offset) < 1e-3 * max(1.0, slope)
            else f"{words}, {offset_name(offset, slope)}"
        )
        yield fit(said, slope * features + offset, 1 if said == words else 3)
    slope, offset = line(chosen.ravel(), wanted.ravel())
    if abs(offset) < 1e-6 * np.abs(wanted).max():
        yield fit(f"times {slope:.6g}", slope * features, 3)
    yield fit(f"times {slope:.6g}, plus {offset:.6g}", slope * features + offset, 3)
    if len(chosen) < LEAST_FRAMES_PER_COLUMN:
        return
    numbers = np.zeros(features.shape[1])
    numbers[cells.columns] = (wanted - chosen).mean(0)
    yield fit("plus a number for each column (global mean)", features + numbers, WORDS_PER_COLUMN)
    slopes, offsets = np.ones(features.shape[1]), np.zeros(features.shape[1])
    lines = [line(a, b) for a, b in zip(chosen.T, wanted.T, strict=True)]
    slopes[cells.columns], offsets[cells.columns] = np.array(lines).T
    said = "times and plus a number for each column (global CMVN)"
    yield fit(said, slopes * features + offsets, WORDS_PER_COLUMN)


def _normalized(features: Doubles, of: Doubles, fit: Callable[[str, Doubles], Fit]) -> Iterator[Fit]:
    """Yield what means and deviations of features, or of more or fewer frames of them, make of them."""
    where = "" if of is features else f" of {len(of)} frames"
    without = features - of.mean(0)
    yield fit(f"minus the mean of each column over the recording{where}", without)
    for ddof, sample in ((0, ""), (1, " (of a sample)")):
        if len(of) > ddof:
            deviation = np.maximum(of.std(0, ddof=ddof), 1e-10)
            said = f"minus the mean and divided by the standard deviation{sample} of each column{where}"
            yield fit(said, without / deviation)
    yield fit(f"minus the mean over all columns and frames{where}", features - of.mean())
    deviation = max(float(of.std()), 1e-10)
    yield fit(
        f"minus the mean and divided by the standard deviation over all{where}", (features - of.mean()) / deviation
    )


def offset_name(offset: float, slope: float = 1.0) -> str:
    """Return a constant offset in words: of log energies, it is another scale of the audio."""
    sign = "plus" if offset > 0 else "minus"
    for share, words in ((1.0, "2 ln 32768"), (0.5, "ln 32768"), (1 / math.log(10), "2 log10 32768")):
        if abs(abs(offset) - share * LOG_OF_SCALE) < 1e-2 * share:
            return f"{sign} {share * LOG_OF_SCALE:.4g} = {words} (samples on another scale)"
    natural = offset / abs(slope)
    points = next((each for each in FFT_POINTS if abs(abs(natural) - math.log(each)) < 1e-3), 0)
    of = f"= ln {points} (power over the points of an FFT)" if points else ""
    if not of and LEAST_OFFSET < abs(natural) < LARGEST_OFFSET:
        of = f"(of log energies: samples times {math.exp(natural / 2):.4g})"
    return f"{sign} {abs(offset):.6g} {of}".rstrip()


def line(x: Doubles, y: Doubles) -> tuple[float, float]:
    """Return slope and offset of the line through points, by least squares."""
    centered = x - x.mean()
    power = float((centered * centered).sum())
    slope = float((centered * (y - y.mean())).sum()) / power if power > 0 else 1.0
    return slope, float(y.mean() - slope * x.mean())


def overlap(features: Doubles, target: Doubles, shift: int) -> tuple[Doubles, Doubles]:
    """Return the frames that both arrays have if the target's first frame is the features' frame ``shift``."""
    first, second = features[max(shift, 0) :], target[max(-shift, 0) :]
    count = min(len(first), len(second))
    return first[:count], second[:count]


def shifted(features: Doubles, target: Doubles, most: int = 4) -> tuple[int, Doubles, Doubles]:
    """Return the shift in frames at which arrays agree best, and the frames that both have.

    A shift of 1 means that the first frame of the target is the second one of the features.
    """

    def cost(shift: int) -> tuple[float, int]:
        a, b = overlap(features, target, shift)
        return (round(similarity(a, b), 6) if len(a) > 1 else 1.0, abs(shift))

    best = min(range(-most, most + 1), key=cost)
    return (best, *overlap(features, target, best))


def frames_said(counts: dict[str, int]) -> list[str]:
    """Return in words how many frames an array has too many (or, below zero, lacks) at its ends."""
    return [f"{abs(n)} frame{'s' * (abs(n) > 1)} {'too many' if n > 0 else 'left out'} at the {where}"
            for where, n in counts.items() if n]  # fmt: skip


def correlations(features: Doubles, target: Doubles) -> Doubles:
    """Return the correlation of each of the target's columns with each of the features'; 0 of a constant column."""
    a, b = (x - x.mean(0) for x in (features, target))
    sizes = np.sqrt((a * a).sum(0)), np.sqrt((b * b).sum(0))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Doubles = np.nan_to_num((b.T @ a) / np.outer(sizes[1], sizes[0]))
    return found


def columns_of(features: Doubles, target: Doubles) -> list[int] | None:
    """Return the column of the features that each of the target's columns is, up to an offset and a scale.

    None if one of the target's columns is like no column of the features.
    """
    alike = correlations(features, target)
    best = alike.argmax(1)
    return best.tolist() if (alike.max(1) > 1 - 1e-6).all() else None


def order_name(order: list[int], columns: int) -> str:
    """Return in words which columns these are, of so many."""
    every = list(range(columns))
    names = {
        "": every,
        "the first column last": [*every[1:], 0],
        "the last column first": [columns - 1, *every[:-1]],
        "the columns in reverse order": every[::-1],
        "the first column left out": every[1:],
        "the last column left out": every[:-1],
    }
    known = next((said for said, each in names.items() if each == order), None)
    if known is None and order == list(range(order[0], order[0] + len(order))):
        known = f"columns {order[0]} to {order[-1]} only"
    shown = ", ".join(map(str, order[:8])) + ", ..." * (len(order) > 8)
    return f"columns {shown}" if known is None else known
