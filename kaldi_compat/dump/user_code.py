"""Run code of the user and of libraries so that the exit status and the last line report everything that it does."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator

from io_ark.text import escape
from kaldi_compat.dump.errors import DumpError

STANDARD_STREAMS = (0, 1, 2)
CLOSED_FILES = 253  # Exit status of a supervised job whose files were closed by user code.
PR_SET_PDEATHSIG = 1  # Option of prctl() to receive a signal when the parent ends (linux/prctl.h).

_supervised: list[int] = []  # Process ID of this job if a parent process supervises it; otherwise empty.
_owner: list[tuple[int, str]] = []  # Process ID of a supervised job or of a worker, and name of the extractor.


class Interrupted(KeyboardInterrupt):
    """A signal has interrupted the job. User code may raise a plain KeyboardInterrupt itself."""


@contextlib.contextmanager
def guard_user_code(name: str) -> Iterator[None]:
    """Run user code in the ``with`` block without standard input. Restore the working directory and standard streams.

    A child process that the code has forked ends with the block. It would otherwise run the job a second time.
    ``name`` is the name of the extractor in messages.

    Raises:
        DumpError: the code has called ``sys.exit``, raised an exception that is not an :class:`Exception`, changed the
            working directory, or closed a standard stream or files of the program.
    """
    end_fork()
    process = _Process()
    sys.stdin = io.StringIO()
    changes: list[str] = []
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or _is_from_signal(error):
            raise
        action = f"raised {type(error).__name__}"
        if isinstance(error, SystemExit):
            action = f"called sys.exit({error.code!r})"
        raise DumpError(
            f"{name} has {action}: an extractor must return its outputs, or raise an exception derived from Exception"
        ) from error
    finally:
        if os.getpid() != process.pid:
            _end_child(name)
        changes += process.restore()
    if changes:
        raise DumpError(f"{name} has {' and '.join(changes)}: an extractor must undo such changes before it returns")


def register_job_process(name: str) -> None:
    """Let :func:`end_fork` end the processes that user code forks from this process. ``name`` names the extractor."""
    _owner[:] = [(os.getpid(), name)]


def end_fork() -> None:
    """End this process if user code has forked it outside of a guarded block, as in ``__del__``."""
    if _owner and os.getpid() != _owner[0][0]:
        _end_child(_owner[0][1])


def _end_child(name: str) -> None:
    """Print an error and end this process, a fork of the job, without running exit handlers or flushing buffers."""
    message = f"{name} has forked a child process that does not end by itself: end the child process with os._exit"
    with contextlib.suppress(OSError):
        os.write(STANDARD_STREAMS[2], f"kaldi-compat: {escape(message)}\n".encode(errors="backslashreplace"))
    os._exit(1)


def _is_from_signal(error: BaseException) -> bool:
    """Return True for Interrupted, and for a KeyboardInterrupt that Python's own handler of SIGINT may have raised."""
    if isinstance(error, Interrupted):
        return True
    is_blocked = hasattr(signal, "pthread_sigmask") and signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    can_handler_raise = signal.getsignal(signal.SIGINT) is signal.default_int_handler and not is_blocked
    return isinstance(error, KeyboardInterrupt) and can_handler_raise


class _Process:
    """Properties of this process that user code might change."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.folder = os.open(".", os.O_RDONLY)  # Descriptor of the working directory.
        # Copies of the open descriptors of standard streams, by the number of the original.
        self.copies = {number: os.dup(number) for number in STANDARD_STREAMS if _get_identity(number)}
        self.streams = sys.stdin, sys.stdout, sys.stderr

    def restore(self) -> list[str]:
        """Restore the working directory and standard streams. Return descriptions of the changes that are errors.

        A redirected standard stream is not an error. If user code has closed a descriptor of this object, a supervised
        process ends here, and any other process restores only ``sys.stdin``, ``sys.stdout`` and ``sys.stderr``.
        """
        if not all(map(_get_identity, (self.folder, *self.copies.values()))):
            if _supervised == [os.getpid()]:
                os._exit(CLOSED_FILES)  # The job cannot even log an error without these files.
            sys.stdin, sys.stdout, sys.stderr = self.streams
            return ["closed files of the program"]
        changes = []
        if _get_identity(self.folder) != _get_identity("."):
            changes.append(f"changed the working directory to {_describe_working_directory()}")
            os.fchdir(self.folder)
        for descriptor, copy in self.copies.items():
            if (identity := _get_identity(descriptor)) != _get_identity(copy):
                os.dup2(copy, descriptor)
                if identity is None:
                    changes.append(f"closed the standard stream {descriptor}")
            os.close(copy)
        os.close(self.folder)
        for descriptor, name, stream in zip(STANDARD_STREAMS, ("stdin", "stdout", "stderr"), self.streams, strict=True):
            if getattr(stream, "closed", False):
                stream = open(descriptor, "w" if descriptor else "r", closefd=False)  # noqa: SIM115  The stream stays open.
                changes.append(f"closed sys.{name}")
            setattr(sys, name, stream)
        return changes


def _get_identity(file: int | str) -> tuple[int, int] | None:
    """Return the device and inode of a descriptor or path. Return None for a closed descriptor or a missing file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _describe_working_directory() -> str:
    """Return the path of the working directory, or "a deleted folder" if user code has deleted it."""
    try:
        return os.getcwd()
    except OSError:
        return "a deleted folder"


def supervise_job(run: Callable[[], int], name: str, say: Callable[[str], object]) -> int:
    """Run a job in a child process, and report if the child ends before ``run`` has returned the job's exit status.

    The child itself cannot report ``os._exit``, an exit inside a C library or a fatal signal. ``name`` is the name of
    the extractor in the message, which ``say`` prints.

    Returns:
        the status of the job. This function returns only in the child: the parent exits with the status, or with 255.
    """
    reading_end, writing_end = os.pipe()
    token = os.urandom(16)  # The token tells the status from bytes that user code writes to the pipe.
    parent, child = os.getpid(), os.fork()
    if not child:
        os.close(reading_end)
        os.setpgid(0, 0)  # The terminal then sends SIGINT only to the parent, which passes it on.
        end_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        _supervised[:] = [os.getpid()]
        register_job_process(name)
        with open(os.devnull) as empty_input:
            os.dup2(empty_input.fileno(), 0)
        status = run()
        end_fork()
        with contextlib.suppress(OSError):  # User code may have closed the pipe.
            os.write(writing_end, token + bytes([status]))
        return status
    os.close(writing_end)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(child, number))
    _, wait_status = os.waitpid(child, 0)
    os.set_blocking(reading_end, False)  # A process that user code has started may still hold the other end.
    message = b""
    with contextlib.suppress(BlockingIOError):
        message = os.read(reading_end, 1 << 16)  # A pipe holds 64 KiB by default.
    if token in message:
        os._exit(message.partition(token)[2][0])  # The byte after the token is the status.
    exit_code = os.waitstatus_to_exitcode(wait_status)
    ending = f"by {get_signal_name(-exit_code)}" if exit_code < 0 else f"with status {exit_code}"
    action = "closed files of the program" if exit_code == CLOSED_FILES else f"ended the process {ending}"
    say(
        f"{name} has {action} before the job was done; complete archives are kept, and --resume creates the "
        "missing archives"
    )
    os._exit(255)


def get_signal_name(number: int) -> str:
    """Return the name of a signal, such as "SIGKILL", or text such as "signal 64" if the signal has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_with_parent() -> None:
    """Have Linux kill this process when its parent ends. Do nothing on other systems."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
