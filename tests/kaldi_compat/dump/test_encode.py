"""Encoding: features that compression cannot take are written uncompressed, with a warning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import io_ark
from kaldi_compat.dump.compress_gpu import compress_speech, matrices
from tests.support.dump_data import audio, dump, make_data, write_wav
from tests.support.dump_data import matrices as features_of


def plp_data(root: Path) -> Path:
    """Utterances of which one starts with digital silence, where Kaldi's undithered PLP is NaN."""
    data = make_data(root, 3, samples=(8000,))
    samples = audio(8000, 7)
    samples[:, :4000] = 0
    write_wav(data / "wav" / "spk0-utt001.wav", samples)
    (root / "conf" / "plp.conf").write_text("--dither=0\n")
    return data


def test_nan_is_written_uncompressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = plp_data(tmp_path)
    assert dump(data, "--cmvn=global", feature="plp") == 0
    compressed = features_of(data / "feats.scp")
    assert dump(data, "--no-compress", feature="plp") == 0
    plain = features_of(data / "feats.scp")
    assert np.isnan(plain["spk0-utt001"]).any(), "this data does not test anything"
    np.testing.assert_array_equal(compressed["spk0-utt001"], plain["spk0-utt001"])
    np.testing.assert_allclose(compressed["spk0-utt000"], plain["spk0-utt000"], atol=0.5)


def test_nan_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = plp_data(tmp_path)
    assert dump(data, feature="plp") == 0
    log = (data / "log" / "dump_plp_train.1.log").read_text()
    assert "spk0-utt001: " in log and "written uncompressed" in log
    assert "1 utterance with NaN or infinite features is not compressed" in capsys.readouterr().err


def test_statistics_leave_out_nothing_silently(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = plp_data(tmp_path)
    assert dump(data, "--cmvn=global", feature="plp") == 0
    stats = io_ark.read_object("double-matrix", str(data / "cmvn.ark"))
    assert not np.isfinite(stats).all()  # as compute-cmvn-stats would have it
    assert "cmvn" in capsys.readouterr().err.lower()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_device_compression_marks_what_it_cannot_compress(value: float) -> None:
    features = np.random.default_rng(3).normal(size=(2, 20, 3)).astype(np.float32)
    features[1, 5, 1] = value
    parts = compress_speech(torch.from_numpy(features), torch.tensor([20, 20]))
    packed = matrices([part.numpy() for part in parts])
    assert np.isfinite(packed[0].range) and not np.isfinite(packed[1].range)
