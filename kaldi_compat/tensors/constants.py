"""Constants on devices: made once, since a copy from the host waits for all work there and no CUDA graph allows it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor


class Constants:
    """Keeps tensors that depend on nothing but their key.

    Args:
        most: number of tensors that are kept; the oldest is released for a new one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Hashable, Tensor] = {}

    def get(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return the tensor of this key, which ``make`` makes at the first call.

        >>> constants = Constants(2)
        >>> constants.get("one", lambda: torch.ones(3)) is constants.get("one", lambda: torch.ones(3))
        True
        """
        if torch.compiler.is_compiling():  # the compiler sees the making, and keeps what comes out itself
            return make()
        if (found := self._kept.get(key)) is not None:
            return found
        with torch.inference_mode(False):  # so that it may be used in training too
            made = make()
        if type(made) is Tensor:  # not a tracer's stand-in
            if len(self._kept) >= self._most:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = made
        return made
