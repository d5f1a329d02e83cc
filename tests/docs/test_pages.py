"""Links and counts of the README and docs/, and the list of programs, are up to date."""

from __future__ import annotations

import json
import re
import runpy
import typing
from pathlib import Path

import pytest

import io_ark
from kaldi_compat import list_presets

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


def counts() -> dict[str, int]:
    """Return how many there are by the words that follow the number on a page."""
    reference, folder = ROOT / "reference_data", DOCS / "migrating"
    kit = [json.loads(path.read_text())["vectors"] for path in (reference / "conformance").glob("level-*.json")]
    functions, _, scripts = (folder / "repositories.md").read_text().partition("## Scripts")
    rows = re.findall(r"^\| \[([^]]+)\]", functions, flags=re.M)
    programs = (DOCS / "programs.md").read_text().partition("<!-- end")[0]
    return {
        r"programs(?: of Kaldi|, `| with Kaldi)": programs.count("\n| `"),
        r"commands[,.]": len(json.loads((reference / "cases.json").read_text())),
        r"(?:test )?vectors (?:that|from) Kaldi": sum(map(len, kit)),
        r"(?:presets of|published models)": len(list_presets()),
        r"(?:types of objects|kinds\b)": len(typing.get_args(io_ark.Kind)),
        r"functions of \d+ (?:public )?repositories": len(rows),
        r"(?:public )?repositories(?:, such|\s+and \d+)": len(set(rows)),
        r"(?:of their )?scripts run": len(re.findall(r"^\| \[", scripts, flags=re.M)),
    }


@pytest.mark.parametrize(("words", "count"), counts().items())
def test_pages_say_how_many_there_are(words: str, count: int) -> None:
    said = [number for page in PAGES for number in re.findall(rf"(\d[\d,]*)\s+{words}", page.read_text())]
    assert len(said) > 1
    assert set(said) == {f"{count:,}"}
