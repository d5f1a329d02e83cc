"""Kaldi's FFT is an FFT. The stored features show that it rounds as Kaldi does."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from kaldi_compat.exact.fft import compute_accurate_rfft, compute_packed_irfft, compute_packed_rfft


@pytest.mark.parametrize("points", [2, 4, 6, 8, 16, 30, 64, 100, 256, 320, 400, 512, 882, 1024])
def test_kaldis_fft_is_close_to_numpys(points: int) -> None:
    x = np.random.default_rng(points).normal(size=(3, points)).astype(np.float32)
    exact = np.fft.rfft(x.astype(np.float64))
    re, im = compute_packed_rfft(x)
    assert re.dtype == im.dtype == np.float32
    # The root of unity of Kaldi's FFT drifts with the number of points.
    np.testing.assert_allclose(re, exact.real[:, :-1], atol=3e-6 * points)
    np.testing.assert_allclose(im[:, 1:], exact.imag[:, 1:-1], atol=3e-6 * points)
    np.testing.assert_allclose(im[:, 0], exact.real[:, -1], atol=3e-6 * points)


@pytest.mark.parametrize("points", [4, 32, 512])
def test_inverse_fft_restores_the_signal(points: int) -> None:
    x = np.random.default_rng(points).normal(size=(2, points)).astype(np.float32)
    np.testing.assert_allclose(compute_packed_irfft(*compute_packed_rfft(x)) / points, x, atol=1e-5)


@pytest.mark.parametrize("points", [2, 4, 8, 64, 100, 512, 2048])
@pytest.mark.parametrize("frames", [(), (0,), (5,), (2, 3)])
def test_accurate_fft_is_rounded_once(points: int, frames: tuple[int, ...]) -> None:
    x = np.random.default_rng(points).normal(size=(*frames, points)).astype(np.float32)
    expected = np.fft.rfft(x.astype(np.float64))
    re, im = compute_accurate_rfft(x)
    assert re.dtype == im.dtype == np.float32
    # Half a unit in the last place of float32, and what two sums in double precision differ by.
    close = {"rtol": 2.0**-24 * (1 + 1e-6), "atol": 1e-14 * points}
    np.testing.assert_allclose(re, expected.real[..., :-1], **close)
    np.testing.assert_allclose(im[..., 1:], expected.imag[..., 1:-1], **close)
    np.testing.assert_allclose(im[..., 0], expected.real[..., -1], **close)


def test_blocks_of_a_size_are_computed_together() -> None:
    """A function called for each block alone takes most of the time of a stream's frame."""
    compute_packed_rfft(np.ones((1, 512), np.float32))  # makes the tables
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        compute_packed_rfft(np.ones((1, 512), np.float32))
    finally:
        sys.setprofile(None)
    assert calls < 200  # for nine sizes; one for each block would make 850
