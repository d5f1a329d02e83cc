"""Compute spectral features on a GPU: pack, compute and compress batches while transfers run in parallel.

The code does not require a GPU. On a CPU it runs with transfers that do nothing, so it can be tested there.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, PackedBlock, Skip, join_keys
from io_ark.codecs import CompressionMethod
from kaldi_compat.cli.compute import select_feature_options
from kaldi_compat.dump.entries import Audio, Encoded, Failure, Features, FeaturesOrFailure
from kaldi_compat.dump.noise import BlockNoise
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.packed_batch import Part, PinnedMemory, Row, Samples, pack_utterances
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.spectral import Pending, SpectralComputer, compute_in_halves
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.options.base import as_float32
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
        self.frame_options = select_feature_options(self.feature.options, self.extractor.options)
        # Packing has already reflected the edges of an utterance, so the module must not reflect them again.
        module = self.feature.import_class()(
            replace(self.frame_options, snip_edges=True), engine=cast(Any, job.options.engine)
        )
        self.module = module.to(device)
        if self.transfers.pins_memory and self.frame_options.snip_edges:
            self.memory = functools.partial(PinnedMemory, self.frame_options.window_shift)
        self.method = None  # Without a method, the device does not compress features.
        if job.options.compress and not job.with_pitch:
            self.method = CompressionMethod.of(job.options.compression_method)
        self._get_cpu_computer = functools.cache(lambda: SpectralComputer(job, plan, "cpu"))
        self._accepted_warps = _get_accepted_warps(self.feature.name, self.module.options)
        self._counts = Counter[str]()

    def submit(self, batch: Sequence[Audio]) -> Pending:
        """Start a batch, in parts if the device's memory is too small. Return a function that waits for all results."""
        parts = start_in_halves(self._start_batch, batch, self._compute_on_cpu)
        self._counts["halved"] += len(parts) - 1
        return join_pending(parts)

    def take_figures(self) -> dict[str, float]:
        """Return, by name, counts of events since the previous call, and the peak GPU memory in bytes if known."""
        names = ("computed_on_cpu", "without_kernels", "halved")
        figures = {name: float(self._counts.pop(name, 0)) for name in names}
        if (peak := self.transfers.measure_peak_memory()) is not None:
            figures["peak_device_memory"] = peak
        return figures

    def _compute_on_cpu(self, audio: Audio) -> FeaturesOrFailure:
        """Compute features on the CPU, for an utterance that does not fit into the free memory of the device."""
        self._counts["computed_on_cpu"] += 1
        logger.warning("%s: computed on the CPU, since it does not fit into the device's memory now", audio.key)
        (result,) = self._get_cpu_computer().compute(audio)
        return result

    def _start_batch(self, batch: Sequence[Audio]) -> Pending:
        """Start a batch as one row for each dtype of samples. Return a function that waits for the results."""
        parts = [part for audio in batch for part in compute_in_halves(self._prepare_part, audio)]
        failures: list[FeaturesOrFailure] = [part for part in parts if isinstance(part, Failure)]
        rows = defaultdict[Any, list[Part]](list)
        for part in parts:
            if not isinstance(part, Failure):
                rows[part.samples.dtype].append(part)
        earlier_counts = self._counts.copy()
        try:
            pending_rows = [self._start_row(row) for row in rows.values()]
        except RuntimeError:  # If the memory is too small, the caller starts the halves, which are then counted.
            self._counts = earlier_counts
            raise
        return join_pending([lambda: failures, *pending_rows])

    def _prepare_part(self, audio: Audio) -> Part:
        """Select the channel of utterances, resample it to the rate of the feature, and find the VTLN factors.

        Raises:
            Skip: the features cannot be computed, or not for all utterances of the block together.
        """
        extractor, options = self.extractor, self.frame_options
        channel, factors = extractor.select_channels(audio.block), extractor.find_warps(audio.block, self.warps)
        warps = [factors] * len(audio) if isinstance(factors, float) else factors
        samples: Samples = channel.samples
        starts, lengths = channel.starts, channel.lengths
        try:
            extractor.check_rates(channel)
            rate, target = as_float32(channel.rates[0]), as_float32(options.sample_frequency)
            if rate != target:  # Such a block has one utterance.
                utterance: npt.NDArray[Any] = samples[int(starts[0]) :][: int(lengths[0])].astype(np.float32)
                samples = resample_waveform(utterance, rate, target)
                starts, lengths = np.zeros_like(starts), np.array([len(samples)])
            for warp in set(warps) - self._accepted_warps:
                self.module._get_filter_bank(warp)  # A factor that moves bands out of their range is an error.
                self._accepted_warps.add(warp)
        except KaldiCompatError as error:
            raise Skip(f"Failed to compute features for utterance {audio.block.decode_keys()[0]}: {error}") from error
        return Part(audio, samples, starts, lengths, warps)

    def _start_row(self, parts: Sequence[Part]) -> Pending:
        """Start to compute the features of utterances in one row. Return a function that waits for the results."""
        transfers = self.transfers
        with transfers.profile_inference("pack"):
            row = pack_utterances(parts, self.frame_options, pinned=transfers.pins_memory)
        with transfers.profile_inference("compute"):
            features = self._compute_features(row, parts)
        with transfers.profile_inference("compress"):
            return self._fetch_features(features, row, parts)

    def _compute_features(self, row: Row, parts: Sequence[Part]) -> Tensor:
        """Start to compute the features of all frames of a row. Return them as a tensor (frames, dim) on the device."""
        samples = self.transfers.send_pieces(row.pieces, row.length)
        keys = b"".join([part.audio.block.keys for part in parts])
        noise = BlockNoise(self.seed, keys, row.counts, row.first_frames)
        warps = [warp for part in parts for warp in part.warps]
        features, used_kernels = compute_row(self.module, samples, row.first_frames, row.frames, warps, noise)
        if self.transfers.device.type == "cuda" and not used_kernels:
            self._counts["without_kernels"] += len(warps)
        if self.extractor.options.subtract_mean:
            features = subtract_means(features, np.stack((row.first_frames, row.counts), 1))
        return features

    def _fetch_features(self, features: Tensor, row: Row, parts: Sequence[Part]) -> Pending:
        """Start to compress and fetch the features of a row. Return a function that waits for the results."""
        groups = self._compress_matrices(features, row)
        is_compressed = bool(groups)
        tensors = [tensor for group in groups for tensor in group.tensors]
        wait = self.transfers.fetch_tensors([*tensors, *([] if is_compressed else [features])])
        frame_ranges = np.stack((row.first_frames, row.first_frames + row.counts), 1).tolist()

        def collect_results() -> list[FeaturesOrFailure]:
            """Wait for the transfers, and return the results of the row."""
            arrays = wait()
            headers: list[bytes | None] = [None] * len(frame_ranges)
            codes: list[memoryview] = [memoryview(b"")] * len(frame_ranges)
            for i, group in enumerate(groups):  # A group has three tensors.
                objects = zip(group.members.tolist(), *group.cut_objects(arrays[3 * i : 3 * i + 3]), strict=True)
                for utterance, header, codes_of_matrix in objects:
                    headers[utterance], codes[utterance] = header, codes_of_matrix
            if is_compressed:
                # The device leaves out some matrices, such as matrices with NaN. The encoder on the CPU handles them.
                uncompressed_indices = [i for i, header in enumerate(headers) if header is None]
                matrices = [features[first:end] for first, end in (frame_ranges[i] for i in uncompressed_indices)]
                fetched_matrices = self.transfers.fetch_tensors(matrices, are_computed=True)() if matrices else []
                uncompressed = dict(zip(uncompressed_indices, fetched_matrices, strict=True))
            else:
                uncompressed = {i: arrays[-1][first:end] for i, (first, end) in enumerate(frame_ranges)}
            return _make_results(parts, row, headers, codes, uncompressed)

        return collect_results

    def _compress_matrices(self, features: Tensor, row: Row) -> list[Any]:
        """Start to compress the matrices that the device can compress. Return a ``CompressedMatrices`` for each group.

        The ``members`` of a group are positions of utterances in the row. Without compression, the list is empty.
        """
        if self.method is None or not _can_compress(features):
            return []
        from kaldi_compat.torch.kernels.compression import compress_rows, has_short_indices

        utterances = np.flatnonzero((row.counts > 0) & has_short_indices(row.counts, features.shape[1]))
        if not len(utterances):
            return []
        matrix_rows = np.stack((row.first_frames, row.counts), 1)[utterances]
        groups = compress_rows(features, matrix_rows, self.method)
        return [group._replace(members=utterances[group.members]) for group in groups]


