"""Choice of the engine that computes a feature: exact, torch or Triton (see docs/numerics.md).

``engine="auto"`` selects the exact engine on a CPU, if its C library is loaded, and the Triton kernels on CUDA. Both
compute only features without gradients, and only the classes decorated with :func:`declare_accelerated`. The torch
engine, made of torch's operations, computes everything else.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any, TypeVar, get_args

import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.text import quote_value
from kaldi_compat.errors import OptionError
from kaldi_compat.functional.array_api import UNTRACED, Tracing, ask_compiler
from kaldi_compat.native import NATIVE, load_before_tracing
from kaldi_compat.options.spectral import Engine
from kaldi_compat.torch import kernels
from kaldi_compat.torch.tensors.dither import Generator

logger = logging.getLogger("kaldi_compat")

ENGINES: tuple[Engine, ...] = get_args(Engine)
Cls = TypeVar("Cls")
load_before_tracing()
_accelerated: set[type] = set()
_SINGLE = frozenset((torch.int16, torch.float32, torch.float16, torch.bfloat16))


def declare_accelerated(cls: type[Cls]) -> type[Cls]:
    """Decorate a class so that the exact and Triton engines may compute its features.

    The decorator does not include subclasses. A subclass may compute other features, so the torch engine runs it.
    """
    _accelerated.add(cls)
    return cls


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise :class:`OptionError` unless the value of an argument is one of the choices."""
    if value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(choices)}, not {quote_value(value)}")


def view_in_numpy(values: Tensor, tracing: Tracing) -> npt.NDArray[Any] | None:
    """Return a plain tensor on a CPU as an int16 or float32 array. Return None for other tensors.

    NumPy and C compute with the array, so that tensors and arrays give the same bits. A tensor is plain if it is dense,
    ``tracing`` says that nothing records its operations, and its precision is at most single.
    """
    if (
        not tracing.traced_or_differentiated
        and type(values) in (Tensor, torch.nn.Parameter)
        and values.dtype in _SINGLE
        and values.device.type == "cpu"
        and values.layout == torch.strided
        and not values.is_nested
    ):
        array: npt.NDArray[Any] = (values if values.dtype == torch.int16 else values.float()).numpy(force=True)
        return array
    return None


def is_exact(module: Any) -> bool:
    """Return True if the exact engine computes the features of ``module`` for audio that view_in_numpy can convert."""
    # Tests set DEVICE_TYPE to "cpu" to let Triton interpret the kernels. "auto" must then select the kernels.
    is_fastest = NATIVE.in_use and kernels.DEVICE_TYPE != "cpu"
    is_selected = module.engine == "exact" or (module.engine == "auto" and is_fastest)
    return is_selected and type(module) in _accelerated and module.window.device.type == "cpu"


def choose_engine(
    module: Any,
    samples: Tensor,
    lengths: Tensor | None,
    tracing: Tracing = UNTRACED,
    vtln_warp: float | Sequence[float] = 1.0,
    generator: Generator = None,
) -> Engine:
    """Choose the engine that computes the features of samples: "exact", "torch" or "triton".

    Args:
        module: the feature. Its attribute ``engine`` requests an engine.
        samples: audio, shape (T,) or (B, T).
        lengths: number of valid samples of each row, shape (B,); None if all are valid.
        tracing: flags of the tools (compilers, exporters, autograd) that record the operations on the samples.
        vtln_warp, generator: further arguments of the feature's call.

    Raises:
        OptionError: the requested engine cannot compute the features. The message has the reason.
    """
    requested: Engine = module.engine
    if is_exact(module) and view_in_numpy(samples, tracing) is not None:
        return "exact"
    fastest: Engine = "exact"
    if samples.device.type == kernels.DEVICE_TYPE:
        # The FFT of the kernels computes in float32, which is not accurate enough for presets with double precision.
        fastest = "torch" if module._has_accurate_fft else "triton"
    engine = fastest if requested == "auto" else requested
    if engine == "torch":
        return engine
    reason = _explain_refusal_on_host(module, samples) if engine == "exact" else ""
    reason = reason or _explain_refusal(module, samples, tracing)
    if engine == "triton":
        reason = reason or kernels.explain_unsupported(module, samples, lengths, vtln_warp, generator)
        if reason and requested == "auto" and not ask_compiler(torch, "is_compiling"):
            _log_once(reason)
    if requested != "auto" and reason:
        raise OptionError(f"engine={requested!r} cannot compute this: {reason}; pass engine='auto' or 'torch'")
    # On a CPU, "auto" means the torch engine if the C library is not loaded.
    return "torch" if reason or (engine == "exact" and not is_exact(module)) else engine


@functools.cache
def _log_once(reason: str) -> None:
    logger.info("computing on CUDA without fused kernels: %s", reason)


def _explain_refusal(module: Any, samples: Tensor, tracing: Tracing) -> str:
    """Return the reason why only the torch engine can compute features of ``samples``, or an empty string."""
    if tracing.traced_or_differentiated:
        return "autograd, a compiler, an exporter or vmap records the operations"
    if type(module) not in _accelerated:
        return f"{type(module).__name__} is not one of {', '.join(sorted(cls.__name__ for cls in _accelerated))}"
    if type(samples) not in (Tensor, torch.nn.Parameter):
        return f"the samples are a {type(samples).__name__}"
    return ""


def _explain_refusal_on_host(module: Any, samples: Tensor) -> str:
    """Return the reason why the exact engine cannot use these devices or float64 samples, or "" if it can."""
    if samples.device.type != "cpu" or module.window.device.type != "cpu":
        return f"the samples are on {samples.device}, the module on {module.window.device}"
    return "the samples are float64" if samples.dtype == torch.float64 else ""
