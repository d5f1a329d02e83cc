"""The dump of encoders and codecs of transformers is what the models themselves give; tiny random ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kaldi_compat
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.errors import OptionError
from tests.support.dump_data import audio, failures, keys_of, make_data, write_wav
from tests.support.extractors import arrays, waves
from tests.support.tiny_models import CODECS, ENCODERS, save_tiny

transformers = pytest.importorskip("transformers", minversion="5")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path, 4)


def hidden_states(folder: Path, samples: np.ndarray) -> list[np.ndarray]:
    """Return what the model gives for an utterance alone: all layers."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    processor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    inputs = processor(samples, sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        found = model(**inputs, output_hidden_states=True)
    rows = -(-len(samples) // 320) if "Whisper" in type(model).__name__ else found[0].shape[1]
    # Versions of transformers differ in whether the last of hidden_states is normalized; the model's output is.
    return [each[0, :rows].numpy() for each in (*found.hidden_states[:-1], found.last_hidden_state)]


def assert_close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("name", ENCODERS)
def test_layers_are_the_hidden_states_of_the_model(data: Path, tmp_path: Path, name: str, capfd: Any) -> None:
    folder = save_tiny(name, tmp_path / name)
    kaldi_compat.dump(data, transformers=folder, layers=(0, 2, 3), nj=1)
    found = [arrays(data / f"layer{number}.scp") for number in (0, 2, 3)]
    for key, (samples, _) in waves(data).items():
        states = hidden_states(folder, samples)
        for number, own in zip((0, 2, 3), found, strict=True):
            assert_close(own[key], states[number])
    assert (data / "frame_shift").read_text() == "0.02\n"
    assert ("share a batch" in capfd.readouterr().err) == (name == "hubert-base")
    plan = json.loads(next((data / "log").glob("*.plan.jsonl")).read_text().splitlines()[0])
    assert plan["trial"]["batching"] == ("equal" if name == "hubert-base" else "padded")


def test_deeper_layers_are_not_computed(data: Path, tmp_path: Path) -> None:
    from kaldi_compat.dump.options import DumpOptions
    from kaldi_compat.torch.extractors import open_pretrained

    folder = save_tiny("hubert", tmp_path / "m")
    made = open_pretrained(DumpOptions(transformers=str(folder), layers="1"), "cpu")
    assert len(made.model.encoder.layers) == 1
    samples = waves(data)["spk0-utt000"][0]
    with torch.inference_mode():
        states, _ = made([samples])
    assert_close(states[0].numpy(), hidden_states(folder, samples)[1])


@pytest.mark.parametrize("name", CODECS)
def test_codes_are_those_of_the_codec(data: Path, tmp_path: Path, name: str) -> None:
    folder = save_tiny(name, tmp_path / name)
    model, processor = (
        transformers.AutoModel.from_pretrained(folder),
        transformers.AutoFeatureExtractor.from_pretrained(folder),
    )
    for i, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio(9000 + 1111 * i, seed=i), rate=model.config.sampling_rate)
    kaldi_compat.dump(data, transformers=folder, nj=1)
    matrices = arrays(data / "codes.scp")
    kaldi_compat.dump(data, transformers=folder, layers="0,1", nj=1)
    first, second = arrays(data / "codes0.scp"), arrays(data / "codes1.scp")
    for key, (samples, rate) in waves(data).items():
        inputs = processor(samples, sampling_rate=rate, return_tensors="pt")
        if name == "dac":
            inputs.pop("padding_mask", None)
        with torch.no_grad():
            codes = model.encode(**inputs).audio_codes
        codes = codes[0] if codes.dim() == 4 else codes
        np.testing.assert_array_equal(matrices[key], codes[0].numpy().T)
        assert first[key].dtype == np.int32
        np.testing.assert_array_equal(first[key], codes[0, 0].numpy())
        np.testing.assert_array_equal(second[key], codes[0, 1].numpy())


def test_audio_longer_than_whispers_window_fails_alone(data: Path, tmp_path: Path) -> None:
    folder = save_tiny("whisper", tmp_path / "whisper")
    key = keys_of(data / "wav.scp")[1]
    write_wav(data / "wav" / f"{key}.wav", audio(31 * 16000, seed=1))
    outcome = kaldi_compat.dump(data, transformers=folder, nj=1)
    assert outcome.utterances == 3
    assert failures(data) == f"{key} the audio is longer than the model's limit of 30 s: cut the audio into segments\n"


