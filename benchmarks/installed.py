"""Measure the size of installations on disk, and list the versions of the libraries that the benchmarks compare with.

    python benchmarks/installed.py [--record]

The size of a library includes its requirements. kaldi-compat is installed into a temporary folder.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from figures import Table, report
from measuring import make_parser

ROOT = Path(__file__).parents[1]
COMMAND = "python benchmarks/installed.py"
COMPARED = ("numpy", "torch", "kaldi-native-fbank", "torchaudio", "lhotse", "kaldiio", "kaldi_native_io", "onnxruntime")


def list_required(names: list[str]) -> set[str]:
    """Return libraries and their requirements, without extras."""
    packages: set[str] = set()
    while names:
        name = re.split(r"[^\w.-]", names.pop())[0].lower().replace("_", "-")
        try:
            more = [] if name in packages else metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # Other platforms require this package.
            continue
        packages.add(name)
        names += [requirement for requirement in more if "extra ==" not in requirement]
    return packages


def sum_megabytes(paths: list[Path]) -> float:
    """Return the size of files in MB."""
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def measure_libraries(*names: str) -> float:
    """Return the size of libraries and their requirements in MB."""
    files = [path for name in list_required(list(names)) for path in metadata.files(name) or []]
    return sum_megabytes([Path(str(path.locate())) for path in files])


def measure_package() -> float:
    """Return the size of kaldi-compat in MB, including the C libraries."""
    with tempfile.TemporaryDirectory() as sources, tempfile.TemporaryDirectory() as target:
        subprocess.run(f"git archive HEAD | tar x -C {sources}", shell=True, cwd=ROOT, check=True)
        options = ["--no-deps", "--no-build-isolation", "--quiet", "--target", target]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, sources], check=True)
        return sum_megabytes(list(Path(target).rglob("*")))


def main() -> None:
    """Measure the installations, and print the tables."""
    parser = make_parser(__doc__)
    parser.parse_args()
    package, numpy = measure_package(), measure_libraries("numpy")
    sizes = {"kaldi-compat": package, "NumPy": numpy, "both": package + numpy}
    build = metadata.version("torch").partition("+")[2]
    if build in ("", "cpu"):
        sizes["both and PyTorch's CPU build"] = package + measure_libraries("numpy", "torch")
    report("sizes", Table(COMMAND, ["installed", "MB"], [[name, f"{size:,.0f}"] for name, size in sizes.items()]))
    versions = {"Python": platform.python_version()} | {name: metadata.version(name) for name in COMPARED}
    report("versions", Table(COMMAND, ["library", "version"], [list(item) for item in versions.items()]))


if __name__ == "__main__":
    main()
