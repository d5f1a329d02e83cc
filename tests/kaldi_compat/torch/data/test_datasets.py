"""Data sets give every utterance once, complete, for any number of workers and any start method."""

from __future__ import annotations

import os
import pickle
import struct
import tracemalloc
from collections import Counter
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import io_ark
from io_ark.codecs.wave import Wave
from io_ark.tables import random_access
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.torch.data.archives import ArchiveDataset
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING, Batch, Utterance, collate, pad, unpad
from kaldi_compat.torch.data.datasets import FeatureDataset, WaveDataset
from kaldi_compat.torch.data.each_process import InEachProcess
from kaldi_compat.torch.data.on_device import FeaturesOnDevice
from kaldi_compat.torch.data.sampling import BucketBatchSampler
from kaldi_compat.torch.data.spec_augment import SpecAugment
from kaldi_compat.torch.features.fbank import Fbank
from kaldi_compat.torch.features.resample import resample_waveform
from kaldi_compat.torch.frontend import Frontend
from tests.support.data_directory import KEYS

# Eight workers are to work, if slowly, on a machine with fewer cores.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def dataset(corpus: Path, **changes: object) -> FeatureDataset:
    options: dict[str, object] = {
        "utt2spk": corpus / "utt2spk",
        "labels": corpus / "labels",
        "parse_label": int,
        "alignments": f"scp:{corpus}/ali.scp",
        "drop_incomplete": True,
    }
    return FeatureDataset(corpus / "feats.scp", **{**options, **changes})  # type: ignore[arg-type]


def assert_right(utterance: Utterance) -> None:
    i = KEYS.index(utterance.key)
    assert utterance.speaker == utterance.key.split("-")[0]
    assert utterance.label == i % 2
    assert torch.equal(utterance.input, torch.full_like(utterance.input, i))
    assert utterance.alignment is not None
    assert torch.equal(utterance.alignment, torch.full((len(utterance.input),), i))


def assert_right_batches(batches: list[Batch], keys: list[str]) -> None:
    assert Counter(key for batch in batches for key in batch.keys) == Counter(keys)
    for batch in batches:
        assert batch.speakers is not None and batch.alignments is not None
        inputs = unpad(batch.inputs, batch.lengths)
        alignments = unpad(batch.alignments, batch.lengths)
        for utterance in zip(batch.keys, inputs, batch.speakers, batch.labels.tolist(), alignments, strict=True):
            assert_right(Utterance(*utterance))
        past = torch.arange(batch.inputs.shape[1]) >= batch.lengths[:, None]
        assert (batch.inputs[past] == 0).all() and (batch.alignments[past] == ALIGNMENT_PADDING).all()


def test_items_have_speaker_label_and_alignment(corpus: Path) -> None:
    data = dataset(corpus)
    assert data.keys == [key for i, key in enumerate(KEYS) if i != 7]
    for i in range(len(data)):
        assert_right(data[i])


def test_a_missing_annotation_is_an_error_unless_dropped(corpus: Path) -> None:
    with pytest.raises(io_ark.ArkError, match="spk1-utt07"):
        dataset(corpus, drop_incomplete=False)[7]
    with pytest.raises(io_ark.ArkError, match="spk0-utt00: has no label"):
        dataset(corpus, labels={}, drop_incomplete=False)[0]


def test_alignments_of_other_lengths_are_cut_or_refused(corpus: Path, tmp_path: Path) -> None:
    with io_ark.writer(f"ark,scp:{tmp_path}/ali.ark,{tmp_path}/ali.scp") as writer:
        for i, key in enumerate(KEYS):
            writer[key] = np.arange(len(dataset(corpus, alignments=None)[i].input) + (i % 5) - 2, dtype=np.int32)
    changes = {"alignments": f"scp:{tmp_path}/ali.scp"}
    assert len(dataset(corpus, **changes)[4].alignment) == len(dataset(corpus, **changes)[4].input) + 2  # type: ignore[arg-type]
    data = dataset(corpus, length_tolerance=1, transform=lambda x: x[::2], **changes)
    for i, frames in ((1, -1), (2, 0), (3, 0)):
        whole = len(dataset(corpus, alignments=None)[i].input)
        assert len(data[i].input) == (whole + frames + 1) // 2
        assert data[i].alignment.tolist() == list(range(whole + frames))  # type: ignore[union-attr]
    for i in (0, 4):
        with pytest.raises(KaldiCompatError, match=f"{KEYS[i]}: .* length_tolerance=1"):
            data[i]


