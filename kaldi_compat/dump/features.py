"""Computing what a job asks for: spectral features on the device, pitch beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.paste import pasted
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, Utterance
from kaldi_compat.dump.spectral import Computed, Pending, Result, SpectralComputer, ready


class Computer:
    """Computes what a job asks for, batch by batch, on one device.

    Args:
        job: what is asked for.
        plan: whose seed the noise depends on.
        device: cpu, or a GPU such as cuda:1. Pitch is tracked on the CPU in either case.
    """

    def __init__(self, job: Job, plan: Plan, device: str = "cpu") -> None:
        self.tolerance = job.options.paste_length_tolerance
        self.pitch = pitch_computer(job, plan) if job.with_pitch else None
        self.spectral = spectral_computer(job, plan, device) if job.spectral else None

    def submit(self, batch: Sequence[Utterance]) -> Pending:
        """Start computing a batch; calling what this returns gives the features of each utterance, in any order."""
        spectral = self.spectral.submit(batch) if self.spectral else None
        if self.pitch is None:
            assert spectral is not None
            return spectral
        pitch = self.pitch(batch)
        if spectral is None:
            return ready(pitch)
        by_index = {each.index: each for each in pitch}
        return lambda: [self._paste(each, by_index[each.index]) for each in spectral()]

    def figures(self) -> dict[str, float]:
        """Figures for the summary."""
        return self.spectral.figures() if self.spectral else {}

    def _paste(self, spectral: Result, pitch: Result) -> Result:
        if isinstance(spectral, Failure) or isinstance(pitch, Failure):
            return spectral if isinstance(spectral, Failure) else pitch
        try:
            features = pasted([np.asarray(spectral.features), np.asarray(pitch.features)], self.tolerance, spectral.key)
        except Skip as reason:
            return Failure(spectral.index, spectral.key, str(reason))
        return Computed(spectral.index, spectral.key, features, spectral.duration)


def pitch_computer(job: Job, plan: Plan) -> Callable[[Sequence[Utterance]], list[Result]]:
    """What tracks pitch."""
    from kaldi_compat.dump.pitch import PitchComputer

    return PitchComputer(job, plan)


def spectral_computer(job: Job, plan: Plan, device: str) -> SpectralComputer:
    """What suits the device."""
    if device == "cpu":
        return SpectralComputer(job, plan, device)
    from kaldi_compat.dump.spectral_gpu import PackedComputer

    return PackedComputer(job, plan, device)
