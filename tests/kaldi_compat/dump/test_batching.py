"""Batches of a dump: packing, computing many utterances as one row, compressing on the device, halving."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.blocks import ObjectBlock, PackedBlock, WaveBlock, create_block
from io_ark.codecs import codec
from io_ark.codecs.compressed import CompressionMethod
from io_ark.streams import BytesSource
from kaldi_compat.dump import packed_batch, spectral, spectral_gpu
from kaldi_compat.dump.encode import Encoder
from kaldi_compat.dump.entries import Audio, AudioOrFailure, Encoded, Failure, Features, FeaturesOrFailure, OnGrid
from kaldi_compat.dump.model import Trial
from kaldi_compat.dump.noise import UtteranceNoise, compute_frame_seeds, hash_utterance
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.packed_batch import ROW_MULTIPLE_FRAMES, Part, PinnedMemory, Row, pack_utterances
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.read import Lines, TaskReader
from kaldi_compat.dump.shard import group_blocks
from kaldi_compat.dump.spectral import Pending, SpectralComputer, compute_in_halves
from kaldi_compat.dump.spectral_gpu import PackedComputer, start_in_halves
from kaldi_compat.errors import AudioError
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features.spectral import SpectralFeature
from kaldi_compat.torch.tensors.frames import cut_frames
from tests.support.dump_data import archive_bytes, audio, dump, job_with, make_data, matrices, part_of, said_by

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def utterance(index: int, samples: int, channels: int = 1, rate: float = 16000.0) -> Audio:
    return Audio.from_wave(index, f"utt{index}", io_ark.Wave(rate, audio(samples, index, channels)))


def by_index(results: Sequence[FeaturesOrFailure]) -> dict[int, FeaturesOrFailure]:
    """Return the results of utterances one by one, by their indices, as they read back if they are encoded."""
    return {one.index: one for each in results for one in read_back(each).separate()}


@given(lengths=st.lists(st.integers(0, 4000), max_size=40), most=st.integers(1, 7), seconds=st.floats(0.05, 1.0))
def test_batches_are_bounded_and_keep_the_order(lengths: list[int], most: int, seconds: float) -> None:
    entries: list[AudioOrFailure] = [
        utterance(i, n) if n % 5 else Failure(i, str(i), "gone") for i, n in enumerate(lengths)
    ]
    made = list(group_blocks(entries, most, seconds))
    assert [each.index for batch in made for each in batch] == list(range(len(lengths)))
    for batch in made:
        assert 1 <= len(batch) <= most and (len(batch) == 1 or sum(each.seconds for each in batch) <= seconds + 1e-9)


@pytest.mark.parametrize("seconds, counts", [(2.0, [2, 2]), (1.99, [1, 1, 1, 1]), (4.0, [4])])
def test_batch_may_be_as_long_as_the_limit(seconds: float, counts: list[int]) -> None:
    entries = [utterance(i, 16000) for i in range(4)]
    assert [len(batch) for batch in group_blocks(entries, 9, seconds)] == counts


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=6), snip_edges=st.booleans())
def test_frames_of_a_row_are_those_of_each_utterance(lengths: list[int], snip_edges: bool) -> None:
    options = FrameOptions(snip_edges=snip_edges)
    utterances = [np.random.default_rng(n).integers(-999, 999, n).astype(np.int16) for n in lengths]
    row = pack_utterances([part_of(each) for each in utterances], options)
    ((_, samples),) = row.pieces
    frames = samples.unfold(0, options.window_size, options.window_shift)
    assert row.frames == len(frames)
    for samples, first, count in zip(utterances, row.first_frames.tolist(), row.counts.tolist(), strict=True):
        expected = cut_frames(torch.from_numpy(samples), options.window_size, options.window_shift, snip_edges)
        assert count == len(expected)
        assert torch.equal(frames[first : first + count], expected)
    wasted = len(frames) - sum(row.counts)
    assert wasted <= 3 * len(lengths) + ROW_MULTIPLE_FRAMES


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "conf",
    [
        "--dither=0\n",
        "--dither=1\n--use-energy=true\n",
        "--dither=1\n--snip-edges=false\n",
        "--dither=0\n--subtract-mean=true\n",
    ],
    ids=["plain", "dithered", "reflected", "mean"],
)
@pytest.mark.parametrize("compress", [False, True])
def test_batch_equals_single_utterances(tmp_path: Path, device: str, conf: str, compress: bool) -> None:
    job = job_with(tmp_path, conf, compress=compress)
    plan = make_plan(job)
    batch = [utterance(i, n) for i, n in enumerate((16000, 300, 401, 1500, 25000, 1, 9000))]
    batch += [utterance(7, 8000, rate=8000.0), utterance(8, 5000, channels=2)]
    alone = by_index(SpectralComputer(job, plan, "cpu").submit(batch)())
    together = by_index(PackedComputer(job, plan, device).submit(batch)())
    assert together.keys() == alone.keys() == set(range(9))
    for index, expected in alone.items():
        result = together[index]
        assert type(result) is type(expected)
        if isinstance(expected, Failure) or isinstance(result, Failure):
            assert result == expected and index == 7
            continue
        assert (result.key, result.seconds) == (expected.key, expected.seconds)
        step = np.ptp(expected.value) / 64 if compress and np.size(expected.value) else 0.0
        np.testing.assert_allclose(np.asarray(result.value), expected.value, atol=2e-3 + step)


@pytest.mark.parametrize("conf", ["--dither=1\n", "--dither=1\n--subtract-mean=true\n--snip-edges=false\n"])
@pytest.mark.parametrize("with_failure", [False, True])
def test_utterances_computed_at_once_have_the_bits_of_single_ones(
    tmp_path: Path, conf: str, with_failure: bool
) -> None:
    job = job_with(tmp_path, conf, compress=False)
    plan = make_plan(job)
    batch = [utterance(i, n) for i, n in enumerate((16000, 401, 1500, 400, 9000))]
    batch += [utterance(5, 5000, channels=2), utterance(6, 1600), utterance(7, 700)]
    if with_failure:
        batch.append(utterance(8, 8000, rate=8000.0))
    computer = SpectralComputer(job, plan, "cpu")
    alone = [result for each in batch for result in computer.compute(each)]
    results = computer.submit(batch)()
    assert [len(each) for each in results] == ([5, 1, 1, 1, 1] if with_failure else [5, 1, 2])
    for expected, result in zip(alone, by_index(results).values(), strict=True):
        if isinstance(expected, Features) and isinstance(result, Features):
            assert (result.index, result.key, result.seconds) == (expected.index, expected.key, expected.seconds)
            np.testing.assert_array_equal(result.value, expected.value)
        else:
            assert result == expected


def test_utterances_with_a_failure_between_them_are_not_joined(tmp_path: Path) -> None:
    job = job_with(tmp_path, "--dither=0\n")
    computer = SpectralComputer(job, make_plan(job), "cpu")
    results = computer.submit([utterance(0, 900), utterance(2, 900), utterance(3, 900)])()
    assert [(each.index, len(each)) for each in results] == [(0, 1), (2, 2)]


def test_group_of_utterances_holds_exactly_the_most_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "MAX_GROUP_SAMPLES", 200)
    utterances = [utterance(i, samples) for i, samples in enumerate([100, 100, 150, 50, 150, 51, 300])]
    assert [len(group) for group in spectral._group_audio(utterances)] == [2, 2, 1, 1, 1]


def test_vtln_factors_within_a_batch(tmp_path: Path) -> None:
    job = job_with(tmp_path, "--dither=0\n", compress=False)
    (job.layout.data / "utt2warp").write_text("utt0 0.9\nutt1 1.1\nutt2 0.9\n")
    batch = [utterance(i, 8000) for i in range(4)]
    plan = make_plan(job)
    alone = by_index(SpectralComputer(job, plan, "cpu").submit(batch)())
    for index, each in by_index(PackedComputer(job, plan, "cpu").submit(batch)()).items():
        expected = alone[index]
        assert isinstance(each, Failure) == isinstance(expected, Failure) == (each.index == 3)
        if isinstance(each, Features) and isinstance(expected, Features):
            np.testing.assert_allclose(np.asarray(each.value), np.asarray(expected.value), atol=2e-3)


def test_one_row_holds_all_vtln_factors_and_another_what_is_resampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = "--dither=0\n--subtract-mean=true\n--allow-upsample=true\n"
    job = job_with(tmp_path, conf, compress=False)
    (job.layout.data / "utt2warp").write_text("".join(f"utt{i} {0.9 + 0.02 * i:.2f}\n" for i in range(8)))
    computer = PackedComputer(job, make_plan(job), "cpu")
    rows: list[int] = []
    start_row = computer._start_row
    monkeypatch.setattr(
        computer, "_start_row", lambda parts: rows.append(sum(len(each.audio) for each in parts)) or start_row(parts)
    )
    slow = WaveBlock.concatenate([(f"utt{i}", io_ark.Wave(8000.0, audio(8000, i))) for i in (6, 7)])
    batch = [*(utterance(i, 8000, 1 + i % 2) for i in range(6)), Audio(6, slow)]
    results = by_index(computer.submit(batch)())
    assert sorted(rows) == [2, 6]
    expected = by_index(SpectralComputer(job, make_plan(job), "cpu").submit(batch)())
    assert results.keys() == expected.keys() == set(range(8))
    for index, features in expected.items():
        np.testing.assert_allclose(cast(Any, results[index]).value, cast(Any, features).value, atol=2e-3)


def test_features_that_cannot_be_compressed_are_written_uncompressed() -> None:
    encode = Encoder(DumpOptions(), Trial())
    features = np.full((20, 3), np.nan, np.float32)
    (result,) = encode(Features(4, create_block(["u"], [features]), np.ones(1)))
    assert isinstance(result, Encoded) and result.left_uncompressed
    data = result.block.data.tobytes()
    assert data.startswith(b"u \0BFM ") and np.isnan(np.frombuffer(data[17:], np.float32)).all()


class Memory:
    """A device with memory for a limited number of utterances."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tried: list[int] = []

    def start(self, batch: Sequence[Audio]) -> Pending:
        self.tried.append(len(batch))
        if len(batch) > self.capacity:
            raise torch.cuda.OutOfMemoryError("no capacity")
        return lambda: [nothing(each) for each in batch]


