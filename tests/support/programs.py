"""Run programs in tests, and check how they fail."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr

ERROR_STATUS = 255


def run(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, str]:
    """Run a program in this process; return its exit status and what it wrote to standard error."""
    stderr = io.StringIO()
    with redirect_stderr(stderr):
        status = main(["--print-args=false", *arguments])
    return status, stderr.getvalue()


def check_refused(main: Callable[[Sequence[str]], int], *arguments: str, message: str) -> None:
    """Check that a program ends with status 255 and, in its last line, an error with this message."""
    status, stderr = run(main, *arguments)
    assert status == ERROR_STATUS, stderr
    last = stderr.splitlines()[-1]
    assert last.startswith("ERROR ("), stderr
    assert message in last


def check_failed(main: Callable[[Sequence[str]], int], *arguments: str, message: str) -> None:
    """Check that a program ends with status 255 after warnings with this message: nothing was done."""
    status, stderr = run(main, *arguments)
    assert status == ERROR_STATUS, stderr
    assert message in stderr
    assert "ERROR (" not in stderr
