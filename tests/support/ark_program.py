"""Fixture that runs the program ``ark`` in a new folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.capture import CaptureResult

from io_ark.cli.ark import main

Ark = Callable[..., "CaptureResult[str]"]


@pytest.fixture
def ark(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ark:
    """Run a command line in a new working directory, check its exit status, and return its output (out, err)."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, status: int = 0) -> CaptureResult[str]:
        capsys.readouterr()
        assert main(shlex.split(line)) == status
        return capsys.readouterr()

    return run
