"""Spectral features of batches of audio, computed by the code of the compute-*-feats programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import io_ark
from io_ark.blocks import Skip, WaveBlock, concatenate
from io_ark.errors import ArkError
from kaldi_compat.cli.compute import ExactComputer, SpectralExtractor, VtlnOptions
from kaldi_compat.cli.tables import LookupReader
from kaldi_compat.dump.configuration import configured_options
from kaldi_compat.dump.entries import Audio, Failure, Features, Result, failed
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.inputs import input_paths
from kaldi_compat.dump.noise import BlockNoise, UtteranceNoise
from kaldi_compat.dump.options import CPU, Job
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.read import RowMemory
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.batch import num_frames
from kaldi_compat.exact.rand import NoiseSource
from kaldi_compat.options.registry import SPECTRAL_FEATURES

_GROUP_SAMPLES = 1 << 19  # samples that are computed at once: what they need stays in the cache
BY_SPEAKER, BY_UTTERANCE = "spk2warp", "utt2warp"
Made = TypeVar("Made")
# Work that was started on a device; a call waits for its results.
Pending = Callable[[], Sequence[Result]]


class SpectralComputer:
    """Computes spectral features as the programs do.

    Attributes:
        memory: makes the memory that wave files are best read to; None for ordinary memory.
    """

    memory: Callable[[], RowMemory] | None = None

    def __init__(self, job: Job, plan: DumpPlan, device: str) -> None:
        self.feature = SPECTRAL_FEATURES[job.spectral]
        options = replace(
            configured_options(job, plan.settings["confs"])[job.spectral], device=device, engine=job.options.engine
        )
        self.seed = plan.seed
        self.extractor = SpectralExtractor(self.feature, options)
        self.warps = vtln_warps(job, options) if isinstance(options, VtlnOptions) else None

    def submit(self, batch: Sequence[Audio]) -> Pending:
        """Compute a batch."""
        results = [result for audio in _in_groups(batch) for result in self.compute(audio)]
        return lambda: results

    def compute(self, audio: Audio) -> list[Result]:
        """Compute utterances together; if one of them is unusual or fails, in halves, so that it is alone at last."""
        return in_halves(self._features_of, audio)

    def _features_of(self, audio: Audio) -> Features:
        try:
            block = self.extractor.of_block(audio.block, self.warps, self._noise(audio))
        except RuntimeError as error:
            if isinstance(error, KaldiCompatError | ArkError) or "DefaultCPUAllocator" not in str(error):
                raise
            raise MemoryError from error  # how torch says that memory is short
        return Features(audio.index, block, audio.durations())

    def _noise(self, audio: Audio) -> NoiseSource:
        if len(audio) == 1:
            return UtteranceNoise(self.seed, audio.key)
        computer = self.extractor.computer
        if not isinstance(computer, ExactComputer) or not isinstance(audio.block, WaveBlock):
            raise Skip
        return BlockNoise(self.seed, audio.block.names(), num_frames(computer.plan, audio.block.lengths))

    def figures(self) -> dict[str, float]:
        """Figures for the summary."""
        return {}


def in_halves(work: Callable[[Audio], Made], audio: Audio) -> list[Made | Failure]:
    """Do work on utterances together; if one of them is unusual or fails, in halves, so that it is alone at last."""
    try:
        return [work(audio)]
    except (Skip, KaldiCompatError, ArkError, MemoryError, RuntimeError) as error:
        if len(audio) > 1:
            return [each for half in audio.halves() for each in in_halves(work, half)]
        if isinstance(error, RuntimeError) and not isinstance(error, KaldiCompatError | ArkError):
            raise
        return [failed(audio.index, audio.key, error)]


def _in_groups(batch: Iterable[Audio]) -> Iterator[Audio]:
    """Yield blocks, of short utterances that are alone too, so that nothing heavy is done for each."""
    group: list[Audio] = []
    samples = 0
    for audio in batch:
        alone = isinstance(audio.block, WaveBlock) and len(audio) == 1
        size = audio.nbytes // 2
        if group and (not alone or samples + size > _GROUP_SAMPLES or audio.index != group[-1].index + 1):
            yield _joined_audio(group)
            group, samples = [], 0
        if alone:
            group.append(audio)
            samples += size
        else:
            yield audio
    if group:
        yield _joined_audio(group)


def _joined_audio(group: Sequence[Audio]) -> Audio:
    return Audio(group[0].index, concatenate([audio.block for audio in group])) if len(group) > 1 else group[0]


def vtln_warps(job: Job, options: VtlnOptions) -> LookupReader[float] | None:
    """Open the VTLN factors by utterance: those that Kaldi's scripts look for, or else those that the options name."""
    if path := warp_file(job):
        utt2spk = f"ark:{job.layout.data / 'utt2spk'}" if path.name == BY_SPEAKER else ""
        return LookupReader[float](f"ark:{path}", kind="float", utt2spk=utt2spk)
    if options.vtln_map:
        return LookupReader[float](options.vtln_map, kind="float", utt2spk=options.utt2spk)
    return None


def warp_file(job: Job) -> Path | None:
    """Return the file of VTLN factors that Kaldi's scripts look for, if it exists."""
    found = (job.layout.data / name for name in (BY_SPEAKER, BY_UTTERANCE))
    return next((path for path in found if path.is_file()), None)


def check_feature(job: Job, confs: Mapping[str, str]) -> None:
    """Raise an error unless the spectral feature can be computed, and its VTLN factors are there and can be read."""
    if options := configured_options(job, confs).get(job.spectral):
        engine = "auto" if job.options.on_gpu else job.options.engine
        SpectralExtractor(SPECTRAL_FEATURES[job.spectral], replace(options, device=CPU, engine=engine))
    for name, table in input_paths(job, confs).items():
        if name.startswith("--") and not table.exists():
            raise DumpError(f"{table} is missing: {name} names it")
    if path := warp_file(job):
        with io_ark.SequentialReader[float](f"ark:{path}", kind="float") as factors:
            deque(factors, maxlen=0)
