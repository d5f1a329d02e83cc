"""Run an extractor on batches of utterances with similar durations, without changing the numbers of an utterance."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from io_ark.blocks import create_block
from io_ark.errors import ArkError
from io_ark.numpy_files import load_npy
from io_ark.text import format_count
from kaldi_compat.dump.call_record import CallRecord, record_calls
from kaldi_compat.dump.devices import parse_devices
from kaldi_compat.dump.entries import Audio, Failure, Features, FeaturesOrFailure, make_failure
from kaldi_compat.dump.errors import DumpError, PlanError, format_error
from kaldi_compat.dump.options import CODES, CPU, FEATS, LABELS, XVECTOR, Job
from kaldi_compat.dump.sources import (
    ALONE,
    DEFAULT_RATE,
    EQUAL,
    PADDED,
    Array,
    Extractor,
    convert_to_array,
    get_torch_extractors,
    make_source,
    open_extractor,
    split_by_utterance,
)
from kaldi_compat.dump.user_code import guard_user_code
from kaldi_compat.exact.resample import resample_waveform

logger = logging.getLogger(__name__)

MAX_EXACT_INTEGER = 1 << 24  # Codes are stored as float32, which represents all integers up to this absolute value.
INT16_SCALE = np.float32(32768)  # Divisor that scales 16-bit samples to the range from -1 to 1.
MATRIX, VECTOR, LABEL_VECTOR, CODE_MATRIX = "matrix", "vector", "int-vector", "int-matrix"
DEFAULT_NAMES = {MATRIX: FEATS, VECTOR: XVECTOR, LABEL_VECTOR: LABELS, CODE_MATRIX: CODES}
# Default limits of the padded audio in a batch, in seconds. Larger batches need more memory, and smaller batches leave
# parts of a GPU idle.
BATCH_SECONDS_ON_CPU, BATCH_SECONDS_ON_GPU = 60.0, 300.0
# Utterances are read in windows of this many batches, and sorted by duration within a window to reduce padding. A
# larger window would reduce padding further, but need more memory for the audio.
BATCHES_IN_WINDOW = 8
# Durations of the trial's audio in seconds, in ascending order. At 16 kHz, some of them have odd and others have even
# numbers of samples, of 10 ms frames and of 20 ms rows, because models round these numbers.
TRIAL_SECONDS = (0.31, 1.0, 1.5100625, 3.0)
FIRST_CALL_SECONDS = 1.0
# Index in TRIAL_SECONDS of the audio that is compared with the longest audio to measure the frame shift.
SHIFT_REFERENCE = 1
# Largest difference, relative to the largest value, between the outputs of an utterance in a batch and alone at which
# it may share a batch: for float32, and for bfloat16 and float16. Batches change the order of sums, and thus rounding.
TOLERANCE, HALF_PRECISION_TOLERANCE = 1e-5, 3e-2
# The number of rows may differ from the number that a declared frame shift requires by MAX_ROW_ERROR rows plus
# MAX_ROW_ERROR_SHARE of the required rows, because extractors treat the ends of the audio differently.
MAX_ROW_ERROR, MAX_ROW_ERROR_SHARE = 5, 0.05
MAX_MESSAGE_CHARACTERS = 300
SHORT_SECONDS = 0.1  # The message about a failed utterance says if its audio is shorter, as a likely cause.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RESERVED = ("wav", "cmvn")  # Outputs must not have these names, because Kaldi uses wav.scp and cmvn.scp.


@dataclass(frozen=True)
class Trial:
    """Results of the trial calls of an extractor at the start of a dump. The plan stores them."""

    first: ClassVar[str]  # Name of the first output.
    # Name of the first output that has a row or number for each frame; "" without such an output.
    framed: ClassVar[str]
    vectors: ClassVar[list[str]]  # Names of the outputs that have a vector of floats for each utterance.

    # Kind and number of columns of each output, by name (0 columns for vectors of any length).
    outputs: dict[str, tuple[str, int]] = field(default_factory=lambda: {FEATS: (MATRIX, 0)})
    batching: str = ALONE  # Utterances that may share a batch: "padded" (all), "equal" (of equal length) or "alone".
    frame_shift: float = 0.0  # Seconds between rows of the matrices; 0 if the distance is not constant.
    threads: int = 1  # Number of CPU threads of the extractor, which may affect the last digits.
    # Length in samples of the shortest audio whose outputs a padded batch did not change in the trial. Shorter audio is
    # computed alone.
    shortest: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)  # Digests of the extractor's state, by name.
    # Reasons why parts of the extractor cannot be digested, by name of the part.
    opaque: Mapping[str, str] = field(default_factory=dict)
    volatile: Sequence[str] = ()  # Attribute paths of values that calls change, which are not part of the digests.
    variables: Sequence[str] = ()  # Names of the environment variables that calls of the extractor read.
    files: Mapping[str, str] = field(default_factory=dict)  # Files that the extractor has used, by name.

    def __post_init__(self) -> None:
        """Set ``first``, ``framed`` and ``vectors`` from ``outputs``."""
        vectors = [name for name, (kind, _) in self.outputs.items() if kind == VECTOR]
        framed = next((name for name in self.outputs if name not in vectors), "")
        vars(self).update(first=next(iter(self.outputs)), framed=framed, vectors=vectors)


class DeviceExtractor:
    """The extractor of a job on a device, followed by pooling or k-means labels.

    ``device`` is "cpu" or a GPU such as "cuda:0". ``threads`` is the number of CPU threads that the extractor may use.
    """

    def __init__(self, job: Job, device: str, threads: int) -> None:
        self.options, self.device, self.threads = job.options, device, threads
        source = make_source(job)
        assert source is not None
        self.source = source
        with guard_user_code(source.label):
            self.extractor: Extractor = open_extractor(source, device, threads)
        self.has_reduced = False  # True once a matrix has been reduced to a vector or to labels.
        self.centroids = _read_centroids(self.options.kmeans) if self.options.kmeans else None

    def __call__(self, audio: Sequence[Array], rates: Sequence[float]) -> list[dict[str, Any]]:
        """Return each utterance's outputs by name, for ``audio`` (T,) from -1 to 1 with sampling ``rates`` in Hz."""
        torch, settings = get_torch_extractors(), (self.device, self.options.dtype, self.threads)
        with guard_user_code(self.source.label), torch.enter_inference(*settings) if torch else nullcontext():
            # The extractor may change its list, as by list.pop.
            outputs = split_by_utterance(self.extractor.call(list(audio), rates), len(audio))
            return [self._convert_output(output) for output in outputs]

    def make_first_call(self) -> None:
        """Make a first call, in which the extractor may create weights or tables, and prepare its new torch modules.

        Do nothing if the source creates nothing in calls. Raise :class:`DumpError` if the call fails.
        """
        if not self.source.changes_in_calls:
            return
        rate = self.extractor.sample_rate or DEFAULT_RATE
        with _explain_failure(self):
            self([make_noise(round(FIRST_CALL_SECONDS * rate))], [rate])
        with guard_user_code(self.source.label):
            self.source.prepare_after_first_call(self.device)

    def release_after_memory_error(self, error: BaseException) -> bool:
        """Return True if ``error`` is about exhausted memory. If torch has raised it, release unused GPU memory."""
        torch = get_torch_extractors()
        return isinstance(error, MemoryError) or (torch is not None and torch.release_after_memory_error(error))

    def is_lost(self) -> bool:
        """Return True if the GPU of the extractor no longer works."""
        return self.device != CPU and get_torch_extractors().is_lost(self.device)

    def _convert_output(self, output: Any) -> dict[str, Any]:
        """Convert an utterance's output, an array or a dictionary, to arrays by name, and reduce them if requested.

        The name of a single array is the default name of its kind. Raise ValueError for an invalid or missing output.
        """
        values = output if isinstance(output, dict) else {"": output}
        if not values:
            raise ValueError("returned nothing: return an array for each utterance")
        arrays = {str(name): self._reduce_matrix(convert_to_array(value)) for name, value in values.items()}
        return {name or DEFAULT_NAMES[get_kind(value)]: value for name, value in arrays.items()}

    def _reduce_matrix(self, value: Array) -> Array:
        """Return the mean row of a float matrix with ``--pool``, or the labels of its rows with ``--kmeans``.

        Return any other value unchanged. Raise ValueError if the matrix is empty, or has more or fewer columns than the
        centroids.
        """
        if value.ndim == 2 and value.dtype == np.float32 and (self.options.pool or self.centroids is not None):
            self.has_reduced = True
            if not len(value):
                raise ValueError("the matrix is empty, perhaps because the audio is too short: remove the utterance")
            if self.options.pool:
                return np.asarray(value.mean(0, dtype=np.float64), np.float32)
            if self.centroids is not None:
                if value.shape[1] != self.centroids.shape[1]:
                    raise ValueError(
                        f"returned {format_count(value.shape[1], 'column')}, but the centroids of --kmeans have "
                        f"{self.centroids.shape[1]}: compute the centroids from outputs of this model and layer"
                    )
                # The centroid c closest to a row x minimizes |c|^2 / 2 - x c, since |x|^2 is the same for all.
                half_norms = 0.5 * (self.centroids**2).sum(1)
                return np.asarray(np.argmin(half_norms - value @ self.centroids.T, axis=1), np.int32)
        return value


