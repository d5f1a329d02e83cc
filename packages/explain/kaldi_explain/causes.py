"""Find the mistakes that wrong results of an implementation have in common."""

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
from kaldi_explain.models import COUNTS, KINDS, FeatureModel
from kaldi_explain.options import TABLE, list_values
from kaldi_explain.thresholds import THRESHOLDS

Array = npt.NDArray[Any]
FRAMES = re.compile(r"^\d+ frames? (left out|too many) at the")  # Matches a step that only counts frames.
ROUNDING = "rounding errors in a few values"
LEVELS = {"floor", "added", "span", "energy_floor"}  # Options that affect only quiet cells.
# Mistakes in reading 16-bit samples: functions that convert the right samples (T,) to the wrong samples.
SAMPLE_MISTAKES: dict[str, Callable[[Array], Array]] = {
    "absolute values of the samples": lambda samples: np.abs(samples.astype(np.int32)),
    "the samples in reverse order": lambda samples: samples[::-1],
    "the bytes of the samples swapped": lambda samples: samples.byteswap(),
    "the samples as unsigned numbers": lambda samples: samples.view(np.uint16),
    "the first channel of samples taken as two": lambda samples: samples[::2],
}


@dataclass(frozen=True, eq=False)
class WrongResult:
    """A wrong result of an implementation for a vector of the conformance kit, which is an input with Kaldi's output.

    Attributes:
        id: name of the vector.
        options: Kaldi's options by name, and the name of Kaldi's program under "program".
        given: the input of the implementation.
        result: the array that the implementation returns.
        expected: Kaldi's output.
        tolerance: largest accepted error, as :meth:`measure_errors` returns it.
    """

    id: str
    options: dict[str, Any]
    given: Array
    result: Array
    expected: Array
    tolerance: float

    @property
    def requested_model(self) -> FeatureModel | None:
        """Model of the requested spectral features. None for any other request, and for input that is not int16."""
        kind = self.options["program"].removeprefix("compute-").removesuffix("-feats")
        if kind not in KINDS or self.given.dtype != np.int16 or self.options.get("output") == "frames-ready":
            return None
        option_names = {option.name for option in dataclasses.fields(KINDS[kind])} - {"sample_frequency", "dither"}
        options = {name: value for name, value in self.options.items() if name in option_names}
        plain = FeatureModel(kind, self.options["sample_frequency"], warp=self.options.get("vtln_warp", 1.0))
        return plain.change(options)

    def align(self, features: Array) -> tuple[Array, Array, str]:
        """Return the common frames of ``features`` and of the result, and a description of missing or added frames.

        If the result has n frames more or fewer than ``features``, and neither has fewer than five frames, the result
        may begin up to min(n, 4) frames earlier or later than ``features``. Return both arrays unchanged, with "", if
        they are equally long, if they do not have the same number of columns, or if ``features`` is empty.
        """
        result = self.result.astype(np.float64)
        is_comparable = result.ndim == 2 and features.shape[1:] == result.shape[1:] and features.size > 0
        if not is_comparable or len(result) == len(features):
            return features, result, ""
        extra_count, shift = len(result) - len(features), 0
        if min(len(features), len(result)) >= THRESHOLDS.few_frames:
            max_shift = min(THRESHOLDS.shift, abs(extra_count))
            shift = fits.find_best_shift(features.astype(np.float64), result, max_deviation=max_shift)
        places = " and ".join(fits.describe_frame_counts({"start": -shift, "end": extra_count + shift}))
        description = places and f"{places}: {len(result)}, not {len(features)}"
        return *fits.select_common_frames(features, result, shift), description

    def describe_shape(self) -> str:
        """Describe the result's shape if it is wrong, or return "". Spectral features may have any number of frames."""
        shape, expected = self.result.shape, self.expected.shape
        is_same_width = len(shape) == len(expected) and (len(shape) < 2 or shape[1:] == expected[1:])
        hint = ", as if transposed" if shape == expected[::-1] else ""
        is_right = shape == expected or (is_same_width and self.requested_model is not None)
        return "" if is_right else f"the shape is {shape}, not {expected}{hint}"

    def is_explained_by(self, model: FeatureModel, max_ratio: float = 3, min_share: float = 0.99) -> bool:
        """Return True if the common frames of a model's features and of the result are close (:meth:`is_close`)."""
        features, result, _ = self.align(self.compute_features(model))
        return self.is_close(features, result, max_ratio, min_share)

    def is_close(self, features: Array, result: Array, max_ratio: float = 3, min_share: float = 0.99) -> bool:
        """Return True if ``result`` equals ``features`` within the tolerance, except for a few larger errors.

        At least the share ``min_share`` of the errors (:meth:`measure_errors`) must be within the tolerance, and all
        errors within ``max_ratio`` times the tolerance. Empty arrays and arrays of different shapes are not close.
        """
        if features.shape != result.shape or not features.size:
            return False
        errors = self.measure_errors(features, result)
        return bool((errors <= self.tolerance).mean() >= min_share and errors.max() <= max_ratio * self.tolerance)

    @staticmethod
    def measure_errors(features: Array, result: Array) -> Array:
        """Return the absolute errors of ``result``. An error is divided by the feature's magnitude if this is above 1.

        If the feature or the result is NaN or infinite, the error is infinite, or 0 for equal infinities.
        """
        with np.errstate(all="ignore"):
            errors = np.abs(result.astype(np.float64) - features) / np.maximum(1, np.abs(features))
        errors[~np.isfinite(errors)] = np.inf
        errors[result == features] = 0
        return errors

    def describe_map(self, model: FeatureModel) -> str | None:
        """Describe the map from a model's features to the result, such as "plus 1", or return "" if they agree.

        Return None if the numbers of columns differ, if there are fewer than five common frames, or if no map fits that
        has the same numbers for all columns.
        """
        features, result, _ = self.align(self.compute_features(model).astype(np.float64))
        if features.shape != result.shape or len(features) < THRESHOLDS.few_frames:
            return None
        fit = fits.find_simplest_map(features, result, self.tolerance)
        # As in explain, the tolerance is proportionally larger for features above 100.
        max_residual = self.tolerance * max(1.0, float(np.abs(result).max()) / 100)
        return None if fit.word_count >= fits.COLUMN_WORDS or fit.residual > max_residual else fit.name

    def compute_features(self, model: FeatureModel) -> Array:
        """Compute a model's features (frames, dim) of the input, and apply the option ``subtract_mean``.

        Return an array (0, 0) if the model refuses an option, or needs longer audio for its padding.
        """
        try:
            features = model.compute(self.given.astype(np.float32))
        except (KaldiCompatError, ValueError):
            return np.zeros((0, 0), np.float32)
        return features - features.mean(0) if self.options["subtract_mean"] else features


