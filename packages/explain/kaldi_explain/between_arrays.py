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
    """Steps that turn one array of features into another, such as a transposition or a change of the unit.

    Attributes:
        steps: descriptions of the steps. "" stands for no step.
        mapped: the first array (frames, columns) after the steps.
        target: the part (frames, columns) of the second array that ``mapped`` should equal.
        step: largest rounding error of the second array's stored numbers.
        residual: difference between ``mapped`` and ``target`` (:func:`kaldi_explain.fits.measure_residual`).
    """

    steps: list[str]
    mapped: Doubles
    target: Doubles
    step: float
    residual: float

    @property
    def cost(self) -> float:
        """The residual, increased by 5% for each step, so that a step must reduce the residual to be worth it."""
        return self.residual * (1 + THRESHOLDS.cost_of_step * sum(map(bool, self.steps)))


def find_relation(target: Doubles, features: Doubles, repairs: list[str], tolerance: float) -> Relation:
    """Return the best relation of two arrays (frames, columns), from ``features`` to ``target`` or the other way round.

    Relations with a residual of at most ``tolerance`` are preferred. Among these, or among all relations if none has
    such a residual, relations to ``target`` precede relations to ``features``, and a lower cost decides between
    relations of the same direction. ``repairs`` are descriptions of the first steps to ``target``. Raise FeatureError
    if no arrangement of one array has as many columns as the other array.
    """
    relations = []
    for goal, source, first_steps in ((target, features, repairs), (features, target, ["the other way round"])):
        relations += sorted(_list_relations(goal, source, first_steps, tolerance), key=lambda relation: relation.cost)
    if not relations:
        problem = f"features of {target.shape[1]} and {features.shape[1]} columns cannot be mapped to each other"
        raise FeatureError(f"{problem}: pass arrays of the same feature, or the audio")
    return next((relation for relation in relations if relation.residual <= tolerance), relations[0])


def _list_relations(target: Doubles, features: Doubles, first_steps: list[str], tolerance: float) -> Iterator[Relation]:
    """Yield relations that turn ``features`` into ``target``, both (frames, columns).

    Each plausible orientation of ``target``, without padding, is compared with each arrangement of ``features`` that
    has the same number of columns. After a relation with a residual of at most ``tolerance``, the other arrangements
    are skipped for this orientation. The descriptions ``first_steps`` precede the steps of each relation.
    """
    rows, columns = target.shape
    for orientation_words, oriented in arrangements.list_orientations(target):
        # An array is transposed only if it then has as many columns as the features, and did not have them before.
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
            extra_frames = {"start": -shift, "end": 0 if changes else len(unpadded) + shift - len(arranged)}
            steps = [*first_steps, *changes, *storage.words, arrangement.words]
            steps += [*fits.describe_frame_counts(extra_frames), fit.name]
            residual = fits.measure_residual(fit.mapped, goal, storage.step)
            yield Relation(steps, fit.mapped, goal, storage.step, residual)
            if residual <= tolerance:
                break


def _remove_padding(target: Doubles, frame_count: int) -> tuple[list[str], Doubles]:
    """Return descriptions of the padding of an array (frames, columns), and the array without padding.

    Two or more equal rows at an end are padding if the array has at least five rows more than the features have frames
    (``frame_count``). Fewer additional rows may be real frames. The end of the array is examined before its start.
    """
    words = []
    for where, outer_row in (("end", -1), ("start", 0)):
        is_equal = (target == target[outer_row]).all(axis=1)
        count = int(np.argmin(is_equal[::-1] if where == "end" else is_equal))  # The count is 0 if all rows are equal.
        if count > 1 and len(target) - frame_count > 4:
            words.append(f"{count} rows of padding at the {where}")
            target = target[:-count] if where == "end" else target[count:]
    return words, target


def _list_arrangements(target: Doubles, features: Doubles) -> Iterator[Arrangement]:
    """Yield the arrangements that may turn features (frames, columns) into the rows of ``target`` (rows, columns).

    The unchanged features come first, and then stacked frames or appended deltas, every n-th frame, n joined frames,
    and the columns in a different order. If there are more than five frames and the numbers of columns are equal,
    normalization in sliding windows follows, and deltas without the features if ``target`` may be deltas.
    """
    column_count, all_columns = features.shape[1], slice(None)
    yield arrangements.PLAIN
    yield from (arrangement for arrangement in arrangements.list_arrangements(target) if arrangement.words)
    for ratio in range(2, 11):  # Number of frames for each row of the target.
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
