"""Detect that a process was forked, without a system call."""

from __future__ import annotations

import os


class Process:
    """Identity of a process: a forked process has another one."""

    __slots__ = ()


current = Process()
"""Identity of this process. Read it as an attribute of this module, because a fork changes it."""


def current_process() -> Process:
    """Return the identity of this process."""
    return current


def _renew() -> None:
    global current
    current = Process()


os.register_at_fork(after_in_child=_renew)
