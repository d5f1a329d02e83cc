"""Maps from one array of features to another of its shape: offsets, scales, normalization; and shifts in time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
MEAN = "minus the mean of each column over the recording"
LOG_OF_SCALE = 2 * math.log(32768)  # between log energies of samples in -1 to 1 and of 16-bit samples
FFT_POINTS = [2**n for n in range(7, 13)]
LEAST_OFFSET, LARGEST_OFFSET = 1e-3, 50.0  # of log energies, if it may come from another scale of the samples
WORDS_PER_COLUMN = 5  # of a map with numbers for each column: more than any other
LEAST_FRAMES_PER_COLUMN = 10  # with fewer frames, numbers for each column map anything to anything
FEW_CELLS = 0.1  # share of cells that may differ where the others are mapped exactly
CLIPPED_CELLS = 3  # cells at the least (or largest) value of an array from which that value may be a limit
INTEGER_LIMITS = (0, 127, -128, 255, 32767, -32768, 65535)  # Extreme values of integers of 8 and 16 bits.
WORDS_OF_LIMITS = 3  # in a Fit
WORDS_OF_NUMBERS = 3  # in a Fit with a scale or an offset that has no name
Cells = tuple[npt.NDArray[Any], ...]  # np.ix_(rows, columns) of those that count
Map = tuple[str, Doubles, int]  # what it does, in words; features mapped; and how much it says, as in a Fit


@dataclass(frozen=True)
class Fit:
    """A map from one array to another."""

    name: str  # what it does, in words; an empty string if the arrays are equal
    residual: float  # absolute difference after it, see :func:`residual_of`
    mapped: Doubles  # the first array, mapped
    # how much the map says: 0 for none, more for one with numbers, most for one with numbers of each column
    words: int = 1


def all_cells(array: Doubles) -> Cells:
    """Return the cells of a whole array."""
    return np.ix_(*map(np.arange, array.shape))


def residual_of(first: Doubles, second: Doubles, step: float = 0.0) -> float:
    """Return the difference that 99.9% of the values stay below, or a thirtieth of the largest, if that is more.

    Where a frame is nearly silent, single precision decides digits that ports in double precision have otherwise.
    ``step`` is the largest error of the stored numbers, which is subtracted from each difference.
    """
    difference = np.maximum(np.abs(first - second).ravel() - step, 0)
    most = round(0.999 * (len(difference) - 1))
    return float(max(np.partition(difference, most)[most], difference.max() / 30))


def similarity(features: Doubles, target: Doubles) -> float:
    """Return how far arrays differ if each column may have an offset and a scale of its own: from 0 to 1.

    It is the root of the share of the variance that is not explained, averaged over the columns.
    """
    if not len(features):
        return 1.0
    a, b = (x - x.mean(0) for x in (features, target))
    power, other, common = (np.einsum("ij,ij->j", x, y) for x, y in ((a, a), (b, b), (a, b)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unexplained = np.clip(1 - (common / power) * (common / other), 0, 1)
    unexplained[(power == 0) | (other == 0)] = 1
    unexplained[(power == 0) & (other == 0)] = 0
    return float(np.sqrt(unexplained.mean()))


def limits_of(target: Doubles, *, is_rounded: bool = False) -> tuple[float, float]:
    """Return the values to which an array may have been clipped; infinite ones where its extreme value is rare.

    In an array that is rounded, an extreme value of a type of integers is a limit even if it is rare.
    """
    low, high = float(target.min()), float(target.max())

    def is_limit(value: float) -> bool:
        return bool(np.sum(target == value) >= CLIPPED_CELLS) or (is_rounded and value in INTEGER_LIMITS)

    return (low if is_limit(low) else -math.inf, high if is_limit(high) else math.inf)


def limits_name(limits: tuple[float, float], mapped: Doubles, tolerance: float) -> str:
    """Describe the limits that features exceed by more than a tolerance; an empty string if they exceed none."""
    (low, high), said = limits, []
    if (low - mapped > tolerance).any():
        said.append(f"at least {low:.6g}")
    if (mapped - high > tolerance).any():
        said.append(f"at most {high:.6g}")
    return f"clipped to {' and '.join(said)}" if said else ""


def simplest(
    features: Doubles, target: Doubles, tolerance: float, cells: Cells | None = None, others: Sequence[Doubles] = (),
    before: Sequence[Map] = (), step: float = 0.0,
) -> Fit:  # fmt: skip
    """Return the simplest map whose residual is below the tolerance.

    If there is none, it is the simplest one that leaves few values different, or else near the least residual of all.
    A map with a number for each column is chosen only if no simpler one leaves few values different.
    Means and deviations may be those of ``others``, features of more or fewer frames. ``before`` holds normalizations
    of the features before they were arranged, ``step`` is the largest error of the stored numbers. Where many values of
    the array are the least or the largest one, the map ends there.
    """
    cells, found = cells or all_cells(target), list[Fit]()
    limits, few = limits_of(target[cells], is_rounded=step > 0), None
    for name, mapped, words in _maps(features, target, cells, others, before, limits):
        clipped = np.clip(mapped, *limits)
        said = limits_name(limits, mapped[cells], tolerance + step)
        fit = Fit(
            "; ".join(filter(None, (name, said))), residual_of(clipped[cells], target[cells], step),
            clipped if said else mapped, words + WORDS_OF_LIMITS * bool(said),
        )  # fmt: skip
        if fit.residual <= tolerance and not (few and words >= WORDS_PER_COLUMN):
            return fit
        found.append(fit)
        if few is None and np.mean(np.abs((fit.mapped - target)[cells]) > tolerance + step) < FEW_CELLS:
            few = fit
    enough = 1.25 * min((fit.residual for fit in found if math.isfinite(fit.residual)), default=math.inf)
    return few or next((fit for fit in found if fit.residual <= enough), found[0])


def _maps(
    features: Doubles, target: Doubles, cells: Cells, others: Sequence[Doubles], before: Sequence[Map],
    limits: tuple[float, float],
) -> Iterator[Map]:  # fmt: skip
    """Yield maps between arrays, the simplest first. Values at the limits do not count for straight lines."""
    yield "", features, 0
    normalized = [*(each for of in (features, *others) for each in normalizations(features, of)), *before]
    yield from normalized
    chosen, wanted = features[cells], target[cells]
    inside = (wanted > limits[0]) & (wanted < limits[1])
    inside = inside if inside.any() else np.ones_like(inside)
    offset = float(np.median((wanted - chosen)[inside]))
    yield offset_name(offset), features + offset, WORDS_OF_NUMBERS
    for slope, known, name in LINES:
        offset = float(np.median((wanted - slope * chosen)[inside])) if known is None else known
        is_named = known is not None or abs(offset) < 1e-3 * max(1.0, slope)
        yield (
            name if is_named else f"{name}, {offset_name(offset, slope)}",
            slope * features + offset,
            1 if is_named else WORDS_OF_NUMBERS,
        )
    logarithms = [(slope, name) for slope, known, name in LINES if known is None]
    centered = [each for each in normalized if MEAN in each[0]]
    yield from (
        (f"{name}; {mean}", slope * each, WORDS_OF_NUMBERS) for mean, each, _ in centered for slope, name in logarithms
    )
    slope, offset = line(chosen[inside], wanted[inside])
    if abs(offset) < 1e-6 * np.abs(wanted).max():
        name = "" if f"{slope:.6g}" == "1" else f"times {slope:.6g}"
        yield name, slope * features, WORDS_OF_NUMBERS
    yield f"times {slope:.6g}, plus {offset:.6g}", slope * features + offset, WORDS_OF_NUMBERS
    if len(chosen) >= LEAST_FRAMES_PER_COLUMN:
        slopes, offsets, columns = np.ones(features.shape[1]), np.zeros(features.shape[1]), cells[1].ravel()
        inside = inside | ~inside.any(0)
        for slope, name in [(1.0, ""), *logarithms]:
            offsets[columns] = (inside * (wanted - slope * chosen)).sum(0) / inside.sum(0)
            said = f"{name}{name and '; '}plus a number for each column (global mean)"
            yield said, slope * features + offsets, WORDS_PER_COLUMN
        slopes[columns], offsets[columns] = line(chosen, wanted, inside)
        name = "times and plus a number for each column (global CMVN)"
        yield name, slopes * features + offsets, WORDS_PER_COLUMN


def normalizations(features: Doubles, of: Doubles) -> Iterator[Map]:
    """Yield what means and deviations of features, or of more or fewer frames of them, make of them."""
    where = "" if of is features else f" of {len(of)} frames"
    divided = "minus the mean and divided by the standard deviation"
    without = features - of.mean(0)
    yield f"{MEAN}{where}", without, 1
    for ddof, sample in ((0, ""), (1, " (of a sample)")):
        if len(of) > ddof:
            deviation = np.maximum(of.std(0, ddof=ddof), 1e-10)
            yield f"{divided}{sample} of each column{where}", without / deviation, 1
    without = features - of.mean()
    yield f"minus the mean over all columns and frames{where}", without, 1
    yield f"{divided} over all{where}", without / max(float(of.std()), 1e-10), 1


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


def line(x: Doubles, y: Doubles, inside: npt.NDArray[np.bool_] | None = None) -> tuple[Any, Any]:
    """Return slope and offset of the line through points (n,), or of each column's (n, columns), by least squares.

    Only points ``inside`` count, of which each column has at least one.
    """
    weights = np.ones(x.shape) if inside is None else inside.astype(np.float64)
    first, second = ((weights * each).sum(0) / weights.sum(0) for each in (x, y))
    centered = weights * (x - first)
    power = (centered * centered).sum(0)
    slope = np.where(power > 0, (centered * (y - second)).sum(0) / np.where(power > 0, power, 1), 1.0)
    return slope, second - slope * first


def overlap(features: Doubles, target: Doubles, shift: int) -> tuple[Doubles, Doubles]:
    """Return the frames that both arrays have if the target's first frame is the features' frame ``shift``."""
    first, second = features[max(shift, 0) :], target[max(-shift, 0) :]
    count = min(len(first), len(second))
    return first[:count], second[:count]


def best_shift(features: Doubles, target: Doubles, about: int = 0, most: int = 4) -> int:
    """Return the shift in frames near another one at which arrays agree best, as :func:`overlap` takes it."""

    def cost(shift: int) -> tuple[float, int]:
        a, b = overlap(features, target, shift)
        return (round(similarity(a, b), 6) if len(a) > 1 else 1.0, abs(shift - about))

    return min(range(about - most, about + most + 1), key=cost)


def frames_in_words(counts: dict[str, int]) -> list[str]:
    """Return in words how many frames an array has too many (or, below zero, lacks) at its ends."""
    return [f"{abs(n)} frame{'s' * (abs(n) > 1)} {'too many' if n > 0 else 'left out'} at the {where}"
            for where, n in counts.items() if n]  # fmt: skip


def correlations(features: Doubles, target: Doubles) -> Doubles:
    """Return the correlation of each of the target's columns with each of the features'; 0 of a constant column."""
    a, b = (x - x.mean(0) for x in (features, target))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Doubles = np.nan_to_num((b.T @ a) / np.outer(np.sqrt((b * b).sum(0)), np.sqrt((a * a).sum(0))))
    return found


def columns_of(features: Doubles, target: Doubles) -> list[int] | None:
    """Return the column of the features that each of the target's columns is, up to an offset and a scale.

    None if one of the target's columns is like no column of the features.
    """
    alike = correlations(features, target)
    best = alike.argmax(1)
    return best.tolist() if (alike.max(1) > 1 - 1e-6).all() else None


def order_name(order: Sequence[int], columns: int) -> str:
    """Return in words which columns these are, of so many."""
    order, every = list(order), list(range(columns))
    names = {
        "the first column last": [*every[1:], 0],
        "the last column first": [columns - 1, *every[:-1]],
        "the columns in reverse order": every[::-1],
        "the first column left out": every[1:],
        "the last column left out": every[:-1],
        f"columns {order[0]} to {order[-1]} only": [*range(order[0], order[-1] + 1)],
        "": every,
    }
    shown = ", ".join(map(str, order[:8])) + ", ..." * (len(order) > 8)
    return next((said for said, each in names.items() if each == order), f"columns {shown}")
