"""Tests of select-voiced-frames that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import select_voiced_frames
from tests.support.programs import check_refused
from tests.support.tables import load, matrices, save

Stderr = pytest.CaptureFixture[str]


def test_utterances_left_out_are_logged(capsys: Stderr) -> None:
    values = matrices(3, 3, 3, 3)
    vad = {"u0": [1, 0, 1], "u1": [1, 0], "u2": [0, 0, 0]}
    save("vad.ark", {key: np.array(value, np.float32) for key, value in vad.items()})
    assert select_voiced_frames.main([save("in.ark", values), "ark:vad.ark", "ark:out.ark"]) == 0
    err = capsys.readouterr().err
    assert "Mismatch in number for frames 3 for features and VAD 2, for utterance u1" in err
    assert "No features were judged as voiced for utterance u2" in err
    assert "No VAD input found for utterance u3" in err
    assert "processed 1 utterances, 3 had errors" in err
    np.testing.assert_array_equal(load("out.ark")["u0"], values["u0"][[0, 2]])
    save("vad.ark", {"u0": np.array([1, 0.5, 0], np.float32)})
    message = "u0: voice activity must be 0 or 1"
    check_refused(select_voiced_frames.main, "ark:in.ark", "ark:vad.ark", "ark:out.ark", message=message)