def nothing(audio: Audio) -> Features:
    return Features.from_array(audio, np.zeros((1, 1), np.float32))


@given(count=st.integers(1, 30), capacity=st.integers(1, 30))
def test_a_batch_that_does_not_fit_is_halved(count: int, capacity: int) -> None:
    memory = Memory(capacity)
    batch = [utterance(i, 1) for i in range(count)]
    parts = start_in_halves(memory.start, batch, nothing)
    assert [each.index for part in parts for each in part()] == list(range(count))
    assert all(tried > capacity for tried in memory.tried if tried not in map(len, (part() for part in parts)))


def test_a_lack_of_memory_is_known_without_a_name_of_torch_2_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "OutOfMemoryError")
    assert kernels.is_out_of_memory(torch.cuda.OutOfMemoryError("36 GiB"))
    assert not kernels.is_out_of_memory(RuntimeError("36 GiB"))


def without_room_for(monkeypatch: pytest.MonkeyPatch, computer: PackedComputer, error: Exception) -> None:
    """Let rows of more than 6 s fail with an error."""
    features = computer._compute_features

    def hungry(row: Row, parts: Sequence[Part]) -> torch.Tensor:
        if row.length > 1024 * 160 + 240:
            raise error
        return features(row, parts)

    monkeypatch.setattr(computer, "_compute_features", hungry)


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 36.00 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
    ids=["allocator", "pinned", "cublas", "cufft", "triton"],
)
def test_an_utterance_that_does_not_fit_is_computed_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    job = job_with(tmp_path, "--dither=0\n", compress=False)
    plan = make_plan(job)
    computer = PackedComputer(job, plan, "cpu")
    without_room_for(monkeypatch, computer, error)
    batch = [utterance(i, n) for i, n in enumerate((9000, 9000, 200000))]
    results = by_index(computer.submit(batch)())
    for index, expected in by_index(SpectralComputer(job, plan, "cpu").submit(batch)()).items():
        found = results[index]
        assert isinstance(found, Features) and isinstance(expected, Features)
        np.testing.assert_allclose(found.value, expected.value, atol=2e-3)
    figures = computer.take_figures()
    assert figures["computed_on_cpu"] == 1 and figures["halved"] > 0
    assert computer.take_figures()["computed_on_cpu"] == 0


