"""Command line of the program ``ark``, which inspects, compares and converts Kaldi tables."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import io_ark
from io_ark.cli.terminal import page_output
from io_ark.errors import ArkError
from io_ark.streams.system import buffer_standard_output
from io_ark.text import parse_integer

EXAMPLES = """
TABLE is an archive, a script file (*.scp), or an rspecifier: scp,p:feats.scp, "ark:gunzip -c a.gz |".

  ark ls feats.scp             list key, kind, shape, storage and location of each entry
  ark head -n 3 feats.scp      list the first entries
  ark grep '^anna' feats.scp   list the entries whose keys match
  ark show feats.scp utt1      print one object; also: ark show feats.ark:1234
  ark stat feats.scp           number and lengths of entries; mean, deviation, minimum and maximum of each column
  ark diff a.scp b.scp         compare two tables; exit status 1 if they differ
  ark check feats.scp feats.ark
                               read every entry and report the location of damage; exit status 1 if an entry is damaged
  ark convert feats.scp feats.h5
                               to and from .npz, folder/, .h5, .parquet, .csv, .safetensors, .tar (WebDataset) and
                               .jsonl.gz (lhotse)

Every command has --help. --json prints JSON for other programs. Colors and a pager are used only on a terminal
(NO_COLOR=1 and PAGER= disable them).

Exit status: 0 for success, 1 if entries are unreadable, damaged or different, 2 for an invalid command line or a table
that cannot be opened.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ark`` with arguments (default: ``sys.argv[1:]``). Return the exit status, which ``ark --help`` explains.

    The status is 130 after ^C, and 141 if the reader of standard output has ended.
    """
    if sys.stderr is None:  # The shell has closed standard error (2>&-), and print would fail.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  It stays open until the process ends.
    if sys.stdout is None:
        print("ark: standard output is closed: redirect it to a file or /dev/null", file=sys.stderr)
        return 2
    buffer_standard_output()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # Keys may not be UTF-8.
    status = 0  # Exit status if the user leaves the pager early.
    only_prints = True
    try:
        arguments = _parse_arguments(argv)
        only_prints = arguments.command in PAGED or arguments.json
        with page_output(arguments.command in PAGED and not arguments.json):
            module, function = arguments.run.split(".")
            status = int(getattr(import_module(f"io_ark.cli.{module}"), function)(arguments))
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        _discard_output()
        return 141  # Exit status that a shell reports for a program killed by SIGPIPE.
    except KeyboardInterrupt:
        if argv is None and os.name == "posix":  # A shell script stops only if SIGINT ends this program.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 130  # Exit status that a shell reports for a program killed by SIGINT.
    except (ArkError, ModuleNotFoundError) as error:
        print(f"ark: {error}", file=sys.stderr)
    except MemoryError as error:
        print(f"ark: out of memory: {error}", file=sys.stderr)
    except OSError as error:
        # Commands with a pager, --json and --help only print, so an error without a file name is about standard output.
        name = error.filename or ("standard output" if only_prints else "")
        if name == "standard output":
            _discard_output()
        prefix = f"{name}: " if name else ""
        print(f"ark: {prefix}{error.strerror or error}", file=sys.stderr)
    return 2


def _discard_output() -> None:
    """Send buffered output to /dev/null, because Python would otherwise report the write error again on exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments. For an error, ``--help`` or ``--version``, print a message and raise SystemExit."""
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.error(f"unknown option or argument {unknown[0]!r}{_suggest_word(unknown[0], _list_options(parser))}")
    if arguments.command is None:
        parser.error(f"name a command: {', '.join(COMMANDS)}")
    return arguments


# Commands whose output goes through a pager on a terminal.
PAGED = ("ls", "head", "grep", "show", "stat", "diff", "check")


class _Parser(argparse.ArgumentParser):
    """Parser that prints an error as one line without the usage, and does not lose the text of ``--help``."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:  # argparse would ignore a write error, such as a full disk.
            print(message, end="", flush=True)
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Print an error, with a suggestion for an unknown command, and exit with status 2."""
        # argparse writes this message for a value that is not one of the choices of an argument.
        if match := re.search(r"argument (\S.*?): invalid choice: '(.*?)'", message):
            argument, value = match.groups()
            # argparse names the argument of the subcommands by its metavar, the only one with a "|" (see build_parser).
            if "|" in argument:
                message = f"unknown command {value!r}{_suggest_word(value, tuple(COMMANDS))}"
        self.exit(2, f"ark: {message}; see ark --help\n")


def _suggest_word(word: str, candidates: Sequence[str]) -> str:
    """Return the end of an error message, such as ``: did you mean ls?``, or "" if no candidate resembles ``word``."""
    matches = get_close_matches(word, candidates, 1)
    return f": did you mean {matches[0]}?" if matches else ""


def _list_options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of all long options of the program and its commands."""
    parsers = [parser, *_get_commands(parser).values()]
    names = [name for command in parsers for action in command._actions for name in action.option_strings]
    return [name for name in names if name.startswith("--")]


