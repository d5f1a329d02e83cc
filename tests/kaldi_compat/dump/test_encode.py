"""Encoding: features that compression cannot take are written uncompressed, with a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat.cli.compute import Extractor
from kaldi_compat.dump import shard
from kaldi_compat.dump.write import ArchiveWriter
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


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate")])
def test_utterance_without_enough_memory_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    data = make_data(tmp_path, 3, samples=(2000, 9000, 3000))
    audio = Extractor.audio

    def limited(self: Extractor, key: str, wave: io_ark.Wave, warps: Any) -> tuple[np.ndarray, float]:
        if wave.samples.shape[1] > 8000:
            raise error
        return audio(self, key, wave, warps)

    monkeypatch.setattr(Extractor, "audio", limited)
    assert dump(data) == 1
    assert len(features_of(data / "feats.scp")) == 2
    assert "spk0-utt001 not enough memory" in (data / "log" / "dump_fbank_train.failures").read_text()


def test_interruption_while_an_archive_is_opened_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(tmp_path, 2)

    class Interrupted(ArchiveWriter):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            raise KeyboardInterrupt

    monkeypatch.setattr(shard, "ArchiveWriter", Interrupted)
    assert dump(data) == 130
    assert not list(data.rglob("*unfinished*"))
