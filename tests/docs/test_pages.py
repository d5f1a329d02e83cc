"""Links of the README and docs/, and the list of programs, are up to date."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("generated", "_build")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED),
]


def test_list_of_programs_is_current() -> None:
    lister = runpy.run_path(str(ROOT / "docs" / "list_programs.py"))
    page = (ROOT / "docs" / "programs.md").read_text()
    assert lister["page"](page) == page, "run: python docs/list_programs.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_existing_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    paths = {link: DOCS / link.lstrip("/") if link.startswith("/") else page.parent / link for link in links}
    generated = {link for link, path in paths.items() if path.is_relative_to(DOCS / "generated")}
    assert [link for link, path in paths.items() if not path.exists() and link not in generated] == []
