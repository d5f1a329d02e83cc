"""The page of fast paths names what is there."""

from __future__ import annotations

import re
from pathlib import Path

from tools.generate.packages import PRODUCT, sources

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/fast_paths.md").read_text(encoding="utf-8")
# What every library has for its loader.
LOADER = {"native_interface", "simd_levels"}


def test_every_function_in_c_has_a_row() -> None:
    for package in PRODUCT:
        lines = (ROOT / package / "native/signatures.txt").read_text(encoding="utf-8").splitlines()
        functions = {line.split()[0] for line in lines if not line.startswith(("struct", "#"))} - LOADER
        assert functions
        assert not {each for each in functions if f"`{each}`" not in PAGE}


def test_files_that_the_page_names_exist() -> None:
    files = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", PAGE)
    assert len(files) > 40
    if not (ROOT / "packages").exists():  # A copy of the project may lack the packages.
        files = [file for file in files if not file.startswith("packages/")]
    assert not [file for file in files if not ((ROOT / file).exists() or (ROOT / "kaldi_compat" / file).exists())]


def test_rows_name_the_files_that_call_their_functions() -> None:
    section = PAGE.partition("## C\n")[2].partition("## Other fast paths")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for _, places, functions, *_ in rows:
        folder, text = ROOT, ""
        for place in re.findall(r"`([\w./]+)`", places):
            path = next(each for each in (ROOT / place, ROOT / "kaldi_compat" / place, folder / place) if each.exists())
            folder, files = (path, sorted(path.glob("*.py"))) if path.is_dir() else (path.parent, [path])
            text += "".join(each.read_text(encoding="utf-8") for each in files)
        assert not [each for each in re.findall(r"`(\w+)`", functions) if f'"{each}"' not in text], places


def test_few_places_choose_between_c_and_numpy() -> None:
    asked = re.compile(r"\bin_use\b|(?<!def )\blibrary\(\)|\bnative\.twin\(", re.IGNORECASE)
    found = {
        path.relative_to(ROOT).as_posix(): len(asked.findall(path.read_text(encoding="utf-8")))
        for path in sources()
        if path.parent.name != "native" and path.name != "info.py"  # which only says what is in use
    }
    assert sum(found.values()) <= 25, {path: count for path, count in found.items() if count}
