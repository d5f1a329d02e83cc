"""Declare, start and end a program.

A program is a module with a class of options (if it has any) and one function::

    class Options(BaseOptions):
        scale: float = option(1.0, "factor on the features")

    @program("scale-feats", "Usage: scale-feats [options] <feats-rspecifier> <feats-wspecifier>", Options)
    def main(options: Options, source: str, target: str) -> int:
        counts = convert_table_or_file(
            lambda block: block.with_rows(stack_rows(block) * options.scale), "matrix", source, target
        )
        logger.info("Scaled %d features.", counts.done)
        return counts.status

The function's parameters after ``options`` are the program's arguments. A parameter with a default is an optional
argument. ``*names`` takes any number of arguments; ``min_arguments`` is the smallest number of all arguments. An
argument is an output if the name of its parameter ends with ``target``, and of ``*sources_and_target``, only the last
argument is. Options whose names start with ``write_`` are outputs as well. A program refuses an output table that is
also an input or another output.

The function returns the exit status. An exception ends the program with status 255 and an error of one line. Raise
``ArkError`` or ``KaldiCompatError`` for mistakes that the user can correct. ``[project.scripts]`` in pyproject.toml
names ``main``, and ``main(["--scale=2", "ark:a", "ark:b"])`` runs the program in this process.
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
from io_ark.extras import ANY_ENCODING, format_missing_package
from io_ark.streams import buffer_standard_output
from io_ark.streams.pipes import WITHHELD
from io_ark.tables.overwriting import refuse_conflicts
from kaldi_compat.cli.command_line import (
    CommandLine,
    StandardOptions,
    format_shell_line,
    format_usage,
    format_version,
    parse_command_line,
)
from kaldi_compat.cli.in_process import run_commands_in_process
from kaldi_compat.cli.log import log_as_kaldi, log_error, write_to_stderr
from kaldi_compat.cli.memory import SETTINGS
from kaldi_compat.errors import INTERRUPTED_STATUS, KaldiCompatError, OptionError
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.config import UsageError, spell_as_flags
from kaldi_compat.options.declaration import option

USAGE_STATUS = 1
ERROR_STATUS = 255
BROKEN_PIPE_STATUS = 141  # Shells report this status for a program that SIGPIPE ended.

WITHHELD.update(SETTINGS)


class NoOptions(BaseOptions):
    """Options of a program without options."""


class FileOptions(BaseOptions):
    """Option of a program that may write a single file."""

    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")


class InternalError(KaldiCompatError):
    """An unexpected exception, which is a bug of this package."""


class Program:
    """A command-line program. A call with a list of arguments runs the program and returns its exit status.

    Args:
        name: name of the program.
        text: usage that ``--help`` prints before the options.
        options: dataclass of the program's own options.
        run: function from the options and the arguments to the exit status. A parameter whose name ends in ``target``
            is an output.
        min_arguments: minimum number of arguments if it is larger than the number of required parameters of ``run``.
    """

    def __init__(self, name: str, text: str, options: type[Any], run: Callable[..., int], min_arguments: int) -> None:
        self.name = name
        self.text = text
        self.options = options
        self.run = run
        parameters = list(inspect.signature(run).parameters.values())[1:]
        required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
        self.min_arguments = max(min_arguments, len(required))
        self.max_arguments = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)
        self.names = [parameter.name for parameter in parameters]

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the program and return its exit status. Without ``argv``, use ``sys.argv`` and end the process."""
        if argv is None:
            open_closed_streams()
            return end_process(self(sys.argv[1:]))
        try:
            line = parse_command_line(argv, self.options, StandardOptions)
        except KaldiCompatError as error:
            with log_as_kaldi(self.name, verbose=0):
                if isinstance(error, UsageError):
                    write_to_stderr(self.format_usage())
                    write_to_stderr(f"Command line was: {format_shell_line([self.name, *argv])}")
                log_error(error)
            return ERROR_STATUS
        if line.standard.help:
            write_to_stderr(self.format_usage())
            return 0
        if line.standard.version:
            # print returns None, so the status is 0.
            return run_printing_command(lambda: print(format_version(self.name)) or 0, self.name)
        if line.standard.print_args:
            write_to_stderr(f"{format_shell_line([self.name, *argv])} ")
        if not self.min_arguments <= len(line.arguments) <= self.max_arguments:
            status = self.report_usage_error()
            write_to_stderr(f"{self.name}: {self.describe_wrong_count(len(line.arguments))}")
            return status
        with log_as_kaldi(self.name, line.standard.verbose), run_commands_in_process():
            return self._run_and_report_errors(line)

    def _refuse_conflicts(self, line: CommandLine[StandardOptions]) -> None:
        """Raise SpecifierError if an output would overwrite an input or another output (:func:`refuse_conflicts`)."""
        # The outputs are the options named write_... and the parameters named target or ..._target.
        values = [(name, value) for name, value in line.values.items() if isinstance(value, str)]
        # The last argument belongs to the last parameter. Arguments beyond the parameters have no name, and are inputs.
        leading_names = (self.names[:-1] + [""] * len(line.arguments))[: max(0, len(line.arguments) - 1)]
        values += zip([*leading_names, *self.names[-1:]], line.arguments, strict=True)
        inputs: list[str] = []
        outputs: list[str] = []
        for name, value in values:
            is_output = name.startswith("write_") or name.endswith("target")
            (outputs if is_output else inputs).append(value)
        refuse_conflicts(outputs, inputs)

    def format_usage(self) -> str:
        """Return the text of ``--help``."""
        return format_usage(self.text, self.options)

    def report_usage_error(self) -> int:
        """Print the usage, and return the exit status 1 for a wrong number of arguments."""
        write_to_stderr(self.format_usage())
        return USAGE_STATUS

    def describe_wrong_count(self, count: int) -> str:
        """Return the message for a wrong number of arguments."""
        if self.min_arguments == self.max_arguments:
            expected = str(self.min_arguments)
        elif self.max_arguments == sys.maxsize:
            expected = f"at least {self.min_arguments}"
        else:
            expected = f"{self.min_arguments} to {self.max_arguments}"
        return f"expected {expected} {'argument' if expected == '1' else 'arguments'}, not {count}"

    def _run_and_report_errors(self, line: CommandLine[StandardOptions]) -> int:
        """Call the program's function, and return the exit status. Log any exception but ^C and a broken pipe."""
        try:
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # kaldi_compat.programs has set SIG_DFL.
                with contextlib.suppress(ValueError):  # Only the main thread may set a handler.
                    signal.signal(signal.SIGINT, signal.default_int_handler)
            with read_wave_files_as_kaldi():
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
            log_error(self._explain_error(error).with_traceback(error.__traceback__))
            return ERROR_STATUS

    def _explain_error(self, error: Exception) -> Exception:
        """Return the error to log: ``error``, or an error with a message for users. Options are spelled as flags."""
        # torch's class for this error is recognized by its name, because importing torch would be slow.
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return KaldiCompatError(f"out of memory: {error}")
        if isinstance(error, ModuleNotFoundError):
            return KaldiCompatError(format_missing_package(error.name or "a package"))
        if not isinstance(error, (ArkError, KaldiCompatError, OSError)):
            return InternalError(f"internal error, please report it: {type(error).__name__}: {error}")
        return OptionError(spell_as_flags(str(error), self.options)) if isinstance(error, OptionError) else error


