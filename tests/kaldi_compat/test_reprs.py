"""Modules, data sets and streams describe themselves in one line, and as HTML in Jupyter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
import kaldi_compat
from kaldi_compat import ArchiveDataset, Fbank, FeatureDataset, FeaturesOnDevice, WaveDataset
from kaldi_compat import numpy as array_features
from kaldi_compat.frontends import numpy as array_frontends


@pytest.mark.parametrize(
    "module", [Fbank(num_mel_bins=80), array_features.Fbank(num_mel_bins=80)], ids=["torch", "numpy"]
)
def test_changed_options_come_first_in_html(module: Any) -> None:
    shown = module._repr_html_()
    first_row = shown.split("<tr>")[2]
    assert "<td>num_mel_bins</td><td>80</td><td>23</td><td>number of triangular mel bins" in first_row
    assert "1 of 28 options differ from Kaldi's defaults" in shown or "options differ from Kaldi's defaults" in shown
    assert "<td>dither</td><td>1.0</td><td></td>" in shown


def test_module_with_defaults_says_so() -> None:
    assert "engine: auto; Kaldi's defaults" in Fbank()._repr_html_()
    assert "Kaldi's defaults" in kaldi_compat.Deltas()._repr_html_()


@pytest.mark.parametrize("frontend", [kaldi_compat.Frontend, array_frontends.Frontend], ids=["torch", "numpy"])
def test_front_ends_show_their_preset(frontend: Any) -> None:
    shown = frontend("beats")._repr_html_()
    assert "Frontend('beats')" in shown and "BEATs" in shown
    assert "<td>audio</td><td>16000 Hz" in shown and "<td>input</td><td>(frames, 128)</td>" in shown


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with io_ark.writer(f"ark,scp:{tmp_path}/feats.ark,{tmp_path}/feats.scp") as writer:
        for i in range(7):
            writer[f"utt{i}"] = np.zeros((3, 2), np.float32)
    return tmp_path


def test_datasets_tell_source_and_length(folder: Path) -> None:
    data = FeatureDataset(folder / "feats.scp")
    assert repr(data) == f"<FeatureDataset of {folder}/feats.scp: 7 utterances>"
    assert f"<td>utt4</td><td>{folder}/feats.ark:" in data._repr_html_() and "... and 2 more" in data._repr_html_()
    assert repr(WaveDataset(folder / "feats.scp")).startswith("<WaveDataset of ")
    archives = ArchiveDataset([f"ark:{folder}/feats.ark", "ark:b.ark"])
    assert repr(archives) == f"<ArchiveDataset of ark:{folder}/feats.ark and 1 more table>"
    assert "<td>ark:b.ark</td>" in archives._repr_html_()
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
