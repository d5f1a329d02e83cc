"""Find the front end that computed an array of features."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from io_ark import Wave
from kaldi_compat import plot
from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.frontends.description import describe_rows
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import Preset, list_presets
from kaldi_compat.options.base import require
from kaldi_explain import arrangements, files, fits, settling, work
from kaldi_explain.answers import Answer, complete_answer
from kaldi_explain.arrangements import Mask, Storage, name_values
from kaldi_explain.between_arrays import find_relation
from kaldi_explain.calls import describe_library_call
from kaldi_explain.candidates import Sheet
from kaldi_explain.finder import Attempt, Finder
from kaldi_explain.models import FeatureModel
from kaldi_explain.sources import AudioSource, check_audio, count_clipped_samples, split_channels
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.timing import compute_energies
from kaldi_explain.work import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Verdict = Literal["explained", "partly", "not explained"]
MIN_SAMPLE_FREQUENCY = 1000  # Smallest sampling rate in Hz. A smaller number is usually a rate in kHz.
MAX_PLAIN_MAGNITUDE = 100.0  # Log features have smaller magnitudes. The tolerance grows with larger magnitudes.
HINT = "try another recording or sampling rate"
NO_AUDIO_HINT = "pass the audio instead, to find how the array was computed"


@dataclass(frozen=True)
class Explanation:
    """Front end that computed an array of features, or the part of the front end that is known.

    Attributes:
        preset: name of the preset whose features are equal to the array. None if no preset has such features.
        variant: the feature and its options. None for a preset, for two arrays, and if no feature was found.
        steps: descriptions of the steps before and after the feature, or the reason why no feature was found.
        residual: largest difference between ``computed`` and ``given``, or the array's range if no feature was found.
        is_exact: True if the array is explained: 99.9% of the differences are below the tolerance, all differences are
            below 30 times the tolerance, and chance does not explain as much.
        worst_frame, worst_column: indices of the frame and column of the array with the largest difference.
        where: description of the places with differences above the tolerance, or "" if they are too many or none.
        left: description of the part that is not explained, or "" if no part or all of the array is explained.
        is_certain: True if the feature, the options and the steps were verified for nearly all values of the array.
            False if the options and the steps are guesses.
        in_time: False if the search ended because its budget of work was used up.
        is_slow: True if the search ended at the limit of processor time, before the limit of work was reached.
        hint: advice if the array is not explained.
        computed, given: the features after all steps, and the part (frames, dim) of the array that they should equal.
        call: call of librosa, torchaudio, transformers or python_speech_features that computes the array, or "".
        certain, guessed: descriptions of the options if ``is_certain`` is False. An option is certain if every other
            usual value explains clearly less.
    """

    preset: str | None
    variant: FeatureModel | None
    steps: tuple[str, ...]
    residual: float
    is_exact: bool
    worst_frame: int
    worst_column: int
    where: str = ""
    left: str = ""
    is_certain: bool = False
    in_time: bool = True
    computed: Doubles = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)
    given: Doubles = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)
    call: str = ""
    certain: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    is_slow: bool = False
    hint: str = HINT

    @property
    def verdict(self) -> Verdict:
        """Verdict: "explained" if :attr:`is_exact`, "partly" if :attr:`left` names a part, or else "not explained"."""
        return "explained" if self.is_exact else "partly" if self.left else "not explained"

    @property
    def cause(self) -> str:
        """The preset or feature, and the steps, separated by semicolons. "equal" if there is no feature and no step."""
        return self._describe_cause("")

    def _describe_cause(self, preset_description: str) -> str:
        """Return :attr:`cause`. If it begins with a preset, ``preset_description`` follows the name of the preset."""
        feature = f"preset {self.preset}{preset_description}" if self.preset else str(self.variant or "")
        return "; ".join(filter(None, (feature, *self.steps))) or "equal"

    def _describe_early_end(self) -> str:
        """Return a remark on the limit that ended the search, or "" if no limit did or if the answer is certain."""
        if self.in_time or self.is_certain:
            return ""
        if self.is_slow:
            limit = f"{THRESHOLDS.seconds:g} s of processor time"
            return f" (the search stopped after {limit}: try again on an idle machine)"
        return " (the search stopped at its limit of work, before it had tried all options)"

    def __str__(self) -> str:
        """Return one line: the verdict unless it is "explained", the cause, any difference, and any advice."""
        if self.is_exact:
            description = f", that is {_describe_preset(self.preset)}" if self.preset else ""
            call = self.call and f", the same as {self.call}"
            difference = f"largest difference {self.residual:.2g}{self.where and ', ' + self.where}"
            return f"{self._describe_cause(description)}{call}: {difference}"
        if not len(self.computed):
            return f"not explained: {self.cause}{self._describe_early_end()}"
        hint, answer = "", f"not explained; the nearest is: {self.cause}"
        if self.left:
            kind = f"{self.variant.kind} of this audio, most like " if self.variant and not self.is_certain else ""
            answer = f"partly explained: {kind}{self.cause}; left: {self.left}"
        elif self.variant:
            hint = f"; {self.hint}"
        elif not self.preset:
            hint = f"; {NO_AUDIO_HINT}"
        position = f" in frame {self.worst_frame}, column {self.worst_column}{self.where and '; ' + self.where}"
        difference = f"largest difference {self.residual:.2g}{position}"
        return f"{answer}{self._describe_guesses()}: {difference}{hint}{self._describe_early_end()}"

    def _describe_guesses(self) -> str:
        """Return a clause that lists certain options and guesses, or "" if the answer is certain or has no feature."""
        if self.is_certain or self.variant is None:
            return ""
        if not self.left:
            return "; the options and steps are guesses"
        certain = f"; certain: {', '.join(self.certain)}" if self.certain else ""
        return f"{certain}; guesses: {', '.join([*self.guessed, 'the steps'])}"

    def plot(self, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
        """Draw :attr:`given`, :attr:`computed`, and the difference ``computed - given``, one below the other.

        Args:
            axes: three matplotlib axes, in this order. None for a new figure.

        Returns:
            The three axes.

        Raises:
            FeatureError: no features resemble the array, so :attr:`computed` is empty.
            ModuleNotFoundError: matplotlib is not installed.

        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> from kaldi_explain import explain
        >>> axes = explain(np.eye(40, 4), np.eye(40, 4)[::-1]).plot()
        >>> axes[0].get_title()
        'given'
        """
        if not len(self.computed):
            raise FeatureError(f"there are no features to plot, because the array is not explained: {self.cause}")
        return plot.compare(self.given, self.computed, names=("given", "explained"), axes=axes)


def explain(
    features: npt.ArrayLike | PathLike[str],
    audio: npt.ArrayLike | PathLike[str] | Wave,
    sample_frequency: float | None = None,
    *,
    tolerance: float = THRESHOLDS.tolerance,
) -> Explanation:
    """Find the front end that computed an array of features from audio, or the relation of two arrays of features.

    Presets are tried first. If no preset computes the array, its layout is estimated: the time axis, and which rows and
    columns are masks, padding, copies or deltas. The frame shift and the first frame follow from correlations with the
    energies of the audio. A search then tries other options of the feature, peculiarities of other libraries and ports,
    and changes of the audio, as long as they explain more of the array. Floors, the form of the logarithm and
    normalization are chosen last.

    An array is explained if all differences are small in comparison with the spread of the array. Noise, masks, labels
    and posteriors are not explained. The search ends when its budget of work is used up, after a few seconds.

    Args:
        features: array (frames, dim), or transposed; or the name of a file that contains it, such as ``"feats.npy"`` or
            ``"feats.ark:utt1"``.
        audio: the samples (T,) or (channels, T), as integers or floating point; an :class:`io_ark.Wave`; the name of an
            audio file or of a file of features; or, without ``sample_frequency``, another array of features (frames,
            dim).
        sample_frequency: sampling rate of the audio in Hz, at least 1000. By default, the rate of a file or a ``Wave``.
        tolerance: absolute difference that counts as explained, for 99.9% of the values. All other values may differ by
            30 times as much. For audio, the tolerance is multiplied by the largest standard deviation of a column if
            this is below 1. Otherwise, it is multiplied by a hundredth of the largest magnitude if this is above 100.

    Returns:
        The explanation. ``str()`` returns it as a sentence.

    Raises:
        FeatureError: the features are not a numeric array of two dimensions, are empty, contain NaN or infinity, or
            cannot be mapped to the other features; a text file cannot be read; a ``.npz`` file is ambiguous; or a file
            name stands for a recording instead of features, for a whole table, or for a key that the table lacks.
        ArkError: any other file cannot be read.
        AudioError: the audio is not a numeric array of these shapes, is empty, contains NaN or infinity, has more than
            32 channels, or is shorter than 25 ms.
        OptionError: the tolerance is negative or not finite, or the sampling rate is not a number of at least 1000.

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Fbank
    >>> from kaldi_explain import explain
    >>> samples = np.random.default_rng(0).integers(-3000, 3000, 32000).astype(np.int16)
    >>> explanation = explain(Fbank(num_mel_bins=40, window_type="hamming", dither=0.0)(samples), samples, 16000)
    >>> print(explanation)
    fbank(num_mel_bins=40, window_type='hamming'): largest difference 0
    """
    repairs, target = arrangements.repair_features(files.load_features(features))
    audio, sample_frequency = files.load_audio(audio, sample_frequency)
    require(0 <= tolerance < np.inf, f"tolerance={tolerance} must be a number of at least 0")
    if sample_frequency is None:
        tolerance *= max(1.0, float(np.abs(target).max()) / MAX_PLAIN_MAGNITUDE)
        _, other_features = arrangements.repair_features(audio)
        relation = find_relation(target, other_features, repairs, tolerance)
        return _explain_match(relation.steps, relation.mapped, relation.target, tolerance, step=relation.step)
    is_rate = isinstance(sample_frequency, Real) and MIN_SAMPLE_FREQUENCY <= sample_frequency < np.inf
    advice = f"is not a sampling rate in Hz: pass a number of at least {MIN_SAMPLE_FREQUENCY}"
    require(is_rate, f"sample_frequency={sample_frequency} {advice}")
    recording = check_audio(audio, sample_frequency)
    return _explain_by_audio(target, repairs, recording, sample_frequency, tolerance, list_presets())


def explain_without_presets(
    features: npt.ArrayLike, audio: npt.NDArray[Any], sample_frequency: float, tolerance: float
) -> Explanation:
    """Explain features (frames, dim) by audio (T,) or (channels, T), like :func:`explain`, but do not try presets."""
    repairs, target = arrangements.repair_features(features)
    recording = check_audio(audio, sample_frequency)
    return _explain_by_audio(target, repairs, recording, sample_frequency, tolerance, [])


def _describe_preset(name: str) -> str:
    """Describe the feature and the steps of a preset. A step that needs a model's statistics becomes "without ..."."""
    preset = Preset.of(name)
    steps = [f"without {step.kind}" if step.statistics else str(step) for step in preset.steps]
    return "; ".join([dict(describe_rows(preset))["feature"], *steps])


