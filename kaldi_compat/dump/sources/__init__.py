"""Sources of extractors. A source is a class such as ``PresetSource``, in a file with the name of its option."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from io_ark.text import format_count
from kaldi_compat.dump.call_record import CallRecord
from kaldi_compat.dump.options import DumpOptions, Job
from kaldi_compat.options.config import spell_as_flags

Array = npt.NDArray[Any]
DEFAULT_RATE = 16000
ALONE, EQUAL, PADDED = "alone", "equal", "padded"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Extractor:
    """An extractor that is ready to be called on a device."""

    # Function of a list of float32 arrays ``(T,)`` from -1 to 1 and their sampling rates in Hz. Its result is the first
    # argument of :func:`split_by_utterance`.
    call: Callable[[Sequence[Array], Sequence[float]], Any]
    name: str  # Name of the extractor in messages.
    sample_rate: int | None = DEFAULT_RATE  # Sampling rate in Hz that the call needs; None for any rate.
    frame_shift: float | None = None  # Seconds between rows of the matrices; None if unknown.
    max_batch_seconds: float = 0.0  # Limit of the padded audio in a batch, in seconds; 0 if the extractor has no limit.
    window_seconds: float = 0.0  # Duration in seconds to which shorter audio is padded; 0 without padding.
    # Utterances that may share a batch: "padded" (all), "equal" (of equal length) or "alone"; "" if a trial decides.
    batching: str = ""
    # True to compare the number of rows with the duration, because the object has declared ``frame_shift``.
    checks_rows: bool = False
    notes: tuple[str, ...] = ()  # Warnings from opening the extractor, for the user.
    own_rate: int | None = None  # Rate in Hz to which the call resamples audio; None if it does not resample.


@dataclass(frozen=True)
class Digests:
    """Everything that determines the results of an open extractor and is not one of the source's files."""

    # Digests of the attributes of the extractor's object and of environment variables, by name.
    parts: Mapping[str, str] = field(default_factory=dict)
    # Reasons why parts of the extractor cannot be digested, by name of the part.
    opaque: Mapping[str, str] = field(default_factory=dict)
    volatile: tuple[str, ...] = ()  # Attribute paths of values that calls change, which are not part of the digests.
    # Names of the environment variables that calls read. The digests include their values.
    variables: tuple[str, ...] = ()
    # Files that opening or calling the extractor has used, by name. They are compared like those of ``list_files``.
    files: Mapping[str, Path] = field(default_factory=dict)


NO_DIGESTS = Digests()  # The digests of an extractor whose results depend only on files.


class ExtractorSource(ABC):
    """Base class of the sources of extractors. A source opens an extractor, and digests its state.

    Attributes:
        option: name of the option of :class:`~kaldi_compat.dump.options.DumpOptions`, and of the file of the class.
        used_options: names of the options in :data:`~kaldi_compat.dump.options.SCOPES` that have an effect.
        is_decided_by_files: the files of :meth:`list_files` determine all results, so a plan can be compared without
            opening the extractor.
        changes_in_calls: the first call of an extractor may create a part of it, such as weights.
    """

    option: ClassVar[str]
    used_options: ClassVar[tuple[str, ...]] = ()
    is_decided_by_files: ClassVar[bool] = False
    changes_in_calls: ClassVar[bool] = False

    def __init__(self, job: Job) -> None:
        self.job, self.options = job, job.options

    @property
    def label(self) -> str:
        """Name of the extractor for messages: the option with its value, or the name of an object."""
        if self.job.extractor is not None:
            return self.job.feature
        return f"--{self.option}={getattr(self.options, self.option)}"

    @classmethod
    def get_name(cls, value: str) -> str:
        """Return the name of the extractor as a part of file names, from the value of the option."""
        return Path(value).stem

    @classmethod
    def list_used_options(cls, options: DumpOptions) -> set[str]:
        """Return the names of options that have an effect on this source if the dump has these ``options``."""
        return set(cls.used_options)

    def make_local_job(self) -> Job:
        """Return the job with the local path of a downloaded model. The base class returns the job unchanged."""
        return self.job

    @abstractmethod
    def list_files(self) -> dict[str, Path]:
        """Return the files that determine the results, without opening the extractor.

        The keys are the names by which messages refer to the files, such as ``--preset``. The files must exist when the
        job starts. The plan stores their digests. If a file changes, the job fails.
        """

    @abstractmethod
    def open(self, device: str, threads: int) -> Extractor:
        """Open the extractor.

        Args:
            device: "cpu" or the name of a GPU.
            threads: number of CPU threads that the extractor may use.

        Raises:
            DumpError: the extractor cannot be opened. The message is one line with the reason.
        """

    def suggest_remedy(self, error: Exception) -> str:
        """Return advice about an error in the first calls of the extractor, or "" if the cause is unknown."""
        return ""

    def prepare_after_first_call(self, device: str) -> None:  # noqa: B027  Most sources create nothing in calls.
        """Prepare the parts of the extractor that its first call has created."""

    @abstractmethod
    def compute_digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return the digests of the open extractor.

        A source whose files determine all results returns :data:`NO_DIGESTS`.

        Args:
            volatile: paths of values that calls change, which are not part of the digests.
            variables: names of environment variables that calls read.
        """

    def compute_digests_after_trial(self, record: CallRecord) -> Digests:
        """Return the digests for the plan. ``record`` lists what the trial calls used; the base class ignores it."""
        return self.compute_digests()


def wrap_padded_function(function: Any, device: str) -> Callable[..., Any]:
    """Return a function for :attr:`Extractor.call` that passes padded batches to ``function``.

    ``function`` takes waveforms as a tensor (B, T) and their lengths (B,), both on ``device``, but not their rates.
    """
    from kaldi_compat.torch.extractors import pad_audio

    return lambda audio, rates: function(*pad_audio(audio, device))


def compute_frame_shift(frontend: Any) -> float:
    """Return the frame shift of a front end in seconds: the feature's shift times the strides of stacking steps."""
    strides = [step.options.stride for step in frontend.preset.steps if step.kind == "low_frame_rate"]
    strides += [step.options.size for step in frontend.preset.steps if step.kind == "stack_frames"]
    return float(np.prod([frontend.preset.options.frame_shift / 1000, *strides]).round(9))