def get_kind(value: Array) -> str:
    """Return the kind of object that stores an output, such as "matrix". Raise ValueError if no kind can store it."""
    kinds = {(2, "f"): MATRIX, (1, "f"): VECTOR, (1, "i"): LABEL_VECTOR, (2, "i"): CODE_MATRIX}
    if (value.ndim, value.dtype.kind) not in kinds:
        raise ValueError(f"returned an array of shape {value.shape}: return a vector or a matrix for each utterance")
    return kinds[value.ndim, value.dtype.kind]


def _read_centroids(path: str) -> Array:
    """Read k-means centroids, float32 (clusters, dim), from a ``.npy`` file. Raise DumpError for other content."""
    try:
        array = load_npy(path)
    except ArkError as error:
        raise DumpError(f"--kmeans needs a .npy file with an array of floats: {format_error(error)}") from None
    if array.ndim != 2 or array.dtype.kind != "f" or not array.size:
        raise DumpError(
            f"--kmeans={path}: expected an array of floats of shape (clusters, dim), not {array.dtype} of shape "
            f"{array.shape}"
        )
    centroids = np.asarray(array, np.float32)
    if not np.isfinite(centroids).all():
        raise DumpError(f"--kmeans={path} has NaN or infinities, which give wrong labels: compute the centroids again")
    return centroids


