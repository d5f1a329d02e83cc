"""Compute spectral features on a GPU: pack, compute and compress batches while transfers run in parallel.

The code does not require a GPU. On a CPU it runs with transfers that do nothing, so it can be tested there.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, PackedBlock, Skip
from io_ark.codecs import CompressionMethod
from kaldi_compat.cli.compute import feature_options
from kaldi_compat.dump.entries import Audio, Encoded, Failure, Features, Result
from kaldi_compat.dump.noise import BlockNoise
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.packed_batch import Part, PinnedMemory, Row, Samples, pack
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.spectral import Pending, SpectralComputer, compute_in_halves
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features.rows import compute_row
from kaldi_compat.torch.kernels.transfers import Transfers, release_memory
from kaldi_compat.torch.tensors.centered import subtract_means

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)


class PackedComputer(SpectralComputer):
    """Computes spectral features of a whole batch at once, and compresses them on the device.

    The numbers equal those of :class:`SpectralComputer` up to rounding.
    """

    def __init__(self, job: Job, plan: DumpPlan, device: str) -> None:
        super().__init__(job, plan, device)
        self.transfers = Transfers(device)
        self.frame_options = feature_options(self.feature.options, self.extractor.options)
        # Packing has already reflected the edges of an utterance.
        module = self.feature.module()(
            replace(self.frame_options, snip_edges=True), engine=cast(Any, job.options.engine)
        )
        self.module = module.to(device)
        if self.transfers.pinned and self.frame_options.snip_edges:
            self.memory = functools.partial(PinnedMemory, self.frame_options.window_shift)
        self.method = None
        if job.options.compress and not job.with_pitch:
            self.method = CompressionMethod.of(job.options.compression_method)
        self._on_cpu = functools.cache(lambda: SpectralComputer(job, plan, "cpu"))
        self._good_warps = _good_warps(self.feature.name, self.module.options)
        self._counts = Counter[str]()

    def submit(self, batch: Sequence[Audio]) -> Pending:
        parts = halving(self._start, batch, self._compute_on_cpu)
        self._counts["halved"] += len(parts) - 1
        return together(parts)

    def figures(self) -> dict[str, float]:
        """Return the peak of the device memory in use, and the counts of exceptional work since the previous call."""
        names = ("computed_on_cpu", "without_kernels", "halved")
        figures = {name: float(self._counts.pop(name, 0)) for name in names}
        if (peak := self.transfers.measure_peak_memory()) is not None:
            figures["peak_device_memory"] = peak
        return figures

    def _compute_on_cpu(self, audio: Audio) -> Result:
        """Compute an utterance that does not fit into the device's memory beside the work in progress."""
        self._counts["computed_on_cpu"] += 1
        logger.warning("%s: computed on the CPU, since it does not fit into the device's memory now", audio.key)
        (result,) = self._on_cpu().compute(audio)
        return result

    def _start(self, batch: Sequence[Audio]) -> Pending:
        parts = [part for audio in batch for part in compute_in_halves(self._part, audio)]
        failures: list[Result] = [part for part in parts if isinstance(part, Failure)]
        rows = defaultdict[Any, list[Part]](list)
        for part in parts:
            if not isinstance(part, Failure):
                rows[part.samples.dtype].append(part)
        counts = self._counts.copy()
        try:
            started = [self._start_row(row) for row in rows.values()]
        except RuntimeError:  # A batch that does not fit is started again in halves.
            self._counts = counts
            raise
        return together([lambda: failures, *started])

    def _part(self, audio: Audio) -> Part:
        """Return utterances of one sampling rate to be packed.

        Raises:
            Skip: an utterance has no features, or the utterances must be processed one by one.
        """
        extractor, options = self.extractor, self.frame_options
        channel, factors = extractor.audio(audio.block), extractor.warps(audio.block, self.warps)
        warps = [factors] * len(audio) if isinstance(factors, float) else factors
        samples: Samples = channel.samples
        starts, lengths = channel.starts, channel.lengths
        try:
            extractor.check_rates(channel)
            if (rate := float(channel.rates[0])) != options.sample_frequency:  # The block has one utterance.
                alone: npt.NDArray[Any] = samples[int(starts[0]) :][: int(lengths[0])].astype(np.float32)
                samples = resample_waveform(alone, rate, options.sample_frequency)
                starts, lengths = np.zeros_like(starts), np.array([len(samples)])
            for warp in set(warps) - self._good_warps:
                self.module._get_filter_bank(warp)  # Raises an error for a factor that moves bands out of their range.
                self._good_warps.add(warp)
        except KaldiCompatError as error:
            raise Skip(f"Failed to compute features for utterance {audio.block.names()[0]}: {error}") from error
        return Part(audio, samples, starts, lengths, warps)

    def _start_row(self, parts: Sequence[Part]) -> Pending:
        transfers = self.transfers
        with transfers.inference("pack"):
            row = pack(parts, self.frame_options, pinned=transfers.pinned)
        with transfers.inference("compute"):
            features = self._features(row, parts)
        with transfers.inference("compress"):
            return self._fetch(features, row, parts)

    def _features(self, row: Row, parts: Sequence[Part]) -> Tensor:
        """Start computing the features of all frames of a row, (frames, dim)."""
        samples = self.transfers.send(row.pieces, row.length)
        keys = [key for part in parts for key in part.audio.block.names()]
        noise = BlockNoise(self.seed, keys, row.counts, row.first_frames)
        warps = [warp for part in parts for warp in part.warps]
        features, by_kernels = compute_row(self.module, samples, row.first_frames, row.frames, warps, noise)
        if self.transfers.device.type == "cuda" and not by_kernels:
            self._counts["without_kernels"] += len(warps)
        if self.extractor.options.subtract_mean:
            features = subtract_means(features, np.stack((row.first_frames, row.counts), 1))
        return features

    def _fetch(self, features: Tensor, row: Row, parts: Sequence[Part]) -> Pending:
        packed = self._compress(features, row)
        is_compressed = bool(packed)
        tensors = [tensor for group in packed for tensor in group.tensors]
        wait = self.transfers.fetch([*tensors, *([] if is_compressed else [features])])
        places = np.stack((row.first_frames, row.first_frames + row.counts), 1).tolist()

        def collect() -> list[Result]:
            arrays = wait()
            objects: dict[int, Sequence[memoryview]] = {}
            for i, group in enumerate(packed):
                members = zip(group.members.tolist(), group.cut_objects(arrays[3 * i : 3 * i + 3]), strict=True)
                objects |= {number: pieces for number, pieces in members if pieces is not None}
            if is_compressed:  # The encoder handles matrices with values that cannot be compressed.
                others = [i for i in range(len(places)) if i not in objects]
                matrices = [features[first:end] for first, end in (places[i] for i in others)]
                fetched = self.transfers.fetch(matrices, computed=True)() if matrices else []
                values = dict(zip(others, fetched, strict=True))
            else:
                values = {i: arrays[-1][first:end] for i, (first, end) in enumerate(places)}
            return _results(parts, row, objects, values)

        return collect

    def _compress(self, features: Tensor, row: Row) -> list[Any]:
        """Start compressing the matrices that the device can compress, and return them in groups."""
        if self.method is None or not _has_compression(features):
            return []
        from kaldi_compat.torch.kernels.compression import compress_rows, has_short_indices

        chosen = np.flatnonzero((row.counts > 0) & has_short_indices(row.counts, features.shape[1]))
        if not len(chosen):
            return []
        places = np.stack((row.first_frames, row.counts), 1)[chosen]
        groups = compress_rows(features, places, self.method)
        return [group._replace(members=chosen[group.members]) for group in groups]


