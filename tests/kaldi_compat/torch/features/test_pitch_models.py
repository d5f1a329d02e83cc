"""The pitch tracker in compiled, exported, traced and mapped models finds the same states as NumPy."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from kaldi_compat import KaldiCompatError, Pitch, PitchOptions, track_pitch
from kaldi_compat.torch.tensors.pitch import track_batch
from tests.support.reference import ROOT

# torch.jit says of itself that it is deprecated, and warns of each look at a size; exporters miss other packages.
QUIET = ("DeprecationWarning", "FutureWarning", "UserWarning", "torch.jit.TracerWarning")
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in QUIET]
if not hasattr(getattr(torch.export, "Dim", None), "AUTO"):
    pytest.skip("this PyTorch exports fixed sizes only", allow_module_level=True)
AUTO = torch.export.Dim.AUTO
Model = Callable[[Tensor, Tensor], Any]

NAMES = ("speech16k", "speech16k_b", "silence16k", "len400", "len80")
# What test_export.py leaves at the defaults; and fewer lags, which make a graph that is sooner exported.
OPTIONS = PitchOptions(
    min_f0=140.0,
    max_f0=300.0,
    frames_per_chunk=7,
    recompute_frame=40,
    snip_edges=False,
    preemphasis_coefficient=0.5,
)


def speech(name: str) -> Tensor:
    return torch.from_numpy(np.asarray(kaldiio.load_mat(str(ROOT / "inputs" / "wav" / f"{name}.wav"))[1])).float()


def compiled(module: nn.Module, example: tuple[Tensor, Tensor]) -> Model:
    torch._dynamo.reset()
    model: Model = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    return model


@functools.cache
def program(module: nn.Module, example: tuple[Tensor, Tensor]) -> torch.export.ExportedProgram:
    return torch.export.export(module, example, dynamic_shapes=({0: AUTO, 1: AUTO}, {0: AUTO}))


def exported(module: nn.Module, example: tuple[Tensor, Tensor]) -> Model:
    stored = io.BytesIO()
    torch.export.save(program(module, example), stored)
    stored.seek(0)
    return torch.export.load(stored).module()


def traced(module: nn.Module, example: tuple[Tensor, Tensor]) -> Model:
    stored = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, example), stored)
    stored.seek(0)
    model: Model = torch.jit.load(stored)
    return model


def of_onnx(module: nn.Module, example: tuple[Tensor, Tensor]) -> Model:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    converted = torch.onnx.export(program(module, example), verbose=False)
    assert converted is not None
    stored = io.BytesIO()
    converted.save(stored)
    session = onnxruntime.InferenceSession(stored.getvalue())
    samples, lengths = (value.name for value in session.get_inputs())

    def run(x: Tensor, n: Tensor) -> Any:
        return [torch.from_numpy(each) for each in session.run(None, {samples: x.numpy(), lengths: n.numpy()})]

    return run


@pytest.fixture(scope="module")
def module() -> Pitch:
    return Pitch(OPTIONS)


@pytest.fixture(scope="module")
def example() -> tuple[Tensor, Tensor]:
    return speech("speech16k")[:10000].reshape(2, -1).clone(), torch.tensor([5000, 3000])


@pytest.mark.xdist_group("pitch models")  # one export for two of them
@pytest.mark.parametrize(
    "make",
    [  # test_export.py compiles the tracker, exports it and converts it to ONNX with its default options, too
        *(pytest.param(each, marks=pytest.mark.slow) for each in (compiled, exported, of_onnx)),
        traced,
    ],
    ids=lambda make: make.__name__,
)
def test_a_model_finds_the_states_that_numpy_finds(
    make: Callable[..., Model], module: Pitch, example: tuple[Tensor, Tensor]
) -> None:
    model = make(module, example)
    audio = [speech(name) for name in NAMES]
    batch = nn.utils.rnn.pad_sequence(audio, batch_first=True, padding_value=1e9)
    features, frames = model(batch, torch.tensor([len(each) for each in audio]))
    for track, count, each in zip(features, frames.tolist(), audio, strict=True):
        expected = track_pitch(each.numpy(), OPTIONS)
        assert count == len(expected)
        np.testing.assert_array_equal(track[:count, 1], expected[:, 1])
        np.testing.assert_allclose(track[:count, 0], expected[:, 0], atol=2e-6)
        assert not track[count:].any()


def test_vmap_finds_the_states_that_numpy_finds() -> None:
    batch = torch.stack([speech("speech16k")[:16000], speech("speech16k_b")[:16000]])
    for track, samples in zip(torch.vmap(Pitch())(batch), batch, strict=True):
        expected = track_pitch(samples.numpy())
        np.testing.assert_array_equal(track[:, 1], expected[:, 1])
        np.testing.assert_allclose(track[:, 0], expected[:, 0], atol=2e-6)


def test_search_passes_opcheck() -> None:
    local = torch.rand(5, 2, 9, generator=torch.Generator().manual_seed(1))
    steps = 0.1 * (torch.arange(9.0)[:, None] - torch.arange(9.0)) ** 2
    last = torch.arange(5)[:, None] == torch.tensor([4, 2])
    torch.library.opcheck(torch.ops.kaldi_compat.cheapest_paths.default, (local, steps, last))


class NoNumberRead(TorchDispatchMode):
    """Fails where Python asks for a number out of a tensor, which a CUDA graph cannot hold and a GPU is waited for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lengths", [None, torch.tensor([5000, 0])], ids=["no lengths", "lengths"])
def test_no_value_is_read_on_the_host(lengths: Tensor | None) -> None:
    batch = speech("speech16k")[:10000].reshape(2, -1).clone()
    module = Pitch()
    expected = module(batch) if lengths is None else module(batch, lengths)[0]
    with NoNumberRead():
        features, _ = track_batch(batch, lengths, module._constants, module._get_tables())
    torch.testing.assert_close(features, expected, rtol=0, atol=2e-6)


def test_a_batch_has_as_many_frames_as_its_audio_wherever_it_is_computed() -> None:
    batch = torch.stack([speech("speech16k_b"), speech("speech16k")[:19200]])
    lengths = torch.tensor([5000, 0])
    here, counts = Pitch()(batch, lengths)
    in_torch, counts_in_torch = Pitch()(batch.clone().requires_grad_(), lengths)
    assert here.shape == in_torch.shape == (2, 118, 2)
    assert counts.tolist() == counts_in_torch.tolist() == [29, 0]
    torch.testing.assert_close(here, in_torch.detach(), rtol=0, atol=2e-6)


def test_first_pass_is_refused_in_models() -> None:
    module = Pitch(simulate_first_pass_online=True, frames_per_chunk=10)
    with pytest.raises(KaldiCompatError, match="simulate_first_pass_online"):
        torch.jit.trace(module, speech("speech16k"))
    with pytest.raises(KaldiCompatError, match="simulate_first_pass_online"):
        torch.export.export(module, (speech("speech16k"),))
    with pytest.raises(KaldiCompatError, match="simulate_first_pass_online"):
        torch.vmap(module)(speech("speech16k")[:16000].reshape(2, -1))
