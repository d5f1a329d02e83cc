"""Describe entries of tables as columns of text or as JSON objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from io_ark.blocks import ArrayInfo
from io_ark.cli.entries import StoredEntry
from io_ark.cli.terminal import color_text
from io_ark.codecs.base import VALUE_KINDS
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.text import escape, format_count

# Control characters that json.dumps does not escape, but that may change the state of a terminal.
_CONTROLS = re.compile("[\x7f-\x9f]")


def describe_kind(value: Any) -> str:
    """Describe the kind of an object in a few words, such as ``int vector`` or ``audio 16000 Hz``."""
    if isinstance(value, Wave | WaveInfo):
        return f"audio {value.sample_frequency:g} Hz"
    if isinstance(value, np.ndarray | ArrayInfo):
        name = {0: "scalar", 1: "vector", 2: "matrix"}.get(value.ndim, "array")
        return f"int {name}" if value.dtype.kind in "iu" else name
    return {"str": "token", "dict": "dictionary"}.get(type(value).__name__, type(value).__name__)


def format_shape(entry: StoredEntry) -> str:
    """Format the shape of an entry, such as ``98 x 80``. Return ``-`` for an entry without a shape."""
    return " x ".join(map(str, entry.shape)) or "-"


def describe_value(value: Any) -> str:
    """Describe the kind and shape of a value, such as ``matrix 98 x 80``."""
    return f"{describe_kind(value)} {format_shape(StoredEntry('', '', '', value))}".removesuffix(" -")


def describe_fields(value: Any, indent: str = "") -> Iterator[str]:
    """Yield lines, indented by ``indent``, with the fields and ``config`` of a model, or the items of a dictionary."""
    items = value.items() if isinstance(value, dict) else ((f.name, getattr(value, f.name)) for f in fields(value))
    for name, item in items:
        if isinstance(item, np.ndarray):
            value_range = f", {item.min():.6g} to {item.max():.6g}" if item.size else ""
            yield f"{indent}{name}: {item.dtype} {' x '.join(map(str, item.shape))}{value_range}"
        elif is_dataclass(item):
            has_own_repr = not getattr(item, "__dataclass_params__").repr  # noqa: B009 (not known to mypy)
            yield f"{indent}{name}: {item if has_own_repr else type(item).__name__}"
            # The nodes of a tree are omitted, because they may be nested to any depth.
            if has_own_repr or type(item) in VALUE_KINDS:
                yield from describe_fields(item, f"{indent}  ")
        else:
            has_length = isinstance(item, bytes | tuple | list)
            unit = " bytes" if isinstance(item, bytes) else ""
            yield escape(f"{indent}{name}: {len(item) if has_length else item}{unit}")
    for line in getattr(value, "config", ()):
        yield escape(f"{indent}{line}")


def format_entry(entry: StoredEntry) -> str:
    """Return the line of ``ark ls`` for an entry: key, kind, shape, storage and location, separated by tabs.

    For an unreadable entry, the line contains the key, the word "unreadable" and the error.
    """
    key = color_text(escape(entry.key) or "-", "cyan" if entry.error is None else "red")
    if entry.error is not None:
        return f"{key}\tunreadable\t{entry.error}"
    location = color_text(escape(entry.where), "faint")
    return f"{key}\t{describe_kind(entry.value)}\t{format_shape(entry)}\t{entry.stored}\t{location}"


def convert_entry(entry: StoredEntry) -> dict[str, Any]:
    """Convert an entry to the dictionary that ``ark ls --json`` prints."""
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
    """Print a value as one line of JSON. NaN and infinities become strings, because JSON has no such numbers."""
    text = json.dumps(convert_to_json(value), ensure_ascii=False, allow_nan=False)
    print(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def convert_to_json(value: Any) -> Any:
    """Convert a value to types that JSON can represent.

    Arrays become lists, and audio and dataclasses become dictionaries. NaN, infinities and values of unknown types
    become strings, and bytes become a string with their number, such as "3 bytes".
    """
    if isinstance(value, Wave):
        return {"sample_frequency": value.sample_frequency, "samples": value.samples.tolist()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: convert_to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return convert_to_json(value.tolist())
    if isinstance(value, dict):
        return {str(name): convert_to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_json(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return format_count(len(value), "byte")
    return value if isinstance(value, str | int | float | bool | None) else str(value)
