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
from io_ark.cli.describe import count_of, description, entry_line, entry_object, outline, print_json
from io_ark.cli.entries import Entry, allowed_access, entries, find, table_of
from io_ark.codecs.wave import Wave
from io_ark.errors import FormatError, SpecifierError
from io_ark.text import escape

EDGE_ITEMS = 3  # rows and columns shown at each side of a large matrix


def ls(chosen: argparse.Namespace) -> int:
    """List the entries of tables."""
    return _list(chosen, chosen.tables, lambda table: table)


def head(chosen: argparse.Namespace) -> int:
    """List the first entries of tables without reading further entries."""
    return _list(chosen, chosen.tables, lambda table: islice(table, chosen.count))


def grep(chosen: argparse.Namespace) -> int:
    """List the entries whose keys match. As for grep, the status is 1 if no key matches."""
    try:
        pattern = re.compile(chosen.pattern, re.IGNORECASE if chosen.ignore_case else 0)
    except re.error as error:
        raise SpecifierError(f"is not a regular expression: {error}", file=chosen.pattern) from None
    matched = 0

    def select_matching(table: Iterator[Entry]) -> Iterator[Entry]:
        nonlocal matched
        for entry in table:
            if bool(pattern.search(entry.key)) != chosen.invert:
                matched += 1
                yield entry

    status = _list(chosen, chosen.tables, select_matching)
    return status or int(matched == 0)


def _list(chosen: argparse.Namespace, tables: list[str], select: Callable[[Iterator[Entry]], Iterator[Entry]]) -> int:
    status = 0
    for name in tables:
        count = 0
        for entry in select(entries(table_of(name), allowed_access(chosen), info_only=True)):
            count += 1  # noqa: SIM113 (used after the loop)
            status |= int(entry.error is not None)
            if chosen.json:
                print_json(entry_object(entry))
            else:
                print(entry_line(entry))
            if entry.single:
                print(f"{name}: a single object, not a table: `ark show {name}` prints it", file=sys.stderr)
                break
        else:
            if not chosen.json:
                print(f"{name}: {count_of(count, 'entry', 'entries')}", file=sys.stderr)
    return status


def show(chosen: argparse.Namespace) -> int:
    """Print one object."""
    access = allowed_access(chosen)
    if chosen.key is None:
        if chosen.where.endswith(".scp") or io_ark.is_table_rspecifier(chosen.where):
            raise SpecifierError("is a table: add a key, as in `ark show TABLE KEY`", file=chosen.where)
        try:
            value = io_ark.load(chosen.where, pipes=access.pipes, network=access.network)
        except FormatError as error:
            error.message += "; use `ark show TABLE KEY` for an entry of a table"
            raise
        about = {"where": chosen.where}
        title = f"{chosen.where}: {description(value)}"
    else:
        entry = find(chosen.where, chosen.key, access)
        value = entry.value
        about = entry_object(entry)
        title = f"{escape(chosen.key)}: {description(value)}, {entry.stored}, at {escape(entry.where)}"
    if chosen.json:
        try:
            print_json({**about, "value": value})
        except RecursionError:
            raise FormatError("is nested too deeply for JSON", file=chosen.where) from None
        return 0
    print(title)
    numbers = value.samples if isinstance(value, Wave) else value
    if isinstance(numbers, np.ndarray):
        limit = numbers.size + 1 if chosen.all else 100
        with np.printoptions(threshold=limit, edgeitems=EDGE_ITEMS, precision=6, suppress=True, linewidth=120):
            print(numbers)
    elif isinstance(value, dict) or (is_dataclass(value) and not hasattr(value, "shape")):
        for line in outline(value):
            print(line)
    else:
        print(escape(str(value)))
    return 0
