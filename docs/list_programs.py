"""Write the table of programs into docs/programs.md, from the programs themselves: python docs/list_programs.py."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

PAGE = Path(__file__).with_name("programs.md")
BEGIN, END = "<!-- programs -->\n", "<!-- end of programs -->\n"


def table() -> str:
    """A line per program: its name, and the first sentence of its usage."""
    scripts = importlib.metadata.distribution("kaldi-compat").entry_points
    lines = ["| program | what it does |\n", "|---|---|\n"]
    for script in sorted(scripts, key=lambda script: script.name):
        if script.value.startswith("kaldi_compat.programs."):
            about = " ".join(script.load().text.split("Usage:")[0].split())
            lines.append(f"| `{script.name}` | {re.split(r'(?<=[.]) ', about)[0]} |\n")
    return "".join(lines)


def page(text: str) -> str:
    """The page with the table brought up to date."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