def _get_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a dictionary from the names of the commands to their parsers."""
    return next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def list_help_pages() -> list[tuple[str, str]]:
    """Return a title and a help text for the program and for each of its commands, for the documentation."""
    parser = build_parser()
    commands = ((f"ark {name}", command.format_help()) for name, command in _get_commands(parser).items())
    return [("ark", parser.format_help()), *commands]


def build_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    parser = _Parser(
        prog="ark",
        description="Inspect, compare and convert Kaldi archives and script files.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ark (kaldi-compat) {io_ark.__version__}")
    parser.add_argument("--no-pipes", action="store_true", help="refuse commands in specifiers and script files")
    parser.add_argument("--no-network", action="store_true", help="refuse URLs in specifiers and script files")
    commands = parser.add_subparsers(dest="command", metavar=" | ".join(COMMANDS))
    for name, (about, run, arguments) in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        command.add_argument("--json", action="store_true", help="print JSON, one object per line")
        command.add_argument("--no-pipes", action="store_true", default=argparse.SUPPRESS, help="refuse commands")
        command.add_argument("--no-network", action="store_true", default=argparse.SUPPRESS, help="refuse URLs")
        for names, settings in arguments:
            command.add_argument(*names, **settings)
        command.set_defaults(run=run)
    return parser


def _parse_count(text: str) -> int:
    """Parse an option's value as a whole number of 0 or more. Raise ArgumentTypeError for any other value."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more, not {text!r}")
    return min(parse_integer(text), sys.maxsize)  # islice raises an error for a larger number.


def _make_number_parser(expected: str, is_allowed: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a function that parses the value of an option as a number. ``expected`` describes the number in errors.

    The function refuses NaN, infinities and numbers for which ``is_allowed`` returns False.
    """

    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            number = float(text)
            if math.isfinite(number) and is_allowed(number):
                return number
        raise argparse.ArgumentTypeError(f"expected {expected}, not {text!r}")

    return parse


_POSITIVE = _make_number_parser("a positive number", lambda number: number > 0)
_NOT_NEGATIVE = _make_number_parser("a number of 0 or more", lambda number: number >= 0)
_HERTZ = _make_number_parser("a positive whole number", lambda number: number > 0 and number.is_integer())


_Argument = tuple[tuple[str, ...], dict[str, Any]]  # Names and keyword arguments of `add_argument`.


def _declare_argument(*names: str, **options: Any) -> _Argument:
    return names, options


def _declare_command(about: str, run: str, *arguments: _Argument) -> tuple[str, str, tuple[_Argument, ...]]:
    return about, run, arguments


_TABLES = _declare_argument("tables", nargs="+", metavar="TABLE")
_OBJECT = "a table, with KEY; or a file, file:offset, or a range such as file[0:9], without KEY"
_FORMATS = (
    "ark (a table), npz, npy, hdf5, parquet, csv, safetensors, tar (WebDataset) or lhotse; default: by the ending of "
    "the file name"
)
_SHIFT = "milliseconds per frame"
_TOLERANCE = "largest difference that counts as equal"
_RATE = "sampling rate of the audio, for lhotse"
# Maps commands to a description, the module and function that runs the command, and its arguments.
COMMANDS = {
    "ls": _declare_command(
        "list the entries of tables, without reading data if the headers have the shapes", "listing.ls", _TABLES
    ),
    "head": _declare_command(
        "list the first entries of tables, without reading the other entries",
        "listing.head",
        _declare_argument("-n", "--count", type=_parse_count, default=10, help="number of entries (default: 10)"),
        _TABLES,
    ),
    "grep": _declare_command(
        "list the entries whose keys match",
        "listing.grep",
        _declare_argument("-i", "--ignore-case", action="store_true", help="ignore the case of letters"),
        _declare_argument("-v", "--invert", action="store_true", help="list the entries that do not match"),
        _declare_argument("pattern", metavar="PATTERN", help="regular expression to search for in the keys"),
        _TABLES,
    ),
    "show": _declare_command(
        "print one object",
        "listing.show",
        _declare_argument("where", metavar="TABLE_OR_OBJECT", help=_OBJECT),
        _declare_argument("key", nargs="?", metavar="KEY"),
        _declare_argument("--all", action="store_true", help="print all rows and columns of large arrays"),
    ),
    "stat": _declare_command("print statistics of the numbers in tables", "statistics.stat", _TABLES),
    "diff": _declare_command(
        "compare two tables, number by number",
        "diff.diff",
        _declare_argument(
            "--tolerance", type=_NOT_NEGATIVE, default=0.0, metavar="X", help=f"{_TOLERANCE} (default: 0)"
        ),
        _declare_argument(
            "--worst", type=_parse_count, default=3, metavar="N", help="worst frames to print for each key (default: 3)"
        ),
        _declare_argument("first", metavar="A"),
        _declare_argument("second", metavar="B"),
    ),
    "check": _declare_command(
        "read all entries and report problems",
        "check.check",
        _declare_argument("tables", nargs="+", metavar="TABLE", help="tables, which must have the same keys"),
    ),
    "convert": _declare_command(
        "convert to and from NumPy, HDF5, Parquet, CSV, safetensors, WebDataset and lhotse; write a NeMo manifest",
        "convert.convert",
        _declare_argument(
            "--from", dest="source_format", default="", metavar="FORMAT", help=f"format of SOURCE: {_FORMATS}"
        ),
        _declare_argument(
            "--to",
            dest="target_format",
            default="",
            metavar="FORMAT",
            help="format of TARGET: a format of SOURCE, or nemo for a manifest (.json) of a data directory",
        ),
        _declare_argument(
            "--compress", action="store_true", help="compress matrices of an archive, as copy-feats does"
        ),
        _declare_argument(
            "--frame-shift", type=_POSITIVE, default=10.0, metavar="MS", help=f"{_SHIFT}, for lhotse (default: 10)"
        ),
        _declare_argument(
            "--sample-frequency", type=_HERTZ, default=16000, metavar="HZ", help=f"{_RATE} (default: 16000)"
        ),
        _declare_argument("source", metavar="SOURCE"),
        _declare_argument("target", metavar="TARGET"),
    ),
}

if __name__ == "__main__":
    sys.exit(main())
