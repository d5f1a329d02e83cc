"""All programs of the installation."""

from __future__ import annotations

import importlib.metadata
import re
from typing import Any


def programs() -> dict[str, Any]:
    """Return Kaldi's programs by name, sorted."""
    scripts = importlib.metadata.distribution("kaldi-compat").entry_points
    return {
        script.name: script.load()
        for script in sorted(scripts, key=lambda script: script.name)
        if script.value.startswith("kaldi_compat.programs.")
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
    return "\n".join(f"{name:38} {summary(program.text)}" for name, program in programs().items())
