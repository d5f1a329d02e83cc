"""The loggers of the packages. Importing ``logging`` takes 3 ms, so they are made when something is logged."""

from __future__ import annotations

from typing import Any


class Logger:
    """Stands for ``logging.getLogger(name)``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        import logging

        return getattr(logging.getLogger(self._name), name)


logger = Logger("io_ark")
