"""The devices that a dump uses, and their preparation for the first batch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, cast

from io_ark.text import format_count
from kaldi_compat.dump.errors import DumpError, LostDeviceError, format_error
from kaldi_compat.dump.options import CPU

# Maximum number of cuFFT plans that torch caches on a device. Torch makes a plan for each shape of its input, and a
# plan may need much device memory.
MAX_FFT_PLANS = 16
MAX_SUMMARY_CHARACTERS = 200  # CUDA's messages are cut here, because general advice about debugging follows.
GIB = 2**30
_CUDA = re.compile(r"cuda(?::([0-9]+(?:,[0-9]+)*))?")
_GONE = re.compile("No CUDA GPUs are available|no CUDA-capable device|invalid device ordinal|CUDA unknown error")


def parse_devices(text: str) -> list[str]:
    """Parse ``text``, the value of ``--device``, into names of devices: ["cuda:0", "cuda:1"] for "cuda:0,1".

    "cuda" names all GPUs of this machine.

    Raises:
        DumpError: ``text`` does not name a device, PyTorch was built without CUDA, or the machine lacks the device.
    """
    if text == CPU:
        return [CPU]
    match = _CUDA.fullmatch(text)
    if not match:
        raise DumpError(f"--device={text}: expected cpu, cuda, or the numbers of GPUs, such as cuda:0,1")
    import torch

    gpu_count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    numbers = [int(number) for number in match[1].split(",")] if match[1] else list(range(gpu_count))
    if not gpu_count and not cast(Any, torch.backends.cuda).is_built():  # Torch declares no types for the function.
        advice = "install a build with CUDA, or use --device=cpu"
        raise DumpError(f"--device={text}: PyTorch {torch.__version__} was built without CUDA: {advice}")
    if not numbers or max(numbers) >= gpu_count:
        advice = f"use --device=cpu, or numbers from 0 to {gpu_count - 1}" if gpu_count else "use --device=cpu"
        raise DumpError(f"--device={text}: PyTorch sees {format_count(gpu_count, 'GPU')} here: {advice}")
    return [f"cuda:{number}" for number in numbers]


def prepare_device(device: str, max_memory: float) -> None:
    """Make a GPU the current device, and limit its memory and its cached cuFFT plans. Do nothing for the CPU.

    ``max_memory`` is the GPU memory in GiB that this process may use, or 0 for no limit.
    """
    if device == CPU:
        return
    import torch

    torch.cuda.set_device(device)
    torch.backends.cuda.cufft_plan_cache[torch.cuda.current_device()].max_size = MAX_FFT_PLANS
    if max_memory:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, max_memory * GIB / total), device)


def explain_unavailable(error: BaseException, device: str) -> str | None:
    """Describe why a process cannot open a GPU now, with advice. Return None if ``error`` has a different cause."""
    message = str(error)
    if "busy or unavailable" in message or "exclusive-thread device" in message:
        return (
            f"{device} is in use by another process, and may be limited to one process (nvidia-smi -c DEFAULT, or MPS, "
            "allows several): end the other process, or use as many processes as GPUs (--nj)"
        )
    if "CUDA" in message and "out of memory" in message:
        return f"{device} has no memory left for another process: use fewer processes (--nj), or end other processes"
    if _GONE.search(message):
        summary = format_error(error)[:MAX_SUMMARY_CHARACTERS]
        return f"{device} has disappeared ({summary}): continue on other GPUs with --resume and --device"
    return None


@contextlib.contextmanager
def watch_device(device: str) -> Iterator[None]:
    """Convert a RuntimeError of the ``with`` block to :class:`LostDeviceError` if ``device`` no longer works."""
    try:
        yield
    except RuntimeError as error:
        if device == CPU:
            raise
        import torch

        from kaldi_compat.torch import kernels

        if not kernels.is_broken(torch.device(device)):
            raise
        raise LostDeviceError(
            f"{device} no longer works after a fault of the card, its driver or a kernel "
            f"({format_error(error)[:MAX_SUMMARY_CHARACTERS]}): {kernels.SWITCH}=0 in the environment disables the "
            "kernels of kaldi-compat"
        ) from error