@dataclass
class Cause:
    """A mistake of an implementation, and the vectors whose wrong results it explains.

    Attributes:
        name: description of the mistake. "" if only the number of frames is wrong.
        vectors: names of the vectors.
        changes: new values, by name, of the requested model's options and attributes. None if they are unknown.
        map_name: description of the map from the changed model's features to the result. "" if they agree.
    """

    name: str
    vectors: list[str] = field(default_factory=list)
    changes: dict[str, Any] | None = None
    map_name: str = ""

    def __str__(self) -> str:
        count = len(self.vectors)
        return f"{self.name}: {count} vector{'s' * (count > 1)}, such as {self.vectors[0]}"

    @property
    def key(self) -> str:
        """Key that causes of the same mistake share: :attr:`name`, without its numbers if :attr:`changes` is None."""
        return _replace_numbers(self.name) if self.changes is None else self.name

    def explains(self, wrong_result: WrongResult) -> bool:
        """Return True if the changes and the map of this cause also explain ``wrong_result``.

        The map may have different numbers, such as an offset of 2 instead of 1. Return False if the cause has neither
        changes nor a map, or if ``wrong_result`` has no requested model.
        """
        requested = wrong_result.requested_model
        if requested is None or (not self.changes and not self.map_name):
            return False
        model = requested.change(self.changes or {})
        if not self.map_name:
            return wrong_result.is_explained_by(model)
        return _replace_numbers(wrong_result.describe_map(model) or "") == _replace_numbers(self.map_name)


