"""A recipe from audio to a model's input, in a shell: segments, MFCC, CMVN by speaker, deltas, splicing, LDA, VAD."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kaldi_native_fbank as knf
import kaldiio
import numpy as np
import pytest
from reference import ROOT
from tables import load

import io_ark
from kaldi_compat.cmvn import cmvn_stats
from kaldi_compat.deltas import add_deltas
from kaldi_compat.options import SpliceOptions
from kaldi_compat.splice import splice
from kaldi_compat.transform import apply_transform
from kaldi_compat.vad import compute_vad, select_voiced

RECIPE = r"""
set -euo pipefail
extract-segments scp:main.scp segments ark:- |
  compute-mfcc-feats --dither=0 --num-ceps=12 ark:- ark:- |
  copy-feats --write-num-frames=ark,t:$out/utt2num_frames ark:- ark,scp:$out/feats.ark,$out/feats.scp
compute-cmvn-stats --spk2utt=ark:$out/spk2utt scp:$out/feats.scp ark,scp:$out/cmvn.ark,$out/cmvn.scp
apply-cmvn --utt2spk=ark:$out/utt2spk --norm-vars=true scp:$out/cmvn.scp scp:$out/feats.scp ark:- |
  add-deltas ark:- ark:- |
  splice-feats --left-context=1 --right-context=1 ark:- ark:- |
  transform-feats $out/lda.mat ark:- ark:$out/final.ark
compute-vad scp:$out/feats.scp ark,scp:$out/vad.ark,$out/vad.scp
select-voiced-frames scp:$out/feats.scp scp:$out/vad.scp ark:$out/voiced.ark
"""
SPEAKERS = {"a": ["s1", "s2"], "b": ["s3", "s4"]}


def shell(script: str, out: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "out": str(out)}
    return subprocess.run(
        ["bash", "-c", script], cwd=ROOT / "inputs", env=environment, capture_output=True, text=True, timeout=120
    )


def mfcc_by_a_peer(rate: int, samples: np.ndarray) -> np.ndarray:
    options = knf.MfccOptions()
    options.frame_opts.dither = 0
    options.num_ceps = 12
    mfcc = knf.OnlineMfcc(options)
    mfcc.accept_waveform(rate, samples.astype(np.float32).tolist())
    mfcc.input_finished()
    return np.array([mfcc.get_frame(t) for t in range(mfcc.num_frames_ready)])


def segments() -> dict[str, np.ndarray]:
    """The features of each line of the segments file, by another library."""
    features = {}
    for line in (ROOT / "inputs" / "segments").read_text().splitlines():
        key, recording, start, end = line.split()
        rate, samples = kaldiio.load_mat(str(ROOT / "inputs" / "wav" / f"{recording}.wav"))
        last = len(samples) if float(end) < 0 else round(float(end) * rate)
        features[key] = mfcc_by_a_peer(rate, samples[round(float(start) * rate) : last])
    return features


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "spk2utt").write_text("".join(f"{s} {' '.join(keys)}\n" for s, keys in SPEAKERS.items()))
    (folder / "utt2spk").write_text("".join(f"{key} {s}\n" for s, keys in SPEAKERS.items() for key in keys))
    lda = np.random.default_rng(0).normal(size=(20, 3 * 36 + 1))
    io_ark.write_object("matrix", str(folder / "lda.mat"), lda.astype(np.float32))
    result = shell(RECIPE, folder)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    assert "ERROR" not in result.stderr
    return folder


def test_features_are_those_of_a_peer(out: Path) -> None:
    ours, wanted = load(str(out / "feats.ark")), segments()
    assert list(ours) == list(wanted)
    for key, features in wanted.items():
        np.testing.assert_allclose(ours[key], features, atol=2e-2)
    lengths = dict(line.split() for line in (out / "utt2num_frames").read_text().splitlines())
    assert lengths == {key: str(len(features)) for key, features in wanted.items()}


def test_each_speaker_is_normalized(out: Path) -> None:
    features = load(str(out / "feats.ark"))
    final = load(str(out / "final.ark"))
    lda = kaldiio.load_mat(str(out / "lda.mat"))
    for keys in SPEAKERS.values():
        stats = cmvn_stats(np.concatenate([features[key] for key in keys]))
        normalized = [(features[key] - stats[0, :-1] / stats[0, -1]) for key in keys]
        spread = np.concatenate(normalized).std(axis=0)
        for key, each in zip(keys, normalized, strict=True):
            spliced = splice(
                add_deltas((each / spread).astype(np.float32)), SpliceOptions(left_context=1, right_context=1)
            )
            np.testing.assert_allclose(final[key], apply_transform(spliced, lda), atol=2e-3)


def test_voiced_frames(out: Path) -> None:
    features, voiced = load(str(out / "feats.ark")), load(str(out / "voiced.ark"))
    decisions = {key: compute_vad(value) for key, value in features.items()}
    assert list(voiced) == [key for key, decision in decisions.items() if decision.any()]
    for key, value in voiced.items():
        np.testing.assert_array_equal(value, select_voiced(features[key], decisions[key]))


@pytest.mark.parametrize(
    "script",
    [
        "add-deltas scp:absent.scp ark:- | copy-feats ark:- ark:$out/x",
        "add-deltas scp:mfcc.scp ark:- | splice-feats --left-context=-1 ark:- ark:- | copy-feats ark:- ark:$out/x",
        "copy-feats scp:mfcc.scp ark:- | transform-feats absent.mat ark:- ark:- | copy-feats ark:- ark:$out/x",
    ],
)
def test_a_failing_member_fails_the_chain(script: str, tmp_path: Path) -> None:
    result = shell(f"set -o pipefail; {script}", tmp_path)
    assert result.returncode != 0
    assert "ERROR" in result.stderr
    assert "Traceback" not in result.stderr
