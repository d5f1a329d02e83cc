"""Cepstral coefficients against Kaldi's, and against kaldi-native-fbank's for options drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat import Mfcc, MfccOptions, OptionError
from tests.support.native_fbank import by_native_fbank
from tests.support.reference import errors


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    options=st.builds(
        MfccOptions,
        dither=st.just(0.0),
        snip_edges=st.booleans(),
        num_mel_bins=st.integers(23, 40),
        num_ceps=st.integers(1, 23),
        cepstral_lifter=st.sampled_from([0.0, 10.0, 22.0]),
        use_energy=st.booleans(),
        raw_energy=st.booleans(),
        htk_compat=st.booleans(),
    ),
)
def test_random_options_against_kaldi_native_fbank(seed: int, options: MfccOptions) -> None:
    samples = np.round(np.random.default_rng(seed).normal(0, 3000, 2000)).astype(np.float32)
    ours = Mfcc(options)(torch.from_numpy(samples)).numpy()
    assert errors(ours, by_native_fbank(samples, options)).max() < 2e-3


def test_more_coefficients_than_mel_bins() -> None:
    with pytest.raises(OptionError, match="num_ceps=24"):
        Mfcc(num_ceps=24)
