"""Tests of post-to-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

from kaldi_compat.programs import post_to_feats
from tests.support.programs import check_refused
from tests.support.tables import load, read, text


def test_posteriors_are_converted_to_columns() -> None:
    source = text("post", "a [ 1 0.5 2 0.25 2 0.75 ] [ ] [ 0 1 ]\n")
    assert post_to_feats.main(["--post-dim=3", source, "ark:out.ark"]) == 0
    wanted = [[0, 0.5, 0.75], [0, 0, 0], [1, 0, 0]]
    assert load("out.ark")["a"].tolist() == wanted
    message = "a: posterior of class 2: with --post-dim=2, classes are 0 to 1"
    check_refused(post_to_feats.main, "--post-dim=2", source, "ark:out.ark", message=message)
    check_refused(post_to_feats.main, source, "ark:out.ark", message="--post-dim=D")
    Path("single").write_text("[ 1 0.5 ] [ 0 1 ]\n")
    assert post_to_feats.main(["--post-dim=2", "single", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[0, 0.5], [1, 0]]
