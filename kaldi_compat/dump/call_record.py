"""Record the files, environment variables, programs and network connections that the calls of an extractor use."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from kaldi_compat.dump.user_modules import is_library_file, is_user_module

# Audit events of Python whose first argument is the path of a file.
FILE_EVENTS = ("open", "ctypes.dlopen")
# Description of a file that calls may change, so that its content at the start cannot be compared.
UPDATED_FILE = "a file that its calls open for reading and writing"
# Audit events of other sources of data that cannot be compared, with their descriptions.
EXTERNAL_EVENTS = {
    "sqlite3.connect": "a database that its calls open",
    "subprocess.Popen": "a program that its calls run",
    "os.system": "a program that its calls run",
    "os.posix_spawn": "a program that its calls run",
    "os.fork": "a process that its calls fork",
    "os.forkpty": "a process that its calls fork",
    "socket.connect": "a network connection of its calls",
    "socket.sendto": "a network connection of its calls",
    "socket.sendmsg": "a network connection of its calls",
}
# Audit events of folders whose entries are listed. Another file in such a folder may change what the calls read.
FOLDER_EVENTS = ("os.listdir", "os.scandir")
LISTED_FOLDER = "a folder that its calls list"
# Libraries that compile code during the first calls. The files that a compiler reads do not affect results.
COMPILERS = ("torch._dynamo", "torch._inductor", "triton", "numba")
SYSTEM_FOLDERS = ("/proc/", "/sys/", "/dev/")  # Folders with files that describe the machine, which are not recorded.
SHARED_MEMORY = "/dev/shm/"  # This folder holds ordinary files.
CODE_SUFFIXES = tuple(importlib.machinery.all_suffixes())
# Modules that open files of code to import or show them. Other modules open such files as data.
READERS_OF_CODE = ("importlib._bootstrap_external", "_frozen_importlib_external", "zipimport", "tokenize")
# Modules that implement os.environ. Their first caller in another module reads the variable.
ENVIRONMENT_MODULES = ("os", "collections.abc", "_collections_abc", __name__)
# Modules that list folders for their callers.
FOLDER_MODULES = ("os", "glob", "pathlib", "pathlib._local", "pathlib._abc", "pathlib.types", __name__)


@dataclass
class CallRecord:
    """Sources of data, such as files and environment variables, that calls of an extractor have used."""

    read: set[Path] = field(default_factory=set)  # Files that were opened for reading.
    # Files that were opened for writing. The calls create their content, so it is not compared.
    written: set[Path] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)  # Names of environment variables that the user's code has read.
    external: set[str] = field(default_factory=set)  # Descriptions of sources of data that cannot be compared.

    def list_files(self) -> list[Path]:
        """Return the sorted paths of files that were only read. Include missing files, which a later call may find."""
        return sorted(path for path in self.read - self.written if path.is_file() or not path.exists())


_RECORDED_EVENTS = {*FILE_EVENTS, *EXTERNAL_EVENTS, *FOLDER_EVENTS}
_active: list[CallRecord] = []  # The record of the current block of record_calls; empty outside of such a block.


@functools.cache
def _install_hook() -> None:
    sys.addaudithook(_record_event)  # The hook is added only once, since Python cannot remove it.


@contextlib.contextmanager
def record_calls() -> Iterator[CallRecord]:
    """Yield a record of the sources of data that this process uses in the ``with`` block. Blocks cannot be nested."""
    _install_hook()
    record = CallRecord()
    environment: Any = os.environ
    original_class = environment.__class__  # The class is replaced, because code may hold references to the object.
    _active[:] = [record]
    environment.__class__ = _RecordedEnvironment
    try:
        yield record
    finally:
        environment.__class__ = original_class
        _active.clear()


class _RecordedEnvironment(type(os.environ)):  # type: ignore[misc]
    """Environment variables that record their names when the user's code reads them."""

    def __getitem__(self, name: str) -> str:
        """Return the value of a variable. Record its name if the user's code reads it."""
        if _is_user_behind(ENVIRONMENT_MODULES):
            for record in _active:
                record.variables.add(name)
        value: str = super().__getitem__(name)
        return value


def _record_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Record the source of data that an audit event names, if a block of :func:`record_calls` is active.

    Skip events of compilers, files of libraries and of the system, and files of code that are imported or shown.
    """
    record = next(iter(_active), None)
    if record is None or event not in _RECORDED_EVENTS or _is_compiling():
        return
    if event in FOLDER_EVENTS:
        record.external.update([LISTED_FOLDER] if _is_user_behind(FOLDER_MODULES) else [])
        return
    if event in EXTERNAL_EVENTS:
        record.external.add(EXTERNAL_EVENTS[event])
        return
    if not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    name = os.path.abspath(os.fsdecode(arguments[0]))
    is_module = name.endswith(CODE_SUFFIXES) and sys._getframe(1).f_globals.get("__name__") in READERS_OF_CODE
    is_of_system = name.startswith(SYSTEM_FOLDERS) and not name.startswith(SHARED_MEMORY)
    if is_module or is_of_system or is_library_file(Path(name)):
        return
    # The arguments of the event "open" are the path, the mode and the flags.
    flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else os.O_RDONLY
    if flags & os.O_ACCMODE == os.O_WRONLY or flags & (os.O_CREAT | os.O_TRUNC):
        record.written.add(Path(name))
    elif flags & os.O_ACCMODE == os.O_RDWR:
        record.external.add(UPDATED_FILE)
    else:
        record.read.add(Path(name))


def _is_user_behind(modules: tuple[str, ...]) -> bool:
    """Return True if the closest caller that is not one of ``modules`` is the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_globals.get("__name__") in modules:
        frame = frame.f_back
    return frame is not None and is_user_module(frame.f_globals.get("__name__"))


def _is_compiling() -> bool:
    """Return True if one of the :data:`COMPILERS` has caused the current audit event."""
    frame: FrameType | None = sys._getframe(2)  # Frame 0 is this function, and frame 1 the audit hook.
    while frame:
        if str(frame.f_globals.get("__name__")).startswith(COMPILERS):
            return True
        frame = frame.f_back
    return False
