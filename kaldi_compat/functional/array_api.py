"""Functions with different names in NumPy and torch, so that one implementation handles arrays and tensors.

Post-processing of features (deltas, CMVN, splicing ...) runs in programs that must start without torch, and in models
on any device. Does not import torch unless a tensor is passed. Features have the shape ``(..., frames, dim)``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from kaldi_compat.errors import FeatureError, KaldiCompatError, OptionError

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")
Array = TypeVar("Array", "np.ndarray[Any, Any]", "torch.Tensor")
"""A NumPy array or a torch tensor. Functions return the type of their argument."""


def get_namespace(x: object) -> Any:
    """Return the module that handles ``x``: ``numpy`` for arrays, ``torch`` for tensors.

    Raise FeatureError if ``x`` is neither an array nor a tensor.
    """
    if isinstance(x, np.ndarray):
        return np
    if hasattr(x, "dtype"):
        import torch  # The import is fast for a tensor, because a tensor exists only if torch has been imported.

        if isinstance(x, torch.Tensor):
            return torch
    raise FeatureError(
        f"expected a NumPy array or a torch tensor, not {type(x).__name__}: convert it with np.asarray or "
        "torch.as_tensor"
    )


class Tracing(NamedTuple):
    """Flags of the tools that record the operations on a tensor, as :func:`detect_tracing` finds them.

    A call detects them once and passes the result to the functions that it calls.
    """

    # True if a compiler, an exporter or a tracer records the operations, so that sizes may be symbols.
    traced: bool = False
    # True if ``traced``, or if autograd or vmap follows the tensor, so that code must not read or overwrite values.
    traced_or_differentiated: bool = False
    to_onnx: bool = False  # True if an exporter to ONNX records the operations.


UNTRACED, DIFFERENTIATED = Tracing(), Tracing(traced_or_differentiated=True)


def detect_tracing(x: Any) -> Tracing:
    """Detect which tools follow the operations on ``x``, an array or a tensor. No tool follows an array."""
    if isinstance(x, np.ndarray):
        return UNTRACED
    import torch as torch_module  # x is a tensor, so torch has been imported.

    torch: Any = torch_module
    # torch before 2.3 has no is_compiling. There, torch.compile calls the modules eagerly, so nothing is recorded.
    if getattr(torch.compiler, "is_compiling", bool)() or torch.jit.is_tracing():
        return Tracing(traced=True, traced_or_differentiated=True, to_onnx=torch.onnx.is_in_onnx_export())
    is_followed = (x.requires_grad and torch.is_grad_enabled()) or torch._C._functorch.is_functorch_wrapped_tensor(x)
    return DIFFERENTIATED if is_followed else UNTRACED


def is_traced(x: Any) -> bool:
    """Return True if a compiler, an exporter or a tracer records the operations on ``x``: see :class:`Tracing`."""
    return detect_tracing(x).traced


def is_traced_or_differentiated(x: Any) -> bool:
    """Return True if a compiler, a tracer, autograd or vmap follows the operations on ``x``: see :class:`Tracing`."""
    return detect_tracing(x).traced_or_differentiated


def ask_compiler(torch: Any, predicate: str) -> bool:
    """Return the result of a predicate of ``torch.compiler``, such as "is_compiling", or False if torch lacks it."""
    return hasattr(torch.compiler, predicate) and bool(getattr(torch.compiler, predicate)())


def is_exporting(torch: Any) -> bool:
    """Return True while ``torch.export`` or a tracer records a model. Before PyTorch 2.7, only a tracer is detected."""
    return bool(torch.jit.is_tracing()) or ask_compiler(torch, "is_exporting")


def refuse_export(x: Any, reason: str) -> None:
    """Raise an OptionError with the message ``reason`` if ``x`` is a tensor and a model is exported or traced."""
    if not isinstance(x, np.ndarray):
        import torch  # x is a tensor, so torch has been imported.

        if is_exporting(torch):
            raise OptionError(reason)


def refuse_export_of_noise(x: Any) -> None:
    """Raise an OptionError if a call on ``x`` that draws the noise of a ``KaldiRandom`` is exported or traced."""
    refuse_export(
        x,
        "the noise of a KaldiRandom cannot be exported or traced, because every call of the exported model would add "
        "the same noise: pass generator=None or a torch.Generator",
    )


def run_eagerly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap ``function`` so that ``torch.compile`` runs it in the Python interpreter instead of compiling it.

    A function that draws from a :class:`KaldiRandom` must not be compiled, because the compiler would replace its NumPy
    operations with torch operations, which lack additions of unsigned integers. While ``torch.jit.trace`` runs, or
    before the compiler is imported, ``function`` itself is returned.
    """
    if "torch._dynamo" not in sys.modules:
        return function
    import torch as torch_module  # The import is fast, because the compiler has imported torch.

    torch: Any = torch_module
    # torch.jit.trace refuses functions of torch._dynamo, such as the result of torch.compiler.disable.
    return function if torch.jit.is_tracing() else torch.compiler.disable(function)


