"""A Kaldi command line: options, then arguments; and the text that explains them (src/util/parse-options.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from kaldi_compat.options.base import option
from kaldi_compat.options.config import Scalar, find_flag, flag_table, normalise, read_config, split_flag

UNQUOTED = frozenset("[]~#^_-+=:.,/")


@dataclass(frozen=True, kw_only=True)
class StandardOptions:
    """Options of every program."""

    config: str = option("", "configuration file with a line --name=value for each option; may be given several times")
    help: bool = option(False, "print this text")
    print_args: bool = option(True, "print the command line on standard error")
    verbose: int = option(0, "higher says more")


@dataclass(frozen=True)
class CommandLine:
    """What a command line asks for.

    Attributes:
        values: the program's options that were given, by field.
        standard: the options that every program has.
        arguments: what is left, in order.
    """

    values: dict[str, Scalar]
    standard: StandardOptions
    arguments: tuple[str, ...]


def parse(argv: Sequence[str], options: type[Any]) -> CommandLine:
    """The command line without the program's name, understood.

    Configuration files are read first, so that the command line overrides them. Options end at the first argument that
    does not start with ``--``, or at a lone ``--``; but ``--help`` and ``--config`` count after such an argument, too.

    Raises:
        OptionError: an option that does not exist, a value that cannot be meant, or a bad configuration file.
    """
    standard_flags = flag_table(StandardOptions)
    flags = flag_table(options) | standard_flags
    named = list(takewhile(lambda argument: argument != "--", argv))
    given = list(takewhile(_is_flag, named))
    values: dict[str, Scalar] = {}
    for name, text in map(split_flag, filter(_is_flag, named)):
        if normalise(name) == "help":
            return CommandLine({}, StandardOptions(help=True), ())
        if normalise(name) == "config":
            path = str(flags["config"].parse(text))
            values.update((normalise(flag.name), value) for flag, value in read_config(path, flags))
    for name, text in map(split_flag, given):
        flag = find_flag(flags, name)
        values[normalise(flag.name)] = flag.parse(text)

    rest = list(argv[len(given) :])
    if "--" in rest:
        rest.remove("--")
    by_field = {
        flag.field: values[name] for name, flag in flags.items() if name in values and name not in standard_flags
    }
    standard: dict[str, Any] = {flag.field: values[name] for name, flag in standard_flags.items() if name in values}
    return CommandLine(by_field, StandardOptions(**standard), tuple(rest))


def _is_flag(argument: str) -> bool:
    return argument.startswith("--")


def usage(text: str, options: type[Any]) -> str:
    """A program's usage, with every option, its type and default."""
    lines = ["", text.strip("\n"), ""]
    for title, flags in (("Options:", flag_table(options)), ("Standard options:", flag_table(StandardOptions))):
        if flags:
            lines.append(title)
            lines += [
                f"  --{flag.name:<25} : {flag.meaning} ({flag.kind}, default = {flag.shown_default})"
                for flag in flags.values()
            ]
            lines.append("")
    return "\n".join(lines)


def shell_line(words: Sequence[str]) -> str:
    """The words as a line that a shell would split into them again, quoted as Kaldi quotes."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word and all((char.isascii() and char.isalnum()) or char in UNQUOTED for char in word):
        return word
    if "'" in word and not any(char in word for char in '"`$\\'):
        return f'"{word}"'
    return "'" + word.replace("'", "'\\''") + "'"
