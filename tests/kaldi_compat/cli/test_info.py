"""The command ``kaldi-compat info``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kaldi_compat import native


def run_info(**environment: str) -> dict[str, str]:
    done = subprocess.run(
        ["kaldi-compat", "info"], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return {line[:14].strip(): line[15:] for line in done.stdout.splitlines()}


def test_library_that_is_switched_off_is_named() -> None:
    lines = run_info(KALDI_COMPAT_NATIVE="0")
    assert lines["exact engine"] == "NumPy, more slowly: switched off by KALDI_COMPAT_NATIVE=0"
    assert "KALDI_COMPAT_NATIVE=0" in lines["archives"]


def test_engines_are_the_ones_that_compute() -> None:
    lines = run_info()
    assert lines["exact engine"].startswith("C: " if native.library() else "NumPy")
    assert lines["torch engine"].startswith(
        "PyTorch " if find_spec("torch") else "not available: torch is not installed"
    )


@pytest.mark.costly
def test_programs_that_a_shell_would_run_are_named(tmp_path: Path) -> None:
    ours = Path(sys.executable).parent
    assert run_info(PATH=f"{ours}:{os.environ['PATH']}")["programs"] == f"these programs are first on PATH, in {ours}"
    (tmp_path / "compute-mfcc-feats").write_bytes(b"\x7fELF")
    (tmp_path / "compute-mfcc-feats").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert run_info(PATH=path)["programs"] == f"other programs are first on PATH, in {tmp_path}"
