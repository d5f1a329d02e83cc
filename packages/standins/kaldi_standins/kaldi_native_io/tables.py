"""Base classes of kaldi_native_io's readers and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

from io_ark.codecs import Codec
from io_ark.codecs.kinds import Kind
from io_ark.errors import ArkError, ClosedError, FormatError
from io_ark.tables import repeat_errors
from io_ark.tables.random_access import RandomAccessReader
from io_ark.tables.readers import SequentialReader
from io_ark.tables.writers import Writer
from kaldi_standins.kaldi_native_io.errors import TableError, as_table_error, to_table_error

# Function that converts a value between the types of io_ark and kaldi_native_io.
Convert: TypeAlias = "staticmethod[[Any], Any]"


def keep_value(value: Any) -> Any:
    """Return ``value`` unchanged, for types that need no conversion."""
    return value


class Table:
    """Base class of readers and writers, which may have an open table."""

    _kind: ClassVar[Kind | Codec[Any]]
    _convert: ClassVar[Convert] = staticmethod(keep_value)
    _table: Any = None

    @property
    def is_open(self) -> bool:
        """True between opening and closing."""
        return self._table is not None

    def close(self) -> None:
        """Close the table, and raise TableError if this fails. A second call does nothing."""
        table, self._table = self._table, None
        if table is not None:
            with as_table_error():
                table.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SequentialTableReader(Table):
    """Reads a table in order, by ``for key, value in reader`` or by ``done``, ``key``, ``value`` and ``next()``.

    Args:
        rspecifier: the table, such as ``scp:feats.scp``.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        TableError: the table cannot be opened, an object cannot be read, or there is no current entry.

    >>> from kaldi_standins.kaldi_native_io import SequentialInt32VectorReader
    >>> list(SequentialInt32VectorReader("ark:echo utt1 1 2 |"))
    [('utt1', [1, 2])]
    """

    def __init__(self, rspecifier: str, *, pipes: bool = True, network: bool = True) -> None:
        self._access: dict[str, Any] = {"pipes": pipes, "network": network}
        self._current: tuple[str, Callable[[], Any]] | None = None
        self.open(rspecifier)

    def open(self, rspecifier: str) -> None:
        """Close an open table, open the table ``rspecifier``, and read its first key. Raise TableError on failure."""
        self.close()
        with as_table_error():
            self._table = SequentialReader(rspecifier, kind=self._kind, **self._access)
            self._entries = self._table.entries()
            self._current = next(self._entries, None)
        self._value: list[Any] = []  # Contains the current value once it has been loaded.

    @property
    def done(self) -> bool:
        """True once there is no current entry. Raises TableError if the reader is closed, or an earlier read failed."""
        self._check_open()
        if self._current is None:
            with as_table_error():
                self._table._reads.raise_failure()
        return self._current is None

    @property
    def key(self) -> str:
        """Key of the current entry. Raises TableError if there is no current entry."""
        return self._get_entry()[0]

    @property
    def value(self) -> Any:
        """Value of the current entry, loaded at the first access.

        Raises TableError if there is no current entry, or the value cannot be read.
        """
        if not self._value:
            load = self._get_entry()[1]
            with as_table_error():
                self._value.append(self._convert(load()))
        return self._value[0]

    def free_current(self) -> None:
        """Release the memory of the current value."""
        self._value = []

    def next(self) -> None:
        """Go to the next entry. Raise TableError if there is no current entry, or the next entry cannot be read."""
        self._get_entry()
        self._value = []
        try:
            with as_table_error():
                self._current = next(self._entries, None)
        except BaseException as error:
            self._current = None
            self._table._reads.record_failure(error)
            raise

    @repeat_errors
    def __iter__(self) -> Iterator[tuple[str, Any]]:
        while not self.done:
            yield self.key, self.value
            self.next()

    def close(self) -> None:
        """Close the table, and raise TableError if this fails. A second call does nothing."""
        self._current = None
        self._value = []
        super().close()

    def _check_open(self) -> None:
        """Raise TableError if the reader is closed."""
        if self._table is None:
            raise TableError("the reader is closed: open a table with open()")

    def _get_entry(self) -> tuple[str, Callable[[], Any]]:
        """Return the key of the current entry, and the function that loads its value.

        Raise TableError if the reader is closed, all entries have been read, or an earlier read failed.
        """
        self._check_open()
        if self._current is None and self.done:
            raise TableError("all entries have been read, so there is no current entry: check reader.done first")
        assert self._current is not None
        return self._current


class RandomAccessTableReader(Table):
    """Looks up values by key.

    Args:
        rspecifier: the table, such as ``scp:feats.scp``.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        TableError: the table cannot be opened, an object cannot be read, or a key is not in the table.

    >>> from kaldi_standins.kaldi_native_io import RandomAccessInt32VectorReader
    >>> RandomAccessInt32VectorReader("ark:echo utt1 1 2 |")["utt1"]
    [1, 2]
    """

    def __init__(self, rspecifier: str, *, pipes: bool = True, network: bool = True) -> None:
        self._access: dict[str, Any] = {"pipes": pipes, "network": network}
        self.open(rspecifier)

    def open(self, rspecifier: str) -> None:
        """Close an open table, and open the table ``rspecifier``. Raise TableError on failure."""
        self.close()
        with as_table_error():
            self._table = RandomAccessReader(rspecifier, kind=self._kind, **self._access)

    def __contains__(self, key: str) -> bool:
        with as_table_error():
            return key in self._get_table()

    def __getitem__(self, key: str) -> Any:
        try:  # A try statement is faster than `with as_table_error()`.
            return self._convert(self._get_table()[key])
        except ArkError as error:
            raise to_table_error(error) from error

    def _get_table(self) -> Any:
        """Return the table. Raise ClosedError if the reader is closed."""
        if self._table is None:
            raise ClosedError("the reader is closed: open a table with open()")
        return self._table


class TableWriter(Table):
    """Writes a table: ``writer.write(key, value)`` or ``writer[key] = value``.

    Args:
        wspecifier: the table, such as ``ark,scp:feats.ark,feats.scp``.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        TableError: the table cannot be opened or written, or cannot hold a key or value.

    >>> import tempfile
    >>> from kaldi_standins.kaldi_native_io import Int32VectorWriter
    >>> with Int32VectorWriter(f"ark:{tempfile.mkdtemp()}/ali.ark") as writer:
    ...     writer["utt1"] = [1, 2]
    """

    def __init__(self, wspecifier: str, *, pipes: bool = True, network: bool = True) -> None:
        self._access: dict[str, Any] = {"pipes": pipes, "network": network}
        self.open(wspecifier)

    def open(self, wspecifier: str) -> None:
        """Close an open table, and open the table ``wspecifier``. Raise TableError on failure."""
        self.close()
        with as_table_error():
            self._table = Writer(wspecifier, kind=self._kind, **self._access)

    def write(self, key: str, value: Any) -> None:
        """Write an entry. ``value`` has the type that the docstring of the class names.

        Raises:
            TableError: the writer is closed, ``value`` has a wrong type, or the entry cannot be written.
        """
        with as_table_error(key):
            writer = self._get_table(key)
            try:
                converted = self._convert(value)
            except ArkError:
                raise
            except (AttributeError, TypeError, ValueError) as error:
                message = f"{type(self).__name__} cannot write this {type(value).__name__}"
                raise FormatError(f"{message}: convert the value, or use another writer") from error
            writer.write(key, converted)

    def __setitem__(self, key: str, value: Any) -> None:
        self.write(key, value)

    def flush(self) -> None:
        """Pass buffered entries to the operating system. Raise TableError if the writer is closed or a write fails."""
        with as_table_error():
            self._get_table(None).flush()

    def _get_table(self, key: str | None) -> Any:
        """Return the table. Raise ClosedError, with the key to be written, if the writer is closed."""
        if self._table is None:
            raise ClosedError("the writer is closed: open a table with open()", key=key)
        return self._table

    def __del__(self) -> None:
        with suppress(ArkError):
            self.close()
