"""Librosa's mel filters, against torchaudio's."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.exact.librosa_mel import librosa_filters

functional = pytest.importorskip("torchaudio.functional")


@pytest.mark.parametrize("slaney", [False, True])
@pytest.mark.parametrize("norm", ["", "slaney"])
@pytest.mark.parametrize(("low", "high", "top"), [(0.0, 0.0, 8000.0), (50.0, -400.0, 7600.0), (0.0, 7000.0, 7000.0)])
def test_filters_are_torchaudios(low: float, high: float, top: float, slaney: bool, norm: str) -> None:
    ours = librosa_filters(40, 512, 16000.0, low, high, slaney_scale=slaney, norm=norm)
    scale = "slaney" if slaney else "htk"
    theirs = functional.melscale_fbanks(257, low, top, 40, 16000, norm or None, scale).numpy()
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * theirs.max())
