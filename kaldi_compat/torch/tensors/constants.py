"""Cache of constants on devices, because a copy from the host waits for the device, and CUDA graphs forbid it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import ask_compiler
from kaldi_compat.torch.tensors.copies import to_device


class Constants:
    """Cache of tensors that depend only on their key.

    Args:
        size: maximum number of tensors. When the cache is full, a new tensor replaces the oldest.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._tensors: dict[Hashable, Tensor] = {}

    def get_tensor(self, key: Hashable, device: torch.device, make: Callable[[], Tensor]) -> Tensor:
        """Return the tensor of a key on a device. If it is not cached, compute it on the CPU with ``make``."""
        if ask_compiler(torch, "is_compiling"):  # The compiler records ``make`` and caches its result itself.
            return make().to(device)
        if (tensor := self._tensors.get((key, device))) is not None:
            return tensor
        with torch.inference_mode(False):  # Training cannot use tensors made in inference mode.
            tensor = to_device(make(), device)
        if type(tensor) is Tensor:  # A tracer's substitute for a tensor must not be cached.
            if len(self._tensors) >= self._size:
                self._tensors.pop(next(iter(self._tensors)), None)
            self._tensors[key, device] = tensor
        return tensor
