"""Compile the kernels for a GPU, which need not exist, and print their registers, memory and spills.

    python tests/emulator/kernel_resources.py [compute capability, such as 90 [uses...]]

It compiles the kernel of a typical filter bank (16 kHz, 80 bins): undithered, for audio of several lengths, with
Kaldi's noise, with noise for training, with VTLN, and with energies; that of a spectrogram; and those that compress. It
prints a line for each that differs: its registers, bytes of stack, local and shared memory, instructions of the
machine, maxima that drop NaN, and fused multiply-adds. TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget

from io_ark.codecs.compressed import CompressionMethod
from kaldi_compat import Fbank, KaldiRandom, Spectrogram
from kaldi_compat.torch.kernels import compression, launch


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


def tool_output(option: str, made: Any) -> str:
    """Return what cuobjdump tells of compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "cubin"
        binary.write_bytes(made.asm["cubin"])
        command = [triton.knobs.nvidia.cuobjdump.path, option, str(binary)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def resources(made: Any) -> dict[str, int]:
    """Return registers and bytes, instructions, and those that decide about NaN and rounding."""
    found = re.findall(r"\b(REG|STACK|LOCAL):(\d+)", tool_output("-res-usage", made))
    ptx = made.asm["ptx"]
    return {name: int(value) for name, value in found} | {
        "SHARED": made.metadata.shared,
        "INSTRUCTIONS": len(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?!NOP)[@A-Z]", tool_output("-sass", made))),
        "DROPS_NAN": maxima_that_drop_nan(ptx),
        "FUSED": ptx.count("fma.rn.f32"),
    }


MAXIMUM = re.compile(r"\bmax(?:\.ftz)?\.f32\s+(%r\d+), ([^;]+);")


def maxima_that_drop_nan(ptx: str) -> int:
    """Count maxima that ignore NaN.

    Before 8.0 there is no instruction that keeps NaN: a comparison of the same numbers, before the maximum, decides
    whether the maximum or NaN is used. The choice may come much later.
    """
    dropping = 0
    for most, values in MAXIMUM.findall(ptx):
        tests = re.findall(rf"setp\.nan\.f32\s+(%p\d+), {re.escape(values)};", ptx)
        uses = len(re.findall(rf"{most}\b", ptx)) - 1
        choices = (rf"selp\.f32\s+%r\d+, 0f7FC00000, {most}, {each};" for each in tests)
        dropping += uses == 0 or uses != sum(len(re.findall(choice, ptx)) for choice in choices)
    return dropping


KERNELS = (
    (launch, "feature_kernel"),
    (compression, "ranges_kernel"),
    (compression, "speech_kernel"),
    (compression, "integers_kernel"),
)


def fbank(
    shapes: tuple[tuple[int, int], ...], dither: float, warps: Any, generator: Any, *, energy: bool = False
) -> Callable[[], object]:
    """Return the launch of a filter bank for audio of several shapes."""
    module = Fbank(num_mel_bins=80, dither=dither, use_energy=energy)

    def run() -> None:
        for shape in shapes:
            launch.launch_features(module, torch.zeros(shape, dtype=torch.int16), None, warps, generator)

    return run


def spectrogram() -> object:
    """Launch a spectrogram."""
    return launch.launch_features(Spectrogram(dither=0.0), torch.zeros((3, 9999), dtype=torch.int16), None, 1.0, None)


def compressed(method: int) -> Callable[[], object]:
    """Return the launch of a compression."""
    chosen, places = CompressionMethod(method), np.array([(0, 1200)])
    return lambda: compression.compress_rows(torch.zeros((1200, 80)), places, chosen)


SHAPES = ((1, 16000), (1, 16001), (3, 9999), (16, 480000))
WARPS = [0.9, 1.0, 1.1]
USES: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "plain": (fbank(SHAPES, 0.0, 1.0, None), ("feature",)),
    "kaldi's-noise": (fbank(((3, 9999),), 1.0, 1.0, KaldiRandom()), ("feature",)),
    "training's-noise": (fbank(((3, 9999),), 1.0, 1.0, None), ("feature",)),
    "vtln": (fbank(((3, 9999),), 0.0, WARPS, None), ("feature",)),
    "energy": (fbank(((3, 9999),), 0.0, 1.0, None, energy=True), ("feature",)),
    "spectrum": (spectrogram, ("feature",)),
    "method-2": (compressed(2), ("ranges", "speech")),
    "method-3": (compressed(3), ("integers",)),
}


def choose(capability: int) -> None:
    """Let Triton compile for this compute capability, with the limit of registers of such a card."""
    triton.runtime.driver.set_active(Driver(capability))
    registers = launch.REGISTERS.get(divmod(capability, 10))
    setattr(launch, "_choose_registers", lambda device, points: registers or launch.USUAL_REGISTERS[points])  # noqa: B010


def main() -> None:
    """Compile and print."""
    choose(int(sys.argv[1]) if len(sys.argv) > 1 else 90)
    kernels = {name: Compiled(getattr(module, name)) for module, name in KERNELS}
    for module, name in KERNELS:
        setattr(module, name, kernels[name])
    for use in sys.argv[2:] or USES:
        run, names = USES[use]
        for kernel in kernels.values():
            kernel.made.clear()
        run()
        for name in names:
            for made in kernels[f"{name}_kernel"].made.values():
                assert "mma" not in made.asm["ptx"], "a product in TF32"
                print(use, f"{name}_kernel", *(f"{key}:{value}" for key, value in resources(made).items()))


if __name__ == "__main__":
    main()
