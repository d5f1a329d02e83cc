"""The program ``ark``: look into Kaldi tables, compare, draw and convert them."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from typing import NoReturn

import numpy as np

import io_ark
from io_ark.cli import listing
from io_ark.cli.check import check_table, compare_keys
from io_ark.cli.completion import SHELLS, of_parser, script
from io_ark.cli.describe import counted, print_json, shown
from io_ark.cli.entries import allowed, entries, table_of
from io_ark.cli.statistics import Statistics, statistics
from io_ark.cli.terminal import bars, coloured, paged, progress
from io_ark.errors import ArkError

MAX_PROBLEMS = 100
HISTOGRAM_BINS = 10
COLUMNS_NAMED = 10

EXAMPLES = """
TABLE is an archive, a script file (*.scp), or an rspecifier: scp,p:feats.scp, "ark:gunzip -c a.gz |".

  ark ls feats.scp             list key, kind, shape, storage and location of each entry
  ark head -n 3 feats.scp      list the first entries
  ark grep '^anna' feats.scp   list the entries of which the key matches
  ark show feats.scp utt1      print one object; also: ark show feats.ark:1234
  ark plot feats.scp utt1      draw an object in the terminal, or with -o utt1.png into a file
  ark stat feats.scp           number and lengths of entries; mean, deviation, minimum and maximum of each column
  ark diff a.scp b.scp         compare two tables; exit status 1 if they differ
  ark check feats.scp feats.ark
                               read every entry and report damage and where it is; exit status 1 if there is any
  ark convert feats.scp feats.h5
                               to and from .npz, folder/, .h5, .parquet, .tar (WebDataset) and .jsonl.gz (lhotse)
  eval "$(ark completion bash)"
                               complete command lines; also zsh and fish

Every command has --help; --json prints JSON, for other programs. Colours and a pager are used only on a terminal
(NO_COLOR=1 and PAGER= switch them off).

