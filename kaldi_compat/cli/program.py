"""Declare, start and end a program.

A program is a module with a class of options (if it has any) and one function::

    class Options(BaseOptions):
        scale: float = option(1.0, "factor on the features")

    @program("scale-feats", "Usage: scale-feats [options] <feats-rspecifier> <feats-wspecifier>", Options)
    def main(options: Options, source: str, target: str) -> int:
        counts = convert(lambda block: block.with_rows(features(block) * options.scale), "matrix", source, target)
        logger.info("Scaled %d features.", counts.done)
        return counts.status

The function's parameters after ``options`` are the program's arguments: one with a default may be missing, ``*names``
takes any number (``at_least`` arguments in all). Parameters whose names end with ``target`` are outputs. If the last
parameter's name does, the last argument is an output. Options that start with ``write_`` are outputs as well. A table
that is an input, or another output, is refused as an output.

The function returns the exit status. An exception ends the program with status 255 and one line; ``ArkError`` and
``KaldiCompatError`` are for mistakes that the user can correct. ``[project.scripts]`` of pyproject.toml names ``main``;
``main(["--scale=2", "ark:a", "ark:b"])`` runs it in this process.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from io_ark.errors import ArkError
from io_ark.extras import ANY_ENCODING, not_installed
from io_ark.streams.pipes import WITHHELD
from io_ark.tables.overwriting import refuse_conflicts
from kaldi_compat.cli.command_line import CommandLine, StandardOptions, parse, shell_line, usage, version
from kaldi_compat.cli.in_process import commands_in_process
from kaldi_compat.cli.log import log_error, logging_as_kaldi, say
from kaldi_compat.cli.memory import SETTINGS
from kaldi_compat.errors import INTERRUPTED_STATUS, KaldiCompatError, OptionError
from kaldi_compat.options.base import BaseOptions, option
from kaldi_compat.options.config import UsageError, spell_as_flags

USAGE_STATUS = 1
ERROR_STATUS = 255
BROKEN_PIPE_STATUS = 141  # Shells report it for a program ended by SIGPIPE.

WITHHELD.update(SETTINGS)


class NoOptions(BaseOptions):
    """Options of a program without options."""


class FileOptions(BaseOptions):
    """Option of a program that may write a single file."""

    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")


class InternalError(KaldiCompatError):
    """A bug, reported in one line."""


class Program:
    """A command-line program: called with its arguments (by default this process's), it returns the exit status."""

    def __init__(self, name: str, text: str, options: type[Any], run: Callable[..., int], at_least: int) -> None:
        self.name = name
        self.text = text
        self.options = options
        self.run = run
        parameters = list(inspect.signature(run).parameters.values())[1:]
        required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
        self.at_least = max(at_least, len(required))
        self.at_most = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)
        self.names = [parameter.name for parameter in parameters]

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run with these arguments and return the exit status. Without arguments, run as this process and end it."""
        if argv is None:
            open_closed_streams()
            return end_of_process(self(sys.argv[1:]))
        try:
            line = parse(argv, self.options, StandardOptions)
        except KaldiCompatError as error:
            with logging_as_kaldi(self.name, verbose=0):
                if isinstance(error, UsageError):
                    say(self.usage())
                    say(f"Command line was: {shell_line([self.name, *argv])}")
                log_error(error)
            return ERROR_STATUS
        if line.standard.help:
            say(self.usage())
            return 0
        if line.standard.version:
            print(version(self.name), flush=True)
            return 0
        if line.standard.print_args:
            say(f"{shell_line([self.name, *argv])} ")
        if not self.at_least <= len(line.arguments) <= self.at_most:
            status = self.end_with_usage()
            say(f"{self.name}: {self.wrong_number(len(line.arguments))}")
            return status
        with logging_as_kaldi(self.name, line.standard.verbose), commands_in_process():
            return self._run_guarded(line)

    def _refuse_conflicts(self, line: CommandLine[StandardOptions]) -> None:
        """Refuse outputs that would destroy an input or another output: see :func:`refuse_conflicts`."""
        values = [(name, value) for name, value in line.values.items() if isinstance(value, str)]
        before = (self.names[:-1] + [""] * len(line.arguments))[: max(0, len(line.arguments) - 1)]
        values += zip([*before, *self.names[-1:]], line.arguments, strict=True)
        inputs: list[str] = []
        outputs: list[str] = []
        for name, value in values:
            (outputs if name.startswith("write_") or name.endswith("target") else inputs).append(value)
        refuse_conflicts(outputs, inputs)

    def usage(self) -> str:
        """Return the text of ``--help``."""
        return usage(self.text, self.options)

    def end_with_usage(self) -> int:
        """Print the usage, and return the status of wrong arguments."""
        say(self.usage())
        return USAGE_STATUS

    def wrong_number(self, count: int) -> str:
        """Return the message for a wrong number of arguments."""
        if self.at_least == self.at_most:
            expected = str(self.at_least)
        elif self.at_most == sys.maxsize:
            expected = f"at least {self.at_least}"
        else:
            expected = f"{self.at_least} to {self.at_most}"
        return f"expected {expected} argument{'s' * (expected != '1')}, not {count}"

    def _run_guarded(self, line: CommandLine[StandardOptions]) -> int:
        """Run the function and return its status, or the status that an exception stands for."""
        try:
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # See kaldi_compat/programs/__init__.py.
                with contextlib.suppress(ValueError):  # in a thread of a user's process that is not the main thread
                    signal.signal(signal.SIGINT, signal.default_int_handler)
            with wave_files_as_in_kaldi():
                options = self.options(**line.values)
                self._refuse_conflicts(line)
                status = self.run(options, *line.arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
            return status
        except KeyboardInterrupt:
            return INTERRUPTED_STATUS
        except Exception as error:
            if _is_broken_pipe(error):
                _discard_standard_output()
                return BROKEN_PIPE_STATUS
            if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
                error = KaldiCompatError(f"out of memory: {error}").with_traceback(error.__traceback__)
            if isinstance(error, ModuleNotFoundError):
                error = KaldiCompatError(not_installed(error.name or "a package")).with_traceback(error.__traceback__)
            if not isinstance(error, (ArkError, KaldiCompatError, OSError)):
                internal = InternalError(f"internal error, please report it: {type(error).__name__}: {error}")
                error = internal.with_traceback(error.__traceback__)
            if isinstance(error, OptionError):
                spelled = OptionError(spell_as_flags(str(error), self.options))
                error = spelled.with_traceback(error.__traceback__)
            log_error(error)
            return ERROR_STATUS


def program(
    name: str, text: str, options: type[Any] = NoOptions, *, at_least: int = 0
) -> Callable[[Callable[..., int]], Program]:
    """Make a function a program (see the module's docstring)."""
    return lambda run: Program(name, text, options, run, at_least)


@contextmanager
def wave_files_as_in_kaldi() -> Iterator[None]:
    """Read 16-bit linear wave files only, as Kaldi, within this context; or any if KALDI_COMPAT_WAV is "any".

    Raises:
        OptionError: KALDI_COMPAT_WAV has another value than "any" and "kaldi".
    """
    value = os.environ.get("KALDI_COMPAT_WAV") or "kaldi"
    if value not in ("any", "kaldi"):
        raise OptionError(
            f"the environment variable KALDI_COMPAT_WAV is {value!r}: set it to 'any', for wave files of any encoding, "
            "or to 'kaldi' (default), for the 16-bit linear ones that Kaldi reads"
        )
    before = ANY_ENCODING.set(value == "any")
    try:
        yield
    finally:
        ANY_ENCODING.reset(before)


def open_closed_streams() -> None:
    """Open closed standard streams (``2>&-``) on /dev/null, so that no output file gets their descriptors."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  open as long as the process


def printing(run: Callable[[], int]) -> int:
    """Run a command of ``kaldi-compat`` that prints; return its status, or an error's if printing fails."""
    why = "it is closed"
    try:
        if sys.stdout is not None:
            status = run()
            sys.stdout.flush()
            return status
    except OSError as error:
        _discard_standard_output()
        if _is_broken_pipe(error):  # such as | head
            return BROKEN_PIPE_STATUS
        why = str(error.strerror)  # such as a full disk
    print(f"kaldi-compat: standard output cannot be written to: {why}", file=sys.stderr)
    return ERROR_STATUS


def end_of_process(status: int) -> int:
    """End this process with this status, without unloading its modules, which takes as long as half of their import.

    After ^C and with a broken pipe, it dies of the signal, as Kaldi's programs do: if a program only ends with the
    status 130, a shell goes on with the next command of its script.

    Under a debugger or a profiler, which have something to do at the end, return the status.
    """
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return status
    # All output is closed and checked by now.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if status in (INTERRUPTED_STATUS, BROKEN_PIPE_STATUS) and os.name == "posix":
        signal.signal(status - 128, signal.SIG_DFL)
        os.kill(os.getpid(), status - 128)
    os._exit(status)


def _is_broken_pipe(error: BaseException | None) -> bool:
    """Return True if the reader of our output has closed it, as ``| head`` does."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return True
        error = error.__cause__
    return False


def _discard_standard_output() -> None:
    # Drop what is still buffered, or the interpreter complains about it at exit.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
