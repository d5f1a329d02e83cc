"""Run programs in tests, and check how they fail."""

from __future__ import annotations

import importlib
import io
import shlex
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from typing import Any

ERROR_STATUS = 255


def run(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, str]:
    """Run a program in this process, and return its exit status and its standard error."""
    stderr = io.StringIO()
    with redirect_stderr(stderr):
        status = main(["--print-args=false", *arguments])
    return status, stderr.getvalue()


def main_of(program: str) -> Callable[..., int]:
    """Return the main function of a program."""
    main: Any = importlib.import_module(f"kaldi_compat.programs.{program.replace('-', '_')}").main
    return main  # type: ignore[no-any-return]


def run_words(words: Sequence[str]) -> tuple[int, str]:
    """Run the program that a command line names (see :func:`run`)."""
    return run(main_of(words[0]), *words[1:])


def log_of(command: str) -> str:
    """Run the program that a command line names, check that it succeeds, and return its log."""
    status, log = run_words(shlex.split(command))
    assert status == 0, log
    return log


def check_refused(main: Callable[[Sequence[str]], int], *arguments: str, message: str) -> None:
    """Check that a program ends with status 255 and, in its last line, an error with this message."""
    status, stderr = run(main, *arguments)
    assert status == ERROR_STATUS, stderr
    last = stderr.splitlines()[-1]
    assert last.startswith("ERROR ("), stderr
    assert message in last
