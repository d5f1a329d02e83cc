"""Where a table's entries are written to: one archive, or a file each (Kaldi: src/util/kaldi-table-inl.h)."""

from __future__ import annotations

import logging
from typing import Any

from io_ark.errors import ArkError, WriteError
from io_ark.keys import encode_key
from io_ark.script import Script
from io_ark.specifier import Wspecifier, parse_wxfilename
from io_ark.streams import open_output

logger = logging.getLogger("io_ark")


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

    def flush(self) -> None:
        """Each object has been handed on already."""

    def close(self) -> None:
        """Each object's stream is closed already."""
