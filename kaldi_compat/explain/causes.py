"""Find what wrong results of an implementation have in common: the mistakes behind them."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.explain import fits
from kaldi_compat.explain.explanation import Explanation, explain
from kaldi_compat.explain.models import KINDS
from kaldi_compat.explain.models import FeatureModel as Variant
from kaldi_compat.frontends.description import changed_options
from kaldi_compat.frontends.preset import Preset

Array = npt.NDArray[Any]
MEAN = "minus the mean of each column over the recording"
SEARCHES = 20  # at most so many vectors are explained; the others are compared with what was found
FRUITLESS = 3  # so many searches in vain end those of a program
FEWEST = 5  # frames: less, and any step explains them
FRAMES_AT_END = {1: "1 frame too many at the end", -1: "1 frame left out at the end"}
FLOORS = {"floor", "added", "span", "energy_floor"}
FEWEST_FRAMES = 20  # less, and a number for each column explains too much
ATTRIBUTES = [each.name for each in dataclasses.fields(Variant) if each.name not in ("kind", "options")]


@dataclass(frozen=True)
class Difference:
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
    def asked(self) -> Variant | None:
        """The variant that the options ask for; None where explain does not know the program."""
        kind = self.options["program"].removeprefix("compute-").removesuffix("-feats")
        if kind not in KINDS or self.given.dtype != np.int16 or self.options.get("output") == "frames-ready":
            return None
        known = {each.name for each in dataclasses.fields(KINDS[kind])} - {"sample_frequency", "dither"}
        options = {name: value for name, value in self.options.items() if name in known}
        return Variant(kind, options, warp=self.options.get("vtln_warp", 1.0))

    @property
    def changed(self) -> list[str]:
        """The options of a feature that are not Kaldi's defaults."""
        asked = self.asked
        if asked is None:
            return []
        plain = Variant(asked.kind)
        return [f"{name}={value!r}" for name, value in asked.options.items() if value != plain.value(name)]

    def is_explained_by(self, variant: Variant, outliers: float = 3, share: float = 0.99) -> bool:
        """Return True if a variant gives a share of the result, and the rest within so many times the tolerance."""
        features = self._computed(variant)
        if features.shape != self.result.shape:
            return False
        error = np.abs(self.result.astype(np.float64) - features) / np.maximum(1, np.abs(features))
        return bool(np.quantile(error, share) <= self.tolerance and error.max() <= outliers * self.tolerance)

    def steps_after(self, variant: Variant) -> str | None:
        """Return in words what makes the result of a variant, such as an offset; None if no simple step does."""
        features = self._computed(variant).astype(np.float64)
        more = len(self.result) - len(features)
        first, second = fits.overlap(features, self.result.astype(np.float64), 0)
        if features.shape[1:] != self.result.shape[1:] or len(first) < FEWEST or abs(more) > 1:
            return None
        fit = fits.simplest(first, second, self.tolerance)
        if fit.words >= fits.OF_COLUMNS or fit.residual > self.tolerance * max(1.0, float(np.abs(second).max()) / 100):
            return None
        return "; ".join(each for each in (fit.name, FRAMES_AT_END.get(more, "")) if each)

    def _computed(self, variant: Variant) -> Array:
        """Compute a variant of the feature; an array without frames if there is none."""
        try:
            features = variant.compute(self.given.astype(np.float32), self.options["sample_frequency"])
        except KaldiCompatError:
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


def causes(differences: Sequence[Difference]) -> list[Cause]:
    """Return the mistakes that explain wrong results, the most frequent first.

    A vector that a mistake found before explains is counted there. Else options that are ignored are tried, and then
    :func:`kaldi_compat.explain`, as long as there are not too many.
    """
    found: dict[str, Cause] = {}
    unexplained: list[Difference] = []
    searched = 0
    in_vain: Counter[str] = Counter()
    for difference in differences:
        cause = _stored(difference) or _known(difference, found.values()) or _rounding(difference)
        cause = cause or _ignored(difference)
        program = difference.options["program"]
        if cause is None and searched < SEARCHES and in_vain[program] < FRUITLESS:
            searched += 1
            cause = _searched(difference)
            in_vain[program] += cause is None
        if cause is None:
            unexplained.append(difference)
        else:
            found.setdefault(cause.name, cause).vectors.append(difference.id)
    for difference in [*unexplained]:  # by causes that were found after it
        if cause := _known(difference, found.values()):
            found[cause.name].vectors.append(difference.id)
            unexplained.remove(difference)
    _join(found, {each.id: each for each in differences})
    return sorted([*found.values(), *_by_options(unexplained)], key=lambda cause: -len(cause.vectors))