@functools.cache
def _good_warps(feature: str, options: FrameOptions) -> set[float]:
    """Return the VTLN factors that a feature has accepted in this process."""
    return set()


def _results(
    parts: Sequence[Part],
    row: Row,
    objects: Mapping[int, Sequence[memoryview]],
    matrices: Mapping[int, npt.NDArray[Any]],
) -> list[Result]:
    """Return the results of a row. Consecutive utterances of the list with the same kind of result form a block."""
    indices = np.concatenate([part.audio.index + np.arange(len(part.audio)) for part in parts])
    durations = np.concatenate([part.audio.durations() for part in parts])
    keys = [key for part in parts for key in part.audio.block.keys.split(b"\n")[:-1]]
    kinds = np.array([i in objects for i in range(len(indices))])
    bounds = np.flatnonzero((np.diff(indices) != 1) | (np.diff(kinds) != 0)) + 1
    results: list[Result] = []
    for first, end in pairwise([0, *bounds.tolist(), len(indices)]):
        block_slice, numbers = slice(first, end), range(first, end)
        index, names = int(indices[first]), b"".join([key + b"\n" for key in keys[block_slice]])
        if first in objects:
            pieces: list[Any] = [piece for i in numbers for piece in (keys[i], b" ", *objects[i])]
            sizes = np.array([sum(map(len, objects[i])) for i in numbers])
            ends = np.cumsum(sizes + [len(key) + 1 for key in keys[block_slice]])
            packed = PackedBlock(names, np.frombuffer(b"".join(pieces), np.uint8), ends - sizes)
            results.append(Encoded(index, packed, durations[block_slice], frames=row.counts[block_slice]))
        else:
            values = [matrices[i] for i in numbers]
            shapes = np.array([value.shape for value in values])
            block = ArrayBlock(names, np.concatenate(values).reshape(-1), shapes)
            results.append(Features(index, block, durations[block_slice]))
    return results


def _has_compression(features: Tensor) -> bool:
    """Return True if the compression kernels can be used for these features. The first call tests the kernels."""
    if kernels.explain_switched_off(features):
        return False
    from kaldi_compat.torch.kernels.compression import find_compression_fault

    return not find_compression_fault(features.device)


def together(parts: Sequence[Pending]) -> Pending:
    return lambda: [result for part in parts for result in part()]


def halving(
    start: Callable[[Sequence[Audio]], Pending], batch: Sequence[Audio], alone: Callable[[Audio], Result]
) -> list[Pending]:
    """Start a batch. A batch that does not fit into the device's memory is halved repeatedly."""
    try:
        return [start(batch)]
    except RuntimeError as error:
        if not kernels.is_out_of_memory(error):
            raise
    release_memory()
    if len(batch) == 1:
        (audio,) = batch
        if len(audio) == 1:
            result = alone(audio)
            return [lambda: [result]]
        batch = audio.halves()
    middle = len(batch) // 2
    return halving(start, batch[:middle], alone) + halving(start, batch[middle:], alone)
