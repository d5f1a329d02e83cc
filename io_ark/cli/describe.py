"""Describe entries of tables: as columns of text, as objects of JSON, and values in full."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from io_ark.blocks import ArrayInfo
from io_ark.cli.entries import Entry
from io_ark.cli.terminal import colour_text
from io_ark.codecs.base import VALUE_KINDS
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.text import escape

# Control characters that JSON does not escape.
_CONTROLS = re.compile("[\x7f-\x9f]")


def describe_kind(value: Any) -> str:
    """Describe the kind of an object, or of the object that a shape belongs to, in a word or two."""
    if isinstance(value, Wave | WaveInfo):
        return f"audio {value.sample_frequency:g} Hz"
    if isinstance(value, np.ndarray | ArrayInfo):
        name = {0: "scalar", 1: "vector", 2: "matrix"}.get(value.ndim, "array")
        return f"int {name}" if value.dtype.kind in "iu" else name
    return {"str": "token", "dict": "dictionary"}.get(type(value).__name__, type(value).__name__)


def count_of(count: int, one: str, more: str = "") -> str:
    """Format a count and a noun: ``1 entry``, ``2 entries``."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def size(entry: Entry) -> str:
    """Format the shape of an entry: ``98 x 80``, or ``-`` if it has none."""
    return " x ".join(map(str, entry.shape)) or "-"


def description(value: Any) -> str:
    """Describe kind and shape of a value: ``matrix 98 x 80``."""
    return f"{describe_kind(value)} {size(Entry('', '', '', value))}".removesuffix(" -")


def outline(value: Any, indent: str = "") -> Iterator[str]:
    """Yield lines that say what is inside of a model or a dictionary."""
    items = (
        value.items() if isinstance(value, dict) else ((each.name, getattr(value, each.name)) for each in fields(value))
    )
    for name, each in items:
        if isinstance(each, np.ndarray):
            span = f", {each.min():.6g} to {each.max():.6g}" if each.size else ""
            yield f"{indent}{name}: {each.dtype} {' x '.join(map(str, each.shape))}{span}"
        elif is_dataclass(each):
            is_short = not getattr(each, "__dataclass_params__").repr  # noqa: B009  # its class has one of its own
            yield f"{indent}{name}: {each if is_short else type(each).__name__}"
            if is_short or type(each) in VALUE_KINDS:  # but no nodes of trees, which may be nested deeply
                yield from outline(each, f"{indent}  ")
        else:
            sized = isinstance(each, bytes | tuple | list)
            yield escape(f"{indent}{name}: {len(each) if sized else each}{' bytes' if isinstance(each, bytes) else ''}")
    for line in getattr(value, "config", ()):
        yield escape(f"{indent}{line}")


def entry_line(entry: Entry) -> str:
    """Return the line of ``ark ls`` for an entry: key, kind, shape, storage and location, separated by tabs."""
    key = colour_text(escape(entry.key) or "-", "cyan" if entry.error is None else "red")
    if entry.error is not None:
        return f"{key}\tunreadable\t{entry.error}"
    where = colour_text(escape(entry.where), "faint")
    return f"{key}\t{describe_kind(entry.value)}\t{size(entry)}\t{entry.stored}\t{where}"


def entry_object(entry: Entry) -> dict[str, Any]:
    """Return what ``ark ls --json`` prints of an entry."""
    if entry.error is not None:
        return {"key": entry.key, "error": str(entry.error)}
    return {
        "key": entry.key,
        "kind": describe_kind(entry.value),
        "shape": list(entry.shape),
        "stored": entry.stored,
        "where": entry.where,
    }


def print_json(value: Any) -> None:
    """Print a value as one line of JSON. NaN and infinities, which JSON lacks, are strings."""
    text = json.dumps(as_json(value), ensure_ascii=False, allow_nan=False)
    print(_CONTROLS.sub(lambda char: f"\\u{ord(char[0]):04x}", text))


def as_json(value: Any) -> Any:
    """Convert a value to what JSON can hold.

    >>> import numpy as np
    >>> as_json({"a": np.float32([0.5, np.nan])})
    {'a': [0.5, 'nan']}
    """
    if isinstance(value, Wave):
        return {"sample_frequency": value.sample_frequency, "samples": value.samples.tolist()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value if isinstance(value, str | int | float | bool | None) else str(value)
