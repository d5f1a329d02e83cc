"""Features inside compiled, exported and traced models: any length of audio, and the same numbers."""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from kaldi_compat import Deltas, Fbank, Frontend, KaldiRandom, Pitch, ProcessPitch, SlidingCmvn, StreamChain
from kaldi_compat.errors import OptionError
from tests.support.cases import LONG_GRAPHS, SPECTRAL, Case, cases

LENGTHS = (4000, 16000, 5600)
SHORT = (560, 400, 399, 100, 1)  # two frames, one, and none
if not hasattr(getattr(torch.export, "Dim", None), "AUTO"):
    pytest.skip("this PyTorch exports fixed sizes only", allow_module_level=True)
AUTO = torch.export.Dim.AUTO
FLOAT, INT64 = 1, 7  # onnx.TensorProto
pytestmark = [
    # torch.jit says of itself that it is deprecated, and exporters talk about what they would like to have installed.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-3)


def assert_same_for_any_length(other: Any, module: nn.Module, case: Case, lengths: tuple[int, ...] = LENGTHS) -> None:
    for length in lengths:
        x = case.input(length, 2, seed=length)
        assert_close(other(x), module(x))


@pytest.mark.costly
@cases("torch.compile(fullgraph=True), dynamic length", slow=LONG_GRAPHS)
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


@pytest.mark.costly
@cases("torch.compile and torch.export with dithering", of=SPECTRAL[:1])
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


@pytest.mark.costly
@cases("torch.compile with Inductor", of=SPECTRAL[:1])
@pytest.mark.skipif(shutil.which("g++") is None, reason="there was no C++ compiler")
def test_inductor(case: Case) -> None:
    torch._dynamo.reset()
    module = case.make()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    assert_same_for_any_length(compiled, module, case)


FIRST_CALL = """
import torch
from kaldi_compat import Fbank, Frontend
x = torch.zeros(1, 4000)
for module in (Fbank(dither=0.0), Frontend("zipformer")):
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert compiled(x).shape == module(x).shape
"""


@pytest.mark.costly
def test_first_call_of_a_process_compiles() -> None:
    # The first look-up of the C library used to be a part of the graph.
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@functools.cache
def exported(case: Case) -> torch.export.ExportedProgram:
    example = case.input(LENGTHS[0], 2)
    return torch.export.export(case.make(), (example,), dynamic_shapes=({0: AUTO, 1: AUTO},))


@pytest.mark.costly
@cases("torch.export, dynamic batch size and length", group="export", slow=LONG_GRAPHS)
def test_export(case: Case) -> None:
    module = case.make()
    program = exported(case)
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    loaded = torch.export.load(stored).module()
    assert_same_for_any_length(loaded, module, case)
    if case in SPECTRAL:
        assert_same_for_any_length(loaded, module, case, SHORT[:1])
    x = case.input(LENGTHS[0], 5)
    assert_close(loaded(x), module(x))


@cases("TorchScript (torch.jit.trace), dynamic length")
def test_trace(case: Case) -> None:
    module = case.make()
    traced = torch.jit.trace(module, (case.input(LENGTHS[0], 2),))
    stored = io.BytesIO()
    torch.jit.save(traced, stored)
    stored.seek(0)
    loaded = torch.jit.load(stored)
    assert_same_for_any_length(loaded, module, case)
    if case in SPECTRAL:
        assert_same_for_any_length(loaded, module, case, SHORT)
        assert loaded(torch.zeros(0, 4000)).shape == module(torch.zeros(0, 4000)).shape


@pytest.mark.costly
@cases("TorchScript (torch.jit.script), dynamic length")
def test_script(case: Case) -> None:
    module = case.make()
    stored = io.BytesIO()
    torch.jit.save(torch.jit.script(module), stored)
    stored.seek(0)
    loaded = torch.jit.load(stored)
    assert_same_for_any_length(loaded, module, case)
    x = case.input(LENGTHS[0], 2)
    for each in (x[0], x[:1], x.double()):
        found, expected = loaded(each), module(each)
        assert found.dtype == expected.dtype
        assert_close(found, expected)
    lengths = torch.tensor([x.shape[1] // 2, x.shape[1]])
    for one, other in zip(loaded(x, lengths), module(x, lengths), strict=True):
        assert_close(one, other)
    # TorchScript checks on this device, which holds no numbers, that all operations follow the input's device.
    assert loaded.to("meta")(x.to("meta")).shape == module(x).shape


class Model(nn.Module):
    """A model that calls features with and without lengths, as TorchScript compiles it."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(SPECTRAL[0].make(), Deltas())
        self.fbank = SPECTRAL[0].make()

    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, counts = self.fbank(samples, lengths)
        return self.front(samples), features, counts


# the module of this class has postponed annotations, which TorchScript does not read
Model.forward.__annotations__ = {
    "samples": Tensor,
    "lengths": Tensor,
    "return": tuple[Tensor, Tensor, Tensor],
}


@pytest.mark.parametrize("is_part", [False, True])
def test_a_scripted_module_has_the_mode_of_the_module_and_can_be_frozen(is_part: bool) -> None:
    from kaldi_compat import Fbank

    fbank = Fbank(dither=0.0)
    module: Any = torch.nn.Sequential(fbank) if is_part else fbank
    audio = 1000 * torch.randn(8000, generator=torch.Generator().manual_seed(0))
    for mode in (True, False):
        scripted: Any = torch.jit.script(module.train(mode))
        assert {part.training for part in scripted.modules()} == {mode}
    frozen: Any = torch.jit.freeze(scripted)
    torch.testing.assert_close(frozen(audio), module(audio), rtol=0, atol=1e-4)


def test_model_is_not_scripted_or_changed_by_it() -> None:
    model = Model()
    x, lengths = SPECTRAL[0].input(LENGTHS[0], 2), torch.tensor([4000, 1000])
    expected = model(x, lengths)
    scripted = torch.jit.script(model)
    for found in (scripted(x, lengths), model(x, lengths)):
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    assert model.fbank.dim == 24
    assert [len(each) for each in model.fbank([x[0], x[1, :1000]])] == [23, 4]  # not scripted: lists still work
    assert torch.jit.script(model)(x, lengths)[1].shape == expected[1].shape


def test_model_scripted_again_makes_new_twins() -> None:
    model = Model()
    torch.jit.script(model)
    twins = [model.fbank, *model.front]
    scripted = torch.jit.script(model)
    assert all(one is other for one, other in zip(twins, [model.fbank, *model.front], strict=True))
    x, lengths = SPECTRAL[0].input(LENGTHS[0], 2), torch.tensor([4000, 1000])
    for found, expected in zip(scripted(x, lengths), model(x, lengths), strict=True):
        assert_close(found, expected)
    assert_close(torch.jit.script(model.fbank)(x), model.fbank(x))


def in_onnxruntime(
    module: nn.Module | torch.export.ExportedProgram, example: Tensor, tmp_path: Path
) -> Callable[[Tensor], Tensor]:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    if isinstance(module, torch.export.ExportedProgram):
        program = torch.onnx.export(module, verbose=False)
    else:
        shapes = ({0: AUTO, 1: AUTO},)
        program = torch.onnx.export(module, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False)
    assert program is not None
    path = tmp_path / "feature.onnx"
    program.save(path)
    session = onnxruntime.InferenceSession(path)
    [name] = [value.name for value in session.get_inputs()]
    return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])


@cases("ONNX in onnxruntime, dynamic batch size and length", group="export", slow=LONG_GRAPHS)
def test_onnx(case: Case, tmp_path: Path) -> None:
    module = case.make()
    run = in_onnxruntime(exported(case), case.input(LENGTHS[0], 2), tmp_path)
    assert_same_for_any_length(run, module, case)
    if case in SPECTRAL:
        assert_same_for_any_length(run, module, case, SHORT)


@pytest.mark.costly
@cases("ONNX without DFT or STFT nodes (dft='matmul'), 0.1 to 30 s", of=SPECTRAL[:1])
def test_onnx_without_fft(case: Case, tmp_path: Path) -> None:
    module = type(case.make())(num_mel_bins=80, dither=0.0, dft="matmul")
    run = in_onnxruntime(module, case.input(LENGTHS[0], 2), tmp_path)
    assert_same_for_any_length(run, module, case, (1600, 16000, 480000, *SHORT))
    graph = pytest.importorskip("onnx").load(tmp_path / "feature.onnx").graph
    nodes = {node.op_type for node in graph.node}
    assert "MatMul" in nodes
    assert not nodes & {"DFT", "STFT"}
    # neither double nor complex numbers, which WebGPU lacks
    types = [value.type.tensor_type.elem_type for value in graph.value_info] + [t.data_type for t in graph.initializer]
    assert set(types) <= {FLOAT, INT64}


def test_deltas_in_onnx_have_no_float64(tmp_path: Path) -> None:
    example = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    run = in_onnxruntime(Deltas(), example, tmp_path)
    torch.testing.assert_close(run(example), Deltas()(example))
    graph = pytest.importorskip("onnx").load(tmp_path / "feature.onnx").graph
    types = [value.type.tensor_type.elem_type for value in graph.value_info] + [t.data_type for t in graph.initializer]
    assert set(types) <= {FLOAT, INT64}


@cases("torch.export, torch.jit.trace and ONNX with snip_edges=False", of=SPECTRAL[:1])
def test_centered_frames(case: Case, tmp_path: Path) -> None:
    module = type(case.make())(dither=0.0, snip_edges=False)
    example = case.input(LENGTHS[0], 2)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: AUTO, 1: AUTO},))
    assert_same_for_any_length(program.module(), module, case, (*LENGTHS, 240))
    for other in (torch.jit.trace(module, (example,)), in_onnxruntime(program, example, tmp_path)):
        assert_same_for_any_length(other, module, case, (*LENGTHS, *SHORT))


NO_SHORT = (
    "torch.export treats a size of 0 or 1 as a constant, so the audio must have at least two frames. "
    "ONNX models accept any length."
)


@cases("torch.export, audio of less than two frames", but={SPECTRAL[0].name: NO_SHORT}, of=SPECTRAL[:1], group="export")
def test_export_of_short_audio(case: Case) -> None:
    assert_same_for_any_length(exported(case).module(), case.make(), case, SHORT)


@pytest.mark.slow  # each of its modules is in the table
def test_a_chain_in_onnx(tmp_path: Path) -> None:
    case = SPECTRAL[0]
    model = nn.Sequential(case.make(), SlidingCmvn(center=True, cmn_window=50), Deltas())
    run = in_onnxruntime(model, case.input(LENGTHS[0], 2), tmp_path)
    assert_same_for_any_length(run, model, case)


class Call(nn.Module):
    """A model that calls a function, with a state between the calls."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.function(x)
        return result


def make_call_with_noise(feature: nn.Module) -> Callable[[Tensor], Any]:
    random = KaldiRandom()
    return lambda x: feature(x, generator=random)


@pytest.mark.parametrize(
    ("make", "x", "error"),
    [
        (lambda: Fbank(dither=0.0).stream(), torch.zeros(800), "a stream cannot be exported"),
        (lambda: Pitch(nccf_ballast_online=True).stream(), torch.zeros(800), "a stream cannot be exported"),
        (lambda: Deltas().stream(), torch.zeros(9, 3), "a stream cannot be exported"),
        (lambda: StreamChain(Deltas().stream(), Deltas().stream()), torch.zeros(9, 3), "a stream cannot be exported"),
        (lambda: Frontend.from_preset("zipformer").stream(), torch.zeros(800), "a stream cannot be exported"),
        (lambda: make_call_with_noise(Fbank()), torch.zeros(1, 800), "noise of a KaldiRandom cannot be exported"),
        (
            lambda: make_call_with_noise(ProcessPitch()),
            torch.ones(9, 2),
            "noise of a KaldiRandom cannot be exported",
        ),
    ],
)
def test_state_between_calls_is_not_lost_in_an_exported_model(
    make: Callable[[], Callable[[Tensor], Any]], x: Tensor, error: str
) -> None:
    """A program that was exported from the call would repeat the first call for ever."""
    if hasattr(torch.compiler, "is_exporting"):  # Before PyTorch 2.7, an export cannot be told from a compilation.
        with pytest.raises(OptionError, match=error):
            torch.export.export(Call(make()), (x,), strict=False)
    with pytest.raises(OptionError, match=error):
        torch.jit.trace(Call(make()), (x,), check_trace=False)
    assert torch.isfinite(make()(x)).all()


class OwnNoise:
    """A source of noise that is not a KaldiRandom, but has its method."""

    def __init__(self) -> None:
        self.random = KaldiRandom()

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        return self.random.frame_seeds(count)


@pytest.mark.costly
@pytest.mark.skipif(not hasattr(torch.compiler, "is_compiling"), reason="this PyTorch compiles no module")
@pytest.mark.parametrize(
    ("make", "x", "source"),
    [
        *((Fbank, 1000 * torch.randn(2, 8000, generator=torch.Generator().manual_seed(0)), source)
          for source in (KaldiRandom, OwnNoise)),
        # The noise of pitch has one draw for each frame, which an own source of states does not give.
        (ProcessPitch, torch.tensor([0.5, 100.0]).repeat(50, 1), KaldiRandom),
    ],
)  # fmt: skip
def test_compiled_modules_draw_the_same_noise_of_a_kaldi_random(
    make: Callable[[], nn.Module], x: Tensor, source: type[KaldiRandom | OwnNoise]
) -> None:
    module, random, expected = make(), source(), source()
    torch.compiler.reset()
    compiled = torch.compile(lambda x: module(x, generator=random), backend="eager")
    for _ in range(3):  # Later calls show whether each call has drawn as many numbers.
        torch.testing.assert_close(compiled(x), module(x, generator=expected), rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(random.frame_seeds(5), expected.frame_seeds(5))


def test_own_sources_of_noise_are_not_lost_in_a_traced_model() -> None:
    feature, random = Fbank(), OwnNoise()
    with pytest.raises(OptionError, match="noise of a KaldiRandom cannot be exported or traced"):
        torch.jit.trace(Call(lambda x: feature(x, generator=random)), (torch.zeros(1, 800),), check_trace=False)
