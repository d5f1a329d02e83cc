"""The programs that work on features afterwards: what the stored cases of Kaldi do not show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

import io_ark
from kaldi_compat.functional.cmvn import cmvn_stats
from kaldi_compat.programs import (
    add_deltas,
    add_deltas_sdc,
    append_post_to_feats,
    append_vector_to_feats,
    apply_cmvn,
    apply_cmvn_sliding,
    compare_feats,
    compose_transforms,
    compute_cmvn_stats,
    compute_cmvn_stats_two_channel,
    compute_vad,
    extend_transform_dim,
    get_full_lda_mat,
    modify_cmvn_stats,
    multiply_vectors,
    post_to_feats,
    select_voiced_frames,
    splice_feats,
    transform_feats,
    wav_reverberate,
)
from tests.support.reference import ROOT, cases_of
from tests.support.tables import load, matrices, save, text, wav

Stderr = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mat(path: str, values: Any) -> str:
    io_ark.write_object("matrix", path, np.asarray(values, np.float32))
    return path


def read(path: str) -> np.ndarray:
    return np.array(kaldiio.load_mat(path))


@pytest.mark.parametrize("main", [add_deltas.main, add_deltas_sdc.main])
def test_deltas_skip_empty_matrices_and_refuse_too_many_columns(main: Any, capsys: Stderr) -> None:
    source = save("in.ark", matrices(5) | {"empty": np.zeros((0, 0), np.float32)})
    assert main(["--truncate=2", source, "ark:out.ark"]) == 0
    assert "Empty feature matrix for key empty" in capsys.readouterr().err
    assert list(load("out.ark")) == ["u0"]
    assert main(["--truncate=2", save("two.ark", matrices(5, dim=2)), "ark:cut.ark"]) == 0
    assert main(["--truncate=4", source, "ark:out.ark"]) == 255
    assert "u0: cannot cut features of dimension 3 to --truncate=4" in capsys.readouterr().err
    assert main(["--truncate=-1", source, "ark:out.ark"]) == 255


def test_truncated_deltas_are_those_of_the_first_columns() -> None:
    values = matrices(9, 4)
    add_deltas.main(["--truncate=2", save("in.ark", values), "ark:cut.ark"])
    add_deltas.main([save("two.ark", {key: value[:, :2] for key, value in values.items()}), "ark:two_out.ark"])
    cut, two = load("cut.ark"), load("two_out.ark")
    assert cut.keys() == two.keys() == values.keys()
    for key in cut:
        np.testing.assert_array_equal(cut[key], two[key])


def test_splice_refuses_an_empty_matrix(capsys: Stderr) -> None:
    source = save("in.ark", {"a": np.ones((2, 3), np.float32), "empty": np.zeros((0, 0), np.float32)})
    assert splice_feats.main([source, "ark:out.ark"]) == 255
    assert "empty: there are no frames to splice" in capsys.readouterr().err
    assert list(load("out.ark")) == ["a"]


def test_cmvn_statistics_by_speaker_with_weights(capsys: Stderr) -> None:
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


def test_cmvn_statistics_refuse_what_does_not_go_together(capsys: Stderr) -> None:
    source = save("in.ark", {"a": np.ones((3, 2), np.float32), "b": np.ones((3, 4), np.float32)})
    spk2utt = text("spk2utt", "s a b\n")
    assert compute_cmvn_stats.main([f"--spk2utt={spk2utt}", source, "ark:out.ark"]) == 255
    assert "b: dimension 4, but 2 before" in capsys.readouterr().err
    assert compute_cmvn_stats.main([f"--spk2utt={spk2utt}", source, "out.mat"]) == 255
    assert "is ark: missing?" in capsys.readouterr().err
    assert compute_cmvn_stats.main([save("none.ark", {}), "ark:out.ark"]) == 1


def test_global_cmvn_statistics_of_nothing_are_an_empty_matrix(tmp_path: Path, capsys: Stderr) -> None:
    assert compute_cmvn_stats.main(["scp:/dev/null", f"{tmp_path}/g"]) == 1
    assert "no features" in capsys.readouterr().err
    # what Kaldi's program writes
    assert (tmp_path / "g").read_bytes() == b"\0BFM \4\0\0\0\0\4\0\0\0\0"


def test_two_channels(capsys: Stderr) -> None:
    values = matrices(5, 5, 4, 3, 2)
    calls = Path("calls")
    calls.write_text("u1 call1 B\nu0 call1 A\nu2 call0 A\nu3 call0 B\nu4 call2 A\nmissing call3 A\nalso call3 B\n")
    source = save("in.ark", values)
    assert compute_cmvn_stats_two_channel.main([str(calls), source, "ark:out.ark"]) == 0
    err = capsys.readouterr().err
    assert "Number of frames differ between u2 and u3: 4 vs. 3" in err
    assert "Call call2 has 1 utterances, expected two" in err
    assert "for 5 utterances; 2 had errors" in err
    stats = load("out.ark")
    assert list(stats) == ["u2", "u3", "u1", "u0", "u4"]
    for alone in ("u2", "u3", "u4"):
        np.testing.assert_array_equal(stats[alone], cmvn_stats(values[alone]))
    louder = values["u0"][:, 0] >= values["u1"][:, 0]
    np.testing.assert_allclose(stats["u0"][0, -1], np.where(louder, 1, 0.01).sum(), rtol=1e-6)
    np.testing.assert_allclose(stats["u1"][0, -1], np.where(louder, 0.01, 1).sum(), rtol=1e-6)
    calls.write_text("u1 call1\n")
    assert compute_cmvn_stats_two_channel.main([str(calls), source, "ark:out.ark"]) == 255
    assert "calls, line 1: expected <utterance> <call> <side>" in capsys.readouterr().err


def test_apply_cmvn_options_that_do_not_go_together(capsys: Stderr) -> None:
    values = matrices(5)
    source = save("in.ark", values)
    io_ark.write_object("double-matrix", "all.mat", cmvn_stats(values["u0"]))
    for arguments, says in (
        (["--norm-vars", "--norm-means=false", "all.mat"], "norm_vars"),
        (["--utt2spk=ark:x", "all.mat"], "is ark: missing?"),
        (["--skip-dims=1,2", "all.mat"], "--skip-dims: expected integers with colons"),
        (["--skip-dims=3", "all.mat"], "u0: dimensions to skip must lie in 0 to 2: 3"),
        (["--skip-dims=1", mat("three.mat", np.ones((3, 4)))], "u0: CMVN statistics have two rows"),
        ([mat("wrong.mat", np.ones((2, 9)))], "u0: CMVN statistics of shape (2, 9) do not fit"),
        ([mat("nothing.mat", np.zeros((2, 4)))], "u0: too little to normalize by"),
    ):
        assert apply_cmvn.main([*arguments, source, "ark:out.ark"]) == 255
        assert says in capsys.readouterr().err
    assert apply_cmvn.main(["all.mat", source, "ark:out.ark"]) == 0
    np.testing.assert_allclose(load("out.ark")["u0"].mean(axis=0), 0, atol=1e-6)


def test_apply_cmvn_without_means_copies_even_compressed_matrices() -> None:
    kaldiio.save_ark("in.ark", matrices(20), compression_method=2)
    assert apply_cmvn.main(["--norm-means=false", "ark:absent", "ark:in.ark", "ark:out.ark"]) == 0
    assert Path("out.ark").read_bytes() == Path("in.ark").read_bytes()


def test_apply_cmvn_says_where_variance_is_floored(capsys: Stderr) -> None:
    values = {"a": np.array([[1, 2], [1, 3]], np.float32)}
    source = save("in.ark", values)
    compute_cmvn_stats.main([source, "ark:stats.ark"])
    assert apply_cmvn.main(["--norm-vars=true", "ark:stats.ark", source, "ark:out.ark"]) == 0
    assert "Flooring cepstral variance in 1 dimensions for a" in capsys.readouterr().err
    np.testing.assert_allclose(load("out.ark")["a"], [[0, -1], [0, 1]])


@pytest.mark.parametrize(("maximum", "warnings"), [("5", 6), ("0", 1), ("-1", 9), ("8", 9), ("9", 9)])
def test_sliding_cmvn_limits_its_warnings(maximum: str, warnings: int, capsys: Stderr) -> None:
    source = save("in.ark", {"constant": np.ones((10, 2), np.float32)})
    options = ["--norm-vars=true", "--min-cmn-window=1", f"--max-warnings={maximum}"]
    assert apply_cmvn_sliding.main([*options, source, "ark:out.ark"]) == 0
    # The first window has a single frame, of which nothing is said.
    assert capsys.readouterr().err.count("WARNING") == warnings
    assert not load("out.ark")["constant"].any()


def test_sliding_cmvn_of_nothing_fails() -> None:
    assert apply_cmvn_sliding.main([save("in.ark", {"a": np.zeros((0, 0), np.float32)}), "ark:out.ark"]) == 1


def test_modify_cmvn_stats(capsys: Stderr) -> None:
    values = {"a": matrices(7)["u0"].astype(np.float64)}
    stats = {"a": cmvn_stats(values["a"]), "none": np.zeros((2, 4))}
    source = save("stats.ark", stats)
    assert modify_cmvn_stats.main(["--convert-to-mean-and-var=true", source, "ark:out.ark"]) == 0
    assert "Zero or negative count for speaker none" in capsys.readouterr().err
    out = load("out.ark")
    assert list(out) == ["a"]
    np.testing.assert_allclose(out["a"], [values["a"].mean(axis=0), values["a"].var(axis=0)])
    assert modify_cmvn_stats.main(["0:2", source, "ark:out.ark"]) == 0
    faked = load("out.ark")["a"]
    np.testing.assert_array_equal(faked[:, [0, 2]], [[0, 0], [7, 7]])
    np.testing.assert_array_equal(faked[:, [1, 3]], stats["a"][:, [1, 3]])
    assert modify_cmvn_stats.main(["0-2", source, "ark:out.ark"]) == 255
    assert modify_cmvn_stats.main([save("one.ark", {"a": np.ones((1, 4))}), "ark:out.ark"]) == 255


def test_vad_counts_and_omits(capsys: Stderr) -> None:
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


def test_select_voiced_frames_says_what_it_leaves_out(capsys: Stderr) -> None:
    values = matrices(3, 3, 3, 3)
    vad = {"u0": [1, 0, 1], "u1": [1, 0], "u2": [0, 0, 0]}
    save("vad.ark", {key: np.array(value, np.float32) for key, value in vad.items()})
    assert select_voiced_frames.main([save("in.ark", values), "ark:vad.ark", "ark:out.ark"]) == 0
    err = capsys.readouterr().err
    assert "u1 has 3 frames of features, but 2 of VAD" in err
    assert "No features were judged as voiced for utterance u2" in err
    assert "No VAD input found for utterance u3" in err
    assert "processed 1 utterances, 3 had errors" in err
    np.testing.assert_array_equal(load("out.ark")["u0"], values["u0"][[0, 2]])
    save("vad.ark", {"u0": np.array([1, 0.5, 0], np.float32)})
    assert select_voiced_frames.main(["ark:in.ark", "ark:vad.ark", "ark:out.ark"]) == 255
    assert "u0: voice activity must be 0 or 1" in capsys.readouterr().err


def test_transform_feats_by_speaker(capsys: Stderr) -> None:
    values = matrices(4, 4, 4, 4)
    transforms = {"s": np.eye(3, 4, dtype=np.float32) * 2, "t": np.ones((2, 5), np.float32)}
    utt2spk = text("utt2spk", "u0 s\nu1 s\nu2 t\nu3 none\n")
    arguments = [f"--utt2spk={utt2spk}", save("transforms.ark", transforms), save("in.ark", values), "ark:out.ark"]
    assert transform_feats.main(arguments) == 0
    err = capsys.readouterr().err
    assert "No transform available for utterance u3" in err
    assert "u2: a transform of 2 x 5 does not fit features of dimension 3 (was --b-is-affine forgotten?)" in err
    assert "Overall average logdet is 2.07944 over 8 frames" in err
    assert "Applied transform to 2 utterances; 2 had errors" in err
    out = load("out.ark")
    assert list(out) == ["u0", "u1"]
    np.testing.assert_allclose(out["u1"], 2 * values["u1"])
    text("utt2spk", "u0 s\n")
    assert transform_feats.main(arguments) == 255
    assert "utt2spk" in capsys.readouterr().err


def test_transform_feats_logs_a_pseudo_log_determinant_or_none(capsys: Stderr) -> None:
    source = save("in.ark", matrices(4))
    assert transform_feats.main([mat("less.mat", [[3, 0, 0], [0, 2, 0]]), source, "ark:out.ark"]) == 0
    assert "Overall average [pseudo-]logdet is 1.79176 over 4 frames" in capsys.readouterr().err
    assert transform_feats.main([mat("more.mat", np.ones((4, 3))), source, "ark:out.ark"]) == 0
    assert "logdet" not in capsys.readouterr().err
    assert transform_feats.main([mat("singular.mat", np.ones((3, 3))), source, "ark:out.ark"]) == 0


def test_compose_transforms_of_tables(capsys: Stderr) -> None:
    a = {"u0": np.eye(2, dtype=np.float32), "u1": np.full((2, 2), 3, np.float32), "u2": np.eye(2, dtype=np.float32)}
    b = {"s": np.array([[1, 2], [3, 4]], np.float32), "u0": np.full((2, 2), 5, np.float32)}
    tables = [save("a.ark", a), save("b.ark", b)]
    assert compose_transforms.main([*tables, "ark:out.ark"]) == 0
    assert capsys.readouterr().err.count("WARNING") == 2
    assert {key: value.tolist() for key, value in load("out.ark").items()} == {"u0": [[5, 5], [5, 5]]}
    utt2spk = text("utt2spk", "u0 s\nu1 s\nu2 t\n")
    assert compose_transforms.main([f"--utt2spk={utt2spk}", *tables, "ark:out.ark"]) == 0
    out = load("out.ark")
    assert list(out) == ["u0", "u1"]
    np.testing.assert_array_equal(out["u1"], a["u1"] @ b["s"])
    single = mat("b.mat", b["s"])
    assert compose_transforms.main([tables[0], single, "ark:out.ark"]) == 0
    np.testing.assert_array_equal(load("out.ark")["u1"], a["u1"] @ b["s"])
    assert compose_transforms.main([single, tables[0], "ark:out.ark"]) == 0
    np.testing.assert_array_equal(load("out.ark")["u1"], b["s"] @ a["u1"])
    for wrong in (
        [single, single, "ark:out.ark"],
        [*tables, "out.mat"],
        [f"--utt2spk={utt2spk}", single, *tables[1:], "ark:o"],
    ):
        assert compose_transforms.main(wrong) == 255
    assert compose_transforms.main([single, mat("three.mat", np.eye(3)), "out.mat"]) == 255
    assert "2 columns does not follow one of 3 rows" in capsys.readouterr().err
    assert compose_transforms.main([single, mat("empty.mat", np.zeros((0, 0))), "out.mat"]) == 1


def test_extend_transform_dim(capsys: Stderr) -> None:
    source = mat("in.mat", [[2, 7]])
    assert extend_transform_dim.main(["--new-dimension=2", source, "out.mat"]) == 0
    assert read("out.mat").tolist() == [[2, 0, 7], [0, 1, 0]]
    table = save("in.ark", {"a": np.eye(2, dtype=np.float32)})
    assert extend_transform_dim.main(["--new-dimension=3", table, "ark:out.ark"]) == 0
    assert load("out.ark")["a"].tolist() == np.eye(3).tolist()
    assert extend_transform_dim.main([source, "out.mat"]) == 255
    assert "--new-dimension must be given" in capsys.readouterr().err
    two = mat("two.mat", np.eye(2))
    assert extend_transform_dim.main(["--new-dimension=1", two, "out.mat"]) == 255
    assert "the new dimension 1 is less than the old one" in capsys.readouterr().err


def test_get_full_lda_mat(capsys: Stderr) -> None:
    lda = np.random.default_rng(1).normal(size=(4, 4))
    arguments = [mat("kept.mat", [[1, 0, 0, 2]]), mat("lda.mat", lda), "full.mat"]
    assert get_full_lda_mat.main([*arguments, "inverse.mat"]) == 0
    np.testing.assert_allclose(read("full.mat"), np.vstack(([[1, 0, 0, 2]], lda[1:])), rtol=1e-6)
    np.testing.assert_allclose(read("full.mat") @ read("inverse.mat"), np.eye(4), atol=1e-5)
    arguments[1] = mat("singular.mat", np.ones((4, 4)))
    assert get_full_lda_mat.main([*arguments, "inverse.mat"]) == 255
    assert "has no inverse" in capsys.readouterr().err
    assert get_full_lda_mat.main([arguments[0], mat("wide.mat", np.ones((2, 4))), "full.mat"]) == 255


def test_append_vector_to_feats(capsys: Stderr) -> None:
    values = matrices(2, 3)
    vectors = save("vectors.ark", {"u1": np.array([7, 8], np.float32)})
    assert append_vector_to_feats.main([save("in.ark", values), vectors, "ark:out.ark"]) == 0
    assert "u0" in capsys.readouterr().err
    out = load("out.ark")
    assert list(out) == ["u1"]
    np.testing.assert_array_equal(out["u1"], np.hstack((values["u1"], [[7, 8]] * 3)))
    io_ark.write_object("vector", "v", np.array([9], np.float32))
    assert append_vector_to_feats.main([mat("in.mat", [[1], [2]]), "v", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[1, 9], [2, 9]]
    assert append_vector_to_feats.main([save("none.ark", {}), vectors, "ark:out.ark"]) == 255


def test_posteriors_as_features(capsys: Stderr) -> None:
    source = text("post", "a [ 1 0.5 2 0.25 2 0.75 ] [ ] [ 0 1 ]\n")
    assert post_to_feats.main(["--post-dim=3", source, "ark:out.ark"]) == 0
    wanted = [[0, 0.5, 0.75], [0, 0, 0], [1, 0, 0]]
    assert load("out.ark")["a"].tolist() == wanted
    assert post_to_feats.main(["--post-dim=2", source, "ark:out.ark"]) == 255
    assert "a: the posterior of class 2 does not fit --post-dim=2" in capsys.readouterr().err
    assert post_to_feats.main([source, "ark:out.ark"]) == 255
    assert "--post-dim=D" in capsys.readouterr().err
    Path("single").write_text("[ 1 0.5 ] [ 0 1 ]\n")
    assert post_to_feats.main(["--post-dim=2", "single", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[0, 0.5], [1, 0]]

    values = {"a": np.full((3, 1), 9, np.float32), "b": np.zeros((3, 1), np.float32)}
    assert append_post_to_feats.main(["--post-dim=3", save("in.ark", values), source, "ark:out.ark"]) == 0
    assert load("out.ark")["a"].tolist() == [[9, *row] for row in wanted]
    save("short.ark", {"a": np.zeros((2, 1), np.float32)})
    assert append_post_to_feats.main(["--post-dim=3", "ark:short.ark", source, "ark:out.ark"]) == 255
    assert "2 frames of features, but 3 of posteriors for utterance a" in capsys.readouterr().err
    assert append_post_to_feats.main(["--post-dim=2", mat("in.mat", [[9], [8]]), "single", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[9, 0, 0.5], [8, 1, 0]]


def test_multiply_vectors(capsys: Stderr) -> None:
    one = save("one.ark", {"a": np.array([1, 2, 3], np.float32), "b": np.ones(2, np.float32)})
    two = save("two.ark", {"a": np.array([4, 5], np.float32)})
    assert multiply_vectors.main([one, two, "ark:out.ark"]) == 255
    assert "Length mismatch 3 vs. 2 for utt a exceeds tolerance 0" in capsys.readouterr().err
    assert multiply_vectors.main(["--length-tolerance=1", one, two, two, "ark:out.ark"]) == 0
    assert {key: value.tolist() for key, value in load("out.ark").items()} == {"a": [16, 50]}
    io_ark.write_object("vector", "v", np.array([2, 3], np.float32))
    assert multiply_vectors.main(["v", "v", "v", "out.vec"]) == 0
    assert read("out.vec").tolist() == [8, 27]
    io_ark.write_object("vector", "w", np.array([2], np.float32))
    assert multiply_vectors.main(["v", "w", "out.vec"]) == 1


def test_compare_feats(capsys: Stderr) -> None:
    values = matrices(50, 40)
    one = save("one.ark", values)
    # 2 x.y / (x.x + y.y) for y = x / 2 is 0.8.
    half = save("half.ark", {key: value / 2 for key, value in values.items()})
    assert compare_feats.main([one, one]) == 0
    assert "Overall similarity for the two feats is:1 " in capsys.readouterr().err
    assert compare_feats.main([one, half]) == 1
    err = capsys.readouterr().err
    assert "Similarity metric for each dimension  [ 0.8 0.8 0.8 ]" in err
    assert "Features are considered dissimilar since 0.8 < 0.99" in err
    assert compare_feats.main(["--threshold=0.79", one, half]) == 0
    other = save("other.ark", {"u0": values["u0"][:-1]})
    assert compare_feats.main([one, other]) == 1
    err = capsys.readouterr().err
    assert "Shapes differ, or are empty, for utterance u0" in err
    assert "Second table has no feature for utterance u1" in err


def test_wav_reverberate_channels() -> None:
    rng = np.random.default_rng(0)
    speech = rng.integers(-9000, 9000, (4000, 2))
    room = np.zeros((10, 3))
    room[[2, 3, 4], [0, 1, 2]] = 32000
    wav("in.wav", 16000, speech)
    wav("room.wav", 16000, room)
    arguments = ["--impulse-response=room.wav", "--input-wave-channel=1", "in.wav", "out.wav"]
    assert wav_reverberate.main(["--multi-channel-output=true", *arguments]) == 0
    rate, all_channels = kaldiio.load_mat("out.wav")
    assert (rate, all_channels.shape) == (16000, (4000, 3))
    for channel in range(3):
        assert wav_reverberate.main([f"--rir-channel={channel}", *arguments]) == 0
        np.testing.assert_array_equal(kaldiio.load_mat("out.wav")[1], all_channels[:, channel])
        # A room that only delays gives the input back, up to Kaldi's tone at the Nyquist frequency.
        assert np.corrcoef(all_channels[:, channel], speech[:, 1])[0, 1] > 0.9


def test_wav_reverberate_refuses(capsys: Stderr) -> None:
    tone = (1000 * np.sin(np.arange(800)))[:, None]
    wav("in.wav", 16000, tone)
    wav("slow.wav", 8000, tone)
    noise = "--additive-signals=in.wav"
    for options, says in (
        (["--input-wave-channel=1"], "in.wav has no channel 1"),
        (["--impulse-response=in.wav", "--rir-channel=1"], "in.wav has no channel 1"),
        ([noise], "--additive-signals has 1 entries, --snrs 0 and --start-times 0"),
        ([noise, "--snrs=1,2", "--start-times=0"], "--snrs 2"),
        ([noise, "--snrs=loud", "--start-times=0"], "--snrs: expected numbers with commas between"),
        ([noise, "--snrs=1_0", "--start-times=0"], "--snrs: expected numbers with commas between, but found '1_0'"),
        ([noise, "--snrs=1", "--start-times=nan"], "starts at nan s"),
        (["--duration=0.00001"], "duration=1e-05 s is 0.16 samples"),
        (
            ["--additive-signals=slow.wav", "--snrs=1", "--start-times=0"],
            "slow.wav has 8000 Hz, but the input 16000 Hz",
        ),
        (["--multi-channel-output=true"], "needs an --impulse-response"),
        (["--impulse-response=absent.wav"], "absent.wav"),
    ):
        assert wav_reverberate.main([*options, "in.wav", "out.wav"]) == 255
        assert says in capsys.readouterr().err
        assert not Path("out.wav").exists()


def test_wav_reverberate_takes_what_is_all_but_silent() -> None:
    wav("in.wav", 8000, np.full((2000, 1), 7))
    assert wav_reverberate.main(["--volume=0.1", "in.wav", "out.wav"]) == 0
    assert Path("out.wav").read_bytes()[44:] == bytes(4000)


def test_wav_reverberate_says_what_it_clips(capsys: Stderr) -> None:
    wav("in.wav", 16000, np.full((100, 1), 20000))
    assert wav_reverberate.main(["--volume=2", "in.wav", "out.wav"]) == 0
    assert "100 of 100 samples" in capsys.readouterr().err
    assert (kaldiio.load_mat("out.wav")[1] == 32767).all()


def test_running_them_does_not_import_torch() -> None:
    inputs = ROOT / "inputs"
    programs = "add-deltas add-deltas-sdc compute-cmvn-stats apply-cmvn apply-cmvn-sliding splice-feats transform-feats"
    wanted = {*programs.split(), "compute-vad", "wav-reverberate"}
    commands = [case["cmd"].split() for case in cases_of("tools", "reverb") if "|" not in case["cmd"]]
    ours = [words for words in commands if words[0] in wanted]
    code = (
        "import importlib, json, sys\n"
        "for name, *arguments in json.loads(sys.argv[1]):\n"
        "    importlib.import_module('kaldi_compat.programs.' + name.replace('-', '_')).main(arguments)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    out = [[word.replace("{out}", str(Path.cwd())) for word in words] for words in ours]
    subprocess.run([sys.executable, "-c", code, json.dumps(out)], check=True, cwd=inputs, capture_output=True)
    assert Path("o.ark").exists()
