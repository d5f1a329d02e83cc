"""``dump --speeds`` as a whole: odd names, segments to the end, and no command where none is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark import DataDir
from kaldi_compat.dump.cli import main

RATE = 8000


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("x;touch PWNED;y.wav", "$(touch PWNED).wav", "a[1]  b.wav"):
        io_ark.save(Path(name), io_ark.Wave(RATE, np.arange(RATE).astype(np.int16)[None]))
    Path("data").mkdir()
    Path("data", "wav.scp").write_text("r1 x;touch PWNED;y.wav\nr2 $(touch PWNED).wav\nr3 a[1]  b.wav\n")
    Path("data", "segments").write_text("u1 r1 0.2 -1\nu2 r2 0 0.4\nu3 r3 0.5 -1.0\n")
    Path("data", "utt2spk").write_text("u1 u1\nu2 u2\nu3 u3\n")
    return Path("data")


def dump(*options: str) -> int:
    return main(["dump", "fbank", "data", "--sample-frequency=8000", "--dither=0", "--nj=1", *options])


@pytest.mark.parametrize("folder", ["data_sp", "s p;touch PWNED"])
def test_every_utterance_is_dumped_without_commands(data: Path, folder: str) -> None:
    assert dump("--no-pipes", "--speeds=0.5,1.0", f"--speed-dir={folder}") == 0
    frames = {key: len(feats) for key, feats in DataDir(folder).feats.items()}
    assert frames == {"sp0.5-u1": 158, "sp0.5-u2": 78, "sp0.5-u3": 98, "u1": 78, "u2": 38, "u3": 48}
    assert not os.path.exists("PWNED")


@pytest.mark.parametrize("folder", ["a\nb", "a|b"])
def test_a_directory_that_no_script_file_can_name_is_not_made(
    data: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dump("--speeds=0.5", f"--speed-dir={folder}") == 255
    assert "a script file cannot name files in a directory" in capsys.readouterr().err
    assert not os.path.exists(folder)
