"""The order of transfers and computations, on a fake GPU that copies nothing before something waits for it.

A stream here is a list of copies not yet done. They are done when another stream, or the host, waits for the stream; so
whoever does not wait finds rubbish. Memory that a stream uses without being its own must have been recorded for it, or
the allocator would give it to others meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from kaldi_compat.dump import packed_batch
from kaldi_compat.dump.entries import Audio, Entry, Features, OnGrid
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.read import Lines, TaskReader
from kaldi_compat.dump.spectral_gpu import PackedComputer
from kaldi_compat.dump.transfers import Transfers
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.tensors.frames import num_frames
from tests.support.dump_data import audio, make_data, write_wav

GPU = torch.device("cuda:0")
RUBBISH = 77


class Stream:
    """A queue of copies."""

    def __init__(self, device: object = None) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.waited_for: list[Stream] = []

    def wait_stream(self, other: Stream) -> None:
        self.waited_for.append(other)
        other.catch_up()

    def catch_up(self) -> None:
        with torch.inference_mode():
            while self.waiting:
                self.waiting.pop(0)()


class Event:
    """A point in a stream that the host may wait for."""

    def __init__(self, **options: bool) -> None:
        self.stream: Stream | None = None

    def record(self, stream: Stream) -> None:
        self.stream = stream
        stream.waited_for.clear()  # what is copied after this has to wait anew

    def synchronize(self) -> None:
        assert self.stream is not None, "waits for an event that was never recorded"
        self.stream.catch_up()


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


class FakeGpu:
    """Replaces the parts of torch.cuda and of tensors that need a GPU."""

    def __init__(self) -> None:
        self.main = self.current = Stream()
        self.pinned: list[torch.Tensor] = []  # kept, so that no other tensor gets their identity
        self.owners: list[tuple[torch.Tensor, Stream]] = []
        self.recorded: list[tuple[torch.Tensor, Stream]] = []
        self.sent: list[torch.Tensor] = []  # in pieces

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return any(share_memory(each, tensor) for each in self.pinned)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        self.pinned.append(tensor)
        return tensor

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def record(self, tensor: torch.Tensor, stream: Stream) -> None:
        self.recorded.append((tensor, stream))

    def may_use(self, tensor: torch.Tensor, stream: Stream) -> bool:
        """Return True if a stream may use a tensor's memory, by this or another tensor on the same storage."""
        owner = next((owner for each, owner in self.owners if share_memory(each, tensor)), self.main)
        return owner is stream or any(share_memory(each, tensor) and by is stream for each, by in self.recorded)

    def zeros(self, there: torch.Tensor) -> torch.Tensor:
        self.owners.append((there, self.current))
        self.current.waiting.append(lambda: there.zero_())
        return there.fill_(RUBBISH)

    def to_part(self, there: torch.Tensor, tensor: torch.Tensor, copy: Callable[..., Any]) -> None:
        assert self.is_pinned(tensor), "this copy would wait for all that is being computed"
        assert self.may_use(there, self.current)
        self.sent.append(tensor)
        self.current.waiting.append(lambda: copy(there, tensor))

    def to_gpu(self, tensor: torch.Tensor, non_blocking: bool) -> torch.Tensor:
        assert non_blocking and self.is_pinned(tensor), "this copy would wait for all that is being computed"
        there = torch.full_like(tensor, RUBBISH)
        self.owners.append((there, self.current))
        self.current.waiting.append(lambda: there.copy_(tensor))
        return there

    def to_host(self, host: torch.Tensor, tensor: torch.Tensor, copy: Callable[..., Any]) -> None:
        stream = self.current
        assert self.main in stream.waited_for, "copies what may not be computed yet"
        copy(host, torch.full_like(host, RUBBISH))

        def do() -> None:
            assert self.may_use(tensor, stream), "memory used beyond its own stream without being recorded"
            copy(host, tensor)

        stream.waiting.append(do)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()
    to, copy, empty, zeros = torch.Tensor.to, torch.Tensor.copy_, torch.empty, torch.zeros

    def fake_to(tensor: torch.Tensor, *args: Any, non_blocking: bool = False, **kwargs: Any) -> torch.Tensor:
        return fake.to_gpu(tensor, non_blocking) if args[:1] == (GPU,) else to(tensor, *args, **kwargs)

    def fake_copy(host: torch.Tensor, tensor: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if non_blocking and fake.is_pinned(host):
            fake.to_host(host, tensor, copy)
            return host
        if non_blocking:
            fake.to_part(host, tensor, copy)
            return host
        return copy(host, tensor)

    def pinning(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, pin_memory: bool = False, device: Any = None, **kwargs: Any) -> torch.Tensor:
            if device == GPU:
                return fake.zeros(make(*args, **kwargs))
            kwargs |= {} if device is None else {"device": device}
            return fake.pin(make(*args, **kwargs)) if pin_memory else make(*args, **kwargs)

        return made

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", fake.stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: fake.current)
    monkeypatch.setattr(torch.cuda.nvtx, "range", lambda name: contextlib.nullcontext())
    monkeypatch.setattr(torch, "empty", pinning(empty))
    monkeypatch.setattr(torch, "zeros", pinning(zeros))
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: fake.is_pinned(tensor))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: fake.pin(tensor.clone()))
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: fake.record(tensor, stream))
    monkeypatch.setattr(torch.Tensor, "to", fake_to)
    monkeypatch.setattr(torch.Tensor, "copy_", fake_copy)
    return fake


