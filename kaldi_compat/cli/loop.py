"""The one loop over a table, and what it counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.errors import KaldiCompatError, OptionError

In = TypeVar("In")
Out = TypeVar("Out", covariant=True)


class Skip(Exception):
    """There will be no output for this entry of a table; the message, if there is one, is the warning that says why."""


class Table(Protocol[Out]):
    """What has entries by key: a random-access reader."""

    def __contains__(self, key: str, /) -> bool: ...

    def __getitem__(self, key: str, /) -> Out: ...


class Sink(Protocol):
    """What takes a table's entries: a writer."""

    def __setitem__(self, key: str, value: Any, /) -> None: ...


@dataclass
class Counts:
    """How many entries gave an output, and how many did not."""

    done: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """Entries seen."""
        return self.done + self.failed

    @property
    def status(self) -> int:
        """Kaldi's usual exit status: success if anything was done."""
        return 0 if self.done else 1


def map_table(entries: Iterable[tuple[str, In]], writer: Sink, function: Callable[[str, In], Any]) -> Counts:
    """Write ``function(key, value)`` under each key, unless it raises :class:`Skip`; and count.

    Raises:
        KaldiCompatError: the function's error, with the key put before its message.
    """
    counts = Counts()
    for key, value in entries:
        try:
            result = function(key, value)
        except Skip as reason:
            counts.failed += 1
            if str(reason):
                logger.warning("%s", reason)
        except KaldiCompatError as error:
            raise type(error)(f"{key}: {error}") from error
        else:
            writer[key] = result
            counts.done += 1
    return counts


def map_lines(lines: Iterable[str], writer: Sink, function: Callable[[str], tuple[str, Any]]) -> Counts:
    """Write the key and value that ``function(line)`` returns, unless it raises :class:`Skip`; and count."""
    counts = Counts()
    for line in lines:
        try:
            key, value = function(line)
        except Skip as reason:
            counts.failed += 1
            logger.warning("%s", reason)
        else:
            writer[key] = value
            counts.done += 1
    return counts


def beside(key: str, name: str, table: Table[Out]) -> Out:
    """What another table, called ``name``, has under the same key.

    Raises:
        Skip: nothing.
    """
    if key not in table:
        raise Skip(f"Missing utt {key} from input {name}")
    return table[key]


class FileSink:
    """Writes each object to a file ``directory/key.extension``; the directory is made if its parent exists.

    Args:
        kind: what the objects are, as ``io_ark`` calls it.
        directory: of the files.
        extension: of the files.
        codec_options: of that kind.

    Raises:
        OptionError: the directory cannot be made.
    """

    def __init__(self, kind: io_ark.Kind, directory: str, extension: str, **codec_options: Any) -> None:
        self.kind = kind
        self.directory = directory
        self.extension = extension
        self.codec_options = codec_options
        if not os.path.exists(directory):
            try:
                os.mkdir(directory)
            except OSError as error:
                raise OptionError(f"the directory {directory!r} cannot be made: {error.strerror}") from error

    def __setitem__(self, key: str, value: Any, /) -> None:
        path = os.path.join(self.directory, f"{key}.{self.extension}")
        io_ark.write_object(self.kind, path, value, **self.codec_options)


def are_tables(source: str, target: str) -> bool:
    """Whether source and target are tables; false if they are single files.

    Raises:
        OptionError: one of each.
    """
    source_is: bool = io_ark.is_table_rspecifier(source)
    target_is: bool = io_ark.is_table_wspecifier(target)
    if source_is != target_is:
        table, file = (source, target) if source_is else (target, source)
        raise OptionError(f"{table} is a table and {file or 'the other'} a single file: both must be the same")
    return source_is


def convert(
    kind: io_ark.Kind,
    source: str,
    target: str,
    function: Callable[[str, Any], Any],
    *,
    binary: bool = True,
    kind_out: io_ark.Kind | None = None,
) -> Counts:
    """Apply a function to each object of a table, or to the object in a single file, whichever the names say.

    Args:
        kind: what the objects are, as ``io_ark`` calls it.
        source: an rspecifier, or a file name.
        target: a wspecifier, or a file name.
        function: of the key (empty for a single file) and the object; may raise :class:`Skip`.
        binary: how a single file is written.
        kind_out: what is written, if that is something else.

    Raises:
        OptionError: a table and a single file; or a single file for which there is no output.
    """
    kind_out = kind_out or kind
    if are_tables(source, target):
        return convert_table(kind, source, target, function, kind_out=kind_out)
    try:
        result = function("", io_ark.read_object(kind, source))
    except Skip as reason:
        raise OptionError(f"{source}: {reason}") from None
    io_ark.write_object(kind_out, target, result, binary=binary)
    return Counts(done=1)


def convert_table(
    kind: io_ark.Kind,
    source: str,
    target: str,
    function: Callable[[str, Any], Any],
    *,
    kind_out: io_ark.Kind | None = None,
    **codec_options: Any,
) -> Counts:
    """Apply a function to each object of a table, as :func:`convert` does, for programs that take no single files.

    Args:
        codec_options: of the kind that is written.
    """
    with (
        io_ark.SequentialReader[Any](kind, source) as reader,
        io_ark.Writer[Any](kind_out or kind, target, **codec_options) as writer,
    ):
        return map_table(reader, writer, function)
