"""Base class of sources, and what a source opens."""

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
        call: takes a list of float32 arrays ``(T,)`` in -1 to 1 and their rates, and returns what
            :func:`kaldi_compat.dump.extractors.split_by_utterance` takes apart.
        name: for messages.
        sample_rate: rate of the audio it takes, in Hz; None: any.
        frame_shift: seconds from row to row of its matrices; None if it does not say.
        max_batch_seconds: audio of a batch, padding included; 0 if it does not say.
        window_seconds: audio that it pads shorter audio to; 0 if it does not.
        batching: "padded", "equal" (only utterances of one length together) or "alone"; "" if a trial decides.
        checks_rows: its ``frame_shift`` was declared, so that the number of rows follows from the duration.
        notes: warnings about it that the user should see.
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
        opaque: what cannot be digested, by name, with the reason.
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
    """A kind of extractor: the option that names it, how it is opened, and what decides its numbers.

    Args:
        job: the job.

    Attributes:
        option: name of the option of :class:`~kaldi_compat.dump.options.DumpOptions`, and of the file of the class.
        changes_in_calls: the first call of an extractor may create a part of it, such as weights.
        by_option: all sources that are imported.
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
        """Return the job with everything that the source needs on this machine, such as a downloaded model."""
        return self.job

    @abstractmethod
    def files(self) -> dict[str, Path]:
        """Return the files that decide the numbers, by the name that messages use. They are known without opening.

        The files must exist when the job starts. The plan has their digests, and a change during the job ends it.
        """

    @abstractmethod
    def open(self, device: str, threads: int) -> Extractor:
        """Open the extractor.

        Raises:
            DumpError: it cannot be opened; says why in one line.
        """

    def after_first_call(self, device: str) -> None:  # noqa: B027  Most sources create nothing in calls.
        """Prepare what the first call of :meth:`open`'s extractor has created."""

    @abstractmethod
    def digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return the digests of what :meth:`open` has created.

        A source whose files decide everything returns :data:`NO_DIGESTS`.

        Args:
            volatile: paths of values that calls change, which are not part of the digests.
            variables: names of environment variables that calls read.
        """

    def digests_after_trial(self, record: CallRecord) -> Digests:
        """Return the digests for the plan after first calls of the extractor, which have read what ``record`` holds."""
        return self.digests()


def padded_call(made: Any, device: str) -> Callable[..., Any]:
    """Return the call of an extractor that takes a padded tensor and lengths."""
    from kaldi_compat.torch.extractors import pad

    return lambda audio, rates: made(*pad(audio, device))


def shift_of_steps(frontend: Any) -> float:
    """Return the seconds from frame to frame: the shift of the feature, times the strides of the steps."""
    strides = [getattr(step.options, "stride", getattr(step.options, "size", 1)) for step in frontend.preset.steps
               if step.kind in ("low_frame_rate", "stack_frames")]  # fmt: skip
    return float(np.prod([frontend.preset.options.frame_shift / 1000, *strides]).round(9))
