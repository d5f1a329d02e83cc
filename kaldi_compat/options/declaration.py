"""The declaration of an option: its default, meaning, unit and range."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

Scalar = bool | int | float | str

LIMIT = 1e9  # Upper bound on rates in Hz and times in ms, so that numbers of samples fit into 64 bits.
# Names of common options in other libraries, for suggestions in error messages.
RATE_NAMES = ("sample_rate", "sampling_rate", "samp_freq", "sr", "fs", "rate")
LENGTH_NAMES = ("win_length", "window_length", "window_size", "winlen", "n_fft", "frame_size")
SHIFT_NAMES = ("hop_length", "hop_size", "window_shift", "winstep", "stride", "frame_step")


@dataclass(frozen=True)
class OptionInfo:
    """Declaration of an option, without its name, type and default."""

    meaning: str  # What the option sets, in one line without unit and range.
    unit: str = ""  # Unit of a number, such as "Hz".
    ge: float | None = None  # Smallest allowed value. None for no bound.
    gt: float | None = None  # Exclusive lower bound; minus infinity excludes only itself and NaN. None for no bound.
    le: float | None = None  # Largest allowed value. None for no bound.
    lt: float | None = None  # Exclusive upper bound; infinity excludes only itself and NaN. None for no bound.
    choices: tuple[str, ...] = ()  # Allowed strings. Empty if all strings are allowed.
    flag: str = ""  # Name on the command line. Empty if it is the field's name with hyphens.
    known_as: tuple[str, ...] = ()  # Names of this option in other libraries, for error messages.

    def allows(self, value: Scalar) -> bool:
        """Return True if ``value``, which has the option's type, is one of the choices or within the bounds.

        NaN is outside any bounds, but an option without bounds allows NaN.
        """
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
        """Description of the allowed values, such as "at least 1", or "" if all values of the type are allowed."""
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
        # The unit belongs to the first part of the meaning, before a semicolon.
        unit = f", in {self.unit}" if self.unit else ""
        allowed = f"; {self.range}" if self.range else ""
        meaning, semicolon, remark = self.meaning.partition(";")
        return f"{meaning}{unit}{semicolon}{remark}{allowed}"


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
    """Declare an option as a dataclass field. The option has the type of its default.

    See :class:`OptionInfo` for the arguments. Check conditions on several options in ``__post_init__`` of the class.
    """
    info = OptionInfo(meaning, unit, ge, gt, le, lt, choices, flag, known_as)
    return dataclasses.field(default=default, metadata={"option": info})


def get_info(field: dataclasses.Field[Any]) -> OptionInfo:
    """Return the declaration of an option from its dataclass field."""
    info: OptionInfo = field.metadata["option"]
    return info


def get_infos(options: type[Any]) -> dict[str, OptionInfo]:
    """Map the names of a class's options to their declarations."""
    return {field.name: get_info(field) for field in dataclasses.fields(options)}
