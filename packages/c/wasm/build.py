"""Build kaldi_features.wasm and kaldi_features.simd.wasm from ../kaldi_features.h.

usage: pip install ziglang && python build.py

The repository contains both files, so that the documentation and the npm package need no compiler. build.json has the
version of the compiler and the digests of the header and of the files; the tests compare them. The same compiler gives
the same bytes on every machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
HEADER = FOLDER.parent / "kaldi_features.h"
FLAGS = {"kaldi_features.wasm": [], "kaldi_features.simd.wasm": ["-msimd128"]}
COMMON = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c99", "-O3", "-DNDEBUG", "-Wl,--strip-all",
          "-Wl,--export=__heap_base"]  # fmt: skip


def digest(path: Path) -> str:
    r"""Return the SHA-256 of a file. In text files, line ends are converted to ``\n`` first."""
    data = path.read_bytes()
    return hashlib.sha256(data if path.suffix == ".wasm" else data.replace(b"\r\n", b"\n")).hexdigest()


def build(folder: Path = FOLDER) -> None:
    """Compile both files and write build.json."""
    functions = sorted(set(re.findall(r"^KF_API [\w *]*?\b(kf_\w+)\(", HEADER.read_text(encoding="utf-8"), re.M)))
    zig = [sys.executable, "-m", "ziglang"]
    for name, flags in FLAGS.items():
        command = [*zig, "cc", *COMMON, *flags, *(f"-Wl,--export={function}" for function in functions)]
        subprocess.run([*command, str(FOLDER.parent / "kaldi_features.c"), "-o", str(folder / name)], check=True)
        (folder / name).chmod(0o644)
    version = subprocess.run([*zig, "version"], check=True, capture_output=True, text=True).stdout.strip()
    record = {"compiler": f"ziglang {version}", "kaldi_features.h": digest(HEADER)}
    record |= {name: digest(folder / name) for name in FLAGS}
    (folder / "build.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    build()
