"""Log power spectra against Kaldi's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kaldi_compat import OptionError, Spectrogram
from tests.support.reference import cases_of, name_of
from tests.support.spectral import check, check_bits

CASES = [case for case in cases_of("spectrogram", "spectrogram-dither") if "len_empty" not in case["cmd"]]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_exact_engine_gives_kaldis_bits(case: dict[str, Any]) -> None:
    check_bits(Spectrogram, case)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_torch_engine_agrees_up_to_rounding(case: dict[str, Any]) -> None:
    check(Spectrogram, case, max_error=3e-2, p999_error=8e-3)


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
