"""The command ``ark convert``: to and from files of other programs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.cli import nemo
from io_ark.cli.describe import count_of, describe_kind, print_json
from io_ark.cli.entries import allowed_access, entries, table_of
from io_ark.cli.formats import Put, Settings, Write, format_of
from io_ark.cli.terminal import progress
from io_ark.errors import ArkError, FormatError, KeyFormatError, MissingFileError, OpenError
from io_ark.streams.files import reason_of
from io_ark.tables.overwriting import refuse_overwriting


def convert(chosen: argparse.Namespace) -> int:
    """Convert a table. The status is 1 if entries are unreadable or not arrays.

    The target is opened after the first entry has been read, and is refused if it is the source.
    """
    if chosen.target_format == "nemo" or (not chosen.target_format and chosen.target.endswith(".json")):
        nemo.refuse_source(chosen.source, chosen.target)
        return _convert_values(chosen, nemo.read_items(chosen.source), nemo.write_manifest, is_array=False)
    source = format_of(chosen.source, "" if chosen.source_format == "ark" else chosen.source_format)
    target = format_of(chosen.target, "" if chosen.target_format == "ark" else chosen.target_format)
    is_table = chosen.source_format == "ark" or source is None
    if is_table:
        values = _table_values(chosen)
    else:
        assert source is not None
        if not (Path(chosen.source).is_file() or Path(chosen.source).is_dir()):
            raise MissingFileError("no such file", file=chosen.source)
        values = source.entries(Path(chosen.source))
    write = None if chosen.target_format == "ark" or target is None else target.write
    written = _wspecifier(chosen.target) if write is None else chosen.target
    refuse_overwriting(written, [table_of(chosen.source) if is_table else chosen.source])
    return _convert_values(chosen, values, write)


def _convert_values(
    chosen: argparse.Namespace, values: Iterator[tuple[str, Any]], write: Write | None, *, is_array: bool = True
) -> int:
    """Write values to the target: to a table if ``write`` is None. Print the counts, and return the exit status."""
    first = next(values, None)
    if first is None:
        raise FormatError("has no entries, so nothing is written", file=chosen.source)
    settings = Settings(chosen.frame_shift / 1000, int(chosen.sample_frequency))
    done = failed = 0
    with contextlib.ExitStack() as stack:
        try:
            put = stack.enter_context(
                _to_table(_wspecifier(chosen.target), chosen) if write is None else write(Path(chosen.target), settings)
            )
        except OSError as error:
            if isinstance(error, ArkError):
                raise
            raise OpenError(f"cannot be opened for writing: {reason_of(error)}", file=chosen.target) from error
        keys: set[str] = set()
        for key, value in progress(chain([first], values), chosen.source):
            try:
                if isinstance(value, ArkError):
                    raise value
                if is_array:
                    _check_array(value, chosen.source, key)
                if write is not None:
                    _check_key(key, keys, chosen.source)
                put(key, value)
                done += 1
            except (FormatError, KeyFormatError) as error:
                failed += 1
                print(f"ark: {error}", file=sys.stderr)
    if chosen.json:
        print_json({"source": chosen.source, "target": chosen.target, "converted": done, "failed": failed})
    else:
        print(f"{chosen.target}: {count_of(done, 'entry', 'entries')}, {failed} failed", file=sys.stderr)
    return int(failed > 0)


def _check_key(key: str, keys: set[str], source: str) -> None:
    """Add a key to ``keys``. Raise :class:`FormatError` if only a Kaldi table can hold the key."""
    if any("\ud800" <= char <= "\udfff" for char in key):
        raise FormatError("the key is not UTF-8: only a Kaldi table can hold it", file=source, key=key)
    if key in keys:
        raise FormatError("is a duplicate key: only a Kaldi table can hold it", file=source, key=key)
    keys.add(key)


def _check_array(value: Any, source: str, key: str) -> None:
    if not isinstance(value, np.ndarray):
        raise FormatError(f"{describe_kind(value)}: only arrays are converted", file=source, key=key)


def _table_values(chosen: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    for entry in entries(table_of(chosen.source), allowed_access(chosen)):
        value = entry.error if entry.error is not None else entry.value
        if entry.single and hasattr(value, "arrays"):
            try:
                yield from value.arrays().items()
            except FormatError as error:
                error.file = entry.where
                raise
            continue
        numbers = None if hasattr(value, "duration") else entry.numbers
        yield entry.key, value if entry.error is not None or numbers is None else numbers


def _wspecifier(name: str) -> str:
    """Return the wspecifier of a file name. ``o.scp`` is a script file with the archive ``o.ark``."""
    if io_ark.is_table_wspecifier(name):
        return name
    return f"ark,scp:{name.removesuffix('.scp')}.ark,{name}" if name.endswith(".scp") else f"ark:{name}"


@contextlib.contextmanager
def _to_table(wspecifier: str, chosen: argparse.Namespace) -> Iterator[Put]:
    access = allowed_access(chosen)
    compress = "speech" if chosen.compress else None
    with io_ark.writer(wspecifier, compress=compress, pipes=access.pipes, network=access.network) as writer:
        yield writer.__setitem__
