"""The commands ``ark ls``, ``head``, ``grep`` and ``show``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from itertools import islice

import numpy as np

import io_ark
from io_ark.cli.describe import convert_entry, describe_fields, describe_value, format_entry, print_json
from io_ark.cli.entries import StoredEntry, find_entry, get_access, iterate_entries, parse_table
from io_ark.codecs.wave import Wave
from io_ark.errors import FormatError, SpecifierError
from io_ark.text import escape, format_count

EDGE_ITEMS = 3  # Number of rows and columns that are printed at each edge of a large matrix.


def ls(arguments: argparse.Namespace) -> int:
    """Print a line for each entry of the tables. Return 1 if an entry is unreadable, and 0 otherwise."""
    return _print_entries(arguments, lambda table: table)


def head(arguments: argparse.Namespace) -> int:
    """Print a line for each of the first ``--count`` entries of a table. Return 1 if an entry is unreadable, else 0."""
    return _print_entries(arguments, lambda table: islice(table, arguments.count))


def grep(arguments: argparse.Namespace) -> int:
    """Print a line for each entry whose key matches a pattern (with ``--invert``: does not match).

    Return 1 if no entry is selected or a printed entry is unreadable, and 0 otherwise. Raise SpecifierError if the
    pattern is not a regular expression.
    """
    try:
        pattern = re.compile(arguments.pattern, re.IGNORECASE if arguments.ignore_case else 0)
    except re.error as error:
        message = f"is not a regular expression: {error}; correct the pattern"
        raise SpecifierError(message, file=arguments.pattern) from None
    match_count = 0

    def select_matching(table: Iterator[StoredEntry]) -> Iterator[StoredEntry]:
        """Yield and count the matching entries. Also yield the errors of lines and keys that are unreadable."""
        nonlocal match_count
        for entry in table:
            if entry.is_without_key:
                yield entry
            elif bool(pattern.search(entry.key)) != arguments.invert:
                match_count += 1
                yield entry

    status = _print_entries(arguments, select_matching)
    return status or int(match_count == 0)


def _print_entries(
    arguments: argparse.Namespace, select: Callable[[Iterator[StoredEntry]], Iterator[StoredEntry]]
) -> int:
    """Print and count the entries that ``select`` yields for each table. Return 1 if an entry is unreadable, else 0."""
    status = 0
    for name in arguments.tables:
        count = 0
        for entry in select(iterate_entries(parse_table(name), get_access(arguments), info_only=True)):
            count += 1  # noqa: SIM113 (`enumerate` would not count an empty table)
            status = max(status, int(entry.error is not None))
            if arguments.json:
                print_json(convert_entry(entry))
            else:
                print(format_entry(entry))
            if entry.is_single and entry.error is None:
                print(f"{name}: is a single object, not a table: print it with `ark show {name}`", file=sys.stderr)
                break
        else:
            if not arguments.json:
                print(f"{name}: {format_count(count, 'entry', 'entries')}", file=sys.stderr)
    return status


def show(arguments: argparse.Namespace) -> int:
    """Print the object of a key, or the single object of a file. Return the exit status 0.

    Raise SpecifierError if no key was passed, but ``where`` is a table, MissingKeyError if the table does not have the
    key, FormatError if the object is invalid, or is nested too deeply for JSON, and ArkError if it cannot be read.
    """
    access = get_access(arguments)
    if arguments.key is None:
        if arguments.where.endswith(".scp") or io_ark.is_table_rspecifier(arguments.where):
            raise SpecifierError("is a table: name an entry with `ark show TABLE KEY`", file=arguments.where)
        try:
            value = io_ark.load(arguments.where, pipes=access.pipes, network=access.network)
        except FormatError as error:
            error.message += "; print an entry of a table with `ark show TABLE KEY`"
            raise
        description = {"where": arguments.where}
        title = f"{arguments.where}: {describe_value(value)}"
    else:
        entry = find_entry(arguments.where, arguments.key, access)
        value = entry.value
        description = convert_entry(entry)
        title = f"{escape(arguments.key)}: {describe_value(value)}, {entry.stored}, at {escape(entry.where)}"
    if arguments.json:
        try:
            print_json({**description, "value": value})
        except RecursionError:
            raise FormatError("is nested too deeply for JSON: omit --json", file=arguments.where) from None
        return 0
    print(title)
    numbers = value.samples if isinstance(value, Wave) else value
    if isinstance(numbers, np.ndarray):
        max_numbers = numbers.size + 1 if arguments.all else 100  # NumPy abbreviates an array with more numbers.
        with np.printoptions(threshold=max_numbers, edgeitems=EDGE_ITEMS, precision=6, suppress=True, linewidth=120):
            print(numbers)
    elif isinstance(value, dict) or (is_dataclass(value) and not hasattr(value, "shape")):
        for line in describe_fields(value):
            print(line)
    else:
        print(escape(str(value)))
    return 0
