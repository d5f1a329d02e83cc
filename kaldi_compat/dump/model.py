"""Compute with an extractor: batches by duration, without an utterance's numbers depending on its batch."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from io_ark.blocks import block_of
from io_ark.errors import ArkError
from io_ark.numpy_files import load_npy
from kaldi_compat.dump.call_record import CallRecord, record_calls
from kaldi_compat.dump.devices import devices_of
from kaldi_compat.dump.entries import Audio, Failure, Features, Result, failed
from kaldi_compat.dump.errors import DumpError, PlanError, one_line
from kaldi_compat.dump.extractors import as_array, by_utterance, with_torch
from kaldi_compat.dump.options import CODES, CPU, FEATS, LABELS, XVECTOR, Job
from kaldi_compat.dump.sources import open_extractor, source_of
from kaldi_compat.dump.sources.base import ALONE, DEFAULT_RATE, EQUAL, PADDED, Array, Extractor
from kaldi_compat.dump.user_code import guard
from kaldi_compat.exact.resample import resample_waveform

logger = logging.getLogger(__name__)

EXACT_INTEGERS = 1 << 24  # in float32
INT16_SCALE = np.float32(32768)  # of audio in -1 to 1
MATRIX, VECTOR, LABEL_VECTOR, CODE_MATRIX = "matrix", "vector", "int-vector", "int-matrix"
DEFAULT_NAMES = {MATRIX: FEATS, VECTOR: XVECTOR, LABEL_VECTOR: LABELS, CODE_MATRIX: CODES}
SECONDS_ON_CPU, SECONDS_ON_GPU = 60.0, 300.0
BATCHES_IN_WINDOW = 8  # utterances of so many batches are sorted by duration
# Audio of the trial, from the shortest to the longest. At 16 kHz it has odd and even numbers of samples, of frames of
# 10 ms, and of rows of 20 ms.
TRIAL_SECONDS = (0.31, 1.0, 1.5100625, 3.0)
FIRST_CALL_SECONDS = 1.0
# Index of the shorter audio that a frame shift is measured with; the other one is the longest audio.
SHORTER = 1
# Largest difference that a batch may make, of the largest value.
TOLERANCE, TOLERANCE_OF_HALF = 1e-5, 3e-2
# A declared frame shift is off by this many rows, and this share of them, at most.
ROWS_OFF, SHARE_OFF = 5, 0.05
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RESERVED = ("wav", "cmvn")  # .scp of a data directory that mean something else


@dataclass(frozen=True)
class Trial:
    """Findings of the trial of an extractor at the start; a part of the plan.

    Attributes:
        outputs: kind of each output by its name, and its number of columns (0 for vectors of any length).
        batching: how utterances are computed together: "padded", "equal" or "alone".
        frame_shift: seconds from row to row of the matrices; 0 if they have no constant one.
        threads: of a model on a CPU, which may decide the last digits.
        shortest: samples of the shortest audio that the trial has shown to be the same in a batch. Shorter audio is
            computed alone.
        digests: digests of what decides the numbers besides files, by name.
        opaque: what cannot be digested, with the reason.
        volatile: paths of values that calls change, which are not part of the digests.
        variables: names of the environment variables that calls read.
        files: files that the extractor has used, by name.
    """

    outputs: dict[str, tuple[str, int]] = field(default_factory=lambda: {FEATS: (MATRIX, 0)})
    batching: str = ALONE
    frame_shift: float = 0.0
    threads: int = 1
    shortest: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)
    opaque: Mapping[str, str] = field(default_factory=dict)
    volatile: Sequence[str] = ()
    variables: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def first(self) -> str:
        """Name of the first output."""
        return next(iter(self.outputs))

    @cached_property
    def framed(self) -> str:
        """Name of the first output with a row or number for each frame; "" if there is none."""
        return next((name for name in self.outputs if name not in self.vectors), "")

    @cached_property
    def vectors(self) -> list[str]:
        """Names of the outputs that are a vector of floats for each utterance."""
        return [name for name, (kind, _) in self.outputs.items() if kind == VECTOR]


class Model:
    """An extractor on a device, with what follows it.

    Args:
        job: the job.
        device: where it computes.
        threads: number of threads on a CPU.
    """

    def __init__(self, job: Job, device: str, threads: int) -> None:
        self.options, self.device, self.threads = job.options, device, threads
        source = source_of(job)
        assert source is not None
        self.source = source
        with guard(source.label):
            self.extractor: Extractor = open_extractor(source, device, threads)
        self.has_reduced = False  # a matrix, to a vector or labels
        self.centroids = _centroids(self.options.kmeans) if self.options.kmeans else None

    def __call__(self, audio: Sequence[Array], rates: Sequence[float]) -> list[dict[str, Any]]:
        """Return the outputs of each utterance by name, unchecked."""
        torch, settings = with_torch(), (self.device, self.options.dtype, self.threads)
        with guard(self.source.label), torch.inference(*settings) if torch else nullcontext():
            return [self._finished(each) for each in by_utterance(self.extractor.call(audio, rates), len(audio))]

    def make_first_call(self) -> None:
        """Let an extractor create what it creates in its first call, and prepare that."""
        if self.source.changes_in_calls:
            rate = self.extractor.sample_rate or DEFAULT_RATE
            self([_noise(round(FIRST_CALL_SECONDS * rate))], [rate])
            with guard(self.source.label):
                self.source.after_first_call(self.device)

    def is_full(self, error: BaseException) -> bool:
        """Return True if an error says that memory is short."""
        torch = with_torch()
        return isinstance(error, MemoryError) or (torch is not None and torch.is_full(error))

    def is_lost(self) -> bool:
        """Return True if the GPU does nothing any more."""
        return self.device != CPU and with_torch().is_lost(self.device)

    def _finished(self, output: Any) -> dict[str, Any]:
        """Return an utterance's arrays, pooled or as labels; an error in the place of one that is wrong."""
        parts = output if isinstance(output, dict) else {"": output}
        if not parts:
            raise ValueError("returned nothing")
        arrays = {str(name): self._reduced(as_array(value)) for name, value in parts.items()}
        return {name or DEFAULT_NAMES[kind_of(value)]: value for name, value in arrays.items()}

    def _reduced(self, value: Array) -> Array:
        if value.ndim == 2 and value.dtype == np.float32 and len(value):
            self.has_reduced = True
            if self.options.pool:
                return np.asarray(value.mean(0, dtype=np.float64), np.float32)
            if self.centroids is not None:
                if value.shape[1] != self.centroids.shape[1]:
                    raise ValueError(f"{value.shape[1]} columns, but the centroids have {self.centroids.shape[1]}")
                half = 0.5 * (self.centroids**2).sum(1)
                return np.asarray(np.argmin(half - value @ self.centroids.T, axis=1), np.int32)
        return value