def test_sent_tensor_is_ready_for_the_next_computation(gpu: FakeGpu) -> None:
    transfers = Transfers(GPU)
    for tensor in (torch.arange(5), torch.zeros(3, pin_memory=True)):
        there = transfers.send([(0, tensor)], len(tensor))
        assert torch.equal(there, tensor)
        assert gpu.may_use(there, gpu.main)


def test_pieces_are_put_together_on_the_device(gpu: FakeGpu) -> None:
    transfers = Transfers(GPU)
    there = transfers.send([(1, torch.arange(5)[2:]), (6, torch.zeros(2, dtype=torch.int64, pin_memory=True) + 1)], 9)
    assert there.tolist() == [0, 2, 3, 4, 0, 0, 1, 1, 0]
    assert gpu.may_use(there, gpu.main)


def test_fetched_tensors_are_the_computed_ones(gpu: FakeGpu) -> None:
    transfers = Transfers(GPU)
    sent = transfers.send([(0, torch.arange(5.0))], 5)
    arrival = transfers.fetch([sent * 2, sent[1:]])
    assert [each.tolist() for each in arrival.tensors] == [[RUBBISH] * 5, [RUBBISH] * 4], "copied without being asked"
    doubled, rest = arrival.wait()
    assert doubled.tolist() == [0, 2, 4, 6, 8] and rest.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("conf", ["--dither=0\n", "--dither=1\n--snip-edges=false\n"], ids=["plain", "dithered"])
@pytest.mark.parametrize("compress", [False, True])
def test_concurrent_batches_do_not_mix(gpu: FakeGpu, tmp_path: Path, conf: str, compress: bool) -> None:
    data = make_data(tmp_path, 1)
    (tmp_path / "conf" / "fbank.conf").write_text(conf)
    job = Job(Layout.of(data, "fbank"), DumpOptions(conf=str(tmp_path / "conf" / "fbank.conf"), compress=compress))
    lengths = (9000, 300, 1500, 700, 5000)
    batch = [Audio.of(i, f"utt{i}", io_ark.Wave(16000.0, audio(n, i, 1))) for i, n in enumerate(lengths)]
    computer = PackedComputer(job, make_plan(job), "cpu")
    expected = {each.index: each for part in (batch[:3], batch[3:]) for each in computer.submit(part)()}
    computer.transfers = Transfers(GPU)
    pending = [computer.submit(batch[:3]), computer.submit(batch[3:])]
    results = {each.index: each for part in reversed(pending) for each in part()}
    assert results.keys() == expected.keys()
    for index, each in results.items():
        other = expected[index]
        assert isinstance(each, Features) and isinstance(other, Features) and len(each) == len(other)
        assert contents(each) == contents(other)


def contents(features: Features) -> list[tuple[str, bytes]]:
    return [(key, np.asarray(value).tobytes()) for key, value in features.block.entries()]


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


