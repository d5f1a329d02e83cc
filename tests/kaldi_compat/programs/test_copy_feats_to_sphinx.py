"""Tests of copy-feats-to-sphinx that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from kaldi_compat.programs import (
    copy_feats,
    copy_feats_to_sphinx,
)
from tests.support.tables import load, matrices


def test_files_are_little_endian() -> None:
    matrix = matrices(5, dim=13)["u0"]
    Path("k.mfc").write_bytes(struct.pack(">i", matrix.size) + matrix.astype(">f4").tobytes())
    assert copy_feats.main(["--sphinx-in", "scp:echo k k.mfc |", "ark:b.ark"]) == 0
    np.testing.assert_array_equal(load("b.ark")["k"], matrix)
    assert copy_feats_to_sphinx.main(["--output-dir=out", "ark:b.ark"]) == 0
    assert Path("out/k.mfc").read_bytes() == struct.pack("<i", matrix.size) + matrix.astype("<f4").tobytes()
