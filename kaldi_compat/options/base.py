"""Declare options as fields of a frozen dataclass, with default, unit, range and a one-line meaning.

The declaration defines flags of the programs, lines of configuration files, keyword arguments of the modules,
signatures, help texts and documentation. For example, the field ``num_mel_bins`` is the flag ``--num-mel-bins``.

>>> from kaldi_compat.options.base import BaseOptions
>>> from kaldi_compat.options.declaration import get_infos, option
>>> class LoudnessOptions(BaseOptions):
...     gain: float = option(0.0, "added to the level", unit="dB", ge=-60, le=60)
>>> get_infos(LoudnessOptions)["gain"].description
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

from io_ark.text import quote_value
from kaldi_compat.errors import OptionError
from kaldi_compat.options.declaration import OptionInfo, get_info, get_infos

if TYPE_CHECKING:
    import inspect

    from typing_extensions import dataclass_transform
else:  # Python 3.10 lacks this function, which has no effect at run time.

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


Options = TypeVar("Options", bound="BaseOptions")
Function = TypeVar("Function", bound=Callable[..., Any])

INT32 = range(-(2**31), 2**31)
FLOAT32_END = (2 - 2**-24) * 2.0**127  # Smallest number that float32 rounds to infinity.
# Integers that options of each type accept. Integers of more bits may be infinite in double precision.
ACCEPTED_INTEGERS: dict[type[Any], range] = {int: INT32, float: range(1 - 2**1023, 2**1023)}
TYPE_NAMES = {bool: "True or False", int: "an integer of 32 bits", float: "a number", str: "a string"}


def format_changes(options: Any) -> str:
    """Format the options that differ from their defaults as keyword arguments: ``name=value, ...``."""
    values = ((field.name, getattr(options, field.name), field.default) for field in dataclasses.fields(options))
    return ", ".join(f"{name}={value!r}" for name, value, default in values if value != default)


def require(condition: bool, message: str) -> None:
    """Raise :class:`OptionError` with a message unless the condition is True."""
    if not condition:
        raise OptionError(message)


def as_float32(value: float) -> float:
    """Round a number to single precision, in which Kaldi stores options. Numbers too large become infinite."""
    # NumPy would warn of an overflow, and torch.compile cannot trace np.errstate.
    if abs(value) >= FLOAT32_END:
        return math.copysign(math.inf, value)
    return float(np.float32(value)) if math.isfinite(value) else value


class ConstructorSignature:
    """Descriptor that computes ``__signature__`` of a class on access, which keeps imports fast.

    The class has options as fields, or has an attribute ``Options``, the dataclass of its options.
    """

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # The signature of an instance is that of its __call__.
        from kaldi_compat.options.describe import make_signature

        with_self = make_signature(owner.__init__, getattr(owner, "Options", None))
        return with_self.replace(parameters=list(with_self.parameters.values())[1:])


class OptionsDocumentation:
    """Descriptor that appends the list of options to a class's docstring ``text`` on access."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, instance: object, owner: type[Any]) -> str | None:
        options = getattr(owner, "Options", owner)
        # The dataclass decorator reads the docstring before it sets __match_args__. It does not need the list.
        if self.text is None or "__match_args__" not in vars(options):
            return self.text
        from kaldi_compat.options.describe import format_documentation

        return format_documentation(self.text, options)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class BaseOptions:
    """Base class of options. Makes subclasses frozen dataclasses that check names, types and ranges of arguments.

    Raises:
        OptionError: a value has the wrong type or is out of range, or a name is not an option.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __signature__ = ConstructorSignature()  # Otherwise, help() would show the signature of __new__.

    def __new__(cls, *arguments: Any, **values: Any) -> Any:
        for name in values:  # Without this check, __init__ would raise a TypeError that suggests no name.
            if name not in cls.__dataclass_fields__:
                raise make_unknown_option_error(cls.__name__, cls, name)
        return super().__new__(cls)

    def __init_subclass__(cls) -> None:
        """Make the subclass a frozen dataclass, and check the declarations and defaults of its options."""
        # For a class without a docstring, the dataclass decorator would make one from the signature, which takes time.
        setattr(cls, "__doc__", OptionsDocumentation(cls.__doc__ or "Options."))  # noqa: B010  mypy wants a str
        dataclass(frozen=True, kw_only=True)(cls)
        for field in dataclasses.fields(cls):
            is_inherited = field.name not in vars(cls).get("__annotations__", {field.name})
            if is_inherited:  # The base class has checked the option.
                continue
            if "option" not in field.metadata or type(field.default) not in TYPE_NAMES:
                raise OptionError(
                    f"the option {field.name} of {cls.__name__} must be declared with "
                    "kaldi_compat.options.declaration.option and a default of the type bool, int, float or str"
                )
            _check_value(field, field.default)

    def __post_init__(self) -> None:
        """Check the values that differ from the defaults, and convert them to the types of the options."""
        for field in dataclasses.fields(self):
            argument = getattr(self, field.name)
            if argument is not field.default:
                object.__setattr__(self, field.name, _check_value(field, argument))


def make_options(owner: str, kind: type[Options], options: Options | None, changes: Mapping[str, Any]) -> Options:
    """Return ``options`` with the ``changes`` that a user passed by name to a class or function.

    Args:
        owner: name of the class or function, for messages.
        kind: dataclass of the options.
        options: an instance of ``kind``; the defaults if None.
        changes: options by name, which replace values in ``options``.

    Raises:
        OptionError: ``options`` is not a ``kind``, an option does not exist, or a value is invalid.
    """
    if options is not None and not isinstance(options, kind):
        raise OptionError(f"{owner} takes {kind.__name__}, not {type(options).__name__}: pass options by name")
    for change in changes:
        if change not in kind.__dataclass_fields__:
            raise make_unknown_option_error(owner, kind, change)
    base: Any = kind() if options is None else options
    result: Options = dataclasses.replace(base, **changes) if changes else base
    return result


def takes_options(kind: type[BaseOptions]) -> Callable[[Function], Function]:
    """Return a decorator that puts the options of ``kind`` into a function's signature, in place of ``**changes``.

    The function must pass ``changes`` to :func:`make_options`. Type checkers read
    :mod:`kaldi_compat.options.constructors`.
    """

    def set_signature(function: Function) -> Function:
        from kaldi_compat.options.describe import make_signature

        setattr(function, "__signature__", make_signature(function, kind))  # noqa: B010  mypy wants a function to have it
        return function

    return set_signature


def make_unknown_option_error(owner: str, options: type[Any], name: str) -> OptionError:
    """Return the error for a keyword argument ``name`` that is not one of the options that ``owner`` takes.

    ``owner`` is the name of a class or function, and ``options`` is the dataclass of its options.
    """
    infos = get_infos(options)
    nearest = find_nearest_option(name, infos)
    unit = f" (in {infos[nearest].unit})" if nearest and infos[nearest].unit else ""
    hint = f"did you mean {nearest}{unit}?" if nearest else f"help({owner}) lists them"
    return OptionError(f"{owner} has no option {name}: {hint}")


def find_nearest_option(name: str, options: Mapping[str, OptionInfo]) -> str:
    """Return the name of the option that ``name``, a misspelled option or an option of another library, may mean.

    ``options`` maps the names of the options to their declarations. Return "" if no option is similar.
    """
    names = {alias: option for option, info in options.items() for alias in info.known_as}
    names.update({option: option for option in options})
    nearest = find_nearest_name(name.lower().replace("-", "_"), names)
    return names[nearest] if nearest else ""


def find_nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the name in ``names`` that is most similar to ``name``, or "" if no name is similar."""
    import difflib  # Importing difflib is slow, and only error messages need it.

    matches = difflib.get_close_matches(name, list(names), n=1)
    return matches[0] if matches else ""


