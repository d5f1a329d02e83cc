"""The loader of the optional C libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import io_ark
from io_ark.native import library
from io_ark.native.library import load

LOADED = "import io_ark.native as n; found = n.library(); print(bool(found), found.level, found.reason)"
COMPILER = shutil.which(os.environ.get("CC", "gcc"))


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KALDI_COMPAT_NATIVE", raising=False)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, since libraries are loaded once."""
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_switched_off() -> None:
    assert run(LOADED, KALDI_COMPAT_NATIVE="0").stdout == "False  switched off by KALDI_COMPAT_NATIVE=0\n"


def test_missing_library_is_no_error(tmp_path: Path) -> None:
    found = load(str(tmp_path))
    assert not found
    assert "was not built" in found.reason


def test_broken_library_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "_native.so").write_bytes(b"not a library")
    found = load(str(tmp_path))
    assert not found
    assert "cannot be loaded" in found.reason


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_library_of_another_version_is_refused(tmp_path: Path) -> None:
    assert COMPILER is not None
    source = tmp_path / "old.c"
    source.write_text("int native_interface(void) { return 0; }\nint simd_levels(void) { return 1; }\n")
    subprocess.run([COMPILER, "-shared", "-fPIC", str(source), "-o", str(tmp_path / "_native.so")], check=True)
    found = load(str(tmp_path))
    assert not found
    assert "of another version (interface 0" in found.reason


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_library_for_other_processors_is_refused(tmp_path: Path) -> None:
    assert COMPILER is not None
    source = tmp_path / "other.c"
    source.write_text("int native_interface(void) { return 1; }\nint simd_levels(void) { return 0; }\n")
    subprocess.run([COMPILER, "-shared", "-fPIC", str(source), "-o", str(tmp_path / "_native.so")], check=True)
    found = load(str(tmp_path))
    assert not found
    assert "was built for other processors: reinstall" in found.reason


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_library_without_a_needed_function_is_refused(tmp_path: Path) -> None:
    assert COMPILER is not None
    source = tmp_path / "old.c"
    levels = "int native_interface(void) { return 1; }\nint simd_levels(void) { return 15; }\n"
    source.write_text(levels + "void plain(void) {}\nvoid simd_plain(void) {}\nvoid simd_sse2(void) {}\n"
                      "void simd_avx2(void) {}\nvoid simd_avx512(void) {}\n")  # fmt: skip
    subprocess.run([COMPILER, "-shared", "-fPIC", str(source), "-o", str(tmp_path / "_native.so")], check=True)
    assert load(str(tmp_path), "plain", "simd")
    found = load(str(tmp_path), "plain", "simd", "newer")
    assert not found
    assert "of another version (it has no function newer): reinstall" in found.reason


def test_functions_are_those_that_are_called() -> None:
    folder = Path(io_ark.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py"))
    declared = [line.split()[0] for line in (folder / "native/signatures.txt").read_text().splitlines()]
    assert [name for name in declared if name.startswith("ark_") and f'"{name}"' not in sources] == []


@pytest.mark.skipif(not library(), reason=library().reason)
def test_instruction_set_can_be_chosen() -> None:
    first = library().levels[0]
    assert run(LOADED, KALDI_COMPAT_SIMD=first).stdout.startswith(f"True {first} ")


@pytest.mark.skipif(not library(), reason=library().reason)
def test_unknown_instruction_set_is_reported_and_not_used() -> None:
    done, best = run(LOADED, KALDI_COMPAT_SIMD="mmx"), library().levels[-1]
    assert f"KALDI_COMPAT_SIMD=mmx is not available, so {best} is used: choose one of" in done.stderr
    assert "Traceback" not in done.stderr and done.stdout.startswith(f"True {best} ")
