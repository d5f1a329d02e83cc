"""The scoring stages of Kaldi's recipes egs/voxceleb/v2 and egs/sre16/v2 run with our programs, on planted speakers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import io_ark
from io_ark.models import Lda, Plda
from kaldi_compat import eer
from tests.support.programs import run_words

Array = npt.NDArray[Any]
PROGRAMS = Path(sys.executable).parent
REFERENCE = Path(__file__).parents[3] / "reference_data"
DIM, LDA_DIM = 12, 6
pytestmark = pytest.mark.skipif(
    not (PROGRAMS / "ivector-plda-scoring").exists() or shutil.which("bash") is None,
    reason="the programs are not installed, or there is no bash",
)

# The commands of the recipes' stages; run.pl of Kaldi also writes the output of a command to a log.
START = r"""
set -euo pipefail
run_logged() { mkdir -p "$(dirname "$1")"; local log=$1; shift; "$@" >"$log" 2>&1; }
train_cmd=run_logged
"""
VOXCELEB = r"""
$train_cmd $nnet_dir/xvectors_train/log/compute_mean.log \
  ivector-mean scp:$nnet_dir/xvectors_train/xvector.scp \
  $nnet_dir/xvectors_train/mean.vec || exit 1;
$train_cmd $nnet_dir/xvectors_train/log/lda.log \
  ivector-compute-lda --total-covariance-factor=0.0 --dim=$lda_dim \
  "ark:ivector-subtract-global-mean scp:$nnet_dir/xvectors_train/xvector.scp ark:- |" \
  ark:data/train/utt2spk $nnet_dir/xvectors_train/transform.mat || exit 1;
$train_cmd $nnet_dir/xvectors_train/log/plda.log \
  ivector-compute-plda ark:data/train/spk2utt \
  "ark:ivector-subtract-global-mean scp:$nnet_dir/xvectors_train/xvector.scp ark:- | transform-vec $nnet_dir/xvectors_train/transform.mat ark:- ark:- | ivector-normalize-length ark:-  ark:- |" \
  $nnet_dir/xvectors_train/plda || exit 1;
$train_cmd exp/scores/log/voxceleb1_test_scoring.log \
  ivector-plda-scoring --normalize-length=true \
  "ivector-copy-plda --smoothing=0.0 $nnet_dir/xvectors_train/plda - |" \
  "ark:ivector-subtract-global-mean $nnet_dir/xvectors_train/mean.vec scp:$nnet_dir/xvectors_voxceleb1_test/xvector.scp ark:- | transform-vec $nnet_dir/xvectors_train/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \
  "ark:ivector-subtract-global-mean $nnet_dir/xvectors_train/mean.vec scp:$nnet_dir/xvectors_voxceleb1_test/xvector.scp ark:- | transform-vec $nnet_dir/xvectors_train/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \
  "cat '$voxceleb1_trials' | cut -d\  --fields=1,2 |" exp/scores_voxceleb1_test || exit 1;
paste -d' ' $voxceleb1_trials exp/scores_voxceleb1_test | awk '{print $6, $3}' | compute-eer - 2>/dev/null
"""  # noqa: E501
SRE16 = r"""
$train_cmd exp/xvectors_sre16_major/log/compute_mean.log \
  ivector-mean scp:exp/xvectors_sre16_major/xvector.scp \
  exp/xvectors_sre16_major/mean.vec || exit 1;
$train_cmd exp/xvectors_sre_combined/log/lda.log \
  ivector-compute-lda --total-covariance-factor=0.0 --dim=$lda_dim \
  "ark:ivector-subtract-global-mean scp:exp/xvectors_sre_combined/xvector.scp ark:- |" \
  ark:data/sre_combined/utt2spk exp/xvectors_sre_combined/transform.mat || exit 1;
$train_cmd exp/xvectors_sre_combined/log/plda.log \
  ivector-compute-plda ark:data/sre_combined/spk2utt \
  "ark:ivector-subtract-global-mean scp:exp/xvectors_sre_combined/xvector.scp ark:- | transform-vec exp/xvectors_sre_combined/transform.mat ark:- ark:- | ivector-normalize-length ark:-  ark:- |" \
  exp/xvectors_sre_combined/plda || exit 1;
