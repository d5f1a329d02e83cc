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
    """Steps that turn one array of features into another.

    Attributes:
        steps: descriptions of the steps. "" stands for no step.
        mapped: the first array after the steps.
        target: the part of the second array that ``mapped`` should equal.
        step: largest rounding error of the second array's stored numbers.
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
    """Return the relation that turns ``features`` into ``target``, or else ``target`` into ``features``.

    Relations with a residual of at most ``tolerance`` are preferred to all others, then relations that turn
    ``features`` into ``target``, and then the relation with the lowest cost. Both arrays have the shape (frames,
    columns). ``repairs`` describe repairs of the arrays, and are the first steps to ``target``. Raise FeatureError if
    no arrangement of one array has as many columns as the other.
    """
    relations = []
    for goal, source, words in ((target, features, repairs), (features, target, ["the other way round"])):
        relations += sorted(_list_relations(goal, source, words, tolerance), key=lambda relation: relation.cost)
    if not relations:
        columns = f"{target.shape[1]} and {features.shape[1]} columns"
        raise FeatureError(
            f"features of {columns} cannot be mapped to each other: pass arrays of the same feature, or the audio"
        )
    return next((relation for relation in relations if relation.residual <= tolerance), relations[0])


def _list_relations(target: Doubles, features: Doubles, first_steps: list[str], tolerance: float) -> Iterator[Relation]:
    """Yield relations that turn ``features`` into ``target``, both (frames, columns).

    There is one relation for each orientation of ``target``, without padding, and each arrangement of ``features`` that
    has as many columns. After a relation whose residual is within ``tolerance``, the other arrangements are skipped.
    ``first_steps`` are descriptions that come before the steps of each relation.
    """
    rows, columns = target.shape
    for orientation_words, oriented in arrangements.list_orientations(target):
        # A transposition is plausible only if the array has as many columns as the features after it, but not before.
        if orientation_words == ["transposed"] and (columns == features.shape[1] or rows != features.shape[1]):
            continue
        padding_words, unpadded = _remove_padding(oriented, len(features))
        storage = arrangements.find_storage(unpadded)
        for arrangement in _list_arrangements(storage.values, features):
            arranged = arrangement.apply(features)
            if not len(arranged) or arranged.shape[1] != unpadded.shape[1]:
                continue
            shift = fits.find_best_shift(arranged, storage.values)
            source, goal = fits.select_common_frames(arranged, storage.values, shift)
            fit = fits.find_simplest_map(source, goal, tolerance, step=storage.step)
            changes = [*orientation_words, *padding_words]
            # Frames at the end count only in an unchanged array, because the removed padding may have replaced frames.
            counts = {"start": -shift, "end": 0 if changes else len(unpadded) + shift - len(arranged)}
            steps = [*first_steps, *changes, *storage.words, arrangement.words]
            steps += [*fits.describe_frame_counts(counts), fit.name]
            residual = fits.measure_residual(fit.mapped, goal, storage.step)
            yield Relation(steps, fit.mapped, goal, storage.step, residual)
            if residual <= tolerance:
                break


def _remove_padding(target: Doubles, frame_count: int) -> tuple[list[str], Doubles]:
    """Return descriptions of the padding rows of an array (:func:`_count_padding`), and the array without them."""
    words = []
    for where, direction in (("end", 1), ("start", -1)):
        if padding := _count_padding(target[::direction], frame_count):
            words.append(f"{padding} rows of padding at the {where}")
            target = target[:-padding] if direction == 1 else target[padding:]
    return words, target


def _count_padding(target: Doubles, frame_count: int) -> int:
    """Return the number of padding rows at the end of an array: rows equal to the last one, or filled with its value.

    Return 0 if one row or every row is padding, or if the array has at most four rows more than the ``frame_count``
    frames of the features, because a few additional rows may be real frames.
    """
    padding_masks = [(target == target[-1]).all(1), (target == target[-1, 0]).all(1)]
    count = max(len(target) if mask.all() else int(np.argmin(mask[::-1])) for mask in padding_masks)
    return count if len(target) - frame_count > 4 and 1 < count < len(target) else 0


def _list_arrangements(target: Doubles, features: Doubles) -> Iterator[Arrangement]:
    """Yield arrangements that may turn features into ``target``, from unchanged features to means and deltas."""
    column_count, all_columns = features.shape[1], slice(None)
    yield arrangements.PLAIN
    yield from (arrangement for arrangement in arrangements.list_arrangements(target) if arrangement.words)
    for ratio in range(2, 11):  # At least one frame in ten is kept.
        if abs(len(features) / ratio - len(target)) <= 1:
            select_frames = operator.itemgetter(slice(None, None, ratio))
            yield Arrangement(f"one frame in {ratio}", all_columns, select_frames, ratio)
            if target.shape[1] == ratio * column_count:
                yield arrangements.make_joined_frames(ratio, column_count)
    for shift in (0, 1, -1, 2, -2):  # The arrays may begin up to two frames apart.
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
