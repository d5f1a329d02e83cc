"""Declare a single option: default, unit, range and a one-line meaning, kept as metadata of a dataclass field.

>>> from dataclasses import dataclass, fields
>>> @dataclass(frozen=True)
... class LoudnessOptions:
...     gain: float = option(0.0, "added to the level", unit="dB", ge=-60, le=60)
>>> info(fields(LoudnessOptions)[0]).description
'added to the level, in dB; from -60 to 60'
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

Scalar = bool | int | float | str

LIMIT = 1e9  # Rates in Hz and times in ms are smaller, so that numbers of samples fit into 64 bits.
# Names that other libraries have for options of all features.
RATE_NAMES = ("sample_rate", "sampling_rate", "samp_freq", "sr", "fs", "rate")
LENGTH_NAMES = ("win_length", "window_length", "window_size", "winlen", "n_fft", "frame_size")
SHIFT_NAMES = ("hop_length", "hop_size", "window_shift", "winstep", "stride", "frame_step")


@dataclass(frozen=True)
class OptionInfo:
    """Everything about an option but its name, type and default."""

    meaning: str  # one line, without unit and range
    unit: str = ""  # unit of a number, such as ``"Hz"``
    ge: float | None = None  # smallest value; an infinite bound requires a finite number
    gt: float | None = None  # the value is greater than this
    le: float | None = None  # largest value
    lt: float | None = None  # the value is less than this
    choices: tuple[str, ...] = ()  # the allowed strings; empty if all strings are allowed
    flag: str = ""  # the name on the command line, where it is not the field's with hyphens
    known_as: tuple[str, ...] = ()  # names of this option in other libraries, for which an error message suggests ours

    def allows(self, value: Scalar) -> bool:
        """Return whether a value of the right type lies in the range. NaN lies in none."""
        if isinstance(value, str):
            return not self.choices or value in self.choices
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    @property
    def range(self) -> str:
        """Description of the range, "" if all values of the type are allowed."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.ge is not None and self.le is not None:
            return f"from {self.ge:g} to {self.le:g}"
        bounds = []
        if self.ge is not None:
            bounds.append(f"at least {self.ge:g}")
        if self.gt is not None and math.isfinite(self.gt):
            bounds.append("positive" if self.gt == 0 else f"greater than {self.gt:g}")
        if self.le is not None:
            bounds.append(f"at most {self.le:g}")
        if self.lt is not None:
            bounds.append(f"less than {self.lt:g}" if math.isfinite(self.lt) else "finite")
        return " and ".join(bounds)

    @property
    def description(self) -> str:
        """Meaning, unit and range in one line."""
        unit = f", in {self.unit}" if self.unit else ""
        allowed = f"; {self.range}" if self.range else ""
        meaning, semicolon, more = self.meaning.partition(";")
        return f"{meaning}{unit}{semicolon}{more}{allowed}"


def option(
    default: Scalar,
    meaning: str,
    *,
    unit: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[str, ...] = (),
    flag: str = "",
    known_as: tuple[str, ...] = (),
) -> Any:
    """Declare an option: a dataclass field whose type is its default's.

    See :class:`OptionInfo` for the arguments. Checks that involve several options belong into the class's
    ``__post_init__``.
    """
    described = OptionInfo(meaning, unit, ge, gt, le, lt, choices, flag, known_as)
    return dataclasses.field(default=default, metadata={"option": described})


def info(field: dataclasses.Field[Any]) -> OptionInfo:
    """Return the declaration of an option."""
    described: OptionInfo = field.metadata["option"]
    return described


def infos(options: type[Any]) -> dict[str, OptionInfo]:
    """Return the declaration of each option of a class, by name."""
    return {field.name: info(field) for field in dataclasses.fields(options)}
