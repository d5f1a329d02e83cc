"""Parse command lines, and write the text that explains them (Kaldi: src/util/parse-options.cc).

Programs and the dump share this module. The dump takes options in the style of Kaldi's shell scripts, which
:func:`rewrite_script_style` rewrites to the style of Kaldi's programs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeVar

from io_ark import __version__
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.config import Flag, UsageError, find_flag, get_flags, normalize, read_config, split_flag
from kaldi_compat.options.declaration import Scalar, option

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

    values: dict[str, Scalar]  # Maps fields to values, for the program's own options that the command line sets.
    standard: Standard  # Options that programs share.
    arguments: tuple[str, ...]  # Arguments that are not options, in order.


def parse_command_line(
    argv: Sequence[str], options: type[Any] | dict[str, Flag], standard: type[Standard]
) -> CommandLine[Standard]:
    """Parse a command line without the program's name.

    Configuration files are read first, so that the command line overrides them. Options end at the first argument that
    does not start with ``--``, or at a lone ``--``. The options ``--help``, ``--version`` and ``--config`` may also
    follow arguments, but not a lone ``--``.

    Args:
        argv: the words of the command line.
        options: the dataclass of the program's own options, or a dictionary from their names to their flags.
        standard: the dataclass of the options that programs share, such as :class:`StandardOptions`.

    Raises:
        OptionError: an option is unknown or has an invalid value, or a configuration file is invalid.

    Returns:
        The options and arguments. After ``--help`` or ``--version``, only this option.
    """
    standard_flags = get_flags(standard)
    flags = (options if isinstance(options, dict) else get_flags(options)) | standard_flags
    before_dashes = list(takewhile(lambda argument: argument != "--", argv))
    leading_options = list(takewhile(lambda argument: argument.startswith("--"), before_dashes))
    values: dict[str, Scalar] = {}
    for name, text in (split_flag(argument) for argument in before_dashes if argument.startswith("--")):
        if normalize(name) in ("help", "version"):
            only_option: dict[str, Any] = {normalize(name): True}
            return CommandLine({}, standard(**only_option), ())
        if normalize(name) == "config":
            path = str(flags["config"].parse(text))
            values.update((normalize(flag.name), value) for flag, value in read_config(path, flags))
    for name, text in map(split_flag, leading_options):
        flag = find_flag(flags, name)
        values[normalize(flag.name)] = flag.parse(text)

    arguments = list(argv[len(leading_options) :])
    if "--" in arguments:
        arguments.remove("--")
    own_values = {
        flag.field: values[name] for name, flag in flags.items() if name in values and name not in standard_flags
    }
    shared: dict[str, Any] = {flag.field: values[name] for name, flag in standard_flags.items() if name in values}
    return CommandLine(own_values, standard(**shared), tuple(arguments))


def rewrite_script_style(argv: Sequence[str], flags: dict[str, Flag]) -> list[str]:
    """Rewrite a command line from the style of Kaldi's shell scripts for :func:`parse_command_line`.

    In the style of scripts, options may come before, after and between the arguments, and a value may follow its option
    after a space. ``--no-name`` sets a boolean to false, and ``-h`` stands for ``--help``. For example, the words
    ``a --no-norm-means --norm-vars true b`` become ``--norm-means=false --norm-vars=true -- a b``. Raise UsageError if
    an option lacks its value.
    """
    option_words: list[str] = []
    arguments: list[str] = []
    remaining = deque(argv)
    while remaining:
        argument = remaining.popleft()
        if argument == "--":
            arguments += remaining
            break
        if not argument.startswith("--") and argument != "-h":
            arguments.append(argument)
            continue
        option_words.append("--help" if argument == "-h" else _join_value(argument, remaining, flags))
    return [*option_words, "--", *arguments]


def _join_value(argument: str, following: deque[str], flags: dict[str, Flag]) -> str:
    """Return an option and its value as one word, with ``=`` between them.

    A value in the next argument is removed from ``following``. For a boolean ``name``, ``--no-name`` becomes
    ``--name=false``. An option with ``=``, an unknown option, or a boolean without a value is returned unchanged. Any
    other option without a value raises UsageError.
    """
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
        raise UsageError(f"--{flag.name} needs a value: write --{flag.name}=VALUE")
    return f"{argument}={following.popleft()}"


def format_usage(text: str, options: type[Any], standard: type[Any] = StandardOptions) -> str:
    """Format a program's usage: its description ``text``, then all fields of ``options`` and ``standard``."""
    option_lists = (format_option_list("Options:", options), format_option_list("Standard options:", standard))
    return "\n".join(["", text.strip("\n"), "", *filter(None, option_lists)])


def format_option_list(title: str, options: type[Any]) -> str:
    """Format options as Kaldi does, in one line for each option below ``title``. Return "" if there are no options."""
    lines = [
        f"  --{flag.name:<25} : {flag.description} ({flag.kind}, default = {flag.shown_default})\n"
        for flag in get_flags(options).values()
    ]
    return f"{title}\n{''.join(lines)}" if lines else ""


def format_version(program: str) -> str:
    """Format the line that ``--version`` prints."""
    return f"{program} (kaldi-compat) {__version__}"


def format_shell_line(words: Sequence[str]) -> str:
    """Join words into a shell command, quoted as Kaldi quotes command lines in its logs."""
    quoted = []
    for word in words:
        if word and all((char.isascii() and char.isalnum()) or char in UNQUOTED for char in word):
            quoted.append(word)
        elif "'" in word and not any(char in word for char in '"`$\\'):
            quoted.append(f'"{word}"')
        else:
            quoted.append("'" + word.replace("'", "'\\''") + "'")
    return " ".join(quoted)