def _make_failed_explanation(reason: str, target: Doubles) -> Explanation:
    """Return an explanation that only states why ``target`` is not explained. Its residual is the array's range."""
    return Explanation(
        preset=None, variant=None, steps=(reason,), residual=float(np.ptp(target)), is_exact=False, worst_frame=0,
        worst_column=0, given=target,
    )  # fmt: skip


def _explain_by_audio(
    target: Doubles, repairs: list[str], recording: npt.NDArray[Any], rate: float, tolerance: float,
    presets: Sequence[str],
) -> Explanation:  # fmt: skip
    """Explain an array (frames, columns) by the first preset whose features equal the array, or else by a search.

    If the array cannot be features, the explanation states only the reason. ``repairs`` describe earlier repairs of the
    array, and ``presets`` names the presets to try. The recording (channels, T) has the sampling rate ``rate`` in Hz.
    See :func:`explain` for ``tolerance``.
    """
    if reason := arrangements.find_reason_against_features(target):
        return _make_failed_explanation(reason, target)
    budget, channels = Budget(recording.shape[-1] / rate), split_channels(recording, rate)
    work.use_budget(budget)
    with np.errstate(all="ignore"):
        for (orientation, values), source in itertools.product(arrangements.list_orientations(target), channels):
            steps = [*repairs, *orientation]
            if explanation := _explain_by_preset(presets, values, source, steps, _scale_tolerance(values, tolerance)):
                return explanation
        return _explain_by_search(target, repairs, recording, channels, tolerance, budget)


