"""Base classes of kaldi_native_fbank's options, and its errors. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kaldi_compat.errors import KaldiCompatError, OptionError
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_standins.named_options import OptionGroups


class WrongOptionError(OptionError, AttributeError, TypeError):
    """Error for an unknown option, or for a value of a wrong type. The original raises AttributeError or TypeError."""


class StreamError(KaldiCompatError, IndexError, RuntimeError):
    """Error for a frame that does not exist, or audio after its end. The original raises IndexError or RuntimeError."""


class Options(OptionGroups):
    """Base class of the options. Setting an option rounds a float to float32, and copies a group of options."""

    name_error = WrongOptionError

    if not TYPE_CHECKING:  # With __setattr__, a type checker would accept assignments to any name.

        def __setattr__(self, name, value) -> None:
            self._check_name(name)
            required = self.__dataclass_fields__[name].type
            converted = _CONVERTERS.get(required, _copy_group)(value)
            if not isinstance(converted, required):
                name_of_type = required.__name__
                raise WrongOptionError(f"{type(self).__name__}.{name} must be of type {name_of_type}, not {value!r}")
            vars(self)[name] = converted

    def __getstate__(self) -> dict[str, Any]:
        return self.as_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(self.from_dict(state)))

    def __str__(self) -> str:
        words = [f"{name}={_format_value(value)}" for name, value in vars(self).items()]
        return f"{type(self).__name__}({', '.join(words)})"


class ListedOptions(Options):
    """Base class of the options whose ``str()`` has one line for each option."""

    def __str__(self) -> str:
        return "".join(_format_option(name, value) for name, value in vars(self).items())


class PitchExtractionBase(Options):
    """Base class of the options of the pitch tracker, with the sizes that follow from them."""

    @property
    def nccf_window_size(self) -> int:
        """Number of resampled samples in the window that is correlated."""
        return self.to_our_options().window_size

    @property
    def nccf_window_shift(self) -> int:
        """Number of resampled samples from the start of one frame to the start of the next."""
        return self.to_our_options().window_shift

    def to_our_options(self) -> PitchOptions:
        """Convert these options to kaldi-compat's options. Raise OptionError if Kaldi refuses a value."""
        options: PitchOptions = self.convert(self.flatten() | {"resample_frequency": vars(self)["resample_freq"]})
        return options


class ProcessPitchBase(Options):
    """Base class of the options of pitch features, with the size that follows from them."""

    @property
    def dim(self) -> int:
        """Number of columns of the features, one for each ``add_...`` option that is True."""
        return sum(value for name, value in vars(self).items() if name.startswith("add_"))

    def to_our_options(self) -> ProcessPitchOptions:
        """Convert these options to kaldi-compat's options. Raise OptionError if Kaldi refuses a value."""
        options: ProcessPitchOptions = self.convert(self.flatten())
        return options


class StftBase(Options):
    """Base class of the options of the STFT. Their ``str()`` quotes strings and leaves out the window's samples."""

    def __str__(self) -> str:
        shown = {name: f'"{value}"' if isinstance(value, str) else value for name, value in vars(self).items()}
        return f"StftConfig({', '.join(f'{name}={value}' for name, value in shown.items() if name != 'window')})"


# The following functions convert a value to the type of an option, or return None if the value does not fit the type.


def _copy_group(group: Any) -> Any:
    """Return a shallow copy of a group of options, or None for any other value."""
    if not isinstance(group, Options):
        return None
    copied = object.__new__(type(group))
    vars(copied).update(vars(group))
    return copied


def _to_bool(value: Any) -> bool | None:
    return bool(value) if value is None or hasattr(value, "__bool__") else None


def _to_str(value: Any) -> str | None:
    return str(value.decode() if isinstance(value, bytes) else value) if isinstance(value, str | bytes) else None


def _to_int(value: Any) -> int | None:
    """Convert an integer to int. Return None for other types, such as float, and for integers outside of int32."""
    if not hasattr(value, "__index__"):
        return None
    number = operator.index(value)
    return number if -(2**31) <= number < 2**31 else None


def _to_float(value: Any) -> float | None:
    return float(np.float32(value)) if hasattr(value, "__float__") or hasattr(value, "__index__") else None


_CONVERTERS: dict[type[Any], Callable[[Any], Any]] = {
    bool: _to_bool, str: _to_str, list: list, int: _to_int, float: _to_float,
}  # fmt: skip


def _format_option(name: str, value: Any) -> str:
    """Format an option, or a group of options in several lines, as kaldi_native_fbank prints it."""
    if isinstance(value, Options):
        empty_line = "\n" if name == "frame_opts" else ""
        return f"{name}: \n{value}\n{empty_line}"
    return f"{name}: {_format_value(int(value) if isinstance(value, bool) else value)}\n"


def _format_value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
