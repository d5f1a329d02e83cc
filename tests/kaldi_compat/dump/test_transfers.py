"""The order of transfers and computations, on a fake GPU that copies nothing before something waits for it.

A stream here is a list of copies not yet done. They are done when another stream, or the host, waits for the stream; so
whoever does not wait finds rubbish. Memory that a stream uses without being its own must have been recorded for it, or
the allocator would give it to others meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import io_ark
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.read import Utterance
from kaldi_compat.dump.spectral import Computed
from kaldi_compat.dump.spectral_gpu import PackedComputer
from kaldi_compat.dump.transfers import Transfers
from tests.support.dump_data import audio, make_data

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


class FakeGpu:
    """Replaces the parts of torch.cuda and of tensors that need a GPU."""

    def __init__(self) -> None:
        self.main = self.current = Stream()
        self.pinned: list[torch.Tensor] = []  # kept, so that no other tensor gets their identity
        self.owners: list[tuple[torch.Tensor, Stream]] = []
        self.recorded: list[tuple[torch.Tensor, Stream]] = []

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return any(each is tensor for each in self.pinned)

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

        def shares(other: torch.Tensor) -> bool:
            return other.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()

        owner = next((owner for each, owner in self.owners if shares(each)), self.main)
        return owner is stream or any(shares(each) and by is stream for each, by in self.recorded)

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
        return copy(host, tensor)

    def pinning(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
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
        there = transfers.send(tensor)
        assert torch.equal(there, tensor)
        assert gpu.may_use(there, gpu.main)


def test_fetched_tensors_are_the_computed_ones(gpu: FakeGpu) -> None:
    transfers = Transfers(GPU)
    sent = transfers.send(torch.arange(5.0))
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
    batch = [Utterance(i, f"utt{i}", io_ark.Wave(16000.0, audio(n, i, 1))) for i, n in enumerate(lengths)]
    computer = PackedComputer(job, make_plan(job), "cpu")
    expected = {each.index: each for part in (batch[:3], batch[3:]) for each in computer.submit(part)()}
    computer.transfers = Transfers(GPU)
    pending = [computer.submit(batch[:3]), computer.submit(batch[3:])]
    results = {each.index: each for part in reversed(pending) for each in part()}
    assert results.keys() == expected.keys()
    for index, each in results.items():
        other = expected[index]
        assert isinstance(each, Computed) and isinstance(other, Computed) and each.key == other.key
        np.testing.assert_array_equal(np.asarray(each.features), np.asarray(other.features))