def find_causes(wrong_results: Sequence[WrongResult]) -> list[Cause]:
    """Return the causes of wrong results, in descending order of the number of vectors.

    For each result, rounding errors are tried first, then the causes of earlier results, then mistakes that need no
    search, and then, for a limited number of results, a search with :func:`kaldi_explain.explain`. A wrong number of
    frames is a separate cause. The remaining results are grouped by options, as causes named "not explained, ...".
    """
    known: dict[str, Cause] = {}
    unexplained: list[WrongResult] = []
    search_count, fruitless_counts = 0, Counter[str]()  # Numbers of searches, and of searches in vain by program.
    for wrong_result in wrong_results:
        program, cause = wrong_result.options["program"], None
        with contextlib.suppress(Exception):  # An error must not prevent the scorecard.
            cause = _find_right_values(wrong_result) or _find_known_cause(wrong_result, known.values())
            cause = cause or _find_without_search(wrong_result)
            may_search = fruitless_counts[program] < THRESHOLDS.fruitless_searches
            if cause is None and may_search and search_count < THRESHOLDS.searches:
                search_count += 1
                cause = _search_cause(wrong_result)
                fruitless_counts[program] += cause is None
        if cause is None:
            unexplained.append(wrong_result)
        else:
            known.setdefault(cause.key, cause).vectors.append(wrong_result.id)
    with contextlib.suppress(Exception):
        for wrong_result in [*unexplained]:
            # A cause that a search found later, for another vector, may explain this vector as well.
            if cause := _find_known_cause(wrong_result, known.values()):
                cause.vectors.append(wrong_result.id)
                unexplained.remove(wrong_result)
        _add_frame_causes(known, wrong_results)
        _merge_causes(known, {wrong_result.id: wrong_result for wrong_result in wrong_results})
    named = [cause for cause in known.values() if cause.name]
    return sorted([*named, *_group_by_options(unexplained)], key=lambda cause: -len(cause.vectors))


def _find_right_values(wrong_result: WrongResult) -> Cause | None:
    """Return a cause if a result and the requested features agree in their common frames, or else None.

    If the number of frames is right, the cause is :data:`ROUNDING`. Otherwise, the cause has no name and is not
    reported, because :func:`_add_frame_causes` reports the wrong number of frames.
    """
    requested = wrong_result.requested_model
    if requested is None or not wrong_result.is_explained_by(requested):
        return None
    return Cause(ROUNDING) if len(wrong_result.result) == len(wrong_result.expected) else Cause("", changes={})


def _find_known_cause(wrong_result: WrongResult, known: Iterable[Cause]) -> Cause | None:
    return next((cause for cause in known if cause.explains(wrong_result)), None)


def _find_without_search(wrong_result: WrongResult) -> Cause | None:
    """Return a cause that is found without a search, such as NaN, an ignored option or a wrong shape, or else None.

    Without a requested model, only NaN, infinity, a wrong shape and a wrong object in Kaldi's format are found. The
    cause of a wrong object names the program, the object and the format, but not the mistake.
    """
    shape_error, requested, options = wrong_result.describe_shape(), wrong_result.requested_model, wrong_result.options
    if cause := _find_nonfinite_values(wrong_result):
        return cause
    if requested is None and "object" in options:
        method = options.get("compression_method", 0)
        form = ", as text" * (not options.get("binary", True)) + f", compression_method={method}" * bool(method)
        name = f"{options['program']} of {options['object']}{form}: the result differs from Kaldi's"
        return Cause(name, changes={})  # With changes, the key keeps the number that tells compression methods apart.
    if requested is None:
        return Cause(f"{options['program']}: {shape_error}") if shape_error else None
    # Rounding errors may be larger in a few values, such as logarithms of quiet bins.
    if not shape_error and wrong_result.is_explained_by(requested, max_ratio=30, min_share=0.95):
        return Cause(ROUNDING)
    cause = _find_ignored_options(wrong_result, requested) or _find_wrong_order(wrong_result)
    cause = cause or _find_sample_mistake(wrong_result, requested)
    if cause is None and shape_error:
        return _find_wrong_count(wrong_result, requested) or Cause(shape_error)
    return cause


