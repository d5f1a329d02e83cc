"""Loggers of the packages. Importing ``logging`` takes 3 ms, so it is imported with the first message."""

from __future__ import annotations

from typing import Any


class Logger:
    """Behaves like ``logging.getLogger(name)``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        import logging

        return getattr(logging.getLogger(self._name), name)


logger = Logger("io_ark")