def test_utterances_without_kernels_count_once_when_their_batch_is_halved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_with(tmp_path, "--dither=0\n", compress=False)
    computer = PackedComputer(job, make_plan(job), "cpu")
    fetch = computer._fetch_features

    def small(features: torch.Tensor, row: Row, parts: Sequence[Part]) -> Pending:
        if len(row.counts) > 1:
            raise torch.cuda.OutOfMemoryError("no capacity")
        return fetch(features, row, parts)

    monkeypatch.setattr(computer, "_fetch_features", small)
    computer.transfers.device = torch.device("cuda")
    assert len(computer.submit([utterance(i, 3000) for i in range(4)])()) == 4
    assert computer._counts["without_kernels"] == 4


def test_other_errors_of_the_device_are_not_taken_for_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_with(tmp_path, "--dither=0\n", compress=False)
    computer = PackedComputer(job, make_plan(job), "cpu")
    without_room_for(monkeypatch, computer, RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal"):
        computer.submit([utterance(0, 200000)])


@pytest.mark.parametrize("method", [1, 3, 5])  # by columns, two bytes, one byte
def test_matrices_compressed_on_the_device_are_those_of_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: int
) -> None:
    job = job_with(tmp_path, "--dither=0\n", compression_method=method)
    computer = PackedComputer(job, make_plan(job), "cpu")
    batch = [utterance(i, n) for i, n in enumerate((3000, 300, 401, 9000, 1))]
    monkeypatch.setattr(computer, "module", by_torch(computer.module))
    encode = Encoder(job.options, Trial())

    def encoded() -> dict[int, Encoded]:
        """Return the utterances one by one, as the encoder leaves them."""
        results = [
            each for result in computer.submit(batch)() if isinstance(result, Features) for each in encode(result)
        ]
        assert sum(map(len, results)) == len(batch) and all(isinstance(each, Encoded) for each in results)
        return {one.index: one for each in results if isinstance(each, Encoded) for one in cut(each)}

    plain = encoded()
    monkeypatch.setattr(kernels, "DEVICE_TYPE", "cpu")
    found = encoded()
    assert found.keys() == plain.keys()
    for index, wanted in plain.items():
        one = found[index]
        assert one.block.data.tobytes() == wanted.block.data.tobytes() and one.frames == wanted.frames


