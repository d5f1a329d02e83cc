"""Run the commands of ``wav.scp`` so that they end within their time limit, and when the job ends, even by SIGKILL.

All commands of a process are in one process group, whose leader is a small shell, the guardian. The guardian reads from
a pipe that only this process holds open. When this process ends, the guardian reads the end of the pipe and kills the
whole group, including itself and the children of commands (which PR_SET_PDEATHSIG would not kill).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from io_ark.codecs import Codec
from io_ark.errors import ArkError, PipeError, hide_secrets
from io_ark.streams import Access, StreamSource
from io_ark.streams.files import describe_error, retry_when_out_of_descriptors
from io_ark.streams.pipes import describe_status, run_in_process
from io_ark.streams.system import SIGPIPE
from io_ark.text import shorten

logger = logging.getLogger(__name__)

_GUARDIAN = "trap '' HUP INT QUIT TERM; read _; kill -KILL 0"
# Time that a command with invalid output may take to exit, so that its exit status becomes a part of the error.
SECONDS_TO_EXPLAIN = 1.0
SECONDS_BETWEEN_LOOKS = 0.01
# Exit statuses that are not an error if the output is not read to the end: SIGPIPE ended the command or a part of it.
_STOPPED_READING = (-SIGPIPE, 128 + SIGPIPE)


class CommandGroup:
    """Process group of the shell commands that this process starts."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # A signal handler may interrupt a thread that holds the lock.
        self._guardian = 0  # Process ID of the guardian, and ID of the process group; 0 without a guardian.
        self._lifeline = -1  # Descriptor of the writing end of the pipe that the guardian reads.
        self._ended = False

    def spawn(self, command: str, name: str) -> tuple[int, int]:
        """Start a shell command with empty input. Return its process ID, and a descriptor for reading its output.

        If the command cannot be started, raise :class:`PipeError`. ``name`` stands for the command in the message.
        """
        with self._lock:
            if self._ended:
                raise PipeError("is not started, because the job is ending", file=name)
            try:
                if not self._guardian:
                    self._start_guardian()
                reading_end, writing_end = retry_when_out_of_descriptors(os.pipe)
            except OSError as error:
                raise PipeError(f"cannot be started: {error.strerror}", file=name) from error
            try:
                # The command must not read from the terminal, which would stop a command in this process group.
                process = _start_command(command, stdin=os.devnull, stdout=writing_end, group=self._guardian)
            except (OSError, ValueError) as error:
                os.close(reading_end)
                raise PipeError(f"cannot be started: {describe_error(error)}", file=name) from error
            finally:
                os.close(writing_end)
        return process, reading_end

    def _start_guardian(self) -> None:
        """Start the shell that kills the commands when this process ends (see the module's docstring)."""
        reading_end, self._lifeline = os.pipe()
        try:
            self._guardian = _start_command(_GUARDIAN, stdin=reading_end, stdout=os.devnull, group=0, no_stderr=True)
        finally:
            os.close(reading_end)

    def end(self) -> None:
        """Kill all commands, and refuse to start new commands."""
        with self._lock:
            self._ended = True
            guardian, self._guardian = self._guardian, 0
            if not guardian:
                return
            with contextlib.suppress(OSError):
                os.killpg(guardian, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(guardian, 0)
            os.close(self._lifeline)

    @contextlib.contextmanager
    def allow_commands(self) -> Iterator[None]:
        """Allow commands to be started in the ``with`` block, and kill the remaining commands at its end."""
        self._ended = False
        try:
            yield
        finally:
            self.end()


COMMANDS = CommandGroup()


def _start_command(command: str, *, stdin: int | str, stdout: int | str, group: int, no_stderr: bool = False) -> int:
    """Start a shell command in a process group (0 for a new group), and return its process ID.

    ``stdin`` and ``stdout`` are descriptors or names of files. With ``no_stderr``, standard error is discarded.
    """
    actions: list[Any] = []
    for descriptor, target in ((0, stdin), (1, stdout), *(((2, os.devnull),) if no_stderr else ())):
        if isinstance(target, int):
            actions.append((os.POSIX_SPAWN_DUP2, target, descriptor))
        else:
            actions.append((os.POSIX_SPAWN_OPEN, descriptor, target, os.O_RDWR, 0))
    # Python ignores SIGPIPE and a thread may have blocked signals. Commands should inherit neither.
    return os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", command],
        os.environ,
        file_actions=actions,
        setpgroup=group,
        setsigdef=[signal.SIGPIPE],
        setsigmask=[],
    )


