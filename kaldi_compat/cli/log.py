"""Log to standard error in Kaldi's format, so that recipes which search logs find what they expect.

``LOG (copy-feats[1.0.0]:main():copy_feats.py:40) Copied 4 feature matrices.``
"""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TextIO

from io_ark import __version__
from io_ark.errors import shorten
from io_ark.streams.pipes import STANDARD_STREAMS
from io_ark.text import printable

LOGGERS = tuple(logging.getLogger(name) for name in ("kaldi_compat", "io_ark"))
logger = logging.getLogger("kaldi_compat.programs")
MAX_VERBOSE = 9
_command: ContextVar[str] = ContextVar("program that runs as a command in this process", default="")


def vlog(level: int, message: str, *values: object) -> None:
    """Log a message that is shown from ``--verbose=level`` on."""
    logger.log(logging.INFO - level, message, *values, stacklevel=2)


def log_error(error: BaseException) -> None:
    """Log an error with the place in the code that raised it."""
    place = _raised_at(error.__traceback__)
    message = " ".join(str(error).splitlines()) or type(error).__name__
    logger.handle(logger.makeRecord(logger.name, logging.ERROR, place[0], place[1], message, (), None, func=place[2]))


def _raised_at(traceback: TracebackType | None) -> tuple[str, int, str]:
    if traceback is None:
        return __file__, 0, "main"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return code.co_filename, traceback.tb_lineno, code.co_name


def as_text(value: float) -> str:
    """Format a number as C++ does, with the sign of NaN."""
    return "-nan" if value != value and math.copysign(1, value) < 0 else f"{value:g}"


def say(text: str) -> None:
    """Write a line to standard error; one that is closed or broken does not stop the program."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class StandardErrorHandler(logging.Handler):
    """Writes records to standard error as Kaldi does (src/base/kaldi-error.cc), but with control characters as escapes.

    Commands in this process log as without ``--verbose``.
    """

    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program

    def emit(self, record: logging.LogRecord) -> None:
        command = _command.get()
        if command and record.levelno < logging.INFO:
            return
        if record.levelno < logging.INFO:
            severity = f"VLOG[{logging.INFO - record.levelno}]"
        elif record.levelno < logging.WARNING:
            severity = "LOG"
        else:
            severity = "WARNING" if record.levelno < logging.ERROR else "ERROR"
        place = f"{command or self.program}[{__version__}]:{record.funcName}():{record.filename}:{record.lineno}"
        say(f"{severity} ({place}) {printable(shorten(record.getMessage()))}")


def handler_of_commands() -> logging.Handler:
    """Return a handler for logs of commands in this process, for a process that is not a program."""
    handler = StandardErrorHandler("")
    handler.addFilter(lambda record: bool(_command.get()))
    return handler


@contextmanager
def logging_as_kaldi(program: str, verbose: int) -> Iterator[None]:
    """Send our packages' logs and Python's warnings to standard error in Kaldi's format within this context."""
    if STANDARD_STREAMS.get() is not None:  # a command in the process of a program, which sends the logs
        token = _command.set(program)
        try:
            yield
        finally:
            _command.reset(token)
        return
    handler = StandardErrorHandler(program)
    before = [(source.level, source.propagate) for source in LOGGERS]
    for source in LOGGERS:
        source.addHandler(handler)
        source.setLevel(logging.INFO - max(0, min(verbose, MAX_VERBOSE)))  # As in Kaldi, LOG lines are shown below 0.
        source.propagate = False
    try:
        with warnings.catch_warnings():
            # Kaldi computes with infinities and NaN in silence.
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)
            warnings.showwarning = _warn
            yield
    finally:
        for source, (level, propagate) in zip(LOGGERS, before, strict=True):
            source.removeHandler(handler)
            source.setLevel(level)
            source.propagate = propagate


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    where = (filename, lineno)
    module = os.path.splitext(os.path.basename(filename))[0]
    logger.handle(logger.makeRecord(logger.name, logging.WARNING, *where, str(message), (), None, module))
