"""The C files compile without a warning."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import setup as build

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which(os.environ.get("CC", "gcc"))
SOURCES = [path for package in build.PACKAGES for path in build.sources_of(package)]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("level", build.LEVELS)
# What is used uninitialized shows when a compiler optimizes, which takes half a minute.
@pytest.mark.parametrize("how", ["-fsyntax-only", pytest.param("-c", marks=pytest.mark.slow)])
def test_c_files_compile_without_warnings(how: str, level: str, tmp_path: Path) -> None:
    macros = [f"-DSIMD_LEVEL={level}", *(f"-DHAVE_{name.upper()}" for name in build.LEVELS)]
    folders = [f"-I{Path(*package.split('.'))}" for package in build.PACKAGES]
    flags = [*build.FLAGS, *build.LEVELS[level], "-Werror", *macros, *folders, how]
    for source in SOURCES:
        target = [] if how == "-fsyntax-only" else ["-o", str(tmp_path / "object")]
        done = subprocess.run([str(COMPILER), *flags, str(source), *target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
