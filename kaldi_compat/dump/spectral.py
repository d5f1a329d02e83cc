"""Spectral features of batches of audio, computed by the code of the compute-*-feats programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.errors import ArkError
from kaldi_compat.cli.compute import ExactComputer, Extractor, VtlnOptions
from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.objects import Matrix, duration_of
from kaldi_compat.dump.configuration import configured_options
from kaldi_compat.dump.noise import UtteranceNoise, seeds_of_batch, utterance_state
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, Utterance, failed
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.features.registry import SPECTRAL_FEATURES

__all__ = [
    "Computed",
    "Pending",
    "Result",
    "SpectralComputer",
    "check_warps",
    "computed",
    "failure",
    "ready",
    "vtln_warps",
    "warp_file",
]

_GROUP_SAMPLES = 1 << 19  # samples that are computed at once: what they need stays in the cache
BY_SPEAKER, BY_UTTERANCE = "spk2warp", "utt2warp"


@dataclass(frozen=True)
class Computed:
    """An utterance's features.

    Attributes:
        index: its position in the archive's list.
        key: its name.
        features: shape (frames, dim), compressed if the device did that.
        duration: of the audio, in seconds.
        stats: CMVN statistics of what the features read back as, if the device counted them.
    """

    index: int
    key: str
    features: Matrix | CompressedMatrix
    duration: float
    stats: npt.NDArray[np.float64] | None = None


Result = Computed | Failure
# Work that was started on a device; a call waits for its results.
Pending = Callable[[], list[Result]]


def computed(utterance: Utterance, features: Matrix | CompressedMatrix) -> Computed:
    """Return an utterance's result."""
    wave = utterance.wave
    duration = duration_of(wave.samples.shape[1], wave.sample_frequency)
    return Computed(utterance.index, utterance.key, features, duration)


def failure(utterance: Utterance, reason: BaseException) -> Failure:
    """Return the failure that an error means for an utterance."""
    return failed(utterance.index, utterance.key, reason)


def ready(results: list[Result]) -> Pending:
    """Wrap results that are already computed."""
    return lambda: results


class SpectralComputer:
    """Computes spectral features utterance by utterance, as the programs do."""

    def __init__(self, job: Job, plan: Plan, device: str) -> None:
        self.feature = SPECTRAL_FEATURES[job.spectral]
        options = replace(
            configured_options(job, plan.settings["confs"])[job.spectral], device=device, engine=job.options.engine
        )
        self.seed = plan.seed
        self.extractor = Extractor(self.feature, options)
        self.warps = vtln_warps(job, options) if isinstance(options, VtlnOptions) else None

    def submit(self, batch: Sequence[Utterance]) -> Pending:
        """Compute a batch."""
        return ready([result for group in self._groups(batch) for result in self._together(group)])

    def _groups(self, batch: Sequence[Utterance]) -> Iterator[list[Utterance]]:
        """Yield utterances that can be computed at once, in order: nothing heavy is done for each short one."""
        group: list[Utterance] = []
        samples = 0
        can_group = isinstance(self.extractor.computer, ExactComputer) and self.warps is None
        for utterance in batch:
            count = utterance.wave.samples.size
            if group and (not can_group or samples + count > _GROUP_SAMPLES or len(utterance.wave.samples) != 1):
                yield group
                group, samples = [], 0
            group.append(utterance)
            samples += count if len(utterance.wave.samples) == 1 else _GROUP_SAMPLES
        if group:
            yield group

    def _together(self, group: list[Utterance]) -> list[Result]:
        """Compute a group; one utterance after the other if one of them needs anything unusual."""
        if len(group) == 1:
            return [self.one(group[0])]
        states = [utterance_state(self.seed, each.key) for each in group]
        try:
            found = self.extractor.of_list(
                [(each.key, each.wave) for each in group], lambda counts: seeds_of_batch(states, counts)
            )
        except (Skip, KaldiCompatError, MemoryError, RuntimeError):  # which of them fails shows one after the other
            return [self.one(each) for each in group]
        return [computed(utterance, features) for utterance, features in zip(group, found, strict=True)]

    def figures(self) -> dict[str, float]:
        """Figures for the summary."""
        return {}

    def one(self, utterance: Utterance) -> Result:
        """Compute one utterance."""
        self.extractor.generator = UtteranceNoise(self.seed, utterance.key)
        try:
            return computed(utterance, self.extractor(utterance.key, utterance.wave, self.warps))
        except (Skip, KaldiCompatError, ArkError, MemoryError) as reason:
            return failure(utterance, reason)
        except RuntimeError as error:
            if "DefaultCPUAllocator" not in str(error):  # how torch says that memory is short
                raise
            return failure(utterance, MemoryError())


def vtln_warps(job: Job, options: VtlnOptions) -> Any:
    """Open the VTLN factors by utterance: those that Kaldi's scripts look for, or else those that the options name."""
    if path := warp_file(job):
        utt2spk = f"ark:{job.layout.in_data('utt2spk')}" if path.name == BY_SPEAKER else ""
        return io_ark.RandomAccessReader[float]("float", f"ark:{path}", utt2spk=utt2spk)
    if options.vtln_map:
        return io_ark.RandomAccessReader[float]("float", options.vtln_map, utt2spk=options.utt2spk)
    return None


def warp_file(job: Job) -> Path | None:
    """Return the file of VTLN factors that Kaldi's scripts look for, if it exists."""
    found = (job.layout.in_data(name) for name in (BY_SPEAKER, BY_UTTERANCE))
    return next((path for path in found if path.is_file()), None)


def check_warps(job: Job) -> None:
    """Raise ArkError unless the VTLN factors can be read."""
    if path := warp_file(job):
        with io_ark.SequentialReader[float]("float", f"ark:{path}") as factors:
            deque(factors, maxlen=0)
