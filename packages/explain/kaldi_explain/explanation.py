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
HINT = "try another recording or sampling rate"
NO_AUDIO_HINT = "pass the audio instead, to find how the array was computed"


@dataclass(frozen=True)
class Explanation:
    """Front end that computed an array of features, or the part of it that is known.

    Attributes:
        preset: name of a preset that gives the array. None if there is none.
        variant: the feature and its options. None for a preset, and if two arrays were compared.
        steps: descriptions of the steps before and after the feature.
        residual: largest absolute difference from the array.
        is_exact: True if the array is explained: 99.9% of the differences are below the tolerance, all differences are
            below 30 times the tolerance, and chance does not explain as much.
        worst_frame, worst_column: frame and column of the largest difference.
        where: description of the frames or columns that differ, or "" if they are many.
        left: description of the part that is not explained, or "" if no part or all of the array is explained.
        is_certain: True if the feature, the options and the steps were verified for nearly all places of the array.
            False if the options and the steps are guesses.
        in_time: False if the search ended because its budget of work was used up.
        is_slow: True if the limit of processor time ended the search, and not the limit of work.
        hint: advice if the array is not explained.
        computed, given: the explained features and the part of the array that they explain, both (frames, dim).
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
        """Result: "explained" if :attr:`is_exact`, "partly" if :attr:`left` names the rest, or else "not explained"."""
        return "explained" if self.is_exact else "partly" if self.left else "not explained"

    @property
    def cause(self) -> str:
        """The preset or feature, and the steps, separated by semicolons. "equal" if there is no feature and no step."""
        return self._describe_cause("")

    def _describe_cause(self, description: str) -> str:
        """Return :attr:`cause`, with ``description`` after the name of the preset if :attr:`preset` is not None."""
        preset = f"preset {self.preset}{description}"
        feature = preset if self.preset else "" if self.variant is None else str(self.variant)
        return "; ".join(filter(None, (feature, *self.steps))) or "equal"

    def _describe_early_end(self) -> str:
        """Return the reason why the search ended early."""
        if self.is_slow:
            return f"the search stopped after {THRESHOLDS.seconds:g} s of processor time: try again on an idle machine"
        return "the search stopped at its limit of work, before it had tried all options"

    def __str__(self) -> str:
        ended = "" if self.in_time or self.is_certain else f" ({self._describe_early_end()})"
        if self.is_exact:
            name = f", that is {_describe_preset(self.preset)}" if self.preset else ""
            call = self.call and f", the same as {self.call}"
            difference = f"largest difference {self.residual:.2g}{self.where and ', ' + self.where}"
            return f"{self._describe_cause(name)}{call}: {difference}"
        if not len(self.computed):
            return f"not explained: {self.cause}{ended}"
        hint, answer = "", f"not explained; the nearest is: {self.cause}"
        if self.left:
            kind = f"{self.variant.kind} of this audio, most like " if self.variant and not self.is_certain else ""
            answer = f"partly explained: {kind}{self.cause}; left: {self.left}"
        elif self.variant:
            hint = f"; {self.hint}"
        elif not self.preset:
            hint = f"; {NO_AUDIO_HINT}"
        position = f" in frame {self.worst_frame}, column {self.worst_column}{self.where and '; ' + self.where}"
        return f"{answer}{self._describe_guesses()}: largest difference {self.residual:.2g}{position}{hint}{ended}"

    def _describe_guesses(self) -> str:
        """Return a clause that tells certain options from guesses, or "" if all are certain or no feature is known."""
        if self.is_certain or self.variant is None:
            return ""
        if not self.left:
            return "; the options and steps are guesses"
        certain = f"; certain: {', '.join(self.certain)}" if self.certain else ""
        return f"{certain}; guesses: {', '.join([*self.guessed, 'the steps'])}"

    def plot(self, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
        """Draw the explained part of the array, the features that explain it, and the features minus the array.

        Args:
            axes: three matplotlib axes: for the array, the features and the difference. None for a new figure.

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

    Presets are tried first. Then properties of the array are estimated one after another: the axis of time; rows and
    columns that are masked, padding, copies or deltas; by correlation with the audio's energies, the shift of the
    frames and the first frame; and the centers of the filters. A search then changes options of Kaldi's features,
    differences of other libraries and of ports, and the audio, as long as a change explains more. The form of the
    logarithm, floors and normalization follow at the end.

    An array is explained if all differences are small in comparison with the spread of the array. Noise, masks, labels
    and posteriors are not explained. The search ends when its budget of work is used up, after a few seconds.

    Args:
        features: array (frames, dim), or transposed; or the name of a file that contains it, such as ``"feats.npy"`` or
            ``"feats.ark:utt1"``.
        audio: the samples (T,) or (channels, T), as integers or floating point; or, without ``sample_frequency``,
            another array of features (frames, dim); or an :class:`io_ark.Wave`; or the name of an audio file or of a
            file of features.
        sample_frequency: sampling rate of the audio in Hz, at least 1000. By default, the rate of a file or a ``Wave``.
        tolerance: absolute difference that counts as explained, for 99.9% of the values. A few values may differ by 30
            times as much. The tolerance is proportionally larger for features above 100, and smaller for features
            whose standard deviation is below 1.

    Returns:
        The explanation. ``str()`` returns it as a sentence.

    Raises:
        FeatureError: the features are not a numeric array of two dimensions, are empty, contain NaN or infinity, or
            cannot be mapped to the other features; a text or ``.npz`` file cannot be read; or a name stands for a
            recording in place of features, a whole table, or a key that the table lacks.
        ArkError: any other file cannot be read.
        AudioError: the audio is not a numeric array of these shapes, contains NaN or infinity, has more than 32
            channels, or is shorter than 25 ms.
        OptionError: the tolerance or the sampling rate is out of range.

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Fbank
    >>> from kaldi_explain import explain
    >>> samples = np.random.default_rng(0).integers(-3000, 3000, 32000).astype(np.int16)
    >>> explanation = explain(Fbank(num_mel_bins=40, window_type="hamming", dither=0.0)(samples), samples, 16000)
    >>> print(explanation)
    fbank(num_mel_bins=40, window_type='hamming'): largest difference 0
    """
    repairs, target = arrangements.check_features(files.load_features(features))
    audio, sample_frequency = files.load_audio(audio, sample_frequency)
    require(0 <= tolerance < np.inf, f"tolerance={tolerance} must be a number of at least 0")
    if sample_frequency is None:
        limit = tolerance * max(1.0, float(np.abs(target).max()) / 100)
        relation = find_relation(target, arrangements.check_features(audio)[1], repairs, limit)
        return _explain_match(None, None, relation.steps, relation.mapped, relation.target, limit, relation.step)
    is_rate = isinstance(sample_frequency, Real) and MIN_SAMPLE_FREQUENCY <= sample_frequency < np.inf
    advice = f"is not a sampling rate in Hz: pass a number of at least {MIN_SAMPLE_FREQUENCY}"
    require(is_rate, f"sample_frequency={sample_frequency} {advice}")
    recording = check_audio(audio, sample_frequency)
    return _explain_by_audio(target, repairs, recording, sample_frequency, tolerance, list_presets())


def explain_without_presets(
    features: npt.ArrayLike, audio: npt.NDArray[Any], sample_frequency: float, tolerance: float
) -> Explanation:
    """Explain features (frames, dim) by audio (T,) or (channels, T), like :func:`explain`, but do not try presets."""
    repairs, target = arrangements.check_features(features)
    recording = check_audio(audio, sample_frequency)
    return _explain_by_audio(target, repairs, recording, sample_frequency, tolerance, [])


def _describe_preset(name: str) -> str:
    """Describe the feature and the steps of a preset, with "without" before a step whose statistics are missing."""
    preset = Preset.of(name)
    steps = [f"without {step.kind}" if step.statistics else str(step) for step in preset.steps]
    return "; ".join([dict(describe_rows(preset))["feature"], *steps])


def _make_hint(recording: npt.NDArray[Any]) -> str:
    """Return advice if a recording (channels, T) does not explain an array: a remark on clipping, or :data:`HINT`."""
    if count := count_clipped_samples(recording):
        remark = f"the audio has {count} samples at its extremes"
        return f"{remark}; if the features are of unclipped audio, nothing can match"
    return HINT


def _make_failed_explanation(reason: str, target: Doubles) -> Explanation:
    """Return an explanation that states only why ``target`` is not explained. Its residual is the range of values."""
    return Explanation(None, None, (reason,), float(np.ptp(target)), False, 0, 0, given=target)


def _explain_by_audio(
    target: Doubles, repairs: list[str], recording: npt.NDArray[Any], rate: float, tolerance: float,
    presets: Sequence[str],
) -> Explanation:  # fmt: skip
    """Return the explanation of an array by the first preset that gives it, or else by a search.

    If the array cannot be features, the explanation states the reason. ``repairs`` describe repairs of the array
    ``target`` (frames, columns). The recording (channels, T) has the sampling rate ``rate`` in Hz. ``presets`` are
    names of presets, and ``tolerance`` is not scaled yet.
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
    """Search for the features that give an array. Return their explanation, or one that states why none was found.

    ``repairs`` describe repairs of the array ``target`` (frames, columns). ``channels`` are the channels of the
    recording (channels, T), and their mean if there are several. ``tolerance`` is not scaled yet.
    """
    storage = arrangements.find_storage(target)

    def get_tolerance(attempt: Attempt) -> float:
        """Return an attempt's tolerance, which depends on the array's values and is larger for resampled audio."""
        sheet, is_resampled = attempt.search.sheet, attempt.candidate.source.is_resampled
        return (THRESHOLDS.resampled if is_resampled else 1.0) * _scale_tolerance(sheet.values[sheet.rows], tolerance)

    finder = Finder(storage.values, repairs, channels, recording, get_tolerance, budget, storage.step)
    best = finder.find_best_attempt()
    hint = _make_hint(recording)
    compute_energies.cache_clear()  # Otherwise, the cache would keep the recording in memory.
    if best is None:
        reason = f"no feature of this audio was found that resembles the array; {hint}"
        return replace(
            _make_failed_explanation(reason, target), in_time=not budget.is_exhausted, is_slow=budget.is_slow
        )
    attempt, settled = best
    answer = complete_answer(finder, attempt, settled, get_tolerance(attempt))
    explanation = _make_explanation(answer, attempt, storage, get_tolerance(attempt))
    return replace(explanation, in_time=not budget.is_exhausted, is_slow=budget.is_slow, hint=hint)


