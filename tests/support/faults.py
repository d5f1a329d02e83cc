"""Faults at chosen calls of a program: a kill, or an error of the operating system."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

CALLS = {"write", "flush", "close", "fsync", "fdatasync", "replace", "rename", "unlink", "symlink", "mkdir", "rmdir"}
CALLS |= {"open"}


def at_call(number: int, act: Callable[[], None]) -> list[int]:
    """Call a function before the ``number``-th call, from 0, of one of CALLS in any thread; return their count."""
    count = [0]

    def watch(frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ in CALLS and not isinstance(function.__self__, str):
            count[0] += 1
            if count[0] == number + 1:
                act()

    threading.setprofile(watch)
    sys.setprofile(watch)
    return count
