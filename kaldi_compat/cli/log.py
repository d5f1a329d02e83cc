"""Log to standard error in Kaldi's format, so that recipes can search the logs.

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
from io_ark.streams.pipes import STANDARD_STREAMS
from io_ark.text import escape_controls, shorten

LOGGERS = tuple(logging.getLogger(name) for name in ("kaldi_compat", "io_ark"))
logger = logging.getLogger("kaldi_compat.programs")
MAX_VERBOSE = 9
_command: ContextVar[str] = ContextVar("program that runs as a command in this process", default="")


def log_verbose(level: int, message: str, *values: object) -> None:
    """Log a message that is shown if ``--verbose`` is at least ``level`` (Kaldi: KALDI_VLOG)."""
    logger.log(logging.INFO - level, message, *values, stacklevel=2)


def log_error(error: BaseException) -> None:
    """Log an error with the file and the line of the code that raised it."""
    path, line, function = _find_origin(error.__traceback__)
    message = " ".join(str(error).splitlines()) or type(error).__name__
    record = logger.makeRecord(logger.name, logging.ERROR, path, line, message, args=(), exc_info=None, func=function)
    logger.handle(record)


def _find_origin(traceback: TracebackType | None) -> tuple[str, int, str]:
    """Return the file, the line number and the function that raised the exception of a traceback.

    If ``traceback`` is None, because the exception was not raised, return this file, line 0 and the function "main".
    """
    if traceback is None:
        return __file__, 0, "main"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return code.co_filename, traceback.tb_lineno, code.co_name


def format_number(value: float) -> str:
    """Format a number with six significant digits as C++ streams do, including the sign of NaN."""
    return "-nan" if value != value and math.copysign(1, value) < 0 else f"{value:g}"


def write_to_stderr(text: str) -> None:
    """Write a line to standard error. Ignore errors, because a closed or broken stream must not stop the program."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class StandardErrorHandler(logging.Handler):
    """Writes records to standard error as Kaldi does (src/base/kaldi-error.cc), with control characters escaped.

    ``program`` is the program's name, which each record shows. Commands that run within this process log without
    verbose messages, as they do in a separate process.
    """

    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or drop a verbose record of a command that runs within this process."""
        command = _command.get()
        if command and record.levelno < logging.INFO:
            return
        if record.levelno < logging.INFO:
            severity = f"VLOG[{logging.INFO - record.levelno}]"
        elif record.levelno < logging.WARNING:
            severity = "LOG"
        else:
            severity = "WARNING" if record.levelno < logging.ERROR else "ERROR"
        origin = f"{command or self.program}[{__version__}]:{record.funcName}():{record.filename}:{record.lineno}"
        write_to_stderr(f"{severity} ({origin}) {escape_controls(shorten(record.getMessage()))}")


def make_command_handler() -> logging.Handler:
    """Make a handler that writes the logs of commands within this process. A program has its own handler."""
    handler = StandardErrorHandler("")
    handler.addFilter(lambda record: bool(_command.get()))
    return handler


@contextmanager
def log_as_kaldi(program: str, verbose: int) -> Iterator[None]:
    """Within this context, write the packages' logs and Python's warnings to standard error in Kaldi's format.

    ``program`` is the name in the logs, and ``verbose`` the value of ``--verbose``.
    """
    if STANDARD_STREAMS.get() is not None:  # The program that runs this command writes the logs.
        token = _command.set(program)
        try:
            yield
        finally:
            _command.reset(token)
        return
    handler = StandardErrorHandler(program)
    level = logging.INFO - max(0, min(verbose, MAX_VERBOSE))  # As in Kaldi, levels below 0 show LOG lines.
    old_settings = [(package_logger.level, package_logger.propagate) for package_logger in LOGGERS]
    for package_logger in LOGGERS:
        package_logger.addHandler(handler)
        package_logger.setLevel(level)
        package_logger.propagate = False
    try:
        with warnings.catch_warnings():
            # Hide NumPy's warnings about infinities and NaN, about which Kaldi does not warn.
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)
            warnings.showwarning = _log_warning
            yield
    finally:
        for package_logger, (old_level, propagate) in zip(LOGGERS, old_settings, strict=True):
            package_logger.removeHandler(handler)
            package_logger.setLevel(old_level)
            package_logger.propagate = propagate


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a Python warning, as a replacement for :func:`warnings.showwarning`."""
    module = os.path.splitext(os.path.basename(filename))[0]  # The function is unknown, so the log shows the module.
    record = logger.makeRecord(
        logger.name, logging.WARNING, filename, lineno, str(message), args=(), exc_info=None, func=module
    )
    logger.handle(record)
