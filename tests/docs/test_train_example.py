"""The training example of the documentation runs and learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import example


def test_example_learns_to_distinguish_vowels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert example("train_example").main(tmp_path) > 0.85
    assert "epoch 2" in capsys.readouterr().out
