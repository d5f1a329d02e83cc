"""The program ``ark``: list, show, check and summarise Kaldi tables."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

import io_ark
from io_ark.cli.check import check_table, compare_keys
from io_ark.cli.entries import Entry, entries, find, table_of
from io_ark.cli.statistics import Statistics, statistics
from io_ark.codecs.array_info import ArrayInfo
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.errors import ArkError, FormatError, MissingKeyError, SpecifierError

__all__ = ["help_pages", "main"]

PROGRESS_SECONDS = 5.0
MAX_PROBLEMS = 100
EDGE_ITEMS = 3  # rows and columns shown at each side of a large matrix

EXAMPLES = """
TABLE is an archive, a script file (*.scp), or an rspecifier: scp,p:feats.scp, "ark:gunzip -c a.gz |".

  ark ls feats.scp             list key, kind, shape, storage and location of each entry
  ark show feats.scp utt1      print one object; also: ark show feats.ark:1234
  ark check feats.scp feats.ark
                               read every entry and report damage and where it is; exit status 1 if there is any
  ark stat feats.scp           number and lengths of entries; mean, deviation, minimum and maximum of each column

Exit status: 0, 1 if entries are unreadable or damaged, 2 for an invalid command line or a table that cannot be opened.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ark`` with these arguments (default: those of the process) and return the exit status."""
    parser = _parser()
    chosen, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.error(f"unknown option or argument {unknown[0]!r}{_suggestion(unknown[0], OPTIONS)}")
    if chosen.command is None:
        parser.error(f"a command is required: {', '.join(COMMANDS)}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # print keys with the bytes that they have
    try:
        status = int(chosen.run(chosen))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell reports a program that was ended by SIGPIPE
    except KeyboardInterrupt:
        return 130
    except (ArkError, OSError) as error:
        print(f"ark: {error}", file=sys.stderr)
        return 2


COMMANDS = ("ls", "show", "check", "stat")
OPTIONS = ("--no-pipes", "--version", "--help", "--all")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        choice = re.search("invalid choice: '(.*?)'", message)
        if choice:
            message = f"unknown command {choice[1]!r}{_suggestion(choice[1], COMMANDS)}"
        self.exit(2, f"ark: {message}; see ark --help\n")


def _suggestion(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f": did you mean {close[0]}?" if close else ""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ark",
        description="List, show, check and summarise Kaldi archives and script files.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ark (kaldi-compat) {io_ark.__version__}")
    parser.add_argument("--no-pipes", action="store_true", help="refuse to run commands in specifiers and script files")
    commands = parser.add_subparsers(dest="command", metavar=" | ".join(COMMANDS))
    ls = commands.add_parser("ls", help="list the entries of tables; where headers give the shape, no data is read")
    ls.add_argument("tables", nargs="+", metavar="TABLE")
    ls.set_defaults(run=_ls)
    show = commands.add_parser("show", help="show one object")
    show.add_argument(
        "where", metavar="TABLE_OR_OBJECT", help="a table and KEY; or a file, file:offset, or a range of one"
    )
    show.add_argument("key", nargs="?", metavar="KEY")
    show.add_argument("--all", action="store_true", help="print all rows and columns of large arrays")
    show.set_defaults(run=_show)
    check = commands.add_parser("check", help="read all entries and report problems")
    check.add_argument("tables", nargs="+", metavar="TABLE", help="tables of the same set: their keys must agree")
    check.set_defaults(run=_check)
    stat = commands.add_parser("stat", help="statistics of the numbers")
    stat.add_argument("tables", nargs="+", metavar="TABLE")
    stat.set_defaults(run=_stat)
    return parser


def help_pages() -> list[tuple[str, str]]:
    """Return the title and help text of the program and of each of its commands, for the documentation."""
    parser = _parser()
    found = [("ark", parser.format_help())]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [(f"ark {name}", each.format_help()) for name, each in action.choices.items()]
    return found


def describe_kind(value: Any) -> str:
    """Describe the kind of an object, or of the object that a shape belongs to, in a word or two."""
    if isinstance(value, Wave | WaveInfo):
        return f"audio {value.sample_frequency:g} Hz"
    if isinstance(value, np.ndarray | ArrayInfo):
        name = {0: "scalar", 1: "vector", 2: "matrix"}.get(value.ndim, "array")
        return f"int {name}" if value.dtype.kind in "iu" else name
    return {"str": "token", "list": "list"}.get(type(value).__name__, type(value).__name__)


def counted(count: int, one: str, more: str = "") -> str:
    """Format a count and a noun: ``1 entry``, ``2 entries``."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def _size(entry: Entry) -> str:
    return " x ".join(map(str, entry.shape)) or "-"


