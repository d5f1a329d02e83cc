"""Type checkers see the types of io_ark as a user does, and refuse what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import get_args

import pytest

from io_ark.codecs import KINDS
from io_ark.codecs.kinds import Kind
from tests.support.type_checks import USER_CODE_IO_ARK, in_one_run, mypy_report, wrong_lines


@pytest.mark.costly
@in_one_run
def test_mypy_accepts_and_refuses_user_code() -> None:
    errors = mypy_report()[USER_CODE_IO_ARK.name]
    assert {number for number, _ in errors} == wrong_lines(USER_CODE_IO_ARK.read_text()), errors


@pytest.mark.costly
def test_pyright_accepts_and_refuses_user_code() -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run([pyright, "--outputjson", str(USER_CODE_IO_ARK)], capture_output=True, text=True, timeout=300)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.skip(f"pyright cannot run here (it downloads Node.js on its first run): {done.stderr[-200:]}")
    errors = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
    assert {found["range"]["start"]["line"] + 1 for found in errors} == wrong_lines(USER_CODE_IO_ARK.read_text()), (
        errors
    )


def test_literal_kinds_are_those_of_the_registry() -> None:
    assert sorted(get_args(Kind)) == sorted(KINDS)
