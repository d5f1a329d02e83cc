"""Extractors on torch: what is moved, computed without gradients, put back afterwards, and refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.sources import make_source
from kaldi_compat.errors import OptionError
from kaldi_compat.torch import extractors
from tests.support.dump_data import audio
from tests.support.tiny_models import save_tiny

pytestmark = pytest.mark.filterwarnings("ignore")


def test_calls_have_no_gradients_and_leave_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), extractors.enter_inference("cpu", "float32", before + 1):
        assert torch.get_num_threads() == before + 1
        assert torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cpu")
        raise KeyError
    assert torch.get_num_threads() == before and not torch.is_inference_mode_enabled()


def test_batch_and_lengths_are_moved_to_the_device() -> None:
    batch, lengths = extractors.pad_audio([np.ones(3, np.float32), np.ones(5, np.float32)], "meta")
    assert (batch.device.type, lengths.device.type, batch.shape) == ("meta", "meta", (2, 5))


def test_every_module_is_moved_and_ready_for_inference() -> None:
    modules = [torch.nn.Sequential(torch.nn.Dropout()), torch.nn.Linear(1, 1)]
    extractors.prepare_modules(modules, "meta")
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
    assert extractors._load_model(library, Path("x")) == "eager" and asked == ["sdpa", "eager"]
    asked, library = loads(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        extractors._load_model(library, Path("x"))
    assert asked == ["sdpa"]


def test_codec_of_two_channels_is_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    folder = save_tiny("encodec", tmp_path / "m")
    config = transformers.AutoConfig.from_pretrained(folder)
    config.audio_channels = 2
    transformers.EncodecModel(config).save_pretrained(folder)
    with pytest.raises(OptionError, match="takes audio with 2 channels: give a model for audio with one channel"):
        extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")


def test_weight_that_only_training_uses_may_be_missing(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    from safetensors.torch import load_file, save_file

    folder = save_tiny("hubert", tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    del weights["masked_spec_embed"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    made = extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")
    with extractors.enter_inference("cpu", "float32", 1):
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
    with extractors.enter_inference("cpu", "float32", 1):
        found = extractors.open_pretrained(DumpOptions(transformers=str(folder), layers="3"), "cpu")(samples)
        assert list(found) == ["codes3"]
        with pytest.raises(ValueError, match="has no codebook 4: choose from the codebooks 0 to 3"):
            extractors.open_pretrained(DumpOptions(transformers=str(folder), layers="4"), "cpu")(samples)


def test_one_long_utterance_of_a_batch_is_not_cut(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    folder = save_tiny("whisper", tmp_path / "m")
    made = extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")
    batch = [np.zeros(16000, np.float32), np.zeros(30 * 16000 + 1, np.float32)]
    with pytest.raises(
        ValueError, match=r"the audio is longer than the model's limit of 30 s: cut the audio into segments"
    ):
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
    source = make_source(Job(Layout.from_paths("data", "x"), options))
    assert source and source.make_local_job().options.transformers == "/downloaded/some/model"
    assert asked == [["*.json", "*.safetensors", *["*.bin"] * allow_pickle]]


def test_pickled_weights_beside_other_safetensors_need_permission(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    from safetensors.torch import load_file, save_file

    folder = save_tiny("hubert", tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    save_file({"other": torch.ones(1)}, folder / "other.safetensors", {"format": "pt"})
    with pytest.raises(OptionError, match="transformers cannot open"):
        extractors.open_pretrained(DumpOptions(transformers=str(folder)), "cpu")
    opened = extractors.open_pretrained(DumpOptions(transformers=str(folder), allow_pickle=True), "cpu")
    assert not opened.model.training and opened.sample_rate == 16000


def test_lengths_are_those_of_each_function_of_the_model() -> None:
    model = SimpleNamespace(
        _get_feat_extract_output_lengths=lambda length: (length // 2, length // 4),
        get_encoded_length=lambda length: length // 320,
        config=SimpleNamespace(hop_length=100),
    )
    functions = extractors._find_length_functions(model)
    assert [function(1601) for function in functions] == [400, 5, 17]
    assert all(type(function(1601)) is int for function in functions)
    assert extractors._find_length_functions(SimpleNamespace(config=SimpleNamespace())) == []


def test_adapter_shortens_the_output_and_not_the_hidden_states() -> None:
    def lengths(length: torch.Tensor, add_adapter: bool | None = None) -> torch.Tensor:
        return length // (10 if add_adapter is False else 40)

    for adapter, expected in ((True, [25, 100]), (False, [25])):
        config = SimpleNamespace(add_adapter=adapter)
        model = SimpleNamespace(_get_feat_extract_output_lengths=lengths, config=config)
        assert [function(1000) for function in extractors._find_length_functions(model)] == expected


@pytest.mark.parametrize(
    ("properties", "window"),
    [({"n_samples": 480000}, 480000), ({"max_length": 1024}, 163840), ({"max_length": None}, None), ({}, None),
     ({"n_samples": 8, "max_length": 3}, 8)],
)  # fmt: skip
def test_window_is_that_of_the_feature_extractor(properties: dict[str, Any], window: int | None) -> None:
    assert extractors._find_max_samples(SimpleNamespace(sampling_rate=16000, **properties)) == window


def counts_of(rows: int, utterances: int, width: int, lengths: list[int], mask: Any = None) -> list[int]:
    pretrained: Any = extractors._Pretrained.__new__(extractors._Pretrained)
    pretrained.length_functions = [lambda length: length // 320, lambda length: -(-length // 100)]
    return extractors._Pretrained.count_rows(pretrained, extractors._Inputs({}, width, lengths), rows, utterances, mask)


def test_rows_are_counted_by_the_mask_or_by_the_function_that_fits_the_batch() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert counts_of(3, 2, 960, [960, 640], mask) == [3, 1]
    assert counts_of(3, 2, 960, [960, 640], mask[:, :2]) == [3, 2]  # a mask of another output does not count
    assert counts_of(10, 2, 960, [960, 101]) == [10, 2]
    assert counts_of(960, 2, 960, [960, 101]) == [960, 101]  # a row for each sample
    for width in (0, 960):
        assert counts_of(7, 1, width, [960]) == [7]
        with pytest.raises(ValueError, match="does not report which rows are padding"):
            counts_of(7, 2, width, [960, 101])


def test_hub_that_cannot_be_reached_leaves_what_was_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("no\nroute")

    def download(name: str, **options: Any) -> Path:
        asked.append(options)
        return tmp_path / "cache"

    hub = SimpleNamespace(HfApi=lambda: SimpleNamespace(model_info=fail), snapshot_download=download)
    monkeypatch.setattr(extractors, "import_extra", lambda *_: hub)
    assert extractors.find_or_download("some/model", allow_pickle=False) == str(tmp_path / "cache")
    assert (asked[0]["revision"], asked[0]["local_files_only"]) == (None, True)
    hub.HfApi = lambda: SimpleNamespace(model_info=lambda *_, **__: SimpleNamespace(sha="abc"))
    extractors.find_or_download("some/model", allow_pickle=False)
    assert (asked[1]["revision"], asked[1]["local_files_only"]) == ("abc", False)
    hub.snapshot_download = fail
    with pytest.raises(
        OptionError, match=r"^--transformers=some/model is neither a local folder nor a model .* \(no route\): give"
    ):
        extractors.find_or_download("some/model", allow_pickle=False)
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    assert extractors.find_or_download("m", allow_pickle=False) == str(tmp_path / "m")
    for name in ("a/b/c", "./x", "~/x", "/x", ".x"):
        with pytest.raises(OptionError, match="is not a folder: give the folder"):
            extractors.find_or_download(name, allow_pickle=False)
