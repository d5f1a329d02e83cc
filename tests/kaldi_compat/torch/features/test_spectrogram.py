"""Log power spectra against Kaldi's."""

from __future__ import annotations

import pytest
import torch

from kaldi_compat import OptionError, Spectrogram


def test_raw_fft_is_the_spectrum_in_kaldis_order() -> None:
    x = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1000
    plain = {"dither": 0.0, "remove_dc_offset": False, "preemphasis_coefficient": 0.0, "window_type": "rectangular"}
    raw = Spectrogram(return_raw_fft=True, **plain)(x)[0]
    spectrum = torch.fft.fft(x, 512)
    torch.testing.assert_close(raw[:2], spectrum.real[[0, 256]])
    torch.testing.assert_close(raw[2:], torch.view_as_real(spectrum[1:256]).flatten())


def test_an_odd_number_of_fft_points() -> None:
    with pytest.raises(OptionError, match="must be even"):
        Spectrogram(frame_length=25.0625, round_to_power_of_two=False)
