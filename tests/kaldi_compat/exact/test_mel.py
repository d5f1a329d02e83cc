"""The mel filter bank: its shape, its warp, and invalid options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat import Fbank, FbankOptions, Mfcc, OptionError, Plp
from kaldi_compat import numpy as array_features
from kaldi_compat.exact import steps
from kaldi_compat.exact.engine import make_chunk_batch
from kaldi_compat.exact.librosa_mel import compute_librosa_filters
from kaldi_compat.exact.mel import compute_mel_banks, convert_hertz_to_mel, convert_mel_to_hertz


def test_mel_scale_of_known_frequencies() -> None:
    np.testing.assert_allclose(
        convert_hertz_to_mel(np.array([0.0, 700.0, 1000.0], np.float32)), [0, 781.177, 1000.0], atol=0.02
    )
    f = np.linspace(0, 8000, 50, dtype=np.float32)
    np.testing.assert_allclose(convert_mel_to_hertz(convert_hertz_to_mel(f)), f, rtol=1e-5, atol=1e-3)


@given(st.integers(3, 80), st.floats(0, 300), st.floats(-1000, 0))
def test_neighbouring_triangles_add_up_to_one(num_mel_bins: int, low: float, high: float) -> None:
    options = FbankOptions(num_mel_bins=num_mel_bins, low_freq=low, high_freq=high)
    try:
        banks = compute_mel_banks(options)
    except OptionError as error:
        assert "num_mel_bins" in str(error)
        return
    frequencies = np.arange(257) * 16000 / 512
    inside = (frequencies >= banks.centers[0]) & (frequencies <= banks.centers[-1])
    np.testing.assert_allclose(banks.weights[inside].sum(1), 1, atol=1e-4)
    assert not banks.weights[-1].any()


@pytest.mark.parametrize("factor", [0.8, 0.9, 1.1, 1.25])
def test_the_warp_divides_the_middle_and_keeps_the_ends(factor: float) -> None:
    options = FbankOptions(num_mel_bins=40)
    plain, warped = compute_mel_banks(options).centers, compute_mel_banks(options, factor).centers
    middle = (plain > 200) & (plain < 5000)
    np.testing.assert_allclose(warped[middle], plain[middle] / factor, rtol=1e-4)
    assert (np.diff(warped) > 0).all()
    assert warped.min() > 20
    assert warped.max() < 8000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_mel_bins": 2}, "at least 3"),
        ({"num_mel_bins": 128}, "holds no bin of the FFT; .* allow_empty_bins=True"),
        ({"low_freq": 8000.0}, "Nyquist"),
        ({"high_freq": 8001.0}, "Nyquist"),
        ({"low_freq": 3000.0, "high_freq": 2000.0}, "in this order"),
        ({"frame_length": 25.0625, "round_to_power_of_two": False}, "must be even"),
    ],
)
def test_options_without_a_valid_filter_bank_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Fbank(**changes)


@pytest.mark.parametrize("changes", [{"vtln_low": 10.0}, {"vtln_high": 8000.0}, {"vtln_low": 7600.0}])
def test_a_warp_out_of_range_fails_when_it_is_asked_for(changes: dict[str, float]) -> None:
    options = FbankOptions(dither=0.0, **changes)
    compute_mel_banks(options)
    with pytest.raises(OptionError, match="vtln_low"):
        compute_mel_banks(options, 1.1)
    with pytest.raises(OptionError):
        compute_mel_banks(FbankOptions(), 0.0)


@pytest.mark.parametrize("bins", [128, 1000])
@pytest.mark.parametrize("feature", [Fbank, Mfcc, Plp])
def test_engines_agree_on_mel_bins_without_an_fft_bin(feature: type[Fbank | Mfcc | Plp], bins: int) -> None:
    samples = np.random.default_rng(0).normal(0, 1000, 8000).astype(np.float32)
    changes: Any = {"num_mel_bins": bins, "allow_empty_bins": True, "dither": 0.0}
    by_torch = feature(engine="torch", **changes)(torch.from_numpy(samples)).numpy()
    exact = getattr(array_features, feature.__name__)(**changes)
    np.testing.assert_allclose(exact(samples), by_torch, rtol=1e-4, atol=2e-3)
    plan = exact.plan
    without_c = np.empty((3, plan.dim), np.float32)
    steps.compute_batch_features(plan, make_chunk_batch(samples, 0, 3), 0, 3, without_c)
    np.testing.assert_array_equal(exact(samples)[:3], without_c)


def test_mel_bins_without_an_fft_bin_have_the_smallest_log_energy() -> None:
    options = FbankOptions(num_mel_bins=128, allow_empty_bins=True, dither=0.0)
    empty = ~compute_mel_banks(options).weights.any(0)
    features = array_features.Fbank(options)(np.random.default_rng(0).normal(0, 1000, 4000).astype(np.int16))
    assert empty.sum() == 1
    np.testing.assert_allclose(features[:, empty], np.log(np.finfo(np.float32).eps), rtol=1e-6)
    assert (features[:, ~empty] > 0).all()


@pytest.mark.parametrize("bins", [3, 1000])
def test_remedies_for_mel_bins_without_an_fft_bin_help(bins: int) -> None:
    band = {"low_freq": 100.0, "high_freq": 110.0 if bins == 3 else 8000.0}
    with pytest.raises(OptionError, match=r"mel bin 0 holds no bin .*\(at least 3\), a wider band or longer frames"):
        compute_mel_banks(FbankOptions(num_mel_bins=bins, **band))
    with pytest.raises(OptionError, match=r"fewer bins \(at least 3\), a wider band or a longer FFT"):
        compute_librosa_filters(bins, 512, 16000.0, band["low_freq"], band["high_freq"])
    remedies: list[dict[str, float]] = [{**band, "frame_length": 3000.0}]
    remedies += [{**band, "num_mel_bins": 23}] if bins > 3 else [{"low_freq": 100.0, "high_freq": 1000.0}]
    for remedy in remedies:
        compute_mel_banks(FbankOptions(**{"num_mel_bins": bins, **remedy}))


@pytest.mark.parametrize("slaney", [False, True])
@pytest.mark.parametrize("norm", ["", "slaney"])
@pytest.mark.parametrize(("low", "high", "top"), [(0.0, 0.0, 8000.0), (50.0, -400.0, 7600.0), (0.0, 7000.0, 7000.0)])
def test_filters_are_torchaudios(low: float, high: float, top: float, slaney: bool, norm: str) -> None:
    ours = compute_librosa_filters(40, 512, 16000.0, low, high, slaney_scale=slaney, norm=norm)
    scale = "slaney" if slaney else "htk"
    functional = pytest.importorskip("torchaudio.functional")
    theirs = functional.melscale_fbanks(257, low, top, 40, 16000, norm or None, scale).numpy()
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * theirs.max())
