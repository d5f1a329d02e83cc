"""Spectral features on a GPU: batches are packed, computed and compressed there, while transfers run in parallel.

Nothing here requires a GPU: on a CPU the same code runs with transfers that do nothing, so it can be tested there.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.blocks import Skip, WaveBlock
from io_ark.codecs import CompressionMethod
from io_ark.errors import ArkError
from kaldi_compat import kernels
from kaldi_compat.cli.compute import feature_options
from kaldi_compat.dump.centered import subtract_means
from kaldi_compat.dump.entries import Audio, Features, OnGrid, Result, failed
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.packed_batch import PinnedMemory, Row, RowNoise, Samples, pack
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.spectral import Pending, SpectralComputer
from kaldi_compat.dump.transfers import Transfers
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.features.engines import engine_for

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Member:
    """An utterance of a packed batch, at the sampling rate of the feature."""

    audio: Audio
    samples: Samples
    warp: float

    @property
    def place(self) -> OnGrid | None:
        """Place of the samples in memory that a device can copy from; None if they are elsewhere."""
        place, block = self.audio.place, self.audio.block
        if place is None or not isinstance(block, WaveBlock) or not np.may_share_memory(self.samples, block.samples):
            return None
        return OnGrid(place.tensor, place.start + int(block.starts[0]))


class PackedComputer(SpectralComputer):
    """Computes spectral features of a whole batch at once, and compresses them on the device.

    The numbers equal those of :class:`SpectralComputer` up to rounding: a GPU's matrix products add in another order.
    """

    def __init__(self, job: Job, plan: Plan, device: str) -> None:
        super().__init__(job, plan, device)
        self.transfers = Transfers(torch.device(device))
        self.frame_options = feature_options(self.feature.options, self.extractor.options)
        # Packing takes care of the edges of an utterance.
        module = self.feature.module()(
            replace(self.frame_options, snip_edges=True), engine=cast(Any, job.options.engine)
        )
        self.module = module.to(device)
        if self.transfers.pinned and self.frame_options.snip_edges:
            self.memory = functools.partial(PinnedMemory, self.frame_options.window_shift)
        self.method = None
        if job.options.compress and not job.with_pitch:
            self.method = CompressionMethod.of(job.options.compression_method)
        self.wants_sums = job.options.wants_stats and not job.with_pitch
        self._on_cpu = functools.cache(lambda: SpectralComputer(job, plan, "cpu"))
        self._count_on_cpu = self._count_without_kernels = 0

    def submit(self, batch: Sequence[Audio]) -> Pending:
        """Start computing a batch."""
        utterances = [one for audio in batch for one in audio.each()]
        return together(halving(self._start, utterances, self._compute_on_cpu))

    def figures(self) -> dict[str, float]:
        """Return the peak of the device memory in use, and how many utterances were computed otherwise since last."""
        found: dict[str, float] = {
            "computed_on_cpu": float(self._count_on_cpu),
            "without_kernels": float(self._count_without_kernels),
        }
        self._count_on_cpu = self._count_without_kernels = 0
        if self.transfers.device.type == "cuda":
            found["peak_device_memory"] = float(torch.cuda.max_memory_allocated(self.transfers.device))
        return found

    def _compute_on_cpu(self, audio: Audio) -> Result:
        """Compute an utterance that does not fit on the device, which depends on what else is computed there."""
        self._count_on_cpu += 1
        logger.warning("%s: computed on the CPU, since it does not fit into the device's memory now", audio.key)
        (result,) = self._on_cpu().compute(audio)
        return result

    def _start(self, batch: Sequence[Audio]) -> Pending:
        failures: list[Result] = []
        rows: dict[str, list[Member]] = {}
        for audio in batch:
            try:
                member = self._member(audio)
            except (Skip, KaldiCompatError, ArkError) as reason:
                failures.append(failed(audio.index, audio.key, reason))
                continue
            rows.setdefault(member.samples.dtype.name, []).append(member)
        count = self._count_without_kernels
        try:
            started = [self._start_row(sorted(members, key=attrgetter("warp"))) for members in rows.values()]
        except RuntimeError:  # what does not fit is started again, in parts
            self._count_without_kernels = count
            raise
        return together([lambda: failures, *started])

    def _member(self, audio: Audio) -> Member:
        extractor, options = self.extractor, self.frame_options
        channel, factors = extractor.audio(audio.block), extractor.warps(audio.block, self.warps)
        warp = factors if isinstance(factors, float) else factors[0]
        try:
            extractor.check_rates(channel)
            start, rate = int(channel.starts[0]), int(channel.rates[0])
            samples: npt.NDArray[Any] = channel.samples[start : start + int(channel.lengths[0])]
            if rate != options.sample_frequency:
                samples = resample_waveform(samples.astype(np.float32), rate, int(options.sample_frequency))
            self.module.filter_bank(warp)  # refuses factors that move bands out of their range
        except KaldiCompatError as error:
            raise Skip(f"Failed to compute features for utterance {audio.key}: {error}") from error
        return Member(audio, samples, warp)

    def _start_row(self, members: Sequence[Member]) -> Pending:
        transfers = self.transfers
        with transfers.named("pack"):
            places = [member.place for member in members]
            samples = [member.samples for member in members]
            row = pack(samples, self.frame_options, pinned=transfers.pinned, places=places)
        with torch.inference_mode(), transfers.named("compute"):
            features = self._features(row, members)
        with torch.inference_mode(), transfers.named("compress"):
            return self._fetch(features, row, members)

    def _features(self, row: Row, members: Sequence[Member]) -> Tensor:
        """Start computing the features of all frames of a row, (frames, dim)."""
        samples = self.transfers.send(row.pieces, row.length)
        noise = RowNoise(row, [member.audio.key for member in members], self.seed)
        spans = _spans(row, members)
        if engine_for(self.module, samples, None) == "triton":
            from kaldi_compat.kernels.launch import Span, row_features

            features = row_features(self.module, samples, [Span(*span) for span in spans], noise)
        else:
            self._count_without_kernels += len(members) if self.transfers.device.type == "cuda" else 0
            features = self._by_torch(samples, spans, noise)
        if self.extractor.options.subtract_mean:
            features = subtract_means(features, list(zip(row.first_frames, row.counts, strict=True)))
        return features

    def _by_torch(self, samples: Tensor, spans: Sequence[tuple[int, int, float]], noise: RowNoise) -> Tensor:
        size, shift = self.frame_options.window_size, self.frame_options.window_shift
        if len(spans) == 1:
            return self.module(samples, vtln_warp=spans[0][2], generator=noise)
        parts = [
            self.module(samples[first * shift : (end - 1) * shift + size], vtln_warp=warp, generator=noise.part(first))
            for first, end, warp in spans
        ]
        return torch.cat(parts)

    def _fetch(self, features: Tensor, row: Row, members: Sequence[Member]) -> Pending:
        places = list(zip(row.first_frames, row.counts, strict=True))
        packed = self._packed(features, places)
        done = {i for _, chosen, _ in packed for i in chosen} if self.method else set()
        rest = [i for i in range(len(members)) if i not in done]
        plain = []
        if len(rest) == len(members):
            plain = [features]
        elif rest:
            plain = [features[places[i][0] : sum(places[i])] for i in rest]
        tensors = [tensor for parts, _, _ in packed for tensor in parts.tensors]
        arrival = self.transfers.fetch([*tensors, *plain])

        def collect() -> list[Result]:
            arrays = arrival.wait()
            stats: dict[int, npt.NDArray[np.float64]] = {}
            results: list[Result] = []
            for number, (parts, chosen, unpack) in enumerate(packed):
                matrices, sums = unpack(parts, arrays[4 * number : 4 * number + 4])
                stats |= dict(zip(chosen, (each[None] for each in sums), strict=False))
                for i, matrix in zip(chosen, matrices, strict=False):
                    if np.isfinite(matrix.range):
                        results.append(Features.of(members[i].audio, matrix, stats.get(i)))
                    else:  # the encoder decides what to do with values that cannot be compressed
                        results.append(self._uncompressed(features, places[i], members[i]))
            values = arrays[len(tensors) :]
            for number, i in enumerate(rest):
                first, count = places[i]
                own = values[0][first : first + count] if len(rest) == len(members) else values[number]
                results.append(Features.of(members[i].audio, own, stats.get(i) if self.method is None else None))
            return results

        return collect

    def _packed(self, features: Tensor, places: Sequence[tuple[int, int]]) -> list[tuple[Any, list[int], Any]]:
        """Start compressing, or only summing up, the matrices that the device can; return them in parts."""
        if (self.method is None and not self.wants_sums) or not _has_compression(features):
            return []
        from kaldi_compat.kernels.compression import MAX_ELEMENTS, compress_rows, unpacked

        chosen = [i for i, (_, count) in enumerate(places) if 0 < count * features.shape[1] < MAX_ELEMENTS]
        if not chosen:
            return []
        made = compress_rows(features, [places[i] for i in chosen], self.method, with_sums=self.wants_sums)
        return [(parts, [chosen[i] for i in parts.members], unpacked) for parts in made]

    def _uncompressed(self, features: Tensor, place: tuple[int, int], member: Member) -> Result:
        first, count = place
        try:
            return Features.of(member.audio, self.transfers.fetch([features[first : first + count]]).wait()[0])
        except RuntimeError as error:
            if not kernels.is_out_of_memory(error):
                raise
            return self._compute_on_cpu(member.audio)


def _has_compression(features: Tensor) -> bool:
    """Return True if the kernels that compress can be used for these features, after a test at the first use."""
    if kernels.why_switched_off(features):
        return False
    from kaldi_compat.kernels.compression import fault_of_compression

    fault = fault_of_compression(features.device)
    return not fault


def _spans(row: Row, members: Sequence[Member]) -> list[tuple[int, int, float]]:
    """Return the frames of a row, first and end, with their VTLN factor: all frames, without gaps."""
    firsts = [*row.first_frames, row.frames]
    spans: list[tuple[int, int, float]] = []
    for warp, group in groupby(range(len(members)), lambda i: members[i].warp):
        numbers = list(group)
        first, end = firsts[numbers[0]], firsts[numbers[-1] + 1]
        if end > first:
            spans.append((first, end, warp))
    return spans or [(0, row.frames, 1.0)]


def together(parts: Sequence[Pending]) -> Pending:
    """Join several pending results."""
    return lambda: [result for part in parts for result in part()]


def halving(
    start: Callable[[Sequence[Audio]], Pending],
    batch: Sequence[Audio],
    alone: Callable[[Audio], Result],
) -> list[Pending]:
    """Start a batch, in halves of halves if it does not fit into the device's memory.

    Args:
        start: starts a batch.
        batch: audio of one utterance each.
        alone: computes an utterance that does not fit alone.
    """
    try:
        return [start(batch)]
    except RuntimeError as error:
        if not kernels.is_out_of_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if len(batch) == 1:
        result = alone(batch[0])
        return [lambda: [result]]
    middle = len(batch) // 2
    return halving(start, batch[:middle], alone) + halving(start, batch[middle:], alone)
