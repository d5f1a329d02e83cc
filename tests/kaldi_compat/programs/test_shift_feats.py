"""Tests of shift-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from io_ark.blocks import ArrayBlock
from kaldi_compat.programs import shift_feats
from tests.support.tables import load, text


@given(st.integers(1, 9), st.integers(-12, 12))
def test_frames_at_the_edges_are_repeated(frames: int, shift: int) -> None:
    matrix = np.arange(frames, dtype=np.float32)[:, None]
    expected = [min(max(r - shift, 0), frames - 1) for r in range(frames)]
    shifted = shift_feats.shifted(ArrayBlock.of(["a", "b"], [matrix, matrix + 99]), shift)
    assert [each[:, 0].tolist() for _, each in shifted.entries()] == [expected, [99 + row for row in expected]]


def test_empty_matrices_are_skipped() -> None:
    assert shift_feats.main([text("a.txt", "a [ ]\nb [\n 1 2 ]\n"), "ark:o.ark"]) == 0
    assert list(load("o.ark")) == ["b"]
