"""Find what wrong results of an implementation have in common: the mistakes behind them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import KaldiCompatError
from kaldi_explain import fits
from kaldi_explain.arrangements import name_values
from kaldi_explain.explanation import Explanation, explain, explain_without_presets
from kaldi_explain.models import COUNTS, KINDS, PADDINGS, WORDS, FeatureModel

Array = npt.NDArray[Any]
FRAMES = re.compile(r"^\d+ frames? (left out|too many) at the")
SEARCHES = 12  # at most so many vectors are explained; the others are compared with what was found
FRUITLESS = 3  # so many searches in vain end those of a program
FEWEST = 5  # frames: less, and any step explains them
FLOORS = {"floor", "added", "span", "energy_floor"}
FEWEST_FRAMES = 20  # less, and a number for each column explains too much
MOST_SHIFT = 4  # frames that a result may have before Kaldi's first one, or lack
# Mistakes in reading samples of 16 bits, and what they do to samples.
SAMPLES: dict[str, Callable[[Array], Array]] = {
    "absolute values of the samples": lambda samples: np.abs(samples.astype(np.int32)),
    "the samples in reverse order": lambda samples: samples[::-1],
    "the bytes of the samples swapped": lambda samples: samples.byteswap(),
    "the samples as unsigned numbers": lambda samples: samples.view(np.uint16),
    "the first channel of samples taken as two": lambda samples: samples[::2],
}


@dataclass(frozen=True, eq=False)
class WrongResult:
    """A result of an implementation that is wrong."""

    id: str  # name of the vector
    options: dict[str, Any]  # Kaldi's program and options
    given: Array  # the input
    result: Array  # what the implementation gives
    expected: Array  # what Kaldi gives
    tolerance: float  # largest error, relative to values above 1, that is not wrong

    @property
    def requested(self) -> FeatureModel | None:
        """The feature that the options ask for; None where explain does not know the program."""
        kind = self.options["program"].removeprefix("compute-").removesuffix("-feats")
        if kind not in KINDS or self.given.dtype != np.int16 or self.options.get("output") == "frames-ready":
            return None
        known = {each.name for each in dataclasses.fields(KINDS[kind])} - {"sample_frequency", "dither"}
        options = {name: value for name, value in self.options.items() if name in known}
        plain = FeatureModel(kind, self.options["sample_frequency"], warp=self.options.get("vtln_warp", 1.0))
        return plain.change(options)

    def align(self, features: Array) -> tuple[Array, Array, str]:
        """Return the frames that a result and features have both, and in words which ones only one of them has."""
        result = self.result.astype(np.float64)
        more = len(result) - len(features)
        if not more or result.ndim != 2 or features.shape[1:] != result.shape[1:] or not features.size:
            return features, result, ""
        shift = 0
        if min(len(features), len(result)) >= FEWEST:
            shift = fits.best_shift(features.astype(np.float64), result, most=min(MOST_SHIFT, abs(more)))
        said = " and ".join(fits.frames_in_words({"start": -shift, "end": more + shift}))
        return *fits.overlap(features, result, shift), said and f"{said}: {len(result)}, not {len(features)}"

    def shape_in_words(self) -> str:
        """Return in words what is wrong with the shape of a result, other than the number of frames."""
        have, want = self.result.shape, self.expected.shape
        only_frames = len(have) == len(want) and (len(have) < 2 or have[1:] == want[1:]) and self.requested is not None
        turned = ", as if transposed" if have == want[::-1] else ""
        return "" if have == want or only_frames else f"the shape is {have}, not {want}{turned}"

    def is_explained_by(self, model: FeatureModel, outliers: float = 3, share: float = 0.99) -> bool:
        """Return True if a model gives a share of the result, and the rest within so many times the tolerance."""
        features, result, _ = self.align(self.compute(model))
        return self.is_close(features, result, outliers, share)

    def is_close(self, features: Array, result: Array, outliers: float = 3, share: float = 0.99) -> bool:
        """Return True if a share of a result equals features, and the rest within so many times the tolerance."""
        if features.shape != result.shape or not features.size:
            return False
        error = self.errors(features, result)
        return bool((error <= self.tolerance).mean() >= share and error.max() <= outliers * self.tolerance)

    @staticmethod
    def errors(features: Array, result: Array) -> Array:
        """Return the errors of a result, relative to features above 1; infinite where one of both is not finite."""
        with np.errstate(all="ignore"):
            error = np.abs(result.astype(np.float64) - features) / np.maximum(1, np.abs(features))
        error[~np.isfinite(error)] = np.inf
        error[result == features] = 0
        return error

    def steps_after(self, model: FeatureModel) -> str | None:
        """Return in words what makes the result of a model, such as an offset; None if no simple step does."""
        first, second, _ = self.align(self.compute(model).astype(np.float64))
        if first.shape != second.shape or len(first) < FEWEST:
            return None
        fit = fits.simplest(first, second, self.tolerance)
        limit = self.tolerance * max(1.0, float(np.abs(second).max()) / 100)
        return None if fit.words >= fits.WORDS_PER_COLUMN or fit.residual > limit else fit.name

    def compute(self, model: FeatureModel) -> Array:
        """Compute a feature of the input; an array without frames if there is none."""
        try:
            features = model.compute(self.given.astype(np.float32))
        except (KaldiCompatError, ValueError):
            return np.zeros((0, 0), np.float32)
        return features - features.mean(0) if self.options["subtract_mean"] else features


@dataclass
class Cause:
    """A mistake, and the vectors that it explains."""

    name: str  # the mistake in words; "" if the values are right
    vectors: list[str] = field(default_factory=list)  # names of the vectors
    # the options and attributes of a model that it changes; None if only words are known
    changes: dict[str, Any] | None = None
    steps: str = ""  # what is done to the feature then, in words

    def __str__(self) -> str:
        count = len(self.vectors)
        return f"{self.name}: {count} vector{'s' * (count > 1)}, such as {self.vectors[0]}"

    @property
    def key(self) -> str:
        """The name; without numbers, which differ from vector to vector, if only words are known."""
        return _without_numbers(self.name) if self.changes is None else self.name

    def explains(self, difference: WrongResult) -> bool:
        """Return True if it explains another vector as well."""
        requested = difference.requested
        if requested is None or (not self.changes and not self.steps):
            return False
        model = requested.change(self.changes or {})
        if not self.steps:
            return difference.is_explained_by(model)
        return _without_numbers(difference.steps_after(model) or "") == _without_numbers(self.steps)


def causes(differences: Sequence[WrongResult]) -> list[Cause]:
    """Return the mistakes that explain wrong results, the most frequent first.

    The number of frames comes first. A vector that a mistake found before explains is counted there. Else options that
    are ignored are tried, and then :func:`kaldi_explain.explain`, if there are not too many. An error in finding
    mistakes leaves a vector without an explanation.
    """
    found: dict[str, Cause] = {}
    unexplained: list[WrongResult] = []
    in_vain: Counter[str] = Counter()
    searches = 0
    for difference in differences:
        program, cause = difference.options["program"], None
        with contextlib.suppress(Exception):  # the scorecard must not be lost
            cause = _right_values(difference) or _known(difference, found.values()) or _without_search(difference)
            if cause is None and searches < SEARCHES and in_vain[program] < FRUITLESS:
                searches += 1
                cause = _search(difference)
                in_vain[program] += cause is None
        if cause is None:
            unexplained.append(difference)
        else:
            found.setdefault(cause.key, cause).vectors.append(difference.id)
    with contextlib.suppress(Exception):
        for difference in [*unexplained]:
            if cause := _known(difference, found.values()):  # by causes that were found after it
                cause.vectors.append(difference.id)
                unexplained.remove(difference)
        _add_frames(found, differences)
        _join(found, {each.id: each for each in differences})
    named = [each for each in found.values() if each.name]
    return sorted([*named, *_by_options(unexplained)], key=lambda cause: -len(cause.vectors))


def _right_values(difference: WrongResult) -> Cause | None:
    """Return a cause without a name if the values are right, whatever the frames."""
    requested = difference.requested
    return Cause("", changes={}) if requested and difference.is_explained_by(requested) else None


def _known(difference: WrongResult, found: Iterable[Cause]) -> Cause | None:
    return next((each for each in found if each.explains(difference)), None)


def _without_search(difference: WrongResult) -> Cause | None:
    """Return the cause that needs no search: the shape, nothing but the frames, an ignored option, or rounding."""
    shape, requested, options = difference.shape_in_words(), difference.requested, difference.options
    if cause := _not_finite(difference):
        return cause
    if requested is None and "object" in options:
        method = options.get("compression_method", 0)
        how = ", as text" * (not options.get("binary", True)) + f", compression_method={method}" * bool(method)
        return Cause(f"{options['program']} of {options['object']}{how}: not Kaldi's")
    if requested is None:
        return Cause(f"{options['program']}: {shape}") if shape else None
    if not shape and difference.is_explained_by(requested, outliers=30, share=0.95):
        return Cause("rounding, of a few values")
    cause = _ignored(difference, requested) or _rearranged(difference) or _other_samples(difference, requested)
    return cause or ((_other_count(difference, requested) or Cause(shape)) if shape else None)


def _not_finite(difference: WrongResult) -> Cause | None:
    """Return NaN or infinity as the cause, if a result has it and Kaldi's has not."""
    for name, is_odd in (("NaN", np.isnan), ("infinity", np.isinf)):
        if (
            difference.result.dtype.kind == "f"
            and is_odd(difference.result).any()
            and not is_odd(difference.expected).any()
        ):
            places = is_odd(difference.result)
            return Cause(f"{name} in {'all' if places.all() else 'some'} values")
    return None


