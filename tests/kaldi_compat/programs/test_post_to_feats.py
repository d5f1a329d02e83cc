"""Tests of post-to-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

from kaldi_compat.programs import post_to_feats
from tests.support.tables import read


def test_a_single_file_is_converted() -> None:
    """Kaldi's program has this form in its usage, and fails."""
    Path("single").write_text("[ 1 0.5 ] [ 0 1 ]\n")
    assert post_to_feats.main(["--post-dim=2", "single", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[0, 0.5], [1, 0]]
