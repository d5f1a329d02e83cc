"""One run of mypy over everything that users write: the examples of the pages, and the code that tests hold ready."""

from __future__ import annotations

import doctest
import functools
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.test_examples import OPTIONAL, PAGES, python_blocks
from tools.generate.packages import PACKAGES

ROOT = Path(__file__).parents[2]
USER_CODE_IO_ARK = ROOT / "tests" / "typing" / "user_code_io_ark.py"
# Tests of one group run in one process, so that mypy runs once.
in_one_run = pytest.mark.xdist_group("mypy")


def examples_of_pages() -> dict[str, str]:
    """Return the examples of each page as a module, without those that raise an error or need what may be missing."""
    absent = {"kaldi_explain", "kaldi_standins"}.difference(PACKAGES)
    modules = {}
    for page in PAGES:
        examples = doctest.DocTestParser().get_examples(python_blocks(page.read_text(encoding="utf-8")))
        code = "".join(example.source for example in examples if example.exc_msg is None)
        if code and not any(word in code for word in (*absent, *(f"import {library}" for library in OPTIONAL))):
            modules[re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())] = code
    return modules


def user_code() -> str:
    """Return the code that uses kaldi_compat, and the stand-ins where they are there."""
    of_standins = ROOT / "packages" / "standins" / "tests" / "user_code_standins.py"
    paths = [ROOT / "tests" / "typing" / "user_code.py", *filter(Path.exists, [of_standins])]
    return "".join(path.read_text() for path in paths).replace("from __future__ import annotations\n", "")


def wrong_lines(code: str) -> set[int]:
    """Return the numbers of the lines that a type checker has to refuse."""
    return {number for number, line in enumerate(code.split("\n"), 1) if line.endswith("# error")}


@functools.cache
def mypy_report() -> dict[str, list[tuple[int, str]]]:
    """Return the line and the message of every error by the name of the file, "" for anything else that mypy says.

    The files lie in a folder of their own, outside of the project, whose packages are those that are installed.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for page, code in examples_of_pages().items():
            (directory / f"{page}.py").write_text("# mypy: allow-redefinition\n" + code, encoding="utf-8")
        (directory / "user_code.py").write_text(user_code())
        shutil.copy(USER_CODE_IO_ARK, directory)
        cache = ROOT / ".mypy_cache"  # of `make types`, which has looked at torch; a copy, since paths differ
        if cache.is_dir():
            shutil.copytree(cache, directory / "cache")
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
        command += ["--cache-dir=cache", *(path.name for path in sorted(directory.glob("*.py")))]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    report: dict[str, list[tuple[int, str]]] = {}
    for line in (done.stdout + done.stderr).splitlines():
        error = re.match(r"(\w+\.py):(\d+): error: (.*)", line)
        place, number, message = error.groups() if error else ("", "0", line)
        if error or " note: " not in line:
            report.setdefault(place, []).append((int(number), message))
    return report
