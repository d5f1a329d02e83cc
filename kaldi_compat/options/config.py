"""Parse options from flags of a command line and lines of a configuration file.

The rules are Kaldi's (src/util/parse-options.cc): an option is ``--name=value``, or ``--name`` to set a boolean. Names
are case-insensitive, and ``_`` is the same as ``-``. In a file, ``#`` starts a comment.

>>> from kaldi_compat.options.config import get_flags
>>> from kaldi_compat.options.spectral import FbankOptions
>>> get_flags(FbankOptions)["num-mel-bins"].parse("80")
80
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from io_ark.text import WHITE_SPACE, split_words
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import FLOAT32_END, INT32, find_nearest_option
from kaldi_compat.options.declaration import OptionInfo, Scalar, get_info

OptionsType = TypeVar("OptionsType")

MAX_SHOWN_CHARACTERS = 60  # Error messages cut off a value after this number of characters.
TRUE = ("true", "t", "1")
FALSE = ("false", "f", "0")
INTEGER = re.compile(r"\s*(?P<sign>[-+]?)0*(?P<digits>[0-9]+)\s*", re.A)
REAL = re.compile(
    r"\s*[-+]?([0-9]+\.?[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?|inf|infinity|nan)\s*", re.I | re.A
)


_HELP_ADVICE = "--help lists all options"


class UsageError(OptionError):
    """A mistake for which Kaldi's programs print their usage before the error."""


@dataclass(frozen=True)
class Flag:
    """An option as a flag ``--name=value``."""

    name: str  # Name of the flag without the leading hyphens.
    field: str  # Name of the dataclass field that the flag sets.
    default: Scalar  # Default value, whose type is the option's type.
    info: OptionInfo  # Meaning, unit and range of the option.

    @property
    def description(self) -> str:
        """Meaning, unit and range in one line."""
        return self.info.description

    @property
    def kind(self) -> str:
        """Kaldi's name for the type: bool, int, float or string."""
        return "string" if isinstance(self.default, str) else type(self.default).__name__

    @property
    def shown_default(self) -> str:
        """The default as Kaldi's help texts spell it, for example true, 25 or "povey"."""
        if isinstance(self.default, bool):
            return "true" if self.default else "false"
        if isinstance(self.default, str):
            return f'"{self.default}"'
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def parse(self, text: str | None) -> Scalar:
        """Parse the value ``text`` of the flag. For a flag without ``=``, pass None, which means True for a boolean.

        Raises:
            OptionError: the value is missing, or is not of the option's type.
        """
        if isinstance(self.default, bool):
            if text is None or text.lower() in TRUE:
                return True
            if text.lower() in FALSE:
                return False
            error = UsageError if text else OptionError  # Kaldi prints no usage for an empty value.
            raise error(f"--{self.name}={text}: expected true or false")
        if text is None:
            raise OptionError(f"--{self.name} needs its value after an =, without a space: --{self.name}=...")
        if isinstance(self.default, str):
            return text
        if isinstance(self.default, int):
            integer = parse_integer(text)
            if integer is None:
                raise OptionError(f"--{self.name}={_shorten(text)}: expected an integer of 32 bits")
            return integer
        real = parse_real(text, end=FLOAT32_END)
        if real is None:
            limit = " of single precision, at most 3.4e38" if REAL.fullmatch(text) else ""
            raise OptionError(f"--{self.name}={_shorten(text)}: expected a number{limit}")
        return real


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."


def parse_integer(text: str) -> int | None:
    """Parse a 32-bit integer. Return None if the string is not an integer, or has more than 32 bits."""
    match = INTEGER.fullmatch(text)
    if match is None or len(match["digits"]) > len(str(INT32.stop)):
        return None  # int() would raise a ValueError for strings of more than 4,300 digits.
    number = int(match["sign"] + match["digits"])
    return number if number in INT32 else None


def parse_real(text: str, end: float = math.inf) -> float | None:
    """Parse a number as C++ does. Return None if it is not a number, or is finite and at least ``end`` in magnitude."""
    # Infinity and NaN are allowed. No other number contains an "n".
    if not REAL.fullmatch(text) or (abs(float(text)) >= end and "n" not in text.lower()):
        return None
    return float(text)


def normalize(name: str) -> str:
    """Convert the name of an option to lower case with hyphens, as in the keys of :func:`get_flags`."""
    return name.replace("_", "-").lower()


def _make_flags(options: type[Any]) -> dict[str, Flag]:
    """Map normalized names to the flags of an options dataclass, sorted as Kaldi lists them."""
    flags = [
        Flag(get_info(field).flag or normalize(field.name), field.name, cast(Scalar, field.default), get_info(field))
        for field in dataclasses.fields(options)
    ]
    return {normalize(flag.name): flag for flag in sorted(flags, key=lambda flag: normalize(flag.name))}


# The cache saves time if a program runs many times in one process. mypy needs the cast, because it considers classes
# unhashable.
get_flags: Callable[[type[Any]], dict[str, Flag]] = cast(Any, functools.cache(_make_flags))