def astype(x: Array, dtype: Any) -> Array:
    """Convert ``x`` to a dtype. Return ``x`` itself if it already has the dtype."""
    converted: Array = x.astype(dtype, copy=False) if isinstance(x, np.ndarray) else x.to(dtype)
    return converted


def concatenate(parts: Sequence[Array], axis: int = -1) -> Array:
    """Concatenate arrays or tensors along an axis."""
    concatenated: Array = get_namespace(parts[0]).concatenate(parts, axis=axis)
    return concatenated


def to_float64(x: Array) -> Array:
    """Convert ``x`` to double precision."""
    return astype(x, get_namespace(x).float64)


def check_plain(x: Any, error: type[KaldiCompatError]) -> str:
    """Check that an array has no masked elements, or a tensor is dense and not quantized. Return the kind of numbers.

    Returns:
        NumPy's letter for the kind: "f" for floating point, "i" and "u" for signed and unsigned integers, "b" for
        booleans, "c" for complex numbers; or a different letter, such as "U" for strings.

    Raises:
        error: an array has masked elements, or a tensor is nested, quantized, sparse, or of 8-bit floats.
    """
    form = ""
    if isinstance(x, np.ndarray):
        form = "masked" if type(x) is not np.ndarray and np.ma.is_masked(x) else ""
    else:
        import torch  # x is a tensor, so torch has been imported.

        if x.is_nested:
            form = "nested"
        elif x.is_quantized:
            form = "quantized"
        elif x.layout != torch.strided:
            form = "sparse"
        elif x.is_floating_point() and x.dtype.itemsize == 1:
            form = "of 8-bit floats"
    if form:
        raise error(f"expected a plain tensor or array of numbers, not one that is {form}: convert it")
    if isinstance(x, np.ndarray):
        kind: str = x.dtype.kind
        return kind
    if x.is_floating_point() or x.is_complex():
        return "f" if x.is_floating_point() else "c"
    return "b" if x.dtype == torch.bool else "i" if x.dtype.is_signed else "u"


def widen_to_float32(x: Array) -> Array:
    """Convert ``x`` to single precision unless it is double, because sums need more than half precision."""
    xp = get_namespace(x)
    return x if x.dtype == xp.float64 else astype(x, xp.float32)


def choose_precision(x: Array) -> type[np.floating[Any]]:
    """Return the NumPy dtype for constants that are applied to ``x``: float64 if ``x`` is float64, else float32."""
    return np.float64 if x.dtype == get_namespace(x).float64 else np.float32


def arange(start: int, stop: int, like: Array) -> Array:
    """Return the integers from ``start`` to ``stop - 1``, on the device of ``like``."""
    integers: Array
    if isinstance(like, np.ndarray):
        integers = np.arange(start, stop)
    else:
        integers = get_namespace(like).arange(start, stop, device=like.device)
    return integers


def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
    """Return an array or tensor filled with ``value``, with the dtype and the device of ``like``."""
    filled: Array = np.full(shape, value, like.dtype) if isinstance(like, np.ndarray) else like.new_full(shape, value)
    return filled