@functools.cache
def _get_accepted_warps(feature: str, options: FrameOptions) -> set[float]:
    """Return this process's set of the VTLN factors that the feature is known to accept. Callers add factors to it."""
    return set()


def _make_results(
    parts: Sequence[Part],
    row: Row,
    headers: Sequence[bytes | None],
    codes: Sequence[memoryview],
    matrices: Mapping[int, npt.NDArray[Any]],
) -> list[FeaturesOrFailure]:
    """Return the results of a row. Consecutive utterances form a block if all or none of them are compressed.

    ``headers`` and ``codes`` have the header and codes of the compressed matrix of each utterance. If a header is None,
    ``matrices`` maps the utterance's position in the row to its uncompressed matrix (frames, dim).
    """
    indices = np.concatenate([part.audio.index + np.arange(len(part.audio)) for part in parts])
    durations = np.concatenate([part.audio.get_durations() for part in parts])
    keys = b"".join([part.audio.block.keys for part in parts]).split(b"\n")
    is_uncompressed = np.array([header is None for header in headers])
    bounds = np.flatnonzero((np.diff(indices) != 1) | np.diff(is_uncompressed)) + 1
    results: list[FeaturesOrFailure] = []
    for first, end in pairwise([0, *bounds.tolist(), len(indices)]):
        run = slice(first, end)
        index, joined_keys = int(indices[first]), join_keys(keys[run])
        if is_uncompressed[first]:
            values = [matrices[i] for i in range(first, end)]
            shapes = np.array([value.shape for value in values])
            block = ArrayBlock(joined_keys, np.concatenate(values).reshape(-1), shapes)
            results.append(Features(index, block, durations[run]))
            continue
        # An entry of an archive consists of the key, a space, the header and the codes.
        pieces: Any = joined_keys.replace(b"\n", b" \n").split(b"\n")[:-1], headers[run], codes[run]
        sizes = np.array([list(map(len, column)) for column in pieces])
        data = np.frombuffer(b"".join(chain.from_iterable(zip(*pieces, strict=True))), np.uint8)
        offsets = np.cumsum(sizes.sum(0)) - sizes[1:].sum(0)  # Positions of the headers in the data.
        results.append(Encoded(index, PackedBlock(joined_keys, data, offsets), durations[run], frames=row.counts[run]))
    return results