def program(
    name: str, text: str, options: type[Any] = NoOptions, *, min_arguments: int = 0
) -> Callable[[Callable[..., int]], Program]:
    """Return a decorator that makes a :class:`Program` from its function ``run``. The class explains the parameters."""
    return lambda run: Program(name, text, options, run, min_arguments)


@contextmanager
def read_wave_files_as_kaldi() -> Iterator[None]:
    """Within this context, read 16-bit linear wave files, as Kaldi does, or any encoding if KALDI_COMPAT_WAV is "any".

    Raise OptionError if KALDI_COMPAT_WAV has a value other than "any" and "kaldi".
    """
    value = os.environ.get("KALDI_COMPAT_WAV") or "kaldi"
    if value not in ("any", "kaldi"):
        raise OptionError(
            f"the environment variable KALDI_COMPAT_WAV is {value!r}: set it to 'any', for wave files of any encoding, "
            "or to 'kaldi' (default), for the 16-bit linear wave files that Kaldi reads"
        )
    token = ANY_ENCODING.set(value == "any")
    try:
        yield
    finally:
        ANY_ENCODING.reset(token)


def open_closed_streams() -> None:
    """Open closed standard streams (``2>&-``) on /dev/null, so that no output file gets their descriptors."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  It stays open until the process ends.


def run_printing_command(run: Callable[[], int], name: str = "kaldi-compat") -> int:
    """Call ``run``, which prints to standard output, and return its exit status.

    If printing fails, return 141 for a pipe without a reader. Otherwise, print an error for the program ``name`` to
    standard error, and return 255.
    """
    reason = "it is closed"
    try:
        if sys.stdout is not None:
            buffer_standard_output()
            status = run()
            sys.stdout.flush()
            return status
    except OSError as error:
        _discard_standard_output()
        if _is_broken_pipe(error):  # "| head" closes the pipe early.
            return BROKEN_PIPE_STATUS
        reason = str(error.strerror)  # For example, the disk is full.
    print(f"{name}: standard output cannot be written to: {reason}", file=sys.stderr)
    return ERROR_STATUS


def end_process(status: int) -> int:
    """End this process with an exit status.

    Modules are not unloaded, because unloading takes half as long as importing. After ^C or with a broken pipe, a
    signal ends the process, as with Kaldi's programs: if a program ended with status 130 instead, a shell would run
    the next command of its script. Under a debugger or a profiler, which work at exit, return the status.
    """
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return status
    # All outputs are closed by now, and their errors have been reported, so only the standard streams are left.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if status in (INTERRUPTED_STATUS, BROKEN_PIPE_STATUS) and os.name == "posix":  # The status is 128 + the signal.
        signal.signal(status - 128, signal.SIG_DFL)
        os.kill(os.getpid(), status - 128)
    os._exit(status)


def _is_broken_pipe(error: BaseException | None) -> bool:
    """Return True if an error, or one of its causes, is a write to a pipe that its reader has closed (``| head``)."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return True
        error = error.__cause__
    return False


def _discard_standard_output() -> None:
    """Redirect standard output to /dev/null, so that flushing the buffer at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