def convert_like(values: Any, like: Array) -> Array:
    """Convert numbers to an array, or to a tensor on the device of ``like`` if ``like`` is a tensor.

    The dtype of an array or a tensor stays the same.
    """
    converted: Array
    if isinstance(like, np.ndarray):
        converted = np.asarray(values)
    elif isinstance(values, get_namespace(like).Tensor):
        converted = values.to(like.device)  # as_tensor would record the values as a constant of a traced model.
    else:
        # An array from a file may be read-only, which a tensor cannot be, so it is copied.
        copied = values.copy() if isinstance(values, np.ndarray) else values
        converted = get_namespace(like).as_tensor(copied, device=like.device)
    return converted


def take_frames(x: Array, index: Array) -> Array:
    """Return the frames ``(..., n, dim)`` of ``x`` ``(..., frames, dim)`` that ``index`` selects.

    ``index`` is ``(n,)`` for all utterances, or ``(..., n)`` with different frames for each utterance.
    """
    selected: Array
    if index.ndim == 1:
        selected = x[..., index, :]
    elif isinstance(x, np.ndarray):
        selected = np.take_along_axis(x, np.broadcast_to(index, (*x.shape[:-2], index.shape[-1]))[..., None], -2)
    else:
        # take_along_dim would record the sizes of the example input as constants of a traced model.
        selected = x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))
    return selected


def matmul(a: Array, b: Array) -> Array:
    """Compute ``a @ b`` in the precision of ``a``, even if TF32, bfloat16 or autocast modes are enabled in torch.

    torch has no local switch for these modes, and its global switches belong to the user. So wherever a float32 product
    might lose precision, it is computed in float64, which no mode affects.
    """
    product: Array
    if keeps_precision(a):
        product = a @ b
    else:
        product = astype(to_float64(a) @ to_float64(b), a.dtype)
    return product


def keeps_precision(x: Any) -> bool:
    """Return True if no mode of torch can reduce the precision of matrix products on ``x``, an array or a tensor.

    Also return True in an export to ONNX, where converting ``x`` to float64 would not help.
    """
    xp = get_namespace(x)
    # The runtime of an ONNX graph chooses the precision of products, and WebGPU lacks float64.
    if xp is np or x.dtype == xp.float64 or detect_tracing(x).to_onnx:
        return True
    if x.device.type != "cpu" or ask_compiler(xp, "is_compiling"):
        return False
    takes_device = hasattr(xp, "get_autocast_dtype")  # Older versions of torch have one function for each device.
    is_autocast = xp.is_autocast_enabled("cpu") if takes_device else xp.is_autocast_cpu_enabled()
    if is_autocast:
        return False
    # Since torch 2.9, get_float32_matmul_precision() fails if the user has set mkldnn.matmul.fp32_precision. This newer
    # setting also shows the value of the older setting, so it is read where it exists.
    setting: Any = getattr(xp.backends.mkldnn, "matmul", None)
    if setting is None:
        return bool(xp.get_float32_matmul_precision() == "highest")
    return setting.fp32_precision in ("none", "ieee")


def sum_cumulatively(x: Array, axis: int) -> Array:
    """Return cumulative sums along an axis, in the shape of ``x``.

    If deterministic algorithms are enabled, torch's cumulative sum fails on a GPU, so :func:`sum_by_doubling` is used.
    """
    xp = get_namespace(x)
    summed: Array
    if isinstance(x, np.ndarray) or x.device.type == "cpu" or not xp.are_deterministic_algorithms_enabled():
        summed = xp.cumsum(x, axis)
    else:
        summed = sum_by_doubling(x, axis)
    return summed


def sum_by_doubling(x: Array, axis: int) -> Array:
    """Return cumulative sums along an axis, by adding numbers at distances 1, 2, 4 ... (Hillis & Steele, 1986)."""
    xp = get_namespace(x)
    x = xp.moveaxis(x, axis, -1)
    distance = 1
    while distance < x.shape[-1]:
        x = xp.concatenate((x[..., :distance], x[..., distance:] + x[..., :-distance]), -1)
        distance *= 2
    summed: Array = xp.moveaxis(x, -1, axis)
    return summed