def _rearranged(difference: WrongResult) -> Cause | None:
    """Return the order of columns or frames as the cause: reversed, or a shift of a few frames."""
    expected, result = difference.expected, difference.result
    if expected.shape != result.shape or expected.ndim != 2:
        return None
    for name, made in (("columns", expected[:, ::-1]), ("frames", expected[::-1])):
        if difference.is_close(made, result):
            return Cause(f"the {name} in reverse order")
    for shift in range(1, min(MOST_SHIFT, len(expected) - FEWEST) + 1):
        for words, first, second in (
            ("earlier", expected[shift:], result[:-shift]), ("later", expected[:-shift], result[shift:])
        ):  # fmt: skip
            if difference.is_close(first, second):
                return Cause(f"all frames are {shift} frame{'s' * (shift > 1)} {words} than they should be")
    return None


def _other_samples(difference: WrongResult, requested: FeatureModel) -> Cause | None:
    """Return as the cause what was done to the samples."""
    for name, change in SAMPLES.items():
        with np.errstate(all="ignore"):
            changed = dataclasses.replace(difference, given=change(difference.given))
        if changed.is_explained_by(requested):
            return Cause(name)
    return None


def _ignored(difference: WrongResult, requested: FeatureModel) -> Cause | None:
    """Return the options whose defaults, in place of the values that are asked for, explain a result: one or all."""
    reset = {name: requested.default(name) for name in [*requested.options, "warp"]}
    reset = {name: value for name, value in reset.items() if value != requested.value(name)}
    for changes in (*({name: value} for name, value in reset.items()), reset):
        if changes and difference.is_explained_by(requested.change(changes)):
            changes = _fewest(difference, requested, changes)
            return Cause(_name(requested, changes), changes=changes)
    return None


