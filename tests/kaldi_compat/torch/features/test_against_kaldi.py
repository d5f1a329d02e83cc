"""The spectral features against what Kaldi wrote: its bits by the exact engine, rounding away by the torch engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat import Fbank, KaldiRandom, Mfcc, OptionError, Plp, Spectrogram, resample_waveform
from kaldi_compat.exact.engine import subtract_mean
from kaldi_compat.exact.resample import resample_waveform as exact_resample
from kaldi_compat.torch.features.spectral import SpectralFeature
from tests.support.native import LEVELS, computing
from tests.support.reference import audio, cases_of, errors, expected, flags_of, name_of, options_of

# Allowed errors of the torch engine: the largest, and the 99.9th percentile.
FEATURES: dict[str, tuple[type[SpectralFeature], float, float]] = {
    "fbank": (Fbank, 5e-4, 3e-4),
    "mfcc": (Mfcc, 3e-3, 9e-4),
    "plp": (Plp, 3e-3, 1.5e-3),
    "spectrogram": (Spectrogram, 3e-2, 8e-3),
}
# Where there is no audio, the program fails, not the feature.
CASES = [
    (feature, case)
    for feature in FEATURES
    for case in cases_of(feature, f"{feature}-dither")
    if "len_empty" not in case["cmd"]
]
of_every_case = pytest.mark.parametrize(
    ("feature", "case"), CASES, ids=[f"{feature} {name_of(case)}" for feature, case in CASES]
)


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


@of_every_case
@pytest.mark.parametrize("how", [None, *LEVELS[-1:]])
def test_exact_engine_gives_kaldis_bits(feature: str, case: dict[str, Any], how: str | None) -> None:
    module, _, _ = FEATURES[feature]
    with computing(how):
        if case["exit"] != 0:
            with pytest.raises(OptionError):
                compute(module, case, "exact")
            return
        ours = compute(module, case, "exact")
    kaldis = {key: value for key, value in expected(case).items() if value.size}
    assert list(ours) == list(kaldis)
    for key, value in kaldis.items():
        assert ours[key].shape == value.shape
        assert ours[key].tobytes() == value.tobytes(), f"{key}: {(ours[key] != value).sum()} of {value.size} differ"


@of_every_case
def test_torch_engine_agrees_up_to_rounding(feature: str, case: dict[str, Any]) -> None:
    module, max_error, p999_error = FEATURES[feature]
    check(module, case, max_error, p999_error)


@pytest.mark.parametrize("number", ["001", "010", "027"])
def test_double_precision_agrees_up_to_rounding(number: str) -> None:
    case = next(case for feature, case in CASES if feature == "fbank" and case["id"] == number)
    check(Fbank, case, max_error=1e-4, p999_error=1e-4, dtype=torch.float64)
