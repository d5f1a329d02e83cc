"""Extractors on torch: what is moved, computed without gradients, put back afterwards, and refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.sources import source_of
from kaldi_compat.errors import OptionError
from kaldi_compat.torch import extractors
from tests.support.dump_data import audio
from tests.support.tiny_models import save_tiny

pytestmark = pytest.mark.filterwarnings("ignore")


def test_calls_have_no_gradients_and_leave_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), extractors.inference("cpu", "float32", before + 1):
        assert torch.get_num_threads() == before + 1
        assert torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cpu")
        raise KeyError
    assert torch.get_num_threads() == before and not torch.is_inference_mode_enabled()


def test_batch_and_lengths_are_moved_to_the_device() -> None:
    batch, lengths = extractors.pad([np.ones(3, np.float32), np.ones(5, np.float32)], "meta")
    assert (batch.device.type, lengths.device.type, batch.shape) == ("meta", "meta", (2, 5))


def test_every_module_is_moved_and_ready_for_inference() -> None:
    modules = [torch.nn.Sequential(torch.nn.Dropout()), torch.nn.Linear(1, 1)]
    extractors.move(modules, "meta")
    assert not any(each.training for module in modules for each in module.modules())
    assert modules[1].weight.device.type == "meta"


def loads(refusal: Exception | None) -> tuple[list[str], Any]:
    """Return what a stand-in for transformers is asked for, and the stand-in, which may refuse SDPA."""
    asked: list[str] = []

    def from_pretrained(folder: Path, **options: Any) -> str:
        asked.append(options["attn_implementation"])
        assert options["config"]._attn_implementation == asked[-1]
        if refusal and asked[-1] == "sdpa":
            raise refusal
        return asked[-1]

    config = SimpleNamespace(from_pretrained=lambda *_, **__: SimpleNamespace())
    return asked, SimpleNamespace(AutoConfig=config, AutoModel=SimpleNamespace(from_pretrained=from_pretrained))


def test_model_without_the_kernel_of_torch_computes_attention_itself() -> None:
    refusal = ValueError("X does not support an attention by torch.nn.functional.scaled_dot_product_attention yet")
    asked, library = loads(refusal)
    assert extractors._load(library, Path("x")) == "eager" and asked == ["sdpa", "eager"]
    asked, library = loads(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        extractors._load(library, Path("x"))
    assert asked == ["sdpa"]


def test_codec_of_two_channels_is_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    folder = save_tiny("encodec", tmp_path / "m")
    config = transformers.AutoConfig.from_pretrained(folder)
    config.audio_channels = 2
    transformers.EncodecModel(config).save_pretrained(folder)
    with pytest.raises(OptionError, match="takes 2 channels: give a model for audio of one channel"):
        extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")


def test_weight_that_only_training_uses_may_be_missing(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    from safetensors.torch import load_file, save_file

    folder = save_tiny("hubert", tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    del weights["masked_spec_embed"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    made = extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")
    with extractors.inference("cpu", "float32", 1):
        states, counts = made([audio(9000, seed=1)[0].astype(np.float32) / 32768])
    assert states.shape == (1, counts[0], 32)


def test_deepest_layer_before_the_last_is_the_last_that_is_computed(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    folder = save_tiny("hubert", tmp_path / "m")
    for layers, count in (("1", 1), ("1,2", 2), ("0,2", 2), ("3", 3), ("", 3)):
        made = extractors.open_pretrained(DumpOptions(transformers=str(folder), layers=layers), "cpu")
        assert len(made.model.encoder.layers) == count, layers


def test_codebook_after_the_last_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    folder = save_tiny("dac", tmp_path / "m")
    samples = [audio(9000, seed=1)[0].astype(np.float32) / 32768]
    with extractors.inference("cpu", "float32", 1):
        found = extractors.open_pretrained(DumpOptions(transformers=str(folder), layers="3"), "cpu")(samples)
        assert list(found) == ["codes3"]
        with pytest.raises(ValueError, match="has the codebooks 0 to 3, not 4"):
            extractors.open_pretrained(DumpOptions(transformers=str(folder), layers="4"), "cpu")(samples)


def test_one_long_utterance_of_a_batch_is_not_cut(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    folder = save_tiny("whisper", tmp_path / "m")
    made = extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")
    batch = [np.zeros(16000, np.float32), np.zeros(30 * 16000 + 1, np.float32)]
    with pytest.raises(ValueError, match=r"the audio is longer than the model's 30 s: cut it into segments"):
        made(batch)


@pytest.mark.parametrize("allow_pickle", [False, True])
def test_pickled_weights_of_the_hub_are_downloaded_only_with_permission(
    monkeypatch: pytest.MonkeyPatch, allow_pickle: bool
) -> None:
    asked: list[list[str]] = []

    def download(name: str, *, allow_patterns: list[str], **_: Any) -> str:
        asked.append(allow_patterns)
        return f"/downloaded/{name}"

    api = SimpleNamespace(model_info=lambda name, timeout: SimpleNamespace(sha="1"))
    hub = SimpleNamespace(HfApi=lambda: api, snapshot_download=download)
    monkeypatch.setattr(extractors, "import_extra", lambda *_: hub)
    options = DumpOptions(transformers="some/model", allow_pickle=allow_pickle)
    source = source_of(Job(Layout.of("data", "x"), options))
    assert source and source.local_job().options.transformers == "/downloaded/some/model"
    assert asked == [["*.json", "*.safetensors", *["*.bin"] * allow_pickle]]