def read_from_command(rxfilename: str, codec: Codec[Any], *, pipes: bool = True, timeout: float = 0.0) -> Any:
    """Read an object from the output of the command ``rxfilename``, which ends with ``|``, and return the object.

    ``timeout`` is the time limit in seconds, or 0 for no limit. With ``pipes=False``, all commands are refused. If the
    command fails or exceeds the limit after the object is complete, only a warning is logged.

    Raises:
        PipeError: commands are refused, the command cannot be started, it exceeded the limit before the object was
            complete, or it failed and its output is invalid.
        ArkError: the output is invalid, although the command did not fail.
    """
    command = rxfilename.rstrip().removesuffix("|")
    Access(pipes).check_command(command)
    name = f"{shorten(command)}|"
    deadline = time.monotonic() + timeout if timeout else None
    raw: Any
    wait: Callable[[float | None], int | None]
    start = partial(COMMANDS.spawn, name=name)
    # With a time limit, the command needs its own process, which can be killed.
    if not timeout and (result := run_in_process(command, start)) is not None:
        completed_status, output = result
        raw, wait = BytesIO(output), lambda _: completed_status
        stream = raw
    else:
        process, descriptor = start(command)
        raw, wait = open(descriptor, "rb", buffering=0), partial(_wait_for_command, process)  # noqa: SIM115  It is closed below.
        stream = _TimedOutput(raw, deadline, timeout, name)
    with raw:
        try:
            value = codec.read(StreamSource(stream, name))
        except BaseException as error:
            raw.close()
            is_late = isinstance(error, _TooLateError)
            status = wait(time.monotonic() + (0.0 if is_late else SECONDS_TO_EXPLAIN))
            if is_late or not isinstance(error, ArkError) or status in (None, 0, *_STOPPED_READING):
                raise
            message = f"the command {describe_status(status)} ({error.message})"
            raise PipeError(message, file=error.file) from error
    status = wait(deadline)
    # The object is complete, so an unexpected end of the command only causes a warning.
    if status not in (0, *_STOPPED_READING):
        description = "was killed after the time limit" if status is None else describe_status(status)
        logger.warning("the command %r %s", hide_secrets(shorten(command.strip())), description)
    return value


class _TooLateError(PipeError):
    """A command took longer than its time limit."""


class _TimedOutput:
    """Output ``raw`` of a command, which can be read until ``deadline`` (``time.monotonic``; None for no limit).

    The error about the deadline contains ``timeout``, the time limit in seconds, and ``name``, the command.
    """

    def __init__(self, raw: Any, deadline: float | None, timeout: float, name: str) -> None:
        self._raw = raw
        self._deadline = deadline
        self._timeout = timeout
        self._name = name
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN)

    def readinto(self, buffer: memoryview) -> int | None:
        """Fill a buffer like ``io.RawIOBase.readinto``. Raise PipeError if nothing arrives before the deadline."""
        if self._deadline is not None:
            seconds_left = self._deadline - time.monotonic()
            if seconds_left <= 0 or not self._poll.poll(1000 * seconds_left):
                raise _TooLateError(
                    f"the command took longer than {self._timeout:g} s: check the command or --command-timeout",
                    file=self._name,
                )
        count: int | None = self._raw.readinto(buffer)
        return count


def _wait_for_command(process_id: int, deadline: float | None) -> int | None:
    """Wait for a command, and return its exit status, or the negative number of the signal that ended the command.

    At ``deadline`` (``time.monotonic``; None for no limit), kill the command and its descendants, and return None.
    """
    if deadline is None:
        return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
    while True:
        ended_process, status = os.waitpid(process_id, os.WNOHANG)
        if ended_process:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    for pid in [*_list_descendants(process_id), process_id]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os.waitpid(process_id, 0)
    return None


def _list_descendants(process_id: int) -> list[int]:
    """Return the process IDs of all descendants of a process. Without /proc, as on macOS, the list is empty."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of the program, in parentheses, may contain spaces. The state and the parent's id follow it.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
            children[parent].append(int(entry.parent.name))
    descendants = children[process_id]
    for child in descendants:  # The loop also visits the processes that it appends.
        descendants += children[child]
    return descendants
