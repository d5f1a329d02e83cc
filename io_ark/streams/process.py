"""Detect that a process was forked, without a system call."""

from __future__ import annotations

import os

__all__ = ["Process", "current_process"]


class Process:
    """Identity of a process: a forked process has another one."""

    __slots__ = ()


_current = Process()


def current_process() -> Process:
    """Return the identity of this process."""
    return _current


def _renew() -> None:
    global _current
    _current = Process()


os.register_at_fork(after_in_child=_renew)
