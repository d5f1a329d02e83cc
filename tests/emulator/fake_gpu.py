"""A fake GPU whose queues run as late, and whose memory is given out again as early, as a real one's may.

A stream is a queue of work, done when another stream or the host waits for it, or at once if it is ``ahead``. The
memory of a tensor that nothing holds any more is given out again at the next occasion, and overwritten, unless the
tensor was recorded for a stream that has not come so far; queued work reads and writes the memory, and does not hold
the tensor. So whoever does not wait, or does not say who uses a tensor, finds rubbish or another tensor's numbers.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

GPU = torch.device("cuda:0")
RUBBISH = 77


class Stream:
    """A queue of work.

    Attributes:
        ahead: whether work is done as soon as it is queued.
    """

    def __init__(self, device: object = None) -> None:
        self.queue: list[Callable[[], object]] = []
        self.done = 0
        self.ahead = False

    def add(self, work: Callable[[], object]) -> None:
        self.queue.append(work)
        if self.ahead:
            self.run(len(self.queue))

    def run(self, end: int) -> None:
        """Do the work up to a place in the queue."""
        with torch.inference_mode():
            while self.done < end:
                self.done += 1
                self.queue[self.done - 1]()

    def wait_stream(self, other: Stream) -> None:
        end = len(other.queue)
        self.add(lambda: other.run(end))


class Event:
    """A place in a stream that the host may wait for."""

    def __init__(self, **options: bool) -> None:
        self.run: Callable[[], None] | None = None

    def record(self, stream: Stream) -> None:
        end = len(stream.queue)
        self.run = lambda: stream.run(end)

    def synchronize(self) -> None:
        assert self.run is not None, "waits for an event that was never recorded"
        self.run()


class Block:
    """Memory of the device, or pinned memory, whose owner is None.

    Attributes:
        streams: that the tensor was recorded for.
        uses: places in streams before which the memory must not be given to others.
    """

    def __init__(self, size: int, owner: Stream | None) -> None:
        self.memory = np.full(size, RUBBISH, np.uint8)
        self.owner = owner
        self.is_free = False
        self.streams: set[Stream] = set()
        self.uses: list[tuple[Stream, int]] = []

    def free(self) -> None:
        self.uses += [(stream, len(stream.queue)) for stream in self.streams]
        self.streams.clear()
        self.is_free = True

    def fits(self, size: int, owner: Stream | None) -> bool:
        passed = all(stream.done >= end for stream, end in self.uses)
        return self.is_free and self.owner is owner and len(self.memory) >= size and passed


class FakeGpu:
    """Replaces the parts of torch.cuda and of tensors that need a GPU.

    Attributes:
        main: the stream of computations, which is ``ahead`` unless they are :meth:`queued`.
        sent: tensors of pinned memory that were copied to parts of others.
    """

    def __init__(self) -> None:
        self.main = self.current = Stream()
        self.main.ahead = True
        self.blocks: list[Block] = []
        self.sent: list[torch.Tensor] = []

    def allocate(self, like: torch.Tensor, owner: Stream | None) -> torch.Tensor:
        """Return a tensor of this shape and type, in memory that others have just left, if there is some."""
        size = max(1, like.numel() * like.element_size())
        block = next((each for each in self.blocks if each.fits(size, owner)), None)
        if block is None:
            block = Block(2 * size, owner)
            self.blocks.append(block)
        block.is_free, block.uses = False, []
        memory = block.memory
        if owner is None:
            memory.fill(RUBBISH)
        else:
            owner.add(lambda: memory.fill(RUBBISH))
        own = memory[: like.numel() * like.element_size()]
        weakref.finalize(own, block.free)  # which the tensors in it hold
        return torch.from_numpy(own).view(like.dtype).view(like.shape)

    def find_block(self, tensor: torch.Tensor) -> Block | None:
        """Return the memory that a tensor is in; None for ordinary memory."""
        places = ((each, tensor.data_ptr() - each.memory.ctypes.data) for each in self.blocks)
        return next((each for each, place in places if 0 <= place < len(each.memory)), None)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        block = self.find_block(tensor)
        return block is not None and block.owner is None

    def memory_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the same memory that does not hold it, unless it is ordinary memory."""
        block = self.find_block(tensor)
        if block is None:
            return tensor
        start = tensor.data_ptr() - block.memory.ctypes.data
        own: npt.NDArray[Any] = block.memory[start : start + tensor.numel() * tensor.element_size()]
        return torch.from_numpy(own).view(tensor.dtype).view(tensor.shape)

    def queue_copy(self, target: torch.Tensor, source: torch.Tensor, copy: Callable[..., Any]) -> None:
        to, of = self.memory_of(target), self.memory_of(source)
        self.current.add(lambda: copy(to, of))
        for block in map(self.find_block, (target, source)):
            if block is not None and block.owner is None:  # PyTorch records copies of pinned memory by itself
                block.uses.append((self.current, len(self.current.queue)))

    def record(self, tensor: torch.Tensor, stream: Stream) -> None:
        block = self.find_block(tensor)
        if block is not None:
            block.streams.add(stream)

    def queued(self, compute: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """Return a computation that is queued, as a kernel's is, and reads its first argument when it is done."""
        self.main.ahead = False

        def later(samples: torch.Tensor, *rest: Any) -> torch.Tensor:
            there = self.memory_of(samples)
            result = self.allocate(compute(there, *rest), self.main)  # of this shape, but other numbers
            to = self.memory_of(result)
            self.main.add(lambda: to.numpy().__setitem__(..., compute(there, *rest).numpy()))
            return result

        return later

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Put a fake GPU in the place of torch.cuda."""
    fake = FakeGpu()
    to, copy, zero = torch.Tensor.to, torch.Tensor.copy_, torch.Tensor.zero_

    def pinned(tensor: torch.Tensor) -> torch.Tensor:
        return copy(fake.allocate(tensor, None), tensor)

    def fake_to(tensor: torch.Tensor, *args: Any, non_blocking: bool = False, **kwargs: Any) -> torch.Tensor:
        if args[:1] != (GPU,):
            return to(tensor, *args, **kwargs)
        assert non_blocking and fake.is_pinned(tensor), "this copy would wait for all that is being computed"
        there = fake.allocate(tensor, fake.current)
        fake.queue_copy(there, tensor, copy)
        return there

    def fake_copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if not non_blocking:
            if fake.find_block(source) or fake.find_block(target):  # which waits
                fake.current.run(len(fake.current.queue))
            return copy(target, source)
        assert fake.is_pinned(target) or fake.is_pinned(source), "this copy would wait for all that is being computed"
        if fake.is_pinned(source):
            fake.sent.append(source)
        fake.queue_copy(target, source, copy)
        return target

    def making(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, pin_memory: bool = False, device: Any = None, **kwargs: Any) -> torch.Tensor:
            if device != GPU:
                tensor = make(*args, **kwargs, **({} if device is None else {"device": device}))
                return pinned(tensor) if pin_memory else tensor
            there = fake.allocate(make(*args, **kwargs), fake.current)
            memory = fake.memory_of(there)
            fake.current.add(lambda: zero(memory))
            return there

        return made

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", fake.stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: fake.current)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda.nvtx, "range", lambda name: contextlib.nullcontext())
    monkeypatch.setattr(torch, "empty", making(torch.empty))
    monkeypatch.setattr(torch, "zeros", making(torch.zeros))
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: fake.is_pinned(tensor))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: fake.record(tensor, stream))
    monkeypatch.setattr(torch.Tensor, "to", fake_to)
    monkeypatch.setattr(torch.Tensor, "copy_", fake_copy)
    return fake
