"""Tests of paste-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import kaldiio
import numpy as np
import pytest

from io_ark.blocks import Skip
from kaldi_compat.cli.paste import pasted
from kaldi_compat.programs import paste_feats
from tests.support.programs import check_failed, check_refused
from tests.support.tables import load, matrices, save


def test_lengths_beyond_the_tolerance_are_skipped() -> None:
    short, long = matrices(5)["u0"], matrices(7)["u0"]
    assert pasted([[short], [long]], 2, [""])[0].shape == (5, 6)
    with pytest.raises(Skip, match=r"Length mismatch 7 vs\. 5 exceeds tolerance 1"):
        pasted([[short], [long]], 1, [""])
    with pytest.raises(Skip):
        pasted([[short], [long[:0]]], 10, [""])


def test_files_are_pasted_and_missing_utterances_skipped() -> None:
    values = matrices(3, 4)
    for key, value in values.items():
        kaldiio.save_mat(f"{key}.mat", value)
    assert paste_feats.main(["u0.mat", "u0.mat", "o.mat"]) == 0
    np.testing.assert_array_equal(kaldiio.load_mat("o.mat"), np.hstack([values["u0"]] * 2))
    assert paste_feats.main(["u0.mat", "u1.mat", "o.mat"]) == 1
    both, one = save("both.ark", values), save("one.ark", {"u1": values["u1"]})
    assert paste_feats.main([both, one, "ark:o.ark"]) == 0
    assert list(load("o.ark")) == ["u1"]
    other = save("other.ark", {"x": values["u1"]})
    check_failed(paste_feats.main, one, other, "ark:o.ark", message=f"Missing utt u1 from input {other}")
    assert paste_feats.main([both, "ark:o.ark"]) == 1


def test_a_negative_tolerance_skips_equal_lengths_too_as_in_kaldi() -> None:
    source = save("in.ark", matrices(3, 4))
    message = "Length mismatch 3 vs. 3 for utt u0 exceeds tolerance -1"
    check_failed(paste_feats.main, "--length-tolerance=-1", source, source, "ark:out.ark", message=message)


def test_an_unsorted_second_table_fails_between_blocks() -> None:
    values = {key: np.ones((rows, 13), np.float32) for key, rows in (("b", 1), ("a", 1), ("c", 9000), ("d", 1))}
    first, second = save("in.ark", values), "ark,s:in.ark"
    message = "a: comes after 'b': the table is not sorted"
    check_refused(paste_feats.main, first, second, "ark:out.ark", message=message)
