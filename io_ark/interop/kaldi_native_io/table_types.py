"""kaldi_native_io's readers and writers, made of the rows in :mod:`io_ark.interop.kaldi_native_io.kinds`.

Type checkers and editors read ``table_types.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

from typing import Any

from io_ark.interop.kaldi_native_io.kinds import ROWS, CompressedMatrixWriter, Row
from io_ark.interop.kaldi_native_io.tables import RandomAccessTableReader, SequentialTableReader, TableWriter


def classes_of(row: Row) -> dict[str, tuple[type, str]]:
    """Return the base class and the docstring of each class of a kind of table, by name."""
    classes: dict[str, tuple[type, str]] = {
        f"Sequential{row.name}Reader": (SequentialTableReader, f"Reads a table of values of type {row.value}."),
        f"RandomAccess{row.name}Reader": (RandomAccessTableReader, f"Looks up a table of values of type {row.value}."),
    }
    if row.is_written:
        classes[f"{row.name}Writer"] = (TableWriter, f"Writes a table of values of type {row.value}.")
    return classes


def _made(name: str, base: type, text: str, row: Row) -> type:
    convert = row.write if base is TableWriter else row.read
    body: dict[str, Any] = {"_kind": row.kind, "_convert": staticmethod(convert)}
    return type(name, (base,), {"__doc__": text, "__module__": __name__, **body})


_CLASSES = {name: _made(name, *made, row) for row in ROWS for name, made in classes_of(row).items()}
globals().update(_CLASSES)
__all__ = sorted([*_CLASSES, CompressedMatrixWriter.__name__])
