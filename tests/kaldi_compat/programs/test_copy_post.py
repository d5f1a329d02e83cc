"""Tests of copy-post that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import pytest

from kaldi_compat.programs import copy_post
from tests.support.tables import text


@pytest.mark.parametrize(
    ("scale", "written"),
    [("1", "a [ 1 0.5 2 0.25 ] [ ] \n"), ("0.5", "a [ 1 0.25 2 0.125 ] [ ] \n"), ("0", "a [ ] [ ] \n")],
)
def test_weights_are_scaled(scale: str, written: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert copy_post.main([f"--scale={scale}", text("post", "a [ 1 0.5 2 0.25 ] [ ]\n"), "ark,t:-"]) == 0
    assert capfd.readouterr().out == written
