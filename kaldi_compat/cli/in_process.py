"""Run commands of script files that are our own programs within this process.

A recipe with ``wav-reverberate ... |`` for each utterance starts a process for each, which takes ten times as long as
the computation. A command is run here if it is one of :data:`PROGRAMS`, found on PATH as ours, or a pipeline of these;
the first may be ``cat FILE``. It must read and write single files and have no other shell syntax than quotes; any other
command is the shell's. Output, messages and exit status are those of the processes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BytesIO

from io_ark.specifier import is_table_rspecifier
from io_ark.streams.pipes import COMMANDS_IN_PROCESS, STANDARD_STREAMS
from kaldi_compat.errors import INTERRUPTED_STATUS

PROGRAMS = ("wav-copy", "wav-reverberate")

_WORD = r"""(?:[\w@%+=:,./^-]|'[^'\n]*'|"[^"$`\\\n]*")+"""
_STAGE = rf"[ \t]*{_WORD}(?:[ \t]+{_WORD})*[ \t]*"
# Strings, not patterns, whose compilation would delay every program.
_PIPELINE = rf"{_STAGE}(?:\|{_STAGE})*"
_ELSEWHERE = r"--(?:verbose|help|version|config)\b|.*=-?$|.*/(?:dev|proc)/"
"""Options that change how a program logs, and names of standard input or of other open files."""


@contextmanager
def commands_in_process() -> Iterator[None]:
    """Run such commands in this process within this context."""
    COMMANDS_IN_PROCESS.append(_run)
    try:
        yield
    finally:
        COMMANDS_IN_PROCESS.remove(_run)


def _run(command: str) -> tuple[int, bytes] | None:
    """Return the exit status and the output of a command; None if it is not to be run here."""
    import shlex

    stages = [shlex.split(each) for each in _stages(command)]
    if not stages or not all(_is_ours(words, number == 0) for number, words in enumerate(stages)):
        return None
    status, data = 0, b""
    for name, *words in stages:
        if name == "cat":
            try:
                with open(words[0], "rb") as file:
                    data = file.read()
            except OSError:
                return None
        else:
            status, data = _run_program(name, words, data)
    return status, data


def _stages(command: str) -> list[str]:
    """Return the commands of a pipeline without other shell syntax than quotes; none of any other command."""
    return re.findall(rf"({_STAGE})(?:\||$)", command) if re.fullmatch(_PIPELINE, command) else []


def _is_ours(words: list[str], is_first: bool) -> bool:
    if words[0] == "cat":
        return is_first and len(words) == 2 and words[1][:1] != "-" and os.path.isfile(words[1])
    options = [word for word in words[1:] if word.startswith("--")]
    arguments = words[1 + len(options) :]
    return (
        words[0] in PROGRAMS
        and arguments[1:] == ["-"]
        and not any(word.startswith("--") or is_table_rspecifier(word) for word in arguments)
        and (arguments[0] in ("-", "")) != is_first
        and not any(re.match(_ELSEWHERE, word) for word in words)
        and _is_found(words[0], os.environ.get("PATH", ""))
    )


@lru_cache(maxsize=16)
def _is_found(name: str, path: str) -> bool:
    """Return True if a program of this name on PATH is the one of this installation."""
    import shutil

    with suppress(OSError):
        with open(shutil.which(name, path=path) or os.devnull, "rb") as file:
            text = file.read(4096)
        folder = os.path.join(os.path.dirname(sys.executable), "")
        return os.fsencode(folder) in text and b"kaldi_compat.programs." + name.replace("-", "_").encode() in text
    return False


def _run_program(name: str, words: list[str], data: bytes) -> tuple[int, bytes]:
    import importlib

    output = BytesIO()
    before = STANDARD_STREAMS.set((BytesIO(data), output))
    try:
        status = importlib.import_module(f"kaldi_compat.programs.{name.replace('-', '_')}").main(words)
    finally:
        STANDARD_STREAMS.reset(before)
    if status == INTERRUPTED_STATUS:
        raise KeyboardInterrupt
    return status, output.getvalue()
