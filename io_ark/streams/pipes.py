"""Run the commands of file names that end in ``|``, or start with it, in a shell (Kaldi's src/util/kaldi-io.cc)."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from io_ark.errors import PipeError
from io_ark.streams.files import describe_error, retry_when_out_of_descriptors
from io_ark.streams.system import can_run_commands

# Seconds to wait between checks of whether a command has ended after ^C.
_INTERRUPT_SECONDS = (0.001, 0.01, 0.05, 0.1)
Spawn = Callable[[str], tuple[int, int]]
"""Function that starts a shell and returns its process id and the descriptor of its output."""
COMMANDS_IN_PROCESS: list[Callable[[str, Spawn], tuple[int, bytes] | None]] = []
"""Functions that can run a command without a new process. A package that implements commands adds a function.

A function gets the command, and a :data:`Spawn` to start shells for parts of the command. It returns the exit status
and the output of the command, or None to leave the command to a shell. Commands use :data:`STANDARD_STREAMS`.
"""
STANDARD_STREAMS: ContextVar[tuple[Any, Any] | None] = ContextVar("standard input and output", default=None)
"""Standard input and output of a command that runs in this process, or None outside of such commands."""
WITHHELD: set[str] = set()
"""Environment variables that this process has set for itself and hides from commands."""


def run_in_process(command: str, spawn: Spawn) -> tuple[int, bytes] | None:
    """Run a command in this process, and return its exit status and output, or None if this is not possible.

    :data:`COMMANDS_IN_PROCESS` decides which commands can run in this process.
    """
    return next((result for run in COMMANDS_IN_PROCESS if (result := run(command, spawn)) is not None), None)


def spawn(command: str, target: int, name: str) -> tuple[int, int]:
    """Start a shell with one end of a pipe as its standard input or output.

    Args:
        command: command that the shell runs.
        target: 0 to write to the command's standard input, 1 to read its standard output.
        name: name of the command in errors.

    Returns:
        The process id, and the descriptor of the other end of the pipe.

    Raises:
        PipeError: the shell cannot be started.
    """
    if not can_run_commands():
        raise PipeError("cannot be started: commands need a POSIX system, such as Linux, macOS or WSL", file=name)
    try:
        ends = retry_when_out_of_descriptors(os.pipe)
    except OSError as error:
        raise PipeError(f"cannot be started: {error.strerror}", file=name) from error
    ours, inherited = ends[1 - target], ends[target]  # os.pipe returns the reading end first.
    try:
        # Python ignores these signals, and a child would ignore them as well. Then `yes | head` would never end.
        process = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", command],
            {name: value for name, value in os.environ.items() if name not in WITHHELD} if WITHHELD else os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, inherited, target)],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise PipeError(f"cannot be started: {describe_error(error)}", file=name) from error
    finally:
        os.close(inherited)
    return process, ours


def wait_for(process: int) -> int:
    """Wait for the command with the id ``process``. Return its exit status, or minus the number of its fatal signal.

    After ^C, the command has 0.16 seconds to end, so that the program ends at once like a Kaldi program. If the
    command is still running then, return minus the number of SIGINT.
    """
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    for seconds in _INTERRUPT_SECONDS:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(seconds)
    return -signal.SIGINT


def describe_status(status: int) -> str:
    """Describe a nonzero result of :func:`wait_for`.

    Kaldi's message shows the raw status of ``pclose``, so the exit status or the signal follows in parentheses.
    """
    if status < 0:
        return f"had nonzero return status {-status} (ended by signal {-status})"
    return f"had nonzero return status {status << 8} (exit status {status})"
