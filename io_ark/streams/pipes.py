"""Run the commands in Kaldi file names in a shell, as in Kaldi (src/util/kaldi-io.cc), unless they are disabled."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from io_ark.errors import PipeError
from io_ark.streams.files import reason_of, retry_when_out_of_descriptors
from io_ark.streams.system import can_run_commands

_PATIENCE = (0.001, 0.01, 0.05, 0.1)  # seconds
Spawn = Callable[[str], tuple[int, int]]
"""Starts a shell, and returns its process id and the descriptor of its output."""
COMMANDS_IN_PROCESS: list[Callable[[str, Spawn], tuple[int, bytes] | None]] = []
"""Functions that run a command in this process: they return its exit status and output, or None to leave it to a shell.

They start shells for a part of it by the function that they are given. Whoever has commands of its own adds one. Their
standard streams are :data:`STANDARD_STREAMS`.
"""
STANDARD_STREAMS: ContextVar[tuple[Any, Any] | None] = ContextVar("standard input and output", default=None)
WITHHELD: set[str] = set()
"""Variables of the environment that this process has set for itself: commands do not get them."""


def run_in_process(command: str, spawn: Spawn) -> tuple[int, bytes] | None:
    """Return the exit status and output of a command that one of :data:`COMMANDS_IN_PROCESS` has run, else None."""
    return next((done for run in COMMANDS_IN_PROCESS if (done := run(command, spawn)) is not None), None)


def spawn(command: str, target: int, name: str) -> tuple[int, int]:
    """Start a shell with one end of a pipe as its standard input (``target`` 0) or output (1)."""
    if not can_run_commands():
        raise PipeError("cannot be started: commands need a POSIX system, such as Linux, macOS or WSL", file=name)
    try:
        ends = retry_when_out_of_descriptors(os.pipe)
    except OSError as error:
        raise PipeError(f"cannot be started: {error.strerror}", file=name) from error
    ours, inherited = ends[1 - target], ends[target]
    try:
        # Python ignores these signals, which children inherit: `yes | head` in a script file would never end.
        process = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", command],
            {name: value for name, value in os.environ.items() if name not in WITHHELD} if WITHHELD else os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, inherited, target)],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise PipeError(f"cannot be started: {reason_of(error)}", file=name) from error
    finally:
        os.close(inherited)
    return process, ours


def wait_for(process: int) -> int:
    """Wait for a command and return its exit status; negative if a signal ended it.

    While :class:`KeyboardInterrupt` is handled, a command has a moment to end, and else counts as interrupted, too: ^C
    ends a program at once, as Kaldi's.
    """
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    for seconds in _PATIENCE:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(seconds)
    return -signal.SIGINT


def describe_status(status: int) -> str:
    """Describe the exit status of a command in Kaldi's words, with the status of ``pclose``, and in plain ones."""
    if status < 0:
        return f"had nonzero return status {-status} (ended by signal {-status})"
    return f"had nonzero return status {status << 8} (exit status {status})"
