"""Checks of arguments, and look-up of files in data directories."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

from io_ark.text import quote_value
from kaldi_compat.errors import OptionError


def check_whole_number(name: str, value: Any, at_least: int = 0) -> int:
    """Return an argument as an integer.

    Args:
        name, value: name of the argument for the error, and value.
        at_least: smallest valid value.

    Raises:
        OptionError: the value is not an integer, or is smaller than ``at_least``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name}={quote_value(value)} must be a whole number") from None
    if number < at_least:
        raise OptionError(f"{name}={quote_value(number)} must be at least {at_least}")
    return number


def check_positive_number(name: str, value: Any) -> float:
    """Return ``value``, the argument ``name``, as a float.

    Raises:
        OptionError: the value is not a positive, finite number.
    """
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if not 0 < number < math.inf:
        raise OptionError(f"{name}={quote_value(value)} must be a positive, finite number")
    return number


def check_functions(**functions: Any) -> None:
    """Check arguments that are functions or None.

    Raises:
        OptionError: an argument is a class, or cannot be called.
    """
    for name, function in functions.items():
        if isinstance(function, type):
            raise OptionError(f"{name}={function.__name__} is a class: pass {function.__name__}(...)")
        if function is not None and not callable(function):
            raise OptionError(f"{name} must be a function, not {type(function).__name__}")


def find_file(path: str | os.PathLike[str], name: str) -> str | os.PathLike[str]:
    """Return the file ``name`` in a data directory, or the path itself if it is not a directory."""
    return os.path.join(path, name) if os.path.isdir(path) else path