def cut(encoded: Encoded) -> list[Encoded]:
    """Return encoded utterances one by one."""
    block, found = encoded.block, []
    keys = block.keys.splitlines(keepends=True)
    begins = [*(block.objects - [len(key) for key in keys]).tolist(), len(block.data)]
    for i, key in enumerate(keys):
        packed = PackedBlock(key, block.data[begins[i] : begins[i + 1]], np.array([len(key)]))
        durations, frames = encoded.durations[i : i + 1], encoded.frames[i : i + 1]
        found.append(Encoded(encoded.index + i, packed, durations, frames=frames))
    return found


def read_back(result: FeaturesOrFailure) -> FeaturesOrFailure:
    """Return encoded features as they read back."""
    if not isinstance(result, Encoded):
        return result
    matrices = [
        codec("matrix").read(BytesSource(one.block.data[one.block.objects[0] :].tobytes())) for one in cut(result)
    ]
    block = ObjectBlock.from_values(result.block.decode_keys(), [np.asarray(each) for each in matrices])
    return Features(result.index, block, result.durations)


def by_torch(module: SpectralFeature) -> SpectralFeature:
    """The same feature, computed by torch, since the interpreter is slow."""
    return type(module)(module.options, engine="torch")


def test_matrix_that_cannot_be_compressed_is_left_to_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    job = job_with(tmp_path, "--dither=0\n")
    computer = PackedComputer(job, make_plan(job), "cpu")
    monkeypatch.setattr(kernels, "DEVICE_TYPE", "cpu")
    features = torch.randn(1024, 23)
    features[3, 5], features[40, 2] = float("nan"), float("inf")
    monkeypatch.setattr(computer, "_compute_features", lambda row, parts: features)
    fetches: list[int] = []
    fetch = computer.transfers.fetch_tensors
    monkeypatch.setattr(
        computer.transfers,
        "fetch_tensors",
        lambda tensors, **how: fetches.append(len(tensors)) or fetch(tensors, **how),
    )
    results = computer.submit([utterance(i, 3000) for i in range(3)])()
    assert [type(each) for each in results] == [Features, Encoded, Features]
    assert fetches == [3, 2]  # the compressed matrices, and at once those that are not
    for each in (results[0], results[2]):
        assert isinstance(each, Features)
        np.testing.assert_array_equal(each.value, features[19 * each.index :][:17])


