"""Batches of a dump: packing, computing many utterances as one row, compressing on the device, halving."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.codecs import codec
from io_ark.codecs.compressed import compress
from kaldi_compat.dump.batching import InOrder, batches, windows
from kaldi_compat.dump.compress_gpu import FEWEST_ROWS, compress_speech
from kaldi_compat.dump.compress_gpu import matrices as compressed_matrices
from kaldi_compat.dump.encode import Encoded, Encoder
from kaldi_compat.dump.noise import UtteranceNoise, frame_seeds, utterance_state
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.packed_batch import FRAMES_AT_ONCE, pack
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.read import Failure, Utterance
from kaldi_compat.dump.spectral import Computed, Pending, SpectralComputer, computed, ready
from kaldi_compat.dump.spectral_gpu import PackedComputer, halving
from kaldi_compat.functional.frames import frames_of
from kaldi_compat.options.spectral import FrameOptions
from tests.support.dump_data import audio, dump, make_data, matrices

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def utterance(index: int, samples: int, channels: int = 1, rate: float = 16000.0) -> Utterance:
    return Utterance(index, f"utt{index}", io_ark.Wave(rate, audio(samples, index, channels)))


@given(lengths=st.lists(st.integers(0, 4000), max_size=40), seconds=st.floats(0.05, 1.0))
def test_batches_hold_each_utterance_once_and_are_bounded(lengths: list[int], seconds: float) -> None:
    window = [Utterance(i, str(i), io_ark.Wave(16000.0, np.zeros((1, n), np.int16))) for i, n in enumerate(lengths)]
    made = list(batches(window, seconds))
    assert sorted(each.index for batch in made for each in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) == 1 or sum(each.wave.duration for each in batch) <= seconds + 1e-9
    order = [each.wave.duration for batch in made for each in batch]
    assert order == sorted(order)


@given(values=st.lists(st.integers(0, 9), max_size=50), most=st.integers(1, 7), limit=st.integers(1, 20))
def test_windows_are_runs_of_bounded_size(values: list[int], most: int, limit: int) -> None:
    made = list(windows(values, most, limit, float))
    assert [value for window in made for value in window] == values
    assert all(1 <= len(window) <= most and sum(window[:-1]) < limit for window in made)


@given(st.permutations(range(20)))
def test_results_go_back_into_order(arrival: list[int]) -> None:
    order = InOrder()
    assert [result for index in arrival for result in order.add(index, index)] == list(range(20))


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=6), snip_edges=st.booleans())
def test_frames_of_a_row_are_those_of_each_utterance(lengths: list[int], snip_edges: bool) -> None:
    options = FrameOptions(snip_edges=snip_edges)
    utterances = [np.random.default_rng(n).integers(-999, 999, n).astype(np.int16) for n in lengths]
    row = pack(utterances, options)
    frames = row.samples.unfold(0, options.window_size, options.window_shift)
    assert row.frames == len(frames)
    for samples, first, count in zip(utterances, row.first_frames, row.counts, strict=True):
        expected = frames_of(torch.from_numpy(samples), options.window_size, options.window_shift, snip_edges)
        assert count == len(expected)
        assert torch.equal(frames[first : first + count], expected)
    wasted = len(frames) - sum(row.counts)
    assert wasted <= 3 * len(lengths) + FRAMES_AT_ONCE


def job_of(root: Path, conf: str, **options: object) -> Job:
    data = make_data(root, 1)
    (root / "conf" / "fbank.conf").write_text(conf)
    return Job(Layout.of(data, "fbank"), DumpOptions(conf=str(root / "conf" / "fbank.conf"), **options))  # type: ignore[arg-type]


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
    job = job_of(tmp_path, conf, compress=compress)
    plan = make_plan(job)
    batch = [utterance(i, n) for i, n in enumerate((16000, 300, 401, 1500, 25000, 1, 9000))]
    batch += [utterance(7, 8000, rate=8000.0), utterance(8, 5000, channels=2)]
    alone = {each.index: each for each in SpectralComputer(job, plan, "cpu").submit(batch)()}
    together = {each.index: each for each in PackedComputer(job, plan, device).submit(batch)()}
    assert together.keys() == alone.keys() == set(range(9))
    for index, expected in alone.items():
        result = together[index]
        assert type(result) is type(expected)
        if isinstance(expected, Failure) or isinstance(result, Failure):
            assert result == expected and index == 7
            continue
        assert (result.key, result.duration) == (expected.key, expected.duration)
        step = np.ptp(expected.features) / 64 if compress and np.size(expected.features) else 0.0
        np.testing.assert_allclose(np.asarray(result.features), expected.features, atol=2e-3 + step)


def test_vtln_factors_within_a_batch(tmp_path: Path) -> None:
    job = job_of(tmp_path, "--dither=0\n", compress=False)
    job.layout.in_data("utt2warp").write_text("utt0 0.9\nutt1 1.1\nutt2 0.9\n")
    batch = [utterance(i, 8000) for i in range(4)]
    plan = make_plan(job)
    alone = {each.index: each for each in SpectralComputer(job, plan, "cpu").submit(batch)()}
    for each in PackedComputer(job, plan, "cpu").submit(batch)():
        expected = alone[each.index]
        assert isinstance(each, Failure) == isinstance(expected, Failure) == (each.index == 3)
        if isinstance(each, Computed) and isinstance(expected, Computed):
            np.testing.assert_allclose(np.asarray(each.features), np.asarray(expected.features), atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(FEWEST_ROWS, 60), min_size=1, max_size=4),
    dim=st.integers(1, 6),
    scale=st.floats(-3, 5),
    kind=st.sampled_from(["normal", "rounded", "constant", "constant column", "tiny", "narrow"]),
    seed=st.integers(0, 2**31),
)
def test_compression_on_the_device_gives_the_bytes_of_the_codec(
    device: str, lengths: list[int], dim: int, scale: float, kind: str, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(0, 10**scale, (len(lengths), max(lengths), dim))
    if kind == "rounded":
        values = np.round(values)
    elif kind == "constant":
        values[:] = 3.5
    elif kind == "constant column":
        values[..., 0] = 1.0
    elif kind == "tiny":
        values *= 1e-38
    elif kind == "narrow":
        values = 1e6 + np.round(values / 10**scale, 2)
    # A zero's sign is that of whichever zero comes first to the eye of the minimum.
    values = values.astype(np.float32) + np.float32(0)
    parts = compress_speech(torch.from_numpy(values).to(device), torch.tensor(lengths).to(device))
    for packed, each, length in zip(
        compressed_matrices([part.cpu().numpy() for part in parts]), values, lengths, strict=True
    ):
        assert stored(packed) == stored(compress(each[:length], "speech"))


def stored(matrix: object) -> bytes:
    sink = io.BytesIO()
    codec("compressed-matrix").write(sink, matrix)
    return sink.getvalue()


def test_features_that_cannot_be_compressed_are_written_uncompressed() -> None:
    encode = Encoder(DumpOptions(), with_stats=False)
    features = np.full((20, 3), np.nan, np.float32)
    result = encode(Computed(4, "u", features, 1.0))
    assert isinstance(result, Encoded) and result.left_uncompressed
    assert result.data.startswith(b"\0BFM ") and np.isnan(np.frombuffer(result.data[15:], np.float32)).all()


class Memory:
    """A device with memory for a limited number of utterances."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tried: list[int] = []

    def start(self, batch: Sequence[Utterance]) -> Pending:
        self.tried.append(len(batch))
        if len(batch) > self.capacity:
            raise torch.OutOfMemoryError("no capacity")
        return ready([computed(each, np.zeros((1, 1), np.float32)) for each in batch])