$train_cmd exp/xvectors_sre16_major/log/plda_adapt.log \
  ivector-adapt-plda --within-covar-scale=0.75 --between-covar-scale=0.25 \
  exp/xvectors_sre_combined/plda \
  "ark:ivector-subtract-global-mean scp:exp/xvectors_sre16_major/xvector.scp ark:- | transform-vec exp/xvectors_sre_combined/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \
  exp/xvectors_sre16_major/plda_adapt || exit 1;
ivector-mean ark:data/sre16_eval_enroll/spk2utt scp:exp/xvectors_sre16_eval_enroll/xvector.scp \
  ark:exp/spk_xvector.ark ark,t:exp/xvectors_sre16_eval_enroll/num_utts.ark 2>/dev/null
$train_cmd exp/scores/log/sre16_eval_scoring_adapt.log \
  ivector-plda-scoring --normalize-length=true \
  --num-utts=ark:exp/xvectors_sre16_eval_enroll/num_utts.ark \
  "ivector-copy-plda --smoothing=0.0 exp/xvectors_sre16_major/plda_adapt - |" \
  "ark:ivector-mean ark:data/sre16_eval_enroll/spk2utt scp:exp/xvectors_sre16_eval_enroll/xvector.scp ark:- | ivector-subtract-global-mean exp/xvectors_sre16_major/mean.vec ark:- ark:- | transform-vec exp/xvectors_sre_combined/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \
  "ark:ivector-subtract-global-mean exp/xvectors_sre16_major/mean.vec scp:exp/xvectors_sre16_eval_test/xvector.scp ark:- | transform-vec exp/xvectors_sre_combined/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \
  "cat '$sre16_trials' | cut -d\  --fields=1,2 |" exp/scores/sre16_eval_scores_adapt || exit 1;
paste $sre16_trials exp/scores/sre16_eval_scores_adapt | awk '{print $6, $3}' | compute-eer - 2>/dev/null
"""  # noqa: E501


class Corpus:
    """Vectors of speakers with a planted structure, in the folders of a recipe."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(16)
        self.between, self.within = self.rng.standard_normal((2, DIM, DIM)) * [[[1.0]], [[2.2]]]

    def make(self, data: str, vectors: str, speakers: int, utterances: int, shift: float = 0) -> tuple[Array, Array]:
        """Write a data directory and its vectors, and return the vectors and the number of each one's speaker."""
        numbers = np.repeat(np.arange(speakers), utterances)
        means = self.rng.standard_normal((speakers, DIM)) @ self.between + shift
        values = (means[numbers] + self.rng.standard_normal((len(numbers), DIM)) @ self.within).astype(np.float32)
        keys = [f"s{number:02d}-{at:03d}" for at, number in enumerate(numbers)]
        for folder in map(Path, (data, vectors)):
            folder.mkdir(parents=True)
        with io_ark.writer(f"ark,scp:{vectors}/xvector.ark,{vectors}/xvector.scp") as writer:
            for key, vector in zip(keys, values, strict=True):
                writer[key] = vector
        Path(data, "utt2spk").write_text("".join(f"{key} {key[:3]}\n" for key in keys))
        groups = [[key for key in keys if key.startswith(f"s{number:02d}-")] for number in range(speakers)]
        Path(data, "spk2utt").write_text("".join(f"{own[0][:3]} {' '.join(own)}\n" for own in groups))
        return values, numbers


def run_stages(stages: str, **variables: object) -> float:
    """Run commands of a recipe, and return the equal error rate that they print, in percent."""
    settings = "".join(f"{name}={value}\n" for name, value in variables.items())
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        ["bash", "-c", START + settings + stages], env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr + "".join(log.read_text() for log in Path().rglob("*.log"))
    return float(result.stdout)


def normalized(vectors: Array) -> Array:
    return np.asarray(vectors * (np.sqrt(vectors.shape[1]) / np.linalg.norm(vectors, axis=1, keepdims=True)))


