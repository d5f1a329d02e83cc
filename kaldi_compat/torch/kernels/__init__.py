"""The Triton engine: fused kernels for the spectral features on a GPU.

One kernel computes power spectra, mel energies, or log mel energies from samples. Torch's operations compute the
remaining steps (DCT, linear prediction, energy column). If the kernels cannot compute a call,
:func:`explain_unsupported` returns the reason, and the torch engine computes the call, equal up to rounding.

The environment variable ``KALDI_COMPAT_KERNELS=0`` switches the kernels off.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.torch.tensors.copies import is_capturing
from kaldi_compat.torch.tensors.dither import Generator
from kaldi_compat.torch.tensors.frames import count_frames

logger = logging.getLogger("kaldi_compat")

SWITCH = "KALDI_COMPAT_KERNELS"
DEVICE_TYPE = "cuda"
# Maps the number of FFT points to the number of samples that a lane holds in registers, and the number of lanes of a
# frame (see kernels/spectrum.py). Kernels for larger FFTs take minutes to compile.
SHAPES = {128: (8, 16), 256: (16, 16), 512: (16, 32), 1024: (32, 32)}
# Exclusive limit on the number of samples of a call, because sample indices are 32-bit integers. The margin of 2**20 is
# for frames that begin before or end after the samples.
MAX_SAMPLES = 2**31 - 2**20
# Substrings of the messages of errors that mean the same as torch.cuda.OutOfMemoryError, but have other types.
SIGNS_OF_FULL_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",  # The cause is pinned memory or the context of a process.
    "CUDA driver error: out of memory",  # PyTorch's allocator raises it with expandable_segments.
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUFFT_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "[CUDA]: out of memory",  # Triton raises this error.
)
# A kernel is faulty if the maximum or the mean difference of its features from the torch engine's features, relative to
# 1 + |feature|, reaches these limits.
MAX_ERROR, MAX_MEAN_ERROR = 0.05, 1e-4
MAX_CHARACTERS = 200  # Maximum length of the message of a compiler or driver in the description of a fault.


class Feature(Protocol):
    """Attributes of :class:`kaldi_compat.torch.features.spectral.SpectralFeature` that the kernels use."""

    options: Any
    size: int
    shift: int
    points: int
    window: Tensor
    _windowed_energy_floor: ClassVar[float]

    @property
    def dim(self) -> int: ...
    @property
    def _are_log_energies(self) -> bool: ...
    def _needs_energy(self, raw: bool) -> bool: ...
    def _get_filter_bank(self, vtln_warp: float) -> Tensor | None: ...
    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor: ...
    def _compute_frames(self, frames: Tensor, noise: Tensor | None = None) -> Tensor: ...


def explain_unsupported(
    module: Feature,
    samples: Tensor,
    lengths: Tensor | None,
    vtln_warp: float | Sequence[float] = 1.0,
    generator: Generator = None,
) -> str:
    """Return the reason why :func:`compute_features` cannot compute a call with these arguments, or an empty string.

    The first call of each :class:`KernelKind` compiles the kernels and compares them with the torch engine, which takes
    seconds (for errors, see :func:`describe_fault`). The caller must have checked that neither autograd nor a compiler
    records the operations. For the arguments, see :func:`compute_features`.
    """
    checks = (
        (samples.dtype in (torch.int16, torch.float32), f"the samples are {samples.dtype}, not int16 or float32"),
        (0 < samples.numel() < MAX_SAMPLES, f"there are {samples.numel()} samples, not 1 to {MAX_SAMPLES - 1}"),
        (samples.dim() > 0 and _count_frames(module, samples) > 0, "the audio is shorter than one frame"),
        (
            lengths is None or _are_valid_lengths(lengths, samples),
            "the lengths are not int32 or int64 of shape (B,), on the device of the samples or on the CPU",
        ),
        (module.points in SHAPES, f"the FFT has {module.points} points, not one of {', '.join(map(str, SHAPES))}"),
        (module.window.device == samples.device, f"the module is on {module.window.device}, unlike the samples"),
        (module.window.dtype == torch.float32, f"the module is {module.window.dtype}, not float32"),
        (not getattr(module.options, "return_raw_fft", False), "return_raw_fft=True asks for the FFT itself"),
    )
    reason = explain_why_disabled(samples) or next((failure for is_met, failure in checks if not is_met), "")
    return reason or _find_fault(module, samples, lengths, vtln_warp, generator)


def explain_why_disabled(values: Tensor) -> str:
    """Return the reason why kernels cannot be used on the device of ``values``, or an empty string if they can."""
    if values.device.type != DEVICE_TYPE:
        return f"the samples are on {values.device}, not on CUDA"
    if os.environ.get(SWITCH, "1") == "0":
        return f"the environment has {SWITCH}=0"
    return "" if _has_triton() else "Triton is not installed"


def _count_frames(module: Feature, samples: Tensor) -> int:
    """Return the number of frames in a row of samples (..., T)."""
    return count_frames(samples.shape[-1], module.size, module.shift, module.options.snip_edges)


def compute_features(
    module: Feature,
    samples: Tensor,
    lengths: Tensor | None,
    vtln_warp: float | Sequence[float],
    generator: Generator = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute features with the kernels.

    Args:
        module: the feature.
        samples: audio (T,) or (B, T), int16 or float32 on a GPU.
        lengths: number of samples in each row, (B,), clipped to 0 to T, on the same device or the CPU; None for T.
        vtln_warp: a VTLN factor, or a sequence with a factor for each row.
        generator: source of the dithering noise. A :class:`~kaldi_compat.exact.rand.NoiseSource` gives Kaldi's noise,
            and waits for the GPU if ``lengths`` are on the GPU. A ``torch.Generator``, or torch's global generator if
            None, seeds a counter-based generator.

    Returns:
        Features (frames, dim) or (B, frames, dim), float32. With ``lengths``, also the number of frames of each row.
    """
    from kaldi_compat.torch.kernels.launch import launch_features

    return launch_features(module, samples, lengths, vtln_warp, generator)