def _check_value(field: dataclasses.Field[Any], argument: Any) -> Any:
    """Convert an argument to the type of the option that ``field`` declares, and check its range.

    Raises:
        OptionError: the argument has a different type, or is out of range.
    """
    value = _convert_value(type(field.default), argument)
    if value is None:
        raise OptionError(f"{field.name} must be {TYPE_NAMES[type(field.default)]}, not {quote_value(argument)}")
    info = get_info(field)
    if not info.allows(value):
        nearest = find_nearest_name(str(argument), info.choices)
        hint = f": did you mean {nearest!r}?" if nearest else ""
        raise OptionError(f"{field.name} must be {info.range}, not {_format_value(argument)}{hint}")
    return value


def _convert_value(kind: type[Any], value: Any) -> Any:
    """Convert ``value`` to the type ``kind``. Return None for a different type, or for an integer that is too large."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value) if kind is bool else None
    if isinstance(value, (int, np.integer)):
        return kind(value) if int(value) in ACCEPTED_INTEGERS.get(kind, ()) else None
    if isinstance(value, (float, np.floating)):
        return float(value) if kind is float else None
    return value if kind is str and isinstance(value, str) else None


def convert_number(name: str, value: Any) -> float:
    """Convert the value of the argument ``name`` to a float.

    Raises:
        OptionError: the value is a string, is not a number, or is an integer that is too large for a float.
    """
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except OverflowError:
        raise OptionError(f"{name} must be a number below 1.8e308, not {quote_value(value)}") from None
    except (TypeError, ValueError):
        pass
    raise OptionError(f"{name} must be a number, not {quote_value(value)}")


def _format_value(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"
