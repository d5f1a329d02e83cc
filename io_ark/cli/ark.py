"""The command line of ``ark``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import io_ark
from io_ark.cli.check import check_table, compare_keys
from io_ark.cli.entries import Entry, entries, find, table_of
from io_ark.cli.statistics import Statistics, statistics
from io_ark.codecs.array_info import ArrayInfo
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.errors import ArkError, FormatError, MissingKeyError, SpecifierError

SECONDS_BETWEEN_LINES = 5.0
MAX_PROBLEMS = 100
EDGE = 3  # rows and columns shown at each side of a large matrix

EXAMPLES = """
A table is an archive, a script file (*.scp), or what Kaldi's programs take: scp,p:feats.scp, "ark:gunzip -c a.gz |".

  ark ls feats.scp             what each entry is: key, kind, shape, how it is stored, where
  ark show feats.scp utt1      one object, readably; also: ark show feats.ark:1234
  ark check feats.scp feats.ark
                               read every entry; say what is wrong and where; exit status 1 if anything is
  ark stat feats.scp           how many, how long, and mean, deviation and extremes of each column
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ark`` with these arguments (default: the process's own) and return the exit status."""
    chosen = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # keys are bytes, and come out as they are
    try:
        status = int(chosen.run(chosen))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # what a shell reports of a program that SIGPIPE ended
    except KeyboardInterrupt:
        return 130
    except (ArkError, OSError) as error:
        print(f"ark: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ark",
        description="Looks into Kaldi's archives and script files.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--no-pipes", action="store_true", help="run no command that a specifier or script file names")
    commands = parser.add_subparsers(dest="command", required=True, metavar="ls | show | check | stat")
    ls = commands.add_parser("ls", help="list what tables hold; numbers stay unread where a header tells the shape")
    ls.add_argument("tables", nargs="+", metavar="TABLE")
    ls.set_defaults(run=_ls)
    show = commands.add_parser("show", help="show one object")
    show.add_argument(
        "where", metavar="TABLE_OR_OBJECT", help="a table with KEY, or a file, file:offset, a range of one"
    )
    show.add_argument("key", nargs="?", metavar="KEY")
    show.add_argument("--all", action="store_true", help="every row and column, however many")
    show.set_defaults(run=_show)
    check = commands.add_parser("check", help="read everything and say what is wrong")
    check.add_argument("tables", nargs="+", metavar="TABLE", help="several are of one set: their keys must agree")
    check.set_defaults(run=_check)
    stat = commands.add_parser("stat", help="statistics of the numbers")
    stat.add_argument("tables", nargs="+", metavar="TABLE")
    stat.set_defaults(run=_stat)
    return parser


def kind_of(value: Any) -> str:
    """What an object, or that of which it is the outline, is: in a word or two."""
    if isinstance(value, Wave | WaveInfo):
        return f"audio {value.sample_frequency:g} Hz"
    if isinstance(value, np.ndarray | ArrayInfo):
        name = {0: "scalar", 1: "vector", 2: "matrix"}.get(value.ndim, "array")
        return f"int {name}" if value.dtype.kind in "iu" else name
    return {"str": "token", "list": "list"}.get(type(value).__name__, type(value).__name__)


def counted(count: int, one: str, more: str = "") -> str:
    """So many of something: ``1 entry``, ``2 entries``."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def _size(entry: Entry) -> str:
    return " x ".join(map(str, entry.shape)) or "-"


def _ls(chosen: argparse.Namespace) -> int:
    status = 0
    for name in chosen.tables:
        count = 0
        for entry in entries(table_of(name), pipes=not chosen.no_pipes, outlines=True):
            count += 1
            if entry.error is not None:
                status = 1
                print(f"{entry.key}\tunreadable\t{entry.error}")
            else:
                print(f"{entry.key}\t{kind_of(entry.value)}\t{_size(entry)}\t{entry.stored}\t{entry.where}")
        print(f"{name}: {counted(count, 'entry', 'entries')}", file=sys.stderr)
    return status


def _show(chosen: argparse.Namespace) -> int:
    pipes = not chosen.no_pipes
    if chosen.key is None:
        if chosen.where.endswith(".scp") or io_ark.is_table_rspecifier(chosen.where):
            raise SpecifierError("is a table: say which key, as in `ark show TABLE KEY`", file=chosen.where)
        try:
            value = io_ark.load(chosen.where, pipes=pipes)
        except FormatError as error:
            error.message += "; of a table, `ark show TABLE KEY` shows an entry"
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
        with np.printoptions(threshold=limit, edgeitems=EDGE, precision=6, suppress=True, linewidth=120):
            print(shown)
    else:
        print(shown)
    return 0


def _description(value: Any) -> str:
    return f"{kind_of(value)} {_size(Entry('', '', '', value))}".removesuffix(" -")


def _check(chosen: argparse.Namespace) -> int:
    all_found = []
    for name in chosen.tables:
        watch = partial(progress, label=name)
        all_found.append(check_table(table_of(name), pipes=not chosen.no_pipes, watch=watch))
    for before, after in pairwise(all_found):
        after.problems.extend(compare_keys(before, after))
    for found in all_found:
        for problem in found.problems[:MAX_PROBLEMS]:
            print(problem)
        if len(found.problems) > MAX_PROBLEMS:
            print(f"... and {len(found.problems) - MAX_PROBLEMS} more problems of {found.name}")
        verdict = counted(len(found.problems), "problem") if found.problems else "no problem found"
        print(f"{found.name}: {counted(found.count, 'entry', 'entries')} read, {verdict}")
    return int(any(found.problems for found in all_found))


def progress(items: Iterable[Entry], label: str) -> Iterator[Entry]:
    """The same items; how many have gone by is shown on standard error: tqdm's bar on a terminal, else now and then."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            pass
        else:
            yield from tqdm(items, desc=label, unit=" entries", delay=1.0, leave=False)
            return
    said = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if time.monotonic() - said >= SECONDS_BETWEEN_LINES:
            said = time.monotonic()
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
            f"  length: {lengths.sum()} in all, {lengths.min()} to {lengths.max()}, mean {lengths.mean():.1f}, "
            f"median {np.median(lengths):.1f}"
        )
    for columns, moments in sorted(found.moments.items()):
        if len(found.moments) > 1:
            print(f"  those of {columns} columns:")
        print("  column         mean    deviation          min          max")
        for column in range(columns):
            row = moments.mean[column], moments.deviation[column], moments.low[column], moments.high[column]
            print(f"  {column:6d} " + " ".join(f"{value:12.6g}" for value in row))


if __name__ == "__main__":
    sys.exit(main())
