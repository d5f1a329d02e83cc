"""Where a table's entries are written to: one archive, or a file each (Kaldi: src/util/kaldi-table-inl.h)."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Generic, TypeVar

from io_ark.codecs import Codec
from io_ark.errors import ArkError, ClosedError, WriteError
from io_ark.specifier import Wspecifier, parse_wspecifier, parse_wxfilename
from io_ark.streams.output import open_output
from io_ark.tables.batches import Pending, pending_entries
from io_ark.tables.keys import check_key, encode_key
from io_ark.tables.loader import codec_of, name_key
from io_ark.tables.script import Script

logger = logging.getLogger("io_ark")

Value = TypeVar("Value")


class Pieces:
    """Gathers what a codec writes, so that a value it refuses leaves no half object behind."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.write = self.pieces.append


class ToArchive:
    """One stream for all objects, and maybe a script file that says where each one is."""

    def __init__(self, table: Wspecifier, pipes: bool) -> None:
        self._table = table
        self._archive = open_output(table.archive, pipes=pipes)
        self._script = None
        if table.kind == "both":
            if parse_wxfilename(table.archive).kind != "file":
                logger.warning("%s: a script file cannot point into what is not a file", self._archive.name)
            try:
                self._script = open_output(table.script, pipes=pipes)
            except ArkError:
                self._archive.close()
                raise

    def write(self, key: str, pieces: list[Any]) -> None:
        name = encode_key(key) + b" "
        self._archive.write(name)
        if self._script is not None:
            self._script.write(name + encode_key(f"{self._table.archive}:{self._archive.tell()}\n"))
        for piece in pieces:
            self._archive.write(piece)
        if self._table.flush:
            self.flush()

    def pending(self, codec: Codec[Any]) -> Pending | None:
        """Return what gathers small entries; None if each has to be written at once, or its place be known."""
        if self._script is not None or self._table.flush:
            return None
        return pending_entries(codec, self._table.binary, self._archive)

    def flush(self) -> None:
        self._archive.flush()
        if self._script is not None:
            self._script.flush()

    def close(self) -> None:
        try:
            self._archive.close()
        finally:
            if self._script is not None:
                self._script.close()


class ToScript:
    """A stream for each object: a script file, which is there already, says which."""

    def __init__(self, table: Wspecifier, pipes: bool) -> None:
        self._table = table
        self._pipes = pipes
        self._script = Script.open(table.script, pipes=pipes)
        self._script.check_unique()

    def write(self, key: str, pieces: list[Any]) -> None:
        wxfilename = self._script.get(key)
        if wxfilename is None:
            if self._table.permissive:
                return
            raise WriteError("the script has no entry for this key: where should it go?", file=self._table.script)
        with open_output(wxfilename, pipes=self._pipes) as output:
            for piece in pieces:
                output.write(piece)

    def pending(self, codec: Codec[Any]) -> None:
        """Nothing is gathered."""

    def flush(self) -> None:
        """Each object has been handed on already."""

    def close(self) -> None:
        """Each object's stream is closed already."""


class Writer(Generic[Value]):
    """Writes a table.

    Args:
        kind: what the objects are, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        wspecifier: the table, such as ``ark:feats.ark``, ``ark,t:-`` or ``ark,scp:feats.ark,feats.scp``, or the parsed
            form.
        pipes: whether commands may be run.
        options: what the codec takes, such as ``method`` for "compressed-matrix".

    Raises:
        ArkError: the table cannot be opened or written; a key or value is none that it can hold. After
            :meth:`close` returned, everything has been handed to the system.

    >>> with Writer("matrix", "ark,scp:feats.ark,feats.scp") as writer:  # doctest: +SKIP
    ...     writer["utt1"] = np.zeros((10, 3), np.float32)
    """

    def __init__(
        self, kind: str | Codec[Any], wspecifier: str | Wspecifier, *, pipes: bool = True, **options: Any
    ) -> None:
        self._encoder = codec_of(kind, options)
        self._table = parse_wspecifier(wspecifier) if isinstance(wspecifier, str) else wspecifier
        target = ToScript if self._table.kind == "scp" else ToArchive
        self._target: ToScript | ToArchive = target(self._table, pipes)
        self._closed = False
        self._pending = self._target.pending(self._encoder)

    def write(self, key: str, value: Value) -> None:
        """Add a key and its value to the table."""
        if self._pending is not None:
            if self._pending.add(key, value):
                return
            self._pending.send()
        if self._closed:
            raise ClosedError("the writer is closed", key=key)
        check_key(key)
        gathered = Pieces()
        try:
            self._encoder.write(gathered, value, binary=self._table.binary)
            self._target.write(key, gathered.pieces)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__

    __setitem__ = write

    def flush(self) -> None:
        """Hand all that was written to the system."""
        if self._pending is not None:
            self._pending.send()
        self._target.flush()

    def close(self) -> None:
        """Finish the table; a second call does nothing.

        Raises:
            WriteError, PipeError: not all of it got there.
        """
        if not self._closed:
            self._closed = True
            pending, self._pending = self._pending, None
            try:
                if pending is not None:
                    pending.send()
            finally:
                self._target.close()

    def __enter__(self) -> Writer[Value]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        try:
            self.close()
        except ArkError as failure:
            if kind is None:
                raise
            logger.error("%s", failure)  # the exception on its way is what came first