def _other_count(difference: WrongResult, requested: FeatureModel) -> Cause | None:
    """Return another number of cepstra or mel bins as the cause, if a result has exactly these."""
    name = next((each for each in COUNTS if requested.default(each) is not None), None)
    changes = {name: difference.result.shape[-1]} if name and difference.result.ndim else {}
    is_explained = bool(changes) and difference.is_explained_by(requested.change(changes))
    return Cause(_name(requested, changes), changes=changes) if is_explained else None


def _search(difference: WrongResult) -> Cause | None:
    """Return what explain says of a result."""
    result, requested, given = difference.result, difference.requested, difference.given
    if requested:  # frames too many may be anything
        _, result, _ = difference.align(difference.expected)
    else:
        given = difference.expected
    try:
        found = (
            explain_without_presets(result, given, requested.rate, difference.tolerance)
            if requested
            else explain(result, given, tolerance=difference.tolerance)
        )
    except KaldiCompatError:
        return None
    only_frames = "too many at the" in found.left
    if not (found.is_exact or only_frames) or (found.steps and len(result) < FEWEST_FRAMES):
        return None
    if requested is None:
        return Cause(f"{difference.options['program']}: {'; '.join(found.steps) or 'equal'}")
    return _compare(difference, requested, found)


def _compare(difference: WrongResult, requested: FeatureModel, found: Explanation) -> Cause:
    """Return what distinguishes the front end that made a result from the one that was asked for."""
    made = found.variant
    if made is None or made.kind != requested.kind:
        return Cause(str(found).rpartition(":")[0])
    names = dict.fromkeys([*made.options, *requested.options, *WORDS])
    changes = {name: made.value(name) for name in names if made.value(name) != requested.value(name)}
    if "padding" in changes:  # explain has not seen the frames beyond Kaldi's, which show how the audio is padded
        paddings = (changes | {"padding": each} for each in PADDINGS)
        changes = next((each for each in paddings if difference.is_explained_by(requested.change(each))), changes)
    changes = _fewest(difference, requested, changes)
    model = requested.change(changes)
    after = "" if difference.is_explained_by(model) else difference.steps_after(model)
    if after is not None:
        said = "; ".join(each for each in (_name(requested, changes), after) if each)
        return Cause(said, changes=changes, steps=after) if said else _some_values(difference, model)
    steps = [each for each in found.steps if not FRAMES.search(each)]
    steps = [each for each in steps if each != fits.MEAN or not difference.options["subtract_mean"]]
    said = "; ".join([*filter(None, [_name(requested, changes)]), *steps])
    return Cause(said) if said else _some_values(difference, model)