def _are_valid_lengths(lengths: Tensor, samples: Tensor) -> bool:
    """Return True if samples are (B, T), and lengths are integers (B,) on the samples' device or on the CPU."""
    return (
        samples.dim() == 2
        and lengths.shape == samples.shape[:1]
        and lengths.device in (samples.device, torch.device("cpu"))
        and lengths.dtype in (torch.int32, torch.int64)
    )


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


_faults: dict[object, str] = {}


def list_faults() -> list[str]:
    """Return the faults that have disabled kernels in this process, sorted."""
    return sorted({fault for fault in _faults.values() if fault})


class KernelKind(NamedTuple):
    """Properties of a call that, with the module and the type of the samples, select the compiled code of a kernel.

    Attributes:
        is_ragged: True if each row is reflected at its own length.
        has_several_warps: True if there are several VTLN factors.
        noise: source of the dithering noise: "kaldi", "torch", or "" without dithering.
        is_wide: True if the rows need 64-bit indices.
    """

    is_ragged: bool
    has_several_warps: bool
    noise: str
    is_wide: bool


def _classify_call(
    module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: float | Sequence[float], generator: Generator
) -> KernelKind:
    """Return the properties of a call of :func:`compute_features` that select the compiled code of a kernel."""
    from kaldi_compat.torch.kernels.launch import WIDE

    has_several_warps = not isinstance(vtln_warp, float) and len(set(vtln_warp)) > 1
    noise = "torch" if generator is None or isinstance(generator, torch.Generator) else "kaldi"
    if module.options.dither == 0:
        noise = ""
    is_ragged = lengths is not None and not module.options.snip_edges
    return KernelKind(is_ragged, has_several_warps, noise, samples.shape[-1] > WIDE)


def _find_fault(
    module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: float | Sequence[float], generator: Generator
) -> str:
    """Return the reason why the kernels fail for a call, or an empty string. A kernel is tested before its first use.

    The test fails if there is no C compiler, which Triton needs, or the GPU is not supported, and it detects faults of
    compilers and drivers. It cannot run while a CUDA graph is captured. For errors, see :func:`describe_fault`.
    """
    kind = _classify_call(module, samples, lengths, vtln_warp, generator)
    key = (samples.device, samples.dtype, type(module), module.options, kind)
    if key not in _faults:
        # The test would wait for the GPU, which is not possible during the capture of a CUDA graph.
        if is_capturing(samples.device):
            return "this first call is captured in a CUDA graph: call the module once before the capture"
        # Two different factors are enough to test the selection of filter banks.
        warps = [1.0] if isinstance(vtln_warp, float) else sorted(set(vtln_warp))[:2]
        with lock_compilation(key):
            fault = _faults[key] = _test_kernels(module, samples.device, samples.dtype, kind, warps)
        if fault:
            logger.warning("computing on %s without fused kernels: %s", samples.device, fault)
    return _faults[key]


