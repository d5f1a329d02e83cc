"""Write the table of programs into docs/programs.md, from the programs themselves: python docs/list_programs.py."""

from __future__ import annotations

from pathlib import Path

from kaldi_compat.dump.catalogue import programs, summary

PAGE = Path(__file__).with_name("programs.md")
BEGIN, END = "<!-- programs -->\n", "<!-- end of programs -->\n"


def table() -> str:
    """A line per program: its name, and the first sentence of its usage."""
    lines = ["| program | what it does |\n", "|---|---|\n"]
    lines += [f"| `{name}` | {summary(program.text)} |\n" for name, program in programs().items()]
    return "".join(lines)


def page(text: str) -> str:
    """The page with the table brought up to date."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
