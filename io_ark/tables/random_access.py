"""Look up the values of keys in a table. The table's options decide what is kept in memory.

Source of the rules: Kaldi's src/util/kaldi-table-inl.h (RandomAccessTableReader...Impl).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeVar, overload

from io_ark.codecs import Codec
from io_ark.codecs.kinds import Kind
from io_ark.errors import (
    READ_FAILED,
    ArkError,
    ClosedError,
    FormatError,
    MissingKeyError,
    OpenError,
    OrderError,
    PipeError,
    RangeError,
    kaldis_words,
)
from io_ark.logs import logger
from io_ark.specifier import Rspecifier, parse_rspecifier
from io_ark.streams.access import Access
from io_ark.streams.input import Input, open_input
from io_ark.tables.blocks import read_entries
from io_ark.tables.keys import check_key, decode_key, encode_key
from io_ark.tables.loader import Loader, as_codec
from io_ark.tables.readers import WholeReads
from io_ark.tables.script import Script

T = TypeVar("T")
Value = TypeVar("Value", covariant=True)


class RandomAccessReader(Generic[Value]):
    """Looks up values of a table by key.

    The lines of a script file are read at once, and its objects on access. An archive is read up to the requested key.
    Its values stay in memory, unless the options promise that they are not needed again: ``o`` (keys are looked up
    once) or ``s,cs`` (the archive and the lookups are sorted, so only one object stays in memory). With ``s`` (the
    archive is sorted), reading stops at the first greater key.

    Args:
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark,s,cs:-``.
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or your own codec.
        utt2spk: a table of tokens. If set, keys are utterances, and the values of their speakers are returned.
        pipes: allow commands.
        network: allow URLs.
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened or read, or violates its options.
        MissingKeyError: the key is not in the table (``reader[key]``), or not in ``utt2spk`` (any call).

    >>> with RandomAccessReader("scp:feats.scp", kind="matrix") as reader:  # doctest: +SKIP
    ...     if "utt1" in reader:
    ...         print(reader["utt1"].shape)
    """

    def __init__(
        self,
        rspecifier: str,
        *,
        kind: Kind | Codec[Any],
        utt2spk: str = "",
        pipes: bool = True,
        network: bool = True,
        **options: Any,
    ) -> None:
        table = parse_rspecifier(rspecifier)
        self._speakers: RandomAccessReader[str] | None = None
        self._lookup = _open_lookup(table, as_codec(kind, options), Access(pipes, network))
        if utt2spk:
            self._speakers = RandomAccessReader(utt2spk, kind="token", pipes=pipes, network=network)

    def __contains__(self, key: str) -> bool:
        return self._lookup.has(key if self._speakers is None else self._speaker(key))

    def __getitem__(self, key: str) -> Value:
        value: Value = self._lookup.value(key if self._speakers is None else self._speaker(key))
        return value

    @overload
    def get(self, key: str) -> Value | None: ...
    @overload
    def get(self, key: str, default: T) -> Value | T: ...
    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if the table does not have it."""
        return self[key] if key in self else default  # noqa: SIM401 (this is that method)

    def values_of(self, keys: Sequence[str]) -> list[Value] | None:
        """Look up many keys at once, which is faster.

        Returns:
            The values, or None if a key is missing or the table does not support this. Single lookups still work then.
        """
        names: Sequence[str] | None = keys if self._speakers is None else self._speakers.values_of(keys)
        return None if names is None else self._lookup.values_of(names)

    def _speaker(self, key: str) -> str:
        assert self._speakers is not None
        if key not in self._speakers:
            raise MissingKeyError("is not in the utt2spk map, so its speaker is unknown", key=key)
        return self._speakers[key]

    def close(self) -> None:
        """Close the table; a second call does nothing."""
        self._lookup.close()
        if self._speakers is not None:
            self._speakers.close()

    def __enter__(self) -> RandomAccessReader[Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_lookup(table: Rspecifier, codec: Codec[Any], access: Access) -> Lookup:
    """Create the lookup for a table's options."""
    if table.kind == "scp":
        return ScriptLookup(table, codec, access)
    if table.sorted and table.called_sorted:
        return SortedArchiveLookup(table, codec, access)
    return ArchiveLookup(table, codec, access)


class Lookup:
    """Base class of lookups. Each subclass has its own bound on memory.

    A key is checked only if the table does not have it.

    Attributes:
        table: the table.
        closed: True after :meth:`close`.
        reads: remembers a failure, after which every read raises an error. Bytes after a damaged entry may look like
            entries, keys after a key out of order may look sorted, and the bytes of an interrupted read are lost.
    """

    def __init__(self, table: Rspecifier) -> None:
        self.table = table
        self.closed = False
        self.reads = WholeReads(table.rxfilename)

    def has(self, key: str) -> bool:
        raise NotImplementedError

    def value(self, key: str) -> Any:
        raise NotImplementedError

    def values_of(self, keys: Sequence[str]) -> list[Any] | None:
        """Look up many keys. Return None if a key is missing, or if the table allows only one lookup of a key."""
        return None

    def close(self) -> None:
        self.closed = True

    def missing(self, key: str) -> NoReturn:
        check_key(key)
        raise MissingKeyError("the key is not in the table", file=self.table.rxfilename, key=key)

    def check_open(self) -> None:
        if self.closed:
            raise ClosedError("the reader is closed", file=self.table.rxfilename)


class ScriptLookup(Lookup):
    """Lookup in a script file."""

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table)
        self._loader = Loader(codec, access)
        self._script = Script.open(table.rxfilename, access)
        if table.sorted:
            self._script.check_sorted()
        else:
            self._script.check_unique()
        self._loaded: tuple[str, Any] | None = None  # The entry that `has` read, for the next call of `value`.

    def has(self, key: str) -> bool:
        self.check_open()
        rxfilename = self._script.get(key)
        if rxfilename is None:
            check_key(key)
            return False
        if not self.table.permissive:
            return True
        try:
            self._loaded = key, self._loader.load_value(key, rxfilename)
        except RangeError:
            raise
        except ArkError as error:
            logger.warning("%s (treated as missing, because of the option p)", kaldis_words(error))
            return False
        return True

    def value(self, key: str) -> Any:
        if self.closed:
            self.check_open()
        if self._loaded is not None:
            loaded, self._loaded = self._loaded, None
            if loaded[0] == key:
                return loaded[1]
        rxfilename = self._script.get(key)
        if rxfilename is None:
            self.missing(key)
        return self._loader.load_value(key, rxfilename)

    def close(self) -> None:
        super().close()
        self._loader.close()


