"""Tests of wav-to-duration that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.programs import wav_to_duration
from tests.support.tables import wav


def test_durations_come_from_header_or_samples(capfd: pytest.CaptureFixture[str]) -> None:
    wav("a.wav", 8000, np.ones((1234, 2)))
    Path("wav.scp").write_text("a a.wav\nb cat a.wav |\n")
    for option in ("--read-entire-file=true", "--read-entire-file=false"):
        assert wav_to_duration.main([option, "scp:wav.scp", "ark,t:-"]) == 0
        assert capfd.readouterr().out == "a 0.15425 \nb 0.15425 \n"
