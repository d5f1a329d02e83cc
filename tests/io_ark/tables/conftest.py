"""Kaldi's archives of the reference set, for the tests of tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

INPUTS = Path(__file__).parents[3] / "reference_data" / "inputs"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kaldi's own archives of the reference set, as the working directory."""
    for name in ("feats.ark", "feats.scp", "truncated.ark", "unsorted.scp", "dup.scp", "badoffset.scp", "blankline.scp",
                 "keyonly.scp", "garbage.ark", "ranges.scp", "ranges_bad.scp"):  # fmt: skip
        shutil.copy(INPUTS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
