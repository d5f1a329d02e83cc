"""Links of the README and docs/, and the list of programs, are up to date."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_list_of_programs_is_current() -> None:
    lister = runpy.run_path(str(ROOT / "docs" / "list_programs.py"))
    page = (ROOT / "docs" / "programs.md").read_text()
    assert lister["page"](page) == page, "run: python docs/list_programs.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_existing_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
