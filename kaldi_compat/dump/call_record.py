"""Record what the calls of an extractor read beside its own state: files, environment variables, programs, network."""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from kaldi_compat.dump.user_modules import is_library_file, is_user_module

# Audit events of Python whose first argument is the path of a file that is read.
FILE_EVENTS = ("open", "sqlite3.connect", "ctypes.dlopen")
# Audit events that fetch data from outside, and their descriptions.
EXTERNAL_EVENTS = {
    "subprocess.Popen": "a program that its calls run",
    "os.system": "a program that its calls run",
    "os.posix_spawn": "a program that its calls run",
    "socket.connect": "a network connection of its calls",
}
# Libraries that compile code during the first calls. What they read does not decide numbers.
COMPILERS = ("torch._dynamo", "torch._inductor", "triton", "numba")
SYSTEM_FOLDERS = ("/proc/", "/sys/", "/dev/")
CODE_SUFFIXES = tuple(importlib.machinery.all_suffixes())
ENVIRONMENT_MODULES = ("os", "collections.abc", "_collections_abc", __name__)


@dataclass
class CallRecord:
    """What calls have read.

    Attributes:
        read: files that were opened for reading.
        written: files that were opened for writing. They do not decide numbers, since the calls create them.
        variables: names of environment variables that the user's code has read.
        external: descriptions of data from outside, which cannot be compared.
    """

    read: set[Path] = field(default_factory=set)
    written: set[Path] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    external: set[str] = field(default_factory=set)

    def files(self) -> list[Path]:
        """Return the files that decide numbers, apart from source files of modules. A missing one may appear later."""
        return sorted(path for path in self.read - self.written if path.is_file() or not path.exists())


_active: list[CallRecord] = []  # The record of the current block. Python cannot remove an audit hook.
_has_hook: list[bool] = []


@contextlib.contextmanager
def record_calls() -> Iterator[CallRecord]:
    """Record what the code of this block reads."""
    if not _has_hook:
        sys.addaudithook(_take_event)
        _has_hook.append(True)
    record = CallRecord()
    environment: Any = os.environ
    original = environment.__class__
    _active.append(record)
    environment.__class__ = _RecordedEnvironment
    try:
        yield record
    finally:
        environment.__class__ = original
        _active.remove(record)


class _RecordedEnvironment(type(os.environ)):  # type: ignore[misc]
    """Environment variables whose names are recorded when the user's code reads them."""

    def __getitem__(self, name: str) -> str:
        frame: FrameType | None = sys._getframe(1)
        while frame and frame.f_globals.get("__name__") in ENVIRONMENT_MODULES:
            frame = frame.f_back
        if frame and is_user_module(frame.f_globals.get("__name__")):
            for record in _active:
                record.variables.add(name)
        value: str = super().__getitem__(name)
        return value


def _take_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Record an audit event. Every call of this process that raises an event comes here, so it returns early."""
    if not _active or (event not in FILE_EVENTS and event not in EXTERNAL_EVENTS):
        return
    if _is_compiling():
        return
    if event in EXTERNAL_EVENTS:
        _active[-1].external.add(EXTERNAL_EVENTS[event])
        return
    if not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    name = os.path.abspath(os.fsdecode(arguments[0]))
    if name.startswith(SYSTEM_FOLDERS) or name.endswith(CODE_SUFFIXES) or is_library_file(Path(name)):
        return
    flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else os.O_RDONLY
    is_written = flags & os.O_ACCMODE == os.O_WRONLY or flags & (os.O_CREAT | os.O_TRUNC)
    (_active[-1].written if is_written else _active[-1].read).add(Path(name))


def _is_compiling() -> bool:
    frame: FrameType | None = sys._getframe(2)
    while frame:
        if str(frame.f_globals.get("__name__")).startswith(COMPILERS):
            return True
        frame = frame.f_back
    return False
