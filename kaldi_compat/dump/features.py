"""Compute the features of a job: spectral features on the device, pitch on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from io_ark.blocks import Skip
from kaldi_compat.cli.paste import pasted
from kaldi_compat.dump.batching import one_by_one as utterances_of
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, Utterance, UtteranceBlock, failed
from kaldi_compat.dump.spectral import Computed, Pending, Result, SpectralComputer, one_by_one, ready


class Computer:
    """Computes the features of a job, batch by batch, on one device.

    Args:
        job: the job.
        plan: its plan, which holds the seed of the noise and the configuration.
        device: cpu, or a GPU such as cuda:1. Pitch is always tracked on the CPU.

    Attributes:
        memory: makes the memory that wave files are best read to; None for ordinary memory.
        takes_blocks: True if blocks of utterances are computed at once.
    """

    def __init__(self, job: Job, plan: Plan, device: str = "cpu") -> None:
        self.tolerance = job.options.paste_length_tolerance
        self.pitch = pitch_computer(job, plan) if job.with_pitch else None
        self.spectral = spectral_computer(job, plan, device) if job.spectral else None
        self.memory = self.spectral.memory if self.spectral else None
        self.takes_blocks = self.pitch is None and self.spectral is not None and self.spectral.takes_blocks

    def submit(self, batch: Sequence[Utterance | UtteranceBlock]) -> Pending:
        """Start computing a batch; call the returned function for the features of each utterance, in any order.

        Args:
            batch: utterances, and blocks of them if ``takes_blocks`` is true.
        """
        spectral = self.spectral.submit(batch) if self.spectral else None
        if self.pitch is None:
            assert spectral is not None
            return spectral
        pitch = self.pitch([each for each in utterances_of(batch) if isinstance(each, Utterance)])
        if spectral is None:
            return ready(pitch)
        by_index = {each.index: each for each in pitch}
        return lambda: [self._paste(each, by_index[each.index]) for each in one_by_one(spectral())]

    def figures(self) -> dict[str, float]:
        """Return figures for the summary."""
        return self.spectral.figures() if self.spectral else {}

    def _paste(self, spectral: Result, pitch: Result) -> Result:
        if isinstance(spectral, Failure) or isinstance(pitch, Failure):
            return spectral if isinstance(spectral, Failure) else pitch
        try:
            parts = [[np.asarray(spectral.features)], [np.asarray(pitch.features)]]
            features, _ = pasted(parts, self.tolerance, [spectral.key])
        except Skip as reason:
            return failed(spectral.index, spectral.key, reason)
        return Computed(spectral.index, spectral.key, features, spectral.duration)


def pitch_computer(job: Job, plan: Plan) -> Callable[[Sequence[Utterance]], list[Result]]:
    """Make the function that computes pitch features of a batch."""
    from kaldi_compat.dump.pitch import PitchComputer

    return PitchComputer(job, plan)


def spectral_computer(job: Job, plan: Plan, device: str) -> SpectralComputer:
    """Make the computer of spectral features for a device."""
    if device == "cpu":
        return SpectralComputer(job, plan, device)
    from kaldi_compat.dump.spectral_gpu import PackedComputer

    return PackedComputer(job, plan, device)