def _explain_by_search(
    target: Doubles, repairs: list[str], recording: npt.NDArray[Any], channels: list[AudioSource], tolerance: float,
    budget: Budget,
) -> Explanation:  # fmt: skip
    """Explain an array (frames, columns) by a search, or state that no features of the audio resemble the array.

    ``channels`` are the channels of the recording and, if there are several, their mean. ``budget`` limits the work.
    See :func:`_explain_by_audio` for the other arguments.
    """
    storage = arrangements.find_storage(target)

    def get_tolerance(attempt: Attempt) -> float:
        """Return the tolerance scaled to the array's values, and multiplied by 5 if the audio was resampled."""
        sheet, is_resampled = attempt.search.sheet, attempt.candidate.source.is_resampled
        return (THRESHOLDS.resampled if is_resampled else 1.0) * _scale_tolerance(sheet.values[sheet.rows], tolerance)

    finder = Finder(storage.values, repairs, channels, recording, get_tolerance, budget, storage.step)
    best = finder.find_best_attempt()
    clipped_count, hint = count_clipped_samples(recording), HINT
    if clipped_count:
        remark = f"the audio has {clipped_count} samples at its extremes"
        hint = f"{remark}; if the features are of unclipped audio, nothing can match"
    compute_energies.cache_clear()  # Otherwise, the cache would keep the recording in memory.
    if best is None:
        reason = f"no feature of this audio was found that resembles the array; {hint}"
        failed = _make_failed_explanation(reason, target)
        return replace(failed, in_time=not budget.is_exhausted, is_slow=budget.is_slow)
    attempt, settled = best
    answer = complete_answer(finder, attempt, settled, get_tolerance(attempt))
    explanation = _make_explanation(answer, attempt, storage, get_tolerance(attempt))
    return replace(explanation, in_time=not budget.is_exhausted, is_slow=budget.is_slow, hint=hint)


