"""Constants on devices: made once, since a copy from the host waits for all work there and no CUDA graph allows it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from kaldi_compat.functional.compiler import compiler_says
from kaldi_compat.torch.tensors.copies import to_device


class Constants:
    """Keeps tensors that depend on nothing but their key.

    Args:
        most: number of tensors that are kept; the oldest is released for a new one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Hashable, Tensor] = {}

    def get(self, key: Hashable, device: torch.device, make: Callable[[], Tensor]) -> Tensor:
        """Return the tensor of this key on a device. ``make`` makes it at the first call, on the CPU.

        >>> constants, device = Constants(2), torch.device("cpu")
        >>> constants.get("one", device, lambda: torch.ones(3)) is constants.get("one", device, lambda: torch.ones(3))
        True
        """
        if compiler_says(torch, "is_compiling"):  # the compiler sees the making, and keeps what comes out itself
            return make().to(device)
        if (found := self._kept.get((key, device))) is not None:
            return found
        with torch.inference_mode(False):  # so that it may be used in training too
            made = to_device(make(), device)
        if type(made) is Tensor:  # not a tracer's stand-in
            if len(self._kept) >= self._most:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key, device] = made
        return made
