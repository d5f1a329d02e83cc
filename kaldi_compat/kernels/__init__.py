"""Fused kernels (Triton) for the spectral features on a GPU, in place of the chain of torch operations.

Two kernels: samples to power spectra, and those to mel energies or their logs. What is left (the DCT, linear
prediction, the energy's column) is done by the module's own code, in torch. The kernels take what :func:`serves` says;
everything else goes the plain way, which gives the same numbers up to rounding.

``KALDI_COMPAT_KERNELS=0`` in the environment switches them off.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from kaldi_compat.array_api import is_followed
from kaldi_compat.functional.frames import frames_of, num_frames

logger = logging.getLogger("kaldi_compat")
Cls = TypeVar("Cls")

SWITCH = "KALDI_COMPAT_KERNELS"
DEVICE_TYPE = "cuda"
# FFT sizes as A registers of L lanes (see kernels/spectrum.py). Larger ones take minutes to compile.
SHAPES = {128: (8, 16), 256: (16, 16), 512: (16, 32), 1024: (32, 32)}
# How far features by the kernels may lie from the plain ones, at most and on the average, of 1 + their size.
MOST, USUAL = 0.05, 1e-4
# Classes whose features the kernels compute. Subclasses of these may compute something else.
_supported: set[type] = set()


class Feature(Protocol):
    """What the kernels need of a module: see :class:`kaldi_compat.features.spectral.SpectralFeature`, which has it."""

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
    def needs_energy(self, raw: bool) -> bool: ...
    def bands(self, vtln_warp: float) -> Tensor | None: ...
    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor: ...
    def features_of_frames(self, frames: Tensor) -> Tensor: ...


def supports_kernels(cls: type[Cls]) -> type[Cls]:
    """Class decorator: the kernels compute the features of this class (and not those of its subclasses)."""
    _supported.add(cls)
    return cls


def serves(module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: Any) -> bool:
    """Whether :func:`features` may compute this in the module's place.

    Not where someone follows the operations (autograd, compilers), and not what the kernels do not know: float64,
    dithering, one VTLN factor per utterance, FFTs of other sizes than 128 to 1024 points, the FFT's own numbers.
    """
    options: Any = module.options
    return (
        samples.device.type == DEVICE_TYPE
        and not is_followed(samples)  # first: compilers need not follow the rest
        and os.environ.get(SWITCH, "1") != "0"
        and _has_triton()
        and type(module) in _supported
        and type(samples) is Tensor
        and samples.dtype in (torch.int16, torch.float32)
        and 0 < samples.numel() < 2**31
        and samples.dim() > 0
        and num_frames(samples.shape[-1], module.size, module.shift, options.snip_edges) > 0
        and (lengths is None or _fits(lengths, samples))
        and isinstance(vtln_warp, (int, float))
        and options.dither == 0
        and module.points in SHAPES
        and module.window.device == samples.device
        and module.window.dtype == torch.float32
        and not getattr(options, "return_raw_fft", False)
        and _is_trusted(module, samples)
    )


def features(
    module: Feature, samples: Tensor, lengths: Tensor | None, vtln_warp: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """What the module gives for audio, by the kernels: see :meth:`kaldi_compat.features.spectral.SpectralFeature.forward`."""
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


_trusted: dict[object, bool] = {}


def _is_trusted(module: Feature, samples: Tensor) -> bool:
    """Whether the kernels for these options can be had and give what torch gives; tried when they are first used.

    Triton needs a C compiler and a GPU that it knows. A compiler or driver that is at fault is noticed too.
    """
    kind = (samples.device, samples.dtype, type(module), module.options)
    if kind not in _trusted:
        # A graph is captured after a first run: what is not known by then cannot be looked at.
        if samples.is_cuda and torch.cuda.is_current_stream_capturing():
            return False
        fault = _fault(module, samples.device, samples.dtype)
        if fault:
            logger.warning("computing on %s without fused kernels: %s", samples.device, fault)
        _trusted[kind] = not fault
    return _trusted[kind]


@torch.no_grad()
def _fault(module: Feature, device: torch.device, dtype: torch.dtype) -> str:
    """What is wrong with the kernels there; nothing if it is empty."""
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
    off = (found - expected).abs() / (1 + expected.abs())
    most, usual = float(off.max()), float(off.mean())
    return "" if most < MOST and usual < USUAL else f"they are off by {most:g} there, please report it"
