"""The loader of the optional C libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
import kaldi_compat.native
from io_ark.codecs.text_parse import read_rows
from io_ark.native import NATIVE, library, signatures
from io_ark.native.library import load_library
from tests.support.processes import python

# In a process of its own, since libraries are loaded once.
LOADED = "import io_ark.native as n; found = n.library(); print(bool(found), found.level, found.reason)"
COMPILER = shutil.which(os.environ.get("CC", "gcc"))


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KALDI_COMPAT_NATIVE", raising=False)


def test_library_is_switched_off_by_the_environment() -> None:
    assert python(LOADED, KALDI_COMPAT_NATIVE="0").stdout == "False  switched off by KALDI_COMPAT_NATIVE=0\n"


@pytest.mark.parametrize("package", [NATIVE, kaldi_compat.native.NATIVE])
def test_a_library_that_was_built_is_used(package: signatures.Signatures) -> None:
    """Without the library, tests that compare C with NumPy would compare nothing."""
    is_built = "was not built" not in package.library().reason
    assert package.library() or not is_built or os.environ.get("KALDI_COMPAT_NATIVE") == "0"


def test_missing_library_is_no_error(tmp_path: Path) -> None:
    found = load_library(str(tmp_path), 1)
    assert not found
    assert found.reason.endswith("_native.so was not built: the package was installed without C")


COMPUTE_WITHOUT_C = """
import logging
logging.basicConfig(format="%(message)s")
import os.path
import numpy as np
os.path.exists = lambda path: False
from kaldi_compat import numpy as features
for module in (features.Fbank(), features.Mfcc()):
    module(np.zeros(8000, np.int16))
"""


def test_a_missing_library_is_said_once_when_features_are_computed() -> None:
    said = python(COMPUTE_WITHOUT_C).stderr.splitlines()
    assert len(said) == 1
    assert said[0].endswith(
        "more slowly: install a wheel for this platform, or install a C compiler and then the package again."
    )
    assert not python(COMPUTE_WITHOUT_C, KALDI_COMPAT_NATIVE="0").stderr


def test_broken_library_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "_native.so").write_bytes(b"not a library")
    found = load_library(str(tmp_path), 1)
    assert not found
    assert "cannot be loaded" in found.reason and "cannot be loaded" in caplog.text


LEVELS = "int native_interface(void) { return 1; }\nint simd_levels(void) { return 15; }\n"


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (LEVELS.replace("1", "0"), "was built from the C files of another version"),
        (LEVELS.replace("15", "0"), "was built for other processors"),
        ("int simd_levels(void) { return 1; }\n", "cannot be loaded: "),
    ],
)
def test_library_from_other_sources_is_not_used_and_a_warning_says_so_once(
    source: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert COMPILER is not None
    (tmp_path / "old.c").write_text(source)
    library_path = str(tmp_path / "_native.so")
    subprocess.run([COMPILER, "-shared", "-fPIC", str(tmp_path / "old.c"), "-o", library_path], check=True)
    found = [load_library(str(tmp_path), 1) for _ in range(2)]
    assert not found[0] and f"{library_path} {reason}" in found[0].reason
    assert [record.message for record in caplog.records] == [
        f"{found[0].reason}. Until then, NumPy computes the same numbers more slowly."
    ]
    assert "install again (in a checkout: pip install -e .)" in found[0].reason


def test_functions_are_those_that_are_called() -> None:
    folder = Path(io_ark.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py"))
    declared = [line.split()[0] for line in (folder / "native/signatures.txt").read_text().splitlines()]
    assert [name for name in declared if name.startswith("ark_") and f'"{name}"' not in sources] == []


@pytest.mark.skipif(not library(), reason=library().reason)
def test_instruction_set_can_be_chosen() -> None:
    first = library().levels[0]
    assert python(LOADED, KALDI_COMPAT_SIMD=first).stdout.startswith(f"True {first} ")


@pytest.mark.skipif(not library(), reason=library().reason)
def test_unknown_instruction_set_is_reported_and_not_used() -> None:
    done, best = python(LOADED, KALDI_COMPAT_SIMD="mmx"), library().levels[-1]
    assert f"KALDI_COMPAT_SIMD=mmx is not available, so {best} is used: choose one of" in done.stderr
    assert "Traceback" not in done.stderr and done.stdout.startswith(f"True {best} ")


@pytest.mark.skipif(not NATIVE.in_use, reason="needs the C library")
def test_interrupt_while_arguments_are_converted_is_a_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(signatures.ctypes, "byref", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_rows(b"1 2\n", True)
    monkeypatch.undo()
    with pytest.raises(signatures.ctypes.ArgumentError, match="contiguous"):
        NATIVE.get_function("ark_list_ends")(np.zeros((4, 4), np.int32)[:, 0], 4, 4, 1, np.zeros(4, np.int64))