def _ls(chosen: argparse.Namespace) -> int:
    status = 0
    for name in chosen.tables:
        count = 0
        for entry in entries(table_of(name), pipes=not chosen.no_pipes, info_only=True):
            count += 1  # noqa: SIM113 (used after the loop)
            if entry.single:
                print(f"-\t{describe_kind(entry.value)}\t{_size(entry)}\t{entry.stored}\t{entry.where}")
                print(f"{name}: a single object, not a table: `ark show {name}` prints it", file=sys.stderr)
                break
            if entry.error is not None:
                status = 1
                print(f"{entry.key}\tunreadable\t{entry.error}")
            else:
                print(f"{entry.key}\t{describe_kind(entry.value)}\t{_size(entry)}\t{entry.stored}\t{entry.where}")
        else:
            print(f"{name}: {counted(count, 'entry', 'entries')}", file=sys.stderr)
    return status


def _show(chosen: argparse.Namespace) -> int:
    pipes = not chosen.no_pipes
    if chosen.key is None:
        if chosen.where.endswith(".scp") or io_ark.is_table_rspecifier(chosen.where):
            raise SpecifierError("is a table: add a key, as in `ark show TABLE KEY`", file=chosen.where)
        try:
            value = io_ark.load(chosen.where, pipes=pipes)
        except FormatError as error:
            error.message += "; use `ark show TABLE KEY` for an entry of a table"
            raise
        print(f"{chosen.where}: {_description(value)}")
    else:
        entry = find(table_of(chosen.where), chosen.key, pipes=pipes)
        if entry is None:
            raise MissingKeyError("the table has no such key; `ark ls` lists them", file=chosen.where, key=chosen.key)
        if entry.error is not None:
            raise entry.error
        value = entry.value
        print(f"{chosen.key}: {_description(value)}, {entry.stored}, at {entry.where}")
    shown = value.samples if isinstance(value, Wave) else value
    if isinstance(shown, np.ndarray):
        limit = shown.size + 1 if chosen.all else 100
        with np.printoptions(threshold=limit, edgeitems=EDGE_ITEMS, precision=6, suppress=True, linewidth=120):
            print(shown)
    else:
        print(shown)
    return 0


def _description(value: Any) -> str:
    return f"{describe_kind(value)} {_size(Entry('', '', '', value))}".removesuffix(" -")


def _check(chosen: argparse.Namespace) -> int:
    all_found = []
    for name in chosen.tables:
        show_progress = partial(progress, label=name)
        all_found.append(check_table(table_of(name), pipes=not chosen.no_pipes, progress=show_progress))
    for before, after in pairwise(all_found):
        after.problems.extend(compare_keys(before, after))
    for found in all_found:
        for problem in found.problems[:MAX_PROBLEMS]:
            print(problem)
        if len(found.problems) > MAX_PROBLEMS:
            print(f"... and {len(found.problems) - MAX_PROBLEMS} more problems in {found.name}")
        verdict = counted(len(found.problems), "problem") if found.problems else "no problem found"
        print(f"{found.name}: {counted(found.count, 'entry', 'entries')} read, {verdict}")
    return int(any(found.problems for found in all_found))


def progress(items: Iterable[Entry], label: str) -> Iterator[Entry]:
    """Yield the items and show progress on standard error: a tqdm bar on a terminal, else a line every few seconds."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            pass
        else:
            yield from tqdm(items, desc=label, unit=" entries", delay=1.0, leave=False)
            return
    printed = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if time.monotonic() - printed >= PROGRESS_SECONDS:
            printed = time.monotonic()
            print(f"{label}: {count} entries ...", file=sys.stderr)


def _stat(chosen: argparse.Namespace) -> int:
    status = 0
    for name in chosen.tables:
        found = statistics(progress(entries(table_of(name), pipes=not chosen.no_pipes), name))
        _print_statistics(name, found)
        status |= int(found.failed > 0)
    return status


def _print_statistics(name: str, found: Statistics) -> None:
    unreadable = f", {found.failed} unreadable" if found.failed else ""
    print(f"{name}: {counted(found.entries, 'entry', 'entries')}{unreadable}")
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


if __name__ == "__main__":
    sys.exit(main())