def _can_compress(features: Tensor) -> bool:
    """Return True if the compression kernels can compress ``features``. The first call tests the kernels."""
    if kernels.explain_why_disabled(features):
        return False
    from kaldi_compat.torch.kernels.compression import find_compression_fault

    return not find_compression_fault(features.device)


def join_pending(parts: Sequence[Pending]) -> Pending:
    """Return a function that waits for all parts, and returns their results in one list."""
    return lambda: [result for part in parts for result in part()]


def start_in_halves(
    start: Callable[[Sequence[Audio]], Pending],
    batch: Sequence[Audio],
    compute_one: Callable[[Audio], FeaturesOrFailure],
) -> list[Pending]:
    """Start a batch. If it does not fit into the device's memory, start its halves instead, down to single utterances.

    ``start`` starts to compute a batch. ``compute_one`` computes a single utterance that needs more than the memory of
    the device. Return functions that wait for the results of the parts of the batch, in order.
    """
    try:
        return [start(batch)]
    except RuntimeError as error:
        if not kernels.is_out_of_memory(error):
            raise
    release_memory()
    if len(batch) == 1:
        (audio,) = batch
        if len(audio) == 1:
            result = compute_one(audio)
            return [lambda: [result]]
        batch = audio.halve()
    middle = len(batch) // 2
    return start_in_halves(start, batch[:middle], compute_one) + start_in_halves(start, batch[middle:], compute_one)