def _scale_tolerance(values: Doubles, tolerance: float) -> float:
    """Return a tolerance scaled to the ``values`` (frames, columns) of an array.

    The factor is the largest standard deviation of a column if it is below 1, or else max(1, largest magnitude / 100).
    """
    spread = float(values.std(axis=0).max()) if len(values) > 1 else 1.0  # One frame keeps the tolerance unchanged.
    return tolerance * max(min(1.0, spread), float(np.abs(values).max()) / 100 if spread > 1 else 0.0)


def _explain_by_preset(
    names: Sequence[str], target: Doubles, source: AudioSource, steps: list[str], tolerance: float
) -> Explanation | None:
    """Return the explanation by the first preset whose features agree with ``target`` within the tolerance, or None.

    A preset that raises an error is skipped. ``steps`` are earlier changes to the array, which the explanation names.
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
                resampled = "" if rate == source.rate else f"resampled to {rate} Hz as Kaldi and torchaudio do"
                return _explain_match(name, None, [source.words, resampled, *steps], features, target, tolerance)
    return None


def _make_explanation(answer: Answer, attempt: Attempt, storage: Storage, tolerance: float) -> Explanation:
    """Convert the answer for a search's best attempt to an explanation. ``storage`` is the rounding of the array."""
    settled, places, sheet = answer.settled, answer.places, attempt.search.sheet
    candidate, deviations = settled.candidate, places.deviations
    loudness = candidate.source.loudness.get(candidate.scale, "")
    steps = [
        candidate.source.words, loudness and f"the samples' factor is {loudness}", *sheet.words, *places.padding,
        *storage.words, *settled.describe_shift(*deviations.edge_shifts), settled.describe_order_of_columns(),
        settled.arrangement.words, settled.fit.name, *(deviations.reasons if answer.is_certain else []),
        *places.quiet, *answer.words,
    ]  # fmt: skip
    compared = np.zeros(settled.target.shape, bool)
    compared[settled.cells] = True
    compared = deviations.compared if answer.is_certain else compared
    first = settled.row, settling.find_first_column(sheet)
    explanation = _explain_match(
        None, candidate, steps, settled.fit.mapped, settled.target, tolerance, sheet.step, compared, first
    )
    is_exact = answer.is_certain and not answer.unexplained
    # `where` is dropped if it would contradict the answer, or repeat the places in `left`.
    is_shown = is_exact == explanation.is_exact and not (answer.is_certain and answer.unexplained)
    call = describe_library_call(candidate, attempt.search.levels[0], explanation.steps) if is_exact else ""
    return replace(
        explanation, is_exact=is_exact, left=", ".join(answer.unexplained), is_certain=answer.is_certain, call=call,
        where=explanation.where if is_shown else "", certain=tuple(answer.certain), guessed=tuple(answer.guessed),
    )  # fmt: skip


