"""Features inside compiled, exported and traced models: any length of audio, and the same numbers."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import SPECTRAL, Case, cases
from torch import Tensor, nn

LENGTHS = (4000, 16000, 5600)
AUTO = torch.export.Dim.AUTO
pytestmark = [
    # torch.jit says of itself that it is deprecated, and exporters talk about what they would like to have installed.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-3)


def assert_same_for_any_length(other: Any, module: nn.Module, case: Case) -> None:
    for length in LENGTHS:
        x = case.input(length, 2, seed=length)
        assert_close(other(x), module(x))


@cases("torch.compile(fullgraph=True), time dynamic")
def test_compile(case: Case) -> None:
    torch._dynamo.reset()
    module = case.make()
    graphs = 0

    def count(graph: torch.fx.GraphModule, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph

    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=count)
    assert_same_for_any_length(compiled, module, case)
    assert graphs == 1  # not one for each length
    x = case.input(LENGTHS[0], 2)
    lengths = torch.tensor([x.shape[1], x.shape[1] // 2])
    features, counts = compiled(x, lengths)
    expected, expected_counts = module(x, lengths)
    assert torch.equal(counts, expected_counts)
    assert_close(features, expected)


@cases("compiled and exported with dithering", of=SPECTRAL[:1])
def test_dithering(case: Case) -> None:
    torch._dynamo.reset()
    module = type(case.make())(dither=100.0)
    example = case.input(LENGTHS[0], 2)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    exported = torch.export.export(module, (example,), dynamic_shapes=({0: AUTO, 1: AUTO},)).module()
    for dithered in (compiled, exported):
        x = torch.zeros_like(case.input(LENGTHS[1], 2))
        once, again = dithered(x), dithered(x)
        assert once.shape == module(x).shape
        assert not torch.equal(once, again)  # noise anew with each call
        assert abs(float(once.mean() - module(x).mean())) < 0.1


@cases("torch.compile by Inductor", of=SPECTRAL[:1])
@pytest.mark.skipif(shutil.which("g++") is None, reason="there was no C++ compiler")
def test_inductor(case: Case) -> None:
    torch._dynamo.reset()
    module = case.make()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    assert_same_for_any_length(compiled, module, case)


@cases("torch.export, batch and time dynamic")
def test_export(case: Case) -> None:
    module = case.make()
    program = torch.export.export(module, (case.input(LENGTHS[0], 2),), dynamic_shapes=({0: AUTO, 1: AUTO},))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    loaded = torch.export.load(stored).module()
    assert_same_for_any_length(loaded, module, case)
    x = case.input(LENGTHS[0], 5)
    assert_close(loaded(x), module(x))


@cases("TorchScript by torch.jit.trace, time dynamic")
def test_trace(case: Case) -> None:
    module = case.make()
    traced = torch.jit.trace(module, (case.input(LENGTHS[0], 2),))
    stored = io.BytesIO()
    torch.jit.save(traced, stored)
    stored.seek(0)
    assert_same_for_any_length(torch.jit.load(stored), module, case)


NO_SCRIPT = (
    "torch.jit.script compiles no module that takes a tensor or a list, or holds a dataclass; torch has deprecated it. "
    "Trace the module instead"
)


@cases("TorchScript by torch.jit.script", but={case.name: NO_SCRIPT for case in SPECTRAL}, of=SPECTRAL)
def test_script(case: Case) -> None:
    torch.jit.script(case.make())


@cases("ONNX in onnxruntime, batch and time dynamic")
def test_onnx(case: Case, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module = case.make()
    program = torch.onnx.export(
        module,
        (case.input(LENGTHS[0], 2),),
        dynamo=True,
        dynamic_shapes=({0: AUTO, 1: AUTO},),
        verbose=False,
    )
    assert program is not None
    path = tmp_path / "feature.onnx"
    program.save(path)
    session = onnxruntime.InferenceSession(path)
    [name] = [value.name for value in session.get_inputs()]

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {name: x.numpy()})[0])

    assert_same_for_any_length(run, module, case)
