"""Table of supported properties in docs/supported.md, written by the tests that verify them.

A test marked ``supported(property)`` whose parameter ``case`` is a feature verifies one cell. ``pytest
--write-supported`` runs the tests and writes the cells: passed, expected to fail (with the reason), or skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "supported.md"
YES, NO, UNTRIED = "yes", "no", "—"
START, END = "<!-- written by pytest --write-supported -->\n", "<!-- end -->\n"

Cell = tuple[str, str]  # property, feature
Outcomes = dict[Cell, tuple[str, str]]  # entry, and the reason if it is not yes


def cell_of(item: pytest.Item) -> Cell | None:
    """Return the cell that a test verifies, or None."""
    marker = item.get_closest_marker("supported")
    if marker is None or not isinstance(item, pytest.Function):
        return None
    return marker.args[0], item.callspec.params["case"].name


def outcome_of(report: pytest.TestReport) -> tuple[str, str]:
    """Return the entry of a finished test for its cell, and the reason if it is not yes."""
    if hasattr(report, "wasxfail"):
        return NO, report.wasxfail.removeprefix("reason: ")
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        return UNTRIED, reason.removeprefix("Skipped: ")
    return (YES, "") if report.passed else (NO, "the test fails")


def table(outcomes: Outcomes) -> str:
    """Return the table in Markdown, with a numbered note for each reason."""
    properties = list(dict.fromkeys(name for name, _ in outcomes))
    features = list(dict.fromkeys(name for _, name in outcomes))
    notes: list[str] = []
    rows = [["", *features], ["---"] * (len(features) + 1)]
    for name in properties:
        row = [name]
        for feature in features:
            entry, reason = outcomes.get((name, feature), ("", ""))
            if reason:
                if reason not in notes:
                    notes.append(reason)
                entry += f" [{notes.index(reason) + 1}]"
            row.append(entry)
        rows.append(row)
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"{i}. {note}" for i, note in enumerate(notes, 1)), ""])


def write(outcomes: Outcomes) -> None:
    """Replace the table in the document."""
    text = DOCUMENT.read_text()
    before, after = text[: text.index(START) + len(START)], text[text.index(END) :]
    DOCUMENT.write_text(before + table(outcomes) + after)


def cells_in_document() -> set[tuple[str, str, str]]:
    """Return property, feature and entry (without note) of the non-empty cells of the committed table."""
    text = DOCUMENT.read_text()
    lines = [line for line in text[text.index(START) : text.index(END)].splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        (row[0], feature, re.sub(r" \[\d+\]$", "", entry))
        for row in rows
        for feature, entry in zip(header[1:], row[1:], strict=True)
        if entry
    }


def cells_of(items: Iterable[pytest.Item]) -> set[Cell]:
    """Return the cells that these tests verify."""
    return {cell for item in items if (cell := cell_of(item)) is not None}
