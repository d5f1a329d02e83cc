"""Build kaldi_features.wasm and kaldi_features.simd.wasm of ../kaldi_features.h.

usage: pip install ziglang && python build.py

Both files are kept in the repository, so that the documentation and the npm package need no compiler. build.json
records the compiler and the digests of the header and both files. The same compiler writes the same bytes everywhere.
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
COMMON = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c99", "-O3", "-DNDEBUG", "-DKF_NO_PRESETS",
          "-Wl,--strip-all", "-Wl,--export=__heap_base"]  # fmt: skip
# The JavaScript has the presets, so that a new preset leaves the compiled files as they are.
PRESETS = re.compile(rb"(?<=/\* presets: begin \*/\n).*?(?=\s*/\* presets: end \*/)", re.DOTALL)
LEFT_OUT = {"kf_from_preset", "kf_preset_name"}


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of a compiled file, or of the C header with Unix line ends and without its presets."""
    data = path.read_bytes()
    if path.suffix != ".wasm":
        data = PRESETS.sub(b"", data.replace(b"\r\n", b"\n"))
    return hashlib.sha256(data).hexdigest()


def build_files(folder: Path = FOLDER) -> None:
    """Compile both files of :data:`FLAGS`, and write ``build.json`` with the compiler's version and the digests."""
    declared = re.findall(r"^KF_API [\w *]*?\b(kf_\w+)\(", HEADER.read_text(encoding="utf-8"), re.M)
    functions = sorted(set(declared) - LEFT_OUT)
    zig = [sys.executable, "-m", "ziglang"]
    for name, flags in FLAGS.items():
        command = [*zig, "cc", *COMMON, *flags, *(f"-Wl,--export={function}" for function in functions)]
        subprocess.run([*command, str(FOLDER.parent / "kaldi_features.c"), "-o", str(folder / name)], check=True)
        (folder / name).chmod(0o644)
    version = subprocess.run([*zig, "version"], check=True, capture_output=True, text=True).stdout.strip()
    record = {"compiler": f"ziglang {version}", "kaldi_features.h": compute_digest(HEADER)}
    record |= {name: compute_digest(folder / name) for name in FLAGS}
    (folder / "build.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    build_files()
