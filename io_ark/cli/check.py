"""Check tables for unreadable entries, values that are not finite, duplicate keys, and inconsistent dimensions."""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from io_ark.cli.describe import print_json
from io_ark.cli.entries import StoredEntry, get_access, iterate_entries, parse_table
from io_ark.cli.terminal import color_text, show_progress
from io_ark.codecs.wave import TRUNCATED
from io_ark.errors import ArkError
from io_ark.specifier import Rspecifier, parse_rxfilename, split_range
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFiles
from io_ark.tables.keys import encode_key
from io_ark.text import escape, format_count

MAX_PROBLEMS = 100  # Largest number of problems of a table that are printed. --json prints all problems.


@dataclass
class Findings:
    """Results of the check of a table."""

    name: str  # File name of the table.
    count: int = 0  # Number of entries of an archive, or lines of a script file.
    problems: list[str] = field(default_factory=list)  # One line for each problem, in table order.
    keys: dict[str, None] = field(default_factory=dict)  # Keys in table order, for fast lookups. The values are None.
    columns: tuple[int, str] | None = None  # Number of columns and key of the first matrix.


def check(arguments: argparse.Namespace) -> int:
    """Check tables, compare the keys of successive tables, and print the problems. Return 1 for any problem, else 0."""
    results = []
    for name in arguments.tables:
        progress = partial(show_progress, label=name)
        results.append(check_table(parse_table(name), get_access(arguments), progress=progress))
    for previous, findings in pairwise(results):
        findings.problems.extend(compare_keys(previous, findings))
    for findings in results:
        if arguments.json:
            print_json({"table": findings.name, "entries": findings.count, "problems": findings.problems})
            continue
        for problem in findings.problems[:MAX_PROBLEMS]:
            print(color_text(escape(problem), "red"))
        if len(findings.problems) > MAX_PROBLEMS:
            print(f"... and {len(findings.problems) - MAX_PROBLEMS} more problems in {findings.name}")
        verdict = format_count(len(findings.problems), "problem") if findings.problems else "no problem found"
        print(f"{findings.name}: {format_count(findings.count, 'entry', 'entries')} read, {verdict}")
    return int(any(findings.problems for findings in results))


def check_table(
    table: Rspecifier, access: Access, *, progress: Callable[[Iterable[StoredEntry]], Iterable[StoredEntry]] = iter
) -> Findings:
    """Read all entries of a table, and return the number of entries, their keys and the problems.

    An error that ends the table is the last problem. ``access`` may refuse commands and URLs. ``progress`` wraps the
    iterator of the entries, to show the progress.
    """
    findings = Findings(table.rxfilename)
    files = OpenFiles(access=access)
    truncation_warnings: list[str] = []
    thread = threading.get_ident()  # Warnings of other threads may be about other tables.

    def collect_warning(record: logging.LogRecord) -> bool:
        """Collect a warning about truncated audio, and return False to hide it. Return True for other log records."""
        if record.msg != TRUNCATED or record.thread != thread:
            return True
        truncation_warnings.append(record.getMessage())
        return False

    logging.getLogger("io_ark").addFilter(collect_warning)
    try:
        for entry in progress(iterate_entries(table, access)):
            findings.count += 1
            suffix = f" ({entry.key})" if entry.key else ""
            findings.problems.extend(f"{message}{suffix}" for message in truncation_warnings)
            truncation_warnings.clear()
            findings.problems.extend(_find_problems(entry, findings))
            if table.kind == "scp" and entry.error is None:
                findings.problems.extend(_check_offset(entry, files))
            if entry.key:
                findings.keys[entry.key] = None
    except ArkError as error:
        findings.problems.append(str(error))
    finally:
        logging.getLogger("io_ark").removeFilter(collect_warning)
    if not findings.count and not findings.problems:
        findings.problems.append(f"{findings.name}: has no entries")
    return findings


def compare_keys(first: Findings, second: Findings) -> list[str]:
    """Return a line for each table that lacks keys of the other table, or one line if only the key order differs."""
    problems = []
    for table, other_table in ((first, second), (second, first)):
        missing = [key for key in table.keys if key not in other_table.keys]
        if missing:
            problem = f"the key {missing[0]} of {table.name} is missing"
            if len(missing) > 1:
                problem = f"{len(missing)} keys of {table.name} are missing, such as {missing[0]}"
            problems.append(f"{other_table.name}: {problem}")
    if not problems and list(first.keys) != list(second.keys):
        problems.append(f"{second.name}: the keys are not in the order of {first.name}")
    return problems


def _find_problems(entry: StoredEntry, findings: Findings) -> Iterator[str]:
    """Yield the problems of an entry: an error, a duplicate key, values that are not finite, or an unusual shape.

    A matrix should have rows, and as many columns as the first matrix. ``findings`` holds the results of the preceding
    entries, and receives the number of columns and the key of the first matrix.
    """
    if entry.error is not None:
        yield str(entry.error)
    if entry.key in findings.keys:
        yield f"{entry.where}: {entry.key}: duplicate key"
    numbers = entry.numbers
    if numbers is None:
        return
    if numbers.dtype.kind == "f":
        count = numbers.size - int(np.isfinite(numbers).sum())
        if count:
            index = np.argwhere(~np.isfinite(numbers))[0].tolist()
            yield f"{entry.where}: {entry.key}: {count} of {numbers.size} values are not finite, first at {index}"
    if numbers.ndim == 2 and numbers.dtype.kind == "f":
        if not len(numbers):
            yield f"{entry.where}: {entry.key}: the matrix has no rows"
        elif findings.columns is None:
            findings.columns = numbers.shape[1], entry.key
        else:
            count, (first_count, first_key) = numbers.shape[1], findings.columns
            if count != first_count:
                yield f"{entry.where}: {entry.key}: {format_count(count, 'column')}, but {first_key} has {first_count}"


def _check_offset(entry: StoredEntry, files: OpenFiles) -> Iterator[str]:
    """Yield a problem if the archive has a different key before the offset in a script line ``key file:offset``."""
    name, _ = split_range(entry.where)
    target = parse_rxfilename(name)
    if target.kind != "file" or not target.offset:
        return
    file = files.get_file(target.path)
    key = encode_key(entry.key)
    start = max(0, target.offset - len(key) - 1)
    head = bytes(file.open_source(start).read(target.offset - start))  # The key and a space, if the offset is right.
    if head.strip() != key:
        yield f"{name}: {entry.key}: the archive has another key at the offset: {head.decode('utf-8', 'replace')!r}"
