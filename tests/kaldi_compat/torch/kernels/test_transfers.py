"""The order of transfers and computations, and files read in place, on a fake GPU (see tests/emulator/fake_gpu.py)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from kaldi_compat.dump import packed_batch, spectral_gpu
from kaldi_compat.dump.entries import Audio, AudioOrFailure, OnGrid
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.read import Lines, RowMemory, TaskReader
from kaldi_compat.dump.sources import convert_to_array, split_by_utterance
from kaldi_compat.dump.spectral_gpu import PackedComputer
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch.extractors import pad_audio
from kaldi_compat.torch.features.rows import compute_row
from kaldi_compat.torch.kernels.transfers import Transfers
from kaldi_compat.torch.tensors.frames import count_frames
from tests.emulator.fake_gpu import GPU, RUBBISH, Event, FakeGpu, Stream, gpu
from tests.support.dump_data import audio, job_with, part_of, write_wav
from tests.support.native import needs_c

__all__ = ["gpu"]


def computer_of(tmp_path: Path, conf: str = "--dither=0\n", **options: Any) -> PackedComputer:
    """Return a computer for utterances of no plan."""
    job = job_with(tmp_path, conf, **options)
    return PackedComputer(job, make_plan(job), "cpu")


def contents(computer: PackedComputer, *batches: list[Audio]) -> list[tuple[str, bytes]]:
    """Return the features of batches, all of which are started before the first one's are collected."""
    pending = [computer.submit(batch) for batch in batches]
    results = [each for part in pending for each in part()]
    return [(key, value.tobytes()) for each in results for key, value in getattr(each, "block").entries()]  # noqa: B009


@pytest.mark.parametrize(
    "pieces",
    [
        lambda: [(0, torch.arange(5)), 5],
        lambda: [(0, torch.zeros(3, pin_memory=True)), 3],
        lambda: [(1, torch.arange(5)[2:]), (6, torch.zeros(2, dtype=torch.int64, pin_memory=True) + 1), 9],
    ],
)
def test_sent_pieces_are_put_together_for_the_next_computation(gpu: FakeGpu, pieces: Any) -> None:
    *given_pieces, length = pieces()
    expected = torch.zeros(length, dtype=given_pieces[0][1].dtype)
    for at, piece in given_pieces:
        expected[at : at + len(piece)] = piece
    assert torch.equal(Transfers(GPU).send_pieces(given_pieces, length), expected)


@pytest.mark.parametrize("conf", ["--dither=0\n", "--dither=1\n--snip-edges=false\n"], ids=["plain", "dithered"])
@pytest.mark.parametrize(
    ("ahead", "owner", "missing"),
    [
        (False, None, ""),
        (True, None, ""),
        (False, Stream, "wait_stream"),
        (False, Event, "synchronize"),
        (True, torch.Tensor, "record_stream"),
    ],
)
def test_batches_under_way_do_not_mix_unless_a_synchronization_is_missing(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str, ahead: bool, owner: Any, missing: str
) -> None:
    """With ``ahead``, copies to the device are done at once, and memory that was left too early is overwritten."""
    computer = computer_of(tmp_path, conf, compress=False)
    lengths = (9000, 300, 1500, 700, 5000, 8000)
    batch = [Audio.from_wave(i, f"utt{i}", io_ark.Wave(16000.0, audio(n, i, 1))) for i, n in enumerate(lengths)]
    batches = batch[:2], batch[2:4], batch[4:]
    expected = contents(computer, *batches)
    computer.transfers = Transfers(GPU)
    assert computer.transfers._upload_stream is not None
    computer.transfers._upload_stream.ahead = ahead
    queued = gpu.queued(lambda samples, module, *row: compute_row(module, samples, *row)[0])
    monkeypatch.setattr(spectral_gpu, "compute_row", lambda module, *row: (queued(row[0], module, *row[1:]), False))
    if missing:
        monkeypatch.setattr(owner, missing, lambda *_: None)
    assert (contents(computer, *batches) == expected) == (not missing)


