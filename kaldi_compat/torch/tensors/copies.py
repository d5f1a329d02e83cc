"""Copies to devices that do not wait for the work that is queued there."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import ask_compiler


def is_capturing(device: torch.device) -> bool:
    """Return True while the work queued on a device is captured as a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device without waiting for the work that is queued there.

    A copy from memory that is not pinned would wait. PyTorch keeps pinned memory until copies from it have ended, but
    not until the replays of a captured CUDA graph have.

    Raises:
        RuntimeError: a CUDA graph is captured, and the copy would be part of it. PyTorch's own errors of capturing
            have this type.

    >>> to_device(torch.ones(2), torch.device("cpu"))
    tensor([1., 1.])
    """
    if tensor.device.type != "cpu" or device.type != "cuda" or ask_compiler(torch, "is_compiling"):
        return tensor.to(device)
    if is_capturing(device):
        raise RuntimeError(
            "a CUDA graph cannot be captured of a call that copies numbers from the host: call the module once before, "
            "give lengths on the GPU and one VTLN factor, and dither with torch's generator of the GPU"
        )
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