def _scale_tolerance(values: Doubles, tolerance: float) -> float:
    """Return a tolerance scaled to the ``values`` (frames, columns) of an array.

    The factor is the largest standard deviation of a column if this is at most 1, or else a hundredth of the largest
    magnitude, but at least 1. It is 1 for a single frame.
    """
    spread = float(values.std(axis=0).max()) if len(values) > 1 else 1.0
    return tolerance * (spread if spread <= 1 else max(1.0, float(np.abs(values).max()) / MAX_PLAIN_MAGNITUDE))


def _explain_by_preset(
    names: Sequence[str], target: Doubles, source: AudioSource, steps: list[str], tolerance: float
) -> Explanation | None:
    """Explain the array ``target`` (frames, columns) by the first of the presets ``names`` that has equal features.

    Equal features have the same shape, and a residual of at most ``tolerance``. Return None if no preset has such
    features. Presets that raise an error are skipped. ``steps`` describe earlier changes to the array.
    """
    samples = source.samples / np.float32(source.full_scale)  # Presets expect samples from -1 to 1.
    for name in names:
        with warnings.catch_warnings(), contextlib.suppress(KaldiCompatError):
            warnings.simplefilter("ignore")
            frontend = Frontend.from_preset(name)
            if frontend.dim != target.shape[1]:
                continue
            features = np.asarray(frontend(samples, sampling_rate=int(source.rate)), np.float64)
            if features.shape == target.shape and fits.measure_residual(features, target) <= tolerance:
                rate = frontend.sampling_rate
                resampling = "" if rate == source.rate else f"resampled to {rate} Hz as Kaldi and torchaudio do"
                return _explain_match([source.words, resampling, *steps], features, target, tolerance, preset=name)
    return None


