"""Reproducible random numbers, which depend on a seed, the epoch and the utterance only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch
from torch import Tensor

from kaldi_compat.torch.data.arguments import whole_number

_CPU = torch.device("cpu")


class Seeds:
    """Seeds of the utterances of a data set in its current epoch.

    Args:
        seed: the data set's seed.

    Raises:
        OptionError: the seed or an epoch is not a whole number, or negative.
    """

    def __init__(self, seed: int) -> None:
        self.seed = whole_number("seed", seed)
        # In shared memory: persistent workers copy a data set before the epoch is set.
        self._epoch: Tensor = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    @property
    def epoch(self) -> int:
        """The epoch, also one that another process has set."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch.fill_(whole_number("epoch", epoch))

    def of(self, key: str) -> int:
        """Return the seed of an utterance: 63 bits."""
        text = f"{self.seed} {self.epoch} {key}".encode("utf-8", "surrogateescape")
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") >> 1


@contextmanager
def fork_seed(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed torch's random numbers on the CPU and on a device within the context; they go on as before after it."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng([device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