def _explain_match(
    preset: str | None, variant: FeatureModel | None, steps: list[str], computed: Doubles, target: Doubles,
    tolerance: float, step: float = 0.0, compared: Mask | None = None, first: tuple[int, int] = (0, 0),
) -> Explanation:  # fmt: skip
    """Compare the features ``computed`` with ``target``, the part of an array that they should equal.

    Both have the shape (frames, columns). Return an :class:`Explanation` with ``preset``, ``variant`` and ``steps``.
    ``step`` is the largest rounding error of the array's stored numbers. The mask ``compared`` (frames, columns)
    selects values, and None selects all. ``first`` are the frame and the column of the array where the part begins.
    """
    compared = np.ones(target.shape, bool) if compared is None else compared
    difference = np.where(compared, np.abs(computed - target), 0)
    frame, column = np.unravel_index(int(difference.argmax()), difference.shape)
    is_exact = bool(compared.any()) and fits.measure_residual(computed[compared], target[compared], step) <= tolerance
    is_wrong = difference > tolerance + step
    exceptions = f"more than {tolerance + step:.2g} in {name_values(is_wrong, *first)}" if is_wrong.any() else ""
    return Explanation(
        preset, variant, tuple(filter(None, steps)), float(difference.max()), is_exact, int(frame) + first[0],
        int(column) + first[1], exceptions if is_exact else _describe_places(is_wrong, *first), computed=computed,
        given=target,
    )  # fmt: skip


def _describe_places(wrong: Mask, first_frame: int, first_column: int) -> str:
    """Name the few values, frames or columns that contain all ``wrong`` values. Return "" if there are none or many.

    The mask ``wrong`` (frames, columns) begins at ``first_frame`` and ``first_column`` of the array.
    """
    if 0 < wrong.sum() <= THRESHOLDS.named:
        return f"only in {name_values(wrong, first_frame, first_column)}"
    for axis, name, first in ((1, "frame", first_frame), (0, "column", first_column)):
        indices = np.flatnonzero(wrong.any(axis))
        if 0 < len(indices) <= max(1, THRESHOLDS.few_places * wrong.shape[1 - axis]):
            return f"only in {arrangements.describe_spans(indices + first, name)}"
    return ""
