"""Our scripts against the outputs of Kaldi's own, for 300 directories with faults: the same files and statuses.

Where Kaldi's scripts lose data without a word, ours end with an error that names file, line and key, and change
nothing.
"""

from __future__ import annotations

import functools
import json
import lzma
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from io_ark.data_dir.scripts import SCRIPTS, call_script, run_protected
from io_ark.data_dir.stage import Printer
from tests.support import data_dirs

OUTPUTS = Path(__file__).parents[3] / "reference_data" / "data_dirs" / "outputs.json.xz"
# Messages of errors where Kaldi's scripts go on and lose data, write what no program can read, or fail without a
# reason.
STRICTER = re.compile(
    "differs from line|ends with a carriage return|starts with a byte-order mark|has a fifth field"
    "|Bad line without a key|Invalid line in utt2spk file|is a source, and the target is made anew"
    "|has no duration: delete utt2dur|is blank: remove|problem getting the durations|no such file|to exist$",
    re.M,
)
PROCESS = re.compile(r"\.[0-9]+\.[0-9]+\.tmp")
# Lines of output that depend on the process or show a difference of temporary files.
UNSTABLE = re.compile(
    r"/tmp/kaldi|^[-+@ ]|^\.\.\.$|^\[Lengths|differ: (byte|char)|\.sh: line|filtered .* based on|^sort:|Lengths are"
)


@functools.cache
def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(OUTPUTS.read_bytes()).splitlines()]


def params(interval: int) -> list[Any]:
    """Return all cases, of which one in ``interval`` is not slow. These run each command a few times."""
    rounds = len(data_dirs.COMMANDS) // data_dirs.COMMANDS_OF_A_CASE
    is_slow = [(case["seed"] + case["seed"] // rounds) % interval > 0 for case in cases()]
    quick = {case["seed"] % rounds for case, slow in zip(cases(), is_slow, strict=True) if not slow}
    assert len(quick) == rounds, "a command is only in slow tests"
    marked = zip(cases(), is_slow, strict=True)
    return [pytest.param(case, marks=[pytest.mark.slow] * slow, id=str(case["seed"])) for case, slow in marked]


def test_every_script_was_compared_with_kaldis() -> None:
    words = (result["command"].split() for case in cases() for result in case["results"])
    assert {os.path.basename(path) for path, *_ in words} >= set(SCRIPTS)


def run(place: Path, command: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> tuple[int, bytes, str]:
    """Run a command as a script in this process, and return its status and outputs."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(shutil, "which", {"sox": "/usr/bin/sox"}.get)  # as where Kaldi's scripts ran; it is not called
    text, _, redirected = command.partition(" < ")
    path, *argv = text.split()
    name = os.path.basename(path)
    before = os.dup(0)
    source = (
        os.open(redirected, os.O_RDONLY)
        if redirected and os.path.exists(redirected)
        else os.open(os.devnull, os.O_RDONLY)
    )
    try:
        os.dup2(source, 0)
        say = Printer(f"utils/{path}", lambda line: os.write(1, f"{line}\n".encode("utf-8", "surrogateescape")))
        status = run_protected(say, lambda: call_script(SCRIPTS[name], say, argv))
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(source)
    out, err = capfdbinary.readouterr()
    return status, out, err.decode("utf-8", "replace")


def messages(text: str) -> list[str]:
    return [line for line in text.splitlines() if not UNSTABLE.search(line)]


@pytest.mark.parametrize("case", params(5))
def test_scripts_differ_from_kaldis(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    start = tmp_path / "start"
    _, commands = data_dirs.case(case["seed"], start)
    before = data_dirs.tree(start)
    assert commands == [result["command"] for result in case["results"]]
    for at, result in enumerate(case["results"]):
        command = result["command"]
        if "<" in command and not (start / command.split(" < ")[1]).exists():
            continue  # the shell's error
        place = tmp_path / str(at)
        shutil.copytree(start, place)
        status, out, err = run(place, command, monkeypatch, capfdbinary)
        stdout, expected = out.decode("utf-8", "replace"), result["stdout"].encode("latin-1")
        told = f"{command} with {case['faults']}: {status}, of Kaldi {result['status']}\n{stdout}\n{err}\n{result['stdout']}"
        after = data_dirs.tree(place)
        wanted = {name: None if data is None else data.encode("latin-1") for name, data in result["files"].items()}
        changes = {name: after.get(name) for name in {*before, *after} if before.get(name) != after.get(name)}
        if "resample" in command and re.search(rb"\| \| \S*sox", wanted.get("data/a/wav.scp") or b""):
            continue  # Kaldi's script takes a command for a file if there is no space before its "|"
        if "resample" in command and (script := wanted.get("data/a/wav.scp")):
            # Kaldi's script writes "cat" before an offset into an archive, which no program can read.
            wanted["data/a/wav.scp"] = re.sub(rb" cat (\S+:[0-9]+) \|", rb" wav-copy \1 - |", script)
        if status:  # of a new directory, nothing is left or a part; of an old one, not more than by Kaldi's script
            kept = {name for name in changes if not name.startswith(("data/out", "data/a/split", "data/b/split"))}
            stricter = not result["status"] and "3way" not in command
            allowed = {} if stricter and not command.startswith("data/get") else wanted
            assert all(name in allowed and changes[name] == wanted[name] for name in kept if "2dur" not in name), told
            if status != result["status"]:
                assert STRICTER.search(stdout + err), told
                continue
        else:
            assert not result["status"], told
            assert changes == wanted, told
        if command.split()[0].endswith(".pl") or "get_segments" in command:
            assert out == expected or "Usage" in told, told
        elif not status or command.startswith(("validate", "fix")):
            ours = messages(stdout)
            missing = [line for line in messages(expected.decode("utf-8", "replace")) if line not in ours]
            assert not missing or "Usage" in told, told


SMALL_CHUNKS = {"line_chunks.CHUNK_BYTES": 40}


@pytest.mark.sweep
@pytest.mark.parametrize("case", params(9))
def test_results_change_in_small_chunks(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    start = tmp_path / "start"
    _, commands = data_dirs.case(case["seed"], start)
    for at, command in enumerate(commands):
        if "<" in command and not (start / command.split(" < ")[1]).exists():
            continue
        found = []
        for name, settings in (("usual", {}), ("small", SMALL_CHUNKS)):
            place = tmp_path / f"{at}{name}"
            shutil.copytree(start, place)
            with monkeypatch.context() as changed:
                for setting, value in settings.items():
                    changed.setattr(f"io_ark.data_dir.{setting}", value)
                status, out, err = run(place, command, changed, capfdbinary)
            found.append((status, out, PROCESS.sub("", err), data_dirs.tree(place)))
        for other in found[1:]:
            assert other == found[0], f"{command} with {case['faults']}"
