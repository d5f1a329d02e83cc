"""Resampling: Kaldi's filters, lengths and edges. Kaldi's own numbers are among the stored cases of each feature."""

from __future__ import annotations

import math
import pkgutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import kaldi_compat
from kaldi_compat import AudioError, OptionError, resample_waveform
from kaldi_compat.exact.resample import PeriodFilters, count_resampled, make_resampling_filters
from kaldi_compat.torch.features.resample import resample_linearly

RATES = [8000, 11025, 16000, 22050, 44100, 48000]


@given(st.integers(0, 2000), st.sampled_from(RATES), st.sampled_from(RATES))
def test_samples_that_begin_within_the_audio(length: int, rate_in: int, rate_out: int) -> None:
    """Kaldi counts the n with n / rate_out < length / rate_in."""
    count = count_resampled(length, rate_in, rate_out)
    assert count * rate_in >= length * rate_out
    assert count == 0 or (count - 1) * rate_in < length * rate_out
    assert resample_waveform(torch.zeros(2, length), rate_in, rate_out).shape == (2, count)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(RATES), st.sampled_from(RATES), st.floats(100, 2500))
def test_a_sine_stays_a_sine(rate_in: int, rate_out: int, frequency: float) -> None:
    ours = resample_waveform(
        torch.sin(torch.arange(rate_in // 10) / rate_in * 2 * np.pi * frequency), rate_in, rate_out
    ).numpy()
    exact = np.sin(np.arange(len(ours)) / rate_out * 2 * np.pi * frequency)
    inside = slice(len(ours) // 10, -len(ours) // 10)
    assert np.abs(ours - exact)[inside].max() < 0.02


@pytest.mark.parametrize(
    ("rate_in", "rate_out"),
    [(16000, 8000), (8000, 16000), (22050, 16000), (16000, 4000), (44100, 16000), (11127, 16000), (16001, 16000)],
)
def test_resampling_equals_the_sum_over_the_filter(rate_in: int, rate_out: int) -> None:
    """Each output sample is the windowed sinc around its time, over the input's samples."""
    x = np.random.default_rng(0).normal(size=200)
    cutoff, zeros = 0.99 * 0.5 * min(rate_in, rate_out), 6
    ours = resample_linearly(torch.from_numpy(x), rate_in, rate_out, cutoff, zeros).numpy()
    t = np.arange(len(ours))[:, None] / rate_out - np.arange(200) / rate_in
    kernel = 2 * cutoff * np.sinc(2 * cutoff * t) * 0.5 * (1 + np.cos(2 * np.pi * cutoff / zeros * t))
    kernel = np.where(np.abs(t) < zeros / (2 * cutoff), kernel, 0) / rate_in
    np.testing.assert_allclose(ours, kernel @ x, atol=1e-5)


def test_rates_may_be_floats_that_are_whole() -> None:
    x = torch.randn(2, 500)
    assert torch.equal(resample_waveform(x, 16000.0, 8000.0), resample_waveform(x, 16000, 8000))
    for rate in (8000.5, float("nan"), "8000", None, 0, 10**400, -(10**5000)):
        with pytest.raises(OptionError):
            resample_waveform(x, 16000, rate)  # type: ignore[arg-type]
    with pytest.raises(AudioError, match="tensor"):
        resample_waveform(x.numpy(), 16000, 8000)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate_in", "rate_out"), [(16000, 8000), (8000, 16000), (44100, 16000), (22050, 21389)])
def test_every_period_is_filtered_alike(rate_in: int, rate_out: int) -> None:
    """Audio some periods on gives the same samples as many periods on, however long it is."""
    generator = torch.Generator().manual_seed(0)
    piece = torch.randn(2, 300, generator=generator, dtype=torch.float64)
    common = math.gcd(rate_in, rate_out)
    later = -(-20000 * common // rate_in)
    silence = torch.zeros(2, later * rate_in // common, dtype=torch.float64)
    alone = resample_waveform(torch.nn.functional.pad(piece, (100, 100)), rate_in, rate_out)
    at_the_end = resample_waveform(
        torch.cat((silence, torch.nn.functional.pad(piece, (100, 100))), -1), rate_in, rate_out
    )
    first = later * rate_out // common
    torch.testing.assert_close(at_the_end[:, first:], alone, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.integers(100, 1500), st.integers(100, 1500), st.integers(1, 10))
def test_filters_hold_what_the_window_does(rate_in: int, rate_out: int, num_zeros: int) -> None:
    """A filter for each output sample of a period, no wider than the window: not as wide as the period."""
    cutoff = 0.45 * min(rate_in, rate_out)
    filters = PeriodFilters.from_filters(make_resampling_filters(rate_in, rate_out, cutoff, num_zeros))
    window = num_zeros / cutoff * rate_in  # in input samples
    phases, taps = filters.weights.shape
    assert phases == filters.phases == rate_out // math.gcd(rate_in, rate_out)
    assert window - 1 <= taps <= window + 1
    begin = filters.first + filters.starts
    center = np.arange(phases) * rate_in / rate_out
    np.testing.assert_array_less(center - window / 2 - 1e-6, begin)
    np.testing.assert_array_less(center + window / 2 - 1 - 1e-6, begin + taps)


def test_a_batch_is_its_rows() -> None:
    x = torch.randn(3, 500, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        resample_waveform(x, 16000, 11025), torch.stack([resample_waveform(row, 16000, 11025) for row in x])
    )


@pytest.mark.parametrize(
    ("rate_in", "rate_out", "cutoff", "zeros"), [(0, 1, 1, 1), (8000, 4000, 3000, 6), (8, 8, 2, 0)]
)
def test_invalid_filters_are_refused(rate_in: int, rate_out: int, cutoff: float, zeros: int) -> None:
    with pytest.raises(OptionError, match="cannot resample"):
        resample_linearly(torch.zeros(10), rate_in, rate_out, cutoff, zeros)


def test_no_public_name_is_that_of_a_module() -> None:
    """A module, once imported, would take the name's place in the package, unless it can be called."""
    modules = {module.name for module in pkgutil.iter_modules(kaldi_compat.__path__)}
    shared = modules & set(kaldi_compat.__all__)
    assert shared == {"dump"} and all(callable(getattr(kaldi_compat, name)) for name in shared)


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_empty_batch_is_resampled(rate: int) -> None:
    assert resample_waveform(torch.zeros(3, 0, 10), 8000, rate).shape == (3, 0, -(-10 * rate // 8000))
