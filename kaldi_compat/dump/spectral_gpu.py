"""Spectral features on a GPU: batches are packed, computed and compressed there, while transfers run in parallel.

Nothing here requires a GPU: on a CPU the same code runs with transfers that do nothing, so it can be tested there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.errors import ArkError
from kaldi_compat.cli.compute import feature_options
from kaldi_compat.cli.loop import Skip
from kaldi_compat.dump.compress_gpu import FEWEST_ROWS, compress_speech, matrices
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.packed_batch import Row, RowNoise, Samples, pack, padded
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.read import Utterance
from kaldi_compat.dump.spectral import Pending, Result, SpectralComputer, computed, failure, ready
from kaldi_compat.dump.transfers import Transfers
from kaldi_compat.errors import KaldiCompatError

__all__ = ["Member", "PackedComputer", "halving", "together"]

SPEECH_METHODS = (1, 2)


@dataclass(frozen=True)
class Member:
    """An utterance of a packed batch."""

    utterance: Utterance
    samples: Samples


class PackedComputer(SpectralComputer):
    """Computes spectral features of a whole batch at once, and compresses them on the device.

    The numbers equal those of :class:`SpectralComputer` up to rounding: a GPU's matrix products add in another order.
    """

    def __init__(self, job: Job, plan: Plan, device: str) -> None:
        super().__init__(job, plan, device)
        self.transfers = Transfers(torch.device(device))
        self.frame_options = feature_options(self.feature.options, self.extractor.options)
        # Packing takes care of the edges of an utterance.
        self.module = self.feature.module()(replace(self.frame_options, snip_edges=True)).to(device)
        wanted = job.options.compress and job.options.compression_method in SPEECH_METHODS
        self.compresses = wanted and not job.with_pitch

    def submit(self, batch: Sequence[Utterance]) -> Pending:
        """Start computing a batch."""
        return together(halving(self._start, batch))

    def figures(self) -> dict[str, float]:
        """Return the peak of the device memory in use."""
        if self.transfers.device.type != "cuda":
            return {}
        return {"peak_device_memory": float(torch.cuda.max_memory_allocated(self.transfers.device))}

    def _start(self, batch: Sequence[Utterance]) -> Pending:
        started: list[Pending] = []
        rows: dict[float, list[Member]] = {}
        alone = self.extractor.options.subtract_mean
        for utterance in batch:
            try:
                samples, warp = self.extractor.audio(utterance.key, utterance.wave, self.warps)
            except (Skip, KaldiCompatError, ArkError) as reason:
                started.append(ready([failure(utterance, reason)]))
                continue
            if alone or utterance.wave.sample_frequency != self.frame_options.sample_frequency:
                started.append(ready([self.one(utterance)]))
            else:
                rows.setdefault(warp, []).append(Member(utterance, samples))
        started += [self._start_row(members, warp) for warp, members in rows.items()]
        return together(started)

    def _start_row(self, members: Sequence[Member], warp: float) -> Pending:
        transfers = self.transfers
        with transfers.named("pack"):
            row = pack([member.samples for member in members], self.frame_options, pinned=transfers.pinned)
            noise = RowNoise(row, [member.utterance.key for member in members], self.seed)
        with torch.inference_mode(), transfers.named("compute"):
            try:
                features = self.module(transfers.send(row.samples), vtln_warp=warp, generator=noise)
            except KaldiCompatError as reason:
                return ready([failure(member.utterance, reason) for member in members])
        with torch.inference_mode(), transfers.named("compress"):
            if self.compresses:
                return self._fetch_compressed(features, row, members)
            return self._fetch(features, row, members)

    def _fetch(self, features: Tensor, row: Row, members: Sequence[Member]) -> Pending:
        arrival = self.transfers.fetch([features])

        def collect() -> list[Result]:
            (there,) = arrival.wait()
            places = zip(members, row.first_frames, row.counts, strict=True)
            return [computed(member.utterance, there[first : first + count]) for member, first, count in places]

        return collect

    def _fetch_compressed(self, features: Tensor, row: Row, members: Sequence[Member]) -> Pending:
        long = [i for i, count in enumerate(row.counts) if count >= FEWEST_ROWS]
        short = [i for i, count in enumerate(row.counts) if count < FEWEST_ROWS]
        parts = []
        if long:
            places = [[row.first_frames[i] for i in long], [row.counts[i] for i in long]]
            first, counts = self.transfers.send(torch.tensor(places))
            parts = compress_speech(padded(features, first, max(row.counts)), counts)
        parts += [features[row.first_frames[i] : row.first_frames[i] + row.counts[i]] for i in short]
        arrival = self.transfers.fetch(parts)

        def collect() -> list[Result]:
            arrays = arrival.wait()
            plain = arrays[len(arrays) - len(short) :]
            packed = matrices(arrays[: len(arrays) - len(short)]) if long else []
            results: list[Result] = [computed(members[i].utterance, each) for i, each in zip(short, plain, strict=True)]
            for i, each in zip(long, packed, strict=True):
                if np.isfinite(each.range):
                    results.append(computed(members[i].utterance, each))
                else:  # the encoder decides what to do with values that cannot be compressed
                    results.append(computed(members[i].utterance, self._uncompressed(features, row, i)))
            return results

        return collect

    def _uncompressed(self, features: Tensor, row: Row, member: int) -> npt.NDArray[np.float32]:
        first, count = row.first_frames[member], row.counts[member]
        return self.transfers.fetch([features[first : first + count]]).wait()[0]


def together(parts: Sequence[Pending]) -> Pending:
    """Join several pending results."""
    return lambda: [result for part in parts for result in part()]


def halving(start: Callable[[Sequence[Utterance]], Pending], batch: Sequence[Utterance]) -> list[Pending]:
    """Start a batch, in halves of halves if it does not fit into the device's memory.

    An utterance that does not fit alone is a failure.
    """
    try:
        return [start(batch)]
    except torch.OutOfMemoryError as error:
        if len(batch) == 1:
            return [ready([failure(batch[0], error)])]
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(batch) // 2
    return halving(start, batch[:middle]) + halving(start, batch[middle:])
