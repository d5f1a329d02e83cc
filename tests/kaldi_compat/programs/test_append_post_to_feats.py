"""Tests of append-post-to-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kaldi_compat.programs import append_post_to_feats
from tests.support.programs import check_failed
from tests.support.tables import load, mat, read, save, text


def test_posteriors_are_appended_to_features() -> None:
    source = text("post", "a [ 1 0.5 2 0.25 2 0.75 ] [ ] [ 0 1 ]\n")
    wanted = [[0, 0.5, 0.75], [0, 0, 0], [1, 0, 0]]
    Path("single").write_text("[ 1 0.5 ] [ 0 1 ]\n")
    values = {"a": np.full((3, 1), 9, np.float32), "b": np.zeros((3, 1), np.float32)}
    assert append_post_to_feats.main(["--post-dim=3", save("in.ark", values), source, "ark:out.ark"]) == 0
    assert load("out.ark")["a"].tolist() == [[9, *row] for row in wanted]
    save("short.ark", {"a": np.zeros((2, 1), np.float32)})
    message = "Mismatch of length! features: 2 posteriors: 3"
    check_failed(append_post_to_feats.main, "--post-dim=3", "ark:short.ark", source, "ark:out.ark", message=message)
    assert append_post_to_feats.main(["--post-dim=2", mat("in.mat", [[9], [8]]), "single", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[9, 0, 0.5], [8, 1, 0]]
