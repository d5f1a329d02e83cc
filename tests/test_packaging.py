"""Wheels say what they hold, and a C library is that of the sources beside it, or is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from io_ark.native.signatures import Signatures
from tools.generate.native import signatures

ROOT = Path(__file__).parents[1]
needs_compiler = pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler")


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KALDI_COMPAT_NATIVE", raising=False)


def build_wheel(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel from a copy of the sources, of which the build sees no earlier results."""
    for package in ("io_ark", "kaldi_compat", "tools"):
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
        assert {Path(name).suffix for name in archive.namelist() if "/_native." in name} == {".txt"}


def test_wheel_for_publication_is_not_built_without_the_libraries(tmp_path: Path) -> None:
    done = build_wheel(tmp_path, CC="/nonexistent/cc", KALDI_COMPAT_NATIVE="require")
    assert done.returncode != 0
    assert "not on PATH: /nonexistent/cc" in done.stderr
    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
@needs_compiler
def test_wheel_with_libraries_is_named_for_this_platform(tmp_path: Path) -> None:
    done = build_wheel(tmp_path, KALDI_COMPAT_NATIVE="require")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert len([name for name in archive.namelist() if "/_native." in name]) == 2


SCALE = """
#include "simd.h"

typedef struct {
    float factor;
    int64_t count;
} scaling;

EXPORT int scale(const scaling *plan, float *x)
{
    for (int64_t i = 0; i < plan->count; i++)
        x[i] *= plan->factor;
    return 0;
}
"""
PROJECT = """
[project]
name = "small"
version = "0"
[tool.setuptools]
packages = ["io_ark", "kaldi_compat"]
"""


class Checkout:
    """A copy of the project with one small C function in its second library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.native = folder / "kaldi_compat/native"
        self.library, self.reason = self.native / "_native.so", self.native / "_native.txt"
        for each in ("io_ark/native", "kaldi_compat/native", "tools/generate", ".git"):
            (folder / each).mkdir(parents=True)
        for name in ("setup.py", "tools/generate/native.py", "io_ark/native/simd.h", "io_ark/native/simd_levels.c"):
            shutil.copy(ROOT / name, folder / name)
        (folder / "pyproject.toml").write_text(PROJECT)
        self.write(SCALE)

    def write(self, source: str) -> None:
        """Write the C function, and the signatures of both libraries."""
        (self.native / "scale.c").write_text(source)
        for package in ("io_ark", "kaldi_compat"):
            folder = self.folder / package / "native"
            (folder / "signatures.txt").write_text(signatures(folder))

    def build(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Build the libraries as an editable installation does."""
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        inherited = {name: value for name, value in os.environ.items() if name != "KALDI_COMPAT_NATIVE"}
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env=inherited | environment)

    def build_well(self, **environment: str) -> int:
        """Build the libraries, and return when the second one was written."""
        done = self.build(**environment)
        assert done.returncode == 0, done.stderr
        return self.library.stat().st_mtime_ns


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


TYPO = SCALE.replace("float factor", "flaot factor")


@needs_compiler
def test_compile_error_ends_the_installation_of_a_checkout_and_removes_the_old_library(checkout: Checkout) -> None:
    checkout.build_well()
    checkout.write(TYPO)
    done = checkout.build()
    assert done.returncode != 0
    assert "the C compiler failed: " in done.stderr and "unknown type name" in done.stderr and "scale.c" in done.stderr
    assert not checkout.library.exists()
    assert "the C compiler failed: " in Signatures(str(checkout.native)).library().reason


@pytest.mark.costly
@needs_compiler
def test_library_that_did_not_compile_is_left_out_elsewhere_and_its_absence_says_so(checkout: Checkout) -> None:
    checkout.build_well()
    (checkout.folder / ".git").rmdir()
    checkout.write(TYPO)
    assert checkout.build(KALDI_COMPAT_NATIVE="require").returncode != 0
    done = checkout.build()
    assert done.returncode == 0 and "kaldi_compat.native._native is left out" in done.stderr
    found = Signatures(str(checkout.native)).library()
    assert not found
    assert found.reason.startswith(
        f"{checkout.library} was not built: the C compiler failed: kaldi_compat/native/scale.c"
    )
    assert "unknown type name" in found.reason and "\n" not in found.reason
    checkout.write(SCALE)
    checkout.build_well()
    assert not checkout.reason.exists()


def test_missing_compiler_is_no_error_in_a_checkout_and_no_compile_error(checkout: Checkout) -> None:
    checkout.library.write_text("of other sources")
    assert checkout.build(CC="/nonexistent/cc").returncode == 0
    why = "was not built: there was no C compiler (not on PATH: /nonexistent/cc)"
    assert Signatures(str(checkout.native)).library().reason == f"{checkout.library} {why}"


@pytest.mark.costly
@needs_compiler
def test_library_is_compiled_again_only_if_what_it_is_made_from_has_changed(checkout: Checkout) -> None:
    written = [checkout.build_well()]
    (checkout.native / "module.py").write_text("changed = True")
    assert checkout.build_well() == written[0]
    (checkout.native / "header.h").write_text("#define CHANGED")
    written.append(checkout.build_well())
    written.append(checkout.build_well(CFLAGS="-g"))
    checkout.write(SCALE.replace("*=", "+="))
    written.append(checkout.build_well())
    assert len(set(written)) == 4


WIDER = SCALE.replace("int64_t count;", "int64_t count;\n    double offset;")


@needs_compiler
@pytest.mark.parametrize(
    "changed", [WIDER, SCALE.replace("float factor", "double factor"), SCALE.replace("float *x", "float *x, int y")]
)
def test_library_of_another_structure_or_signature_is_refused_in_one_line(
    changed: str, checkout: Checkout, caplog: pytest.LogCaptureFixture
) -> None:
    checkout.build_well()
    assert Signatures(str(checkout.native)).library()
    checkout.write(changed)
    assert not Signatures(str(checkout.native)).library()
    (message,) = caplog.messages
    assert (
        "was built from the C files of another version" in message
        and "install again" in message
        and "\n" not in message
    )


@needs_compiler
def test_installation_makes_the_signatures_those_of_the_library(checkout: Checkout) -> None:
    stale = (checkout.native / "signatures.txt").read_text()
    (checkout.native / "scale.c").write_text(WIDER)
    for _ in "compiled", "up to date":
        (checkout.native / "signatures.txt").write_text(stale)
        checkout.build_well()
        assert Signatures(str(checkout.native)).library()
