"""Computation of stored Kaldi cases with the library, for the tests of the spectral features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat import KaldiRandom, OptionError, resample_waveform
from kaldi_compat.exact.engine import subtract_mean
from kaldi_compat.exact.resample import resample_waveform as exact_resample
from kaldi_compat.features.spectral import SpectralFeature
from tests.support.reference import audio, errors, expected, flags_of, options_of


def compute(
    feature: type[SpectralFeature], case: dict[str, Any], engine: str, dtype: torch.dtype | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The features of each utterance of a case that has any frames, Kaldi's random numbers running on."""
    flags, arguments = flags_of(case)
    module = feature(options_of(feature.Options, flags), engine=engine)
    rate_out = int(module.options.sample_frequency)
    generator, computed = KaldiRandom(), {}
    for key, rate, samples in audio(arguments[0]):
        x = torch.from_numpy(samples[0].copy())
        x = x if dtype is None else x.to(dtype)
        if rate != rate_out and engine == "exact":
            x = torch.from_numpy(exact_resample(x.float().numpy(), int(rate), rate_out))
        elif rate != rate_out:
            x = resample_waveform(x, rate, rate_out)
        y = module(x, vtln_warp=float(flags.get("vtln-warp", "1")), generator=generator).numpy()
        if flags.get("subtract-mean") == "true" and len(y):
            y = subtract_mean(y) if engine == "exact" else y - y.mean(0)
        if len(y):
            computed[key] = y
    return computed


def check(
    feature: type[SpectralFeature],
    case: dict[str, Any],
    max_error: float,
    p999_error: float,
    dtype: torch.dtype | None = None,
) -> None:
    """Compare the torch engine with Kaldi: largest error and 99.9th percentile of each utterance.

    Rounding decides the lowest bands of a chirp, so three times Kaldi's distance from float64 is allowed. Options that
    Kaldi refused must be refused.
    """
    if case["exit"] != 0:
        with pytest.raises(OptionError):
            compute(feature, case, "torch")
        return
    kaldis = {key: value for key, value in expected(case).items() if value.size}
    ours = compute(feature, case, "torch", dtype)
    assert list(ours) == list(kaldis)
    truth = ours if dtype == torch.float64 else compute(feature, case, "torch", torch.float64)
    for key, value in kaldis.items():
        error, kaldis_error = errors(ours[key], value), errors(truth[key], value)
        assert error.max() <= max(max_error, 3 * kaldis_error.max()), key
        assert np.quantile(error, 0.999) <= max(p999_error, 3 * np.quantile(kaldis_error, 0.999)), key


def check_bits(feature: type[SpectralFeature], case: dict[str, Any]) -> None:
    """Compare the exact engine with what Kaldi wrote, bit for bit."""
    if case["exit"] != 0:
        with pytest.raises(OptionError):
            compute(feature, case, "exact")
        return
    kaldis = {key: value for key, value in expected(case).items() if value.size}
    ours = compute(feature, case, "exact")
    assert list(ours) == list(kaldis)
    for key, value in kaldis.items():
        np.testing.assert_array_equal(ours[key], value, err_msg=key)
