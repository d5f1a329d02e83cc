"""The pages of docs/frontends say what the presets are, and how far they are from the models' own code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from kaldi_compat import list_presets
from tests.kaldi_compat.frontends.test_references import TOLERANCE, TOLERANCES

DOCS = Path(__file__).resolve().parents[2] / "docs"
FAMILIES = ("asr", "audio-events", "funasr", "speakers", "transformers")


def test_every_preset_is_on_a_page() -> None:
    index = (DOCS / "frontends" / "index.md").read_text()
    assert [name for name in list_presets() if f"`{name}`" not in index] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_and_differences_of_a_page_are_current(family: str) -> None:
    lister = runpy.run_path(str(DOCS.parent / "tools" / "list_frontends.py"))
    presets = lister["group_by_family"]()[family]
    page = (DOCS / "frontends" / f"{family}.md").read_text()
    assert lister["format_settings"](presets) in page, "run: python tools/list_frontends.py"
    rows = re.findall(r"^\| (`[^|]+`) \| ([\d.e+-]+) \| [\d.e+-]+ \|$", page, re.M)
    stated = {name.strip("`"): largest for names, largest in rows for name in names.split(", ")}
    assert set(stated) == {preset.name for preset in presets}
    assert all(float(largest) < TOLERANCES.get(name, TOLERANCE) for name, largest in stated.items())
    for preset in presets[:2]:
        assert lister["measure_differences"](preset)[0] <= 2 * float(stated[preset.name]) + 1e-6