def _make_explanation(answer: Answer, attempt: Attempt, storage: Storage, tolerance: float) -> Explanation:
    """Build the explanation for a user from ``answer``, the answer of a search, and ``attempt``, its best attempt.

    ``storage`` describes the rounding of the array. ``tolerance`` is the largest residual that counts as explained.
    """
    settled, sheet = answer.settled, attempt.search.sheet
    compared = answer.places.deviations.compared
    if not answer.is_certain:  # An uncertain answer is judged only in the cells to which the features were fitted.
        compared = np.zeros(settled.target.shape, bool)
        compared[settled.cells] = True
    explanation = _explain_match(
        _list_steps(answer, sheet, storage), settled.fit.mapped, settled.target, tolerance,
        variant=settled.candidate, step=sheet.step, compared=compared, first_frame=settled.row,
        first_column=settling.find_first_column(sheet),
    )  # fmt: skip
    is_exact, unit = answer.is_certain and not answer.unexplained, attempt.search.levels[0]
    # `where` is dropped if it would contradict the answer, or repeat the places in `left`.
    keeps_where = is_exact == explanation.is_exact and not (answer.is_certain and answer.unexplained)
    call = describe_library_call(settled.candidate, unit, explanation.steps) if is_exact else ""
    return replace(
        explanation, is_exact=is_exact, left=", ".join(answer.unexplained), is_certain=answer.is_certain, call=call,
        where=explanation.where if keeps_where else "", certain=tuple(answer.certain), guessed=tuple(answer.guessed),
    )  # fmt: skip


def _list_steps(answer: Answer, sheet: Sheet, storage: Storage) -> list[str]:
    """Describe the steps before and after the feature of an answer. "" stands for a step that changes nothing."""
    settled, places = answer.settled, answer.places
    source = settled.candidate.source
    loudness = source.loudness_factors.get(settled.candidate.scale, "")
    return [
        source.words, loudness and f"the samples' factor is {loudness}", *sheet.words, *places.padding,
        *storage.words, *settled.describe_shift(*places.deviations.edge_shifts), settled.describe_order_of_columns(),
        settled.arrangement.words, settled.fit.name, *(places.deviations.reasons if answer.is_certain else []),
        *places.quiet, *answer.words,
    ]  # fmt: skip


def _explain_match(
    steps: list[str], computed: Doubles, target: Doubles, tolerance: float, *, preset: str | None = None,
    variant: FeatureModel | None = None, step: float = 0.0, compared: Mask | None = None, first_frame: int = 0,
    first_column: int = 0,
) -> Explanation:  # fmt: skip
    """Return an explanation with the differences between ``computed`` and ``target``, both (frames, columns).

    ``computed`` are features after all steps, and ``target`` is the part of an array that they should equal. This part
    begins at ``first_frame`` and ``first_column`` of the array. ``preset``, ``variant`` and the nonempty ``steps``
    become attributes. ``target`` is explained if the residual is at most ``tolerance``. ``step`` is the largest
    rounding error of the array's stored numbers. Only values in the mask ``compared`` (frames, columns) are compared.
    None stands for all values.
    """
    compared = np.ones(target.shape, bool) if compared is None else compared
    difference = np.where(compared, np.abs(computed - target), 0)
    worst_frame, worst_column = np.unravel_index(int(difference.argmax()), difference.shape)
    is_exact = bool(compared.any()) and fits.measure_residual(computed[compared], target[compared], step) <= tolerance
    is_wrong = difference > tolerance + step
    where = _describe_places(is_wrong, first_frame, first_column)
    if is_exact and is_wrong.any():
        where = f"more than {tolerance + step:.2g} in {name_values(is_wrong, first_frame, first_column)}"
    return Explanation(
        preset=preset, variant=variant, steps=tuple(filter(None, steps)), residual=float(difference.max()),
        is_exact=is_exact, worst_frame=int(worst_frame) + first_frame, worst_column=int(worst_column) + first_column,
        where=where, computed=computed, given=target,
    )  # fmt: skip


def _describe_places(is_wrong: Mask, first_frame: int, first_column: int) -> str:
    """Describe where wrong values are: up to four values, or else at most a quarter of the frames or of the columns.

    An example is "only in frames 3 to 5". Return "" if no value is wrong, or if the wrong values are in more frames and
    columns. The mask ``is_wrong`` (frames, columns) begins at ``first_frame`` and ``first_column`` of the array.
    """
    if 0 < is_wrong.sum() <= THRESHOLDS.named:
        return f"only in {name_values(is_wrong, first_frame, first_column)}"
    for axis, name, first_index in ((1, "frame", first_frame), (0, "column", first_column)):
        indices = np.flatnonzero(is_wrong.any(axis))
        if 0 < len(indices) <= max(1, THRESHOLDS.few_places * is_wrong.shape[1 - axis]):
            return f"only in {arrangements.describe_spans(indices + first_index, name)}"
    return ""
