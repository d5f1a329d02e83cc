"""The list of programs and the completion of their command lines."""

from __future__ import annotations

import os
import subprocess

import pytest

from kaldi_compat.dump.catalogue import completion, programs
from kaldi_compat.dump.cli import main


def test_kaldi_compat_lists_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["programs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(programs())
    assert "e.g. for LDA" in next(line for line in lines if line.startswith("splice-feats"))


@pytest.mark.parametrize("command", [[], ["info"], ["programs"], ["completion"]])
def test_help_leads_to_programs_ark_and_completion(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("kaldi-compat dump", "kaldi-compat programs", "ark --help", "completion"))


@pytest.mark.parametrize("arguments", [["completion"], ["completion", "tcsh"]])
def test_unknown_shell_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "kaldi-compat completion bash | zsh | fish" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("compute-fbank-feats --num-m", ["--num-mel-bins="]),
        ("compute-fbank-feats --window-type=h", ["hamming", "hanning"]),
        ("kaldi-compat dump mfcc_", ["mfcc_pitch"]),
        ("kaldi-compat dump --resu", ["--resume"]),
        ("kaldi-compat in", ["info"]),
    ],
)
def test_bash_completes_kaldis_flags_and_their_values(line: str, offered: list[str]) -> None:
    complete = 'COMP_LINE="$LINE" COMP_POINT=${#LINE}; _kaldi_compat "${LINE%% *}" 2>/dev/null'
    code = f'source <(cat); {complete}; echo "${{COMPREPLY[@]}}"'
    result = subprocess.run(
        ["bash", "-c", code],
        input=completion(["completion", "bash"]),
        capture_output=True,
        text=True,
        env={**os.environ, "LINE": line},
        check=True,
    )
    assert result.stdout.split() == offered
