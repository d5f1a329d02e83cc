"""How the tests of the four spectral features compute a stored case with the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat import KaldiRandom, OptionError, resample_waveform
from kaldi_compat.features.spectral import SpectralFeature
from tests.support.reference import audio, errors, expected, flags_of, options_of


def compute(
    feature: type[SpectralFeature], case: dict[str, Any], dtype: torch.dtype | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The features of each utterance of a case that has any frames, Kaldi's random numbers running on."""
    flags, arguments = flags_of(case)
    module = feature(options_of(feature.Options, flags))
    rate_out = int(module.options.sample_frequency)
    generator, computed = KaldiRandom(), {}
    for key, rate, samples in audio(arguments[0]):
        x = torch.from_numpy(samples[0].copy())
        x = x if dtype is None else x.to(dtype)
        x = x if rate == rate_out else resample_waveform(x, rate, rate_out)
        y = module(x, vtln_warp=float(flags.get("vtln-warp", "1")), generator=generator).numpy()
        if flags.get("subtract-mean") == "true" and len(y):
            y = y - y.mean(0)
        if len(y):
            computed[key] = y
    return computed


def check(
    feature: type[SpectralFeature], case: dict[str, Any], most: float, usual: float, dtype: torch.dtype | None = None
) -> None:
    """Hold a case against what Kaldi wrote: the largest error and the 99.9th percentile of each utterance's.

    Where Kaldi failed because of the options, so do we.
    """
    if case["exit"] != 0:
        with pytest.raises(OptionError):
            compute(feature, case)
        return
    kaldis = {key: value for key, value in expected(case).items() if value.size}
    ours = compute(feature, case, dtype)
    assert list(ours) == list(kaldis)
    for key, value in kaldis.items():
        error = errors(ours[key], value)
        assert error.max() <= most, key
        assert np.quantile(error, 0.999) <= usual, key
