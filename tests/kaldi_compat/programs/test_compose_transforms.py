"""Tests of compose-transforms that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import compose_transforms
from tests.support.tables import load, save, text

Stderr = pytest.CaptureFixture[str]


def test_second_transform_is_looked_up_by_speaker() -> None:
    a = {key: np.full((2, 2), number, np.float32) for number, key in enumerate(("u0", "u1", "u2"))}
    b = {"s": np.array([[1, 2], [3, 4]], np.float32), "u0": np.full((2, 2), 5, np.float32)}
    utt2spk = text("utt2spk", "u0 s\nu1 s\nu2 t\n")
    arguments = [f"--utt2spk={utt2spk}", save("a.ark", a), save("b.ark", b), "ark:out.ark"]
    assert compose_transforms.main(arguments) == 0
    out = load("out.ark")
    assert list(out) == ["u0", "u1"]
    np.testing.assert_array_equal(out["u1"], a["u1"] @ b["s"])
