"""The command ``ark convert``, which converts tables to and from files of other programs."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.cli import nemo
from io_ark.cli.describe import describe_kind, print_json
from io_ark.cli.entries import get_access, iterate_entries, parse_table
from io_ark.cli.formats import (
    FORMATS,
    OpenWriter,
    Settings,
    WriteArray,
    find_format,
    is_manifest,
    refuse_unsupported_ending,
)
from io_ark.cli.lhotse_arrays import refuse_source_in_storage
from io_ark.cli.terminal import show_progress
from io_ark.errors import ArkError, FormatError, KeyFormatError, MissingFileError, OpenError, WriteError
from io_ark.specifier import is_url, parse_wspecifier
from io_ark.streams.files import describe_error
from io_ark.tables.overwriting import refuse_overwriting
from io_ark.text import format_count

Values = Iterator[tuple[str, Any]]  # Yields keys with values, or with errors of unreadable values.


def convert(arguments: argparse.Namespace) -> int:
    """Convert a table or a file of arrays, or for NeMo a data directory. Return 1 if an entry fails, and 0 otherwise.

    A target file is created only after the first entry has been read. A target that is a Kaldi table is created only
    when the first entry that the table can store has been read. Raise ArkError if the source is missing or has no
    entries that can be converted, or if the target has an unsupported format, is the source, or cannot be written.
    """
    if is_manifest(arguments.target, arguments.target_format):
        _refuse_url(arguments.target)
        nemo.refuse_overwriting_source(arguments.source, arguments.target)
        items = nemo.read_items(arguments.source)
        return _convert_values(arguments, items, nemo.open_manifest_writer, is_array=False)
    source_format = find_format(arguments.source, arguments.source_format)
    target_format = find_format(arguments.target, arguments.target_format)
    if source_format is None:
        _refuse_folder(arguments.source)
        values = _read_table(arguments)
    else:
        _check_source(arguments.source)
        values = source_format.iterate_entries(Path(arguments.source))
    open_writer = None if target_format is None else target_format.open_writer
    if open_writer is not None:
        _refuse_url(arguments.target)
    else:
        _refuse_folder(arguments.target)
        if not arguments.target_format:
            refuse_unsupported_ending(arguments.target)
    output = _make_wspecifier(arguments.target) if open_writer is None else arguments.target
    refuse_overwriting(output, [parse_table(arguments.source) if source_format is None else arguments.source])
    if source_format is not None and target_format is FORMATS["lhotse"]:
        refuse_source_in_storage(Path(arguments.source), Path(f"{arguments.target}_storage"))
    return _convert_values(arguments, values, open_writer)


def _check_source(name: str) -> None:
    """Raise OpenError if the source ``name`` is a URL, and MissingFileError if it is not a regular file or folder."""
    path = Path(name)
    if is_url(name):
        raise OpenError("is a URL, but URLs are read only as Kaldi tables: download the file first", file=name)
    if not path.exists():
        raise MissingFileError("no such file: check the name of SOURCE", file=name)
    if not (path.is_file() or path.is_dir()):
        raise MissingFileError("is not a regular file: copy its data to a file first", file=name)


def _refuse_url(target: str) -> None:
    """Raise :class:`OpenError` if the target is a URL. As a path, the URL would create a folder such as ``s3:``."""
    if is_url(target):
        raise OpenError("is a URL, but the target must be a file: upload the file after the conversion", file=target)


def _refuse_folder(name: str) -> None:
    """Raise :class:`OpenError` if the name of a table is the name of a folder."""
    if os.path.isdir(name):
        script = next((path.name for path in sorted(Path(name).glob("*.scp"))), "feats.scp")
        advice = f"write {name.rstrip('/')}/ for a folder of .npy files, or name a file such as {name}/{script}"
        raise OpenError(f"is a folder, not a file: {advice}", file=name)


def _convert_values(
    arguments: argparse.Namespace, values: Values, opener: OpenWriter | None, *, is_array: bool = True
) -> int:
    """Write values to the target, and print the numbers of converted and failed values. Return 1 if one failed, else 0.

    ``values`` yields each key with its value, or with an error, which is printed and counts as a failed value.
    ``opener`` opens the target, or is None for a Kaldi table. If ``is_array`` is true, values that are not arrays of
    numbers fail. Raise FormatError if no value can be converted, and WriteError if the target cannot be written.
    """
    first_entry = next(values, None)
    if first_entry is None:
        reason = "has no entries to convert: check the name of SOURCE"
        if is_array and os.path.isdir(arguments.source):
            reason = "has no .npy files: name a file in the folder, such as feats.scp"
        raise FormatError(reason, file=arguments.source)
    # The option of the frame shift is in milliseconds.
    settings = Settings(arguments.frame_shift / 1000, int(arguments.sample_frequency))
    converted_count = failed_count = 0
    target = Path("/dev/stdout" if arguments.target in ("", "-") else arguments.target)
    keys: set[str] = set()
    try:
        with _open_table(arguments) if opener is None else opener(target, settings) as write_array:

            def check_and_write(key: str, value: Any) -> None:
                if is_array:
                    _check_array(value, arguments.source, key)
                if opener is not None:
                    _add_key(key, keys, arguments.source)
                write_array(key, value)

            for key, value in show_progress(chain([first_entry], values), arguments.source):
                error = value if isinstance(value, ArkError) else _try_to_write(check_and_write, key, value)
                if error is None:
                    converted_count += 1
                else:
                    failed_count += 1
                    error.file = error.file or arguments.source
                    print(f"ark: {error}", file=sys.stderr)
            if not converted_count:
                raise FormatError("no entry could be converted: nothing was written", file=arguments.source)
    except OSError as error:
        if isinstance(error, ArkError | BrokenPipeError):
            raise
        reason = describe_error(error)
        if error.errno == errno.ESPIPE:
            reason = "the format needs a regular file, not a pipe: name a file"
        raise WriteError(f"cannot be written to: {reason}", file=arguments.target) from error
    if arguments.json:
        counts = {"converted": converted_count, "failed": failed_count}
        print_json({"source": arguments.source, "target": arguments.target, **counts})
    else:
        converted = format_count(converted_count, "entry", "entries")
        print(f"{arguments.target}: {converted}, {failed_count} failed", file=sys.stderr)
    return int(failed_count > 0)


def _try_to_write(write: WriteArray, key: str, value: Any) -> ArkError | None:
    """Call ``write`` with a key and a value. Return the error if the target cannot store them, and None otherwise."""
    try:
        write(key, value)
    except (FormatError, KeyFormatError) as error:
        return error
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        advice = "is too long for the name of a file: shorten the key, or choose another format"
        return FormatError(f"the key {advice}", key=key)
    return None


def _add_key(key: str, keys: set[str], source: str) -> None:
    """Add a key to ``keys``. Raise FormatError if it is empty, a duplicate, or not UTF-8, or has control characters."""
    if not key or re.search(r"[\0-\x1f\x7f]", key):
        raise FormatError(f"the key {key!a} is empty or has control characters: rename the key", file=source)
    if re.search(r"[\ud800-\udfff]", key):
        raise FormatError("the key is not UTF-8: rename the key, or choose a Kaldi table", file=source, key=key)
    if key in keys:
        raise FormatError("is a duplicate key: rename the key, or choose a Kaldi table", file=source, key=key)
    keys.add(key)


def _check_array(value: Any, source: str, key: str) -> None:
    """Raise FormatError unless the value is an array of numbers. ``source`` is the file that the error names."""
    if not isinstance(value, np.ndarray):
        advice = "use wav-copy" if hasattr(value, "duration") else "keep the entry in a Kaldi table such as ark,t:FILE"
        problem = f"{describe_kind(value)} cannot be converted, because ark convert converts only numbers"
        raise FormatError(f"is not an array: {problem}; {advice}", file=source, key=key)
    if value.dtype.kind not in "biufc":
        message = f"is an array of {value.dtype}, not of numbers: remove the entry from the source"
        raise FormatError(message, file=source, key=key)


def _check_text_numbers(array: np.ndarray[Any, Any], key: str) -> None:
    """Raise FormatError for a number that no reader of text archives accepts: -inf, -nan, or a scalar inf or nan."""
    if array.dtype.kind != "f":
        return
    is_unreadable = ~np.isfinite(array) & (np.signbit(array) if array.ndim else True)
    if is_unreadable.any():
        number = array[is_unreadable][0]
        name = f"{'-' if np.signbit(number) else ''}{'nan' if np.isnan(number) else 'inf'}"
        advice = "choose a binary archive such as ark:FILE"
        raise FormatError(f"has the number {name}, which no reader of text accepts: {advice}", key=key)


def _read_table(arguments: argparse.Namespace) -> Values:
    """Yield the keys and values of a table: arrays, other objects, or the errors of unreadable entries.

    For a file with a single model, the names and arrays of the model are yielded instead. Raise FormatError if a model
    has no arrays, or if the file has a single array or number, which has no key.
    """
    for entry in iterate_entries(parse_table(arguments.source), get_access(arguments)):
        value = entry.error if entry.error is not None else entry.value
        if entry.is_single and hasattr(value, "arrays"):
            try:
                yield from value.arrays().items()
            except FormatError as error:
                error.file = entry.where
                raise
        else:
            is_audio = hasattr(value, "duration")  # Audio is not converted to numbers, but refused by the caller.
            numbers = None if is_audio else entry.numbers
            if entry.is_single and numbers is not None:
                advice = "load it in Python with io_ark.load, or write it to a table"
                raise FormatError(f"is a single object without a key: {advice}", file=entry.where)
            yield entry.key, value if numbers is None else numbers


def _make_wspecifier(name: str) -> str:
    """Return the wspecifier of a table's file name, or ``name`` if it is a wspecifier.

    The name ``o.scp`` stands for this script file and the archive ``o.ark``.
    """
    if io_ark.is_table_wspecifier(name):
        return name
    return f"ark,scp:{name.removesuffix('.scp')}.ark,{name}" if name.endswith(".scp") else f"ark:{name}"


@contextlib.contextmanager
def _open_table(arguments: argparse.Namespace) -> Iterator[WriteArray]:
    """Yield a function that writes an entry. The function opens the table for the first entry that the table can store.

    An archive and its script file are emptied when they are opened, so they are not opened if every entry fails.
    The script file of a target ``scp:FILE`` is only read, and is opened before the first entry, so that its errors end
    the conversion. The function raises FormatError for an entry that the table cannot store.
    """
    access, wspecifier = get_access(arguments), _make_wspecifier(arguments.target)
    compress = "speech" if arguments.compress else None
    table = parse_wspecifier(wspecifier)
    options = "b" if table.binary else "t"  # The trial uses the table's format, since only text can store NaN.
    with contextlib.ExitStack() as stack:

        def open_writer() -> io_ark.Writer[Any]:
            table_writer = io_ark.writer(wspecifier, compress=compress, pipes=access.pipes, network=access.network)
            return stack.enter_context(table_writer)

        trial = stack.enter_context(io_ark.writer(f"ark,{options}:{os.devnull}", compress=compress))
        writer = open_writer() if table.kind == "scp" else None

        def write_array(key: str, array: Any) -> None:
            nonlocal writer
            value = array[()]  # A zero-dimensional array becomes a number, which Kaldi can store.
            if not table.binary:
                _check_text_numbers(array, key)
            if writer is None:
                trial[key] = value  # The trial raises an error for a value that the table cannot store.
                writer = open_writer()
            writer[key] = value

        yield write_array
