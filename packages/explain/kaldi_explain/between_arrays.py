"""Find the relation between two arrays of features."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Doubles
from kaldi_explain import arrangements, fits
from kaldi_explain.arrangements import Arrangement
from kaldi_explain.thresholds import THRESHOLDS


@dataclass(frozen=True)
class Relation:
    """Steps from one array of features to another.

    Attributes:
        steps: descriptions of the steps.
        mapped: the first array after the steps.
        target: the part of the second array that ``mapped`` should be.
        step: largest error of the second array's stored numbers.
        residual: difference after the steps, see :func:`kaldi_explain.fits.measure_residual`.
    """

    steps: list[str]
    mapped: Doubles
    target: Doubles
    step: float
    residual: float

    @property
    def cost(self) -> float:
        """The residual, increased by 5% for each step, so that a step without a gain increases the cost."""
        return self.residual * (1 + THRESHOLDS.cost_of_step * sum(map(bool, self.steps)))


def find_relation(target: Doubles, features: Doubles, repairs: list[str], tolerance: float) -> Relation:
    """Return the relation with the lowest cost, of those with a residual within ``tolerance``, that gives ``target``.

    If no such relation gives ``target`` from ``features``, return one that gives ``features`` from ``target``. If the
    residuals are all larger, return the relation with the lowest cost, if possible one that gives ``target``. Both
    arrays have the shape (frames, columns). ``repairs`` describe repairs of the arrays, and are the first steps of a
    relation that gives ``target``. Raise FeatureError if no arrangement of one array has as many columns as the other.
    """
    relations = []
    for explained, source, words in ((target, features, repairs), (features, target, ["the other way round"])):
        relations += sorted(_list_relations(explained, source, words, tolerance), key=lambda relation: relation.cost)
    if not relations:
        columns = f"{target.shape[1]} and {features.shape[1]} columns"
        raise FeatureError(
            f"features of {columns} cannot be mapped to each other: pass arrays of the same feature, or the audio"
        )
    return next((relation for relation in relations if relation.residual <= tolerance), relations[0])


def _list_relations(target: Doubles, features: Doubles, first_steps: list[str], tolerance: float) -> Iterator[Relation]:
    """Yield relations that give ``target``: one for each orientation of ``target`` and arrangement of ``features``.

    Padding rows of ``target`` are removed first. For each orientation, stop at the first relation whose residual is
    within ``tolerance``. Skip arrangements that do not give as many columns as ``target`` has. Both arrays have the
    shape (frames, columns). ``first_steps`` are descriptions that come before the steps of each relation.
    """
    rows, columns = target.shape
    for orientation, array in arrangements.list_orientations(target):
        # A transposition is plausible only if it alone gives the array as many columns as the features have.
        if orientation == ["transposed"] and (columns == features.shape[1] or rows != features.shape[1]):
            continue
        changes = list(orientation)
        for where, direction in (("end", 1), ("start", -1)):
            if padding := _count_padding(array[::direction], len(features)):
                changes.append(f"{padding} rows of padding at the {where}")
                array = array[:-padding] if direction == 1 else array[padding:]
        storage = arrangements.find_storage(array)
        array = storage.values
        for arrangement in _list_arrangements(array, features):
            arranged = arrangement.apply(features)
            if not len(arranged) or arranged.shape[1] != array.shape[1]:
                continue
            shift = fits.find_best_shift(arranged, array)
            source, goal = fits.select_common_frames(arranged, array, shift)
            fit = fits.find_simplest_map(source, goal, tolerance, step=storage.step)
            # Frames at the end count only in an unchanged array, because the removed padding may have replaced frames.
            counts = {"start": -shift, "end": 0 if changes else len(array) + shift - len(arranged)}
            steps = [*first_steps, *changes, *storage.words, arrangement.words]
            steps += [*fits.describe_frame_counts(counts), fit.name]
            residual = fits.measure_residual(fit.mapped, goal, storage.step)
            yield Relation(steps, fit.mapped, goal, storage.step, residual)
            if residual <= tolerance:
                break


def _count_padding(target: Doubles, frame_count: int) -> int:
    """Return the number of rows of padding at the end of an array: equal rows, or rows filled with one value.

    Return 0 if one row or every row is padding, or if the array has at most four rows more than the ``frame_count``
    frames of the features.
    """
    padding_masks = [(target == target[-1]).all(1), (target == target[-1, 0]).all(1)]
    count = max(len(target) if mask.all() else int(np.argmin(mask[::-1])) for mask in padding_masks)
    return count if len(target) - frame_count > 4 and 1 < count < len(target) else 0


def _list_arrangements(target: Doubles, features: Doubles) -> Iterator[Arrangement]:
    """Yield arrangements that may give ``target``: stacked or fewer frames, other columns, normalizations, deltas."""
    column_count, all_columns = features.shape[1], slice(None)
    yield arrangements.PLAIN
    yield from (arrangement for arrangement in arrangements.list_arrangements(target) if arrangement.words)
    for ratio in range(2, 11):
        if abs(len(features) / ratio - len(target)) <= 1:
            select_frames = operator.itemgetter(slice(None, None, ratio))
            yield Arrangement(f"one frame in {ratio}", all_columns, select_frames, ratio)
            if target.shape[1] == ratio * column_count:
                yield arrangements.make_joined_frames(ratio, column_count)
    for shift in (0, 1, -1, 2, -2):
        order = fits.match_columns(*fits.select_common_frames(features, target, shift))
        if order is not None and order != list(range(column_count)):
            words = fits.describe_order(order, column_count)
            yield Arrangement(words, all_columns, functools.partial(np.take, indices=order, axis=1))
            break
    if column_count == target.shape[1] and len(features) > 5:
        shift = fits.find_best_shift(np.diff(features, axis=0), np.diff(target, axis=0))
        yield from arrangements.list_sliding_arrangements(features, target, shift)
        if arrangements.may_be_deltas(target):
            yield from (arrangements.make_deltas_alone(order, window) for order in (1, 2) for window in (2, 1, 3, 4))