def test_an_unreadable_entry_names_utterance_and_file(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "feats.scp").write_text(f"lost {tmp_path}/none.ark:5\n")
    with pytest.raises(io_ark.ArkError, match=r"none\.ark.*lost"):
        FeatureDataset(tmp_path / "feats.scp")[0]


def test_lengths_by_file_or_by_reading(corpus: Path, tmp_path: Path) -> None:
    data = dataset(corpus)
    read = data.lengths()
    assert read == [len(data[i].input) for i in range(len(data))]
    (tmp_path / "utt2num_frames").write_text("".join(f"{k} {n}\n" for k, n in zip(data.keys, read, strict=True)))
    assert data.lengths(tmp_path / "utt2num_frames") == read
    command = f"cat {tmp_path}/utt2num_frames |"
    assert data.lengths(command) == read
    with pytest.raises(io_ark.ArkError, match="pipes are disabled"):
        FeatureDataset(corpus / "feats.scp", pipes=False).lengths(command)


@pytest.mark.parametrize(
    ("start", "workers", "persistent"),
    [("fork", 0, False), ("fork", 1, True), ("fork", 8, False), ("fork", 3, True)],
)
def test_feature_dataset_in_workers(corpus: Path, start: str, workers: int, persistent: bool) -> None:
    data = dataset(corpus, alignments=f"ark:cat {corpus}/ali.ark |")  # a pipe: read anew in each worker
    data[0]  # opened here first: workers must not share what this process holds
    loader = DataLoader(
        data,
        batch_size=4,
        shuffle=True,
        collate_fn=collate,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context=start if workers else None,
        generator=torch.Generator().manual_seed(1),
    )
    first = list(loader)
    assert_right_batches(first, data.keys)
    assert_right_batches(list(loader), data.keys)
    again = DataLoader(data, batch_size=4, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(1))
    assert [batch.keys for batch in again] == [batch.keys for batch in first]


def test_a_pickled_data_set_opens_its_own_files(corpus: Path) -> None:
    for data in (dataset(corpus), WaveDataset(corpus / "wav.scp", corpus / "segments", speeds=(0.9, 1.1), seed=1)):
        data.set_epoch(3)
        before = [data[i] for i in range(len(data))]
        again = pickle.loads(pickle.dumps(data))
        assert all(torch.equal(again[i].input, item.input) for i, item in enumerate(before))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_archive_dataset_in_workers_gives_each_utterance_once_and_shuffles_anew(corpus: Path, start: str) -> None:
    data = ArchiveDataset(
        f"ark:cat {corpus}/feats.ark |",
        utt2spk=corpus / "utt2spk",
        labels=corpus / "labels",
        parse_label=int,
        alignments=f"scp:{corpus}/ali.scp",
        drop_incomplete=True,
        shuffle_buffer=8,
        seed=3,
    )
    keys = [key for i, key in enumerate(KEYS) if i != 7]
    loader = DataLoader(
        data,
        batch_size=4,
        collate_fn=collate if start == "fork" else None,  # spawned workers, too, collate utterances by default
        num_workers=2 if start == "fork" else 1,  # a spawned one imports torch
        persistent_workers=True,
        multiprocessing_context=start,
    )
    first = list(loader)
    assert_right_batches(first, keys)
    assert [batch.keys for batch in loader] == [batch.keys for batch in first]
    data.set_epoch(1)  # reaches the workers that persist
    second = list(loader)
    assert_right_batches(second, keys)
    assert [batch.keys for batch in second] != [batch.keys for batch in first]


def test_readers_shuffle_in_different_orders(tmp_path: Path) -> None:
    for table in ("0", "1"):
        with io_ark.writer(f"ark:{tmp_path}/{table}.ark") as writer:
            for i in range(30):
                writer[str(i)] = np.ones((1, 2), np.float32)
    tables = [f"ark:{tmp_path}/0.ark", f"ark:{tmp_path}/1.ark"]
    orders = []
    for rank in range(2):
        data = ArchiveDataset(tables, shuffle_buffer=10, rank=rank, world_size=2)
        orders.append([utterance.key for utterance in data])
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]


