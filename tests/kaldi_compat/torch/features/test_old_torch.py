"""PyTorch before 2.3 computes eagerly, traces and maps modules, and refuses to compile or to export them."""

from __future__ import annotations

import io
import re
import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from kaldi_compat import Fbank, Frontend, Pitch
from kaldi_compat.errors import FeatureError
from kaldi_compat.torch.features import module

OLD = not hasattr(torch.compiler, "is_compiling")
MODULES: dict[str, Callable[[], Any]] = {
    "fbank": lambda: Fbank(dither=0.0), "frontend": lambda: Frontend.from_preset("wespeaker"), "pitch": Pitch,
    "inside": lambda: nn.Sequential(nn.Identity(), Fbank(dither=0.0)),
}  # fmt: skip
USES: dict[str, Callable[[Any, Any], Any]] = {
    "compile": lambda module, x: torch.compile(module, fullgraph=True, dynamic=True, backend="eager")(x),
    "export": lambda module, x: torch.export.export(module, (x,)),
    "onnx": lambda module, x: torch.onnx.export(module, (x,), io.BytesIO()),
}
AUDIO = torch.randn(2, 8000, generator=torch.Generator().manual_seed(0)) / 10


@pytest.mark.skipif(not OLD, reason="a PyTorch that compiles")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_a_torch_that_cannot_compile_is_refused_with_both_versions(make: Any, use: Any) -> None:
    torch._dynamo.reset()
    wanted = f"torch.compile and export need PyTorch 2.7 or later, but {torch.__version__} is installed"
    with pytest.raises((ValueError, RuntimeError), match=f"^{re.escape(wanted)}"):
        use(make(), AUDIO)


@pytest.mark.skipif(OLD, reason="tested with the other uses")
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_export_by_tracing_is_refused(make: Any) -> None:
    with pytest.raises(FeatureError, match=f"PyTorch {re.escape(torch.__version__)} .* pass dynamo=True"):
        torch.onnx.export(make(), (AUDIO,), io.BytesIO(), dynamo=False)


@pytest.mark.skipif(not OLD, reason="a PyTorch that compiles")
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_a_module_in_a_compiled_model_is_left_to_eager_mode(make: Any) -> None:
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(make(), backend="eager")(AUDIO), make()(AUDIO), rtol=0, atol=0)


@pytest.mark.skipif(not OLD, reason="tested with the supported properties")
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize(
    "use", [torch.func.vmap, lambda module: torch.jit.trace(module, (AUDIO,))], ids=["vmap", "trace"]
)
def test_an_old_torch_maps_and_traces_modules(make: Any, use: Any) -> None:
    torch.testing.assert_close(use(make())(AUDIO), make()(AUDIO), rtol=1e-4, atol=1e-3)


def test_a_torch_built_for_another_numpy_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(_: Any) -> None:
        raise RuntimeError("Numpy is not available")

    monkeypatch.setattr(torch, "from_numpy", unavailable)
    with pytest.raises(ImportError) as caught:
        runpy.run_path(module.__file__)
    assert str(caught.value) == (
        f"PyTorch {torch.__version__} cannot use NumPy {np.__version__} (Numpy is not available): "
        "install PyTorch 2.3 or later, or numpy<2"
    )
