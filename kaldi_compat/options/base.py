"""Declare options: fields of a frozen dataclass with default, unit, range and a one-line meaning.

Flags of the programs, lines of configuration files, keyword arguments of the modules, signatures, help texts and
documentation derive from this declaration. For example, the field ``num_mel_bins`` is the flag ``--num-mel-bins``.

>>> class LoudnessOptions(BaseOptions):
...     gain: float = option(0.0, "added to the level", unit="dB", ge=-60, le=60)
>>> infos(LoudnessOptions)["gain"].description
'added to the level, in dB; from -60 to 60'
>>> LoudnessOptions(gain=99)
Traceback (most recent call last):
kaldi_compat.errors.OptionError: gain must be from -60 to 60, not 99
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from kaldi_compat.errors import OptionError

if TYPE_CHECKING:
    import inspect

    from typing_extensions import dataclass_transform
else:  # Python 3.10 does not have it.

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


Options = TypeVar("Options", bound="BaseOptions")
Function = TypeVar("Function", bound=Callable[..., Any])

Scalar = bool | int | float | str

LIMIT = 1e9  # Rates in Hz and times in ms are smaller, so that numbers of samples fit into 64 bits.
# Names that other libraries have for options of all features.
RATE_NAMES = ("sample_rate", "sampling_rate", "samp_freq", "sr", "fs", "rate")
LENGTH_NAMES = ("win_length", "window_length", "window_size", "winlen", "n_fft", "frame_size")
SHIFT_NAMES = ("hop_length", "hop_size", "window_shift", "winstep", "stride", "frame_step")
MAX_FLOAT_BITS = 1023  # An integer with more bits may be infinite in double precision.
MAX_SHOWN_BITS = 128
INT32 = range(-(2**31), 2**31)
TYPE_NAMES = {bool: "True or False", int: "an integer of 32 bits", float: "a number", str: "a string"}


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


def changes(options: Any) -> str:
    """Return the options that differ from Kaldi's defaults, as keyword arguments."""
    values = ((field.name, getattr(options, field.name), field.default) for field in dataclasses.fields(options))
    return ", ".join(f"{name}={value!r}" for name, value, default in values if value != default)


def require(holds: bool, message: str) -> None:
    """Raise :class:`OptionError` with a message unless a condition on several options holds."""
    if not holds:
        raise OptionError(message)


def as_float32(value: float) -> float:
    """Round to Kaldi's single precision of options, which decides the last digits of values derived from them."""
    return float(np.float32(value)) if math.isfinite(value) else value


class ConstructorSignature:
    """Computes ``__signature__`` of a class when somebody asks for it, which keeps imports fast.

    The class has options as fields, or is configured by the dataclass that it calls ``Options``.
    """

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        from kaldi_compat.options.describe import signature

        with_self = signature(owner.__init__, getattr(owner, "Options", None))
        return with_self.replace(parameters=list(with_self.parameters.values())[1:])


class OptionsDocumentation:
    """Appends the list of options to a class's docstring when somebody asks for it."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, instance: object, owner: type[Any]) -> str | None:
        options = getattr(owner, "Options", owner)
        # The dataclass decorator asks for the docstring before it sets __match_args__; it need not wait for the list.
        if self.text is None or "__match_args__" not in vars(options):
            return self.text
        from kaldi_compat.options.describe import documentation

        return documentation(self.text, options)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class BaseOptions:
    """Base of all classes of options, which makes them frozen dataclasses: checks types, ranges and names.

    Raises:
        OptionError: a value of the wrong type or out of range, or a name that is not an option.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __signature__ = ConstructorSignature()  # the signature of the dataclass's constructor, not of __new__

    def __new__(cls, *arguments: Any, **values: Any) -> Any:
        for name in values:
            if name not in cls.__dataclass_fields__:
                raise unknown_option(cls.__name__, cls, name)
        return super().__new__(cls)

    def __init_subclass__(cls) -> None:
        # A dataclass without a docstring computes its signature for one, which takes time.
        setattr(cls, "__doc__", OptionsDocumentation(cls.__doc__ or "Options."))  # noqa: B010  mypy wants a str
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            argument = getattr(self, field.name)
            if argument is field.default:
                continue
            value = _as_type(type(field.default), argument)
            if value is None:
                raise OptionError(f"{field.name} must be {TYPE_NAMES[type(field.default)]}, not {_briefly(argument)}")
            described = info(field)
            if not described.allows(value):
                known = nearest_name(str(argument), described.choices)
                hint = f": did you mean {known!r}?" if known else ""
                raise OptionError(f"{field.name} must be {described.range}, not {_shown(argument)}{hint}")
            object.__setattr__(self, field.name, value)