def test_a_forked_process_opens_its_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    value = InEachProcess(object)
    first = value()
    assert value() is first
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert value() is not first
    lock = InEachProcess(Lock)
    assert lock() and pickle.loads(pickle.dumps(lock))()  # a lock cannot be pickled


@pytest.mark.parametrize("tables", [1, 2, 7])
@pytest.mark.parametrize("kind", ["ark", "scp"])
def test_archive_dataset_is_distributed_over_ranks_and_workers(
    corpus: Path, tmp_path: Path, kind: str, tables: int
) -> None:
    rspecifiers = []
    for table in range(tables):
        stem = f"{tmp_path}/{table}"
        with io_ark.Writer(f"ark,scp:{stem}.ark,{stem}.scp", kind="matrix") as writer:
            for i, key in list(enumerate(KEYS))[table::tables]:
                writer[key] = np.full((3, 2), i, np.float32)
        rspecifiers.append(f"{kind}:{stem}.{kind}")
    seen: list[str] = []
    for rank in range(2):
        data = ArchiveDataset(rspecifiers, rank=rank, world_size=2)
        loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork")
        seen += [utterance.key for utterance in loader]
    assert Counter(seen) == Counter(KEYS)


def test_waves_and_segments(corpus: Path) -> None:
    waves = WaveDataset(corpus / "wav.scp", sample_frequency=16000)
    assert [len(waves[i].input) for i in range(3)] == [400, 560, 720]
    assert waves[0].input.dtype == torch.int16
    cut = WaveDataset(corpus / "wav.scp", corpus / "segments")
    whole = {utterance.key: utterance.input for utterance in (waves[i] for i in range(len(waves)))}
    assert [item.key for item in (cut[0], cut[1])] == ["seg-a", "seg-b"]
    assert torch.equal(cut[0].input, whole[KEYS[20]][800:2400])
    assert torch.equal(cut[1].input, whole[KEYS[21]])


def test_a_segment_is_read_without_the_rest_of_its_recording(tmp_path: Path) -> None:
    io_ark.save(f"{tmp_path}/rec.wav", Wave(16000.0, np.ones((1, 10_000_000), np.int16)), kind="wave")
    (tmp_path / "wav.scp").write_text(f"rec {tmp_path}/rec.wav\n")
    (tmp_path / "segments").write_text("a rec 600.0 600.5\n")
    cut = WaveDataset(tmp_path / "wav.scp", tmp_path / "segments")
    tracemalloc.start()
    assert cut[0].input.tolist() == [1] * 8000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    cut[0].input.zero_()
    assert cut[0].input.all()


def test_a_recording_that_becomes_shorter_is_an_error(tmp_path: Path) -> None:
    io_ark.save(f"{tmp_path}/rec.wav", Wave(16000.0, np.ones((1, 10_000_000), np.int16)), kind="wave")
    (tmp_path / "wav.scp").write_text(f"rec {tmp_path}/rec.wav\n")
    (tmp_path / "segments").write_text("a rec 1.0 2.0\nb rec 600.0 600.5\n")
    cut = WaveDataset(tmp_path / "wav.scp", tmp_path / "segments")
    assert len(cut[0].input) == 16000
    os.truncate(tmp_path / "rec.wav", 100_000)  # reading the old map there would end the process by SIGBUS
    with pytest.raises(io_ark.ArkError, match="outside the recording of 3"):
        cut[1]


@pytest.mark.parametrize("shuffle_buffer", [0, 4])
def test_interrupted_iteration_over_archives_does_not_end_early(corpus: Path, shuffle_buffer: int) -> None:
    calls = iter(range(100))

    def interrupted(features: torch.Tensor) -> torch.Tensor:
        if next(calls) == 6:
            raise KeyboardInterrupt
        return features

    data = ArchiveDataset(f"ark:{corpus}/feats.ark", transform=interrupted, shuffle_buffer=shuffle_buffer)
    utterances = iter(data)
    with pytest.raises(KeyboardInterrupt):
        list(utterances)
    for _ in range(2):
        with pytest.raises(io_ark.ArkError, match="interrupted"):
            next(utterances)


