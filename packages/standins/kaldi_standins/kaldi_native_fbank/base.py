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
    """An option that does not exist, or a value of a wrong type: an AttributeError or a TypeError in the original."""


class StreamError(KaldiCompatError, IndexError, RuntimeError):
    """A frame that is not there, or audio after its end: an IndexError or a RuntimeError in the original."""


class Options(OptionGroups):
    """Base of kaldi_native_fbank's options. Numbers have single precision, and groups are copied when they are set."""

    name_error = WrongOptionError

    if not TYPE_CHECKING:  # a type checker would take it that every name may be set

        def __setattr__(self, name, value) -> None:
            self._check(name)
            kind = self.__dataclass_fields__[name].type
            converted = _CONVERTERS.get(kind, _copied)(value)
            if not isinstance(converted, kind):
                raise WrongOptionError(f"{type(self).__name__}.{name} must be of type {kind.__name__}, not {value!r}")
            vars(self)[name] = converted

    def __getstate__(self) -> dict[str, Any]:
        return self.as_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(self.from_dict(state)))

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in vars(self).items())})"


class ListedOptions(Options):
    """Base of the options whose text has a line for each."""

    def __str__(self) -> str:
        return "".join(_line(name, value) for name, value in vars(self).items())


class PitchExtractionBase(Options):
    """Sizes that follow from the options of the pitch tracker."""

    @property
    def nccf_window_size(self) -> int:
        """Resampled samples in the window that is correlated."""
        return self.ours().window_size

    @property
    def nccf_window_shift(self) -> int:
        """Resampled samples from the start of one frame to the start of the next."""
        return self.ours().window_shift

    def ours(self) -> PitchOptions:
        """Return the same as this package's options.

        Raises:
            OptionError: a value that Kaldi refuses.
        """
        options: PitchOptions = self.converted(self.flat() | {"resample_frequency": vars(self)["resample_freq"]})
        return options


class ProcessPitchBase(Options):
    """Size that follows from the options of pitch features."""

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return sum(value for name, value in vars(self).items() if name.startswith("add_"))

    def ours(self) -> ProcessPitchOptions:
        """Return the same as this package's options.

        Raises:
            OptionError: a value that Kaldi refuses.
        """
        options: ProcessPitchOptions = self.converted(self.flat())
        return options


class StftBase(Options):
    """Text of the options of the STFT: strings are quoted, and the window's samples are left out."""

    def __str__(self) -> str:
        shown = {name: f'"{value}"' if isinstance(value, str) else value for name, value in vars(self).items()}
        return f"StftConfig({', '.join(f'{name}={value}' for name, value in shown.items() if name != 'window')})"


# The following functions convert a value to the type of an option, or return None if the value does not fit the type.


def _copied(group: Any) -> Any:
    if not isinstance(group, Options):
        return None
    copied = object.__new__(type(group))
    vars(copied).update(vars(group))
    return copied


def _bool(value: Any) -> bool | None:
    return bool(value) if value is None or hasattr(value, "__bool__") else None


def _str(value: Any) -> str | None:
    return str(value.decode() if isinstance(value, bytes) else value) if isinstance(value, str | bytes) else None


def _int(value: Any) -> int | None:
    number = operator.index(value) if hasattr(value, "__index__") else 2**31
    return number if -(2**31) <= number < 2**31 else None


def _float(value: Any) -> float | None:
    return float(np.float32(value)) if hasattr(value, "__float__") or hasattr(value, "__index__") else None


_CONVERTERS: dict[type[Any], Callable[[Any], Any]] = {
    bool: _bool,
    str: _str,
    list: list,
    int: _int,
    float: _float,
}


def _line(name: str, value: Any) -> str:
    if isinstance(value, Options):
        return f"{name}: \n{value}\n" + "\n" * (name == "frame_opts")
    return f"{name}: {_shown(int(value) if isinstance(value, bool) else value)}\n"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
