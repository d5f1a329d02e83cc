"""Every command of the reference set, run with our programs: compare their outputs with Kaldi's."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3] / "reference_data"
CASES: list[dict[str, Any]] = json.loads((ROOT / "cases.json").read_text())

# Log lines of Kaldi for commands that succeed, such as "LOG (copy-feats) Copied 4 feature matrices.", without version
# and place in the code. Lines of Kaldi's readers about files that they cannot open or read are not among them: ours
# name file, offset and key.
KALDI_LOGS: dict[str, list[str]] = json.loads((Path(__file__).parents[2] / "support" / "kaldi_logs.json").read_text())
PLACE = re.compile(r"\(([\w-]+)\[[^\]]*\]:\S+\)")
SHELL_SYNTAX = re.compile(r"[|;&<>$`]")
PROGRAMS = {
    script.name: script
    for script in importlib.metadata.entry_points(group="console_scripts")
    if script.value.startswith("kaldi_compat.programs")
}


class Outcome:
    """Result of a command: exit status, standard output and standard error."""

    def __init__(self, status: int, stdout: bytes, stderr: str) -> None:
        self.status, self.stdout, self.stderr = status, stdout, stderr


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the inputs that all commands run in: none of them writes there."""
    work = tmp_path_factory.mktemp("reference") / "inputs"
    shutil.copytree(ROOT / "inputs", work)
    return work


def run_in_process(command: str, capture: pytest.CaptureFixture[bytes]) -> Outcome:
    """Run a command that needs no shell in this process, which saves the imports."""
    name, *arguments = shlex.split(command)
    capture.readouterr()
    status = PROGRAMS[name].load()(arguments)
    out, err = capture.readouterr()
    return Outcome(status, out, err.decode("utf8", "replace"))


def run_in_shell(command: str, stdin: bytes) -> Outcome:
    """Run a command with pipes as a user's shell would."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        input=stdin,
        timeout=900,  # on AArch64, emulated
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
    )
    return Outcome(result.returncode, result.stdout, result.stderr.decode("utf8", "replace"))


def needs_shell(command: str) -> bool:
    """Return True if a command line needs a shell, or has a specifier that runs a command."""
    words = shlex.split(command)
    return bool(SHELL_SYNTAX.search(re.sub(r"'[^']*'", "", command))) or any("|" in word for word in words)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['group']}-{case['id']}")
def test_command_leaves_what_kaldis_left(
    case: dict[str, Any],
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    if "pipe.scp" in case["cmd"] and not shutil.which("sox"):
        pytest.skip("the script file of this command pipes audio through sox, which is not installed")
    monkeypatch.chdir(inputs)
    command = case["cmd"].replace("{out}", str(tmp_path))
    outcome = (
        run_in_shell(command, case.get("stdin", "").encode("latin1"))
        if needs_shell(command)
        else run_in_process(command, capfdbinary)
    )
    assert "Traceback (most recent call last)" not in outcome.stderr
    if "deviates" in case:
        if case["deviates"] == "fail":
            assert outcome.status != 0
            assert outcome.stderr.strip(), "data would be lost, and nothing says so"
        return
    assert (outcome.status == 0) == (case["exit"] == 0), outcome.stderr
    if case["warnings"] or case["errors"]:
        assert outcome.stderr.strip(), "Kaldi warns here"
    check_log(case, outcome, str(tmp_path))
    if "options" in case:
        check_options(case["options"], outcome)
    else:
        check_files(case, tmp_path, outcome)


def check_log(case: dict[str, Any], outcome: Outcome, out: str) -> None:
    """Each of Kaldi's log lines is the start of one of ours."""
    ours = [PLACE.sub(r"(\1)", line).replace(out, "{out}") for line in outcome.stderr.splitlines()]
    for line in KALDI_LOGS.get(f"{case['group']}-{case['id']}", []):
        found = next((each for each in ours if each.startswith(line)), None)
        assert found is not None, f"Kaldi logs: {line}"
        ours.remove(found)


def check_options(options: list[list[str]], outcome: Outcome) -> None:
    """Every option that Kaldi's program lists is listed, with the same type and default."""
    text = outcome.stderr + outcome.stdout.decode()
    listed = {match[1]: match[2] for match in re.finditer(r"^  --(\S+) +: .*\((.*)\)$", text, re.MULTILINE)}
    assert {name: listed.get(name) for name, _, _ in options} == {
        name: f"{kind}, default = {default}" for name, kind, default in options
    }


def check_files(case: dict[str, Any], out: Path, outcome: Outcome) -> None:
    """The same files with the same bytes."""
    if outcome.stdout:
        (out / "stdout").write_bytes(outcome.stdout)
    expected = ROOT / "expected" / case["group"] / case["id"]
    ours = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    kaldis = {name: (expected / name).read_bytes() for name in case["files"]}
    wanted = sorted(name for name, data in kaldis.items() if data)
    # Of a command that fails, only what Kaldi had finished by then is held against us.
    if case["exit"] == 0 or wanted:
        assert sorted(name for name, data in ours.items() if data) == wanted
    for name in wanted:
        data = ours[name].replace(str(out).encode(), b"{out}") if name.endswith(".scp") else ours[name]
        assert data == kaldis[name], name