def kind_of(value: Array) -> str:
    """Return the kind of an output.

    Raises:
        ValueError: it is neither a vector nor a matrix.
    """
    kinds = {(2, "f"): MATRIX, (1, "f"): VECTOR, (1, "i"): LABEL_VECTOR, (2, "i"): CODE_MATRIX}
    if (value.ndim, value.dtype.kind) not in kinds:
        raise ValueError(f"returned an array of shape {value.shape}: expected a vector or a matrix for each utterance")
    return kinds[value.ndim, value.dtype.kind]


def _centroids(path: str) -> Array:
    """Read centroids of shape (clusters, dim).

    Raises:
        DumpError: the file holds something else.
    """
    try:
        found = load_npy(path)
    except ArkError as error:
        raise DumpError(f"--kmeans: {one_line(error)}: save an array of floats with numpy.save") from None
    if found.ndim != 2 or found.dtype.kind != "f" or not found.size:
        raise DumpError(
            f"--kmeans={path}: expected an array of floats of shape (clusters, dim), not {found.dtype} of shape "
            f"{found.shape}"
        )
    centroids = np.asarray(found, np.float32)
    if not np.isfinite(centroids).all():
        raise DumpError(f"--kmeans={path} has NaN or infinities: every frame would get the same label")
    return centroids


def describe_opaque(opaque: Mapping[str, str]) -> str:
    """Describe what cannot be digested.

    >>> describe_opaque({"session": "onnxruntime.InferenceSession", "file": "TextIOWrapper"})
    'session (onnxruntime.InferenceSession) and 1 more'
    """
    name, reason = next(iter(opaque.items()))
    return f"{name} ({reason})" + (f" and {len(opaque) - 1} more" if len(opaque) > 1 else "")


_kept: dict[Any, Model] = {}  # the model of a trial, for the first computer in this process


