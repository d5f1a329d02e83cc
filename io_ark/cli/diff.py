"""The command ``ark diff``: compare two tables, or two objects."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import zip_longest
from operator import attrgetter
from typing import Any

import numpy as np

from io_ark.cli.describe import describe_kind, format_shape, print_json
from io_ark.cli.entries import StoredEntry, get_access, iterate_entries, parse_table
from io_ark.cli.terminal import color_text, show_progress
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.codecs.wave import Wave
from io_ark.errors import SpecifierError
from io_ark.specifier import parse_rxfilename
from io_ark.text import escape, format_count

Array = np.ndarray[Any, Any]
Pair = tuple[str, StoredEntry | None, StoredEntry | None]
MAX_SHOWN = 100  # Largest number of differing keys that are printed. --json prints all keys.


@dataclass(frozen=True)
class Difference:
    """Difference between two objects with the same key."""

    key: str
    reason: str = ""  # Reason why numbers cannot be compared, such as different shapes. Empty if they were compared.
    # Largest absolute difference. Infinite if NaN or an infinity differs from the other value, or if there is a reason.
    largest: float = 0.0
    mean: float = 0.0  # Mean of the finite absolute differences.
    place: tuple[int, ...] = ()  # Index of the largest difference.
    worst_frames: list[tuple[int, float]] = field(default_factory=list)  # Rows, and their largest differences.
    part: str = ""  # Part of a model or example with the largest difference, such as `means`. Empty for an array.

    @property
    def is_zero(self) -> bool:
        """True if the entries are equal."""
        return self.largest == 0

    def exceeds(self, tolerance: float) -> bool:
        """Return True if the entries differ by more than the tolerance."""
        return self.largest > tolerance


def _make_infinite_difference(key: str, reason: str) -> Difference:
    """Return an infinite difference for two objects that cannot be compared for the given reason."""
    return Difference(key, reason, np.inf)


@dataclass
class Comparison:
    """Results of the comparison of two tables."""

    unpaired: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))  # Keys of only one of the tables.
    unreadable: list[str] = field(default_factory=list)  # Errors of entries without a partner in the other table.
    compared_count: int = 0  # Number of pairs of entries with the same key.
    equal_count: int = 0  # Number of pairs without a difference.
    close_count: int = 0  # Number of pairs whose difference is within the tolerance.
    differing: list[Difference] = field(default_factory=list)  # Differences above the tolerance, and errors.
    largest: Difference = field(default_factory=lambda: Difference(""))  # Largest difference between numbers.


def diff(arguments: argparse.Namespace) -> int:
    """Print the differences of two tables.

    Return the exit status: 0 if both tables have the same keys and no entry differs by more than the tolerance,
    otherwise 1. An entry or key that cannot be read, and entries that cannot be compared, count as differences. Raise
    SpecifierError if both tables are standard input.
    """
    names = arguments.first, arguments.second
    if all(parse_rxfilename(parse_table(name).rxfilename).kind == "stdin" for name in names):
        problem = "is named twice, but only one table can be read from it"
        raise SpecifierError(f"{problem}: use a file for the other table", file="standard input")
    first, second = (show_progress(iterate_entries(parse_table(name), get_access(arguments)), name) for name in names)
    comparison = _compare_tables(first, second, arguments.tolerance, arguments.worst)
    if arguments.json:
        print_json(
            {
                "compared": comparison.compared_count,
                "equal": comparison.equal_count,
                "within_tolerance": comparison.close_count,
                "tolerance": arguments.tolerance,
                "only_in_first": comparison.unpaired[0],
                "only_in_second": comparison.unpaired[1],
                "unreadable": comparison.unreadable,
                "differing": comparison.differing,
            }
        )
    else:
        _print_differences(comparison, names)
        _print_summary(comparison, arguments.tolerance)
    return int(bool(comparison.differing or comparison.unreadable or any(comparison.unpaired)))


def _compare_tables(
    first: Iterable[StoredEntry], second: Iterable[StoredEntry], tolerance: float, max_frames: int
) -> Comparison:
    """Compare the entries of two tables.

    A difference of at most ``tolerance`` is only counted. A larger difference is listed, with up to ``max_frames``
    frames. Keys that only one of the tables has are listed as well.
    """
    comparison = Comparison()
    only_in_first, only_in_second = comparison.unpaired
    for key, first_entry, second_entry in pair_entries(first, second):
        if first_entry is None or second_entry is None:
            entry = first_entry or second_entry
            assert entry is not None
            if entry.error is not None:
                comparison.unreadable.append(str(entry.error))
            if not entry.is_without_key:
                (only_in_second if first_entry is None else only_in_first).append(key)
            continue
        comparison.compared_count += 1
        if error := first_entry.error or second_entry.error:
            difference = _make_infinite_difference(key, f"unreadable: {error}")
        else:
            difference = compare_objects(key, first_entry.value, second_entry.value, max_frames)
        if not difference.reason:
            comparison.largest = max(comparison.largest, difference, key=attrgetter("largest"))
        if difference.exceeds(tolerance):
            comparison.differing.append(difference)
        elif difference.is_zero:
            comparison.equal_count += 1
        else:
            comparison.close_count += 1
    return comparison


def _print_differences(comparison: Comparison, names: tuple[str, str]) -> None:
    """Print up to five unpaired keys of each table in ``names``, and up to ``MAX_SHOWN`` errors and differences."""
    for name, keys in zip(names, comparison.unpaired, strict=True):
        if keys:
            shown_keys = escape(", ".join(keys[:5])) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
            print(color_text(f"only in {name}: {format_count(len(keys), 'key')}: {shown_keys}", "yellow"))
    unreadable, differing = comparison.unreadable, comparison.differing
    lines = [f"{color_text('unreadable', 'red')}: {escape(error)}" for error in unreadable[:MAX_SHOWN]]
    lines += [_format_difference(difference) for difference in differing[: MAX_SHOWN - len(lines)]]
    if lines:
        print(*lines, sep="\n")
    if remaining := len(unreadable) + len(differing) - len(lines):
        print(f"... and {remaining} more")


def _print_summary(comparison: Comparison, tolerance: float) -> None:
    """Print the counts of compared entries, and the largest difference."""
    within = f", {comparison.close_count} within the tolerance" if tolerance else ""
    failed = f", {len(comparison.unreadable)} unreadable" if comparison.unreadable else ""
    counts = f"{comparison.equal_count} equal{within}, {len(comparison.differing)} different{failed}"
    print(f"{format_count(comparison.compared_count, 'key')} compared: {counts}")
    largest = comparison.largest
    if not largest.is_zero:
        print(f"largest difference: {largest.largest:.6g} ({escape(largest.key)}, at {list(largest.place)})")
    elif comparison.differing:
        reason = f"{format_count(len(comparison.differing), 'key')} cannot be compared by numbers"
        print(f"largest difference: none, because {reason}, for example because the shapes differ")


def _format_difference(difference: Difference) -> str:
    """Return the line that ``ark diff`` prints for a difference."""
    key = color_text(escape(difference.key), "red")
    if difference.reason:
        return f"{key}\t{escape(difference.reason)}"
    frames = ", ".join(f"{row} ({value:.3g})" for row, value in difference.worst_frames)
    worst = f"; worst frames: {frames}" if frames else ""
    part = f" in {difference.part}" if difference.part else ""
    index = list(difference.place)
    return f"{key}\tlargest {difference.largest:.6g}{part} at {index}, mean {difference.mean:.3g}{worst}"


def pair_entries(first: Iterable[StoredEntry], second: Iterable[StoredEntry]) -> Iterator[Pair]:
    """Yield each key of two tables, with the entry of the first and of the second table, or None for a missing entry.

    The tables are read once, alternately. An entry stays in memory until the key occurs in the other table, so
    tables with the same order need little memory. Entries with the same key are paired in order. Entries without a key
    have no partners.
    """
    # Entries of the first and of the second table that have no partner yet, by key.
    waiting_first, waiting_second = dict[str, list[StoredEntry]](), dict[str, list[StoredEntry]]()
    for first_entry, second_entry in zip_longest(first, second):
        for entry, own_waiting, other_waiting in (
            (first_entry, waiting_first, waiting_second),
            (second_entry, waiting_second, waiting_first),
        ):
            if entry is None:
                continue
            partner = None
            if not entry.is_without_key:
                if entry.key not in other_waiting:
                    own_waiting.setdefault(entry.key, []).append(entry)
                    continue
                partner, *remaining = other_waiting.pop(entry.key)
                if remaining:
                    other_waiting[entry.key] = remaining
            yield (entry.key, entry, partner) if own_waiting is waiting_first else (entry.key, partner, entry)
    yield from ((key, entry, None) for key, entries in waiting_first.items() for entry in entries)
    yield from ((key, None, entry) for key, entries in waiting_second.items() for entry in entries)


def compare_objects(key: str, first: Any, second: Any, max_frames: int = 3) -> Difference:
    """Compare two objects with the same key. The difference is infinite if types, shapes, rates or strings differ.

    The result lists the frames with the largest differences, at most ``max_frames``.
    """
    kinds = describe_kind(first), describe_kind(second)
    if isinstance(first, Wave) and isinstance(second, Wave):
        if first.sample_frequency != second.sample_frequency:
            return _make_infinite_difference(key, f"{kinds[0]} and {kinds[1]}")
        first, second = first.samples.T, second.samples.T  # A row for each sampling time, which counts as a frame.
    first_entry, second_entry = StoredEntry(key, "", "", first), StoredEntry(key, "", "", second)
    numbers, other_numbers = first_entry.numbers, second_entry.numbers
    if numbers is None or other_numbers is None:
        return _compare_parts(key, first, second, max_frames)
    if numbers.shape != other_numbers.shape:
        return _make_infinite_difference(key, f"shape {format_shape(first_entry)} and {format_shape(second_entry)}")
    return _compare_numbers(key, numbers.astype(np.float64), other_numbers.astype(np.float64), max_frames)


def _compare_parts(key: str, first: Any, second: Any, max_frames: int) -> Difference:
    """Compare two models, training examples or lists part by part.

    Arrays and floats are compared by their numbers, and all other parts for equality. The result is the difference of
    the part with the largest difference, or an infinite difference if two parts cannot be compared or are not equal.
    """
    if type(first) is not type(second):
        return _make_infinite_difference(key, f"{_format_value(first)} and {_format_value(second)}")
    largest_difference = Difference(key)
    for part, other_part in zip_longest(_iterate_parts(first), _iterate_parts(second)):
        (full_name, value), (other_full_name, other_value) = part or other_part, other_part or part
        name = full_name.removeprefix(".")
        if part is None or other_part is None or full_name != other_full_name:
            return _make_infinite_difference(key, f"{name} is a part of only one of the objects")
        numbers, other_numbers = StoredEntry(key, "", "", value).numbers, StoredEntry(key, "", "", other_value).numbers
        if numbers is None or other_numbers is None or isinstance(value, int):
            if type(value) is not type(other_value) or value != other_value:
                prefix = f"{name}: " if is_dataclass(first) or hasattr(first, "_fields") else ""
                texts = map(_format_value, (value, other_value) if prefix else (first, second))
                return _make_infinite_difference(key, prefix + " and ".join(texts))
        elif numbers.shape != other_numbers.shape:
            return _make_infinite_difference(key, f"{name}: shape {numbers.shape} and {other_numbers.shape}")
        else:
            difference = _compare_numbers(key, numbers.astype(np.float64), other_numbers.astype(np.float64), max_frames)
            largest_difference = max(largest_difference, replace(difference, part=name), key=attrgetter("largest"))
    return largest_difference


def _iterate_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names, such as ``.means``, and values of all numbers, arrays, words and lengths in a nested object."""
    stack = [("", value)]
    while stack:
        name, part = stack.pop()
        inner: Iterable[tuple[str, Any]]
        if isinstance(part, CompressedMatrix):
            yield name, part.to_array()
            continue
        if is_dataclass(part):
            inner = [(f".{member.name}", getattr(part, member.name)) for member in fields(part)]
        elif isinstance(part, tuple) and hasattr(part, "_fields"):
            inner = [(f".{field_name}", member) for field_name, member in zip(part._fields, part, strict=True)]
        elif isinstance(part, dict):
            yield f"{name}.length", len(part)
            inner = [(f"[{key!r}]", member) for key, member in part.items()]
        elif isinstance(part, list | tuple):
            yield f"{name}.length", len(part)
            inner = [(f"[{index}]", member) for index, member in enumerate(part)]
        else:
            yield name, part
            continue
        stack += [(name + step, member) for step, member in reversed(list(inner))]


