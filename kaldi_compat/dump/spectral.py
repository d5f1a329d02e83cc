"""Batches of audio to spectral features, by the code of the compute-*-feats programs; and what computing gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import io_ark
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.errors import ArkError
from kaldi_compat.cli.compute import Extractor, VtlnOptions, program_options
from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.objects import Matrix, duration_of
from kaldi_compat.dump.noise import UtteranceNoise
from kaldi_compat.dump.options import PITCH, PROCESS_CONF, Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, Utterance, failed
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.features.registry import SPECTRAL_FEATURES
from kaldi_compat.options.base import require
from kaldi_compat.options.config import load_options, normalise
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions

BY_SPEAKER, BY_UTTERANCE = "spk2warp", "utt2warp"
# Options of the programs that a dump would not heed.
NOT_IN_CONF = {
    "output_format": "which writes Kaldi's format only",
    "write_utt2dur": "which writes utt2dur to the data directory itself",
    "device": "which has its own --device",
}


@dataclass(frozen=True)
class Computed:
    """An utterance's features.

    Attributes:
        index: its place in the archive's list.
        key: its name.
        features: shape (frames, dim); as it is to be stored, if the device compressed it.
        duration: of the audio, in seconds.
    """

    index: int
    key: str
    features: Matrix | CompressedMatrix
    duration: float


Result = Computed | Failure
# What was started on a device, and is waited for by calling it.
Pending = Callable[[], list[Result]]


def computed(utterance: Utterance, features: Matrix | CompressedMatrix) -> Computed:
    """An utterance's result."""
    wave = utterance.wave
    duration = duration_of(wave.samples.shape[1], wave.sample_frequency)
    return Computed(utterance.index, utterance.key, features, duration)


def failure(utterance: Utterance, reason: BaseException) -> Failure:
    """An utterance's failure to give a result."""
    return failed(utterance.index, utterance.key, reason)


def ready(results: list[Result]) -> Pending:
    """Results that are there already."""
    return lambda: results


class SpectralComputer:
    """Computes fbank, MFCC, PLP or spectrogram features utterance by utterance, as the programs do."""

    def __init__(self, job: Job, plan: Plan, device: str) -> None:
        self.feature = SPECTRAL_FEATURES[job.spectral]
        options = replace(configured_options(job)[job.spectral], device=device)
        self.seed = plan.seed
        self.extractor = Extractor(self.feature, options)
        self.warps = vtln_warps(job, options) if isinstance(options, VtlnOptions) else None

    def submit(self, batch: Sequence[Utterance]) -> Pending:
        """Compute a batch."""
        return ready([self.one(utterance) for utterance in batch])

    def figures(self) -> dict[str, float]:
        """Figures for the summary."""
        return {}

    def one(self, utterance: Utterance) -> Result:
        """Compute one utterance."""
        self.extractor.generator = UtteranceNoise(self.seed, utterance.key)
        try:
            return computed(utterance, self.extractor(utterance.key, utterance.wave, self.warps))
        except (Skip, KaldiCompatError, ArkError) as reason:
            return failure(utterance, reason)


def configured_options(job: Job) -> dict[str, Any]:
    """What the configuration files say, as options of the programs that Kaldi's scripts would run.

    Returns:
        by feature; "pitch_postprocess" for what is made of the pitch.

    Raises:
        OptionError: a file that cannot be meant.
    """
    confs = job.confs()
    found: dict[str, Any] = {}
    if job.spectral:
        options = program_options(SPECTRAL_FEATURES[job.spectral])
        conf = confs[f"{job.spectral}.conf"]
        found[job.spectral] = load_options(options, conf)
        for name, instead in NOT_IN_CONF.items():
            value, default = getattr(found[job.spectral], name), getattr(options, name)
            flag = f"--{normalise(name)}={value}"
            require(value == default, f"{conf}: {flag} has no place in the configuration of a dump, {instead}")
    if job.with_pitch:
        found[PITCH] = load_options(PitchOptions, confs["pitch.conf"])
        process = confs.get(PROCESS_CONF)
        found["pitch_postprocess"] = load_options(ProcessPitchOptions, process) if process else ProcessPitchOptions()
    return found


def vtln_warps(job: Job, options: VtlnOptions) -> Any:
    """VTLN factors by utterance: from the file that Kaldi's scripts look for, else from where the options say."""
    if path := warp_file(job):
        utt2spk = f"ark:{job.layout.in_data('utt2spk')}" if path.name == BY_SPEAKER else ""
        return io_ark.RandomAccessReader[float]("float", f"ark:{path}", utt2spk=utt2spk)
    if options.vtln_map:
        return io_ark.RandomAccessReader[float]("float", options.vtln_map, utt2spk=options.utt2spk)
    return None


def warp_file(job: Job) -> Path | None:
    """The file of VTLN factors that Kaldi's scripts look for, if it is there."""
    found = (job.layout.in_data(name) for name in (BY_SPEAKER, BY_UTTERANCE))
    return next((path for path in found if path.is_file()), None)


def check_warps(job: Job) -> None:
    """Raise ArkError unless the VTLN factors can be read."""
    if path := warp_file(job):
        with io_ark.SequentialReader[float]("float", f"ark:{path}") as factors:
            deque(factors, maxlen=0)
