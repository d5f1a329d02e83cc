"""Find what wrong results of an implementation have in common: the mistakes behind them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.explain import fits
from kaldi_compat.explain.explanation import Explanation, explain
from kaldi_compat.explain.models import ATTRIBUTES, KINDS, FeatureModel
from kaldi_compat.frontends.description import changed_options
from kaldi_compat.frontends.preset import Preset

Array = npt.NDArray[Any]
FRAMES = re.compile(r"^\d+ frames? (left out|too many) at the")
MEAN = "minus the mean of each column over the recording"
SEARCHES = 12  # at most so many vectors are explained; the others are compared with what was found
FRUITLESS = 3  # so many searches in vain end those of a program
FEWEST = 5  # frames: less, and any step explains them
FLOORS = {"floor", "added", "span", "energy_floor"}
FEWEST_FRAMES = 20  # less, and a number for each column explains too much
MOST_SHIFT = 4  # frames that a result may have before Kaldi's first one, or lack


@dataclass(frozen=True)
class WrongResult:
    """A result of an implementation that is wrong.

    Attributes:
        id: name of the vector.
        options: Kaldi's program and options.
        given: the input.
        result: what the implementation gives.
        expected: what Kaldi gives.
        tolerance: largest error, relative to values above 1, that is not wrong.
    """

    id: str
    options: dict[str, Any]
    given: Array
    result: Array
    expected: Array
    tolerance: float

    @property
    def asked(self) -> FeatureModel | None:
        """The variant that the options ask for; None where explain does not know the program."""
        kind = self.options["program"].removeprefix("compute-").removesuffix("-feats")
        if kind not in KINDS or self.given.dtype != np.int16 or self.options.get("output") == "frames-ready":
            return None
        known = {each.name for each in dataclasses.fields(KINDS[kind])} - {"sample_frequency", "dither"}
        options = {name: value for name, value in self.options.items() if name in known}
        return FeatureModel(kind, options, warp=self.options.get("vtln_warp", 1.0))

    @property
    def changed(self) -> list[str]:
        """The options of a feature that are not Kaldi's defaults."""
        asked = self.asked
        if asked is None:
            return []
        plain = FeatureModel(asked.kind)
        return [f"{name}={value!r}" for name, value in asked.options.items() if value != plain.value(name)]

    def aligned(self, features: Array) -> tuple[Array, Array, str]:
        """Return the frames that a result and features have both, and in words which ones only one of them has."""
        result = self.result.astype(np.float64)
        more = len(result) - len(features)
        if not more or result.ndim != 2 or features.shape[1:] != result.shape[1:] or not features.size:
            return features, result, ""
        shift = 0
        if min(len(features), len(result)) >= FEWEST:
            shift, *_ = fits.shifted(features.astype(np.float64), result, min(MOST_SHIFT, abs(more)))
        first, second = fits.overlap(features, result, shift)
        said = fits.frames_said({"start": -shift, "end": more + shift})
        return first, second, " and ".join(said)

    def frames_in_words(self, features: Array) -> str:
        """Return in words how many frames a result has more or less than features; "" if it has as many."""
        said = self.aligned(features)[2]
        return said and f"{said}: {len(self.result)}, not {len(features)}"

    def shape_in_words(self) -> str:
        """Return in words what is wrong with the shape of a result, other than the number of frames."""
        have, want = self.result.shape, self.expected.shape
        only_frames = len(have) == len(want) and (len(have) < 2 or have[1:] == want[1:]) and self.asked is not None
        turned = ", as if transposed" if have == want[::-1] else ""
        return "" if have == want or only_frames else f"the shape is {have}, not {want}{turned}"

    def is_explained_by(self, model: FeatureModel, outliers: float = 3, share: float = 0.99) -> bool:
        """Return True if a model gives a share of the result, and the rest within so many times the tolerance."""
        features, result, _ = self.aligned(self.computed(model))
        if features.shape != result.shape or not features.size:
            return False
        with np.errstate(all="ignore"):
            error = np.abs(result - features) / np.maximum(1, np.abs(features))
        error = np.nan_to_num(error, nan=np.inf)
        return bool(np.quantile(error, share) <= self.tolerance and error.max() <= outliers * self.tolerance)

    def steps_after(self, model: FeatureModel) -> str | None:
        """Return in words what makes the result of a model, such as an offset; None if no simple step does."""
        first, second, _ = self.aligned(self.computed(model).astype(np.float64))
        if first.shape != second.shape or len(first) < FEWEST:
            return None
        fit = fits.simplest(first, second, self.tolerance)
        limit = self.tolerance * max(1.0, float(np.abs(second).max()) / 100)
        return None if fit.words >= fits.WORDS_PER_COLUMN or fit.residual > limit else fit.name

    def computed(self, variant: FeatureModel) -> Array:
        """Compute a variant of the feature; an array without frames if there is none."""
        try:
            features = variant.compute(self.given.astype(np.float32), self.options["sample_frequency"])
        except (KaldiCompatError, ValueError):
            return np.zeros((0, 0), np.float32)
        return features - features.mean(0) if self.options["subtract_mean"] else features


