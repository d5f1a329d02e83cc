"""Rows and values of encoders and codecs do not depend on the batch: they are those of each utterance alone."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import io_ark
import kaldi_compat
from kaldi_compat.dump.entries import Audio
from kaldi_compat.dump.model import ExtractorComputer, Trial, try_extractor
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.torch.extractors import open_pretrained
from tests.support.dump_data import audio, keys_of, make_data, write_wav
from tests.support.extractors import arrays
from tests.support.tiny_models import MORE_WAVES, WAVES, save_tiny

transformers = pytest.importorskip("transformers", minversion="5")
pytestmark = pytest.mark.filterwarnings("ignore")
ENCODERS = ("wav2vec2", "hubert", "wavlm", "w2v-bert", "whisper", "sew", "unispeech-sat", "moonshine", "parakeet")
CODECS = {"encodec": 320, "mimi": 1920, "dac": 320}  # Samples of a frame in the tiny models.


class Alone:
    """What transformers itself computes for an utterance, without our code."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.model = transformers.AutoModel.from_pretrained(folder).eval()
        self.processor = transformers.AutoFeatureExtractor.from_pretrained(folder)

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Return the rows of the output that are not padding, according to the masks of the model."""
        inputs = self.processor([samples], sampling_rate=16000, return_tensors="pt", return_attention_mask=True)
        mask = inputs["attention_mask"]
        model = self.model.get_encoder() if self.model.config.is_encoder_decoder else self.model
        with torch.no_grad():
            output = model(**inputs)
        state = output.last_hidden_state[0].numpy()
        if self.name in (*WAVES, *MORE_WAVES):
            assert mask.all()
            return state
        if self.name == "whisper":
            return state[: -(-int(mask.sum()) // 2)]
        if self.name == "parakeet":
            return state[: int(output.attention_mask.sum())]
        return state[: int(mask.sum())]


def computer_of(folder: Path, **options: Any) -> tuple[ExtractorComputer, Trial, list[str]]:
    """Return what computes the batches of a dump of a model."""
    job = Job(Layout.from_paths(folder, "m"), DumpOptions(transformers=str(folder), **options))
    trial, said = try_extractor(job, 1)
    return ExtractorComputer(job, trial, "cpu"), trial, said


def compare_batches(name: str, folder: Path, seeds: range) -> None:
    """Compare random batches of 1 to 6 utterances with each utterance alone."""
    save_tiny(name, folder)
    alone, (computer, _, _) = Alone(name, folder), computer_of(folder)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        # Multiples of 80 samples make odd and even numbers of frames; other lengths are odd and even.
        lengths = rng.integers(4000, 40000, rng.integers(1, 7)) // (80 if seed % 2 else 1) * (80 if seed % 2 else 1)
        waves = [audio(int(length), seed=int(length)) for length in lengths]
        entries = [Audio.from_wave(i, f"utt{i}", io_ark.Wave(16000.0, samples)) for i, samples in enumerate(waves)]
        results: list[Any] = sorted(computer.submit(entries)(), key=attrgetter("index"))
        assert [result.index for result in results] == list(range(len(lengths)))
        for result, samples in zip(results, waves, strict=True):
            expected = alone(samples[0].astype(np.float32) / 32768)
            value = np.asarray(result.value)
            assert value.shape == expected.shape, f"{name}, {lengths.tolist()}, {samples.shape}"
            assert np.abs(value - expected).max() <= 1e-5 * np.abs(expected).max(), f"{name}, {lengths.tolist()}"


@pytest.mark.parametrize("name", ENCODERS)
def test_random_batches_are_each_utterance_alone(tmp_path: Path, name: str) -> None:
    compare_batches(name, tmp_path / name, range(3))


@pytest.mark.parametrize("name", ["parakeet", "w2v-bert"])
def test_features_of_a_batch_have_the_bits_of_each_utterance_alone(tmp_path: Path, name: str) -> None:
    model = open_pretrained(DumpOptions(transformers=str(save_tiny(name, tmp_path / name))), "cpu")
    waves = [audio(length, seed=length)[0].astype(np.float32) / 32768 for length in (4001, 12345, 39998)]
    batch = model.make_inputs(waves, "attention_mask")
    for features, samples, length in zip(batch.tensors["input_features"], waves, batch.lengths, strict=True):
        alone = model.make_inputs([samples], "attention_mask")
        assert alone.lengths == [length]
        assert torch.equal(features[:length], alone.tensors["input_features"][0, :length])


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_200_random_batches_are_each_utterance_alone(tmp_path: Path, name: str) -> None:
    compare_batches(name, tmp_path / name, range(200))


def test_last_frame_without_a_partner_is_no_row_of_w2v_bert(tmp_path: Path) -> None:
    """24,160 samples have 149 frames: 74 pairs, and a frame that is paired with padding."""
    data = make_data(tmp_path, 4)
    for key, samples in zip(keys_of(data / "wav.scp"), (24160, 24160, 24000, 30001), strict=True):
        write_wav(data / "wav" / f"{key}.wav", audio(samples, seed=samples))
    folder, rows = save_tiny("w2v-bert", tmp_path / "m"), []
    for more in ({}, {"batch_seconds": 0.1}):
        kaldi_compat.dump(data, transformers=folder, nj=1, **more)
        rows.append([len(value) for value in arrays(data / "feats.scp").values()])
    assert rows == [[74, 74, 74, 93]] * 2


@pytest.mark.parametrize("name, inner, outer", [("adapter", 75, 10), ("w2v-bert-adapter", 74, 37)])
def test_layers_before_an_adapter_keep_their_rows(tmp_path: Path, name: str, inner: int, outer: int) -> None:
    computer, _, _ = computer_of(save_tiny(name, tmp_path / name), layers="1,3")
    wave = io_ark.Wave(16000.0, audio(24160, seed=1))
    shapes = {one.name: np.asarray(one.value).shape for one in computer.submit([Audio.from_wave(0, "utt", wave)])()}
    assert shapes == {"layer1": (inner, 32), "layer3": (outer, 32)}


def test_model_that_does_not_tell_is_run_one_by_one(tmp_path: Path) -> None:
    computer, trial, said = computer_of(save_tiny("ast", tmp_path / "ast"))
    assert trial.batching == "alone" and "does not report which rows are padding" in said[-1]
    waves = [io_ark.Wave(16000.0, audio(samples, seed=samples)) for samples in (16000, 24160)]
    results: list[Any] = computer.submit([Audio.from_wave(i, f"utt{i}", wave) for i, wave in enumerate(waves)])()
    assert [np.asarray(result.value).shape for result in results] == [(1214, 32)] * 2
    long = io_ark.Wave(16000.0, audio(170_000, seed=1))
    (failure,) = computer.submit([Audio.from_wave(0, "long", long)])()
    assert failure.reason == "the audio is longer than the model's limit of 10.24 s: cut the audio into segments"


@pytest.mark.parametrize("name", CODECS)
def test_codes_in_batches_have_a_frame_for_each_started_hop(tmp_path: Path, name: str) -> None:
    folder = save_tiny(name, tmp_path / name)
    computer, trial, _ = computer_of(folder)
    rate = computer.model.extractor.sample_rate or 0
    lengths = [9601, 12799, 16000, 20161]
    waves = [io_ark.Wave(float(rate), audio(samples, seed=samples)) for samples in lengths]
    entries = [Audio.from_wave(i, f"utt{i}", wave) for i, wave in enumerate(waves)]
    for batch in (entries, *([entry] for entry in entries)):
        for result in computer.submit(batch)():
            assert len(np.asarray(result.value)) == -(-lengths[result.index] // CODECS[name])  # type: ignore[union-attr]
    assert trial.batching in ("padded", "equal", "alone")


def test_chunks_of_a_codec_are_refused(tmp_path: Path) -> None:
    from kaldi_compat.dump.errors import DumpError

    folder = save_tiny("encodec", tmp_path / "encodec")
    config = transformers.AutoConfig.from_pretrained(folder)
    config.chunk_length_s, config.overlap = 1.0, 0.01
    config.save_pretrained(folder)
    with pytest.raises(DumpError, match=r"the codec divides the audio into . chunks"):
        computer_of(folder)
