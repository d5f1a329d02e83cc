"""Base class of the sources of extractors, and the extractor that a source opens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.dump.call_record import CallRecord
from kaldi_compat.dump.options import Job

Array = npt.NDArray[Any]
DEFAULT_RATE = 16000
ALONE, EQUAL, PADDED = "alone", "equal", "padded"


@dataclass(frozen=True)
class Extractor:
    """An extractor that is ready to be called on a device.

    Attributes:
        call: function of a list of float32 arrays ``(T,)`` from -1 to 1 and their sampling rates. Its result is an
            argument of :func:`kaldi_compat.dump.extractors.split_by_utterance`.
        name: name for messages.
        sample_rate: sampling rate of the audio in Hz; None for any rate.
        frame_shift: seconds between rows of the matrices; None if unknown.
        max_batch_seconds: limit of the padded audio in a batch; 0 if the extractor has no limit.
        window_seconds: duration that shorter audio is padded to; 0 without padding.
        batching: "padded", "equal" (utterances of equal length share a batch) or "alone"; "" to decide by a trial.
        checks_rows: compare the number of rows with the duration, because the object has declared ``frame_shift``.
        notes: warnings for the user.
    """

    call: Callable[[Sequence[Array], Sequence[float]], Any]
    name: str
    sample_rate: int | None = DEFAULT_RATE
    frame_shift: float | None = None
    max_batch_seconds: float = 0.0
    window_seconds: float = 0.0
    batching: str = ""
    checks_rows: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Digests:
    """Everything that decides the numbers of an open extractor and is not one of the source's files.

    Attributes:
        parts: digests by name.
        opaque: reasons why parts of the extractor cannot be digested, by name.
        volatile: paths of values that calls change, which are not part of the digests.
        variables: names of the environment variables that calls read. The digests include their values.
        files: files that opening or calling the extractor has used, by name. They are compared like the source's own.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    opaque: Mapping[str, str] = field(default_factory=dict)
    volatile: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)


NO_DIGESTS = Digests()  # Of a source whose files decide everything.


class ExtractorSource(ABC):
    """Base class of the sources of extractors. A source opens an extractor, and digests what decides its numbers.

    Args:
        job: the job.

    Attributes:
        option: name of the option of :class:`~kaldi_compat.dump.options.DumpOptions`, and of the file of the class.
        changes_in_calls: the first call of an extractor may create a part of it, such as weights.
        by_option: the imported sources by option.
    """

    option: ClassVar[str]
    changes_in_calls: ClassVar[bool] = False
    by_option: ClassVar[dict[str, type[ExtractorSource]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "option" in vars(cls):
            ExtractorSource.by_option[cls.option] = cls

    def __init__(self, job: Job) -> None:
        self.job, self.options = job, job.options

    @property
    def label(self) -> str:
        """Name of the extractor for messages: the option with its value, or the name of an object."""
        if self.job.extractor is not None:
            return self.job.feature
        return f"--{self.option}={getattr(self.options, self.option)}"

    @classmethod
    def name_of(cls, value: str) -> str:
        """Return the name of the extractor as a part of file names, from the value of the option."""
        return Path(value).stem

    def local_job(self) -> Job:
        """Download a model if necessary, and return the job with the local path."""
        return self.job

    @abstractmethod
    def files(self) -> dict[str, Path]:
        """Return the files that decide the numbers, by name for messages, without opening the extractor.

        The files must exist when the job starts. The plan has their digests, and a change during the job ends it.
        """

    @abstractmethod
    def open(self, device: str, threads: int) -> Extractor:
        """Open the extractor.

        Raises:
            DumpError: the extractor cannot be opened. The message is one line with the reason.
        """

    def after_first_call(self, device: str) -> None:  # noqa: B027  Most sources create nothing in calls.
        """Prepare the parts of the extractor that its first call has created."""

    @abstractmethod
    def digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return the digests of the open extractor.

        A source whose files decide everything returns :data:`NO_DIGESTS`.

        Args:
            volatile: paths of values that calls change, which are not part of the digests.
            variables: names of environment variables that calls read.
        """

    def digests_after_trial(self, record: CallRecord) -> Digests:
        """Return the digests for the plan after the calls of the trial, with a record of these calls."""
        return self.digests()


def padded_call(function: Any, device: str) -> Callable[..., Any]:
    """Wrap a function of a padded tensor and lengths for a list of audio."""
    from kaldi_compat.torch.extractors import pad

    return lambda audio, rates: function(*pad(audio, device))


def shift_of_steps(frontend: Any) -> float:
    """Return the frame shift of a front end in seconds: the shift of the feature times the strides of the steps."""
    strides = [getattr(step.options, "stride", getattr(step.options, "size", 1)) for step in frontend.preset.steps
               if step.kind in ("low_frame_rate", "stack_frames")]  # fmt: skip
    return float(np.prod([frontend.preset.options.frame_shift / 1000, *strides]).round(9))
