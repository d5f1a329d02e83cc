"""Reproducible random numbers, which depend only on a seed, the epoch and the utterance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch
from torch import Tensor

from kaldi_compat.torch.data.arguments import check_whole_number

_CPU = torch.device("cpu")


class Seeds:
    """Seeds of the utterances of a data set, which are derived from its ``seed`` and its current epoch.

    Raises:
        OptionError: the seed or an epoch is not a whole number or is negative.
    """

    def __init__(self, seed: int) -> None:
        self.seed = check_whole_number("seed", seed)
        # The epoch is in shared memory, because persistent workers copy a data set before its epoch is set.
        self._epoch: Tensor = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    @property
    def epoch(self) -> int:
        """The epoch, which all processes share."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch.fill_(check_whole_number("epoch", epoch))

    def derive(self, key: str) -> int:
        """Derive the seed of the utterance ``key`` in this epoch, an integer from 0 to 2^63 - 1."""
        identity = f"{self.seed} {self.epoch} {key}".encode("utf-8", "surrogateescape")
        return int.from_bytes(blake2b(identity, digest_size=8).digest(), "little") >> 1


@contextmanager
def fork_seed(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed torch's global generators on the CPU and on a device for a ``with`` block, and then restore their states."""
    is_on_gpu = device.type == "cuda"
    with torch.random.fork_rng([device] if is_on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if is_on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
