"""Type checkers see the types of io_ark as a user does, and refuse what is wrong."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from io_ark.codecs import KINDS
from io_ark.codecs.kinds import Kind

USER_CODE = Path(__file__).with_name("user_code_io_ark.py")


def expected_errors() -> set[int]:
    lines = USER_CODE.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# error")}


def test_mypy_accepts_and_refuses_user_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(USER_CODE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = re.findall(rf"^.*{USER_CODE.name}:([0-9]+): error:", done.stdout, re.MULTILINE)
    assert set(map(int, lines)) == expected_errors(), done.stdout + done.stderr
    assert done.stdout.count("error:") == len(lines), "an error outside of the user's file"


def test_pyright_accepts_and_refuses_user_code() -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run([pyright, "--outputjson", str(USER_CODE)], capture_output=True, text=True, timeout=300)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.skip(f"pyright cannot run here (it downloads Node.js on its first run): {done.stderr[-200:]}")
    errors = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
    assert {found["range"]["start"]["line"] + 1 for found in errors} == expected_errors(), errors


def test_literal_kinds_are_those_of_the_registry() -> None:
    assert sorted(get_args(Kind)) == sorted(KINDS)
