"""Compile the kernels for a GPU that need not exist, and place them in Triton's cache where they are needed.

    python benchmarks/gpu_cache.py compile FOLDER [--capability 90] [--jobs 2]
    python benchmarks/gpu_cache.py place FOLDER CACHE

`compile` fills FOLDER with the compiled variants of gpu_probe.py and of the dump. The names in Triton's cache contain a
digest of Triton's own files, which differ between versions of Python. Therefore names-*.json hold the other parts of
each name, and `place` computes the names of the Triton that is installed. Code of another version of Triton is left
out, and code for another assembler or another source has a name that Triton does not look for.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import triton

NAMES = "names-{part}.json"


def cache_name(key: str) -> str:
    """Return the folder that Triton 3.6 uses for a key."""
    return base64.b32encode(hashlib.sha256(key.encode()).digest()).decode().rstrip("=")


def compile_part(folder: Path, capability: int, part: int, jobs: int) -> None:
    """Compile every `jobs`-th variant into a folder, and write the keys without Triton's own part."""
    import gpu_probe
    import numpy as np
    import torch

    from io_ark.codecs import CompressionMethod
    from kaldi_compat import Fbank
    from kaldi_compat.torch import kernels
    from kaldi_compat.torch.kernels import compression
    from tests.emulator.kernel_resources import KERNELS, Compiled, choose

    keys: dict[str, str] = {}
    original, own = triton.compiler.compiler.get_cache_key, triton.runtime.cache.triton_key()

    def recorded(*arguments: Any, **named: Any) -> str:
        key: str = original(*arguments, **named)
        keys[cache_name(key)] = key.removeprefix(own)
        return key

    triton.compiler.compiler.get_cache_key = recorded
    choose(capability)
    for module, name in KERNELS:
        setattr(module, name, Compiled(getattr(module, name)))
    gpu_probe.DEVICE = kernels.DEVICE_TYPE = "cpu"
    setattr(kernels, "_find_fault", lambda *_: "")  # noqa: B010
    names = folder / NAMES.format(part=part)
    for case in gpu_probe.CASES[part::jobs]:
        start = time.process_time()
        case.compute("triton", 4000)
        names.write_text(json.dumps({"triton": triton.__version__, "keys": keys}))
        print(f"{case.name}: {time.process_time() - start:.0f} s of processor time", flush=True)
    if part == 0:
        for columns in (9, 80):  # The test at the first use has 9 columns, and the dump has 80.
            for method in CompressionMethod:
                compression.compress_rows(torch.zeros(145, columns), np.array([[0, 7], [7, 138]]), method)
        Fbank(num_mel_bins=80, dither=0.0)(torch.zeros(16000, dtype=torch.int16))
    names.write_text(json.dumps({"triton": triton.__version__, "keys": keys}))


def compile_all(folder: Path, capability: int, jobs: int) -> None:
    """Compile all variants in several processes. Kernels that are in the folder already are not compiled again."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(NAMES.format(part="*")):
        path.unlink()
    line = [sys.executable, __file__, "compile", str(folder), f"--capability={capability}", f"--jobs={jobs}"]
    settings = {"TRITON_CACHE_DIR": str(folder), "TRITON_STORE_BINARY_ONLY": "1", "TRITON_INTERPRET": "0"}
    processes = [
        subprocess.Popen([*line, f"--part={part}"], env=os.environ | settings | {"OMP_NUM_THREADS": "1"})
        for part in range(jobs)
    ]
    if sum(process.wait() != 0 for process in processes):
        sys.exit("the kernels were not compiled")
    keys = {name for path in folder.glob(NAMES.format(part="*")) for name in json.loads(path.read_text())["keys"]}
    for path in folder.glob("*/*.source"):  # The first stage is the largest, and not needed to run a kernel.
        path.unlink()
    for path in folder.iterdir():
        if path.is_dir() and path.name not in keys:
            shutil.rmtree(path)
    print(f"{len(keys)} kernels for {capability} by Triton {triton.__version__}")


def place(folder: Path, cache: Path) -> str:
    """Copy compiled kernels to the names that the installed Triton looks for, and return a sentence for the log."""
    count, own = 0, triton.runtime.cache.triton_key()
    for names in (json.loads(path.read_text()) for path in folder.glob(NAMES.format(part="*"))):
        if names["triton"] != triton.__version__:
            return f"no compiled kernels: they are of Triton {names['triton']}, and {triton.__version__} is installed"
        count += len(names["keys"])
        for name, key in names["keys"].items():
            shutil.copytree(folder / name, cache / cache_name(own + key), dirs_exist_ok=True)
    return f"{count} compiled kernels"


def main() -> None:
    """Compile or place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("compile", "place"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("cache", type=Path, nargs="?")
    parser.add_argument("--capability", type=int, default=90)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.action == "place":
        print(place(options.folder.absolute(), options.cache.absolute()))
    elif options.part >= 0:
        compile_part(options.folder, options.capability, options.part, options.jobs)
    else:
        compile_all(options.folder.absolute(), options.capability, options.jobs)


if __name__ == "__main__":
    main()
