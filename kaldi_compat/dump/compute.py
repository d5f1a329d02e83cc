"""Computing: batches of audio to feature matrices, by the code of the compute-*-feats programs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.errors import ArkError
from kaldi_compat.config import load_options
from kaldi_compat.dump.job import Job
from kaldi_compat.dump.noise import UtteranceNoise
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, Utterance
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.programs.compute import Extractor, feature_options
from kaldi_compat.programs.loop import Skip

logger = logging.getLogger(__name__)

Matrix = npt.NDArray[np.float32]
Item = TypeVar("Item")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Computed:
    """An utterance's features.

    Attributes:
        index: its place in the archive's list.
        key: its name.
        features: shape (frames, dim).
        duration: of the audio, in seconds.
    """

    index: int
    key: str
    features: Matrix
    duration: float


def halving(compute: Callable[[Sequence[Item]], list[Out]], batch: Sequence[Item]) -> list[Out]:
    """``compute(batch)``, in ever smaller halves where the device's memory does not suffice.

    Raises:
        torch.OutOfMemoryError: not even one item fits.
    """
    import torch

    try:
        return compute(batch)
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
        logger.warning("out of device memory with %d utterances at once: trying with half of them", len(batch))
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(batch) // 2
    return halving(compute, batch[:middle]) + halving(compute, batch[middle:])


class Computer:
    """Computes what a job asks for, batch by batch, on one device.

    Args:
        job: what is asked for.
        plan: whose seed the noise depends on.
        device: cpu, or a GPU such as cuda:1.
    """

    def __init__(self, job: Job, plan: Plan, device: str = "cpu") -> None:
        self.seed = plan.seed
        self.tolerance = job.options.paste_length_tolerance
        self.spectral = spectral_extractor(job, device) if job.spectral else None
        self.warps = vtln_warps(job)
        self.batch_seconds = job.options.batch_seconds

    def group(self, utterance: Utterance) -> Any:
        """What utterances must have in common to be computed together."""
        return 0

    def figures(self) -> dict[str, float]:
        """Figures for the summary."""
        return {}

    def __call__(self, batch: Sequence[Utterance]) -> list[Computed | Failure]:
        """The features of each utterance, or why there are none."""
        return [self._one(utterance) for utterance in batch]

    def _one(self, utterance: Utterance) -> Computed | Failure:
        try:
            features = self._features(utterance)
        except (Skip, KaldiCompatError, ArkError) as reason:
            return Failure(utterance.index, utterance.key, " ".join(str(reason).split()))
        return Computed(utterance.index, utterance.key, features, utterance.wave.duration)

    def _features(self, utterance: Utterance) -> Matrix:
        assert self.spectral is not None
        self.spectral.generator = UtteranceNoise(self.seed, utterance.key)
        return self.spectral(utterance.key, utterance.wave, self.warps)


def spectral_extractor(job: Job, device: str) -> Extractor:
    """What computes the spectral features, with the options of the job's configuration file."""
    name = job.spectral
    program = import_module(f"kaldi_compat.programs.compute_{name}_feats")
    module: Any = getattr(import_module(f"kaldi_compat.{name}"), name.capitalize())
    options = load_options(program.Options, job.confs()[f"{name}.conf"], device=device)
    return Extractor(module(feature_options(module.Options, options)), options)


def vtln_warps(job: Job) -> Any:
    """VTLN factors by utterance, from the file that Kaldi's scripts look for; None if it is not there."""
    by_speaker, by_utterance = (job.layout.in_data(name) for name in ("spk2warp", "utt2warp"))
    if by_speaker.is_file():
        utt2spk = f"ark:{job.layout.in_data('utt2spk')}"
        return io_ark.RandomAccessReader("float", f"ark:{by_speaker}", utt2spk=utt2spk)
    if by_utterance.is_file():
        return io_ark.RandomAccessReader("float", f"ark:{by_utterance}")
    return None
