"""Generated files are those that ``make generate`` writes now."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks import figures
from kaldi_compat.frontends import Preset
from tools.generate import preset_files, targets
from tools.generate.packages import sources
from tools.generate.targets import ROOT, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_generated_file_is_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == TARGETS[name](), "run: make generate"


def test_family_of_a_preset_is_a_page() -> None:
    for family in preset_files.FAMILIES:
        assert (ROOT / "docs" / "frontends" / f"{family}.md").exists()
    wrong = dataclasses.replace(Preset.of("wenet"), family="speech")
    with pytest.raises(ValueError, match=r"wenet: family must be one of asr, .*, not 'speech'"):
        preset_files.check_family(wrong)


def test_every_stub_is_generated() -> None:
    stubs = {path.relative_to(ROOT).as_posix() for path in sources(pattern="*.pyi")}
    assert stubs == {name for name in TARGETS if name.endswith(".pyi")}


def test_page_shows_the_figures_of_the_file_and_their_quotients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "FILE", tmp_path / "figures.json")
    figures.FILE.write_text("{}")
    monkeypatch.setattr("sys.argv", ["benchmark.py", "--record"])
    rows, ratios = [["read", "1.50", "6.60"], ["write", "2", ""]], [["times", "theirs: s", "ours: s"]]
    columns = ["work", "ours: s", "theirs: s"]
    figures.report("speed", figures.Table("make speed", columns, rows, ratios, "2026-01-02", "one core"))
    page = tmp_path / "page.md"
    page.write_text("It is <!-- figure: speed, read, times -->9<!-- end --> times as fast.\n"
                    "<!-- figures: speed -->\nold\n<!-- end -->\nlast\n")  # fmt: skip
    assert figures.page(page) == (
        "It is <!-- figure: speed, read, times -->4.40<!-- end --> times as fast.\n<!-- figures: speed -->\n"
        "Measured on 2026-01-02 on one core: `make speed`.\n\n| work | ours: s | theirs: s | times |\n"
        "|---|---|---|---|\n| read | 1.50 | 6.60 | 4.40 |\n| write | 2 |  |  |\n\n<!-- end -->\nlast\n"
    )
    page.write_text("<!-- figure: speed, erase, times --><!-- end -->")
    with pytest.raises(KeyError, match="no row 'erase' in the table of 'make speed'"):
        figures.page(page)


def test_every_table_of_figures_is_on_a_page() -> None:
    shown = "".join(path.read_text() for path in figures.pages(ROOT))
    assert set(re.findall(r"<!-- figures?: ([\w-]+)", shown)) == set(figures.load())


def test_nothing_is_written_if_a_text_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise RuntimeError("the library is older than the sources")

    monkeypatch.setattr(targets, "ROOT", tmp_path)
    monkeypatch.setattr(targets, "TARGETS", {"a.txt": lambda: "new", "b.txt": fails, "c.txt": lambda: "new"})
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(
        SystemExit, match=r"cannot make b\.txt .*older than the sources.*Nothing was written.*pip install"
    ):
        targets.write()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]
    monkeypatch.setattr(targets, "TARGETS", {"a.txt": lambda: "new", "c.txt": lambda: "new"})
    targets.write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "new", "c.txt": "new"}