class _ArchiveScan(Lookup):
    """Base class of lookups that read an archive from its start up to the requested keys.

    With ``p``, an error while reading ends the archive with a warning.
    """

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table)
        self._codec = codec
        self._input: Input | None = open_input(table.rxfilename, access=access)
        self._entries = read_entries(self._input.source, self._codec)
        self._previous: bytes | None = None

    def following(self) -> Iterator[tuple[str, Any]]:
        """Read the next entries. The caller may stop at any entry; another call continues after it."""
        self.check_open()
        self.reads.check()
        if self._input is None:
            return
        try:
            for entry in self._entries:
                if self.table.sorted:
                    self._check_order(entry[0])
                yield entry
            opened, self._input = self._input, None
            opened.finish()
        except (FormatError, OpenError, PipeError) as error:
            if not self.table.permissive:
                raise
            logger.warning(
                "%s (treated as the end of the archive, because of the option p)", kaldis_words(error, READ_FAILED)
            )
            self._end()

    def _check_order(self, key: str) -> None:
        current = encode_key(key)
        if self._previous is not None and current <= self._previous:
            self.out_of_order(
                key,
                f"comes after {decode_key(self._previous)!r}: the table is not sorted or has a duplicate key, although "
                "it has the option s",
            )
        self._previous = current

    def out_of_order(self, key: str, message: str) -> NoReturn:
        raise OrderError(message, file=self.table.rxfilename, key=key)

    def _end(self) -> None:
        opened, self._input = self._input, None
        self._entries.close()
        if opened is not None:
            opened.close()

    def close(self) -> None:
        super().close()
        self._end()


class ArchiveLookup(_ArchiveScan):
    """Lookup in an archive that keeps all values it has read. With ``o``, a value is released when it is returned.

    If the archive is sorted, reading stops at the first greater key.
    """

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table, codec, access)
        self._values: dict[str, Any] = {}
        self._released: dict[str, None] = {}  # keys of released values, in order

    def has(self, key: str) -> bool:
        self.check_open()
        if key in self._values:
            return True
        check_key(key)
        if self._read_to(key, self.following()):
            return True
        if key in self._released:
            # Kaldi remembers the first released key, or in a sorted table all of them.
            if self.table.sorted or key == next(iter(self._released)):
                self._refuse_again(key)
            logger.warning(
                "%s: %s: was released because of the option o (treated as missing)", self.table.rxfilename, key
            )
        return False

    def _read_to(self, key: str, entries: Iterator[tuple[str, Any]]) -> bool:
        """Read the following entries up to this key. Return False if they do not contain it."""
        values, is_sorted = self._values, self.table.sorted
        if is_sorted and self._is_past(key):
            self.reads.check()
            return False
        try:
            for name, value in entries:
                if name in values:
                    self.out_of_order(name, "is a duplicate key in the archive")
                values[name] = value
                if name == key:
                    return True
                if is_sorted and self._is_past(key):
                    break
        except BaseException as error:  # The generator is then at its end.
            self.reads.fail(error)
            raise
        return False

    def _is_past(self, key: str) -> bool:
        return self._previous is not None and encode_key(key) <= self._previous

    def value(self, key: str) -> Any:
        if not self.has(key):
            if key in self._released:
                self._refuse_again(key)
            self.missing(key)
        if not self.table.once:
            return self._values[key]
        self._released[key] = None
        return self._values.pop(key)

    def values_of(self, keys: Sequence[str]) -> list[Any] | None:
        self.check_open()
        if self.table.once:
            return None
        values, entries = self._values, self.following()
        for key in keys:
            if key not in values and not self._read_to(key, entries):
                return None
        return [values[key] for key in keys]

    def _refuse_again(self, key: str) -> NoReturn:
        raise OrderError(
            "was looked up twice, although the table has the option o", file=self.table.rxfilename, key=key
        )

    def close(self) -> None:
        super().close()
        self._values.clear()


class SortedArchiveLookup(_ArchiveScan):
    """Lookup in a sorted archive whose keys are looked up in order. One object is in memory."""

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table, codec, access)
        self._current: tuple[str, Any] | None = None
        self._last_key = b""

    def has(self, key: str) -> bool:
        self.check_open()
        self.reads.check()
        check_key(key)
        goal = encode_key(key)
        if goal < self._last_key:
            raise OrderError(
                f"is looked up after {decode_key(self._last_key)!r}, although the table has the option cs (sorted "
                "calls)",
                file=self.table.rxfilename,
                key=key,
            )
        self._last_key = goal
        try:
            while self._previous is None or self._previous < goal:
                self._current = None
                self._current = next(self.following(), None)
                if self._current is None:
                    return False
        except BaseException as error:
            self.reads.fail(error)
            raise
        return self._current is not None and self._current[0] == key

    def value(self, key: str) -> Any:
        if not self.has(key):
            self.missing(key)
        assert self._current is not None
        return self._current[1]
