"""Utterances that cannot be read are skipped on request, named and counted, and batches stay as large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import io_ark
from io_ark.codecs.wave import Wave
from io_ark.errors import ArkError, OrderError
from kaldi_compat.errors import KaldiCompatError, OptionError
from kaldi_compat.torch.data.archives import ArchiveDataset
from kaldi_compat.torch.data.batching import collate
from kaldi_compat.torch.data.datasets import FeatureDataset, WaveDataset
from kaldi_compat.torch.data.sampling import BucketBatchSampler

LENGTHS = {"a": 5, "b": 6, "c": 0, "d": 7, "e": 8}


@pytest.fixture
def feats(tmp_path: Path) -> Path:
    """Features of which ``b`` is missing and ``c`` has no frames."""
    with io_ark.writer(f"ark,scp:{tmp_path}/f.ark,{tmp_path}/f.scp") as table:
        for number, (key, length) in enumerate(LENGTHS.items()):
            table[key] = np.full((length, 2), number, np.float32)
    text = (tmp_path / "f.scp").read_text().splitlines()
    text[1] = f"b {tmp_path}/nosuch.ark:2"
    (tmp_path / "f.scp").write_text("\n".join(text) + "\n")
    return tmp_path / "f.scp"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*skipped")
def test_an_epoch_survives_utterances_that_cannot_be_read(workers: int, feats: Path) -> None:
    data = FeatureDataset(feats, on_error="skip")
    loader = DataLoader(data, batch_size=2, num_workers=workers, collate_fn=collate)
    for _ in range(2):
        batches = [batch.keys for batch in loader]
        assert [sorted(batch) for batch in map(list, batches)] == [["a", "a"], ["d", "d"], ["e"]]
    assert sorted(data.skipped) == ["b", "c"]


def test_each_is_warned_of_once_with_its_key(feats: Path) -> None:
    data = FeatureDataset(feats, on_error="skip")
    with pytest.warns(UserWarning, match=r"^b: skipped, because the utterance cannot be read: .*nosuch") as found:
        assert [data[1].key for _ in range(3)] == ["d"] * 3
    assert [str(each.message).partition(":")[0] for each in found] == ["b", "c"]


def test_without_skipping_an_error_names_the_utterance(feats: Path) -> None:
    data = FeatureDataset(feats)
    with pytest.raises(ArkError, match=r"nosuch\.ark: b: cannot be opened"):
        data[1]
    with pytest.raises(KaldiCompatError, match="c: the utterance has no frames"):
        data[2]
    assert data.skipped == []
    with pytest.raises(IndexError):
        data[5]
    with pytest.raises(OptionError, match="on_error"):
        FeatureDataset(feats, on_error="ignore")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*skipped")
def test_data_of_which_nothing_can_be_read_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "f.scp").write_text("a nosuch.ark:2\nb nosuch.ark:9\n")
    with pytest.raises(KaldiCompatError, match="no utterance can be read"):
        next(iter(DataLoader(FeatureDataset(tmp_path / "f.scp", on_error="skip"), batch_size=2, collate_fn=collate)))


@pytest.mark.parametrize("with_file", [False, True])
def test_lengths_of_what_is_skipped_are_zero(feats: Path, tmp_path: Path, with_file: bool) -> None:
    (tmp_path / "utt2num_frames").write_text("".join(f"{key} {LENGTHS[key]}\n" for key in "acde"))
    data = FeatureDataset(feats, on_error="skip")
    with pytest.warns(UserWarning, match="^b: skipped"):
        lengths = data.lengths(tmp_path / "utt2num_frames" if with_file else None)
    assert lengths == [5, 0, 0, 7, 8] and data.skipped == ["b"]
    for sampler in (
        BucketBatchSampler(lengths, batch_size=2),
        BucketBatchSampler(lengths, max_frames=15),
        BucketBatchSampler(lengths, max_frames=16, min_length=1),
    ):
        batches = list(DataLoader(data, batch_sampler=sampler, collate_fn=collate))
        assert {key for batch in batches for key in batch.keys} == {"a", "d", "e"}
        assert len(batches) == len(sampler)
    with pytest.raises(ArkError, match=r"\bb\b"):
        FeatureDataset(feats).lengths(tmp_path / "utt2num_frames" if with_file else None)


@pytest.mark.filterwarnings("ignore:.*skipped")
def test_lengths_of_audio_that_is_skipped_are_zero(tmp_path: Path) -> None:
    for key, channels in (("a", 1), ("stereo", 2)):
        io_ark.save(tmp_path / f"{key}.wav", Wave(16000.0, np.ones((channels, 800), np.int16)))
    (tmp_path / "text.wav").write_text("no audio")
    keys = ("a", "lost", "stereo", "text")
    (tmp_path / "wav.scp").write_text("".join(f"{key} {tmp_path}/{key}.wav\n" for key in keys))
    data = WaveDataset(tmp_path / "wav.scp", on_error="skip")
    assert data.lengths() == [800, 0, 0, 0] and data.skipped == ["lost", "stereo", "text"]
    (tmp_path / "utt2dur").write_text("a 0.05\nlost 0.05\nstereo x\n")
    data = WaveDataset(tmp_path / "wav.scp", sample_frequency=16000, on_error="skip")
    assert data.lengths(tmp_path / "utt2dur") == [800, 800, 0, 0]
    (tmp_path / "segments").write_text("s a 0 0.025\nt lost 0 0.025\nu nosuch 0 1\nv a 0.025 -1\nw a 1 2\nx a y 2\n")
    data = WaveDataset(tmp_path / "wav.scp", tmp_path / "segments", on_error="skip")
    assert data.lengths() == [400, 0, 0, 400, 0, 0]
    sampler = BucketBatchSampler(data.lengths(), batch_size=2)
    batches = list(DataLoader(data, batch_sampler=sampler, collate_fn=collate))
    assert {key for batch in batches for key in batch.keys} == {"s", "v"}
    with pytest.raises((ArkError, KaldiCompatError)):
        WaveDataset(tmp_path / "wav.scp").lengths()


@pytest.mark.filterwarnings("ignore:.*skipped")
def test_a_stream_of_shards_goes_on(feats: Path, tmp_path: Path) -> None:
    whole = (tmp_path / "f.ark").read_bytes()
    (tmp_path / "cut.ark").write_bytes(whole[:-3])
    tables = [f"scp:{feats}", f"ark:{tmp_path}/cut.ark", f"ark:{tmp_path}/f.ark"]
    data = ArchiveDataset(tables, on_error="skip")
    assert [each.key for each in data] == [*"ade", *"abd", *"abde"]
    assert data.skipped[:2] == ["b", "c"] and data.skipped[2] in ("e", tables[1])
    with pytest.raises(ArkError, match="nosuch"):
        list(ArchiveDataset(tables))


def test_audio_with_nan_is_skipped_and_named(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "n.wav", np.array([0.1, np.nan, 0.2]), 16000, subtype="FLOAT")
    io_ark.save(tmp_path / "a.wav", Wave(16000.0, np.ones((1, 800), np.int16)))
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\nn {tmp_path}/n.wav\n")
    with pytest.raises(ArkError, match="NaN"):
        WaveDataset(tmp_path / "wav.scp")[1]
    with pytest.warns(UserWarning, match="^n: .*NaN"):
        assert WaveDataset(tmp_path / "wav.scp", on_error="skip")[1].key == "a"
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\na {tmp_path}/n.wav\n")
    with pytest.raises(OrderError, match=r"\ba\b.*(twice|duplicate|more than once)"):
        WaveDataset(tmp_path / "wav.scp")
    (tmp_path / "segments").write_text("s a 0 0.1\n")
    with pytest.raises(OrderError, match=r"wav\.scp: a: is a duplicate key"):
        WaveDataset(tmp_path / "wav.scp", tmp_path / "segments")


def test_shortest_and_longest_utterances_are_left_out() -> None:
    lengths = [10.0, 2.5, 30.0, 11.0, 0.0]
    for shuffle in False, True:
        sampler = BucketBatchSampler(lengths, batch_size=2, min_length=2.5, max_length=11, shuffle=shuffle)
        assert sorted(index for batch in sampler for index in batch) == [0, 1, 3]
    state = sampler.state_dict()
    with pytest.raises(OptionError, match="different lengths, limits"):
        BucketBatchSampler(lengths, batch_size=2, max_length=11).load_state_dict(state)
    with pytest.raises(OptionError, match="no utterance has a length from 40 to inf"):
        BucketBatchSampler(torch.tensor(lengths), max_seconds=5, min_length=40)