def write_files(folder: Path) -> list[bytes]:
    """Write wave files, most of which can be read in place; return lines of a script file."""
    lines = []
    for i, length in enumerate((9000, 300, 5000, 1600, 1500, 21, 48000, 700)):
        path = folder / f"utt{i}.wav"
        write_wav(path, audio(length, i, 2 if i == 7 else 1))
        content = path.read_bytes()
        if i == 4:
            path.write_bytes(content[:-700])  # truncated
        if i == 2:  # a longer header
            riff = (len(content) + 10 - 8).to_bytes(4, "little")
            path.write_bytes(b"RIFF" + riff + content[8:36] + b"LIST\x02\0\0\0ab" + content[36:])
        lines.append(f"utt{i} {path}".encode())
    lines.append(f"missing {folder}/missing.wav".encode())
    return lines


@needs_c
@pytest.mark.parametrize("largest_copy", [0, 6000, 10**9])
def test_files_read_in_place_give_the_features_of_copied_ones(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest_copy: int
) -> None:
    monkeypatch.setattr(packed_batch, "MIN_PIECE_SAMPLES", largest_copy)
    computer = computer_of(tmp_path)
    lines = write_files(tmp_path)

    def entries(reader: TaskReader) -> list[AudioOrFailure]:
        """Read all lines; a task may leave some of them."""
        task: Lines | None = Lines(0, lines)
        found: list[AudioOrFailure] = []
        while task is not None:
            read = reader(task)
            task = read.pop() if isinstance(read[-1], Lines) else None
            found += [one for each in read if not isinstance(each, Lines) for one in each.separate()]
        return found

    copied = entries(TaskReader(DumpOptions()))
    expected = contents(computer, [each for each in copied if isinstance(each, Audio)])
    computer.transfers = Transfers(GPU)
    in_place = entries(TaskReader(DumpOptions(), functools.partial(packed_batch.PinnedMemory, 160)))
    assert [each.key for each in in_place] == [each.key for each in copied]
    assert [type(each) for each in in_place] == [type(each) for each in copied]
    utterances = [each for each in in_place if isinstance(each, Audio)]
    # The truncated one and that of two channels are read alone, and so is the next one after such a file.
    assert [each.key[-1] for each in utterances if each.place is None] == ["4", "5", "7"]
    assert contents(computer, utterances) == expected and len(expected) == 8
    # Whatever was read in place was sent from there, but for short pieces.
    blocks = {gpu.find_block(each.place.tensor) for each in utterances if each.place is not None}
    direct = sum(len(each) for each in gpu.sent if gpu.find_block(each) in blocks)
    assert blocks and direct >= {0: 9000 + 300 + 5000 + 1600 + 48000, 6000: 9000 + 48000}.get(largest_copy, 0)
    assert (direct == 0) == (largest_copy == 10**9)


@needs_c
def test_files_of_a_gpus_row_are_read_in_larger_parts(tmp_path: Path) -> None:
    """Each part costs the start of a copy to the device."""
    write_wav(tmp_path / "a.wav", np.zeros((1, 90_000), np.int16))
    lines = [b"utt%02d %s/a.wav" % (i, bytes(tmp_path)) for i in range(120)]

    class Memory(RowMemory):
        def allocate(self, size: int) -> np.ndarray:
            self.tensor = torch.empty(size // 2, dtype=torch.int16)
            return self.tensor.numpy().view(np.uint8)

    readers = TaskReader(DumpOptions(device="cuda"), Memory), TaskReader(DumpOptions())
    parts = [list(map(len, reader(Lines(0, lines)))) for reader in readers]
    assert parts == [[93, 27], [5, 5, 110]]  # of 180 KB each; the last are the lines that are left


def without_pinned_memory(empty: Any) -> Any:
    """Return torch.empty on a host without pinned memory."""

    def made(*shape: Any, pin_memory: bool = False, **kind: Any) -> torch.Tensor:
        if pin_memory:
            raise RuntimeError("CUDA error: out of memory")
        return empty(*shape, **kind)

    return made


@pytest.mark.parametrize("computed", [False, True])
def test_results_are_fetched_to_ordinary_memory_if_no_pinned_memory_is_left(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, computed: bool
) -> None:
    transfers, compute = Transfers(GPU), gpu.queued(lambda samples: samples + 1)
    features = compute(torch.zeros(3, device=GPU))
    if computed:
        gpu.main.run(len(gpu.main.queue))
    monkeypatch.setattr(torch, "empty", without_pinned_memory(torch.empty))
    (found,) = transfers.fetch_tensors([features], are_computed=computed)()
    assert found.tolist() == [1.0, 1.0, 1.0]


@needs_c
def test_files_are_read_to_ordinary_memory_if_no_pinned_memory_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "empty", without_pinned_memory(torch.empty))
    reader = TaskReader(DumpOptions(), functools.partial(packed_batch.PinnedMemory, 160))
    (block,) = reader(Lines(0, write_files(tmp_path)[:2]))
    assert isinstance(block, Audio)
    first, second = block.separate()
    assert first.place is None and np.array_equal(second.value.samples, audio(300, 1, 1))


