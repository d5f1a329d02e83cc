"""Commands of script files that run in this process: what they leave is what processes leave."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.errors import PipesRefusedError
from io_ark.streams.pipes import COMMANDS_IN_PROCESS, run_in_process, spawn
from kaldi_compat.cli.in_process import run_commands_in_process
from kaldi_compat.cli.log import log_as_kaldi
from kaldi_compat.dump import commands as dump_commands
from kaldi_compat.programs import wav_copy
from tests.support.programs import run
from tests.support.tables import wav

BIN = str(Path(sys.executable).parent)
OURS = [
    "wav-copy a.wav - ",
    "wav-copy a.wav:0 -",
    "cat 'a.wav' | wav-copy - - ",
    "wav-reverberate --shift-output=true --impulse-response=rir.wav a.wav - ",
    'cat a.wav|wav-reverberate --duration=0.2 --impulse-response="rir.wav" - -',
    'wav-copy a.wav - | wav-reverberate --additive-signals=\'wav-reverberate --duration=0.05 "a.wav" - |,cat rir.wav'
    " |' --snrs='10,5' --start-times='0,0.05' - - ",
    "wav-reverberate --print-args=false --impulse-response=silent.wav a.wav -",
    "wav-reverberate --impulse-response=none.wav a.wav -",
    "wav-reverberate none.wav - | wav-copy - -",
    "wav-reverberate --snrs=x --additive-signals=a.wav a.wav -",
    "wav-reverberate --no-such-option=1 a.wav -",
    "wav-reverberate --volume a.wav -",
    "wav-copy 'exit 3 |' -",
    "wav-copy rir.txt -",
    "head -c 2000 a.wav | tail -c +1 | wav-reverberate --impulse-response=rir.wav - - | wav-copy - -",
    "cat none.wav | wav-copy - -",
    "wav-copy a.wav - | cat | wav-copy - -",
    "yes | wav-copy - -",
    "copy-matrix --binary=false a.mat -",
    "cat a.mat | copy-feats --compress=true - -",
    "copy-vector --scale=2 none.vec -",
]
SHELLS = [
    "wav-copy a.wav b.wav",
    "wav-copy a.wav - ; true",
    "wav-copy a.wav - > b.wav",
    "wav-copy $FILE -",
    'wav-copy "$FILE" -',
    "wav-copy `echo a.wav` -",
    "wav-copy *.wav -",
    "wav-copy ~/a.wav -",
    "wav-copy a.wav - # copied",
    "wav-copy a.wav - &",
    "wav-copy a.wav -\nwav-copy a.wav -",
    r"wav-copy a\.wav -",
    "(wav-copy a.wav -)",
    "wav-copy a.wav - | head -c 100",
    "wav-copy - -",
    "wav-copy '' -",
    "wav-copy /dev/stdin -",
    "wav-reverberate --impulse-response=- a.wav -",
    "cat a.wav | wav-reverberate --impulse-response=- - -",
    "cat a.wav | wav-copy a.wav -",
    "cat a.wav | wav-reverberate --additive-signals=a.wav,- --start-times=0,0 - -",
    "nosuchprogram | wav-copy - -",
    "while wav-copy a.wav - | wav-copy - -",
    "time wav-copy a.wav - | wav-copy - -",
    "A=b wav-copy a.wav - | wav-copy - -",
    "cat a*.wav | wav-copy - -",
    "cat a.wav; cat a.wav | wav-copy - -",
    "wav-copy a.wav - | cat a.wav",
    "wav-copy scp:wav.scp ark:-",
    "wav-copy ark:a.ark -",
    "wav-copy --verbose=2 a.wav -",
    "wav-copy --help",
    "wav-copy --config=conf a.wav -",
    "wav-copy a.wav",
    "wav-copy 'a.wav -",
    "copy-feats ark:a.ark ark:-",
    "compute-fbank-feats a.wav -",
    "A=b wav-copy a.wav -",
    "exec wav-copy a.wav -",
    "./wav-copy a.wav -",
    "",
]


start = partial(spawn, target=1, name="")


@pytest.fixture(autouse=True)
def audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([BIN, os.environ["PATH"]]))
    rng = np.random.default_rng(0)
    wav("a.wav", 16000, rng.integers(-2000, 2000, (1600, 1)))
    wav("rir.wav", 16000, rng.integers(-2000, 2000, (400, 1)))
    wav("silent.wav", 16000, np.zeros((400, 1)))
    Path("rir.txt").write_text("no audio")
    io_ark.save("a.mat", np.float32(rng.integers(-9, 9, (5, 3))), kind="matrix")


def children() -> set[str]:
    """Return the numbers of this process's children, those that have ended but were not waited for included."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(path.read_text().split()) if path.exists() else set()


@pytest.mark.parametrize("command", OURS)
def test_command_leaves_what_its_process_leaves(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = children()
    with log_as_kaldi("outer", 3), run_commands_in_process():
        done = run_in_process(command, start)
    assert children() <= before  # none is left
    stderr = capfd.readouterr().err
    process = subprocess.run(["sh", "-c", command], capture_output=True)
    assert done == (process.returncode, process.stdout)
    # The processes of a pipeline write at the same time.
    assert sorted(stderr.splitlines()) == sorted(process.stderr.decode().splitlines())


@pytest.mark.parametrize("command", SHELLS)
def test_any_other_command_is_left_to_a_shell(command: str) -> None:
    with run_commands_in_process():
        assert run_in_process(command, start) is None


def test_program_of_another_installation_is_left_to_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, text in enumerate(("\x7fELF", "#!/usr/bin/python3\nfrom kaldi_compat.programs.wav_copy import main\n")):
        folder = tmp_path / f"bin{number}"
        folder.mkdir()
        (folder / "wav-copy").write_text(text)
        (folder / "wav-copy").chmod(0o755)
        monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
        with run_commands_in_process():
            assert run_in_process("wav-copy a.wav -", start) is None


def test_programs_and_the_dump_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("wav.scp").write_text(f"u {OURS[3]}|\nv {OURS[0]}| wav-reverberate --impulse-response=rir.wav - - |\n")
    expected = dict(io_ark.read("scp:wav.scp", kind="wave"))  # by processes

    def spawn(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(os, "posix_spawn", spawn)
    status, log = run(wav_copy.main, "scp:wav.scp", "ark:here.ark")
    assert status == 0 and "Copied 2 wave files" in log
    for key, value in io_ark.read("ark:here.ark", kind="wave"):
        assert np.array_equal(value.samples, expected[key].samples)
    with run_commands_in_process():
        found = dump_commands.read_from_command(f"{OURS[3]}|", io_ark.codecs.codec("wave"))
        assert np.array_equal(found.samples, expected["u"].samples)
    with pytest.raises(AssertionError, match="process"):
        io_ark.load(f"{OURS[3]}|", kind="wave")
    assert COMMANDS_IN_PROCESS == []


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_commands_that_are_refused_are_refused_here_too(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "environment":
        monkeypatch.setenv("IO_ARK_NO_PIPES", "1")
    with run_commands_in_process(), pytest.raises(PipesRefusedError):
        io_ark.load("wav-copy a.wav - |", kind="wave", pipes=how == "environment")


def test_a_failed_command_is_named_with_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    Path("wav.scp").write_text("u wav-reverberate none.wav - |\n")
    assert run(wav_copy.main, "scp:wav.scp", "ark:o.ark")[0] == 255
    status, log = run(wav_copy.main, "scp,p:wav.scp", "ark:o.ark")
    assert status == 1
    assert "ERROR (wav-reverberate[" in log and "WARNING (wav-copy[" in log and "(exit status 255)" in log