def _find_nonfinite_values(wrong_result: WrongResult) -> Cause | None:
    """Return a cause if a result contains NaN or infinity, and Kaldi's output lacks this value, or else None."""
    if wrong_result.result.dtype.kind != "f":
        return None
    for name, find_special in (("NaN", np.isnan), ("infinity", np.isinf)):
        is_special = find_special(wrong_result.result)
        if is_special.any() and not find_special(wrong_result.expected).any():
            return Cause(f"{name} in {'all' if is_special.all() else 'some'} values")
    return None


def _find_wrong_order(wrong_result: WrongResult) -> Cause | None:
    """Return a cause if columns or frames are reversed, or all frames are 1 to 4 frames early or late, or else None."""
    expected, result = wrong_result.expected, wrong_result.result
    if expected.shape != result.shape or expected.ndim != 2:
        return None
    for name, reversed_array in (("columns", expected[:, ::-1]), ("frames", expected[::-1])):
        if wrong_result.is_close(reversed_array, result):
            return Cause(f"the {name} in reverse order")
    for shift in range(1, min(THRESHOLDS.shift, len(expected) - THRESHOLDS.few_frames) + 1):
        is_earlier = wrong_result.is_close(expected[shift:], result[:-shift])
        if is_earlier or wrong_result.is_close(expected[:-shift], result[shift:]):
            direction = "earlier" if is_earlier else "later"
            return Cause(f"all frames are {shift} frame{'s' * (shift > 1)} {direction} than they should be")
    return None


def _find_sample_mistake(wrong_result: WrongResult, requested: FeatureModel) -> Cause | None:
    """Return a cause for the first of :data:`SAMPLE_MISTAKES` that explains a result, or None if none of them does."""
    for name, change in SAMPLE_MISTAKES.items():
        with np.errstate(all="ignore"):
            changed = dataclasses.replace(wrong_result, given=change(wrong_result.given))
        if changed.is_explained_by(requested):
            return Cause(name)
    return None


def _find_ignored_options(wrong_result: WrongResult, requested: FeatureModel) -> Cause | None:
    """Return a cause if changing one option, or all options, to Kaldi's default explains a result, or else None."""
    defaults = {name: requested.get_default(name) for name in [*requested.options, "warp"]}
    defaults = {name: value for name, value in defaults.items() if value != requested.get(name)}
    for changes in (*({name: value} for name, value in defaults.items()), defaults):
        if changes and wrong_result.is_explained_by(requested.change(changes)):
            changes = _reduce_changes(wrong_result, requested, changes)
            return Cause(_name_changes(requested, changes), changes=changes)
    return None


def _find_wrong_count(wrong_result: WrongResult, requested: FeatureModel) -> Cause | None:
    """Return a cause if a result has a wrong number of cepstra or mel bins, but is right otherwise, or else None."""
    option_name = next((name for name in COUNTS if requested.get_default(name) is not None), None)
    changes = {option_name: wrong_result.result.shape[-1]} if option_name and wrong_result.result.ndim else {}
    is_explained = bool(changes) and wrong_result.is_explained_by(requested.change(changes))
    return Cause(_name_changes(requested, changes), changes=changes) if is_explained else None