def test_kernels_compress_matrices_that_have_rows_and_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    compression = pytest.importorskip("kaldi_compat.torch.kernels.compression")
    chosen: list[list[int]] = []
    monkeypatch.setattr(spectral_gpu, "_can_compress", lambda features: True)
    monkeypatch.setattr(compression, "compress_rows", lambda _, places, method: chosen.extend(places.tolist()) or [])
    computer = PackedComputer.__new__(PackedComputer)
    computer.method = CompressionMethod(1)
    row: Any = SimpleNamespace(counts=np.array([0, 1, 2, 1 << 28]), first_frames=np.array([0, 0, 5, 9]))
    assert computer._compress_matrices(torch.zeros(1, 23), row) == []
    assert chosen == [[0, 1], [5, 2]]


@pytest.mark.parametrize("error", [AudioError("too short"), MemoryError(), RuntimeError("a mistake")])
def test_only_mistakes_of_the_program_stop_the_job(error: Exception) -> None:
    """The cause is isolated by halving a block; other errors are failures of single utterances."""

    def work(part: Audio) -> str:
        if "b" in part.block.decode_keys():
            raise error
        return ",".join(part.block.decode_keys())

    whole = Audio(4, create_block(list("abcd"), [io_ark.Wave(16000.0, audio(10, i)) for i in range(4)]))
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match=r"^a mistake$"):
            compute_in_halves(work, whole)
        return
    first, failure, others = compute_in_halves(work, whole)
    assert (first, others) == ("a", "c,d")
    assert isinstance(failure, Failure) and (failure.index, failure.key) == (5, "b")


@pytest.mark.parametrize(
    ("disabled", "fault", "can_compress"), [("", "", True), ("", "differs", False), ("off", "", False)]
)
def test_kernels_that_compress_wrongly_or_are_disabled_are_not_used(
    monkeypatch: pytest.MonkeyPatch, disabled: str, fault: str, can_compress: bool
) -> None:
    pytest.importorskip("triton")
    compression = pytest.importorskip("kaldi_compat.torch.kernels.compression")
    monkeypatch.setattr(kernels, "explain_why_disabled", lambda features: disabled)
    monkeypatch.setattr(compression, "find_compression_fault", lambda device: fault)
    assert spectral_gpu._can_compress(torch.zeros(1, 2)) is can_compress


def test_noise_of_frames_does_not_depend_on_the_start() -> None:
    whole = compute_frame_seeds(hash_utterance(3, "utt"), np.arange(100))
    noise = UtteranceNoise(3, "utt")
    np.testing.assert_array_equal(np.concatenate([noise.frame_seeds(40), noise.frame_seeds(60)]), whole)
    assert len(np.unique(whole)) == 100
    assert not np.isin(compute_frame_seeds(hash_utterance(3, "utu"), np.arange(100)), whole).any()


def test_seeds_are_evenly_spread() -> None:
    states = np.repeat(np.array([hash_utterance(0, str(i)) for i in range(200)], np.uint64), 500)
    seeds = compute_frame_seeds(states, np.tile(np.arange(500), 200)).view(np.uint32)
    counts = np.bincount(seeds >> 26, minlength=64)
    expected = len(seeds) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120  # chi-squared of 63 degrees: exceeded once in 20,000


