"""Perceptual linear prediction cepstra against Kaldi's, and its recursions against linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kaldi_compat import OptionError, Plp
from kaldi_compat.torch.tensors.cepstrum import convert_lpc_to_cepstrum, run_levinson_durbin


def test_linear_prediction_solves_the_normal_equations() -> None:
    signal = np.random.default_rng(0).normal(size=200)
    lags = np.array([signal[: 200 - k] @ signal[k:] for k in range(13)])
    matrix = lags[np.abs(np.subtract.outer(np.arange(12), np.arange(12)))]
    coefficients, error = run_levinson_durbin(torch.from_numpy(lags))
    np.testing.assert_allclose(coefficients, -np.linalg.solve(matrix, lags[1:]), rtol=1e-9)
    np.testing.assert_allclose(error, lags[0] + coefficients.numpy() @ lags[1:], rtol=1e-9)


def test_cepstra_are_those_of_the_all_pole_model() -> None:
    coefficients = torch.tensor([-0.9, 0.5, -0.2], dtype=torch.float64)
    cepstra = convert_lpc_to_cepstrum(coefficients)
    response = 1 / np.fft.fft(np.concatenate(([1.0], coefficients.numpy())), 4096)
    by_fft = np.fft.ifft(2 * np.log(np.abs(response))).real  # even part, doubled: c[n] for n > 0
    np.testing.assert_allclose(cepstra, by_fft[1:4], atol=1e-9)


def test_more_coefficients_than_the_order_gives() -> None:
    with pytest.raises(OptionError, match="lpc_order"):
        Plp(num_ceps=14)


def test_a_cepstral_scale_of_zero_gives_zeros_of_positive_sign() -> None:
    """As in Kaldi's archive of ``compute-plp-feats --cepstral-scale=0``, where OpenBLAS's sscal sets them."""
    from kaldi_compat.numpy import Plp as NumpyPlp

    samples = np.random.default_rng(0).integers(-3000, 3000, 16000).astype(np.int16)
    cepstra = NumpyPlp(dither=0.0, cepstral_scale=0.0, use_energy=False)(samples)
    assert cepstra.tobytes() == bytes(cepstra.nbytes)
