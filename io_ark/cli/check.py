"""Check tables for unreadable entries, values that are not finite, duplicate keys, and inconsistent dimensions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from io_ark.cli.describe import count_of, print_json
from io_ark.cli.entries import Entry, allowed_access, entries, table_of
from io_ark.cli.terminal import color_text, progress
from io_ark.errors import ArkError
from io_ark.specifier import Rspecifier, parse_rxfilename, split_range
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFiles
from io_ark.tables.keys import encode_key
from io_ark.text import escape

MAX_PROBLEMS = 100


@dataclass
class Findings:
    """Result of the check of a table."""

    name: str  # name of the table
    count: int = 0  # number of entries, or of lines of a script file
    problems: list[str] = field(default_factory=list)  # one line per problem, in table order
    keys: dict[str, None] = field(default_factory=dict)  # keys in table order
    columns: tuple[int, str] | None = None  # number of columns of the matrices, and key of the first matrix


def check(chosen: argparse.Namespace) -> int:
    """Check tables and print their problems. The status is 1 if there is a problem."""
    results = []
    for name in chosen.tables:
        show_progress = partial(progress, label=name)
        results.append(check_table(table_of(name), allowed_access(chosen), progress=show_progress))
    for before, after in pairwise(results):
        after.problems.extend(compare_keys(before, after))
    for findings in results:
        if chosen.json:
            print_json({"table": findings.name, "entries": findings.count, "problems": findings.problems})
            continue
        for problem in findings.problems[:MAX_PROBLEMS]:
            print(color_text(escape(problem), "red"))
        if len(findings.problems) > MAX_PROBLEMS:
            print(f"... and {len(findings.problems) - MAX_PROBLEMS} more problems in {findings.name}")
        verdict = count_of(len(findings.problems), "problem") if findings.problems else "no problem found"
        print(f"{findings.name}: {count_of(findings.count, 'entry', 'entries')} read, {verdict}")
    return int(any(findings.problems for findings in results))


def check_table(
    table: Rspecifier,
    access: Access,
    *,
    progress: Callable[[Iterable[Entry]], Iterable[Entry]] = iter,
) -> Findings:
    """Check all entries of a table."""
    findings = Findings(table.rxfilename)
    files = OpenFiles(access=access)
    try:
        for entry in progress(entries(table, access)):
            findings.count += 1
            findings.problems.extend(_problems(entry, findings))
            if table.kind == "scp" and entry.error is None:
                findings.problems.extend(_check_place(entry, files))
            if entry.key:
                findings.keys[entry.key] = None
    except ArkError as error:
        findings.problems.append(str(error))
    if not findings.count and not findings.problems:
        findings.problems.append(f"{findings.name}: is empty")
    return findings


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


def _problems(entry: Entry, findings: Findings) -> Iterator[str]:
    """Yield the problems of an entry. ``findings`` describes the entries before it."""
    if entry.error is not None:
        yield str(entry.error)
    if entry.key in findings.keys:
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
        elif findings.columns is None:
            findings.columns = numbers.shape[1], entry.key
        elif numbers.shape[1] != findings.columns[0]:
            columns, key = findings.columns
            yield f"{entry.where}: {entry.key}: {numbers.shape[1]} columns, but {key} has {columns}"


def _check_place(entry: Entry, files: OpenFiles) -> Iterator[str]:
    """Yield a problem unless a line ``key file:offset`` points to the byte after the same key in the archive."""
    name, _ = split_range(entry.where)
    target = parse_rxfilename(name)
    if target.kind != "file" or not target.offset:
        return
    file = files.get(target.path)
    key = encode_key(entry.key)
    before = max(0, target.offset - len(key) - 1)
    stored = bytes(file.source(before).read(target.offset - before))
    if stored.strip() != key:
        yield f"{name}: {entry.key}: the archive has another key there: {stored.decode('utf-8', 'replace')!r}"
