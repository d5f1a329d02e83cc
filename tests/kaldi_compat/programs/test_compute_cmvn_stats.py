"""Tests of compute-cmvn-stats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import io_ark
from kaldi_compat.programs import compute_cmvn_stats
from tests.support.programs import check_refused
from tests.support.tables import load, matrices, save, text

Stderr = pytest.CaptureFixture[str]


def test_statistics_by_speaker_are_weighted(capsys: Stderr) -> None:
    values = matrices(4, 6, 5, 3)
    weights = {"u0": np.array([1, 0, 2, 0.5], np.float32), "u1": np.ones(6, np.float32), "u2": np.ones(4, np.float32)}
    spk2utt = text("spk2utt", "a u0 u1 missing\nb u2 u3\nc missing\n")
    arguments = [f"--spk2utt={spk2utt}", f"--weights={save('weights.ark', weights)}", save("in.ark", values)]
    assert compute_cmvn_stats.main([*arguments, "ark:out.ark"]) == 0
    err = capsys.readouterr().err
    assert "Did not find features for utterance missing" in err
    assert "Weights for utterance u2 have wrong dimension 4 vs. 5" in err
    assert "No weights available for utterance u3" in err
    assert "No stats accumulated for speaker c" in err
    assert "stats for 2 utterances; 4 had errors" in err
    stats = load("out.ark")
    # As in Kaldi a speaker whose utterances all lack weights has statistics of nothing.
    assert stats.keys() == {"a", "b"}
    assert not stats["b"].any()
    frames = np.concatenate([values["u0"], values["u1"]]).astype(np.float64)
    each = np.concatenate([weights["u0"], weights["u1"]])
    np.testing.assert_allclose(stats["a"][0], [*(each @ frames), each.sum()], rtol=1e-6)
    np.testing.assert_allclose(stats["a"][1], [*(each @ frames**2), 0.0], rtol=1e-6)


def test_statistics_of_all_utterances_are_weighted(capsys: Stderr) -> None:
    values = matrices(4, 6, 5, 3)
    weights = {"u0": np.array([1, 0, 2, 0.5], np.float32), "u1": np.full(6, 0.25, np.float32), "u2": np.ones(4)}
    option = f"--weights={save('weights.ark', weights)}"
    assert compute_cmvn_stats.main([option, save("in.ark", values), "all"]) == 0
    assert "for 2 utterances; 2 had errors" in capsys.readouterr().err
    frames = np.concatenate([values["u0"], values["u1"]]).astype(np.float64)
    each = np.concatenate([weights["u0"], weights["u1"]])
    expected = [[*(each @ frames), each.sum()], [*(each @ frames**2), 0.0]]
    np.testing.assert_allclose(io_ark.load("all"), expected, rtol=1e-6)


def test_statistics_of_different_dimensions_are_refused() -> None:
    source = save("in.ark", {"a": np.ones((3, 2), np.float32), "b": np.ones((3, 4), np.float32)})
    spk2utt = text("spk2utt", "s a b\n")
    main, option = compute_cmvn_stats.main, f"--spk2utt={spk2utt}"
    check_refused(main, option, source, "ark:out.ark", message="b: dimension 4, but 2 before")
    check_refused(main, option, source, "out.mat", message="--spk2utt option not compatible with wxfilename")
    assert compute_cmvn_stats.main([save("none.ark", {}), "ark:out.ark"]) == 1


def test_global_statistics_without_features_are_an_empty_matrix(tmp_path: Path, capsys: Stderr) -> None:
    assert compute_cmvn_stats.main(["scp:/dev/null", f"{tmp_path}/g"]) == 1
    assert "no features" in capsys.readouterr().err
    # what Kaldi's program writes
    assert (tmp_path / "g").read_bytes() == b"\0BFM \4\0\0\0\0\4\0\0\0\0"
