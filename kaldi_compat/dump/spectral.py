"""Spectral features of batches of audio, computed by the code of the compute-*-feats programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.blocks import ArrayBlock, Skip, WaveBlock, block_of
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.errors import ArkError
from kaldi_compat.cli.compute import ExactComputer, Extractor, VtlnOptions
from kaldi_compat.cli.objects import Matrix, duration_of
from kaldi_compat.cli.tables import LookupReader
from kaldi_compat.dump.configuration import configured_options
from kaldi_compat.dump.noise import BlockNoise, UtteranceNoise
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Failure, RowMemory, Utterance, UtteranceBlock, failed
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.batch import num_frames
from kaldi_compat.features.registry import SPECTRAL_FEATURES

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

    @property
    def seconds(self) -> float:
        """Seconds of audio."""
        return self.duration


@dataclass(frozen=True)
class ComputedBlock:
    """Features of utterances that follow each other in the archive's list.

    Attributes:
        index: position of the first one.
        features: their keys and features.
        durations: (utterances,): of the audio, in seconds.
    """

    index: int
    features: ArrayBlock
    durations: npt.NDArray[np.float64]

    @property
    def seconds(self) -> float:
        """Seconds of audio."""
        return float(self.durations.sum())

    def __len__(self) -> int:
        return len(self.features)

    def each(self) -> list[Computed]:
        """Return the results of the utterances one by one."""
        numbered = enumerate(zip(self.features.entries(), self.durations.tolist(), strict=True), self.index)
        return [Computed(index, key, features, duration) for index, ((key, features), duration) in numbered]


Result = Computed | Failure
# What the computers of a batch return: results, and blocks of results where they were computed at once.
Results = Sequence[Result | ComputedBlock]
# Work that was started on a device; a call waits for its results.
Pending = Callable[[], Results]


def computed(utterance: Utterance, features: Matrix | CompressedMatrix) -> Computed:
    """Return an utterance's result."""
    wave = utterance.wave
    duration = duration_of(wave.samples.shape[1], wave.sample_frequency)
    return Computed(utterance.index, utterance.key, features, duration)


def failure(utterance: Utterance, reason: BaseException) -> Failure:
    """Return the failure that an error means for an utterance."""
    return failed(utterance.index, utterance.key, reason)


def ready(results: Results) -> Pending:
    """Wrap results that are already computed."""
    return lambda: results


def one_by_one(results: Results) -> Iterator[Result]:
    """Yield the results of blocks one by one, and other results as they are."""
    for result in results:
        if isinstance(result, ComputedBlock):
            yield from result.each()
        else:
            yield result


class SpectralComputer:
    """Computes spectral features as the programs do.

    Attributes:
        takes_blocks: computes the utterances of a block at once; without, blocks only cost time.
        memory: makes the memory that wave files are best read to; None for ordinary memory.
    """

    memory: Callable[[], RowMemory] | None = None

    def __init__(self, job: Job, plan: Plan, device: str) -> None:
        self.feature = SPECTRAL_FEATURES[job.spectral]
        options = replace(
            configured_options(job, plan.settings["confs"])[job.spectral], device=device, engine=job.options.engine
        )
        self.seed = plan.seed
        self.extractor = Extractor(self.feature, options)
        self.warps = vtln_warps(job, options) if isinstance(options, VtlnOptions) else None
        self.takes_blocks = isinstance(self.extractor.computer, ExactComputer)

    def submit(self, batch: Sequence[Utterance | UtteranceBlock]) -> Pending:
        """Compute a batch."""
        results: list[Result | ComputedBlock] = []
        for group in _groups(batch) if self.takes_blocks else batch:
            if isinstance(group, Utterance):
                results.append(self.one(group))
            elif (block := self._block(group)) is not None:
                results.append(block)
            else:
                results += [self.one(each) for each in group.utterances()]
        return ready(results)

    def _block(self, block: UtteranceBlock) -> ComputedBlock | None:
        """Compute the utterances of a block at once; None if one of them needs anything unusual."""
        names = block.audio.names()
        if isinstance(self.extractor.computer, ExactComputer):
            counts = num_frames(self.extractor.computer.plan, block.audio.lengths)
            self.extractor.generator = BlockNoise(self.seed, names, counts)
        try:
            features = self.extractor.of_block(block.audio, self.warps)
        except (Skip, KaldiCompatError, ArkError, MemoryError, RuntimeError):  # which fails shows one after the other
            return None
        return ComputedBlock(block.index, features, block.audio.durations())

    def figures(self) -> dict[str, float]:
        """Figures for the summary."""
        return {}

    def one(self, utterance: Utterance) -> Result:
        """Compute one utterance."""
        self.extractor.generator = UtteranceNoise(self.seed, utterance.key)
        try:
            block = block_of([utterance.key], [utterance.wave])
            ((_, features),) = self.extractor.of_block(block, self.warps).entries()
            return computed(utterance, features)
        except (Skip, KaldiCompatError, ArkError, MemoryError) as reason:
            return failure(utterance, reason)
        except RuntimeError as error:
            if "DefaultCPUAllocator" not in str(error):  # how torch says that memory is short
                raise
            return failure(utterance, MemoryError())


def _groups(batch: Iterable[Utterance | UtteranceBlock]) -> Iterator[Utterance | UtteranceBlock]:
    """Yield blocks, of short utterances too, so that nothing heavy is done for each; and what cannot be in a block."""
    group: list[Utterance] = []
    samples = 0
    for entry in batch:
        joins = isinstance(entry, Utterance) and WaveBlock.takes(entry.wave)
        size = entry.wave.samples.size if isinstance(entry, Utterance) else 0
        if group and (not joins or samples + size > _GROUP_SAMPLES or entry.index != group[-1].index + 1):
            yield _joined(group)
            group, samples = [], 0
        if joins and isinstance(entry, Utterance):
            group.append(entry)
            samples += size
        else:
            yield entry
    if group:
        yield _joined(group)


def _joined(group: Sequence[Utterance]) -> UtteranceBlock:
    return UtteranceBlock(group[0].index, WaveBlock.joined([(each.key, each.wave) for each in group]))


def vtln_warps(job: Job, options: VtlnOptions) -> LookupReader[float] | None:
    """Open the VTLN factors by utterance: those that Kaldi's scripts look for, or else those that the options name."""
    if path := warp_file(job):
        utt2spk = f"ark:{job.layout.in_data('utt2spk')}" if path.name == BY_SPEAKER else ""
        return LookupReader[float]("float", f"ark:{path}", utt2spk=utt2spk)
    if options.vtln_map:
        return LookupReader[float]("float", options.vtln_map, utt2spk=options.utt2spk)
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