@pytest.mark.costly
def test_stages_of_voxceleb_give_the_rate_of_the_python_functions(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    corpus = Corpus()
    train, train_speakers = corpus.make("data/train", "exp/nnet/xvectors_train", 40, 6)
    test, speakers = corpus.make("data/voxceleb1_test", "exp/nnet/xvectors_voxceleb1_test", 12, 4)
    keys = [line.split()[0] for line in Path("data/voxceleb1_test/utt2spk").read_text().splitlines()]
    pairs = [(i, j) for i in range(len(keys)) for j in range(i)]
    labels = ["target" if speakers[i] == speakers[j] else "nontarget" for i, j in pairs]
    Path("trials").write_text("".join(f"{keys[i]} {keys[j]} {k}\n" for (i, j), k in zip(pairs, labels, strict=True)))
    percent = run_stages(VOXCELEB, nnet_dir="exp/nnet", lda_dim=LDA_DIM, voxceleb1_trials="trials")

    mean = train.mean(axis=0, dtype=np.float64)
    lda = Lda.fit(train - mean, train_speakers, dim=LDA_DIM)
    plda = Plda.fit(normalized(lda.transform_vectors(train - mean)), train_speakers)
    tested = normalized(lda.transform_vectors(test - mean))
    scores = plda.score(tested, tested)
    assert 0 < percent < 15
    assert percent == float(f"{100 * eer([scores[i, j] for i, j in pairs], labels):.4g}")


@pytest.mark.costly
def test_stages_of_sre16_with_adaptation_give_the_rate_of_the_python_functions(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    corpus = Corpus()
    train, train_speakers = corpus.make("data/sre_combined", "exp/xvectors_sre_combined", 40, 6)
    major, _ = corpus.make("data/sre16_major", "exp/xvectors_sre16_major", 30, 3, shift=2)
    both, _ = corpus.make("data/both", "exp/both", 12, 6, shift=2)
    for name, chosen in ("enroll", np.arange(72) % 6 < 2), ("test", np.arange(72) % 6 >= 2):
        Path(f"exp/xvectors_sre16_eval_{name}").mkdir()
        script = np.array(Path("exp/both/xvector.scp").read_text().splitlines(keepends=True))[chosen]
        Path(f"exp/xvectors_sre16_eval_{name}/xvector.scp").write_text("".join(script))
    Path("data/sre16_eval_enroll").mkdir()
    spk2utt = [line.split()[:3] for line in Path("data/both/spk2utt").read_text().splitlines()]
    Path("data/sre16_eval_enroll/spk2utt").write_text("".join(" ".join(words) + "\n" for words in spk2utt))
    tested_keys = [
        line.split()[0] for line in Path("exp/xvectors_sre16_eval_test/xvector.scp").read_text().splitlines()
    ]
    pairs = [(i, j) for i in range(12) for j in range(len(tested_keys))]
    labels = ["target" if i == j // 4 else "nontarget" for i, j in pairs]
    lines = [f"s{i:02d} {tested_keys[j]} {label}\n" for (i, j), label in zip(pairs, labels, strict=True)]
    Path("trials").write_text("".join(lines))
    percent = run_stages(SRE16, lda_dim=LDA_DIM, sre16_trials="trials")

    center, domain = train.mean(axis=0, dtype=np.float64), major.mean(axis=0, dtype=np.float64)
    lda = Lda.fit(train - center, train_speakers, dim=LDA_DIM)
    plda = Plda.fit(normalized(lda.transform_vectors(train - center)), train_speakers).adapt(
        normalized(lda.transform_vectors(major - domain)), within_covar_scale=0.75, between_covar_scale=0.25
    )
    is_enrolled = np.arange(72) % 6 < 2
    enrolled = both[is_enrolled].reshape(12, 2, DIM).mean(axis=1)
    first, second = (normalized(lda.transform_vectors(side - domain)) for side in (enrolled, both[~is_enrolled]))
    scores = plda.score(first, second, num_utts=2)
    assert 0 < percent < 25
    assert percent == float(f"{100 * eer(scores.reshape(-1), labels):.4g}")


@pytest.mark.parametrize("size", [1, 7])
def test_scores_in_blocks_of_any_size_are_those_of_kaldi(size: int, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kaldi_compat.cli.speakers._TRIALS_PER_BLOCK", size)
    speakers, expected = REFERENCE / "inputs" / "speakers", REFERENCE / "expected" / "speakers"
    lines = (speakers / "trials").read_text().splitlines()
    Path("trials").write_text("".join(f"{line.rsplit(' ', 1)[0]}\n" for line in lines))
    tables = f"ark:{speakers}/speakers.txt", f"ark:{speakers}/vectors.txt"
    numbers = f"--num-utts=ark,s,cs:{speakers}/num_utts"
    assert run_words(["ivector-plda-scoring", numbers, f"{speakers}/plda", *tables, "trials", "scores"])[0] == 0
    assert Path("scores").read_bytes() == (expected / "024" / "scores").read_bytes()
    assert run_words(["ivector-compute-dot-products", "trials", *tables, "products"])[0] == 0
    assert Path("products").read_bytes() == (expected / "034" / "scores").read_bytes()