def test_interrupted_look_up_of_alignments_is_not_a_missing_key(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = FeatureDataset(corpus / "feats.scp", alignments=f"ark:{corpus}/ali.ark")
    entries = random_access.read_entries

    def interrupted(*arguments: Any) -> Any:
        for number, entry in enumerate(entries(*arguments)):
            if number == 2:
                raise KeyboardInterrupt
            yield entry

    monkeypatch.setattr(random_access, "read_entries", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data[5]
    with pytest.raises(io_ark.ArkError, match="interrupted"):
        data[5]


@pytest.mark.parametrize("size", [100_000, 30])
def test_a_recording_that_is_rewritten_while_it_is_read_does_not_end_the_process(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io_ark.save(f"{tmp_path}/rec.wav", Wave(16000.0, np.ones((1, 10_000_000), np.int16)), kind="wave")
    (tmp_path / "wav.scp").write_text(f"rec {tmp_path}/rec.wav\n")
    (tmp_path / "segments").write_text("a rec 600.0 600.5\n")
    cut = io_ark.Segment.cut

    def truncated(segment: io_ark.Segment, wave: Wave, **options: Any) -> Wave:
        os.truncate(tmp_path / "rec.wav", size)  # after its header has been read
        return cut(segment, wave, **options)

    monkeypatch.setattr(io_ark.Segment, "cut", truncated)
    child = os.fork()
    if child == 0:
        try:
            WaveDataset(tmp_path / "wav.scp", tmp_path / "segments")[0]
        except io_ark.ArkError as error:
            os._exit(0 if "rec.wav:19200044: ends too early" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("big_endian", [False, True])
def test_a_segment_of_one_channel_is_that_of_the_whole_recording(big_endian: bool, tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-1000, 1000, (3, 5000)).astype(np.int16)
    io_ark.save(f"{tmp_path}/rec.wav", Wave(8000.0, samples), kind="wave")
    data = (tmp_path / "rec.wav").read_bytes()
    if big_endian:
        fields = struct.unpack("<4sI8sIHHIIHH4sI", data[:44])
        data = struct.pack(">4sI8sIHHIIHH4sI", b"RIFX", *fields[1:]) + samples.T.astype(">i2").tobytes()
    (tmp_path / "rec.ark").write_bytes(b"x " + data)
    (tmp_path / "wav.scp").write_text(f"rec {tmp_path}/rec.ark:2\n")
    (tmp_path / "segments").write_text("a rec 0.1 0.2 2\nb rec 0.5 -1 0\n")
    cut = WaveDataset(tmp_path / "wav.scp", tmp_path / "segments")
    for item, part in zip(cut, (samples[2, 800:1600], samples[0, 4000:]), strict=True):
        found = item.input.numpy()
        assert (found.dtype, found.shape) == (part.dtype, part.shape)
        np.testing.assert_array_equal(found, part)


@pytest.mark.parametrize(
    "feature",
    [Fbank(dither=0.0), torch.nn.Sequential(Fbank(dither=0.0), torch.nn.Identity()), Frontend.from_preset("zipformer")],
    ids=["feature", "sequence", "front end"],
)
def test_audio_whose_rate_is_not_that_of_the_features_is_refused(feature: Any, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(-1000, 1000, (1, 8000)).astype(np.int16)
    io_ark.save(f"{tmp_path}/a.wav", Wave(8000.0, noise))
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\n")
    message = "a: the audio has a rate of 8000 Hz, but the features need 16000 Hz: pass sample_frequency=16000"
    with pytest.raises(AudioError, match=message):
        WaveDataset(tmp_path / "wav.scp", feature=feature)[0]
    with pytest.raises(AudioError, match="a rate of 12000 Hz"):
        WaveDataset(tmp_path / "wav.scp", feature=feature, sample_frequency=12000)[0]
    resampled = WaveDataset(tmp_path / "wav.scp", sample_frequency=16000)[0].input
    data = WaveDataset(tmp_path / "wav.scp", feature=feature, sample_frequency=16000, speeds=(1.0,))
    assert torch.equal(data[0].input, feature(resampled))


def test_audio_whose_rate_is_not_that_of_the_features_on_the_device_is_refused(tmp_path: Path) -> None:
    for key, rate in ("a", 16000), ("b", 8000):
        io_ark.save(f"{tmp_path}/{key}.wav", Wave(float(rate), np.ones((1, rate), np.int16)))
    (tmp_path / "wav.scp").write_text("".join(f"{key} {tmp_path}/{key}.wav\n" for key in "ab"))
    data = WaveDataset(tmp_path / "wav.scp")
    assert [item.sample_frequency for item in data] == [16000, 8000]
    loader = DataLoader(data, batch_size=2, collate_fn=collate, num_workers=1)
    with pytest.raises(AudioError, match="b: the audio has a rate of 8000 Hz, but the features need 16000 Hz"):
        next(iter(FeaturesOnDevice(loader, Fbank(), "cpu")))
    resampled = DataLoader(WaveDataset(tmp_path / "wav.scp", sample_frequency=16000), batch_size=2, collate_fn=collate)
    assert next(iter(FeaturesOnDevice(resampled, Fbank(), "cpu"))).lengths.tolist() == [98, 98]
    without_rates = [collate([Utterance("a", torch.zeros(16000))])]
    assert next(iter(FeaturesOnDevice(without_rates, Fbank(), "cpu"))).lengths.tolist() == [98]


class Odd(torch.nn.Module):
    sampling_rate = "16k"

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        return audio[:, None].float()


def test_rate_of_a_users_module_that_is_no_number_is_ignored(tmp_path: Path) -> None:
    io_ark.save(f"{tmp_path}/a.wav", Wave(8000.0, np.ones((1, 8000), np.int16)))
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\n")
    assert WaveDataset(tmp_path / "wav.scp", feature=Odd())[0].input.shape == (8000, 1)


class Twice(torch.nn.Module):
    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        return audio.repeat_interleave(2)


def test_module_that_resamples_takes_audio_of_another_rate_than_the_features(tmp_path: Path) -> None:
    io_ark.save(f"{tmp_path}/a.wav", Wave(8000.0, np.ones((1, 8000), np.int16)))
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\n")
    feature = torch.nn.Sequential(Twice(), Fbank(dither=0.0))
    assert WaveDataset(tmp_path / "wav.scp", feature=feature)[0].input.shape == (98, 23)


def test_lengths_of_audio_are_read_from_headers_or_durations(corpus: Path, tmp_path: Path) -> None:
    for options in ({}, {"sample_frequency": 16000}, {"sample_frequency": 22050}, {"segments": corpus / "segments"}):
        data = WaveDataset(corpus / "wav.scp", **options)  # type: ignore[arg-type]
        assert data.lengths() == [len(data[i].input) for i in range(len(data))]
    data = WaveDataset(corpus / "wav.scp", sample_frequency=8000)
    (tmp_path / "utt2dur").write_text(
        "".join(f"{key} {n / 8000}\n" for key, n in zip(KEYS, data.lengths(), strict=True))
    )
    assert data.lengths(tmp_path / "utt2dur") == data.lengths()
    with pytest.raises(AudioError, match="pass sample_frequency"):
        WaveDataset(corpus / "wav.scp").lengths(tmp_path / "utt2dur")


def test_audio_of_another_rate_is_resampled_as_by_kaldi(corpus: Path) -> None:
    data, whole = WaveDataset(corpus / "wav.scp", sample_frequency=8000), WaveDataset(corpus / "wav.scp")
    for i in (0, 5):
        expected = resample_waveform(whole[i].input, 16000, 8000)
        assert data[i].input.dtype == torch.int16
        torch.testing.assert_close(data[i].input.float(), expected, rtol=0, atol=0.51)
    with pytest.raises(AudioError, match="spk0-utt00: cannot resample 16000 Hz"):
        WaveDataset(corpus / "wav.scp", sample_frequency=0.5)[0]


def test_speeds_are_chosen_by_key_and_epoch_in_all_workers(corpus: Path, tmp_path: Path) -> None:
    data = WaveDataset(corpus / "wav.scp", speeds=(0.9, 1.0, 1.1), seed=2)
    whole = WaveDataset(corpus / "wav.scp")
    loader = DataLoader(
        data, batch_size=None, num_workers=2, persistent_workers=True, multiprocessing_context="fork", shuffle=False
    )
    chosen = []
    for epoch in range(2):
        data.set_epoch(epoch)
        here = [data[i].input for i in range(len(data))]
        assert all(torch.equal(a, b.input) for a, b in zip(here, loader, strict=True))
        assert data.lengths() == [len(samples) for samples in here]
        chosen.append([round(len(whole[i].input) / len(samples), 1) for i, samples in enumerate(here)])
        assert set(chosen[-1]) == {0.9, 1.0, 1.1}
    assert chosen[0] != chosen[1]
    slow = WaveDataset(corpus / "wav.scp", speeds=[0.5], sample_frequency=16000)
    expected = resample_waveform(whole[5].input, 8000, 16000)
    torch.testing.assert_close(slow[5].input.float(), expected, rtol=0, atol=0.51)
    (tmp_path / "utt2dur").write_text(
        "".join(f"{key} {n / 16000}\n" for key, n in zip(KEYS, whole.lengths(), strict=True))
    )
    assert slow.lengths(tmp_path / "utt2dur") == slow.lengths() == [2 * n for n in whole.lengths()]
    with pytest.raises(OptionError, match="must be a positive, finite number"):
        WaveDataset(corpus / "wav.scp", speeds=[0.0])


def test_a_channel_is_chosen_for_recordings_and_segments(tmp_path: Path) -> None:
    stereo = np.stack((np.full(16000, 1), np.full(16000, 2))).astype(np.int16)
    io_ark.save(f"{tmp_path}/stereo.wav", Wave(16000.0, stereo), kind="wave")
    (tmp_path / "wav.scp").write_text(f"rec {tmp_path}/stereo.wav\n")
    (tmp_path / "segments").write_text("a rec 0.0 0.5\nb rec 0.5 1.0 0\n")
    assert WaveDataset(tmp_path / "wav.scp", channel=1)[0].input.unique().tolist() == [2]
    cut = WaveDataset(tmp_path / "wav.scp", tmp_path / "segments", channel=1)
    assert [cut[i].input.unique().tolist() for i in range(2)] == [[2], [1]]
    assert cut.lengths() == [8000, 8000]


def test_audio_of_a_wrong_channel_is_refused(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "segments").write_text(f"seg {KEYS[0]} 7.0 8.0\n")
    with pytest.raises(io_ark.ArkError, match=r"seg: .* is outside"):
        WaveDataset(corpus / "wav.scp", tmp_path / "segments")[0]
    io_ark.save(f"{tmp_path}/stereo.wav", Wave(16000.0, np.zeros((2, 100), np.int16)), kind="wave")
    (tmp_path / "wav.scp").write_text(f"stereo {tmp_path}/stereo.wav\n")
    with pytest.raises(AudioError, match="2 channels: pass a channel from 0 to 1"):
        WaveDataset(tmp_path / "wav.scp")[0]
    with pytest.raises(AudioError, match="channel=2 does not exist"):
        WaveDataset(tmp_path / "wav.scp", channel=2)[0]


def test_features_are_computed_on_the_device_of_the_model(corpus: Path) -> None:
    waves = WaveDataset(corpus / "wav.scp", labels=corpus / "labels", parse_label=int)
    feature = Fbank(dither=0.0, snip_edges=False)
    loader = DataLoader(waves, batch_size=5, collate_fn=collate, num_workers=2, multiprocessing_context="fork")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    features = FeaturesOnDevice(loader, feature, device)
    assert len(features) == 5
    alone = {utterance.key: feature.cpu()(utterance.input) for utterance in (waves[i] for i in range(len(waves)))}
    seen = 0
    for batch in FeaturesOnDevice(loader, feature.to(device), device):
        assert batch.inputs.device.type == device
        for key, frames in zip(batch.keys, unpad(batch.inputs.cpu(), batch.lengths.cpu()), strict=True):
            torch.testing.assert_close(frames, alone[key], rtol=1e-5, atol=1e-4)
            seen += 1
    assert seen == len(KEYS)


@pytest.mark.gpu
def test_batches_are_pinned(corpus: Path) -> None:
    for batch in DataLoader(dataset(corpus), batch_size=4, collate_fn=collate, pin_memory=True, num_workers=1):
        assert batch.inputs.is_pinned() and batch.lengths.is_pinned()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6))
def test_unpadding_restores_padded_utterances(lengths: list[int]) -> None:
    items = [torch.full((n, 2), float(n)) for n in lengths]
    batch, counts = pad(items, -1.0)
    assert batch.shape == (len(items), max(lengths), 2)
    assert all(torch.equal(a, b) for a, b in zip(unpad(batch, counts), items, strict=True))


def test_labels_are_stacked_by_type() -> None:
    frame = torch.zeros(1, 1)
    numbers = collate([Utterance("a", frame, label=3), Utterance("b", frame, label=4)])
    assert numbers.labels.tolist() == [3, 4]
    sequences = collate([Utterance("a", frame, label=[3]), Utterance("b", frame, label=[4, 5])])
    assert sequences.labels.tolist() == [[3, ALIGNMENT_PADDING], [4, 5]]
    words = collate([Utterance("a", frame, label="x"), Utterance("b", frame, label="y z")])
    assert words.labels == ["x", "y z"]


def test_feature_dataset_takes_an_rspecifier(tmp_path: Path) -> None:
    with io_ark.Writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", kind="matrix") as writer:
        writer["utt"] = np.ones((3, 2), np.float32)
    assert FeatureDataset(f"scp:{tmp_path}/a.scp")[0].input.shape == (3, 2)
    with pytest.raises(KaldiCompatError, match="pass its script file"):
        FeatureDataset(f"ark:{tmp_path}/a.ark")


def test_a_dataloader_without_collate_fn_pads_utterances(corpus: Path) -> None:
    data = dataset(corpus)
    assert_right_batches(list(DataLoader(data, batch_size=4)), data.keys)


def test_data_sets_read_names_relative_to_the_script(corpus: Path, tmp_path: Path) -> None:
    for name in ("feats", "wav"):
        (tmp_path / f"{name}.ark").write_bytes((corpus / f"{name}.ark").read_bytes())
        (tmp_path / f"{name}.scp").write_text((corpus / f"{name}.scp").read_text().replace(f"{corpus}/", ""))
    with pytest.raises(io_ark.ArkError, match=r"feats\.ark"):
        FeatureDataset(tmp_path / "feats.scp")[0]
    data = FeatureDataset(f"scp:{tmp_path}/feats.scp", relative_to="script")
    assert torch.equal(data[5].input, torch.full_like(data[5].input, 5)) and data.lengths()[5] == len(data[5].input)
    waves = WaveDataset(tmp_path / "wav.scp", relative_to="script")
    assert len(waves[2].input) == 400 + 160 * 2
    cut = WaveDataset(tmp_path / "wav.scp", corpus / "segments", relative_to="script")
    assert len(cut[0].input) == 1600


def test_data_sets_say_what_they_hold(corpus: Path) -> None:
    data = dataset(corpus, transform=SpecAugment(fill=0.0))
    holds = "22 utterances, with speaker, label, alignment, transform=SpecAugment(frequency=2x27, time=2x100, "
    assert repr(data) == f"<FeatureDataset of {corpus}/feats.scp: {holds}time_mask_ratio=1, time_warp=0, fill=0.0)>"
    waves = WaveDataset(
        corpus / "wav.scp", sample_frequency=8000, speeds=(0.9, 1), feature=Fbank(sample_frequency=8000)
    )
    holds = "23 utterances at 8000 Hz, speeds 0.9|1, feature=Fbank(sample_frequency=8000.0)"
    assert repr(waves) == f"<WaveDataset of {corpus}/wav.scp: {holds}>"
    in_order = ArchiveDataset(f"ark:{corpus}/feats.ark", text=corpus / "text", transform=torch.log)
    assert repr(in_order) == f"<ArchiveDataset of ark:{corpus}/feats.ark, with text, transform=log>"


def test_a_sampler_of_batches_in_the_wrong_place_is_refused_with_advice(corpus: Path) -> None:
    data = FeatureDataset(corpus / "feats.scp")
    sampler = BucketBatchSampler(data.lengths(), batch_size=2, shuffle=False)
    with pytest.raises(TypeError, match=r"not \[\d+, \d+\]: pass a sampler of batches .* as batch_sampler="):
        next(iter(DataLoader(data, sampler=sampler)))
    with pytest.raises(TypeError, match=r"not 'utt1': pass data.keys.index\(KEY\)$"):
        data["utt1"]  # type: ignore[index]
    assert data[np.int64(-1)].key == data.keys[-1]
