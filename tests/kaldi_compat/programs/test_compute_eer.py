"""Tests of the numbers that ``compute-eer`` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import run_words


def write_scores(path: Path, target_count: int, low_count: int) -> None:
    """Write scores of which ``low_count`` targets are below all nontargets. The equal error rate is their share."""
    targets = [f"{-1 if i < low_count else 1} target\n" for i in range(target_count)]
    path.write_text("".join(targets) + "0 nontarget\n" * target_count)


@pytest.mark.parametrize(
    ("target_count", "low_count", "printed", "logged"),
    [(20000, 2025, "10.13", "10.125%"), (20000, 2051, "10.25", "10.255%"), (18860, 130, "0.6893", "0.689289%")],
)
def test_the_percentage_is_computed_in_double_precision(
    target_count: int, low_count: int, printed: str, logged: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The numbers are those that a C++ program prints for Kaldi's ``100.0 * eer`` of a float ``eer``."""
    write_scores(tmp_path / "scores", target_count, low_count)
    status, log = run_words(["compute-eer", f"{tmp_path}/scores"])
    assert status == 0
    assert capfd.readouterr().out == printed
    assert f"Equal error rate is {logged}" in log