def _format_value(value: Any) -> str:
    """Return the ``repr`` of a value in at most 40 characters, or the name of its type if it is nested too deeply."""
    try:
        text = repr(value)
    except RecursionError:  # repr() fails if the nodes of a tree are nested too deeply.
        text = type(value).__name__
    return text if len(text) <= 40 else f"{text[:37]}..."


def _compare_numbers(key: str, first: Array, second: Array, max_frames: int) -> Difference:
    """Compare two float64 arrays of one shape. NaN equals NaN, and differs infinitely from a number.

    For matrices, the result lists the differing rows with the largest differences, at most ``max_frames``.
    """
    if not first.size:
        return Difference(key)
    with np.errstate(invalid="ignore"):
        differences = np.abs(first - second)
    is_equal = (first == second) | (np.isnan(first) & np.isnan(second))
    differences = np.where(is_equal, 0.0, np.where(np.isnan(differences), np.inf, differences))
    index = tuple(int(axis) for axis in np.unravel_index(int(differences.argmax()), differences.shape))
    finite = differences[np.isfinite(differences)]
    frames = []
    if differences.ndim == 2 and differences.any():
        row_differences = differences.max(axis=1)
        order = np.argsort(-row_differences, kind="stable")[:max_frames]
        frames = [(int(row), float(row_differences[row])) for row in order if row_differences[row] > 0]
    return Difference(key, "", float(differences.max()), float(finite.mean()) if finite.size else np.inf, index, frames)