@dataclass
class Cause:
    """A mistake, and the vectors that it explains.

    Attributes:
        name: the mistake in words.
        vectors: names of the vectors.
        changes: what it changes, by option or attribute of a variant; None if only words are known.
        steps: what is done to the feature then, in words.
    """

    name: str
    vectors: list[str] = field(default_factory=list)
    changes: dict[str, Any] | None = None
    steps: str = ""

    def __str__(self) -> str:
        count = len(self.vectors)
        return f"{self.name}: {count} vector{'s' * (count > 1)}, such as {self.vectors[0]}"


def causes(differences: Sequence[WrongResult]) -> list[Cause]:
    """Return the mistakes that explain wrong results, the most frequent first.

    The number of frames comes first. A vector that a mistake found before explains is counted there. Else options that
    are ignored are tried, and then :func:`kaldi_compat.explain`, as long as there are not too many. An error in finding
    mistakes leaves a vector without an explanation.
    """
    found: dict[str, Cause] = {}
    named: dict[str, Cause | None] = {}
    in_vain: Counter[str] = Counter()
    searched = 0
    for difference in differences:
        program, cause = difference.options["program"], None
        with contextlib.suppress(Exception):  # the scorecard must not be lost
            cause = _at_once(difference, found.values())
            if cause is None and searched < SEARCHES and in_vain[program] < FRUITLESS:
                searched += 1
                cause = _searched(difference)
                in_vain[program] += cause is None
        named[difference.id] = cause
        if cause is not None and cause.name:
            key = _without_numbers(cause.name) if cause.changes is None else cause.name
            found.setdefault(key, cause).vectors.append(difference.id)
    with contextlib.suppress(Exception):
        for difference in differences:
            if named[difference.id] is None:  # by causes that were found after it
                named[difference.id] = cause = _known(difference, found.values())
                if cause:
                    cause.vectors.append(difference.id)
        for difference in differences:
            if frames := _frames(difference, named[difference.id]):
                found.setdefault(_without_numbers(frames), Cause(frames)).vectors.append(difference.id)
        _join(found, {each.id: each for each in differences})
    unexplained = [each for each in differences if named[each.id] is None]
    return sorted([*found.values(), *_by_options(unexplained)], key=lambda cause: -len(cause.vectors))


def _at_once(difference: WrongResult, found: Iterable[Cause]) -> Cause | None:
    """Return the cause that needs no search: the shape, nothing but the frames, a known mistake, an ignored option."""
    shape, asked = difference.shape_in_words(), difference.asked
    if asked is None:
        return _stored(difference) or (Cause(f"{difference.options['program']}: {shape}") if shape else None)
    if difference.is_explained_by(asked):
        return Cause("", [], {})  # the values are right
    known = _known(difference, found)
    if not known and not shape and difference.is_explained_by(asked, outliers=30, share=0.95):
        return Cause("rounding, of a few values", [], {})
    return known or _ignored(difference, asked) or (Cause(shape) if shape else None)


def _frames(difference: WrongResult, cause: Cause | None) -> str:
    """Return in words the frames that a result has too many or too few, beyond what its cause makes of them."""
    asked = difference.asked
    if asked is None or (cause is not None and cause.changes is None):
        return ""
    made = difference.expected if cause is None else difference.computed(_changed(asked, cause.changes or {}))
    return difference.frames_in_words(made)


def _join(found: dict[str, Cause], differences: dict[str, WrongResult]) -> None:
    """Join a cause to one with a floor as well, if that explains its vectors, too: in loud audio nothing reaches it."""
    for less in [*found.values()]:
        for more in [*found.values()]:
            if less.changes and more.changes and (more.changes.keys() - less.changes.keys()) <= FLOORS:
                of_less = [differences[each] for each in less.vectors]
                if more is not less and all(_known(each, [more]) for each in of_less):
                    more.vectors.extend(found.pop(less.name).vectors)
                    break


def _by_options(unexplained: list[WrongResult]) -> Iterator[Cause]:
    """Yield the vectors that are not explained, by program and by the option that most of them have in common."""
    while unexplained:
        program = unexplained[0].options["program"]
        alike = [each for each in unexplained if each.options["program"] == program]
        counts = Counter(setting for each in alike for setting in each.changed)
        [(setting, _)] = counts.most_common(1) or [("", 0)]
        group = [each for each in alike if setting in each.changed] or alike
        yield Cause(f"not explained, {program}{setting and ' with '}{setting}", [each.id for each in group])
        done = {each.id for each in group}
        unexplained = [each for each in unexplained if each.id not in done]


