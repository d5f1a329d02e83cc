"""Generated files are those that ``make generate`` writes now."""

from __future__ import annotations

import pytest

from generate.targets import ROOT, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_generated_file_is_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == TARGETS[name](), "run: make generate"


def test_every_stub_is_generated() -> None:
    stubs = {path.relative_to(ROOT).as_posix() for package in ("io_ark", "kaldi_compat")
             for path in (ROOT / package).rglob("*.pyi")}  # fmt: skip
    assert stubs == {name for name in TARGETS if name.endswith(".pyi")}