def _search_cause(wrong_result: WrongResult) -> Cause | None:
    """Use :func:`explain` to find how a result was computed, and return the differences from Kaldi as a cause.

    Without a requested model, the cause names the steps from Kaldi's output to the result. Return None if the result is
    not explained. Additional frames need no explanation. Also return None if the result has fewer than 20 frames and
    the explanation has steps besides the feature, because some steps fit almost any short result.
    """
    result, requested, tolerance = wrong_result.result, wrong_result.requested_model, wrong_result.tolerance
    try:
        if requested:
            _, result, _ = wrong_result.align(wrong_result.expected)  # Drop additional frames, which may hold anything.
            explanation = explain_without_presets(result, wrong_result.given, requested.rate, tolerance)
        else:
            explanation = explain(result, wrong_result.expected, tolerance=tolerance)
    except KaldiCompatError:
        return None
    # `left` names additional frames only if the features explain nearly all values of the other frames.
    is_explained = explanation.is_exact or "too many at the" in explanation.left
    if not is_explained or (explanation.steps and len(result) < THRESHOLDS.free_frames):
        return None
    if requested is None:
        return Cause(f"{wrong_result.options['program']}: {'; '.join(explanation.steps) or 'equal'}")
    return _compare_settings(wrong_result, requested, explanation)


def _compare_settings(wrong_result: WrongResult, requested: FeatureModel, explanation: Explanation) -> Cause:
    """Return a cause that names the settings in ``explanation`` that differ from the requested model.

    If these settings do not explain the result, the cause also names a map from the features to the result or, if no
    map fits, the steps of the explanation. If none of these is found, the cause names the wrong values. If the kind of
    feature differs or is unknown, the cause describes the whole front end.
    """
    variant = explanation.variant
    if variant is None or variant.kind != requested.kind:
        return Cause(str(explanation).rpartition(":")[0])  # Drop the largest difference, which is not a cause.
    changes = _reduce_changes(wrong_result, requested, _find_changes(wrong_result, requested, variant))
    change_name, model = _name_changes(requested, changes), requested.change(changes)
    map_name = "" if wrong_result.is_explained_by(model) else wrong_result.describe_map(model)
    if map_name is not None:
        name = "; ".join(filter(None, (change_name, map_name)))
        return Cause(name, changes=changes, map_name=map_name) if name else _name_wrong_values(wrong_result, model)
    steps = [step for step in explanation.steps if not FRAMES.search(step)]
    steps = [step for step in steps if step != fits.MEAN or not wrong_result.options["subtract_mean"]]
    name = "; ".join([*filter(None, [change_name]), *steps])
    return Cause(name) if name else _name_wrong_values(wrong_result, model)


def _find_changes(wrong_result: WrongResult, requested: FeatureModel, variant: FeatureModel) -> dict[str, Any]:
    """Return, by name, the settings of the model ``variant`` that differ from the requested model.

    A different padding is replaced with the first padding that explains the result, if there is one.
    """
    attributes = (option.name for option in TABLE if option.words)
    names = dict.fromkeys([*variant.options, *requested.options, *attributes])
    changes = {name: variant.get(name) for name in names if variant.get(name) != requested.get(name)}
    # Some paddings differ only in frames after Kaldi's last frame, which explain did not compare.
    for padding in list_values("padding") if "padding" in changes else ():
        changes_with_padding = changes | {"padding": padding}
        if wrong_result.is_explained_by(requested.change(changes_with_padding)):
            return changes_with_padding
    return changes


def _name_wrong_values(wrong_result: WrongResult, model: FeatureModel) -> Cause:
    """Return a cause that names the first wrong values, or no values if the features and the result differ in shape."""
    features, result, _ = wrong_result.align(wrong_result.compute_features(model))
    if features.shape != result.shape:
        return Cause("errors larger than rounding errors")
    wrong_values = name_values(wrong_result.measure_errors(features, result) > wrong_result.tolerance)
    return Cause(f"errors larger than rounding errors in {wrong_values}")