def _some_values(difference: WrongResult, model: FeatureModel) -> Cause:
    """Return the places of errors that are larger than those of rounding as the cause."""
    features, result, _ = difference.align(difference.compute(model))
    if features.shape != result.shape:
        return Cause("larger errors than of rounding")
    return Cause(
        f"larger errors than of rounding in {name_values(difference.errors(features, result) > difference.tolerance)}"
    )


def _fewest(difference: WrongResult, requested: FeatureModel, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that each improve the fit by themselves: without one of them, the others do not explain it."""
    plainly = difference.is_explained_by(requested.change(changes))
    for name in list(changes):
        fewer = {each: value for each, value in changes.items() if each != name}
        model = requested.change(fewer)
        if difference.is_explained_by(model) or (not plainly and difference.steps_after(model) is not None):
            changes = fewer
    return changes


def _name(requested: FeatureModel, changes: dict[str, Any]) -> str:
    """Return changes in words; an option that has its default, where another value is asked for, is ignored."""
    ignored = sorted(name for name, value in changes.items() if value == requested.default(name))
    settings = FeatureModel(requested.kind).change(changes).settings()
    return ", ".join([*settings, *([f"{', '.join(ignored)} ignored"] if ignored else [])])


def _add_frames(found: dict[str, Cause], differences: Sequence[WrongResult]) -> None:
    """Add the frames that results have too many or too few, beyond what their causes make of them."""
    of = {vector: cause for cause in found.values() for vector in cause.vectors}
    for difference in differences:
        cause, requested = of.get(difference.id), difference.requested
        if requested is None or (cause is not None and cause.changes is None):
            continue
        made = difference.expected if cause is None else difference.compute(requested.change(cause.changes or {}))
        if frames := difference.align(made)[2]:
            found.setdefault(_without_numbers(frames), Cause(frames)).vectors.append(difference.id)


def _join(found: dict[str, Cause], differences: dict[str, WrongResult]) -> None:
    """Join a cause to one with a floor as well, if that explains its vectors, too: in loud audio nothing reaches it."""
    for less, more in itertools.permutations([*found.values()], 2):
        if not less.changes or not more.changes or not {less.name, more.name} <= found.keys():
            continue
        has_floor = more.changes.keys() - less.changes.keys() <= FLOORS
        if has_floor and all(more.explains(differences[each]) for each in less.vectors):
            more.vectors.extend(found.pop(less.name).vectors)


def _by_options(unexplained: list[WrongResult]) -> Iterator[Cause]:
    """Yield the vectors that are not explained, by program and by the option that most of them have in common."""
    while unexplained:
        program = unexplained[0].options["program"]
        alike = [each for each in unexplained if each.options["program"] == program]
        settings = {each.id: each.requested.settings() if each.requested else [] for each in alike}
        counts = Counter(setting for each in alike for setting in settings[each.id])
        [(setting, _)] = counts.most_common(1) or [("", 0)]
        group = [each for each in alike if setting in settings[each.id]] or alike
        yield Cause(f"not explained, {program}{setting and ' with '}{setting}", [each.id for each in group])
        unexplained = [each for each in unexplained if each not in group]


def _without_numbers(words: str) -> str:
    return re.sub(r"[-+\d.e]*\d", "#", words)
