"""Links and counts of the README and docs/, and the list of programs, are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kaldi_compat.dump.arguments import list_programs
from tools.generate import pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("generated", "_build")
PAGES = [
    *sorted([*ROOT.glob("*.md"), *ROOT.glob("packages/**/README.md")]),
    *sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_existing_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    paths = {link: DOCS / link.lstrip("/") if link.startswith("/") else page.parent / link for link in links}
    missing = [path.resolve() for path in paths.values() if not path.exists()]
    absent = () if (ROOT / "packages").exists() else (ROOT / "packages",)  # a copy of the product alone
    assert [path for path in missing if not any(map(path.is_relative_to, (DOCS / "generated", *absent)))] == []


@pytest.mark.parametrize("folder", ["howto", "tutorials"])
def test_every_page_is_linked_from_the_index_of_its_folder(folder: str) -> None:
    links = re.findall(r"\]\((\w+\.md)\)", (DOCS / folder / "index.md").read_text())
    assert sorted(["index.md", *links]) == sorted(path.name for path in (DOCS / folder).glob("*.md"))


@pytest.mark.parametrize("words", pages.counts())
def test_pages_state_the_true_counts(words: str) -> None:
    numbers = [number for page in PAGES for number in re.findall(rf"(\d[\d,]*)\s+{words}", page.read_text())]
    assert set(numbers) == {f"{pages.counts()[words]:,}"}
    assert len(numbers) > 1


def test_every_program_has_an_entry_point_and_a_stored_command_of_kaldi() -> None:
    named = set(
        re.findall(r'^([\w-]+) = "kaldi_compat\.programs\.', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    )
    files = {path.stem.replace("_", "-") for path in (ROOT / "kaldi_compat" / "programs").glob("[a-z]*.py")}
    assert files == named, "add the program under [project.scripts]"
    assert named == set(list_programs()), "install again: pip install -e ."
    without_commands = set(list_programs()) - pages.list_compared_programs()
    assert without_commands == set(), "add commands of Kaldi's program to reference_data/cases.json"


def test_counts_and_tables_of_a_page_are_brought_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It has 3 programs with Kaldi's flags.\n<!-- programs -->\nold\n<!-- end of programs -->\n")
    count = pages.counts()["programs(?: of Kaldi|, `| with Kaldi)"]
    assert pages.source(page).startswith(f"It has {count} programs with Kaldi's flags.\n<!-- programs -->\n| program |")
    assert pages.source(page).count("\n| `") == count > 70