def _reduce_changes(wrong_result: WrongResult, requested: FeatureModel, changes: dict[str, Any]) -> dict[str, Any]:
    """Return only the changes of the requested model that are needed to explain a result.

    A change is dropped if the remaining changes explain the result. If even all ``changes`` do not explain the result,
    the remaining changes may also explain it together with a map (:meth:`WrongResult.describe_map`).
    """
    needs_map = not wrong_result.is_explained_by(requested.change(changes))
    for dropped_name in list(changes):
        fewer_changes = {name: value for name, value in changes.items() if name != dropped_name}
        model = requested.change(fewer_changes)
        if wrong_result.is_explained_by(model) or (needs_map and wrong_result.describe_map(model) is not None):
            changes = fewer_changes
    return changes


def _name_changes(requested: FeatureModel, changes: dict[str, Any]) -> str:
    """Describe the new values of settings, such as "num_ceps=12, use_energy ignored".

    A setting that was changed to Kaldi's default is "ignored", because the implementation seems to ignore the request.
    """
    ignored = sorted(name for name, value in changes.items() if value == requested.get_default(name))
    settings = FeatureModel(requested.kind).change(changes).list_settings()
    if ignored:
        settings.append(f"{', '.join(ignored)} ignored")
    return ", ".join(settings)


def _add_frame_causes(known: dict[str, Cause], wrong_results: Sequence[WrongResult]) -> None:
    """Add causes to ``known`` for missing or additional frames that the changes of a result's cause do not explain.

    Results without a requested model are skipped, and so are results whose cause has unknown changes.
    """
    cause_by_vector = {vector: cause for cause in known.values() for vector in cause.vectors}
    for wrong_result in wrong_results:
        cause, requested = cause_by_vector.get(wrong_result.id), wrong_result.requested_model
        if requested is None or (cause is not None and cause.changes is None):
            continue
        features = wrong_result.expected
        if cause is not None:
            features = wrong_result.compute_features(requested.change(cause.changes or {}))
        if description := wrong_result.align(features)[-1]:
            known.setdefault(_replace_numbers(description), Cause(description)).vectors.append(wrong_result.id)


def _merge_causes(known: dict[str, Cause], wrong_results: dict[str, WrongResult]) -> None:
    """Merge a cause in ``known`` into a second cause if both have changes and the second explains the vectors of both.

    The second cause may change additional options only if they are :data:`LEVELS`, which have no effect on loud audio.
    ``wrong_results`` maps names of vectors to their wrong results.
    """
    for cause, other in itertools.permutations([*known.values()], 2):
        if not cause.changes or not other.changes or not {cause.name, other.name} <= known.keys():
            continue
        adds_only_levels = other.changes.keys() - cause.changes.keys() <= LEVELS
        if adds_only_levels and all(other.explains(wrong_results[vector]) for vector in cause.vectors):
            other.vectors.extend(known.pop(cause.name).vectors)


def _group_by_options(unexplained: list[WrongResult]) -> Iterator[Cause]:
    """Group results by program and most frequent setting. Yield a cause named "not explained, ..." for each group."""
    while unexplained:
        program = unexplained[0].options["program"]
        peers = [wrong for wrong in unexplained if wrong.options["program"] == program]
        settings = {wrong.id: wrong.requested_model.list_settings() if wrong.requested_model else [] for wrong in peers}
        counts = Counter(setting for wrong in peers for setting in settings[wrong.id])
        [(setting, _)] = counts.most_common(1) or [("", 0)]
        group = [wrong for wrong in peers if setting in settings[wrong.id]] or peers
        yield Cause(f"not explained, {program}{setting and ' with '}{setting}", [wrong.id for wrong in group])
        unexplained = [wrong for wrong in unexplained if wrong not in group]


def _replace_numbers(words: str) -> str:
    """Replace each number in a description with "#", so that descriptions of the same mistake are equal."""
    return re.sub(r"[-+\d.e]*\d", "#", words)
