"""Which devices a dump uses, and what is set on one before its first batch."""

from __future__ import annotations

import re

from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import CPU

# Plans of cuFFT that are kept: each frame size has its own, and they hold device memory.
FFT_PLANS = 16
GIB = 2**30
_CUDA = re.compile(r"cuda(?::([0-9]+(?:,[0-9]+)*))?")


def devices_of(text: str) -> list[str]:
    """The devices that ``--device`` names.

    Raises:
        DumpError: it names none, or GPUs that are not there.

    >>> devices_of("cpu")
    ['cpu']
    """
    if text == CPU:
        return [CPU]
    found = _CUDA.fullmatch(text)
    if not found:
        raise DumpError(f"--device={text}: expected cpu, cuda, or GPUs by number such as cuda:0,1")
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    wanted = [int(number) for number in found[1].split(",")] if found[1] else list(range(there))
    if not wanted or max(wanted) >= there:
        raise DumpError(f"--device={text}: PyTorch sees {there} GPUs here; --device=cpu computes without")
    return [f"cuda:{number}" for number in wanted]


def prepare_device(device: str, max_memory: float) -> None:
    """Make a GPU this process's current one, and bound what it may take of its memory.

    Args:
        device: as :func:`devices_of` gives it.
        max_memory: in GiB; 0 is no limit.
    """
    if device == CPU:
        return
    import torch

    torch.cuda.set_device(device)
    torch.backends.cuda.cufft_plan_cache[torch.cuda.current_device()].max_size = FFT_PLANS
    if max_memory:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, max_memory * GIB / total), device)