def test_batch_of_whisper_is_limited_by_its_windows(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kaldi_compat.torch.extractors import _Encoder

    sizes: list[int] = []
    call = _Encoder.__call__

    def counting(self: _Encoder, samples: Any) -> Any:
        sizes.append(len(samples))
        return call(self, samples)

    monkeypatch.setattr(_Encoder, "__call__", counting)
    kaldi_compat.dump(data, transformers=save_tiny("whisper", tmp_path / "whisper"), batch_seconds=60, nj=1)
    assert sizes[-3:] == [4, 2, 2]  # the last one of the trial, then the batches


def test_labels_vectors_and_half_precision(data: Path, tmp_path: Path) -> None:
    folder = save_tiny("wavlm", tmp_path / "wavlm")
    states = {key: hidden_states(folder, samples)[2] for key, (samples, _) in waves(data).items()}
    centroids = np.concatenate(list(states.values()))[::19]
    np.save(tmp_path / "c.npy", centroids)
    kaldi_compat.dump(data, transformers=folder, layers="2", kmeans=str(tmp_path / "c.npy"), nj=1)
    labels = arrays(data / "labels.scp")
    for key, value in states.items():
        np.testing.assert_array_equal(labels[key], ((value[:, None] - centroids) ** 2).sum(-1).argmin(1))
    kaldi_compat.dump(data, transformers=folder, layers="2", pool="mean", per_speaker=True, nj=1)
    assert_close(arrays(data / "xvector.scp")["spk0-utt000"], states["spk0-utt000"].mean(0))
    assert list(arrays(data / "spk_xvector.scp")) == ["spk0", "spk1"]
    kaldi_compat.dump(data, transformers=folder, layers="2", dtype="bfloat16", nj=1)
    assert_close(arrays(data / "feats.scp")["spk0-utt000"], states["spk0-utt000"], tolerance=0.1)


@pytest.mark.parametrize("name", ["ast", "parakeet", "w2v-bert", "wavlm", "whisper"])
def test_half_precision_does_not_change_the_inputs_of_the_model(tmp_path: Path, name: str) -> None:
    from kaldi_compat.dump.options import DumpOptions
    from kaldi_compat.torch.extractors import enter_inference, open_pretrained

    made = open_pretrained(DumpOptions(transformers=str(save_tiny(name, tmp_path / name))), "cpu")
    samples = [(audio(count, seed=count).reshape(-1) / 32768).astype(np.float32) for count in (9000, 16000)]
    inputs = []
    for dtype in ("float32", "bfloat16"):
        with enter_inference("cpu", dtype, 1):
            inputs.append(made.make_inputs(samples, "attention_mask", return_attention_mask=True).tensors)
    assert inputs[0].keys() == inputs[1].keys()
    for key, tensor in inputs[0].items():
        torch.testing.assert_close(inputs[1][key], tensor, rtol=0, atol=0)


def test_resume_with_another_model_is_refused(data: Path, tmp_path: Path) -> None:
    folder = save_tiny("hubert", tmp_path / "m")
    kaldi_compat.dump(data, transformers=folder, nj=1)
    kaldi_compat.dump(data, transformers=folder, nj=1, resume=True)
    torch.manual_seed(7)
    model = transformers.AutoModel.from_pretrained(folder)
    model.encoder.layers[0].feed_forward.output_dense.bias.data += 0.01
    model.save_pretrained(folder)
    with pytest.raises(DumpError, match=r"transformers/model.safetensors changed since the plan"):
        kaldi_compat.dump(data, transformers=folder, nj=1, resume=True)


def test_pickled_weights_need_permission(data: Path, tmp_path: Path) -> None:
    folder = save_tiny("hubert", tmp_path / "m")
    torch.save(transformers.AutoModel.from_pretrained(folder).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(OptionError, match=r"only pickled weights.*allow_pickle=True"):
        kaldi_compat.dump(data, transformers=folder, nj=1)
    assert kaldi_compat.dump(data, transformers=folder, nj=1, allow_pickle=True).utterances == 4


def test_incomplete_models_are_one_line(data: Path, tmp_path: Path) -> None:
    folder = save_tiny("hubert", tmp_path / "m")
    with pytest.raises(OptionError, match=r"has no layer 4: choose from the layers 0 to 3"):
        kaldi_compat.dump(data, transformers=folder, layers="4", nj=1)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(OptionError, match=r"lacks weights of the model, such as encoder.layers.3"):
        kaldi_compat.dump(data, transformers=folder, nj=1)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(OptionError, match=r"preprocessor_config.json is missing"):
        kaldi_compat.dump(data, transformers=folder, nj=1)


def test_unreachable_hub_is_one_line_and_soon(data: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-c", "from kaldi_compat.dump.entry_point import main; main()", "dump", "--transformers",
         "some/model", str(data)],
        env=os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hub")},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert "nor a model that the Hugging Face Hub returns" in found.stderr and len(found.stderr.splitlines()) == 1
    assert time.monotonic() - begun < 60
