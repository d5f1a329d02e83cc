"""Pitch features of batches of audio, computed on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat.cli.objects import Matrix
from kaldi_compat.dump.configuration import configured_options
from kaldi_compat.dump.noise import UtteranceNoise
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, Utterance
from kaldi_compat.dump.spectral import Result, computed
from kaldi_compat.pitch.process import process_pitch
from kaldi_compat.pitch.tracker import track_pitches


class PitchComputer:
    """Tracks the pitch of a batch and makes features from it, as compute- and process-kaldi-pitch-feats do."""

    def __init__(self, job: Job, plan: Plan) -> None:
        options = configured_options(job, plan.settings["confs"])
        self.seed = plan.seed
        self.options = options["pitch"]
        self.process_options = options["pitch_postprocess"]

    def __call__(self, batch: Sequence[Utterance]) -> list[Result]:
        """Return the pitch features of each utterance, or its failure."""
        wanted = self.options.sample_frequency
        results: list[Result] = []
        good = []
        for utterance in batch:
            rate = utterance.wave.sample_frequency
            if rate == wanted:
                good.append((utterance, utterance.wave.samples[0]))
            else:
                reason = f"it has {rate:g} Hz, but the pitch tracker expects --sample-frequency={wanted:g}"
                results.append(Failure(utterance.index, utterance.key, reason))
        for utterance, track in track_pitches(good, self.options):
            results.append(computed(utterance, self._processed(utterance.key, track)))
        return results

    def _processed(self, key: str, track: Matrix) -> Matrix:
        if len(track) == 0:
            return np.zeros((0, 0), np.float32)
        noise = UtteranceNoise(self.seed, key)
        return np.asarray(process_pitch(track, self.process_options, generator=noise), np.float32)
