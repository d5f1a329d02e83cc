"""Vectors of speakers give Kaldi's LDA, PLDA, scores and equal error rate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat import eer
from tests.support.programs import log_of, run_words
from tests.support.tables import save

DATA = Path(__file__).parents[2] / "data"
COMMANDS = """
ivector-compute-lda --binary=false --dim=6 ark:{stored}/train.txt ark:{stored}/utt2spk lda
transform-vec lda ark:{stored}/train.txt ark:mapped
ivector-normalize-length ark:mapped ark:train
ivector-compute-plda --binary=false ark:{stored}/spk2utt ark:train plda
ivector-mean ark:{stored}/enroll_spk2utt ark:{stored}/test.txt ark,t:means ark,t:num_utts
transform-vec lda ark:means ark:mapped_means
ivector-normalize-length ark:mapped_means ark:speakers
transform-vec lda ark:{stored}/test.txt ark:mapped_test
ivector-normalize-length ark:mapped_test ark:test
ivector-plda-scoring --num-utts=ark:num_utts plda ark:speakers ark:test trials scores
"""


@pytest.mark.parametrize(("name", "rate"), [("speakers", 50), ("speakers_ecapa", 22.5), ("speakers_drawn", 20.83)])
def test_vectors_give_the_models_scores_and_rate_of_kaldi(
    name: str, rate: float, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DATA / name
    trials = [line.split() for line in (folder / "trials").read_text().splitlines()]
    Path("trials").write_text("".join(f"{speaker} {utterance}\n" for speaker, utterance, _ in trials))
    for command in COMMANDS.strip().splitlines():
        status, log = run_words(shlex.split(command.format(stored=folder)))
        assert status == 0, log
    lda, plda = io_ark.load("lda", kind="matrix"), io_ark.load("plda", kind="plda")
    expected_lda, expected = io_ark.load(folder / "lda", kind="matrix"), io_ark.load(folder / "plda", kind="plda")
    # With fewer speakers than dimensions, rounding errors determine the signs of directions.
    turned = np.sign((lda * expected_lda).sum(axis=1))
    signs = np.sign((plda.transform * turned * expected.transform).sum(axis=1, keepdims=True))
    for actual, stored in (
        (turned[:, None] * lda, expected_lda),
        (turned * plda.mean, expected.mean),
        (signs * plda.transform * turned, expected.transform),
        (plda.psi, expected.psi),
    ):
        np.testing.assert_allclose(actual, stored, rtol=0, atol=1e-5 * np.abs(stored).max())
    assert Path("scores").read_text() == (folder / "scores").read_text()
    scores = [float(line.split()[2]) for line in Path("scores").read_text().splitlines()]
    assert round(100 * eer(scores, [label for *_, label in trials]), 2) == rate


def test_logs_count_flooring_and_missing_keys_as_kaldi_does(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DATA / "speakers_drawn"
    lines = (folder / "utt2spk").read_text().splitlines(keepends=True)
    Path("utt2spk").write_text("".join(line for line in lines if not line.startswith("a03-1 ")))
    train = f"ark:{folder}/train.txt"
    status, log = run_words(["ivector-compute-lda", "--dim=6", "--covariance-floor=1", train, "ark:utt2spk", "lda"])
    assert status == 0
    assert "Read 95 utterances, 1 with errors." in log
    assert "Floored 11 eigenvalues of covariance" in log  # The largest eigenvalue equals the floor.
    Path("trials").write_text("a00-0 b0-2\na00-0 b0-3\na01-0 b0-2\na00-0 none\nzz b0-2\n")
    scoring = ["ivector-compute-dot-products", "trials", train, f"ark:{folder}/test.txt", "scores"]
    status, log = run_words(scoring)
    assert status == 0
    assert "Processed 3 trials 2 had errors." in log
    with Path("trials").open("a") as trials:
        trials.write("bad\nzz b0-2\n")
    status, log = run_words(scoring)
    assert status == 255
    assert "Bad line 5 in input" in log


@pytest.mark.parametrize("options", ["", ",o"])
@pytest.mark.parametrize("side", ["first", "second"])
def test_trials_before_an_error_have_scores(side: str, options: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good").write_text("a  [ 1 2 ]\nb  [ 3 4 ]\nc  [ 5 6 ]\n")
    Path("damaged").write_text("a  [ 1 2 ]\nb  [ 3 4 ]\nc  [ 5 x ]\n")
    Path("longer").write_text("a  [ 1 2 ]\nb  [ 3 4 ]\nc  [ 5 6 7 ]\n")
    for bad in "damaged", "longer":
        # The search for a missing key would meet the damage before the first trial.
        Path("trials").write_text("none a\n" * (bad == "longer") + "a a\nb b\nc c\na a\n")
        Path("scores").unlink(missing_ok=True)
        tables = [f"ark{options}:{bad}", "ark:good"] if side == "first" else ["ark:good", f"ark{options}:{bad}"]
        status, log = run_words(["ivector-compute-dot-products", "trials", *tables, "scores"])
        assert status == 255
        assert log.count("Key none not present in 1st table") == (bad == "longer")
        assert Path("scores").read_text() == "a a 5\nb b 25\n"


@pytest.mark.parametrize(("trials", "advises"), [("b a\nd c\n", True), ("b a\na b\n", False), ("", False)])
def test_order_of_the_tables_is_suggested_if_no_trial_has_a_score(
    trials: str, advises: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first").write_text("a  [ 1 2 ]\nc  [ 3 4 ]\n")
    Path("second").write_text("b  [ 1 2 ]\nd  [ 3 4 ]\n")
    Path("trials").write_text(trials)
    status, log = run_words(["ivector-compute-dot-products", "trials", "ark:first", "ark:second", "scores"])
    assert status == (0 if "a b" in trials else 1)
    assert ("check the order of the keys in the trials, and the order of the two tables" in log) == advises


def test_first_error_of_trials_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first").write_text("a  [ 1 2 ]\nb  [ 3 4 ]\nc  [ 5 x ]\n")
    Path("second").write_text("a  [ 1 2 ]\nb  [ 3 x ]\nc  [ 5 6 ]\n")
    Path("trials").write_text("a a\nb b\nc c\n")
    status, log = run_words(["ivector-compute-dot-products", "trials", "ark:first", "ark:second", "scores"])
    assert status == 255 and " second:" in log and ": b: " in log
    assert Path("scores").read_text() == "a a 5\n"


def test_lda_adds_vectors_in_the_order_of_their_keys_as_in_kaldi() -> None:
    # The rounded mean of 1, 1, 1, 1, 1, 1 and -6 is -1.11e-16, as in C++, but in the opposite order it is 0.
    values = {f"u{i}": np.float32([-6 if i == 6 else 1]) for i in range(7)}
    Path("utt2spk").write_text("".join(f"u{i} s{i % 2}\n" for i in range(7)))
    for name, keys in ("sorted.ark", sorted(values)), ("reversed.ark", sorted(values, reverse=True)):
        log = log_of(f"ivector-compute-lda --dim=1 {save(name, {key: values[key] for key in keys})} ark:utt2spk o.mat")
        assert "2-norm of iVector mean is 1.11022e-16" in log


def test_scores_are_added_in_order_as_in_kaldi() -> None:
    """From Python 3.12, sum() corrects the rounding error, so that the sum would be 1."""
    save("first.ark", {key: np.float32([score]) for key, score in (("a", 2.0**60), ("b", 1), ("c", -(2.0**60)))})
    save("second.ark", {"u": np.ones(1, np.float32)})
    Path("trials").write_text("a u\nb u\nc u\n")
    log = log_of("ivector-compute-dot-products trials ark:first.ark ark:second.ark scores")
    assert "Mean dot-product was 0, standard deviation was 9.41357e+17" in log
