"""Data sets of tables at URLs, over HTTP and in S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import io_ark
from io_ark.errors import NetworkRefusedError
from io_ark.streams.access import PRIVATE_VARIABLE
from kaldi_compat.torch.data.archives import ArchiveDataset
from kaldi_compat.torch.data.datasets import FeatureDataset, WaveDataset
from kaldi_compat.torch.data.reverberation import NoiseAndReverberation
from tests.support.object_store import s3_bucket
from tests.support.range_server import RangeServer, range_server

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

RNG = np.random.default_rng(0)
FEATURES = {f"utt{i}": RNG.standard_normal((20 + i, 5)).astype(np.float32) for i in range(8)}
WAVES = {f"utt{i}": io_ark.Wave(16000.0, RNG.integers(-999, 999, (1, 4000 + i), np.int16)) for i in range(8)}


def write(base: str) -> None:
    """Write features and audio to archives at this place, with their script files."""
    for name, kind, table in ("feats", "matrix", FEATURES), ("wav", "wave", WAVES):
        with io_ark.Writer(f"ark,scp:{base}/{name}.ark,{base}/{name}.scp", kind=kind) as writer:
            for key, value in table.items():
                writer[key] = value


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    write(str(tmp_path))
    with range_server(tmp_path) as serving:
        for script in tmp_path.glob("*.scp"):
            script.write_text(script.read_text().replace(str(tmp_path), serving.url))
        yield serving


def assert_complete(features: Any, waves: Any) -> None:
    assert features.lengths() == [len(value) for value in FEATURES.values()]
    for item, (key, value) in zip(features, FEATURES.items(), strict=True):
        assert item.key == key
        assert torch.equal(item.input, torch.from_numpy(value))
    for item, (key, wave) in zip(waves, WAVES.items(), strict=True):
        assert item.key == key
        np.testing.assert_array_equal(item.input, wave.samples[0])


@pytest.mark.parametrize("local_script", [False, True])
def test_data_sets_over_http_have_other_items(server: RangeServer, local_script: bool) -> None:
    base = str(server.folder) if local_script else server.url
    assert_complete(FeatureDataset(f"{base}/feats.scp"), WaveDataset(f"{base}/wav.scp"))
    assert_complete(FeatureDataset(f"scp:{base}/feats.scp"), WaveDataset(f"scp:{base}/wav.scp"))


def test_data_sets_in_s3_have_other_items() -> None:
    with s3_bucket() as url:
        write(url)
        assert_complete(FeatureDataset(f"{url}/feats.scp"), WaveDataset(f"{url}/wav.scp"))


def test_segments_of_audio_over_http_are_cut_elsewhere(server: RangeServer) -> None:
    (server.folder / "segments").write_text("a utt1 0.01 0.2\nb utt5 0.05 0.15\n")
    first, second = WaveDataset(f"{server.url}/wav.scp", f"{server.url}/segments")
    np.testing.assert_array_equal(first.input, WAVES["utt1"].samples[0, 160:3200])
    np.testing.assert_array_equal(second.input, WAVES["utt5"].samples[0, 800:2400])


def test_workers_read_other_items_over_http(server: RangeServer) -> None:
    keys = []
    for batch in DataLoader(FeatureDataset(f"{server.url}/feats.scp"), batch_size=3, num_workers=2):
        keys += batch.keys
        for key, row, length in zip(batch.keys, batch.inputs, batch.lengths.tolist(), strict=True):
            np.testing.assert_array_equal(row[:length], FEATURES[key])
    assert keys == list(FEATURES)


def test_network_is_refused(server: RangeServer) -> None:
    for kind, name in (FeatureDataset, "feats"), (WaveDataset, "wav"):
        with pytest.raises(NetworkRefusedError):
            kind(f"{server.url}/{name}.scp", network=False)
        with pytest.raises(NetworkRefusedError):
            kind(str(server.folder / f"{name}.scp"), network=False)[0]
    assert not server.requests


def test_private_addresses_are_not_read(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRIVATE_VARIABLE)
    wav = server.folder / "wav.scp"
    (server.folder / "segments").write_text("a utt1 0.01 0.2\n")
    noisy = NoiseAndReverberation(wav)
    for read in (
        lambda: FeatureDataset(server.folder / "feats.scp")[0],
        lambda: FeatureDataset(server.folder / "feats.scp").lengths(),
        lambda: WaveDataset(wav)[0],
        lambda: WaveDataset(wav).lengths(),
        lambda: WaveDataset(wav, server.folder / "segments")[0],
        lambda: noisy(torch.zeros(4000, dtype=torch.int16), 16000.0),
        lambda: next(iter(ArchiveDataset(f"scp:{server.folder}/feats.scp"))),
    ):
        with pytest.raises(NetworkRefusedError, match="private network"):
            read()
    assert not server.connections
