"""Figures of the benchmarks, in one file from which all pages take their tables.

A benchmark prints its table with :func:`report`. If the command line has ``--record``, the function also stores the
table in ``figures.json``, with the machine and the date. A page shows a table of the file between two lines::

    <!-- figures: programs -->
    <!-- end -->

and a single figure, within a line, as ``<!-- figure: SECTION, ROW, COLUMN --><!-- end -->``. ``make generate`` fills in
both, and a test fails when a page disagrees with the file. Ratios are not stored, because they are computed from the
figures that are shown.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("figures.json")
_TABLE = re.compile(r"<!-- figures: ([\w-]+) -->\n.*?<!-- end -->", flags=re.S)
_FIGURE = re.compile(r"<!-- figure: ([\w-]+), ([^>]+), ([^>,]+) -->.*?<!-- end -->", flags=re.S)


def machine() -> str:
    """Return the number of cores, the processor's name and the widest SIMD instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        name = text.split("model name")[1].split(":", 1)[1].split("\n")[0].strip()
        flags = text.split("flags")[1].split("\n")[0].split()
    except (OSError, IndexError):
        name, flags = platform.processor() or platform.machine(), []
    simd = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    return f"{os.cpu_count()} cores of {name}, {simd}"


@dataclass(frozen=True)
class Table:
    """Table of the figures that a benchmark measured.

    Attributes:
        command: the command line that measured the figures.
        columns: heads of the columns. The first column names the rows.
        rows: the cells as strings. An empty string stands for a missing measurement.
        ratios: columns to show in addition: the head, the column (or number) that is divided, and the column that it is
            divided by.
        date, machine: date of the measurement, and description of the machine.
    """

    command: str
    columns: list[str]
    rows: list[list[str]]
    ratios: list[list[str]] = field(default_factory=list)
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())
    machine: str = field(default_factory=machine)

    @property
    def heads(self) -> list[str]:
        """Heads of all columns, each ratio behind the columns that it divides."""
        heads = list(self.columns)
        for head, *divided in self.ratios:
            heads.insert(max(heads.index(column) for column in divided if column in heads) + 1, head)
        return heads

    def cells(self) -> list[dict[str, str]]:
        """Return the rows, including the ratios, as dictionaries from the heads of the columns to the cells."""
        cells = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        for row in cells:
            for head, over, under in self.ratios:
                row[head] = _quotient(row.get(over, over), row[under])
        return cells

    def cell(self, name: str, head: str) -> str:
        """Return the cell in the row with this name and the column with this head."""
        cells = [row[head] for row in self.cells() if row[self.columns[0]] == name]
        if not cells:
            raise KeyError(f"no row {name!r} in the table of {self.command!r}: record it again")
        return cells[0]

    def __str__(self) -> str:
        heads = self.heads
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        return "\n".join([*lines, *(f"| {' | '.join(row[head] for head in heads)} |" for row in self.cells())])


def load() -> dict[str, Table]:
    """Return the tables of ``figures.json`` by name."""
    return {name: Table(**stored) for name, stored in json.loads(FILE.read_text(encoding="utf-8")).items()}


def report(section: str, table: Table) -> None:
    """Print a table, and store it if the command line has ``--record``."""
    print(table, flush=True)
    if "--record" in sys.argv:
        stored = {name: asdict(stored_table) for name, stored_table in load().items()} | {section: asdict(table)}
        FILE.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page(path: Path) -> str:
    """Return the text of a page with its figures filled in."""
    tables = load()

    def filled(match: re.Match[str]) -> str:
        table = tables[match[1]]
        caption = f"Measured on {table.date} on {table.machine}: `{table.command}`."
        return f"<!-- figures: {match[1]} -->\n{caption}\n\n{table}\n\n<!-- end -->"

    def figure(match: re.Match[str]) -> str:
        section, name, head = match.groups()
        return f"<!-- figure: {section}, {name}, {head} -->{tables[section].cell(name, head)}<!-- end -->"

    return _FIGURE.sub(figure, _TABLE.sub(filled, path.read_text(encoding="utf-8")))


def pages(root: Path) -> list[Path]:
    """Return the pages that show figures."""
    candidates = [root / "README.md", root / "benchmarks" / "README.md", *sorted((root / "docs").rglob("*.md"))]
    built = {root / "docs" / "_build", root / "docs" / "generated"}
    return [path for path in candidates if built.isdisjoint(path.parents) and "<!-- figure" in path.read_text()]


def _quotient(over: str, under: str) -> str:
    """Divide one cell by another. Return an empty string if a cell is not a number, or the divisor is 0."""
    try:
        ratio = float(over.replace(",", "")) / float(under.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return ""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