def test_a_row_is_not_padded_to_its_longest_utterance() -> None:
    lengths = [1600] * 511 + [549 * 1600]
    row = pack_utterances([part_of(np.zeros(length, np.int16)) for length in lengths], FrameOptions())
    assert row.length < 1.2 * sum(lengths) + 1024 * 160


@pytest.mark.gpu
@pytest.mark.parametrize("compress", [False, True])
def test_gpu_dump_equals_cpu_dump(tmp_path: Path, compress: bool) -> None:
    data = make_data(tmp_path)
    options = [] if compress else ["--no-compress"]
    assert dump(data, *options) == 0
    expected = matrices(data / "feats.scp")
    assert "peak device memory" in said_by(data, *options, "--device=cuda", "--batch-seconds=3", nj=2)
    found = matrices(data / "feats.scp")
    assert list(found) == list(expected)
    for key, value in expected.items():
        step = np.ptp(value) / 64 if compress else 0.0
        np.testing.assert_allclose(found[key], value, atol=2e-3 + step)


@pytest.mark.gpu
def test_gpu_dump_is_the_same_with_deterministic_algorithms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    assert dump(data, "--device=cuda") == 0
    usual = archive_bytes(data)
    torch.use_deterministic_algorithms(True)
    try:
        assert dump(data, "--device=cuda") == 0
    finally:
        torch.use_deterministic_algorithms(False)
    assert archive_bytes(data) == usual


def test_seeds_of_frames_are_the_outputs_of_splitmix64() -> None:
    outputs = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # The first ones for the state 0.
    seeds = compute_frame_seeds(np.uint64(0), np.arange(3)).view(np.uint32).tolist()
    assert seeds == [output >> 32 for output in outputs]


def test_size_of_utterances_is_that_of_all_samples() -> None:
    waves = [io_ark.Wave(rate, audio(samples, 1)) for rate, samples in ((8000.0, 100), (16000.0, 300))]
    for several in (waves, [waves[0], waves[0]]):
        entry = Audio(0, create_block(["a", "b"], several))
        assert entry.nbytes == sum(wave.samples.nbytes for wave in several) > 200
    features = Features.from_array(utterance(0, 400), np.zeros((3, 5), np.float32))
    assert features.nbytes == 60 and Failure(0, "a", "b").nbytes == 0


def test_kernels_that_are_switched_off_compress_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder on the CPU compresses instead, with the same bytes."""
    job = job_with(tmp_path, "--dither=0\n", compress=True)
    plan, batch = make_plan(job), [utterance(i, 4000 + i) for i in range(3)]
    monkeypatch.setenv(kernels.SWITCH, "0")
    results = PackedComputer(job, plan, "cpu").submit(batch)()
    assert sum(map(len, results)) == 3 and all(type(result) is Features for result in results)


def test_samples_of_a_grid_in_pinned_memory_are_sent_from_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.arange(9000, dtype=torch.int16)
    part = part_of(tensor[160:4160].numpy(), OnGrid(tensor, 160))
    for least, is_copied in ((4000, False), (4001, True)):
        monkeypatch.setattr(packed_batch, "MIN_PIECE_SAMPLES", least)
        begin, piece = pack_utterances([part], FrameOptions()).pieces[0]
        assert begin == 0 and torch.equal(piece[:4000], tensor[160:4160])
        assert (piece.data_ptr() == tensor[160:].data_ptr()) is not is_copied


@pytest.mark.parametrize("shift", [100, 160])
def test_files_in_pinned_memory_lie_on_the_grid_of_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    monkeypatch.setattr(
        packed_batch, "allocate_host_memory", lambda shape, dtype: torch.zeros(shape, dtype=torch.int16)
    )
    lines = (make_data(tmp_path, 5) / "wav.scp").read_bytes().splitlines()
    (read,) = TaskReader(DumpOptions(), lambda: PinnedMemory(shift))(Lines(0, lines))
    assert isinstance(read, Audio) and isinstance(read.block, WaveBlock) and len(read) == 5
    assert (read.block.starts % shift == 0).all()
