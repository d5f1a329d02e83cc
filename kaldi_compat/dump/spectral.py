"""Compute spectral features of batches of audio with the code of the compute-*-feats programs."""

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
from kaldi_compat.dump.configuration import parse_confs
from kaldi_compat.dump.entries import Audio, Failure, Features, FeaturesOrFailure, make_failure
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.inputs import list_input_paths
from kaldi_compat.dump.noise import BlockNoise, UtteranceNoise
from kaldi_compat.dump.options import CPU, Job
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.read import RowMemory
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.engine import count_frames
from kaldi_compat.exact.rand import NoiseSource
from kaldi_compat.options.registry import SPECTRAL_FEATURES

# Maximum number of samples of utterances that are computed together. The intermediate arrays of more samples would not
# fit into the CPU's cache.
MAX_GROUP_SAMPLES = 1 << 19
SPK2WARP, UTT2WARP = "spk2warp", "utt2warp"
Product = TypeVar("Product")
# Function that waits for work in progress on a device, and returns the results.
Pending = Callable[[], Sequence[FeaturesOrFailure]]


class SpectralComputer:
    """Computes spectral features on ``device``, such as "cpu" or "cuda:0", like Kaldi's compute-*-feats programs.

    The job names the feature, and the plan has the texts of the configuration files.

    Attributes:
        memory: function that returns the memory into which wave files are read. None for ordinary memory.
    """

    memory: Callable[[], RowMemory] | None = None

    def __init__(self, job: Job, plan: DumpPlan, device: str) -> None:
        self.feature = SPECTRAL_FEATURES[job.spectral]
        options = replace(
            parse_confs(job, plan.settings["confs"])[job.spectral], device=device, engine=job.options.engine
        )
        self.seed = plan.seed
        self.extractor = SpectralExtractor(self.feature, options)
        self.warps = open_vtln_warps(job, options) if isinstance(options, VtlnOptions) else None

    def submit(self, batch: Sequence[Audio]) -> Pending:
        """Compute a batch immediately. Return a function that returns the results in the order of the batch."""
        results = [result for audio in _group_audio(batch) for result in self.compute(audio)]
        return lambda: results

    def compute(self, audio: Audio) -> list[FeaturesOrFailure]:
        """Return features and failures of utterances in order. Errors are handled by :func:`compute_in_halves`."""
        return compute_in_halves(self._compute_block, audio)

    def _compute_block(self, audio: Audio) -> Features:
        """Compute utterances together. Convert torch's RuntimeError about insufficient CPU memory to a MemoryError."""
        try:
            block = self.extractor.compute_block(audio.block, self.warps, self._make_noise(audio))
        except RuntimeError as error:
            if isinstance(error, KaldiCompatError | ArkError) or "DefaultCPUAllocator" not in str(error):
                raise
            raise MemoryError from error
        return Features(audio.index, block, audio.get_durations())

    def _make_noise(self, audio: Audio) -> NoiseSource:
        """Return the dithering noise of utterances. Raise Skip if the utterances must be computed one by one."""
        if len(audio) == 1:
            return UtteranceNoise(self.seed, audio.key)
        computer = self.extractor.computer
        if not isinstance(computer, ExactComputer) or not isinstance(audio.block, WaveBlock):
            raise Skip
        return BlockNoise(self.seed, audio.block.keys, count_frames(computer.plan, audio.block.lengths))

    def take_figures(self) -> dict[str, float]:
        """Return an empty dictionary, because the summary has no figures about the CPU."""
        return {}


def compute_in_halves(work: Callable[[Audio], Product], audio: Audio) -> list[Product | Failure]:
    """Return the results of ``work`` for utterances. After an error, halve the utterances until the cause is isolated.

    An utterance that fails by itself becomes a :class:`Failure`, but a RuntimeError of another library is raised.
    """
    try:
        return [work(audio)]
    except (Skip, KaldiCompatError, ArkError, MemoryError, RuntimeError) as error:
        if len(audio) > 1:
            return [result for half in audio.halve() for result in compute_in_halves(work, half)]
        if isinstance(error, RuntimeError) and not isinstance(error, KaldiCompatError | ArkError):
            raise
        return [make_failure(audio.index, audio.key, error)]


def _group_audio(batch: Iterable[Audio]) -> Iterator[Audio]:
    """Yield the blocks of a batch. For speed, join consecutive single utterances, up to MAX_GROUP_SAMPLES samples."""
    group: list[Audio] = []
    group_samples = 0
    for audio in batch:
        is_single = isinstance(audio.block, WaveBlock) and len(audio) == 1
        samples = audio.nbytes // 2  # A sample has 2 bytes.
        fits = is_single and group_samples + samples <= MAX_GROUP_SAMPLES
        if group and not (fits and audio.index == group[-1].index + 1):
            yield _join_audio(group)
            group, group_samples = [], 0
        if is_single:
            group.append(audio)
            group_samples += samples
        else:
            yield audio
    if group:
        yield _join_audio(group)


def _join_audio(group: Sequence[Audio]) -> Audio:
    return Audio(group[0].index, concatenate([audio.block for audio in group])) if len(group) > 1 else group[0]


def open_vtln_warps(job: Job, options: VtlnOptions) -> LookupReader[float] | None:
    """Open the VTLN factors of the data directory, or of ``options.vtln_map``. Return None if both are missing."""
    if path := find_warp_file(job):
        utt2spk = f"ark:{job.layout.data / 'utt2spk'}" if path.name == SPK2WARP else ""
        return LookupReader[float](f"ark:{path}", kind="float", utt2spk=utt2spk)
    if options.vtln_map:
        return LookupReader[float](options.vtln_map, kind="float", utt2spk=options.utt2spk)
    return None


def find_warp_file(job: Job) -> Path | None:
    """Return the path of ``spk2warp``, or of ``utt2warp`` if it is missing. Return None if both files are missing."""
    candidates = (job.layout.data / name for name in (SPK2WARP, UTT2WARP))
    return next((path for path in candidates if path.is_file()), None)


def check_feature(job: Job, confs: Mapping[str, str]) -> None:
    """Check the options in ``confs`` of a job's spectral feature, the tables that options name, and the VTLN factors.

    Raises:
        DumpError: a table that an option names is missing.
        KaldiCompatError: the options are invalid.
        ArkError: the result of :func:`find_warp_file` cannot be read as a table of numbers.
    """
    if options := parse_confs(job, confs).get(job.spectral):
        engine = "auto" if job.options.on_gpu else job.options.engine
        SpectralExtractor(SPECTRAL_FEATURES[job.spectral], replace(options, device=CPU, engine=engine))
    for name, table in list_input_paths(job, confs).items():
        if name.startswith("--") and not table.exists():
            raise DumpError(f"{table} is missing: create it, or correct {name}")
    if path := find_warp_file(job):
        with io_ark.SequentialReader[float](f"ark:{path}", kind="float") as factors:
            deque(factors, maxlen=0)
