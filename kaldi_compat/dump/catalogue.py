"""All programs of the installation: their list, and the script that completes their command lines."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

from io_ark.cli.ark import parser
from io_ark.cli.completion import SHELLS, Command, Flag, of_parser, script
from kaldi_compat.cli.command_line import CommonOptions, StandardOptions
from kaldi_compat.dump.options import FEATURES, DumpOptions
from kaldi_compat.options.config import UsageError, flag_table


def programs() -> dict[str, Any]:
    """Return Kaldi's programs by name, sorted."""
    scripts = importlib.metadata.distribution("kaldi-compat").entry_points
    return {
        each.name: each.load()
        for each in sorted(scripts, key=lambda script: script.name)
        if each.value.startswith("kaldi_compat.programs.")
    }


def summary(text: str) -> str:
    """Return the first sentence of a program's usage.

    >>> summary("Copies frames, e.g. of a table. More. Usage: copy")
    'Copies frames, e.g. of a table.'
    """
    about = " ".join(text.split("Usage:")[0].split())
    return re.split(r"(?<=[.])(?<!e[.]g[.]) ", about)[0]


def program_list() -> str:
    """Return a line for each program."""
    return "\n".join(f"{name:38} {summary(each.text)}" for name, each in programs().items())


def completion(argv: Sequence[str]) -> str:
    """Return the script for ``kaldi-compat completion SHELL``.

    Raises:
        UsageError: the shell is missing or unknown.
    """
    if len(argv) != 2 or argv[1] not in SHELLS:
        raise UsageError(f"expected a shell: kaldi-compat completion {' | '.join(SHELLS)}")
    kaldis = [
        Command(name, summary(each.text), _flags(each.options, StandardOptions), equals=True)
        for name, each in programs().items()
    ]
    return script(argv[1], [of_parser(parser(), "ark"), _kaldi_compat(), *kaldis]).rstrip("\n")


def _kaldi_compat() -> Command:
    return Command(
        "kaldi-compat",
        flags=(Flag("--help", "print the usage"), Flag("--version", "print the version")),
        commands=(
            Command(
                "dump",
                "compute the features of a data directory",
                _flags(DumpOptions, CommonOptions),
                words=FEATURES,
                equals=True,
            ),
            Command("conform", "test an implementation of Kaldi's features"),
            Command(
                "data",
                "check and change data directories",
                words=("validate", "fix", "subset", "split", "combine", "copy"),
            ),
            Command("explain", "find the front end that computed features"),
            Command("frontend", "list front ends of published models", words=("list", "show", "check", "export")),
            Command("info", "show which engines are available here"),
            Command("programs", "list the programs"),
            Command("completion", "print a script that completes command lines", words=tuple(SHELLS)),
        ),
    )


def _flags(*declared: type[Any]) -> tuple[Flag, ...]:
    return tuple(
        Flag(
            f"--{flag.name}",
            flag.description,
            takes_value=flag.kind != "bool" or flag.default is True,
            choices=("true", "false") if flag.kind == "bool" else flag.info.choices,
        )
        for options in declared
        for flag in flag_table(options).values()
    )
