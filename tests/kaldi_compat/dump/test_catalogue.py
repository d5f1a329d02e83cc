"""The list of programs, and the help that leads to it."""

from __future__ import annotations

import pytest

from kaldi_compat.dump.arguments import list_programs
from kaldi_compat.dump.cli import main


def test_kaldi_compat_lists_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["programs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(list_programs())
    assert "e.g. for LDA" in next(line for line in lines if line.startswith("splice-feats"))


@pytest.mark.parametrize("command", [[], ["info"], ["programs"]])
def test_help_leads_to_programs_and_ark(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("kaldi-compat dump", "kaldi-compat programs", "ark --help"))
