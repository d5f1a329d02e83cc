"""Spectra as a matrix product: the FFT's numbers, without an FFT and without complex numbers."""

from __future__ import annotations

from typing import Any

import kaldiio
import numpy as np
import pytest
import torch
from torch import Tensor

from kaldi_compat import Fbank, Mfcc, OptionError, Plp, Spectrogram
from kaldi_compat.numpy import Fbank as ArrayFbank
from kaldi_compat.torch.tensors.dft import make_dft_matrix
from tests.support.reference import ROOT

FEATURES: list[tuple[Any, dict[str, Any]]] = [
    (Fbank, {"use_energy": True}),
    (Fbank, {"use_power": False, "sample_frequency": 8000.0, "num_mel_bins": 15}),
    (Fbank, {"round_to_power_of_two": False}),
    (Mfcc, {}),
    (Plp, {}),
    (Spectrogram, {}),
    (Spectrogram, {"return_raw_fft": True, "snip_edges": False}),
]


def noise(length: int, seed: int = 0) -> Tensor:
    return 1000 * torch.randn(2, length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def speech() -> Tensor:
    return torch.from_numpy(kaldiio.load_mat(str(ROOT / "inputs" / "wav" / "speech16k.wav"))[1].astype(np.float32))


def tone_above_noise() -> Tensor:
    """Return a tone, and white noise 90 dB below it."""
    time = torch.arange(32000, dtype=torch.float64) / 16000
    return (20000 * torch.sin(2 * torch.pi * 3001.7 * time) + 0.63 * noise(32000)[0] / 1000).float()


@pytest.mark.parametrize(("kind", "options"), FEATURES)
def test_float64_features_by_matmul_differ_from_those_by_fft(kind: Any, options: dict[str, Any]) -> None:
    x = noise(4000)
    expected = kind(dither=0.0, **options)(x)
    found = kind(dither=0.0, dft="matmul", **options)(x)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, float(expected.abs().max())))


def test_gradients_by_matmul_differ_from_those_by_fft() -> None:
    gradients = []
    for dft in ("fft", "matmul"):
        x = noise(800).requires_grad_()
        Fbank(dither=0.0, dft=dft)(x).square().sum().backward()  # type: ignore[arg-type]
        assert x.grad is not None
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("audio", [speech, tone_above_noise])
def test_matmul_in_float32_is_farther_from_float64_than_kaldi(audio: Any) -> None:
    x = audio()
    truth = Fbank(num_mel_bins=80, dither=0.0)(x.double())

    def mean_error(**how: Any) -> float:
        return float((Fbank(num_mel_bins=80, dither=0.0, **how)(x) - truth).abs().mean())

    assert 0 < mean_error(engine="torch", dft="matmul") < mean_error(engine="exact")


def test_stream_forgets_how_spectra_are_computed() -> None:
    stream = Fbank(dither=0.0, snip_edges=False, engine="torch", dft="matmul").stream()
    assert stream._feature.dft == "matmul"
    x = noise(4000)[0]
    expected = Fbank(dither=0.0, snip_edges=False)(x)
    torch.testing.assert_close(torch.cat((stream(x[:1500]), stream(x[1500:], final=True))), expected)


def test_wrong_dft_is_accepted() -> None:
    with pytest.raises(OptionError, match="dft must be one of fft, matmul, not 'dct'"):
        Fbank(dft="dct")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="pass tensors to"):
        ArrayFbank(dft="matmul")


def test_dft_matrix_is_not_the_dft() -> None:
    rounded, rest = make_dft_matrix(5, 8)
    x = np.random.default_rng(0).standard_normal(5)
    parts = (x @ (rounded.double() + rest.double()).numpy()).reshape(5, 2)
    expected = np.fft.rfft(x, 8)
    np.testing.assert_allclose(parts[:, 0] + 1j * parts[:, 1], expected, rtol=0, atol=1e-14)