def find_flag(flags: dict[str, Flag], name: str) -> Flag:
    """Return the flag of an option. ``name`` may have any of Kaldi's spellings.

    ``flags`` maps normalized names to flags.

    Raises:
        UsageError: no flag has the name. The message suggests the most similar flag.
    """
    flag = flags.get(normalize(name))
    if flag is None:
        nearest = find_nearest_option(name, {candidate.field: candidate.info for candidate in flags.values()})
        hint = f"did you mean --{normalize(nearest)}?" if nearest else _HELP_ADVICE
        raise UsageError(f"there is no option --{name}: {hint}")
    return flag


def split_flag(argument: str) -> tuple[str, str | None]:
    """Return the name and the stripped value of ``--name=value``. Without ``=``, the value is None.

    Raises:
        UsageError: the option has no name.
        OptionError: there is white space before or in place of the ``=``.
    """
    name, equals, value = argument[2:].partition("=")
    if not name:
        raise UsageError(f"{argument}: the option has no name: write it as --name=value")
    if split_words(name) != [name]:
        parts = split_words(argument[2:].replace("=", " ", 1), 1)
        raise OptionError(f"expected an = and no space, as in --{'='.join(parts)}, not {argument!r}")
    return name, value.strip(WHITE_SPACE) if equals else None


def spell_as_flags(message: str, options: type[Any]) -> str:
    """Replace names of options in an error message with flags, such as ``norm_vars=`` with ``--norm-vars=``.

    A name is replaced at the start of the message and before ``=``. ``options`` is the dataclass that has the options.
    """
    names = {flag.field: f"--{flag.name}" for flag in get_flags(options).values()}
    if not names:
        return message
    any_name = "|".join(map(re.escape, names))
    return re.sub(rf"^({any_name})\b|(?<![\w-])({any_name})(?==)", lambda match: names[match[0]], message)


MAX_CHARACTERS = 1 << 24  # Largest size of a configuration file. A device such as /dev/zero has no end.


def read_config(path: str | os.PathLike[str], flags: dict[str, Flag]) -> Iterator[tuple[Flag, Scalar]]:
    """Yield the flag and the value of each option in a configuration file, in the order of the lines.

    ``flags`` maps normalized names to flags (see :func:`get_flags`).

    Raises:
        OptionError: the file cannot be read or is too long, or a line is not an option, names an unknown option or has
            an invalid value. The message gives the number of such a line.
    """
    if not str(path):
        raise OptionError("the configuration file has no name: expected --config=<file>")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except OSError as error:
        raise OptionError(f"cannot read the configuration file {path}: {error.strerror}") from error
    if len(text) > MAX_CHARACTERS:
        raise OptionError(f"{path} has more than {MAX_CHARACTERS} characters: name a configuration file")
    yield from parse_config(text, str(path), flags)


def parse_config(text: str, name: str, flags: dict[str, Flag]) -> Iterator[tuple[Flag, Scalar]]:
    """Yield the flag and the value of each option in the text of a configuration file, in the order of the lines.

    Raises:
        OptionError: a line is not an option, names an unknown option or has an invalid value. The message starts with
            the file's ``name`` and the number of the line.
    """
    for line_number, line in enumerate(text.split("\n"), start=1):
        content = line.partition("#")[0].strip(WHITE_SPACE)
        if not content:
            continue
        try:
            if not content.startswith("--"):
                raise OptionError(f"expected --name=value, not {content!r}")
            option, value = split_flag(content)
            flag = find_flag(flags, option)
            yield flag, flag.parse(value)
        except OptionError as error:
            raise type(error)(f"{name}, line {line_number}: {error}") from None


def load_options(options: type[OptionsType], path: str | os.PathLike[str], **changes: Scalar) -> OptionsType:
    """Load options from a Kaldi configuration file such as ``conf/fbank.conf``.

    Args:
        options: class of the options, for example :class:`~kaldi_compat.options.spectral.FbankOptions`.
        path: configuration file, with a line ``--name=value``, or ``--name`` for True, for each option.
        changes: options by name, which override values in the file.

    Returns:
        An instance of ``options``.

    Raises:
        OptionError: the file cannot be read, or an option in it or in ``changes`` is unknown or has an invalid value.

    >>> import tempfile
    >>> from kaldi_compat import FbankOptions, load_options
    >>> with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
    ...     _ = file.write("--num-mel-bins=80  # as in the recipe\\n--use-energy\\n")
    ...     file.flush()
    ...     load_options(FbankOptions, file.name, dither=0.0).num_mel_bins
    80
    """
    flags = get_flags(options)
    try:
        values = {flag.field: value for flag, value in read_config(path, flags)}
    except UsageError as error:  # Python code has no option --help, so the message lists the options.
        raise OptionError(str(error).replace(_HELP_ADVICE, f"choose from {', '.join(flags)}")) from None
    return options(**{**values, **changes})
