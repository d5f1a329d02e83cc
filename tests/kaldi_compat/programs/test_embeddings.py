"""Embeddings of a small ECAPA-TDNN give Kaldi's LDA, PLDA, scores and equal error rate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from kaldi_compat import eer
from tests.support.programs import run_words

STORED = Path(__file__).parents[2] / "data" / "speakers"
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


def test_embeddings_give_the_models_scores_and_rate_of_kaldi(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    trials = [line.split() for line in (STORED / "trials").read_text().splitlines()]
    Path("trials").write_text("".join(f"{speaker} {utterance}\n" for speaker, utterance, _ in trials))
    for command in COMMANDS.strip().splitlines():
        status, log = run_words(shlex.split(command.format(stored=STORED)))
        assert status == 0, log
    lda, plda = io_ark.load("lda", kind="matrix"), io_ark.load("plda", kind="plda")
    expected_lda, expected = io_ark.load(STORED / "lda", kind="matrix"), io_ark.load(STORED / "plda", kind="plda")
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
    assert Path("scores").read_text() == (STORED / "scores").read_text()
    scores = [float(line.split()[2]) for line in Path("scores").read_text().splitlines()]
    assert eer(scores, [label for *_, label in trials]) == 0.5
