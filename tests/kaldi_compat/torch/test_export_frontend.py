"""Front ends as ONNX files in onnxruntime, and in TorchScript."""

from __future__ import annotations

import functools
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from kaldi_compat import FeatureError, Frontend, OptionError, VoicedCmvn, __version__, list_presets
from kaldi_compat.frontends import Preset

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
export = pytest.importorskip("kaldi_compat.torch.export")

FLOAT, INT64, BOOL = 1, 7, 9  # onnx.TensorProto
EXPORTED = [name for name in list_presets() if not Preset.of(name).why_no_graph]
LENGTHS = (1600, 16000, 56000, 480000)
DOCS = Path(__file__).resolve().parents[3] / "docs"
pytestmark = [
    pytest.mark.filterwarnings("ignore:the preset .* normalizes by statistics"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@functools.cache
def lister() -> dict[str, Any]:
    return runpy.run_path(str(DOCS.parent / "tools" / "list_onnx.py"))


def noise(batch: int, length: int) -> Tensor:
    return 0.1 * torch.randn(batch, length, generator=torch.Generator().manual_seed(length))


def session_of(path: Path) -> Any:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def assert_runs_without_fft(path: Path) -> None:
    """Assert that a file holds neither an FFT nor numbers that WebGPU lacks."""
    graph = onnx.load(path).graph
    assert "MatMul" in {node.op_type for node in graph.node}
    assert not {node.op_type for node in graph.node} & {"DFT", "STFT", "If", "Loop"}
    assert {node.domain for node in graph.node} == {""}  # of ONNX itself
    types = {value.type.tensor_type.elem_type for value in graph.value_info}
    assert types | {tensor.data_type for tensor in graph.initializer} <= {FLOAT, INT64, BOOL}


def assert_same(found: np.ndarray[Any, Any], expected: Tensor) -> None:
    """Assert that features in float32 are those of the module in float64."""
    assert expected.dtype == torch.float64
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=2e-3)
    assert np.abs(found - expected.numpy()).mean() < 2e-5


@pytest.mark.costly
def test_file_differs_from_the_module(tmp_path: Path) -> None:
    statistics = (np.linspace(5, 15, 560), np.linspace(1, 3, 560))
    frontend = Frontend.from_preset("paraformer", statistics=statistics)
    path = tmp_path / "paraformer.onnx"
    exported = export.export_frontend("paraformer", path, statistics=statistics)
    assert_runs_without_fft(path)
    assert exported.difference is not None
    assert exported.difference < 1e-3
    assert "DFT" not in str(exported)
    assert "MatMul" in str(exported)
    session = session_of(path)
    for length in LENGTHS:
        samples = noise(3 if length < 1e5 else 1, length)
        assert_same(session.run(None, {"samples": samples.numpy()})[0], frontend(samples.double()))
    described = session.get_modelmeta().custom_metadata_map
    assert (described["preset"], described["kaldi_compat_version"]) == ("paraformer", __version__)
    assert "wav_frontend.py" in described["source"]
    assert described["statistics"] == "am.mvn"
    assert json.loads(described["options"])["window_type"] == "hamming"
    assert [each.shape for each in session.get_inputs()] == [["batch", "time"]]
    assert [each.shape for each in session.get_outputs()] == [["batch", "frames", 560]]


@pytest.mark.costly
def test_file_with_lengths_of_int16_differs_from_the_module(tmp_path: Path) -> None:
    frontend = Frontend.from_preset("seamless-m4t", dft="matmul")
    path = tmp_path / "seamless.onnx"
    export.export_frontend(frontend, path, lengths=True, int16=True)
    assert_runs_without_fft(path)
    session = session_of(path)
    for length in LENGTHS[:3]:
        samples = (noise(2, length) * 32768).to(torch.int16)
        lengths = torch.tensor([length, length // 2])
        features, counts = session.run(None, {"samples": samples.numpy(), "lengths": lengths.numpy()})
        expected, expected_counts = frontend(samples.double() / 32768, lengths)
        assert counts.tolist() == expected_counts.tolist()
        assert_same(features, expected)


def test_export_fails_with_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="did you mean 'paraformer'"):
        export.export_frontend("parafomer", tmp_path / "x.onnx")
    with pytest.raises(FeatureError, match=r"cannot write .*missing/x.onnx: its folder does not exist; create it"):
        export.export_frontend("campplus", tmp_path / "missing" / "x.onnx")
    for statistics in ((0.0, 1.0), "", ()):
        with pytest.raises(OptionError, match="a Frontend has its own statistics: pass the statistics to Frontend"):
            export.export_frontend(Frontend.from_preset("campplus"), tmp_path / "x.onnx", statistics=statistics)
    for name in ("x.json", "x.textproto", "x"):
        with pytest.raises(OptionError, match=rf"cannot write a graph to .*/{name}: .* ends in .onnx"):
            export.export_frontend("campplus", tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_table_of_accuracy_is_stale() -> None:
    stated = lister()["parse_accuracy"]((DOCS / "frontends" / "onnx.md").read_text())
    measured = lister()["measure_accuracy"]()
    assert list(stated) == list(measured)
    for title, pairs in measured.items():
        for (mean, largest), (stated_mean, stated_largest) in zip(pairs, stated[title], strict=True):
            assert mean <= 2 * stated_mean
            assert largest <= 3 * stated_largest  # a single value, which other libraries round otherwise


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("name", EXPORTED)
def test_preset_differs_in_onnxruntime(name: str, lengths: bool, tmp_path: Path) -> None:
    path = tmp_path / "preset.onnx"
    export.export_frontend(name, path, lengths=lengths)
    assert_runs_without_fft(path)
    session, frontend = session_of(path), Frontend.from_preset(name)
    for length in LENGTHS:
        samples = noise(2, length)
        if not lengths:
            assert_same(session.run(None, {"samples": samples.numpy()})[0], frontend(samples.double()))
            continue
        counted = torch.tensor([length, max(length // 2, 800)])
        features, counts = session.run(None, {"samples": samples.numpy(), "lengths": counted.numpy()})
        expected, expected_counts = frontend(samples.double(), counted)
        assert counts.tolist() == expected_counts.tolist()
        assert_same(features, expected)


@pytest.mark.parametrize("make", [lambda frontend: export.export_frontend(frontend, "x.onnx"), torch.jit.script])
def test_a_preset_that_selects_frames_is_not_exported(make: Any) -> None:
    with pytest.raises(OptionError, match="voiced_cmvn keeps depends on the audio"):
        make(Frontend.from_preset("sre16-xvector"))


def test_the_module_that_selects_frames_is_not_scripted() -> None:
    with pytest.raises(OptionError, match="the number of frames that it keeps depends on the audio"):
        torch.jit.script(nn.Sequential(VoicedCmvn(), nn.Identity()))


def assert_scripted(name: str) -> None:
    frontend = Frontend.from_preset(name)
    scripted = torch.jit.script(frontend)
    nested = torch.jit.script(nn.Sequential(Frontend.from_preset(name), nn.Identity()))
    for length in (1600, 16000, 30000):
        samples, lengths = noise(2, length), torch.tensor([length, max(length // 2, 800)])
        expected, expected_counts = frontend(samples, lengths)
        features, counts = scripted(samples, lengths)
        assert counts.tolist() == expected_counts.tolist()
        torch.testing.assert_close(features, expected, rtol=0, atol=3e-3)
        torch.testing.assert_close(nested(samples), frontend(samples), rtol=0, atol=3e-3)
        whole = (samples[0] * 32768).to(torch.int16)
        torch.testing.assert_close(scripted(whole), frontend(whole), rtol=0, atol=3e-3)


@pytest.mark.parametrize("name", ["paraformer", "imagebind"])
def test_scripted_preset_differs(name: str) -> None:
    assert_scripted(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_any_scripted_preset_differs(name: str) -> None:
    assert_scripted(name)