Exit status: 0, 1 if entries are unreadable, damaged or different, 2 for an invalid command line or a table that cannot
be opened.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ark`` with these arguments (default: those of the process) and return the exit status."""
    options = parser()
    chosen, unknown = options.parse_known_args(argv)
    if unknown:
        options.error(f"unknown option or argument {unknown[0]!r}{_suggestion(unknown[0], _known_options(options))}")
    if chosen.command is None:
        options.error(f"a command is required: {', '.join(COMMANDS)}")
    if sys.stdout is None:
        print("ark: standard output: cannot be written to: it is closed", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # print keys with the bytes that they have
    status = 0  # of a user who leaves the pager early
    try:
        with paged(chosen.command in PAGED and not chosen.json):
            status = int(chosen.run(chosen))
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell reports a program that was ended by SIGPIPE
    except KeyboardInterrupt:
        return 130
    except (ArkError, ModuleNotFoundError) as error:
        print(f"ark: {error}", file=sys.stderr)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"ark: {place}{error.strerror or error}", file=sys.stderr)
    return 2


PAGED = ("ls", "head", "grep", "show", "stat", "diff", "check")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"argument (\S.*?): invalid choice: '(.*?)'", message)
        if choice and "|" in choice[1]:
            message = f"unknown command {choice[2]!r}{_suggestion(choice[2], tuple(COMMANDS))}"
        self.exit(2, f"ark: {message}; see ark --help\n")


def _suggestion(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f": did you mean {close[0]}?" if close else ""


def _known_options(options: argparse.ArgumentParser) -> list[str]:
    command = of_parser(options, "ark")
    return [flag.name for each in (command, *command.commands) for flag in each.flags]


def help_pages() -> list[tuple[str, str]]:
    """Return the title and help text of the program and of each of its commands, for the documentation."""
    options = parser()
    found = [("ark", options.format_help())]
    for action in options._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [(f"ark {name}", each.format_help()) for name, each in action.choices.items()]
    return found


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = _Parser(
        prog="ark",
        description="Look into Kaldi archives and script files; compare, draw and convert them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--version", action="version", version=f"ark (kaldi-compat) {io_ark.__version__}")
    options.add_argument(
        "--no-pipes", action="store_true", help="refuse to run commands in specifiers and script files"
    )
    options.add_argument("--no-network", action="store_true", help="refuse URLs in specifiers and script files")
    commands = options.add_subparsers(dest="command", metavar=" | ".join(COMMANDS))
    for name, (about, run, declare) in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        command.add_argument("--json", action="store_true", help="print JSON, one object per line")
        command.add_argument("--no-pipes", action="store_true", default=argparse.SUPPRESS, help="run no commands")
        command.add_argument("--no-network", action="store_true", default=argparse.SUPPRESS, help="refuse URLs")
        declare(command)
        command.set_defaults(run=run)
    return options


def _takes_tables(command: argparse.ArgumentParser) -> None:
    command.add_argument("tables", nargs="+", metavar="TABLE")


def _takes_head(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", "--count", type=_count, default=10, help="number of entries (default: 10)")
    _takes_tables(command)


def _takes_grep(command: argparse.ArgumentParser) -> None:
    command.add_argument("-i", "--ignore-case", action="store_true", help="ignore the case of letters")
    command.add_argument("-v", "--invert", action="store_true", help="list the entries that do not match")
    command.add_argument("pattern", metavar="PATTERN", help="regular expression, searched in the key")
    _takes_tables(command)


def _takes_show(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "where", metavar="TABLE_OR_OBJECT", help="a table and KEY; or a file, file:offset, or a range of one"
    )
    command.add_argument("key", nargs="?", metavar="KEY")
    command.add_argument("--all", action="store_true", help="print all rows and columns of large arrays")


def _takes_plot(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", metavar="FILE", default="", help="picture to write: .png, .pdf, .svg")
    command.add_argument(
        "--frame-shift", type=float, default=0.0, metavar="MS", help="milliseconds per frame, for an axis in seconds"
    )
    command.add_argument("table", metavar="TABLE")
    command.add_argument("keys", nargs="+", metavar="KEY")


def _takes_diff(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tolerance", type=float, default=0.0, metavar="X", help="differences up to this count as equal (default: 0)"
    )
    command.add_argument(
        "--worst", type=_count, default=3, metavar="N", help="frames to name for each key (default: 3)"
    )
    command.add_argument("first", metavar="A")
    command.add_argument("second", metavar="B")


def _takes_check(command: argparse.ArgumentParser) -> None:
    command.add_argument("tables", nargs="+", metavar="TABLE", help="tables of the same set: their keys must agree")


def _takes_convert(command: argparse.ArgumentParser) -> None:
    about = "ark (a table), npz, npy, hdf5, parquet, tar (WebDataset) or lhotse; default: by the ending of the name"
    command.add_argument(
        "--from", dest="source_format", default="", metavar="FORMAT", help=f"format of SOURCE: {about}"
    )
    command.add_argument("--to", dest="target_format", default="", metavar="FORMAT", help="format of TARGET, likewise")
    command.add_argument("--compress", action="store_true", help="compress matrices of an archive, as copy-feats does")
    command.add_argument(
        "--frame-shift", type=float, default=10.0, metavar="MS", help="milliseconds per frame, for lhotse (default: 10)"
    )
    command.add_argument(
        "--sample-frequency",
        type=int,
        default=16000,
        metavar="HZ",
        help="rate of the audio, for lhotse (default: 16000)",
    )
    command.add_argument("source", metavar="SOURCE")
    command.add_argument("target", metavar="TARGET")


def _takes_completion(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=tuple(SHELLS), metavar="|".join(SHELLS))


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, not {text!r}")
    return int(text)


def _plot(chosen: argparse.Namespace) -> int:
    from io_ark.cli.plot import plot

    return plot(chosen)


def _diff(chosen: argparse.Namespace) -> int:
    from io_ark.cli.diff import diff

    return diff(chosen)


def _convert(chosen: argparse.Namespace) -> int:
    from io_ark.cli.convert import convert

    return convert(chosen)


def _completion(chosen: argparse.Namespace) -> int:
    print(script(chosen.shell, [of_parser(parser(), "ark")]), end="")
    return 0


def _check(chosen: argparse.Namespace) -> int:
    all_found = []
    for name in chosen.tables:
        show_progress = partial(progress, label=name)
        all_found.append(check_table(table_of(name), allowed(chosen), progress=show_progress))
    for before, after in pairwise(all_found):
        after.problems.extend(compare_keys(before, after))
    for found in all_found:
        if chosen.json:
            print_json({"table": found.name, "entries": found.count, "problems": found.problems})
            continue
        for problem in found.problems[:MAX_PROBLEMS]:
            print(coloured(shown(problem), "red"))
        if len(found.problems) > MAX_PROBLEMS:
            print(f"... and {len(found.problems) - MAX_PROBLEMS} more problems in {found.name}")
        verdict = counted(len(found.problems), "problem") if found.problems else "no problem found"
        print(f"{found.name}: {counted(found.count, 'entry', 'entries')} read, {verdict}")
    return int(any(found.problems for found in all_found))


def _stat(chosen: argparse.Namespace) -> int:
    status = 0
    for name in chosen.tables:
        found = statistics(progress(entries(table_of(name), allowed(chosen)), name))
        if chosen.json:
            print_json({"table": name, **found.as_object(HISTOGRAM_BINS)})
        else:
            _print_statistics(name, found)
        status |= int(found.failed > 0)
    return status


def _print_statistics(name: str, found: Statistics) -> None:
    unreadable = f", {found.failed} unreadable" if found.failed else ""
    print(coloured(f"{name}: {counted(found.entries, 'entry', 'entries')}{unreadable}", "bold"))
    for stored, count in found.stored.most_common():
        print(f"  stored as {stored}: {count}")
    if found.seconds:
        print(f"  audio: {found.seconds:.2f} s ({found.seconds / 3600:.2f} h)")
    if found.lengths:
        lengths = np.array(found.lengths)
        print(
            f"  length: total {lengths.sum()}, {lengths.min()} to {lengths.max()}, mean {lengths.mean():.1f}, "
            f"median {np.median(lengths):.1f}"
        )
    for columns, moments in sorted(found.moments.items()):
        if len(found.moments) > 1:
            print(f"  entries with {columns} columns:")
        print("  column         mean    deviation          min          max")
        for column in range(columns):
            row = moments.mean[column], moments.deviation[column], moments.low[column], moments.high[column]
            print(f"  {column:6d} " + " ".join(f"{value:12.6g}" for value in row))
        for what, counts in (("NaN", moments.nan), ("infinite", moments.infinite)):
            if counts.any():
                named = _columns(np.flatnonzero(counts).tolist())
                print(coloured(f"  {what}: {counted(int(counts.sum()), 'value')} in {named}", "red"))
        if moments.constant:
            print(coloured(f"  constant: {_columns(moments.constant)}", "yellow"))
    if len(set(found.lengths)) > 1:
        length_counts, edges = np.histogram(found.lengths, HISTOGRAM_BINS)
        _print_histogram("lengths", length_counts.tolist(), edges.tolist())
    _print_histogram("values", *found.values.summary(HISTOGRAM_BINS))


def _columns(numbers: list[int]) -> str:
    more = f" and {len(numbers) - COLUMNS_NAMED} more" if len(numbers) > COLUMNS_NAMED else ""
    return f"column{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:COLUMNS_NAMED]))}{more}"


def _print_histogram(title: str, counts: list[int], edges: list[float]) -> None:
    if len(counts) < 2:
        return
    print(f"  histogram of {title}:")
    for count, low, high, bar in zip(counts, edges, edges[1:], bars(counts), strict=False):
        print(f"  {low:12.6g} to {high:12.6g} {count:10d} {coloured(bar, 'green')}")


Declare = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]
# Name -> what it does, the function that does it, and the one that declares its options.
COMMANDS: dict[str, tuple[str, Run, Declare]] = {
    "ls": ("list the entries of tables; where headers give the shape, no data is read", listing.ls, _takes_tables),
    "head": ("list the first entries of tables, reading no more", listing.head, _takes_head),
    "grep": ("list the entries of which the key matches", listing.grep, _takes_grep),
    "show": ("print one object", listing.show, _takes_show),
    "plot": ("draw objects, in the terminal or into a file", _plot, _takes_plot),
    "stat": ("statistics of the numbers, with histograms", _stat, _takes_tables),
    "diff": ("compare two tables, number by number", _diff, _takes_diff),
    "check": ("read all entries and report problems", _check, _takes_check),
    "convert": ("convert to and from NumPy, HDF5, Parquet, WebDataset and lhotse", _convert, _takes_convert),
    "completion": ("print a script that completes command lines", _completion, _takes_completion),
}


if __name__ == "__main__":
    sys.exit(main())
