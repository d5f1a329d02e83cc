"""Commands that Kaldi file names run: started in a shell, as in Kaldi (src/util/kaldi-io.cc), unless they are switched off."""

from __future__ import annotations

import os
import signal

from io_ark.errors import PipeError, PipesRefusedError
from io_ark.streams.files import reason_of, retry_when_out_of_descriptors

NO_PIPES_VARIABLE = "IO_ARK_NO_PIPES"


def refuse_pipes(command: str, pipes: bool) -> None:
    if not pipes or os.environ.get(NO_PIPES_VARIABLE, "") not in ("", "0"):
        why = f"the environment has {NO_PIPES_VARIABLE} set" if pipes else "pipes are switched off here"
        raise PipesRefusedError(f"the command {command.strip()!r} is not run: {why}")


def spawn(command: str, target: int, name: str) -> tuple[int, int]:
    """Start a shell with one end of a pipe as its standard input (0) or output (1).

    Returns:
        The process id, and the other end.
    """
    try:
        ends = retry_when_out_of_descriptors(os.pipe)
    except OSError as error:
        raise PipeError(f"cannot be started: {error.strerror}", file=name) from error
    ours, inherited = ends[1 - target], ends[target]
    try:
        # Python ignores SIGPIPE, and children would inherit that: `yes | head` in a script file would never end.
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
    """What an exit status of a command means, in words."""
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