def get_source_class(option: str) -> type[ExtractorSource]:
    """Return the class of a source by the name of its option, which is also the name of its module."""
    module = importlib.import_module(f"{__name__}.{option}")
    source: type[ExtractorSource] = getattr(module, f"{option.capitalize()}Source")
    return source


def get_extractor_name(options: DumpOptions) -> str:
    """Return the extractor's name for file names, in which "-" replaces characters except A-Z, a-z, 0-9 and "._-"."""
    value = getattr(options, options.source).rstrip("/")
    return _NOT_IN_NAMES.sub("-", get_source_class(options.source).get_name(value))


def make_source_option(extractor: Any, name: str) -> dict[str, str]:
    """Return the option that selects ``extractor``, and its value, as a dictionary of one item.

    A string with a colon is a value of "module", and any other string of "preset". For an object, the value of "module"
    is ":" followed by ``name`` or, if ``name`` is empty, by the name of the object or of its class.
    """
    if not isinstance(extractor, str):
        return {"module": f":{name or getattr(extractor, '__name__', type(extractor).__name__)}"}
    return {"module" if ":" in extractor else "preset": extractor}


def make_source(job: Job) -> ExtractorSource | None:
    """Return the source of a job's extractor, or None if the job computes Kaldi's features."""
    return get_source_class(job.options.source)(job) if job.options.source else None


def open_extractor(source: ExtractorSource, device: str, threads: int) -> Extractor:
    """Open an extractor with :meth:`ExtractorSource.open`. Store the warnings of this call in the field ``notes``."""
    with warnings.catch_warnings(record=True) as new_warnings:
        warnings.simplefilter("always", UserWarning)
        extractor = source.open(device, threads)
    return replace(extractor, notes=tuple(spell_as_flags(str(note.message), DumpOptions) for note in new_warnings))


def get_torch_extractors() -> Any:
    """Return :mod:`kaldi_compat.torch.extractors` if this process has imported torch, otherwise None."""
    if "torch" not in sys.modules:
        return None
    from kaldi_compat.torch import extractors

    return extractors


def split_by_utterance(output: Any, count: int) -> list[Any]:
    """Split the output of a batch by utterance.

    Args:
        output: a list, array or tensor with an item for each utterance; or a pair of a padded array or tensor and the
            lengths of its items; or a dictionary of such outputs by name.
        count: number of utterances.

    Returns:
        for each utterance, its item, which is cut to its length, or a dictionary of its items by name.

    Raises:
        ValueError: the number of items or lengths is not ``count``, or the output's type or a length is invalid.
    """
    if isinstance(output, dict):
        parts = {name: split_by_utterance(value, count) for name, value in output.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(count)]
    lengths = None
    if isinstance(output, tuple) and len(output) == 2:
        output, lengths = output[0], convert_to_array(output[1])
        if lengths.ndim != 1 or lengths.dtype != np.int32:
            fault = f"returned lengths of type {lengths.dtype} and shape {lengths.shape}"
            raise ValueError(f"{fault}: return {count} integers")
        lengths = lengths.tolist()
    items = list(output if isinstance(output, list | tuple) else np.atleast_1d(convert_to_array(output)))
    for name, number in (("result", len(items)), ("length", count if lengths is None else len(lengths))):
        if number != count:
            fault = f"returned {format_count(number, name)} for a batch of {count}"
            raise ValueError(f"{fault}: return one per utterance")
    for i, length in enumerate(lengths or ()):
        if not 0 <= length <= len(items[i]):
            raise ValueError(f"returned {format_count(len(items[i]), 'row')} for an utterance with a length of "
                             f"{format_count(length, 'row')}: return lengths from 0 to the number of rows")  # fmt: skip
        items[i] = items[i][:length]
    return items


def convert_to_array(value: Any) -> Array:
    """Return a float32 or int32 copy of a tensor or array. A copy is needed, since an extractor may reuse its memory.

    Raises:
        ValueError: the value is not a tensor or unmasked array, or has elements other than floats and 32-bit integers.
    """
    if value is None:
        raise ValueError("returned nothing: return an array for each utterance")
    if hasattr(value, "detach"):
        value = get_torch_extractors().to_host(value)
    if not isinstance(value, np.ndarray) or (type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)):
        raise ValueError(f"returned a {type(value).__name__}: expected an array or a tensor")
    if value.dtype.kind == "f":
        return np.array(value, np.float32, order="C")
    if value.dtype.kind in "iu":
        if value.size and not -(2**31) <= int(value.min()) <= int(value.max()) < 2**31:
            raise ValueError("returned integers that do not fit into 32 bits: return smaller integers, or floats")
        return np.array(value, np.int32, order="C")
    raise ValueError(f"returned an array of type {value.dtype}: expected floats or integers")