@given(count=st.integers(1, 30), capacity=st.integers(1, 30))
def test_a_batch_that_does_not_fit_is_halved(count: int, capacity: int) -> None:
    memory = Memory(capacity)
    batch = [Utterance(i, str(i), io_ark.Wave(16000.0, np.zeros((1, 1), np.int16))) for i in range(count)]
    parts = halving(memory.start, batch)
    assert [each.index for part in parts for each in part()] == list(range(count))
    assert all(tried > capacity for tried in memory.tried if tried not in map(len, (part() for part in parts)))


def test_an_utterance_that_does_not_fit_alone_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(tmp_path, "--dither=0\n", compress=False)
    computer = PackedComputer(job, make_plan(job), "cpu")
    module = computer.module

    def hungry(samples: torch.Tensor, **rest: object) -> torch.Tensor:
        if len(samples) > 1024 * 160 + 240:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return module(samples, **rest)

    monkeypatch.setattr(computer, "module", hungry)
    results = {
        each.index: each for each in computer.submit([utterance(i, n) for i, n in enumerate((9000, 9000, 200000))])()
    }
    assert isinstance(results[2], Failure) and "out of memory" in results[2].reason
    assert isinstance(results[0], Computed) and isinstance(results[1], Computed)


def test_noise_of_frames_does_not_depend_on_the_start() -> None:
    whole = frame_seeds(utterance_state(3, "utt"), 0, 100)
    noise = UtteranceNoise(3, "utt")
    np.testing.assert_array_equal(np.concatenate([noise.frame_seeds(40), noise.frame_seeds(60)]), whole)
    assert len(np.unique(whole)) == 100
    assert not np.isin(frame_seeds(utterance_state(3, "utu"), 0, 100), whole).any()


def test_seeds_are_evenly_spread() -> None:
    seeds = np.concatenate([frame_seeds(utterance_state(0, str(i)), 0, 500) for i in range(200)]).view(np.uint32)
    counts = np.bincount(seeds >> 26, minlength=64)
    expected = len(seeds) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120  # chi-squared of 63 degrees: exceeded once in 20,000


@pytest.mark.gpu
def test_gpu_dump_equals_cpu_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_data(tmp_path)
    assert dump(data, "--no-compress") == 0
    expected = matrices(data / "feats.scp")
    assert dump(data, "--no-compress", "--device=cuda", "--batch-seconds=3", nj=2) == 0
    assert "peak device memory" in capsys.readouterr().err
    found = matrices(data / "feats.scp")
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=2e-3)
