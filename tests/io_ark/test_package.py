"""The package as imported: start-up cost and public names."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys

import pytest

import io_ark


def test_import_loads_neither_torch_nor_subprocess() -> None:
    names = ("torch", "kaldi_compat", "subprocess", "tempfile")
    script = (
        "import sys, numpy; before = set(sys.modules); import io_ark; "  # NumPy itself may load some
        f"print([name for name in {names} if name in sys.modules and name not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {script}"], capture_output=True
    )
    assert done.stdout.strip() == b"[]", done


MODULES = [
    found.name
    for found in pkgutil.walk_packages(io_ark.__path__, "io_ark.")
    if not found.ispkg and not found.name.startswith("io_ark.native")
]


@pytest.mark.parametrize("name", ["io_ark", *MODULES])
def test_declared_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    declared = getattr(module, "__all__", [])
    assert len(set(declared)) == len(declared)
    assert all(hasattr(module, public) for public in declared)


@pytest.mark.parametrize(
    "name",
    ["", ".blocks", ".codecs", ".errors", ".models"]
    + [f".interop.{each}" for each in ("kaldi", "kaldi_io", "kaldi_native_io", "kaldiio")],
)
def test_public_module_declares_its_names(name: str) -> None:
    assert importlib.import_module(f"io_ark{name}").__all__


def test_dir_shows_public_names_only() -> None:
    assert sorted(dir(io_ark)) == sorted(io_ark.__all__)


def test_version_is_that_of_the_distribution() -> None:
    assert io_ark.__version__ == importlib.metadata.version("kaldi-compat")
