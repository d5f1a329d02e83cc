"""Compile the fused kernels for a GPU, which need not exist, and print their registers, memory and spills.

    python tests/support/kernel_resources.py [compute capability, such as 90] [part of a kernel's name]

It compiles the kernels of a typical filter bank (16 kHz, 80 bins): undithered for audio of several lengths, with Kaldi's
noise, with noise for training, and with VTLN; and those that compress it. It prints a line for each compiled kernel: its
registers, bytes of stack, local and shared memory, instructions of the machine, and how it treats NaN and roundings.
TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from kaldi_compat import Fbank
from kaldi_compat.kernels import launch


class Driver:
    """Stands for the GPU's driver as far as compiling goes."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Compiled:
    """A kernel that is compiled where it would be launched."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.made: dict[int, Any] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def compile_only(*args: Any, **options: Any) -> None:
            made = self.kernel.warmup(*args, grid=grid, **options)
            self.made[id(made)] = made

        return compile_only


def resources(made: Any) -> dict[str, int]:
    """Registers and bytes that cuobjdump tells of compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "cubin"
        binary.write_bytes(made.asm["cubin"])
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(binary)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.findall(r"\b(REG|STACK|LOCAL):(\d+)", told.stdout + told.stderr)
    return {name: int(value) for name, value in found} | {"SHARED": made.metadata.shared}


def main() -> None:
    """Compile and print."""
    triton.runtime.driver.set_active(Driver(int(sys.argv[1]) if len(sys.argv) > 1 else 90))
    kernels = [Compiled(launch.power_kernel), Compiled(launch.bands_kernel)]
    launch.power_kernel, launch.bands_kernel = kernels
    module = Fbank(dither=0.0, num_mel_bins=80)
    for shape in ((1, 16000), (1, 16001), (3, 9999), (16, 480000)):
        launch.features_of(module, torch.zeros(shape, dtype=torch.int16), None, 1.0)
    for kernel in kernels:
        for made in kernel.made.values():
            assert "mma" not in made.asm["ptx"], "a product in TF32"
            print(kernel.kernel.__name__, *(f"{name}:{value}" for name, value in resources(made).items()))


if __name__ == "__main__":
    main()