def describe_opaque(opaque: Mapping[str, str]) -> str:
    """Describe values of an extractor that have no digest, as in "file (TextIOWrapper) and 2 more".

    ``opaque`` maps the path of each value in the extractor to its type, or to another reason why it has no digest.
    """
    name, reason = next(iter(opaque.items()))
    return f"{name} ({reason})" + (f" and {len(opaque) - 1} more" if len(opaque) > 1 else "")


# The extractor of the latest trial. The first ExtractorComputer of this process takes it over, to open it only once.
_trial_extractors: dict[Any, DeviceExtractor] = {}


def try_extractor(job: Job, cores: int) -> tuple[Trial, list[str]]:
    """Open an extractor, and call it with noise to find out its outputs, frame shift, batching and digests.

    The processes of the job share ``cores`` cores, or ``OMP_NUM_THREADS`` cores if this number is smaller. The first
    :class:`ExtractorComputer` of this process reuses the opened extractor.

    Returns:
        the trial, and lines about the extractor for the user.

    Raises:
        DumpError: the extractor cannot be opened or called, its outputs are invalid, or an option does not apply to it.
    """
    _trial_extractors.clear()
    thread_limit, device = os.environ.get("OMP_NUM_THREADS", ""), parse_devices(job.options.device)[0]
    usable_cores = min(cores, int(thread_limit)) if thread_limit.isdecimal() else cores
    threads = max(1, usable_cores // min(job.options.nj, cores))
    model = DeviceExtractor(job, device, threads)
    extractor, rate = model.extractor, model.extractor.sample_rate or DEFAULT_RATE
    audio = [make_noise(round(seconds * rate)) for seconds in TRIAL_SECONDS]
    notes = list(extractor.notes)
    with record_calls() if model.source.changes_in_calls else nullcontext(CallRecord()) as record:
        model.make_first_call()
        if job.options.dtype != "float32" and get_torch_extractors() is None:
            fault = f"--dtype={job.options.dtype} has no effect on {extractor.name}, which does not use torch"
            raise DumpError(f"{fault}: leave out --dtype")
        with _explain_failure(model):
            single_outputs, outputs = _compute_single_outputs(model, audio, rate)
        _check_trial_outputs(model, outputs)
        audio = audio[-len(single_outputs) :]  # The extractor may have failed for the shortest audio.
        batching, shortest_index = extractor.batching, 0
        if not batching:
            with _explain_failure(model):
                batching, shortest_index = _find_batching(model, audio, single_outputs, notes)
    with guard_user_code(model.source.label):
        digests = model.source.compute_digests_after_trial(record)
    if digests.opaque and not job.options.trust_extractor:
        notes.append(
            f"{describe_opaque(digests.opaque)} of {extractor.name} cannot be compared, so --resume is refused unless "
            "the object has an attribute 'version' or --trust-extractor is added"
        )
    shift = extractor.frame_shift
    framed = Trial(outputs).framed
    if shift is None and framed:
        shift = _estimate_frame_shift([len(arrays[framed]) for arrays in single_outputs])
    _trial_extractors[_make_model_key(job, device, threads)] = model
    return Trial(
        outputs,
        batching,
        frame_shift=float(f"{shift or 0.0:.5g}"),  # The shift is rounded, because it may be an estimate.
        threads=threads,
        shortest=len(audio[shortest_index]),
        digests=digests.parts,
        opaque=digests.opaque,
        volatile=list(digests.volatile),
        variables=list(digests.variables),
        files={name: str(path) for name, path in digests.files.items()},
    ), notes


def _compute_single_outputs(
    model: DeviceExtractor, audio: list[Array], rate: int
) -> tuple[list[dict[str, Any]], dict[str, tuple[str, int]]]:
    """Call the model with single utterances. Return their arrays, and each output's kind and number of columns.

    ``audio`` is in ascending order of length. If the extractor fails for the shortest audio, the list of arrays starts
    with the second audio. A DumpError, an error for longer audio, and an error of a broken GPU are raised.
    """
    single_outputs = [model([samples.copy()], [rate])[0] for samples in audio[1:]]
    outputs = {name: (kind := get_kind(value), 0 if kind == LABEL_VECTOR else value.shape[-1])
               for name, value in single_outputs[0].items()}  # fmt: skip
    for arrays in single_outputs:
        check_arrays(arrays, outputs)
    try:
        shortest = model([audio[0].copy()], [rate])[0]
        check_arrays(shortest, outputs)
    except DumpError:
        raise
    except Exception:
        if model.is_lost():
            raise
        return single_outputs, outputs
    return [shortest, *single_outputs], outputs


def _check_trial_outputs(model: DeviceExtractor, outputs: dict[str, tuple[str, int]]) -> None:
    """Raise DumpError if an output has an invalid name, or if ``--kmeans`` or ``--pool`` has not reduced any output.

    ``outputs`` maps the names of the outputs in the trial to their kinds and numbers of columns.
    """
    for name in outputs:
        if not _NAME.fullmatch(name) or name in RESERVED:
            fault = f"returns an output {name!r}, which cannot be the name of a file {name}.scp: rename the output"
            raise DumpError(f"{model.extractor.name} {fault}")
    reducing_option = "--kmeans" if model.options.kmeans else "--pool" if model.options.pool else ""
    if reducing_option and not model.has_reduced:
        kinds = ", ".join(f"{name} of type {kind}" for name, (kind, _) in outputs.items())
        fault = f"{reducing_option} needs matrices of floats, but {model.extractor.name} returns {kinds}"
        raise DumpError(f"{fault}: leave out {reducing_option}")


def _estimate_frame_shift(row_counts: list[int]) -> float:
    """Estimate the seconds between rows from ``row_counts``, the numbers of rows for audio of :data:`TRIAL_SECONDS`.

    Return 0.0 if longer audio has no more rows. The first count, for the shortest audio, may be missing.
    """
    added_rows = row_counts[-1] - row_counts[SHIFT_REFERENCE - len(TRIAL_SECONDS)]
    return (TRIAL_SECONDS[-1] - TRIAL_SECONDS[SHIFT_REFERENCE]) / added_rows if added_rows > 0 else 0.0


def _make_model_key(job: Job, device: str, threads: int) -> Any:
    return job.options, id(job.extractor), device, threads


@contextmanager
def _explain_failure(model: DeviceExtractor) -> Iterator[None]:
    """Convert an exception of a trial call in the ``with`` block to a :class:`DumpError`."""
    try:
        yield
    except DumpError:
        raise
    except Exception as error:
        fault = f"{model.extractor.name} fails in a trial call with noise as audio: {_describe_error(error)}"
        advice = model.source.suggest_remedy(error)
        raise DumpError(f"{fault}: {advice}" if advice else fault) from error


def _find_batching(
    model: DeviceExtractor, audio: list[Array], single_outputs: list[dict[str, Any]], notes: list[str]
) -> tuple[str, int]:
    """Find out which utterances may share a batch, by comparing batches with calls for single utterances.

    ``audio`` is the trial's audio, in ascending order of length, and ``single_outputs`` has the outputs of calls for
    single utterances of ``audio``. If padding changes the outputs, a line for the user is appended to ``notes``.

    Returns:
        ``PADDED``, ``EQUAL`` (only utterances of equal length share a batch) or ``ALONE``, and the index in ``audio``
        of the shortest utterance that may be padded. The index is 0 unless the first value is ``PADDED``.
    """
    rates = [model.extractor.sample_rate or DEFAULT_RATE] * len(audio)
    name = model.extractor.name
    for first in (0, 1):  # Padding may affect only the shortest audio.
        if (difference := _describe_difference(model, audio[first:], rates[first:], single_outputs[first:])) is None:
            return PADDED, first
    # A different utterance of equal length shows if a batch without padding changes the outputs.
    reversed_audio = audio[1][::-1] / 2
    outputs = model([reversed_audio.copy()], rates[:1])[0]
    if _describe_difference(model, [audio[1], reversed_audio], rates[:2], [single_outputs[1], outputs]) is None:
        notes.append(f"a padded batch of {name} {difference}: only utterances of equal length share a batch")
        return EQUAL, 0
    notes.append(f"a batch of {name} {difference}: its utterances are computed one by one")
    return ALONE, 0


def _describe_difference(
    model: DeviceExtractor, audio: list[Array], rates: list[int], single_outputs: list[dict[str, Any]]
) -> str | None:
    """Call the model with the batch ``audio``, and describe how its outputs differ from ``single_outputs``.

    Return None if all integers are equal and all floats agree within the tolerance for the type of the model.
    """
    differences = [0.0]
    try:
        batch_outputs = model([samples.copy() for samples in audio], rates)
        for batch_output, single_output in zip(batch_outputs, single_outputs, strict=True):
            for name, value in single_output.items():
                if batch_output[name].shape != value.shape:
                    return f"gives {format_count(len(batch_output[name]), 'row')} instead of {len(value)}"
                if value.dtype == np.int32:
                    differences.append(float((batch_output[name] != value).any()))
                else:
                    scale = float(np.abs(value).max()) or 1.0
                    differences.append(float(np.abs(batch_output[name] - value).max()) / scale)
    except DumpError:
        raise
    except Exception as error:
        if model.is_lost():
            raise
        return f"fails ({_describe_error(error)})"
    tolerance = TOLERANCE if model.options.dtype == "float32" else HALF_PRECISION_TOLERANCE
    largest = np.max(differences)  # Unlike Python's max, NumPy's returns NaN if a difference is NaN.
    return None if largest <= tolerance else f"differs by {largest:.1e} of the largest value"


def make_noise(count: int) -> Array:
    """Return 16-bit noise of varying loudness, as float32 (count,) from -1 to 1. It depends only on ``count``."""
    # The standard deviation varies from 0 to 6000, with a period of 2 pi * 800 samples.
    noise = np.random.default_rng(count).normal(0, 3000, count) * (1 + np.sin(np.arange(count) / 800))
    return np.asarray(np.clip(np.rint(noise), -32768, 32767) / INT16_SCALE, np.float32)


def _describe_error(error: BaseException) -> str:
    """Describe an error as one line: its class, unless it is a ValueError, and the start of its message."""
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{kind}{format_error(error)[:MAX_MESSAGE_CHARACTERS]}"


def check_arrays(
    arrays: dict[str, Any], outputs: dict[str, tuple[str, int]], nonfinite_remedy: str = "check the audio"
) -> None:
    """Raise ValueError unless the arrays of an utterance are finite, not empty, and match ``outputs``.

    ``outputs`` maps the expected names to kinds and numbers of columns. The number is 0 for vectors of any length.
    Integers in matrices must not exceed 2^24 in magnitude, because archives store them as float32.
    ``nonfinite_remedy`` is the advice in the error message about NaN and infinities.
    """
    if arrays.keys() != outputs.keys():
        expected = ", ".join(outputs)
        raise ValueError(f"returned {', '.join(arrays)} instead of {expected}: return the same outputs for all audio")
    for name, (kind, columns) in outputs.items():
        value = arrays[name]
        if get_kind(value) != kind:
            raise ValueError(
                f"{name} has the type {get_kind(value)}, but had the type {kind} in the trial call with noise: "
                "return the same type for all audio"
            )
        if not len(value):
            raise ValueError(f"{name} is empty, perhaps because the audio is too short: remove the utterance")
        if columns and value.shape[-1] != columns:
            raise ValueError(
                f"{name} has {format_count(value.shape[-1], 'column')}, but had {columns} in the trial call with "
                "noise: return the same number of columns for all audio"
            )
        if not value.size:
            raise ValueError(f"{name} has {format_count(len(value), 'row')} without columns: return one column or more")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{name} has NaN or infinities: {nonfinite_remedy}")
        if kind == CODE_MATRIX and max(-int(value.min()), int(value.max())) > MAX_EXACT_INTEGER:
            raise ValueError(
                f"{name} has integers beyond 2^24, which a matrix of 32-bit floats cannot hold exactly: "
                "return vectors of integers"
            )


class PreparedAudio(NamedTuple):
    """Audio of an utterance at the sampling rate of the extractor."""

    audio: Audio  # The utterance as it was read.
    samples: Array  # (T,), float32 from -1 to 1.
    rate: float  # Sampling rate in Hz.


def must_compare_extractor(job: Job) -> bool:
    """Return True if the extractor must be opened to compare it with a plan, even if nothing is left to compute."""
    source = make_source(job)
    return source is not None and not source.is_decided_by_files and not job.options.trust_extractor


def _check_digests(digests: Mapping[str, str], planned_digests: Mapping[str, str], name: str, *, is_new: bool) -> None:
    """Raise :class:`PlanError` unless the digests of the extractor ``name`` equal the digests in the plan.

    The digests are keyed by parts of the extractor, such as attributes. If ``is_new`` is True, this run has made the
    plan, and the error says that processes of this run differ.
    """
    parts = digests.keys() | planned_digests.keys()
    if changes := sorted(part for part in parts if digests.get(part) != planned_digests.get(part)):
        other_count = len(changes) - 1
        verb = "do" if other_count > 1 else "does"
        more = f" (as {verb} {format_count(other_count, 'other part')})" if other_count else ""
        if is_new:
            raise PlanError(
                f"{changes[0]} of {name} differs from process to process{more}: load it from a file, call "
                "torch.manual_seed in the constructor if it is random, or add --trust-extractor if it does not affect "
                "results"
            )
        raise PlanError(
            f"{changes[0]} of {name} differs from the plan{more}: pass the same extractor, make sure that each process "
            "initializes the extractor in the same way, add --trust-extractor if the difference does not affect the "
            "results, or start again without --resume"
        )


class ExtractorComputer:
    """Computes the outputs of a job's extractor on ``device``: "cpu" or a GPU such as "cuda:0".

    The opened extractor must agree with ``trial``, the results of its trial. ``is_new`` is True if this run has made
    the plan, which changes the advice in errors.
    """

    memory = None

    def __init__(self, job: Job, trial: Trial, device: str, *, is_new: bool = False) -> None:
        self.trial, self.device = trial, device
        tried_model = _trial_extractors.get(_make_model_key(job, device, trial.threads))
        self.model = tried_model or DeviceExtractor(job, device, trial.threads)
        _trial_extractors.clear()
        extractor = self.model.extractor
        if not tried_model:
            self.model.make_first_call()
        if not job.options.trust_extractor:
            with guard_user_code(self.model.source.label):
                digests = self.model.source.compute_digests(trial.volatile, trial.variables).parts
            _check_digests(digests, trial.digests, extractor.name, is_new=is_new)
        default_seconds = BATCH_SECONDS_ON_CPU if device == CPU else BATCH_SECONDS_ON_GPU
        self.max_seconds = job.options.batch_seconds or extractor.max_batch_seconds or default_seconds
        self.window = job.options.window_utterances, BATCHES_IN_WINDOW * self.max_seconds
        self.counts = {"halved": 0.0, "resampled": 0.0}

    def take_figures(self) -> dict[str, float]:
        """Return the counts since the previous call, by name: "halved" batches and "resampled" utterances."""
        counts, self.counts = self.counts, dict.fromkeys(self.counts, 0.0)
        return counts

    def submit(self, batch: Sequence[Audio]) -> Any:
        """Compute the single utterances in ``batch``. Return a function that returns the results in any order."""
        results: list[FeaturesOrFailure] = []
        utterances: list[PreparedAudio] = []
        for audio in batch:
            try:
                utterances.append(self._check_and_prepare_audio(audio))
            except Exception as error:
                results.append(make_failure(audio.index, audio.key, error))
        utterances.sort(key=lambda utterance: (len(utterance.samples), utterance.audio.index))
        waiting = deque(utterances)
        while waiting:
            group = self._take_group(waiting)
            results += self._compute_group(group, waiting)
        return lambda: results

    def _check_and_prepare_audio(self, audio: Audio) -> PreparedAudio:
        """Prepare an utterance for the extractor. Raise ValueError for empty audio. Warn about several channels.

        Count audio with a sampling rate that the extractor does not take. It is resampled here or by the extractor.
        """
        wave, extractor_rate = audio.value, self.model.extractor.sample_rate
        if not wave.samples.size:
            raise ValueError("the audio is empty: remove the utterance")
        if len(wave.samples) > 1:
            logger.warning("%s: only the first of %d channels is used", audio.key, len(wave.samples))
        rate = extractor_rate or self.model.extractor.own_rate
        self.counts["resampled"] += bool(rate and wave.sample_frequency != rate)
        return self._prepare_audio(audio)

    def _prepare_audio(self, audio: Audio) -> PreparedAudio:
        """Copy the first channel, scale it to -1 to 1, and resample it if the extractor declares its sampling rate."""
        wave, extractor_rate = audio.value, self.model.extractor.sample_rate
        rate = float(wave.sample_frequency)
        samples = np.asarray(wave.samples[0], np.float32) / INT16_SCALE
        if extractor_rate and rate != extractor_rate:
            samples, rate = resample_waveform(samples, rate, extractor_rate), float(extractor_rate)
        return PreparedAudio(audio, samples, rate)

    def _take_group(self, waiting: deque[PreparedAudio]) -> list[PreparedAudio]:
        """Remove one or more utterances that may share a batch from the start of ``waiting``, and return them.

        ``waiting`` is sorted by length. A batch of several utterances has at most ``max_seconds`` of padded audio, and
        each utterance has at least ``trial.shortest`` samples.
        """
        group = [waiting.popleft()]
        if self.trial.batching == ALONE or len(group[0].samples) < self.trial.shortest:
            return group
        while waiting:
            candidate = waiting[0]
            may_share_batch = len(candidate.samples) == len(group[0].samples) or self.trial.batching == PADDED
            if not may_share_batch or (len(group) + 1) * self._compute_padded_seconds(candidate) > self.max_seconds:
                break
            group.append(waiting.popleft())
        return group

    def _compute_padded_seconds(self, utterance: PreparedAudio) -> float:
        return max(utterance.audio.seconds, self.model.extractor.window_seconds)

    def _compute_group(self, group: list[PreparedAudio], waiting: deque[PreparedAudio]) -> list[FeaturesOrFailure]:
        """Compute utterances as one batch, and return the results.

        If the memory is too small for several utterances, put them back into ``waiting``, halve the size of later
        batches, and return no results. After any other error, compute the utterances one by one, so that only an
        utterance that causes an error fails.
        """
        try:
            outputs = self.model([item.samples for item in group], [item.rate for item in group])
            for utterance, arrays in zip(group, outputs, strict=True):
                self._check_arrays(utterance.audio, arrays)
        except DumpError:  # The extractor has called sys.exit or changed the process.
            raise
        except Exception as error:
            if self.model.is_lost():
                raise
            if len(group) > 1:  # Prepare the samples again, because the call may have changed them.
                group = [self._prepare_audio(utterance.audio) for utterance in group]
            if self.model.release_after_memory_error(error):
                if len(group) > 1:
                    self.counts["halved"] += 1
                    self.max_seconds = len(group) // 2 * self._compute_padded_seconds(group[-1])
                    waiting.extendleft(reversed(group))
                    return []
                error = MemoryError()
            if len(group) > 1:  # A single utterance may have caused the error, so each one is computed alone.
                return [result for utterance in group for result in self._compute_group([utterance], waiting)]
            audio = group[0].audio
            if isinstance(error, MemoryError):
                return [make_failure(audio.index, audio.key, error)]
            reason = _describe_error(error)
            if audio.seconds < SHORT_SECONDS and "too short" not in reason:  # Models rarely name this cause.
                reason += f" (the audio is shorter than {SHORT_SECONDS:g} s)"
            return [Failure(audio.index, audio.key, reason)]
        pairs = zip(group, outputs, strict=True)
        return [result for utterance, arrays in pairs for result in self._make_results(utterance.audio, arrays)]

    def _check_arrays(self, audio: Audio, arrays: dict[str, Any]) -> None:
        """Raise ValueError for invalid outputs, or for a number of rows that contradicts the declared frame shift."""
        remedy = "check the audio"
        if self.model.options.dtype != "float32":
            remedy += ", or compute with --dtype=float32"
        check_arrays(arrays, self.trial.outputs, remedy)
        shift = self.model.extractor.frame_shift
        if self.model.extractor.checks_rows and shift and self.trial.framed:
            rows, expected = len(arrays[self.trial.framed]), audio.seconds / shift
            if abs(rows - expected) > MAX_ROW_ERROR + MAX_ROW_ERROR_SHARE * expected:
                fault = f"returned {format_count(rows, 'row')}, but the declared frame shift of {shift:g} s requires"
                raise ValueError(f"{fault} {expected:.0f}: correct frame_shift of the extractor")

    def _make_results(self, audio: Audio, arrays: dict[str, Any]) -> Iterator[FeaturesOrFailure]:
        """Yield the features of each output of an utterance. Convert matrices of integers to float32 for archives."""
        for name, (kind, _) in self.trial.outputs.items():
            value = arrays[name].astype(np.float32) if kind == CODE_MATRIX else arrays[name]
            yield Features(audio.index, create_block([audio.key], [value]), audio.get_durations(), name=name)