def _join(found: dict[str, Cause], differences: dict[str, Difference]) -> None:
    """Join a cause to one with a floor as well, if that explains its vectors, too: in loud audio nothing reaches it."""
    for less in [*found.values()]:
        for more in [*found.values()]:
            if less.changes and more.changes and (more.changes.keys() - less.changes.keys()) <= FLOORS:
                of_less = [differences[each] for each in less.vectors]
                if more is not less and all(_known(each, [more]) for each in of_less):
                    more.vectors.extend(found.pop(less.name).vectors)
                    break


def _by_options(unexplained: list[Difference]) -> Iterator[Cause]:
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


def _known(difference: Difference, found: Iterable[Cause]) -> Cause | None:
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


def _rounding(difference: Difference) -> Cause | None:
    asked = difference.asked
    if asked is None or not difference.is_explained_by(asked, outliers=30, share=0.95):
        return None
    return Cause("rounding, of a few values", [], {})


def _ignored(difference: Difference) -> Cause | None:
    """Return the options whose defaults, in place of the values that are asked for, explain a result: one or all."""
    asked = difference.asked
    if asked is None:
        return None
    plain = Variant(asked.kind)
    reset = {name: plain.value(name) for name in [*asked.options, "warp"] if asked.value(name) != plain.value(name)}
    for changes in (*({name: value} for name, value in reset.items()), reset):
        if changes and difference.is_explained_by(_changed(asked, changes)):
            changes = _fewest(difference, asked, changes)
            return Cause(_name(asked.kind, changes), [], changes)
    return None


def _stored(difference: Difference) -> Cause | None:
    """Return what an archive was to hold, and how; None for a feature."""
    options = difference.options
    if "object" not in options:
        return None
    method = options.get("compression_method", 0)
    how = ", as text" * (not options.get("binary", True)) + f", compression_method={method}" * bool(method)
    return Cause(f"{options['program']} of {options['object']}{how}: not Kaldi's")


def _changed(variant: Variant, changes: dict[str, Any]) -> Variant:
    for name, value in changes.items():
        variant = variant.changed(name, value)
    return variant


def _searched(difference: Difference) -> Cause | None:
    """Return what explain says of a result."""
    result, asked = difference.result, difference.asked
    rate = difference.options.get("sample_frequency") if asked else None
    given = difference.given if asked else difference.expected
    if result.shape != difference.expected.shape and asked is None:
        shapes = f"the shape is {result.shape}, not {difference.expected.shape}"
        return Cause(f"{difference.options['program']}: {shapes}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = explain(result, given, rate, tolerance=difference.tolerance)
    except KaldiCompatError:
        return None
    if not found.is_exact or (found.steps and len(result) < FEWEST_FRAMES):
        return None
    if asked is None:
        return Cause(f"{difference.options['program']}: {'; '.join(found.steps) or 'equal'}")
    return _compared(difference, asked, found)


def _compared(difference: Difference, asked: Variant, found: Explanation) -> Cause:
    """Return what distinguishes the front end that made a result from the one that was asked for."""
    made = found.variant if found.variant is not None else _variant_of(found.preset)
    steps = [step for step in found.steps if not (step == MEAN and difference.options["subtract_mean"])]
    words = "; ".join(steps)
    if made is None or made.kind != asked.kind:
        return Cause(str(found).rpartition(":")[0])
    names = [*dict.fromkeys([*made.options, *asked.options]), *ATTRIBUTES]
    changes = {name: made.value(name) for name in names if made.value(name) != asked.value(name)}
    if not steps:
        changes = _fewest(difference, asked, changes)
    after = (difference.steps_after(_changed(asked, changes)) or "") if steps else ""
    name = "; ".join(part for part in (_name(asked.kind, changes), after or words) if part)
    return Cause(name or "larger errors than of rounding", [], changes if after or not steps else None, after)


def _name(kind: str, changes: dict[str, Any]) -> str:
    """Return changes in words; an option that has its default, where another value is asked for, is ignored."""
    plain = Variant(kind)
    ignored = sorted(name for name, value in changes.items() if value == plain.value(name))
    told = _changed(plain, changes).settings()
    return ", ".join([*told, *([f"{', '.join(ignored)} ignored"] if ignored else [])])


def _variant_of(preset: str | None) -> Variant | None:
    """Return the feature of a preset that has no steps after it."""
    if preset is None or Preset.of(preset).steps:
        return None
    made = Preset.of(preset)
    return Variant(made.feature, changed_options(made), scale=1.0 if made.sample_scale != 1 else 1 / 32768)


def _fewest(difference: Difference, asked: Variant, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes without those that do not matter."""
    for name in list(changes):
        fewer = {each: value for each, value in changes.items() if each != name}
        if difference.is_explained_by(_changed(asked, fewer)):
            changes = fewer
    return changes
