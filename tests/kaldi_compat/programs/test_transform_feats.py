"""Tests of transform-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import transform_feats
from tests.support.programs import check_refused
from tests.support.tables import load, mat, matrices, save, text

Stderr = pytest.CaptureFixture[str]


def test_transforms_are_looked_up_by_speaker(capsys: Stderr) -> None:
    values = matrices(4, 4, 4, 4)
    transforms = {"s": np.eye(3, 4, dtype=np.float32) * 2, "t": np.ones((2, 5), np.float32)}
    utt2spk = text("utt2spk", "u0 s\nu1 s\nu2 t\nu3 none\n")
    arguments = [f"--utt2spk={utt2spk}", save("transforms.ark", transforms), save("in.ark", values), "ark:out.ark"]
    assert transform_feats.main(arguments) == 0
    err = capsys.readouterr().err
    assert "No fMLLR transform available for utterance u3, producing no output for this utterance" in err
    assert "Transform matrix for utterance u2 has bad dimension 2x5 versus feat dim 3 [perhaps the transform was" in err
    assert "Overall average logdet is 2.07944 over 8 frames" in err
    assert "Applied transform to 2 utterances; 2 had errors" in err
    out = load("out.ark")
    assert list(out) == ["u0", "u1"]
    np.testing.assert_allclose(out["u1"], 2 * values["u1"])
    text("utt2spk", "u0 s\n")
    check_refused(transform_feats.main, *arguments, message="utt2spk")


def test_log_determinants_are_logged(capsys: Stderr) -> None:
    source = save("in.ark", matrices(4))
    assert transform_feats.main([mat("less.mat", [[3, 0, 0], [0, 2, 0]]), source, "ark:out.ark"]) == 0
    assert "Overall average [pseudo-]logdet is 1.79176 over 4 frames" in capsys.readouterr().err
    assert transform_feats.main([mat("more.mat", np.ones((4, 3))), source, "ark:out.ark"]) == 0
    assert "logdet" not in capsys.readouterr().err
    assert transform_feats.main([mat("singular.mat", np.ones((3, 3))), source, "ark:out.ark"]) == 0
