"""Checks of arguments, and look-up of files in data directories."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

from torch import nn

from io_ark.text import quote_value
from kaldi_compat.errors import AudioError, OptionError


def check_whole_number(name: str, value: Any, at_least: int = 0) -> int:
    """Return the argument ``name`` as an int. Raise OptionError unless it is an integer >= ``at_least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name}={quote_value(value)} must be a whole number") from None
    if number < at_least:
        raise OptionError(f"{name}={quote_value(number)} must be at least {at_least}")
    return number


def check_positive_number(name: str, value: Any) -> float:
    """Return the argument ``name`` as a float. Raise OptionError unless it is a positive, finite number."""
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if not 0 < number < math.inf:
        raise OptionError(f"{name}={quote_value(value)} must be a positive, finite number")
    return number


def check_functions(**functions: Any) -> None:
    """Raise OptionError unless every argument, passed by its name, is None or callable. Classes are refused."""
    for name, function in functions.items():
        if isinstance(function, type):
            raise OptionError(f"{name}={function.__name__} is a class: pass {function.__name__}(...)")
        if function is not None and not callable(function):
            raise OptionError(f"{name} must be a function, not {type(function).__name__}")


def find_file(path: str | os.PathLike[str], name: str) -> str | os.PathLike[str]:
    """Return the path of the file ``name`` in the data directory ``path``, or ``path`` if it is not a directory."""
    return os.path.join(path, name) if os.path.isdir(path) else path


def find_rate(feature: object) -> float | None:
    """Return the sampling rate in Hz that ``feature`` expects, or None for a function or a module without a rate."""
    while isinstance(feature, nn.Sequential) and feature:
        feature = feature[0]  # The first module of a sequence receives the audio.
    if not isinstance(feature, nn.Module):
        return None
    options = getattr(feature, "options", None)
    rate = getattr(feature, "sampling_rate", getattr(options, "sample_frequency", None))
    return float(rate) if isinstance(rate, int | float) else None


def check_rate(key: str, rate: float, expected: float | None) -> None:
    """Raise an AudioError if the rate of an utterance's audio differs from the rate that the features expect.

    Both rates are in Hz. ``expected`` is None if any rate is valid. The error shows ``key``, the utterance's key.
    """
    if expected not in (None, rate):
        raise AudioError(
            f"{key}: the audio has a rate of {rate:g} Hz, but the features need {expected:g} Hz: pass "
            f"sample_frequency={expected:g} to the data set to resample the audio, or features for its rate"
        )
