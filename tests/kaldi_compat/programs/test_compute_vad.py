"""Tests of compute-vad that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import compute_vad
from tests.support.tables import load, save

Stderr = pytest.CaptureFixture[str]


def test_unvoiced_utterances_are_counted_and_omitted(capsys: Stderr) -> None:
    loud, quiet = np.full((4, 2), 20, np.float32), np.full((3, 2), -20, np.float32)
    source = save("in.ark", {"loud": loud, "quiet": quiet, "empty": np.zeros((0, 0), np.float32)})
    assert compute_vad.main([source, "ark:out.ark"]) == 0
    err = capsys.readouterr().err
    assert "processed 1 utterances successfully; 1 had empty features, and 1 were completely unvoiced" in err
    assert "Proportion of voiced frames was 0.571429 over 7 frames" in err
    assert {key: value.tolist() for key, value in load("out.ark").items()} == {"loud": [1] * 4, "quiet": [0] * 3}
    assert compute_vad.main(["--omit-unvoiced-utts=true", source, "ark:out.ark"]) == 0
    assert list(load("out.ark")) == ["loud"]
    assert compute_vad.main([save("quiet.ark", {"quiet": quiet}), "ark:out.ark"]) == 1
