"""Look up the values of keys in a table. The options of the table decide which values stay in memory.

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
    format_warning,
)
from io_ark.logs import logger
from io_ark.specifier import Rspecifier, parse_rspecifier
from io_ark.streams.access import Access
from io_ark.streams.input import Input, open_input
from io_ark.tables.blocks import read_entries
from io_ark.tables.keys import check_key, decode_key, encode_key
from io_ark.tables.loader import Loader, resolve_codec
from io_ark.tables.readers import WholeReads
from io_ark.tables.script import Script

T = TypeVar("T")
Value = TypeVar("Value", covariant=True)


class RandomAccessReader(Generic[Value]):
    """Looks up values of a table by key.

    The constructor reads the lines of a script file, and each access reads an object. An archive is read up to the
    requested key, and the values stay in memory. Two options save memory. With ``o`` (keys are looked up once), a value
    is released when it is returned. With ``s,cs`` (the archive and the lookups are sorted), only one object stays in
    memory. With ``s`` (the archive is sorted), reading stops at the first greater key.

    Args:
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark,s,cs:-``.
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or your own codec.
        utt2spk: rspecifier of a table that maps utterances to speakers. If set, keys are utterances, and the reader
            returns the values of the speakers. By default, keys are looked up unchanged.
        pipes: False to refuse commands.
        network: False to refuse URLs.
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened or read, or violates the options ``s`` or ``cs``.
        MissingKeyError: ``reader[key]`` does not find the key, or ``utt2spk`` lacks it (except in :meth:`get_many`).

    >>> import io_ark, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with io_ark.writer(f"ark,scp:{folder}/feats.ark,{folder}/feats.scp") as writer:
    ...     writer["utt1"] = np.zeros((98, 40), np.float32)
    >>> with io_ark.RandomAccessReader(f"scp:{folder}/feats.scp", kind="matrix") as reader:
    ...     "utt2" in reader, reader["utt1"].shape
    (False, (98, 40))
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
        self._lookup = _open_lookup(table, resolve_codec(kind, options), Access(pipes, network))
        if utt2spk:
            self._speakers = RandomAccessReader(utt2spk, kind="token", pipes=pipes, network=network)

    def __contains__(self, key: str) -> bool:
        return self._lookup.has(key if self._speakers is None else self._find_speaker(key))

    def __getitem__(self, key: str) -> Value:
        value: Value = self._lookup.get(key if self._speakers is None else self._find_speaker(key))
        return value

    @overload
    def get(self, key: str) -> Value | None: ...
    @overload
    def get(self, key: str, default: T) -> Value | T: ...
    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if the key is not in the table.

        Raises:
            ArkError: the object cannot be read, or ``utt2spk`` lacks the key.
        """
        return self[key] if key in self else default  # noqa: SIM401 (this is that method)

    def get_many(self, keys: Sequence[str]) -> list[Value] | None:
        """Look up many keys at once, which is faster than single lookups.

        Returns:
            The values in the order of the keys. None if a key is missing, or if the table supports single lookups only:
            a script file, or an archive with the option ``o`` or ``s,cs``.

        Raises:
            ArkError: an object cannot be read.
        """
        table_keys: Sequence[str] | None = keys if self._speakers is None else self._speakers.get_many(keys)
        return None if table_keys is None else self._lookup.get_many(table_keys)

    def _find_speaker(self, key: str) -> str:
        """Return the speaker of the utterance ``key``. Raise MissingKeyError if the utt2spk map lacks the utterance."""
        assert self._speakers is not None
        if key not in self._speakers:
            raise MissingKeyError("is not in the utt2spk map: add a line for the utterance, or, if this is a speaker, "
                                  "check the order of the two tables", key=key)  # fmt: skip
        return self._speakers[key]

    def close(self) -> None:
        """Close the table. A second call does nothing."""
        self._lookup.close()
        if self._speakers is not None:
            self._speakers.close()

    def __enter__(self) -> RandomAccessReader[Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_lookup(table: Rspecifier, codec: Codec[Any], access: Access) -> Lookup:
    """Return the lookup for the kind and the options of a table."""
    if table.kind == "scp":
        return ScriptLookup(table, codec, access)
    if table.sorted and table.called_sorted:
        return SortedArchiveLookup(table, codec, access)
    return ArchiveLookup(table, codec, access)


class Lookup:
    """Base class of lookups of values by key. The subclasses differ in the values that stay in memory.

    Keys that are in memory or in a script file are not checked for invalid characters, which saves time. The subclasses
    also take the codec of the values, and the permission to run commands and to open URLs.

    Attributes:
        table: parsed rspecifier of the table.
        closed: True after :meth:`close`.
        reads: context of all reads. After a failed read, every read raises an error, because bytes after a damaged
            entry may look like entries, keys after a key out of order may look sorted, and the bytes of an interrupted
            read are lost.
    """

    def __init__(self, table: Rspecifier) -> None:
        self.table = table
        self.closed = False
        self.reads = WholeReads(table.rxfilename)

    def has(self, key: str) -> bool:
        """Return True if the table has the key."""
        raise NotImplementedError

    def get(self, key: str) -> Any:
        """Return the value of a key. Raise :class:`MissingKeyError` if the key is not in the table."""
        raise NotImplementedError

    def get_many(self, keys: Sequence[str]) -> list[Any] | None:
        """Return the values of many keys, or None if a key is missing. The base class always returns None."""
        return None

    def close(self) -> None:
        self.closed = True

    def refuse_missing(self, key: str) -> NoReturn:
        """Raise :class:`MissingKeyError`, or :class:`KeyFormatError` if the key cannot be in any table."""
        check_key(key)
        message = "the key is not in the table: `ark ls` lists the keys"
        raise MissingKeyError(message, file=self.table.rxfilename, key=key)

    def check_open(self) -> None:
        """Raise :class:`ClosedError` if the reader is closed."""
        if self.closed:
            raise ClosedError("the reader is closed: open a new reader", file=self.table.rxfilename)


class ScriptLookup(Lookup):
    """Lookup in a script file. The object of a key is read when it is looked up."""

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table)
        self._loader = Loader(codec, access)
        self._script = Script.open(table.rxfilename, access)
        if table.sorted:
            self._script.check_sorted()
        else:
            self._script.check_unique()
        self._loaded: tuple[str, Any] | None = None  # Entry that `has` has read, so that `get` need not read it again.

    def has(self, key: str) -> bool:
        """Return True if the table has the key. With the option ``p``, return False if its object is unreadable."""
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
            raise  # As in Kaldi, a wrong range is an error even with the option p.
        except ArkError as error:
            logger.warning("%s (the key is treated as missing, because of the option p)", format_warning(error))
            return False
        return True

    def get(self, key: str) -> Any:
        if self.closed:
            self.check_open()
        if self._loaded is not None:
            (loaded_key, value), self._loaded = self._loaded, None
            if loaded_key == key:
                return value
        rxfilename = self._script.get(key)
        if rxfilename is None:
            self.refuse_missing(key)
        return self._loader.load_value(key, rxfilename)

    def close(self) -> None:
        super().close()
        self._loader.close()


class _ArchiveScan(Lookup):
    """Base class of lookups that read an archive from the start up to the requested keys.

    With the option ``p``, a read error ends the archive with a warning.
    """

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table)
        self._codec = codec
        self._input: Input | None = open_input(table.rxfilename, access=access)
        self._entries = read_entries(self._input.source, self._codec)
        self._previous: bytes | None = None  # Key of the last entry that was read from a sorted archive.

    def read_next_entries(self) -> Iterator[tuple[str, Any]]:
        """Yield the remaining entries. With the option ``s``, raise OrderError if they are not sorted.

        With the option ``p``, log a warning and end at a damaged entry or after a failed command.
        """
        self.check_open()
        self.reads.raise_failure()
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
            logger.warning("%s (treated as the end of the archive, because of the option p)",
                           format_warning(error, READ_FAILED))  # fmt: skip
            self._close_input()

    def _check_order(self, key: str) -> None:
        """Raise :class:`OrderError` unless the bytes of a key are greater than the bytes of the previous key."""
        current = encode_key(key)
        if self._previous is not None and current <= self._previous:
            self.refuse_order(key,
                              f"comes after {decode_key(self._previous)!r}: the table has the option s, but is not "
                              "sorted or has a duplicate key; sort it, or omit the option s")  # fmt: skip
        self._previous = current

    def refuse_order(self, key: str, message: str) -> NoReturn:
        raise OrderError(message, file=self.table.rxfilename, key=key)

    def _close_input(self) -> None:
        """Close the archive if it is open, so that no more entries are read."""
        opened, self._input = self._input, None
        self._entries.close()
        if opened is not None:
            opened.close()

    def close(self) -> None:
        super().close()
        self._close_input()


class ArchiveLookup(_ArchiveScan):
    """Lookup in an archive. The values that were read stay in memory; with ``o``, a value is released when returned.

    With the option ``s``, reading stops at the first greater key.
    """

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table, codec, access)
        self._values: dict[str, Any] = {}
        self._released: dict[str, None] = {}  # Keys of released values, in the order of the lookups.

    def has(self, key: str) -> bool:
        """Read entries up to ``key``, and return True if the archive has the key.

        For a key whose value was released, raise OrderError if Kaldi remembers the key, or else warn and return False.
        """
        self.check_open()
        if key in self._values:
            return True
        check_key(key)
        if self._read_up_to(key, self.read_next_entries()):
            return True
        if key in self._released:
            # Kaldi remembers all released keys of a sorted table, and only the first released key of other tables.
            if self.table.sorted or key == next(iter(self._released)):
                self._refuse_again(key)
            logger.warning(
                "%s: %s: was released because of the option o, and is treated as missing", self.table.rxfilename, key
            )
        return False

    def _read_up_to(self, key: str, entries: Iterator[tuple[str, Any]]) -> bool:
        """Store entries up to ``key`` or, with the option ``s``, a greater key. Return True if ``key`` is found.

        Raise OrderError for a duplicate key.
        """
        values, is_sorted = self._values, self.table.sorted
        if is_sorted and self._is_past(key):
            self.reads.raise_failure()
            return False
        try:
            for entry_key, value in entries:
                if entry_key in values:
                    self.refuse_order(entry_key, "is a duplicate key in the archive: remove one of its entries")
                values[entry_key] = value
                if entry_key == key:
                    return True
                if is_sorted and self._is_past(key):
                    break
        except BaseException as error:  # The generator has ended, so later reads must not end without an error.
            self.reads.record_failure(error)
            raise
        return False

    def _is_past(self, key: str) -> bool:
        return self._previous is not None and encode_key(key) <= self._previous

    def get(self, key: str) -> Any:
        if not self.has(key):
            if key in self._released:
                self._refuse_again(key)
            self.refuse_missing(key)
        if not self.table.once:
            return self._values[key]
        self._released[key] = None
        return self._values.pop(key)

    def get_many(self, keys: Sequence[str]) -> list[Any] | None:
        self.check_open()
        if self.table.once:
            return None
        values, entries = self._values, self.read_next_entries()
        for key in keys:
            if key not in values and not self._read_up_to(key, entries):
                return None
        return [values[key] for key in keys]

    def _refuse_again(self, key: str) -> NoReturn:
        raise OrderError("was looked up twice: omit the option o of the table", file=self.table.rxfilename, key=key)

    def close(self) -> None:
        super().close()
        self._values.clear()


class SortedArchiveLookup(_ArchiveScan):
    """Lookup of sorted keys in a sorted archive. Only one object is in memory."""

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access) -> None:
        super().__init__(table, codec, access)
        self._current: tuple[str, Any] | None = None  # Entry that was read last.
        self._last_key = b""  # Key of the last lookup.

    def has(self, key: str) -> bool:
        """Return True if the archive has the key. Entries with smaller keys are skipped, and cannot be read later.

        Raise OrderError if an earlier lookup was for a greater key.
        """
        self.check_open()
        self.reads.raise_failure()
        check_key(key)
        encoded_key = encode_key(key)
        if encoded_key < self._last_key:
            raise OrderError(f"is looked up after {decode_key(self._last_key)!r}, but the table has the option cs "
                             "(sorted calls): sort the lookups, or omit the option", file=self.table.rxfilename,
                             key=key)  # fmt: skip
        self._last_key = encoded_key
        try:
            while self._previous is None or self._previous < encoded_key:
                self._current = None
                self._current = next(self.read_next_entries(), None)
                if self._current is None:
                    return False
        except BaseException as error:
            self.reads.record_failure(error)
            raise
        return self._current is not None and self._current[0] == key

    def get(self, key: str) -> Any:
        if not self.has(key):
            self.refuse_missing(key)
        assert self._current is not None
        return self._current[1]
