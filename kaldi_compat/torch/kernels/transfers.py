"""Transfers between the host and a GPU, which run while the GPU computes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.torch import kernels


def allocate_host_memory(shape: Sequence[int], dtype: torch.dtype | npt.DTypeLike, *, pinned: bool = True) -> Tensor:
    """Allocate a tensor on the host, with undefined values.

    With ``pinned``, the memory is pinned, or pageable if no pinned memory is left.
    """
    if not isinstance(dtype, torch.dtype):
        dtype = torch.from_numpy(np.empty(0, dtype)).dtype
    try:
        return torch.empty(shape, dtype=dtype, pin_memory=pinned)
    except RuntimeError as error:
        if not kernels.is_out_of_memory(error):
            raise
        return torch.empty(shape, dtype=dtype)


class Transfers:
    """Transfer of tensors to and from a GPU in separate CUDA streams. On a CPU, no streams are used."""

    def __init__(self, device: str | torch.device) -> None:
        self.device = torch.device(device)
        self._upload_stream = self._download_stream = None  # CUDA streams of the copies, or None on a CPU.
        if self.device.type == "cuda":
            self._upload_stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            self._download_stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    @property
    def pins_memory(self) -> bool:
        """True if the host memory for transfers should be pinned."""
        return self._upload_stream is not None

    def send_pieces(self, pieces: Sequence[tuple[int, Tensor]], length: int) -> Tensor:
        """Assemble a tensor on the device from pieces. Work that is queued later on the current stream can use it.

        Args:
            pieces: pairs of a start index in the tensor and the piece (n,) that starts there. Other elements are 0.
            length: number of elements of the tensor. On a CPU, a piece of this length is returned without a copy.
        """
        is_single, device = len(pieces) == 1 and len(pieces[0][1]) == length, self.device
        if self._upload_stream is None:
            return pieces[0][1] if is_single else _join_pieces(pieces, length, device)
        # A copy from memory that is not pinned would wait for all running computations.
        pinned = [(start, piece if piece.is_pinned() else piece.pin_memory()) for start, piece in pieces]
        with torch.cuda.stream(self._upload_stream):
            if is_single:
                assembled = pinned[0][1].to(device, non_blocking=True)
            else:
                assembled = _join_pieces(pinned, length, device)
        current = torch.cuda.current_stream(device)
        current.wait_stream(self._upload_stream)
        assembled.record_stream(current)
        return assembled

    def fetch_tensors(
        self, tensors: Sequence[Tensor], *, are_computed: bool = False
    ) -> Callable[[], list[npt.NDArray[Any]]]:
        """Queue copies of tensors to the host. The copies start when the tensors have been computed.

        Args:
            tensors: tensors on the device.
            are_computed: True if the tensors are already computed, so that the copy can start immediately.

        Returns:
            A function that waits for the copies and returns the arrays.
        """
        if self._download_stream is None:
            return lambda: [tensor.cpu().numpy() for tensor in tensors]
        if not are_computed:  # Wait for all work that is queued on the current stream.
            self._download_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._download_stream):
            copies = []
            for tensor in tensors:
                host = allocate_host_memory(tensor.shape, tensor.dtype)
                host.copy_(tensor, non_blocking=host.is_pinned())
                tensor.record_stream(self._download_stream)
                copies.append(host)
            # The event blocks, because a busy wait would occupy a core that the reader needs.
            event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            event.record(self._download_stream)

        def wait_for_copies() -> list[npt.NDArray[Any]]:
            """Wait for the copies, and return them as arrays in the order of ``tensors``."""
            event.synchronize()
            return [tensor.numpy() for tensor in copies]

        return wait_for_copies

    @contextlib.contextmanager
    def profile_inference(self, name: str) -> Iterator[None]:
        """Run a ``with`` block without gradients. On a GPU, profilers show the block as a range named ``name``."""
        profiler_range = contextlib.nullcontext() if self._upload_stream is None else torch.cuda.nvtx.range(name)
        with torch.inference_mode(), profiler_range:
            yield

    def measure_peak_memory(self) -> float | None:
        """Return the largest number of bytes that tensors have occupied on the GPU, or None on a CPU."""
        return None if self._upload_stream is None else float(torch.cuda.max_memory_allocated(self.device))


def release_memory() -> None:
    """Release the cached memory of the GPU that no tensor uses. Without a GPU, do nothing."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _join_pieces(pieces: Sequence[tuple[int, Tensor]], length: int, device: torch.device) -> Tensor:
    """Copy pieces into a tensor of zeros (length,) on a device. For the pieces, see :meth:`Transfers.send_pieces`."""
    assembled = torch.zeros(length, dtype=pieces[0][1].dtype, device=device)
    for start, piece in pieces:
        assembled[start : start + len(piece)].copy_(piece, non_blocking=True)
    return assembled
