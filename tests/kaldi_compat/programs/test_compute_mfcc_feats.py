"""Tests of compute-mfcc-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kaldi_compat.cli import compute
from kaldi_compat.options.spectral import MfccOptions
from kaldi_compat.programs import compute_mfcc_feats


def test_options_of_the_feature_reach_the_module() -> None:
    options: Any = compute_mfcc_feats.main.options(num_ceps=5, channel=0, vtln_warp=1.1)
    inner = compute.feature_options(MfccOptions, options)
    assert inner.num_ceps == 5
    assert {field.name for field in dataclasses.fields(inner)}.isdisjoint({"channel", "vtln_warp", "device"})


def test_speakers_without_vtln_factors_are_refused_as_in_kaldi(capsys: pytest.CaptureFixture[str]) -> None:
    assert compute_mfcc_feats.main(["--utt2spk=ark:x", "scp:missing.scp", "ark:-"]) == 255
    assert "--utt2spk=ark:x has no effect without --vtln-map" in capsys.readouterr().err
