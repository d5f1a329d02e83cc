"""Modules, data sets and streams describe themselves in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import io_ark
import kaldi_compat
from kaldi_compat import ArchiveDataset, Fbank, FeatureDataset, FeaturesOnDevice, WaveDataset
from kaldi_compat import numpy as array_features


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with io_ark.writer(f"ark,scp:{tmp_path}/feats.ark,{tmp_path}/feats.scp") as writer:
        for i in range(7):
            writer[f"utt{i}"] = np.zeros((3, 2), np.float32)
    return tmp_path


def test_datasets_tell_source_and_length(folder: Path) -> None:
    data = FeatureDataset(folder / "feats.scp")
    assert repr(data) == f"<FeatureDataset of {folder}/feats.scp: 7 utterances>"
    assert repr(WaveDataset(folder / "feats.scp")).startswith("<WaveDataset of ")
    archives = ArchiveDataset([f"ark:{folder}/feats.ark", "ark:b.ark"])
    assert repr(archives) == f"<ArchiveDataset of ark:{folder}/feats.ark and 1 more tables>"
    assert repr(FeaturesOnDevice([], Fbank(dither=0.0), "cpu")) == "<FeaturesOnDevice: Fbank(dither=0.0) on cpu>"


def test_streams_fit_in_a_line() -> None:
    streams = [
        Fbank(num_mel_bins=80).stream(),
        kaldi_compat.Deltas().stream(),
        kaldi_compat.SlidingCmvn().stream(2),
        kaldi_compat.Pitch(nccf_ballast_online=True).stream(),
        kaldi_compat.ProcessPitch().stream(),
        array_features.Fbank().stream(),
    ]
    assert all(len(repr(stream)) < 100 and "\n" not in repr(stream) for stream in streams), list(map(repr, streams))
    assert repr(streams[3]) == "<PitchStream of Pitch(nccf_ballast_online=True), 1 slot>"