def _known(difference: WrongResult, found: Iterable[Cause]) -> Cause | None:
    """Return the cause that explains a difference as well."""
    asked = difference.asked
    if asked is None:
        return None
    for cause in found:
        if cause.changes is not None:
            variant = _changed(asked, cause.changes)
            if cause.steps:
                steps = difference.steps_after(variant)
                if steps is not None and _without_numbers(steps) == _without_numbers(cause.steps):
                    return cause
            elif difference.is_explained_by(variant):
                return cause
    return None


def _without_numbers(words: str) -> str:
    return re.sub(r"[-+\d.e]*\d", "#", words)


def _ignored(difference: WrongResult, asked: FeatureModel) -> Cause | None:
    """Return the options whose defaults, in place of the values that are asked for, explain a result: one or all."""
    plain = FeatureModel(asked.kind)
    reset = {name: plain.value(name) for name in [*asked.options, "warp"] if asked.value(name) != plain.value(name)}
    for changes in (*({name: value} for name, value in reset.items()), reset):
        if changes and difference.is_explained_by(_changed(asked, changes)):
            changes = _fewest(difference, asked, changes)
            return Cause(_name(asked.kind, changes), [], changes)
    return None


def _stored(difference: WrongResult) -> Cause | None:
    """Return what an archive was to hold, and how; None for a feature."""
    options = difference.options
    if "object" not in options:
        return None
    method = options.get("compression_method", 0)
    how = ", as text" * (not options.get("binary", True)) + f", compression_method={method}" * bool(method)
    return Cause(f"{options['program']} of {options['object']}{how}: not Kaldi's")


def _changed(variant: FeatureModel, changes: dict[str, Any]) -> FeatureModel:
    for name, value in changes.items():
        variant = variant.changed(name, value)
    return variant


def _searched(difference: WrongResult) -> Cause | None:
    """Return what explain says of a result."""
    result, asked = difference.result, difference.asked
    rate = difference.options.get("sample_frequency") if asked else None
    given = difference.given if asked else difference.expected
    if asked:  # frames too many may be anything
        _, result, _ = difference.aligned(difference.expected)
    try:
        found = explain(result, given, rate, tolerance=difference.tolerance)
    except KaldiCompatError:
        return None
    only_frames = "too many at the" in found.left
    if not (found.is_exact or only_frames) or (found.steps and len(result) < FEWEST_FRAMES):
        return None
    if asked is None:
        return Cause(f"{difference.options['program']}: {'; '.join(found.steps) or 'equal'}")
    return _compared(difference, asked, found)


def _compared(difference: WrongResult, asked: FeatureModel, found: Explanation) -> Cause:
    """Return what distinguishes the front end that made a result from the one that was asked for."""
    made = found.variant if found.variant is not None else _model_of(found.preset)
    steps = [each for each in found.steps if not (each == MEAN and difference.options["subtract_mean"])]
    steps = [each for each in steps if not FRAMES.search(each)]
    if made is None or made.kind != asked.kind:
        return Cause(str(found).rpartition(":")[0])
    names = [*dict.fromkeys([*made.options, *asked.options]), *ATTRIBUTES]
    changes = {name: made.value(name) for name in names if made.value(name) != asked.value(name)}
    changes = _fewest(difference, asked, changes)
    model = _changed(asked, changes)
    after = "" if difference.is_explained_by(model) else difference.steps_after(model)
    said = [_name(asked.kind, changes), "; ".join(steps) if after is None else after]
    name = "; ".join(each for each in said if each) or "larger errors than of rounding"
    return Cause(name, [], None if after is None else changes, after or "")


def _name(kind: str, changes: dict[str, Any]) -> str:
    """Return changes in words; an option that has its default, where another value is asked for, is ignored."""
    plain = FeatureModel(kind)
    ignored = sorted(name for name, value in changes.items() if value == plain.value(name))
    told = _changed(plain, changes).settings()
    return ", ".join([*told, *([f"{', '.join(ignored)} ignored"] if ignored else [])])


def _model_of(preset: str | None) -> FeatureModel | None:
    """Return the feature of a preset that has no steps after it."""
    if preset is None or Preset.of(preset).steps:
        return None
    made = Preset.of(preset)
    return FeatureModel(made.feature, changed_options(made), scale=1.0 if made.sample_scale != 1 else 1 / 32768)


def _fewest(difference: WrongResult, asked: FeatureModel, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that each improve the fit by themselves: without one of them, the others do not explain it."""

    def explains(some: dict[str, Any]) -> bool:
        model = _changed(asked, some)
        return difference.is_explained_by(model) or (not plainly and difference.steps_after(model) is not None)

    plainly = difference.is_explained_by(_changed(asked, changes))
    for name in list(changes):
        fewer = {each: value for each, value in changes.items() if each != name}
        if explains(fewer):
            changes = fewer
    return changes
