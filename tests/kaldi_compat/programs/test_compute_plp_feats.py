"""Tests of compute-plp-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import compute_plp_feats, copy_feats
from tests.support.native import LEVELS, computing
from tests.support.programs import run
from tests.support.reference import ROOT
from tests.support.tables import audio_archive, load, noise, wav_bytes


def test_digital_silence_without_dither_is_counted_and_does_not_stop_a_recipe() -> None:
    silence = noise(16000)
    silence[4000:12000] = 0
    source = audio_archive("a.ark", a=wav_bytes(noise(16000)), b=wav_bytes(silence), c=wav_bytes(noise(16000)))
    status, stderr = run(compute_plp_feats.main, "--dither=0", source, "ark:plp.ark")
    assert status == 0
    assert stderr.count("WARNING") == 1
    assert "48 of 98 frames of utterance b hold NaN" in stderr  # as many as in the output of Kaldi's program
    plp = load("plp.ark")
    assert np.isnan(plp["b"]).any(axis=1).sum() == 48

    status, stderr = run(copy_feats.main, "--compress=true", "ark:plp.ark", "ark:o.ark")
    assert status == 0
    assert stderr.count("WARNING") == 1
    assert ") b: " in stderr
    assert "writing this matrix uncompressed" in stderr
    copied = load("o.ark")
    assert list(copied) == ["a", "b", "c"]
    np.testing.assert_array_equal(copied["b"], plp["b"])
    assert not np.array_equal(copied["a"], plp["a"])  # compressed


@pytest.mark.parametrize("how", [None, *LEVELS])
@pytest.mark.parametrize(
    ("exponent", "signs"),
    [("0.33333", "+-" + 11 * "+"), ("-1", "+" + 12 * "-"), ("nan", "-" + 12 * "+"), ("inf", "+-" + 11 * "+")],
)
def test_nans_of_silence_have_the_signs_that_kaldi_writes(how: str | None, exponent: str, signs: str) -> None:
    source = audio_archive("a.ark", u=wav_bytes(np.zeros((800, 1))))
    with computing(how):
        run(
            compute_plp_feats.main, "--dither=0", "--use-energy=false", f"--compress-factor={exponent}", source, "ark:o"
        )
    plp = load("o")["u"]
    assert np.isnan(plp).all()
    for frame in np.signbit(plp):
        assert "".join("-" if negative else "+" for negative in frame) == signs


@pytest.mark.parametrize("how", [None, *LEVELS])
def test_nans_of_frames_that_overflow_have_the_signs_that_kaldi_writes(how: str | None) -> None:
    speech = ROOT / "inputs" / "wav" / "speech16k_b.wav"
    with computing(how):
        run(compute_plp_feats.main, "--dither=0", "--compress-factor=-1", f"scp:echo u {speech} |", "ark:o")
    plp = load("o")["u"]
    signs = ["".join("-" if sign else "+" for sign in np.signbit(row[np.isnan(row)])) for row in plp]
    assert {t: sign for t, sign in enumerate(signs) if sign} == {77: 10 * "+" + "--", 116: 10 * "-"}
