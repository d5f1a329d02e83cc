"""Energies of spectra, and the matrix product behind them, in torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.array_api import is_traced_or_differentiated
from kaldi_compat.functional.mel import F32, FloatArray

# Bands in a group of the filter bank: as many as fill a vector register or two.
GROUP = 16


def power_spectrum(spectrum: Tensor, overwrite: bool = False) -> Tensor:
    """Squared magnitudes. Complex (..., fft_bins) -> real (..., fft_bins); quicker if it may overwrite the spectrum."""
    parts = torch.view_as_real(spectrum)
    re, im = (parts.square_() if overwrite else parts.square()).unbind(-1)
    return re + im


def power(x: Tensor, exponent: float) -> Tensor:
    """``x ** exponent`` for x >= 0, with a gradient of zero instead of infinity where x is zero."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0) ** exponent, 0.0)


def _full_precision(x: Tensor) -> bool:
    """Whether a float32 product of matrices on this tensor's device is sure to be computed in float32."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    # from torch 2.9 on the older setting cannot be asked for once the newer one was used, and shows in the newer one
    setting: Any = getattr(torch.backends.mkldnn, "matmul", None)
    if setting is None:
        return torch.get_float32_matmul_precision() == "highest"
    return setting.fp32_precision in ("none", "ieee")


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` in a's precision, whatever TF32, bfloat16 or autocast the user has switched on.

    There is no local switch for those, and the global ones are the user's: so wherever a float32 product might be
    computed in less, it is computed in float64, which none of them touches.
    """
    if a.dtype == torch.float64 or _full_precision(a):
        return a @ b
    return (a.double() @ b.double()).to(a.dtype)


def in_groups(weights: FloatArray) -> tuple[FloatArray, list[tuple[slice, slice]]]:
    """A filter bank, which is mostly zeros, as groups of neighbouring bands: a few products of small, full matrices.

    Args:
        weights: ``(fft_bins, num_mel_bins)``.

    Returns:
        The weights with bands of zeros after them that fill the last group; and for each group the FFT bins that its
        filters lie on, and its bands.
    """
    fft_bins, num_bins = weights.shape
    filled = np.zeros((fft_bins, -(-num_bins // GROUP) * GROUP), F32)
    filled[:, :num_bins] = weights
    groups = []
    for first in range(0, num_bins, GROUP):
        bands = slice(first, first + GROUP)
        used = np.flatnonzero(filled[:, bands].any(1))
        groups.append((slice(int(used[0]), int(used[-1]) + 1), bands))
    return filled, groups


def mel_sums(power: Tensor, filled: Tensor, groups: list[tuple[slice, slice]], num_bins: int) -> Tensor:
    """``power @ weights`` of what :func:`in_groups` made; by groups where nothing but speed is asked for."""
    if is_traced_or_differentiated(power) or not _full_precision(power):
        return matmul(power, filled[:, :num_bins])
    return torch.cat([power[..., bins] @ filled[bins, bands] for bins, bands in groups], -1)[..., :num_bins]


def floored(log_energy: Tensor, energy_floor: float) -> Tensor:
    """Log energies not below the log of this floor; a floor of zero is none."""
    return log_energy.clamp(min=math.log(energy_floor)) if energy_floor > 0 else log_energy
