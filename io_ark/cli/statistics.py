"""The command ``ark stat``, which prints statistics of the numbers in a table."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from io_ark.cli.describe import print_json
from io_ark.cli.entries import StoredEntry, get_access, iterate_entries, parse_table
from io_ark.cli.terminal import color_text, show_progress
from io_ark.text import format_count

MAX_NAMED_COLUMNS = 10  # Largest number of columns that a line about NaN, infinite or constant values names.


@dataclass
class Statistics:
    """Statistics of a table, accumulated entry by entry."""

    entry_count: int = 0  # Number of readable entries.
    unreadable_count: int = 0  # Number of unreadable entries.
    storage_counts: Counter[str] = field(default_factory=Counter)  # Maps a storage format to the number of entries.
    lengths: list[int] = field(default_factory=list)  # Rows of matrices, elements of vectors, and samples of audio.
    seconds: float = 0.0  # Total duration of audio in seconds.
    moments: dict[int, Moments] = field(default_factory=dict)  # Maps a number of columns to the moments of the columns.

    def add_entry(self, entry: StoredEntry) -> None:
        """Count an entry. If the entry is readable, add its storage, length, duration and numbers to the statistics."""
        if entry.error is not None:
            self.unreadable_count += 1
            return
        self.entry_count += 1
        self.storage_counts[entry.stored] += 1
        is_audio = hasattr(entry.value, "duration")  # Audio has the shape (channels, samples).
        if entry.shape:
            self.lengths.append(entry.shape[-1] if is_audio else entry.shape[0])
        self.seconds += getattr(entry.value, "duration", 0.0)
        numbers = entry.numbers
        if numbers is None or not numbers.size:
            return
        rows = numbers.T if is_audio else numbers
        rows = rows if rows.ndim == 2 else rows.reshape(-1, 1)
        self.moments.setdefault(rows.shape[1], Moments(rows.shape[1])).add_rows(rows)

    def to_json_object(self) -> dict[str, Any]:
        """Return the statistics as a dictionary, whose arrays :func:`print_json` converts."""
        return {
            "entries": self.entry_count,
            "unreadable": self.unreadable_count,
            "stored": dict(self.storage_counts),
            "seconds": self.seconds,
            "lengths": {
                "total": sum(self.lengths),
                "smallest": min(self.lengths, default=0),
                "largest": max(self.lengths, default=0),
            },
            "columns": {
                str(columns): {
                    **dict(zip(("mean", "deviation", "min", "max"), moments.column_statistics, strict=True)),
                    "nan": moments.nan_count,
                    "infinite": moments.infinite_count,
                    "constant": moments.constant_columns,
                }
                for columns, moments in sorted(self.moments.items())
            },
        }


class Moments:
    """Statistics of the finite values in each of ``column_count`` columns, and the numbers of NaN and infinities."""

    def __init__(self, column_count: int) -> None:
        self.count = np.zeros(column_count)  # Number of finite values in each column.
        self.mean = np.zeros(column_count)
        self.squares = np.zeros(column_count)  # Sum of squared differences from each column's mean.
        self.nan_count = np.zeros(column_count, np.int64)
        self.infinite_count = np.zeros(column_count, np.int64)
        self.minimum = np.full(column_count, np.inf)
        self.maximum = np.full(column_count, -np.inf)

    def add_rows(self, rows: np.ndarray[Any, Any]) -> None:
        """Add the values of an array (rows, columns) to the moments (Chan, Golub and LeVeque, 1979)."""
        values = rows.astype(np.float64)
        is_finite = np.isfinite(values)
        count = is_finite.sum(axis=0)
        mean = np.where(is_finite, values, 0).sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(is_finite, values - mean, 0) ** 2).sum(axis=0)
        total = np.maximum(self.count + count, 1)
        mean_difference = mean - self.mean
        self.squares += squares + mean_difference**2 * self.count * count / total
        self.mean += mean_difference * count / total
        self.count += count
        self.nan_count += np.isnan(values).sum(axis=0)
        self.infinite_count += np.isinf(values).sum(axis=0)
        self.minimum = np.minimum(self.minimum, np.where(is_finite, values, np.inf).min(axis=0))
        self.maximum = np.maximum(self.maximum, np.where(is_finite, values, -np.inf).max(axis=0))

    @property
    def column_statistics(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Mean, deviation, minimum and maximum, four arrays (columns,), with NaN for columns without finite values."""
        standard_deviation = np.sqrt(self.squares / np.maximum(self.count, 1))
        values = self.mean, standard_deviation, self.minimum, self.maximum
        return tuple(np.where(self.count > 0, value, np.nan) for value in values)

    @property
    def constant_columns(self) -> list[int]:
        """Indices of constant columns, in which two or more values are finite and all finite values are equal."""
        return [int(column) for column in np.flatnonzero((self.minimum == self.maximum) & (self.count > 1))]


def compute_statistics(entries: Iterable[StoredEntry]) -> Statistics:
    """Compute the statistics of the entries of a table."""
    result = Statistics()
    for entry in entries:
        result.add_entry(entry)
    return result


def stat(arguments: argparse.Namespace) -> int:
    """Print the statistics of tables. Return 1 if an entry is unreadable, and 0 otherwise."""
    status = 0
    for name in arguments.tables:
        result = compute_statistics(show_progress(iterate_entries(parse_table(name), get_access(arguments)), name))
        if arguments.json:
            print_json({"table": name, **result.to_json_object()})
        else:
            _print_statistics(name, result)
        status = max(status, int(result.unreadable_count > 0))
    return status


def _print_statistics(name: str, statistics: Statistics) -> None:
    """Print the statistics of the table ``name``, with a line for each column of the numbers."""
    unreadable = f", {statistics.unreadable_count} unreadable" if statistics.unreadable_count else ""
    print(color_text(f"{name}: {format_count(statistics.entry_count, 'entry', 'entries')}{unreadable}", "bold"))
    for stored, count in statistics.storage_counts.most_common():
        print(f"  stored as {stored}: {count}")
    if statistics.seconds:
        print(f"  audio: {statistics.seconds:.2f} s ({statistics.seconds / 3600:.2f} h)")
    if statistics.lengths:
        lengths = np.array(statistics.lengths)
        averages = f"mean {lengths.mean():.1f}, median {np.median(lengths):.1f}"
        print(f"  length: total {lengths.sum()}, {lengths.min()} to {lengths.max()}, {averages}")
    for columns, moments in sorted(statistics.moments.items()):
        if len(statistics.moments) > 1:
            print(f"  entries with {format_count(columns, 'column')}:")
        print("  column         mean    deviation          min          max")
        for column, row in enumerate(zip(*moments.column_statistics, strict=True)):
            print(f"  {column:6d} " + " ".join(f"{value:12.6g}" for value in row))
        for label, counts in (("NaN", moments.nan_count), ("infinite", moments.infinite_count)):
            if counts.any():
                column_list = _format_columns(np.flatnonzero(counts).tolist())
                print(color_text(f"  {label}: {format_count(int(counts.sum()), 'value')} in {column_list}", "red"))
        if moments.constant_columns:
            print(color_text(f"  constant: {_format_columns(moments.constant_columns)}", "yellow"))


def _format_columns(numbers: list[int]) -> str:
    """Format column numbers, such as ``columns 0, 3``. Only the first 10 columns are named."""
    more = f" and {len(numbers) - MAX_NAMED_COLUMNS} more" if len(numbers) > MAX_NAMED_COLUMNS else ""
    return f"column{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:MAX_NAMED_COLUMNS]))}{more}"