@torch.no_grad()
def _test_kernels(
    module: Feature, device: torch.device, dtype: torch.dtype, kind: KernelKind, warps: Sequence[float]
) -> str:
    """Compare the kernels with the torch engine. Return the description of a fault, or an empty string.

    The test audio has the data type ``dtype``, and a row for each of the VTLN factors ``warps``. For errors, see
    :func:`describe_fault`.
    """
    # A row has noise of 9 frames. Ragged rows end one frame earlier, which leaves samples that must be ignored.
    num_samples, rows = module.size + 8 * module.shift, len(warps)
    audio = torch.randint(-9999, 9999, (rows, num_samples), generator=torch.Generator().manual_seed(0), device="cpu")
    lengths = torch.full((rows,), num_samples - module.shift, device="cpu") if kind.is_ragged else None
    try:
        from kaldi_compat.torch.kernels.launch import launch_features

        samples = audio.to(dtype).to(device)
        feature_class: Any = type(module)
        expected = feature_class(module.options, engine="torch").to(device)(
            samples, lengths, vtln_warp=list(warps), generator=KaldiRandom()
        )
        generator = torch.Generator().manual_seed(0) if kind.noise == "torch" else KaldiRandom()
        warp = list(warps) if kind.has_several_warps else warps[0]
        actual: Any = launch_features(module, samples, lengths, warp, generator, is_wide=kind.is_wide)
        if lengths is not None:
            actual, expected = actual[0], expected[0]
        difference = (actual - expected).abs() / (1 + expected.abs())
        largest, mean = float(difference.max()), float(difference.mean())  # float() raises asynchronous errors.
    except Exception as error:  # The errors of Triton and its compilers have no common base class.
        return describe_fault(error, device)
    if kind.noise == "torch":  # `expected` has Kaldi's noise, so the features differ.
        return "" if math.isfinite(largest) else "their features are not finite: please report it"
    is_accurate = largest < MAX_ERROR and mean < MAX_MEAN_ERROR
    return "" if is_accurate else f"their features are off by {largest:g}: please report it"


def describe_fault(error: Exception, device: torch.device) -> str:
    """Return a one-line description of the fault of a kernel whose test raised ``error``.

    Raises:
        KaldiCompatError: this process can no longer use the device.
        torch.cuda.OutOfMemoryError: the device has not enough memory at this moment.
    """
    if is_out_of_memory(error):
        raise torch.cuda.OutOfMemoryError(str(error)) from error
    fault = f"{type(error).__name__}: {' '.join(str(error).split())[:MAX_CHARACTERS]}"
    if is_broken(device):
        raise KaldiCompatError(
            f"this process can no longer use {device} after a fault of a kernel or of the driver ({fault}): "
            f"start the program again with {SWITCH}=0, and please report it"
        ) from error
    return fault


def is_broken(device: torch.device) -> bool:
    """Wait for a GPU, and return True if this process can no longer use it, as after an illegal memory access."""
    try:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that the memory of the device or the pinned memory is full."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS_OF_FULL_MEMORY)


@contextlib.contextmanager
def lock_compilation(kind: object) -> Iterator[None]:
    """Let one process compile a kernel in a ``with`` block, while other processes wait to use the compiled kernel.

    Processes with a different ``kind`` of kernel do not wait. If the lock file cannot be created, no process waits.
    """
    folder = os.environ.get("TRITON_CACHE_DIR") or Path(os.environ.get("TRITON_HOME", "~")).expanduser() / ".triton"
    name = f"kaldi_compat-{hashlib.blake2b(repr(kind).encode(), digest_size=8).hexdigest()}.lock"
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        lock = os.open(Path(folder) / name, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            _lock_file(lock)
        yield
    finally:
        os.close(lock)


def _lock_file(descriptor: int) -> None:
    """Wait until this process holds the lock of the file that is open as ``descriptor``. On Windows, do nothing."""
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl.
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