def make_options(owner: str, kind: type[Options], options: Options | None, changes: Mapping[str, Any]) -> Options:
    """Return the options of a class or function called ``owner``.

    Args:
        owner: name of the class or function, for messages.
        kind: dataclass of the options.
        options: an instance of ``kind``; the defaults if None.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: options of another kind, an option that does not exist, or an invalid value.
    """
    if options is not None and not isinstance(options, kind):
        raise OptionError(f"{owner} takes {kind.__name__}, not {type(options).__name__}: give options by name")
    for change in changes:
        if change not in kind.__dataclass_fields__:
            raise unknown_option(owner, kind, change)
    base: Any = kind() if options is None else options
    result: Options = dataclasses.replace(base, **changes) if changes else base
    return result


def takes_options(kind: type[BaseOptions]) -> Callable[[Function], Function]:
    """Decorate a function so that its signature, and so its help, shows the options that ``**changes`` may contain.

    The function passes them to :func:`make_options`. Type checkers read :mod:`kaldi_compat.options.constructors`.
    """

    def with_signature(function: Function) -> Function:
        from kaldi_compat.options.describe import signature

        setattr(function, "__signature__", signature(function, kind))  # noqa: B010  mypy wants a function to have it
        return function

    return with_signature


def unknown_option(owner: str, options: type[Any], name: str) -> OptionError:
    """Make the error for a keyword argument that is not an option, with the nearest option and its unit."""
    known = nearest(name, infos(options))
    unit = infos(options)[known].unit if known else ""
    hint = f"did you mean {known}{f' (in {unit})' * bool(unit)}?" if known else f"help({owner}) lists them"
    return OptionError(f"{owner} has no option {name}: {hint}")


def nearest(name: str, options: Mapping[str, OptionInfo]) -> str:
    """Return the option that a misspelled name probably means, or "".

    >>> from kaldi_compat.options.spectral import FbankOptions
    >>> nearest("num_mell_bins", infos(FbankOptions)), nearest("n_mels", infos(FbankOptions))
    ('num_mel_bins', 'num_mel_bins')
    """
    names = {other: own for own, described in options.items() for other in described.known_as}
    names.update({own: own for own in options})
    near = nearest_name(name.lower().replace("-", "_"), names)
    return names[near] if near else ""


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the most similar of the names, or ""."""
    import difflib  # only needed for mistakes

    near = difflib.get_close_matches(name, list(names), n=1)
    return near[0] if near else ""


def _as_type(kind: type[Any], value: Any) -> Any:
    """Return the value in the option's own type, or None if it is of another type."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value) if kind is bool else None
    if isinstance(value, (int, np.integer)):
        is_in_range = int(value) in INT32 if kind is int else kind is float and abs(int(value)) < 1 << MAX_FLOAT_BITS
        return kind(value) if is_in_range else None
    if isinstance(value, (float, np.floating)):
        return float(value) if kind is float else None
    return value if kind is str and isinstance(value, str) else None


def _briefly(value: Any) -> str:
    """Show a value of a wrong type. Python does not convert integers of more than 4,300 digits to a string."""
    bits = value.bit_length() if isinstance(value, int) else 0
    return f"an integer of {bits} bits" if bits > MAX_SHOWN_BITS else repr(value)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"
