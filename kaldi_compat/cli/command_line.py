"""Parse command lines, and write the text that explains them (Kaldi: src/util/parse-options.cc).

Programs and the dump share this module. The dump takes options in the style of Kaldi's shell scripts, which
:func:`from_script_style` rewrites to that of Kaldi's programs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeVar

from io_ark import __version__
from kaldi_compat.options.base import BaseOptions, Scalar, option
from kaldi_compat.options.config import (
    Flag,
    UsageError,
    find_flag,
    flag_table,
    normalize,
    read_config,
    split_flag,
)

UNQUOTED = frozenset("[]~#^_-+=:.,/")


class CommonOptions(BaseOptions):
    """Options of every program and of the dump."""

    config: str = option("", "configuration file with a line --name=value for each option; may be given several times")
    help: bool = option(False, "print this text")
    version: bool = option(False, "print the version")


class StandardOptions(CommonOptions):
    """Options of every program."""

    print_args: bool = option(True, "print the command line on standard error")
    verbose: int = option(0, "verbosity: a higher level logs more")


Standard = TypeVar("Standard", bound=CommonOptions)


@dataclass(frozen=True)
class CommandLine(Generic[Standard]):
    """A parsed command line."""

    values: dict[str, Scalar]  # maps fields of the program's options to their values, if the line sets them
    standard: Standard  # options of every program
    arguments: tuple[str, ...]  # arguments that are not options, in order


def parse(argv: Sequence[str], options: type[Any] | dict[str, Flag], standard: type[Standard]) -> CommandLine[Standard]:
    """Parse a command line without the program's name.

    Configuration files are read first, so that the command line overrides them. Options end at the first argument that
    does not start with ``--``, or at a lone ``--``; but ``--help``, ``--version`` and ``--config`` also count after
    such an argument.

    Args:
        argv: the arguments.
        options: the dataclass of the program's own options, or their flags.
        standard: the dataclass of the options that programs share, such as :class:`StandardOptions`.

    Raises:
        OptionError: an unknown option, an invalid value, or a bad configuration file.
    """
    standard_flags = flag_table(standard)
    flags = (options if isinstance(options, dict) else flag_table(options)) | standard_flags
    named = list(takewhile(lambda argument: argument != "--", argv))
    options_of_line = list(takewhile(lambda argument: argument.startswith("--"), named))
    values: dict[str, Scalar] = {}
    for name, text in (split_flag(argument) for argument in named if argument.startswith("--")):
        if normalize(name) in ("help", "version"):
            shown: dict[str, Any] = {normalize(name): True}
            return CommandLine({}, standard(**shown), ())
        if normalize(name) == "config":
            path = str(flags["config"].parse(text))
            values.update((normalize(flag.name), value) for flag, value in read_config(path, flags))
    for name, text in map(split_flag, options_of_line):
        flag = find_flag(flags, name)
        values[normalize(flag.name)] = flag.parse(text)

    arguments = list(argv[len(options_of_line) :])
    if "--" in arguments:
        arguments.remove("--")
    by_field = {
        flag.field: values[name] for name, flag in flags.items() if name in values and name not in standard_flags
    }
    shared: dict[str, Any] = {flag.field: values[name] for name, flag in standard_flags.items() if name in values}
    return CommandLine(by_field, standard(**shared), tuple(arguments))


def from_script_style(argv: Sequence[str], flags: dict[str, Flag]) -> list[str]:
    """Rewrite a command line in the style of Kaldi's shell scripts for :func:`parse`.

    In that style, options may come before, after and between the arguments, a value may follow its option after a
    space, and ``--no-name`` sets a boolean to false.

    >>> from kaldi_compat.options.postprocessing import CmvnOptions
    >>> from_script_style(["a", "--no-norm-means", "--norm-vars", "true", "b"], flag_table(CmvnOptions))
    ['--norm-means=false', '--norm-vars=true', '--', 'a', 'b']

    Raises:
        UsageError: an option lacks its value.
    """
    flagged: list[str] = []
    arguments: list[str] = []
    left = deque(argv)
    while left:
        argument = left.popleft()
        if argument == "--":
            arguments += left
            break
        if not argument.startswith("--") and argument != "-h":
            arguments.append(argument)
            continue
        flagged.append("--help" if argument == "-h" else _with_value(argument, left, flags))
    return [*flagged, "--", *arguments]


def _with_value(argument: str, following: deque[str], flags: dict[str, Flag]) -> str:
    """Join an option and its value, which may be the next argument."""
    name, equals, _ = argument[2:].partition("=")
    flag = flags.get(normalize(name))
    if equals:
        return argument
    if flag is None:
        negated = flags.get(normalize(name).removeprefix("no-"))
        is_switched_off = negated is not None and negated.kind == "bool"
        return f"--{normalize(name).removeprefix('no-')}=false" if is_switched_off else argument
    if flag.kind == "bool":
        return f"{argument}={following.popleft()}" if following and following[0] in ("true", "false") else argument
    if not following or following[0].startswith("--"):
        raise UsageError(f"--{flag.name} needs a value: --{flag.name}=...")
    return f"{argument}={following.popleft()}"


def usage(text: str, options: type[Any], standard: type[Any] = StandardOptions) -> str:
    """Return a program's usage, with every option, its type and default."""
    lists = (option_list("Options:", options), option_list("Standard options:", standard))
    return "\n".join(["", text.strip("\n"), "", *filter(None, lists)])


def option_list(title: str, options: type[Any]) -> str:
    """Return Kaldi's list of options below a title, one line for an option; "" without options."""
    lines = [
        f"  --{flag.name:<25} : {flag.description} ({flag.kind}, default = {flag.shown_default})\n"
        for flag in flag_table(options).values()
    ]
    return f"{title}\n{''.join(lines)}" if lines else ""


def version(program: str) -> str:
    """Return the line of ``--version``."""
    return f"{program} (kaldi-compat) {__version__}"


def shell_line(words: Sequence[str]) -> str:
    """Join words to a line of a shell. Quote the words that need quotes as Kaldi does."""
    line = []
    for word in words:
        if word and all((char.isascii() and char.isalnum()) or char in UNQUOTED for char in word):
            line.append(word)
        elif "'" in word and not any(char in word for char in '"`$\\'):
            line.append(f'"{word}"')
        else:
            line.append("'" + word.replace("'", "'\\''") + "'")
    return " ".join(line)
