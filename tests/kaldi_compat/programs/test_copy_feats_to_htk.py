"""Tests of copy-feats-to-htk that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kaldi_compat.programs import (
    copy_feats_to_htk,
)
from tests.support.programs import run
from tests.support.tables import matrices, save

Run = Callable[..., int]


@pytest.mark.parametrize(("kind", "stored"), [("-1", b"\xff\xff"), ("65545", b"\0\x09")])
def test_sample_kind_keeps_its_lowest_bits_as_in_kaldi(kind: str, stored: bytes) -> None:
    source = save("a.ark", matrices(4))
    run(copy_feats_to_htk.main, f"--sample-kind={kind}", "--output-ext=htk", source)
    assert Path("u0.htk").read_bytes()[10:12] == stored
