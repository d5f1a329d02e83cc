"""Copies to devices that do not wait for the work that is queued there."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import ask_compiler


def is_capturing(device: torch.device) -> bool:
    """Return True while a CUDA graph captures the work that is queued on a device."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device, without waiting for the work that is queued on the device.

    A copy from memory that is not pinned would wait. PyTorch does not reuse pinned memory before copies from it have
    ended, but may reuse it before a captured CUDA graph is replayed.
    Raise RuntimeError, as PyTorch does during a capture, if the copy would be part of a CUDA graph being captured.
    """
    if tensor.device.type != "cpu" or device.type != "cuda" or ask_compiler(torch, "is_compiling"):
        return tensor.to(device)
    if is_capturing(device):
        raise RuntimeError(
            "a CUDA graph cannot capture a call that copies numbers from the host: call the module once before the "
            "capture, pass lengths on the GPU and a single VTLN factor, and dither with torch's generator of the GPU"
        )
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
