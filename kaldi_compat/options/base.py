"""Declare options: a field of a frozen dataclass with its default, range and one-line meaning.

Flags of the programs, lines of configuration files, keyword arguments of the modules, help texts and documentation all
derive from this one declaration: the field ``num_mel_bins`` is the flag ``--num-mel-bins``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from kaldi_compat.errors import OptionError

MOST = 1e9  # of a rate in Hz, or a time in ms
INT32 = range(-(2**31), 2**31)


def option(default: bool | int | float | str, meaning: str, *, flag: str = "") -> Any:
    """A dataclass field that is an option: its default and, in one line, what it means.

    The flag is the field's name with hyphens; ``flag`` is for the rare one that Kaldi spells otherwise.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "flag": flag})


def meaning(field: dataclasses.Field[Any]) -> str:
    """The one-line meaning that an option was declared with."""
    return str(field.metadata.get("meaning", ""))


def require(holds: bool, message: str) -> None:
    """Raise :class:`OptionError` with this message unless the condition holds."""
    if not holds:
        raise OptionError(message)


def as_float32(value: float) -> float:
    """The value of a Kaldi option of type float: single precision, which decides the last digits of what follows."""
    return float(np.float32(value)) if math.isfinite(value) else value


class Options:
    """Base of the dataclasses of options. What a field's default is, its value is: a number, a text, true or false."""

    def __post_init__(self) -> None:
        fields: Any = dataclasses.fields(self)  # type: ignore[arg-type]
        for field in fields:
            value = _as_kind(type(field.default), getattr(self, field.name))
            require(
                value is not None,
                f"{field.name} must be {_KINDS[type(field.default)]}, not {getattr(self, field.name)!r}",
            )
            object.__setattr__(self, field.name, value)


_KINDS = {bool: "True or False", int: "an integer of 32 bits", float: "a number", str: "a text"}


def _as_kind(kind: type[Any], value: Any) -> Any:
    """The value as one of this kind of option, or None if it is of another kind."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value) if kind is bool else None
    if isinstance(value, (int, np.integer)):
        return kind(value) if kind is float or (kind is int and int(value) in INT32) else None
    if isinstance(value, (float, np.floating)):
        return float(value) if kind is float else None
    return value if kind is str and isinstance(value, str) else None


def _require_sizes(options: Options, *names: str) -> None:
    """Raise :class:`OptionError` unless these rates and times are such that samples can be counted by them."""
    for name in names:
        value = getattr(options, name)
        require(0 < value < MOST, f"{name} must be positive and less than {MOST:g}, not {value:g}")
