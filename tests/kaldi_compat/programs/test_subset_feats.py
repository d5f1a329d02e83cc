"""Tests of subset-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.programs import subset_feats
from tests.support.tables import load, matrices, save


@pytest.mark.parametrize("option", ["--include=u0", "--exclude=u1"])
def test_files_of_other_utterances_need_not_exist(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    save("a.ark", matrices(2))
    for key in ("u0", "u1"):
        Path(key).write_text(f"{key}\n")
    Path("a.scp").write_text("u0 a.ark:3\nu1 nothing.ark:3\n")
    assert subset_feats.main([option, "scp:a.scp", "ark:b.ark"]) == 0
    assert Path("b.ark").read_bytes() == Path("a.ark").read_bytes()
    assert "Wrote 1 out of 2 utterances" in capsys.readouterr().err


def test_listed_keys_with_wide_spaces_are_found() -> None:
    Path("list").write_text("u\u30000 x\n")
    source = save("a.ark", {key: np.ones((1, 2), "f4") for key in ("u", "u\u30000")})
    assert subset_feats.main(["--include=list", source, "ark:b.ark"]) == 0
    assert list(load("b.ark")) == ["u\u30000"]
