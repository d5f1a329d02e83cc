"""Tests of apply-cmvn-sliding that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.programs import apply_cmvn_sliding
from tests.support.tables import load, save

Stderr = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("maximum", "warnings"), [("5", 6), ("0", 1), ("-1", 9), ("8", 9), ("9", 9)])
def test_warnings_are_limited(maximum: str, warnings: int, capsys: Stderr) -> None:
    source = save("in.ark", {"constant": np.ones((10, 2), np.float32)})
    options = ["--norm-vars=true", "--min-cmn-window=1", f"--max-warnings={maximum}"]
    assert apply_cmvn_sliding.main([*options, source, "ark:out.ark"]) == 0
    # The first window has a single frame, which has no variance.
    assert capsys.readouterr().err.count("WARNING") == warnings
    np.testing.assert_allclose(load("out.ark")["constant"], 0, atol=1e-10)  # Kaldi's output has the same 5.6e-12


def test_status_is_1_for_empty_matrices() -> None:
    assert apply_cmvn_sliding.main([save("in.ark", {"a": np.zeros((0, 0), np.float32)}), "ark:out.ark"]) == 1


@pytest.mark.parametrize(
    ("options", "digest"),
    # SHA-256 of what Kaldi 5.5 (-O1, OpenBLAS's SkylakeX kernels) writes for these features.
    [
        ("--norm-vars=true", "a257394257370fd16e7c82afdc6037a109856a6abe02ea0347e8d11437b62d29"),
        ("--norm-vars=true --center=true", "6feea41a40f5f24844b79ff6166dd110f8a406cd41ed17e098c5427397e31ff1"),
        (
            "--norm-vars=true --min-cmn-window=19 --cmn-window=63",
            "182c176b71830fc05c916e827b507fa1b2dddf5a02440ed1f8fc11c8dd946ef5",
        ),
        ("--center=true --cmn-window=100", "8826b0730000bff89a42243911e7d1215bb0daed6474a4374f1ca3a6038b65ae"),
    ],
)
def test_sums_are_in_kaldis_order(options: str, digest: str) -> None:
    # Small variances around large means: the rounding errors of the running sums are seen in the third digit.
    steps = np.arange(1000, dtype=np.float32) % 7
    features = np.stack((100 + 1e-3 * steps, 50 * steps, np.full(1000, 1000), steps, 1000 + 1e-2 * steps), 1)
    source = save("in.ark", {"u": features.astype(np.float32)})
    assert apply_cmvn_sliding.main([*options.split(), source, "ark:out.ark"]) == 0
    assert hashlib.sha256(Path("out.ark").read_bytes()).hexdigest() == digest


def test_zeros_keep_their_sign_where_a_variance_is_floored() -> None:
    source = save("in.ark", {"a": np.array([[-0.0, 1], [-0.0, 1], [-0.0, 1]], np.float32)})
    assert apply_cmvn_sliding.main(["--norm-vars", "--center", "--cmn-window=2", source, "ark:out.ark"]) == 0
    zero, one = load("out.ark")["a"].T
    assert (zero == 0).all()
    assert np.signbit(zero).all()
    assert not np.signbit(one).any()