@given(
    utterances=st.lists(
        st.tuples(
            st.integers(1, 3000) | st.integers(1, 18).map(lambda frames: 160 * frames - 3),  # no room for a header
            st.sampled_from(["copied", "next", "next", "shifted", "new"]),
        ),
        min_size=1,
    ),
    least=st.sampled_from([0, 500, 4000]),
)
def test_rows_hold_the_samples_of_all_utterances(utterances: list[tuple[int, str]], least: int) -> None:
    options = FrameOptions()
    shift = options.window_shift
    tensor, at, kept = torch.empty(0), 0, []
    samples: list[Any] = []
    places: list[OnGrid | None] = []
    for number, (length, how) in enumerate(utterances):
        values = audio(length, number, 1)[0]
        samples.append(values)
        if how == "copied":
            places.append(None)
            continue
        if how == "new" or at + 2 * shift + length > len(tensor):
            tensor, at = torch.full((30000,), RUBBISH, dtype=torch.int16), 22
            kept.append(tensor)
        at += 1 if how == "shifted" else 0
        tensor[at : at + length] = torch.from_numpy(values)
        places.append(OnGrid(tensor, at))
        at += -(-(length + 22) // shift) * shift
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_batch, "MIN_PIECE_SAMPLES", least)
        row = packed_batch.pack_utterances([part_of(*each) for each in zip(samples, places, strict=True)], options)
    sent = Transfers(torch.device("cpu")).send_pieces(row.pieces, row.length)
    assert len(sent) == row.length == (row.frames - 1) * shift + options.window_size
    end = 0
    for values, first, count in zip(samples, row.first_frames.tolist(), row.counts.tolist(), strict=True):
        assert first * shift >= end and np.array_equal(sent[first * shift :][: len(values)].numpy(), values)
        assert count == count_frames(len(values), options.window_size, shift, True)
        end = first * shift + len(values)
    assert end <= row.length
    piece_end = 0
    for begin, piece in row.pieces:
        assert begin >= piece_end
        piece_end = begin + len(piece)
    assert piece_end <= row.length


def test_audio_and_outputs_of_an_extractor_pass_through_pinned_memory(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def device_of(tensor: torch.Tensor) -> torch.device:
        block = gpu.find_block(tensor)
        return torch.device("cpu") if block is None or block.owner is None else GPU

    monkeypatch.setattr(torch.Tensor, "device", property(device_of), raising=False)
    audio = [np.arange(3, dtype=np.float32), np.ones(2, np.float32)]
    batch, lengths = pad_audio(audio, "cuda:0")
    assert device_of(batch) == device_of(lengths) == GPU
    sums = gpu.queued(lambda samples: samples.sum(1, keepdim=True) + 1)(batch)
    del batch, lengths  # The memory may be given to others now.
    rows = split_by_utterance(sums, 2)
    assert [convert_to_array(row).tolist() for row in rows] == [[4.0], [3.0]]
