"""Fused kernels (Triton) for the spectral features on a GPU, in place of the chain of torch operations.

Two kernels: samples to power spectra, and those to mel energies or their logs. What is left (the DCT, linear
prediction, the energy's column) is done by the module's own code, in torch. The kernels take what :func:`serves` says;
everything else goes the plain way, which gives the same numbers up to rounding.

``KALDI_COMPAT_KERNELS=0`` in the environment switches them off.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kaldi_compat.arrays import is_followed
from kaldi_compat.frames import num_frames

if TYPE_CHECKING:
    from kaldi_compat.feature import SpectralFeature

logger = logging.getLogger("kaldi_compat")

SWITCH = "KALDI_COMPAT_KERNELS"
DEVICE_TYPE = "cuda"
# FFT sizes as A registers of L lanes (see kernels/spectrum.py). Larger ones take minutes to compile.
SHAPES = {128: (8, 16), 256: (16, 16), 512: (16, 32), 1024: (32, 32)}
# How far features by the kernels may lie from the plain ones (logs of energies).
TOLERANCE = 1e-3


def serves(module: SpectralFeature, samples: Tensor, lengths: Tensor | None, vtln_warp: Any) -> bool:
    """Whether :func:`features` may compute this in the module's place.

    Not where someone follows the operations (autograd, compilers), and not what the kernels do not know: float64,
    dithering, one VTLN factor per utterance, FFTs of other sizes than 128 to 1024 points, the FFT's own numbers.
    """
    options: Any = module.options
    return (
        samples.device.type == DEVICE_TYPE
        and not is_followed(samples)  # first: compilers need not follow the rest
        and os.environ.get(SWITCH, "1") != "0"
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
        and _is_trusted_on(samples.device)
    )


def features(
    module: SpectralFeature, samples: Tensor, lengths: Tensor | None, vtln_warp: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """What the module gives for audio, by the kernels: see :meth:`kaldi_compat.feature.SpectralFeature.forward`."""
    from kaldi_compat.kernels.launch import features_of

    return features_of(module, samples, lengths, vtln_warp)


def _fits(lengths: Tensor, samples: Tensor) -> bool:
    return (
        samples.dim() == 2
        and lengths.shape == samples.shape[:1]
        and lengths.device == samples.device
        and lengths.dtype in (torch.int32, torch.int64)
    )


_agreed: dict[torch.device, bool] = {}


def _is_trusted_on(device: torch.device) -> bool:
    """Whether the kernels can be had on a device and give there what torch gives; tried when it is first used.

    Triton needs a C compiler and a GPU that it knows. A compiler or driver that is at fault is noticed too.
    """
    if device not in _agreed:
        # A graph is captured after a first run: what is not known by then cannot be looked at.
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False
        fault = _fault_on(device)
        if fault:
            logger.warning("computing on %s without fused kernels: %s", device, fault)
        _agreed[device] = not fault
    return _agreed[device]


def _fault_on(device: torch.device) -> str:
    """What is wrong with the kernels there; nothing if it is empty."""
    from kaldi_compat.fbank import Fbank

    module = Fbank(dither=0.0).to(device)
    samples = torch.randint(-9999, 9999, (2400,), dtype=torch.int16, generator=torch.Generator().manual_seed(0))
    samples[600:1400] = 0
    samples = samples.to(device)
    try:
        found = features(module, samples, None, 1.0)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # Triton's and its compilers' errors have no common base
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    assert isinstance(found, Tensor)
    expected = module.features_of_frames(samples.float().unfold(0, module.size, module.shift))
    difference = float((found - expected).abs().max())
    return "" if difference < TOLERANCE else f"they are off by {difference:g} there, please report it"
