"""Run the commands in Kaldi file names in a shell, as in Kaldi (src/util/kaldi-io.cc), unless they are disabled."""

from __future__ import annotations

import os
import signal

from io_ark.errors import PipeError
from io_ark.streams.files import reason_of, retry_when_out_of_descriptors
from io_ark.streams.system import can_run_commands


def spawn(command: str, target: int, name: str) -> tuple[int, int]:
    """Start a shell with one end of a pipe as its standard input (``target`` 0) or output (1).

    Returns:
        The process id, and the descriptor of the other end.
    """
    if not can_run_commands():
        raise PipeError("cannot be started: commands need a POSIX system, such as Linux, macOS or WSL", file=name)
    try:
        ends = retry_when_out_of_descriptors(os.pipe)
    except OSError as error:
        raise PipeError(f"cannot be started: {error.strerror}", file=name) from error
    ours, inherited = ends[1 - target], ends[target]
    try:
        # Python ignores SIGPIPE, which children inherit: `yes | head` in a script file would never end.
        process = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, inherited, target)],
            setsigdef=[signal.SIGPIPE],
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise PipeError(f"cannot be started: {reason_of(error)}", file=name) from error
    finally:
        os.close(inherited)
    return process, ours


def describe_status(status: int) -> str:
    """Describe the exit status of a command in words."""
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
