"""Energies of spectra in torch, and matrix products that keep full precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.array_api import is_exported_to_onnx, is_traced_or_differentiated
from kaldi_compat.exact.mel import F32, FloatArray

__all__ = ["floored", "in_groups", "matmul", "mel_sums", "power", "power_spectrum"]

# Bands in a group of the filter bank: as many as fill a vector register or two.
GROUP = 16


def power_spectrum(spectrum: Tensor, overwrite: bool = False) -> Tensor:
    """Compute squared magnitudes: real and imaginary parts (..., fft_bins, 2) -> (..., fft_bins).

    ``overwrite`` saves a copy.
    """
    re, im = (spectrum.square_() if overwrite else spectrum.square()).unbind(-1)
    return re + im


def power(x: Tensor, exponent: float) -> Tensor:
    """Compute ``x ** exponent`` for x >= 0, with a gradient of zero instead of infinity at x = 0."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0) ** exponent, 0.0)


def _full_precision(x: Tensor) -> bool:
    """Return True if float32 matrix products on this tensor's device are certainly computed in float32."""
    if is_exported_to_onnx(x):  # what runs the graph decides; WebGPU has no float64
        return True
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    # Since torch 2.9, reading the older setting fails once the newer one was used; the newer one reflects the older.
    setting: Any = getattr(torch.backends.mkldnn, "matmul", None)
    if setting is None:
        return torch.get_float32_matmul_precision() == "highest"
    return setting.fp32_precision in ("none", "ieee")


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Compute ``a @ b`` in the precision of a, whatever TF32, bfloat16 or autocast modes are on.

    torch has no local switch for these modes, and the global ones belong to the user. So wherever a float32 product
    might lose precision, it is computed in float64, which no mode affects.
    """
    if a.dtype == torch.float64 or _full_precision(a):
        return a @ b
    return (a.double() @ b.double()).to(a.dtype)


def in_groups(weights: FloatArray) -> tuple[FloatArray, list[tuple[slice, slice]]]:
    """Split a filter bank, which is mostly zeros, into groups of neighbouring bands: a few small, dense matrices.

    Args:
        weights: ``(fft_bins, num_mel_bins)``.

    Returns:
        The weights, padded with zero bands to whole groups; and for each group the FFT bins that its filters cover, and
        its bands.
    """
    fft_bins, num_bins = weights.shape
    filled = np.zeros((fft_bins, -(-num_bins // GROUP) * GROUP), F32)
    filled[:, :num_bins] = weights
    groups = []
    for first in range(0, num_bins, GROUP):
        bands = slice(first, first + GROUP)
        used = np.flatnonzero(filled[:, bands].any(1))
        groups.append((slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 0), bands))
    return filled, groups


def mel_sums(power: Tensor, filled: Tensor, groups: list[tuple[slice, slice]], num_bins: int) -> Tensor:
    """Compute ``power @ weights`` (..., num_bins) with the result of :func:`in_groups`, by groups where allowed."""
    if is_traced_or_differentiated(power) or not _full_precision(power):
        return matmul(power, filled[:, :num_bins])
    return torch.cat([power[..., bins] @ filled[bins, bands] for bins, bands in groups], -1)[..., :num_bins]


def floored(log_energy: Tensor, energy_floor: float) -> Tensor:
    """Limit log energies to the log of this floor from below; a floor of 0 means none."""
    return log_energy.clamp(min=math.log(energy_floor)) if energy_floor > 0 else log_energy
