"""Tests of subsample-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.programs import subsample_feats
from tests.support.programs import check_refused
from tests.support.tables import load, matrices, save


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 5))
def test_every_nth_frame_is_kept_or_each_repeated(lengths: list[int], n: int, offset: int) -> None:
    rows, counts = subsample_feats.subsampled(np.array(lengths), n, offset)
    kept = [list(range(offset, frames, n)) for frames in lengths]
    firsts = np.cumsum([0, *lengths])
    assert counts.tolist() == list(map(len, kept))
    assert rows.tolist() == [first + row for first, each in zip(firsts, kept, strict=False) for row in each]
    rows, counts = subsample_feats.subsampled(np.array(lengths), -n, 0)
    assert counts.tolist() == [frames * n for frames in lengths]
    assert rows.tolist() == [row for row in range(sum(lengths)) for _ in range(n)]


@pytest.mark.parametrize(
    ("option", "message"), [("--n=0", "--n=0"), ("--offset=-1", "--offset must be at least 0, not -1")]
)
def test_invalid_options_are_refused(option: str, message: str) -> None:
    source = save("a.ark", matrices(4))
    check_refused(subsample_feats.main, option, source, "ark:b.ark", message=message)


def test_a_negative_n_ignores_any_offset() -> None:
    source = save("in.ark", matrices(2))
    assert subsample_feats.main(["--n=-1", "--offset=-1", source, "ark:out.ark"]) == 0
    np.testing.assert_array_equal(load("out.ark")["u0"], matrices(2)["u0"])
