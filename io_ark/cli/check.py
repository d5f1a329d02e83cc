"""Check a set of tables: entries are readable and finite, keys unique, dimensions equal, script and archive agree."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from io_ark.cli.describe import count_of, print_json
from io_ark.cli.entries import Entry, allowed_access, entries, table_of
from io_ark.cli.terminal import colour_text, progress
from io_ark.errors import ArkError
from io_ark.specifier import Rspecifier, parse_rxfilename, split_range
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFiles
from io_ark.tables.keys import encode_key
from io_ark.text import escape

MAX_PROBLEMS = 100


@dataclass
class Findings:
    """Result of checking a table."""

    name: str  # the table
    count: int = 0  # number of entries, or of lines of a script file, that were checked
    problems: list[str] = field(default_factory=list)  # one line per problem, in the order found
    keys: dict[str, None] = field(default_factory=dict)  # the keys in table order
    columns: tuple[int, str] | None = None  # number of columns of the matrices, and key of the first matrix


def check(chosen: argparse.Namespace) -> int:
    """Check tables, and print what is wrong; the status is 1 if anything is."""
    all_found = []
    for name in chosen.tables:
        show_progress = partial(progress, label=name)
        all_found.append(check_table(table_of(name), allowed_access(chosen), progress=show_progress))
    for before, after in pairwise(all_found):
        after.problems.extend(compare_keys(before, after))
    for found in all_found:
        if chosen.json:
            print_json({"table": found.name, "entries": found.count, "problems": found.problems})
            continue
        for problem in found.problems[:MAX_PROBLEMS]:
            print(colour_text(escape(problem), "red"))
        if len(found.problems) > MAX_PROBLEMS:
            print(f"... and {len(found.problems) - MAX_PROBLEMS} more problems in {found.name}")
        verdict = count_of(len(found.problems), "problem") if found.problems else "no problem found"
        print(f"{found.name}: {count_of(found.count, 'entry', 'entries')} read, {verdict}")
    return int(any(found.problems for found in all_found))


def check_table(
    table: Rspecifier,
    access: Access,
    *,
    progress: Callable[[Iterable[Entry]], Iterable[Entry]] = iter,
) -> Findings:
    """Check every entry of a table."""
    found = Findings(table.rxfilename)
    files = OpenFiles(access=access.of_script())
    try:
        for entry in progress(entries(table, access)):
            found.count += 1
            found.problems.extend(_problems(entry, found))
            if table.kind == "scp" and entry.error is None:
                found.problems.extend(_key_in_archive(entry, files))
            if entry.key:
                found.keys[entry.key] = None
    except ArkError as error:
        found.problems.append(str(error))
    if not found.count and not found.problems:
        found.problems.append(f"{found.name}: is empty")
    return found


def compare_keys(first: Findings, second: Findings) -> list[str]:
    """Return the differences between the keys of two tables of the same set."""
    problems = []
    for one, other in ((first, second), (second, first)):
        missing = [key for key in one.keys if key not in other.keys]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            problems.append(f"{other.name}: the key {missing[0]}{more} of {one.name} is missing")
    if not problems and list(first.keys) != list(second.keys):
        problems.append(f"{second.name}: the keys are not in the order of {first.name}")
    return problems


def _problems(entry: Entry, found: Findings) -> Iterator[str]:
    if entry.error is not None:
        yield str(entry.error)
    if entry.key in found.keys:
        yield f"{entry.where}: {entry.key}: duplicate key"
    numbers = entry.numbers
    if numbers is None:
        return
    if numbers.dtype.kind == "f":
        bad = numbers.size - int(np.isfinite(numbers).sum())
        if bad:
            first = tuple(int(axis) for axis in np.argwhere(~np.isfinite(numbers))[0])
            yield f"{entry.where}: {entry.key}: {bad} of {numbers.size} values are not finite, first at {list(first)}"
    if numbers.ndim == 2 and numbers.dtype.kind == "f":
        if not len(numbers):
            yield f"{entry.where}: {entry.key}: a matrix without rows"
        elif found.columns is None:
            found.columns = numbers.shape[1], entry.key
        elif numbers.shape[1] != found.columns[0]:
            columns, key = found.columns
            yield f"{entry.where}: {entry.key}: {numbers.shape[1]} columns, but {key} has {columns}"


def _key_in_archive(entry: Entry, files: OpenFiles) -> Iterator[str]:
    """Check that a line ``key file:offset`` points to the byte after the same key in the archive."""
    name, _ = split_range(entry.where)
    target = parse_rxfilename(name)
    if target.kind != "file" or not target.offset:
        return
    file = files.get(target.path)
    wanted = encode_key(entry.key)
    before = max(0, target.offset - len(wanted) - 1)
    there = bytes(file.source(before).read(target.offset - before))
    if there.strip() != wanted:
        yield f"{name}: {entry.key}: the archive has another key there: {there.decode('utf-8', 'replace')!r}"
