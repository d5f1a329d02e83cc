"""Wheels say what they hold, and a wheel for publication holds the C libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build_wheel(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel from a copy of the sources, of which the build sees no earlier results."""
    for package in ("io_ark", "kaldi_compat"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("_native.*", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", "dist"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **environment})


def test_wheel_built_without_a_compiler_is_named_for_any_platform(tmp_path: Path) -> None:
    done = build_wheel(tmp_path, CC="/nonexistent/cc", KALDI_COMPAT_NATIVE="1")
    assert "kaldi_compat.native._native is left out" in done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "/_native." in name]


def test_wheel_for_publication_is_not_built_without_the_libraries(tmp_path: Path) -> None:
    done = build_wheel(tmp_path, CC="/nonexistent/cc", KALDI_COMPAT_NATIVE="require")
    assert done.returncode != 0
    assert "not on PATH: /nonexistent/cc" in done.stderr
    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler")
def test_wheel_with_libraries_is_named_for_this_platform(tmp_path: Path) -> None:
    done = build_wheel(tmp_path, KALDI_COMPAT_NATIVE="require")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert len([name for name in archive.namelist() if "/_native." in name]) == 2
