"""The Triton engine: fused kernels for the spectral features on a GPU.

One kernel computes power spectra of samples, another mel energies, or their logs, of power spectra. The remaining steps
(DCT, linear prediction, energy column) run in torch. :func:`why_unsupported` says what the kernels cannot compute; the
operations of torch compute that instead, with equal numbers up to rounding.

``KALDI_COMPAT_KERNELS=0`` in the environment switches them off.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from kaldi_compat.functional.frames import frames_of, num_frames

__all__ = ["DEVICE_TYPE", "MAX_ERROR", "MEAN_ERROR", "SHAPES", "SWITCH", "Feature", "features", "why_unsupported"]

logger = logging.getLogger("kaldi_compat")

SWITCH = "KALDI_COMPAT_KERNELS"
DEVICE_TYPE = "cuda"
# FFT sizes as (A registers, L lanes), see kernels/spectrum.py. Larger ones take minutes to compile.
SHAPES = {128: (8, 16), 256: (16, 16), 512: (16, 32), 1024: (32, 32)}
# Allowed difference between features by the kernels and by torch's operations, relative to 1 + |feature|.
MAX_ERROR, MEAN_ERROR = 0.05, 1e-4


class Feature(Protocol):
    """Part of :class:`kaldi_compat.features.spectral.SpectralFeature` that the kernels use."""

    options: Any
    size: int
    shift: int
    points: int
    window: Tensor
    windowed_energy_floor: ClassVar[float]

    @property
    def dim(self) -> int: ...
    @property
    def are_log_energies(self) -> bool: ...
    @property
    def uses_magnitude(self) -> bool: ...
    @property
    def is_raw_fft(self) -> bool: ...
    def needs_energy(self, raw: bool) -> bool: ...
    def filter_bank(self, vtln_warp: float) -> Tensor | None: ...
    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor: ...
    def features_of_frames(self, frames: Tensor) -> Tensor: ...


def why_unsupported(module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: Any) -> str:
    """Return why :func:`features` cannot compute this in the module's place; an empty string if it can.

    The caller has checked that neither autograd nor a compiler follows the operations.
    """
    options: Any = module.options
    checks = (
        (samples.device.type == DEVICE_TYPE, f"the samples are on {samples.device}, not on CUDA"),
        (os.environ.get(SWITCH, "1") != "0", f"the environment has {SWITCH}=0"),
        (_has_triton(), "Triton is not installed"),
        (samples.dtype in (torch.int16, torch.float32), f"the samples are {samples.dtype}, not int16 or float32"),
        (0 < samples.numel() < 2**31, f"there are {samples.numel()} samples, not 1 to 2**31 - 1"),
        (samples.dim() > 0 and _frames_in(module, samples) > 0, "the audio is shorter than one frame"),
        (lengths is None or _fits(lengths, samples), "the lengths are not integers (B,) on the samples' device"),
        (isinstance(vtln_warp, (int, float)), "each utterance has a VTLN factor of its own"),
        (options.dither == 0, f"dither={options.dither:g} is not 0"),
        (module.points in SHAPES, f"the FFT has {module.points} points, not one of {', '.join(map(str, SHAPES))}"),
        (module.window.device == samples.device, f"the module is on {module.window.device}"),
        (module.window.dtype == torch.float32, f"the module is {module.window.dtype}"),
        (not module.is_raw_fft, "return_raw_fft=True asks for the FFT itself"),
    )
    return next((reason for holds, reason in checks if not holds), "") or _fault_of(module, samples)


def _frames_in(module: Feature, samples: Tensor) -> int:
    return num_frames(samples.shape[-1], module.size, module.shift, module.options.snip_edges)


def features(
    module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute features with the kernels.

    Args:
        module: the feature.
        samples: (T,) or (B, T), int16 or float32 on a GPU.
        lengths: number of samples in each row (B,), or None.
        vtln_warp: one VTLN factor.

    Returns:
        (frames, dim) or (B, frames, dim), float32; with ``lengths``, that and the number of frames of each row, (B,).
    """
    from kaldi_compat.kernels.launch import features_of

    return features_of(module, samples, lengths, vtln_warp)


def _fits(lengths: Tensor, samples: Tensor) -> bool:
    return (
        samples.dim() == 2
        and lengths.shape == samples.shape[:1]
        and lengths.device == samples.device
        and lengths.dtype in (torch.int32, torch.int64)
    )


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


_faults: dict[object, str] = {}


def _fault_of(module: Feature, samples: Tensor) -> str:
    """Return the fault of the kernels for these options, or an empty string. Tested on first use.

    Triton needs a C compiler and a supported GPU. The test also finds faults of compilers and drivers.
    """
    kind = (samples.device, samples.dtype, type(module), module.options)
    if kind not in _faults:
        # The test cannot run while a CUDA graph is captured.
        if samples.is_cuda and torch.cuda.is_current_stream_capturing():
            return "a CUDA graph is captured before the first call: call the module once before"
        _faults[kind] = fault = _fault(module, samples.device, samples.dtype)
        if fault:
            logger.warning("computing on %s without fused kernels: %s", samples.device, fault)
    return _faults[kind]


@torch.no_grad()
def _fault(module: Feature, device: torch.device, dtype: torch.dtype) -> str:
    """Compare the kernels with torch's operations; return their fault, or an empty string."""
    options, count = module.options, module.size + 8 * module.shift
    noise = torch.randint(-9999, 9999, (count,), generator=torch.Generator().manual_seed(0), device="cpu")
    samples = noise.to(dtype).to(device)
    frames = frames_of(samples.float() * options.waveform_scale, module.size, module.shift, options.snip_edges)
    expected = module.features_of_frames(frames)
    try:
        from kaldi_compat.kernels.launch import features_of

        found = features_of(module, samples, None, 1.0)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # Triton's and its compilers' errors have no common base
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    assert isinstance(found, Tensor)
    difference = (found - expected).abs() / (1 + expected.abs())
    largest = float(difference.max())
    agrees = largest < MAX_ERROR and float(difference.mean()) < MEAN_ERROR
    return "" if agrees else f"their features are off by {largest:g}: please report it"
