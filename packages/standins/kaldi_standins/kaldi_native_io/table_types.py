"""Readers, writers and functions that read one value, generated from :data:`kaldi_standins.kaldi_native_io.kinds.ROWS`.

Type checkers and editors read ``table_types.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from io_ark import load
from kaldi_standins.kaldi_native_io.errors import as_table_error
from kaldi_standins.kaldi_native_io.kinds import ROWS, CompressedMatrixWriter, Row
from kaldi_standins.kaldi_native_io.tables import RandomAccessTableReader, SequentialTableReader, TableWriter


def describe_classes(row: Row) -> dict[str, tuple[type, str]]:
    """Return the base class and the docstring of each reader and writer for ``row``, by class name."""
    classes: dict[str, tuple[type, str]] = {
        f"Sequential{row.name}Reader": (SequentialTableReader, f"Reads a table of values of type {row.value}."),
        f"RandomAccess{row.name}Reader": (RandomAccessTableReader, f"Looks up values of type {row.value} by key."),
    }
    if row.is_written:
        classes[f"{row.name}Writer"] = (TableWriter, f"Writes a table of values of type {row.value}.")
    return classes


def _make_class(name: str, base: type, docstring: str, row: Row) -> type:
    """Create a class of readers or writers for a kind of table."""
    convert = row.write if base is TableWriter else row.read
    body: dict[str, Any] = {"_kind": row.kind, "_convert": staticmethod(convert)}
    return type(name, (base,), {"__doc__": docstring, "__module__": __name__, **body})


def make_reading_function(row: Row) -> Callable[..., Any]:
    """Return the function, named ``row.function``, that reads one value of a kind of object from an rxfilename."""

    def read(rxfilename: str, *, pipes: bool = True, network: bool = True) -> Any:
        with as_table_error():
            return row.read(load(rxfilename, kind=row.kind, pipes=pipes, network=network))

    read.__name__ = read.__qualname__ = row.function
    read.__doc__ = f"""Read a value of type {row.value}.

    Args:
        rxfilename: location of the object, such as ``a.ark:123``.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        TableError: the object cannot be opened or read.
    """
    return read


_CLASSES = {name: _make_class(name, *base, row) for row in ROWS for name, base in describe_classes(row).items()}
_FUNCTIONS = {row.function: make_reading_function(row) for row in ROWS if row.function}
globals().update(_CLASSES | _FUNCTIONS)
__all__ = sorted([*_CLASSES, *_FUNCTIONS, CompressedMatrixWriter.__name__])
