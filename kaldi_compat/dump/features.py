"""Compute the features of a job: spectral features on the device, pitch on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import Skip, Wave, create_block
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.paste import paste_columns
from kaldi_compat.dump.configuration import parse_confs
from kaldi_compat.dump.entries import Audio, Failure, Features, FeaturesOrFailure, make_failure
from kaldi_compat.dump.noise import UtteranceNoise
from kaldi_compat.dump.options import CPU, Job
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.spectral import Pending, SpectralComputer
from kaldi_compat.errors import AudioError, KaldiCompatError
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.pitch.process import process_pitch
from kaldi_compat.pitch.tracker import track_pitches


class DeviceComputer:
    """Computes the features of a job, batch by batch, on one device: "cpu" or a GPU such as "cuda:0".

    Attributes:
        memory: function that returns the memory into which wave files are read. None for ordinary memory.
        window: maximum number of utterances, and maximum seconds of audio, in a batch.
    """

    def __init__(self, job: Job, plan: DumpPlan, device: str = CPU) -> None:
        self.tolerance = job.options.paste_length_tolerance  # Accepted difference of the lengths, in frames.
        self.pitch = PitchComputer(job, plan) if job.with_pitch else None
        self.spectral = make_spectral_computer(job, plan, device) if job.spectral else None
        self.memory = self.spectral.memory if self.spectral else None
        self.window = job.options.window_utterances, job.options.seconds_in_batch

    def submit(self, batch: Sequence[Audio]) -> Pending:
        """Start the spectral features and compute the pitch of a batch. Return a function that returns the results."""
        finish_spectral = self.spectral.submit(batch) if self.spectral else None
        if self.pitch is None:
            assert finish_spectral is not None
            return finish_spectral
        pitch = self.pitch([utterance for audio in batch for utterance in audio.separate()])
        if finish_spectral is None:
            return lambda: pitch
        pitch_by_index = {result.index: result for result in pitch}
        return lambda: [
            self._paste_pitch(utterance, pitch_by_index[utterance.index])
            for result in finish_spectral()
            for utterance in result.separate()
        ]

    def take_figures(self) -> dict[str, float]:
        """Return figures since the previous call, such as the peak of device memory in bytes, by name."""
        return self.spectral.take_figures() if self.spectral else {}

    def _paste_pitch(self, spectral: FeaturesOrFailure, pitch: FeaturesOrFailure) -> FeaturesOrFailure:
        """Append the pitch columns of an utterance to its spectral features. Drop the extra rows of the longer matrix.

        Return a failure if an argument is a failure or has no rows, or if the lengths differ by over ``tolerance``.
        """
        if isinstance(spectral, Failure) or isinstance(pitch, Failure):
            return spectral if isinstance(spectral, Failure) else pitch
        try:
            parts = [[np.asarray(spectral.value)], [np.asarray(pitch.value)]]
            features, _ = paste_columns(parts, [spectral.key], tolerance=self.tolerance)
        except Skip as reason:
            return make_failure(spectral.index, spectral.key, reason)
        return Features(spectral.index, create_block([spectral.key], [features]), spectral.durations)


class PitchComputer:
    """Computes pitch like compute-kaldi-pitch-feats and process-kaldi-pitch-feats, with the options in ``plan``."""

    def __init__(self, job: Job, plan: DumpPlan) -> None:
        options = parse_confs(job, plan.settings["confs"])
        self.seed = plan.seed
        self.options = options["pitch"]
        self.process_options = options["pitch_postprocess"]
        spectral = options.get(job.spectral)  # No option of pitch allows resampling.
        self.may_downsample = spectral is not None and spectral.allow_downsample
        self.may_upsample = spectral is not None and spectral.allow_upsample

    def __call__(self, batch: Sequence[Audio]) -> list[FeaturesOrFailure]:
        """Return the pitch features or the failure of each utterance, in any order. ``batch`` has single utterances."""
        results: list[FeaturesOrFailure] = []
        tracker_inputs = []
        for audio in batch:
            try:
                tracker_inputs.append((audio, self._get_samples(audio.value)))
            except (KaldiCompatError, MemoryError) as error:
                results.append(make_failure(audio.index, audio.key, error))
        for audio, track in track_pitches(tracker_inputs, self.options):
            features: Matrix = np.zeros((0, 0), np.float32)  # Audio without a frame has Kaldi's empty matrix.
            if len(track):
                noise = UtteranceNoise(self.seed, audio.key)
                features = np.asarray(process_pitch(track, self.process_options, generator=noise), np.float32)
            results.append(Features.from_array(audio, features))
        return results

    def _get_samples(self, wave: Wave) -> npt.NDArray[Any]:
        """Return the samples (T,) of the first channel, on the 16-bit scale, at the tracker's sampling rate.

        Raises:
            AudioError: the sampling rates differ, and the spectral feature's options do not allow resampling.
        """
        rate, expected = wave.sample_frequency, self.options.sample_frequency
        if rate == expected:
            return np.asarray(wave.samples[0])
        may_resample = self.may_downsample if rate > expected else self.may_upsample
        if not may_resample:
            fault = f"the audio has {rate:g} Hz, but the pitch tracker expects --sample-frequency={expected:g}"
            raise AudioError(f"{fault}: correct pitch.conf, or resample the audio")
        return resample_waveform(wave.samples[0].astype(np.float32), rate, expected)


def make_spectral_computer(job: Job, plan: DumpPlan, device: str) -> SpectralComputer:
    """Return the object that computes the spectral feature of a job, on the CPU or with the torch kernels on a GPU."""
    if device == CPU:
        return SpectralComputer(job, plan, device)
    from kaldi_compat.dump.spectral_gpu import PackedComputer

    return PackedComputer(job, plan, device)