@pytest.mark.parametrize("largest_copy", [0, 6000, 10**9])
def test_files_read_in_place_give_the_features_of_copied_ones(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest_copy: int
) -> None:
    monkeypatch.setattr(packed_batch, "LEAST_PIECE", largest_copy)
    data = make_data(tmp_path, 1)
    (tmp_path / "conf" / "fbank.conf").write_text("--dither=0\n")
    job = Job(Layout.of(data, "fbank"), DumpOptions(conf=str(tmp_path / "conf" / "fbank.conf")))
    computer = PackedComputer(job, make_plan(job), "cpu")
    lines = write_files(tmp_path)

    def entries(reader: TaskReader) -> list[Entry]:
        """Read all lines; a task may leave some of them."""
        task: Lines | None = Lines(0, lines)
        found: list[Entry] = []
        while task is not None:
            read = reader(task)
            task = read.pop() if isinstance(read[-1], Lines) else None
            found += [one for each in read if not isinstance(each, Lines) for one in each.each()]
        return found

    copied = entries(TaskReader(job.options))
    expected = computer.submit([each for each in copied if isinstance(each, Audio)])()
    computer.transfers = Transfers(GPU)
    in_place = entries(TaskReader(job.options, functools.partial(packed_batch.PinnedMemory, 160)))
    assert [each.key for each in in_place] == [each.key for each in copied]
    assert [type(each) for each in in_place] == [type(each) for each in copied]
    utterances = [each for each in in_place if isinstance(each, Audio)]
    # The truncated one and that of two channels are read alone, and so is the next one after such a file.
    assert [each.key[-1] for each in utterances if each.place is None] == ["4", "5", "7"]
    results = computer.submit(utterances)()
    assert [len(each) for each in results] == [len(each) for each in expected] and sum(map(len, results)) == 8
    for found, other in zip(results, expected, strict=True):
        assert isinstance(found, Features) and isinstance(other, Features)
        assert contents(found) == contents(other)
    # Whatever was read in place was sent from there, but for short pieces.
    memory = {id(each.place.tensor) for each in utterances if each.place is not None}
    tensors = [each.place.tensor for each in utterances if each.place is not None]
    direct = sum(len(each) for each in gpu.sent if any(share_memory(each, tensor) for tensor in tensors))
    assert memory and direct >= {0: 9000 + 300 + 5000 + 1600 + 48000, 6000: 9000 + 48000}.get(largest_copy, 0)
    assert (direct == 0) == (largest_copy == 10**9)


def test_files_are_read_to_ordinary_memory_if_no_pinned_memory_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> torch.Tensor:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch, "empty", full)
    reader = TaskReader(DumpOptions(), functools.partial(packed_batch.PinnedMemory, 160))
    (block,) = reader(Lines(0, write_files(tmp_path)[:2]))
    assert isinstance(block, Audio)
    first, second = block.each()
    assert first.place is None and np.array_equal(second.value.samples, audio(300, 1, 1))


def part_of(samples: Any, place: OnGrid | None) -> packed_batch.Part:
    """Return an utterance to be packed, whose samples a device can copy from a place."""
    entry = Audio.of(0, "utt", io_ark.Wave(16000.0, samples[None]), place)
    return packed_batch.Part(entry, samples, np.zeros(1, np.int64), np.array([len(samples)]), [1.0])


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
        patch.setattr(packed_batch, "LEAST_PIECE", least)
        row = packed_batch.pack([part_of(*each) for each in zip(samples, places, strict=True)], options)
    sent = Transfers(torch.device("cpu")).send(row.pieces, row.length)
    assert len(sent) == row.length == (row.frames - 1) * shift + options.window_size
    end = 0
    for values, first, count in zip(samples, row.first_frames.tolist(), row.counts.tolist(), strict=True):
        assert first * shift >= end and np.array_equal(sent[first * shift :][: len(values)].numpy(), values)
        assert count == num_frames(len(values), options.window_size, shift, True)
        end = first * shift + len(values)
    assert end <= row.length
    piece_end = 0
    for begin, piece in row.pieces:
        assert begin >= piece_end
        piece_end = begin + len(piece)
    assert piece_end <= row.length
