"""The checks of the workflows, on this machine: ``nox`` runs those for which an interpreter is installed.

    nox -s lint docs            # ruff, mypy; the documentation site
    nox -s torchless-3.13       # tests that need no PyTorch, on one Python
    nox -s tests-3.11           # all tests
    nox -s oldest newest        # the oldest supported and the newest PyTorch and NumPy

``NOX_TORCH_INDEX=https://download.pytorch.org/whl/cpu`` installs CPU builds of PyTorch.
"""

from __future__ import annotations

import os

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "torchless"]

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"]
TESTED_WITHOUT_TORCH = ["pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100", "kaldiio>=2.18", "kaldi_native_io>=1.22",
                        "kaldi-native-fbank>=1.20"]  # fmt: skip
# Test folders that run without PyTorch; modules in them that need it are skipped.
TORCHLESS = ["tests/io_ark", "tests/kaldi_compat/exact", "tests/kaldi_compat/native", "tests/kaldi_compat/options",
             "tests/kaldi_compat/cli", "tests/kaldi_compat/programs/test_reference.py"]  # fmt: skip
# Enough to see that a version of PyTorch or NumPy works: features, functions, streams, data sets and programs.
CORE = ["tests/kaldi_compat/features", "tests/kaldi_compat/functional", "tests/kaldi_compat/streaming",
        "tests/kaldi_compat/data", "tests/kaldi_compat/options", "tests/io_ark"]  # fmt: skip


def _torch(session: nox.Session, requirement: str) -> None:
    index = os.environ.get("NOX_TORCH_INDEX")
    session.install(requirement, *(["--index-url", index] if index else []))


def _pytest(session: nox.Session, *where: str) -> None:
    jobs = os.environ.get("NOX_JOBS", "auto")
    session.run("python", "-m", "pytest", "-n", jobs, "--dist", "loadgroup", *(session.posargs or where))


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Run ruff and mypy with the pinned versions."""
    session.install("--constraint", "constraints.txt", "ruff", "mypy", "numpy", "torch")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session(python="3.11")
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    _torch(session, "torch")
    session.install("--editable", ".[docs]")
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session(python=PYTHONS)
def torchless(session: nox.Session) -> None:
    """Run the tests that need NumPy only."""
    session.install(*TESTED_WITHOUT_TORCH)
    session.install("--editable", ".")
    _pytest(session, *TORCHLESS)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests."""
    _torch(session, "torch")
    session.install("--editable", ".[test-all]")
    _pytest(session)


@nox.session(python="3.10")
def oldest(session: nox.Session) -> None:
    """Run the core tests with the oldest supported PyTorch and NumPy."""
    _torch(session, "torch==2.4.1")
    session.install("numpy==2.0.0", *TESTED_WITHOUT_TORCH)
    session.install("--editable", ".")
    _pytest(session, *CORE)


@nox.session(python="3.11")
def newest(session: nox.Session) -> None:
    """Run the core tests with the newest PyTorch and NumPy, pre-releases included."""
    _torch(session, "torch")
    session.install("--pre", "--upgrade", "numpy", *TESTED_WITHOUT_TORCH)
    session.install("--editable", ".")
    _pytest(session, *CORE)
