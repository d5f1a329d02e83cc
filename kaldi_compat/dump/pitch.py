"""Pitch features of batches of audio, computed on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat.cli.objects import Matrix
from kaldi_compat.dump.configuration import configured_options
from kaldi_compat.dump.entries import Audio, Failure, Features, Result
from kaldi_compat.dump.noise import UtteranceNoise
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.pitch.process import process_pitch
from kaldi_compat.pitch.tracker import track_pitches


class PitchComputer:
    """Tracks the pitch of a batch and makes features from it, as compute- and process-kaldi-pitch-feats do."""

    def __init__(self, job: Job, plan: Plan) -> None:
        options = configured_options(job, plan.settings["confs"])
        self.seed = plan.seed
        self.options = options["pitch"]
        self.process_options = options["pitch_postprocess"]

    def __call__(self, batch: Sequence[Audio]) -> list[Result]:
        """Return the pitch features of each utterance, or its failure, for audio of one utterance each."""
        wanted = self.options.sample_frequency
        results: list[Result] = []
        good = []
        for audio in batch:
            wave = audio.value
            if wave.sample_frequency == wanted:
                good.append((audio, wave.samples[0]))
            else:
                rate = f"{wave.sample_frequency:g} Hz"
                reason = f"it has {rate}, but the pitch tracker expects --sample-frequency={wanted:g}"
                results.append(Failure(audio.index, audio.key, reason))
        for audio, track in track_pitches(good, self.options):
            results.append(Features.of(audio, self._processed(audio.key, track)))
        return results

    def _processed(self, key: str, track: Matrix) -> Matrix:
        if len(track) == 0:
            return np.zeros((0, 0), np.float32)
        noise = UtteranceNoise(self.seed, key)
        return np.asarray(process_pitch(track, self.process_options, generator=noise), np.float32)
