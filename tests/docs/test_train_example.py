"""The training example of the documentation runs and learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "train_example.py"


def test_example_learns_to_distinguish_vowels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specification = importlib.util.spec_from_file_location("train_example", EXAMPLE)
    assert specification is not None and specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    assert example.main(tmp_path) > 0.85
    assert "epoch 2" in capsys.readouterr().out
