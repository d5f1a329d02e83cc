"""Run commands of script files within this process if they are programs of this package.

Starting a process for ``wav-reverberate ... |`` takes ten times as long as the computation. Therefore, a command runs
within this process if it is one of :data:`PROGRAMS` and PATH finds the program of this installation, or if it is a
pipeline that ends with such programs. Other programs at the start of the pipeline, such as ``sox`` or ``flac``, run in
a shell. The programs must read and write single files, and the command must have no shell syntax but quotes and pipes.
All other commands run in a shell. Output, messages and exit status are the same in both cases.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BytesIO
from typing import Any

from io_ark.specifier import is_table_rspecifier
from io_ark.streams.pipes import COMMANDS_IN_PROCESS, STANDARD_STREAMS, Spawn, wait_for
from kaldi_compat.errors import INTERRUPTED_STATUS

PROGRAMS = ("copy-feats", "copy-matrix", "copy-vector", "wav-copy", "wav-reverberate")

_WORD = r"""(?:[\w@%+=:,./^-]|'[^'\n]*'|"[^"$`\\\n]*")+"""
_STAGE = rf"[ \t]*{_WORD}(?:[ \t]+{_WORD})*[ \t]*"
# These are strings, because compiling patterns would delay the start of every program.
_PIPELINE = rf"{_STAGE}(?:\|{_STAGE})*"
_ELSEWHERE = r"--(?:verbose|help|version|config)\b|.*=$|.*[=:,]-(?:,|$)|.*/(?:dev|proc)/"
"""Words of commands that run in a shell: options that change logging, and names of standard input and open files."""


@contextmanager
def run_commands_in_process() -> Iterator[None]:
    """Within this context, run commands of script files in this process if they end with programs of this package."""
    COMMANDS_IN_PROCESS.append(_run_command)
    try:
        yield
    finally:
        COMMANDS_IN_PROCESS.remove(_run_command)


def _run_command(command: str, spawn: Spawn) -> tuple[int, bytes] | None:
    """Run a command, and return its exit status and output. Return None if the command must run in a shell.

    If a pipeline starts with programs of other packages, ``spawn`` starts these programs in a shell.
    """
    import shlex
    import shutil

    commands = _split_pipeline(command)
    stages = list(map(shlex.split, commands))
    num_foreign = len(stages)
    while num_foreign and _can_run_here(stages[num_foreign - 1], is_first=num_foreign == 1):
        num_foreign -= 1
    foreign_programs = [words[0] for words in stages[:num_foreign]]
    # The shell runs words that are not files on PATH, such as its own commands, and "time", which is also a keyword.
    if num_foreign == len(stages) or not all(name != "time" and shutil.which(name) for name in foreign_programs):
        return None
    own_stages = stages[num_foreign:]
    if not num_foreign:
        return _run_programs(own_stages, BytesIO())
    process, read_end = spawn("|".join(commands[:num_foreign]))
    try:
        with open(read_end, "rb", buffering=0) as stream:
            return _run_programs(own_stages, stream)
    finally:
        wait_for(process)  # The status is not used: as in a shell, only the last command's status counts.


def _run_programs(stages: list[list[str]], stream: Any) -> tuple[int, bytes]:
    """Run a pipeline that reads ``stream``, and return the exit status and the output of its last program.

    ``stages`` are the pipeline's commands, split into words.
    """
    status, output = 0, b""
    for name, *words in stages:
        status, output = _run_program(name, words, stream)
        stream = BytesIO(output)
    return status, output


def _split_pipeline(command: str) -> list[str]:
    """Return the commands of a pipeline, or an empty list if it has shell syntax other than quotes and pipes."""
    return re.findall(rf"({_STAGE})(?:\||$)", command) if re.fullmatch(_PIPELINE, command) else []


def _can_run_here(words: list[str], is_first: bool) -> bool:
    """Return True if a command of a pipeline, split into ``words``, can run in this process.

    The program must be one of :data:`PROGRAMS`, be installed, and write a single file to standard output. The first
    program must read a named file, and later programs standard input. No word may require a shell (``_ELSEWHERE``).
    """
    options = [word for word in words[1:] if word.startswith("--")]
    arguments = words[1 + len(options) :]
    reads_standard_input = arguments[:1] in (["-"], [""])
    return (
        words[0] in PROGRAMS
        and arguments[1:] == ["-"]
        and not any(word.startswith("--") or is_table_rspecifier(word) for word in arguments)
        and reads_standard_input != is_first
        and not any(re.match(_ELSEWHERE, word) for word in words)
        and _is_installed_here(words[0], os.environ.get("PATH", ""))
    )


@lru_cache(maxsize=16)
def _is_installed_here(name: str, path: str) -> bool:
    """Return True if the first program ``name`` in the folders of ``path`` (PATH) belongs to this installation."""
    import shutil

    with suppress(OSError):
        with open(shutil.which(name, path=path) or os.devnull, "rb") as file:
            script = file.read(4096)  # Installed programs are short scripts that name their interpreter and module.
        folder = os.path.join(os.path.dirname(sys.executable), "")
        return os.fsencode(folder) in script and b"kaldi_compat.programs." + name.replace("-", "_").encode() in script
    return False


def _run_program(name: str, words: list[str], stream: Any) -> tuple[int, bytes]:
    """Run a program with the arguments ``words`` on the input ``stream``. Return its exit status and its output."""
    import importlib

    output = BytesIO()
    token = STANDARD_STREAMS.set((stream, output))
    try:
        status = importlib.import_module(f"kaldi_compat.programs.{name.replace('-', '_')}").main(words)
    finally:
        STANDARD_STREAMS.reset(token)
    if status == INTERRUPTED_STATUS:
        raise KeyboardInterrupt
    return status, output.getvalue()
