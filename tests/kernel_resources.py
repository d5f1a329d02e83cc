"""Compiles the fused kernels for a GPU that need not be there, and prints what they take of it.

    python tests/kernel_resources.py [compute capability, such as 90]

For a usual filter bank (16 kHz, 80 bins) the registers, stack and local memory of each kernel, which the assembler
counts. TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kaldi_compat import Fbank
from kaldi_compat.kernels import launch

POINTERS = {"samples": "*i16", "lengths": "*i64", "bins": "*i32", "ranges": "*i32"}
FLOATS = {"coefficient", "scale", "energy_floor", "floor"}
ARRAYS = {"window", "factors", "power", "log_energy", "weights", "out"}


def compiled(kernel: Any, options: dict[str, Any], capability: int) -> Any:
    """A kernel for these constants and launch options."""
    constants = {name: value for name, value in options.items() if name in kernel.arg_names}
    signature = {}
    for name in kernel.arg_names:
        pointer = POINTERS.get(name, "*fp32") if name in POINTERS or name in ARRAYS else None
        signature[name] = "constexpr" if name in constants else pointer or ("fp32" if name in FLOATS else "i32")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    rest = {name: value for name, value in options.items() if name not in constants}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=rest)


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
    capability = int(sys.argv[1]) if len(sys.argv) > 1 else 90
    module = Fbank(dither=0.0, num_mel_bins=80)
    for kernel, options in (
        (launch.power_kernel, launch.power_options(module, ragged=False, energy=0)),
        (launch.bands_kernel, launch.bands_options(module.points, logs=True)),
    ):
        made = compiled(kernel, options, capability)
        assert "mma" not in made.asm["ptx"], "a product in TF32"
        print(kernel.__name__, *(f"{name}:{value}" for name, value in resources(made).items()))


if __name__ == "__main__":
    main()