def try_extractor(job: Job, cores: int) -> tuple[Trial, list[str]]:
    """Open an extractor, and find out by noise what it returns, and whether padding changes it.

    Args:
        job: the job.
        cores: number of cores, which its processes share; fewer if ``OMP_NUM_THREADS`` says so.

    Returns:
        the result, and lines about it that the user should know.

    Raises:
        DumpError: it cannot be opened, or fails.
    """
    _kept.clear()
    wanted, device = os.environ.get("OMP_NUM_THREADS", ""), devices_of(job.options.device)[0]
    most = min(cores, int(wanted)) if wanted.isdecimal() else cores
    threads = max(1, most // min(job.options.nj, cores))
    model = Model(job, device, threads)
    extractor, rate = model.extractor, model.extractor.sample_rate or DEFAULT_RATE
    audio = [_noise(round(seconds * rate)) for seconds in TRIAL_SECONDS]
    said = list(extractor.notes)
    with record_calls() if model.source.changes_in_calls else nullcontext(CallRecord()) as record:
        try:
            model.make_first_call()
            alone, outputs = _outputs_alone(model, audio, rate)
        except DumpError:
            raise
        except Exception as error:
            raise DumpError(f"{extractor.name} fails for a trial of noise: {_text(error)}") from error
        _check_names(extractor.name, outputs)
        reducing = "--kmeans" if model.options.kmeans else "--pool" if model.options.pool else ""
        if reducing and not model.has_reduced:
            raise DumpError(
                f"{reducing} needs matrices, and {extractor.name} returns {_kinds_of(outputs)}: leave it out"
            )
        audio = audio[-len(alone) :]
        batching, first = (extractor.batching, 0) if extractor.batching else _batching(model, audio, alone, said)
    with guard(model.source.label):
        digests = model.source.digests_after_trial(record)
    if digests.opaque and not job.options.trust_extractor:
        said.append(
            f"{describe_opaque(digests.opaque)} of {extractor.name} cannot be compared by --resume, which is refused "
            "unless the object has a version or --trust-extractor is added"
        )
    shift = extractor.frame_shift
    framed = Trial(outputs).framed
    if shift is None and framed:
        shorter, longer = (len(each[framed]) for each in (alone[SHORTER - len(TRIAL_SECONDS)], alone[-1]))
        seconds = TRIAL_SECONDS[-1] - TRIAL_SECONDS[SHORTER]
        shift = seconds / (longer - shorter) if longer > shorter else 0.0
    _kept[_key(job, device, threads)] = model
    return Trial(
        outputs,
        batching,
        frame_shift=float(f"{shift or 0.0:.5g}"),
        threads=threads,
        shortest=len(audio[first]),
        digests=digests.parts,
        opaque=digests.opaque,
        volatile=list(digests.volatile),
        variables=list(digests.variables),
        files={name: str(path) for name, path in digests.files.items()},
    ), said


def _outputs_alone(
    model: Model, audio: list[Array], rate: int
) -> tuple[list[dict[str, Any]], dict[str, tuple[str, int]]]:
    """Return the outputs of each utterance, and kind and columns of each output by name.

    An extractor may need more than the shortest audio, which is left out then.
    """
    alone = [model([samples.copy()], [rate])[0] for samples in audio[1:]]
    outputs = {name: (kind := kind_of(value), 0 if kind == LABEL_VECTOR else value.shape[-1])
               for name, value in alone[0].items()}  # fmt: skip
    for own in alone:
        check_outputs_of(own, outputs)
    try:
        shortest = model([audio[0].copy()], [rate])[0]
        check_outputs_of(shortest, outputs)
    except DumpError:
        raise
    except Exception:
        if model.is_lost():
            raise
        return alone, outputs
    return [shortest, *alone], outputs


def _check_names(extractor: str, outputs: Mapping[str, tuple[str, int]]) -> None:
    """Raise :class:`DumpError` if an output cannot be the name of a script file."""
    for name in outputs:
        if not _NAME.fullmatch(name) or name in RESERVED:
            raise DumpError(f"{extractor} returns an output {name!r}, which cannot be the name of a file {name}.scp")


def _kinds_of(outputs: Mapping[str, tuple[str, int]]) -> str:
    return ", ".join(f"{name}, a {kind}" for name, (kind, _) in outputs.items())


def _key(job: Job, device: str, threads: int) -> Any:
    return job.options, id(job.extractor), device, threads


def _batching(model: Model, audio: list[Array], alone: list[dict[str, Any]], said: list[str]) -> tuple[str, int]:
    """Return how utterances may share a batch, and the index of the shortest audio that may."""
    rates = [model.extractor.sample_rate or DEFAULT_RATE] * len(audio)
    name = model.extractor.name
    for first in (0, 1):
        if (off := _difference(model, audio[first:], rates[first:], alone[first:])) is None:
            return PADDED, first
    other = audio[1][::-1] / 2
    of_other = model([other.copy()], rates[:1])[0]
    if _difference(model, [audio[1], other], rates[:2], [alone[1], of_other]) is None:
        said.append(f"a padded batch of {name} {off}: only utterances of equal length share a batch")
        return EQUAL, 0
    said.append(f"a batch of {name} {off}: its utterances are computed one by one")
    return ALONE, 0


def _difference(model: Model, audio: list[Array], rates: list[int], alone: list[dict[str, Any]]) -> str | None:
    """Return how the outputs of a batch differ from those of each utterance alone; None if they are the same."""
    found = [0.0]
    try:
        for own, whole in zip(model([each.copy() for each in audio], rates), alone, strict=True):
            for name, value in whole.items():
                if own[name].shape != value.shape:
                    return f"gives {len(own[name])} rows instead of {len(value)}"
                if value.dtype == np.int32:
                    found.append(float((own[name] != value).any()))
                else:
                    found.append(float(np.abs(own[name] - value).max()) / (float(np.abs(value).max()) or 1.0))
    except DumpError:
        raise
    except Exception as error:
        if model.is_lost():
            raise
        return f"fails ({_text(error)})"
    tolerance = TOLERANCE if model.options.dtype == "float32" else TOLERANCE_OF_HALF
    largest = np.max(found)  # NaN if there is one
    return None if largest <= tolerance else f"differs by {largest:.1e} of the largest value"


def _noise(samples: int) -> Array:
    """Return noise of changing loudness: 16 bits, in -1 to 1."""
    noise = np.random.default_rng(samples).normal(0, 3000, samples) * (1 + np.sin(np.arange(samples) / 800))
    return np.asarray(np.clip(np.rint(noise), -32768, 32767) / INT16_SCALE, np.float32)


def _text(error: BaseException) -> str:
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{kind}{one_line(error)[:300]}"


def check_outputs_of(found: dict[str, Any], outputs: dict[str, tuple[str, int]]) -> None:
    """Raise ValueError unless an utterance's outputs are of these kinds, not empty, and finite."""
    if found.keys() != outputs.keys():
        raise ValueError(f"returned {', '.join(found)} instead of {', '.join(outputs)}")
    for name, (kind, columns) in outputs.items():
        value = found[name]
        if kind_of(value) != kind:
            raise ValueError(f"{name} is a {kind_of(value)} here, and was a {kind}")
        if not len(value):
            raise ValueError(f"{name} is empty: the audio is too short")
        if columns and value.shape[-1] != columns:
            raise ValueError(f"{name} has {value.shape[-1]} columns here, and had {columns}")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{name} has NaN or infinities")
        if kind == CODE_MATRIX and not -EXACT_INTEGERS <= int(value.min()) <= int(value.max()) <= EXACT_INTEGERS:
            raise ValueError(f"{name} has integers beyond 2^24, which a matrix of 32-bit floats does not hold")


class PreparedAudio(NamedTuple):
    """Audio as an extractor takes it."""

    audio: Audio
    samples: Array
    rate: float


def _compare(now: Mapping[str, str], before: Mapping[str, str], name: str) -> None:
    """Raise :class:`PlanError` unless the digests of an extractor are the plan's."""
    if changed := sorted(part for part in now.keys() | before.keys() if now.get(part) != before.get(part)):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise PlanError(
            f"{changed[0]}{more} of {name} is not what the plan was made for: each process must load or initialize it "
            "alike; give the same extractor, add --trust-extractor, or start again without --resume"
        )


class ModelComputer:
    """Computes the outputs of a job's extractor.

    Args:
        job: the job.
        trial: what is known about the extractor.
        device: cpu, or a GPU such as cuda:1.
    """

    memory = None

    def __init__(self, job: Job, trial: Trial, device: str) -> None:
        self.trial, self.device = trial, device
        kept = _kept.get(_key(job, device, trial.threads))
        self.model = kept or Model(job, device, trial.threads)
        _kept.clear()
        extractor = self.model.extractor
        if not kept:
            try:
                self.model.make_first_call()
            except DumpError:
                raise
            except Exception as error:
                raise DumpError(f"{extractor.name} fails for a second of noise: {_text(error)}") from error
        if not job.options.trust_extractor:
            with guard(self.model.source.label):
                digests = self.model.source.digests(trial.volatile, trial.variables).parts
            _compare(digests, trial.digests, extractor.name)
        usual = SECONDS_ON_CPU if device == CPU else SECONDS_ON_GPU
        self.limit = job.options.batch_seconds or extractor.max_batch_seconds or usual
        self.window = job.options.window_utterances, BATCHES_IN_WINDOW * self.limit
        self.counts = {"halved": 0.0, "resampled": 0.0}

    def figures(self) -> dict[str, float]:
        """Return counts for the summary since the last call."""
        found, self.counts = self.counts, dict.fromkeys(self.counts, 0.0)
        return found

    def submit(self, batch: Sequence[Audio]) -> Any:
        """Compute a window of utterances; the returned function gives their results."""
        results: list[Result] = []
        ready: list[PreparedAudio] = []
        for audio in batch:
            try:
                ready.append(self._prepared(audio))
            except Exception as error:
                results.append(failed(audio.index, audio.key, error))
        ready.sort(key=lambda each: (len(each.samples), each.audio.index))
        left = deque(ready)
        while left:
            group = self._next_group(left)
            results += self._computed(group, left)
        results.sort(key=attrgetter("index"))
        return lambda: results

    def _prepared(self, audio: Audio) -> PreparedAudio:
        wave, wanted = audio.value, self.model.extractor.sample_rate
        if not wave.samples.size:
            raise ValueError("the audio is empty")
        if len(wave.samples) > 1:
            logger.warning("%s: of %d channels the first one is used", audio.key, len(wave.samples))
        self.counts["resampled"] += bool(wanted and wave.sample_frequency != wanted)
        return self._fresh(audio)

    def _fresh(self, audio: Audio) -> PreparedAudio:
        wave, wanted = audio.value, self.model.extractor.sample_rate
        rate = float(wave.sample_frequency)
        samples = np.asarray(wave.samples[0], np.float32) / INT16_SCALE
        if wanted and rate != wanted:
            samples = resample_waveform(samples, rate, wanted)
        return PreparedAudio(audio, samples, rate)

    def _next_group(self, left: deque[PreparedAudio]) -> list[PreparedAudio]:
        """Take utterances of a batch, the shortest first, whose padded audio has at most the limit of seconds."""
        group = [left.popleft()]
        if self.trial.batching == ALONE or len(group[0].samples) < self.trial.shortest:
            return group
        while left:
            following = left[0]
            same = len(following.samples) == len(group[0].samples) or self.trial.batching == PADDED
            if not same or (len(group) + 1) * self._seconds(following) > self.limit:
                break
            group.append(left.popleft())
        return group

    def _seconds(self, each: PreparedAudio) -> float:
        return max(each.audio.seconds, self.model.extractor.window_seconds)

    def _computed(self, group: list[PreparedAudio], left: deque[PreparedAudio]) -> list[Result]:
        """Return the results of a group; if memory is short, put it back to be taken in halves."""
        try:
            found = self.model([each.samples for each in group], [each.rate for each in group])
            for each, own in zip(group, found, strict=True):
                self._check(each.audio, own)
        except DumpError:  # the extractor has changed the process or ended
            raise
        except Exception as error:
            if self.model.is_lost():
                raise
            if len(group) > 1:  # the call may have changed its samples
                group = [self._fresh(each.audio) for each in group]
            if self.model.is_full(error):
                if len(group) > 1:
                    self.counts["halved"] += 1
                    self.limit = len(group) // 2 * self._seconds(group[-1])
                    left.extendleft(reversed(group))
                    return []
                error = MemoryError()
            if len(group) > 1:  # one of them is to blame
                return [result for each in group for result in self._computed([each], left)]
            audio = group[0].audio
            if isinstance(error, MemoryError):
                return [failed(audio.index, audio.key, error)]
            return [Failure(audio.index, audio.key, _text(error))]
        return [result for each, own in zip(group, found, strict=True) for result in self._results(each.audio, own)]

    def _check(self, audio: Audio, found: dict[str, Any]) -> None:
        check_outputs_of(found, self.trial.outputs)
        shift = self.model.extractor.frame_shift
        if self.model.extractor.checks_rows and shift and self.trial.framed:
            rows, expected = len(found[self.trial.framed]), audio.seconds / shift
            if abs(rows - expected) > ROWS_OFF + SHARE_OFF * expected:
                raise ValueError(f"{rows} rows, but its frame shift of {shift:g} s makes {expected:.0f} of the audio")

    def _results(self, audio: Audio, found: dict[str, Any]) -> Iterator[Result]:
        for name, (kind, _) in self.trial.outputs.items():
            value = found[name].astype(np.float32) if kind == CODE_MATRIX else found[name]
            yield Features(audio.index, block_of([audio.key], [value]), audio.durations(), name=name)
