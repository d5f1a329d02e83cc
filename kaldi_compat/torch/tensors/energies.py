"""Energies of spectra, computed with torch's operations."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.mel import F32
from kaldi_compat.functional.array_api import is_traced_or_differentiated, keeps_precision, matmul

# Number of bands in a group of the filter bank. Sixteen float32 numbers fill one or two vector registers.
GROUP = 16


def compute_power_spectrum(spectrum: Tensor, overwrite: bool = False) -> Tensor:
    """Compute squared magnitudes (..., fft_bins) from real and imaginary parts (..., fft_bins, 2).

    With ``overwrite``, the squares replace the spectrum, which saves a copy.
    """
    re, im = (spectrum.square_() if overwrite else spectrum.square()).unbind(-1)
    return re + im


def raise_to_power(x: Tensor, exponent: float) -> Tensor:
    """Compute ``x ** exponent`` for ``x >= 0``. At 0, the gradient is 0 instead of infinite."""
    is_positive = x > 0
    return torch.where(is_positive, torch.where(is_positive, x, 1.0) ** exponent, 0.0)


def group_bands(weights: Floats) -> tuple[Floats, list[tuple[slice, slice]]]:
    """Split a sparse filter bank ``(fft_bins, num_mel_bins)`` into small, dense matrices of neighboring bands.

    Returns:
        The weights ``(fft_bins, bands)``, where bands of zeros complete the last group; and for each group, the slices
        of FFT bins and of bands that its matrix covers.
    """
    fft_bins, num_bins = weights.shape
    filled = np.zeros((fft_bins, -(-num_bins // GROUP) * GROUP), F32)
    filled[:, :num_bins] = weights
    groups = []
    for first in range(0, num_bins, GROUP):
        bands = slice(first, first + GROUP)
        nonzero = np.flatnonzero(filled[:, bands].any(1))
        bins = slice(int(nonzero[0]), int(nonzero[-1]) + 1) if len(nonzero) else slice(0, 0)
        groups.append((bins, bands))
    return filled, groups


def sum_mel_bands(power: Tensor, filled: Tensor, groups: list[tuple[slice, slice]], num_bins: int) -> Tensor:
    """Compute mel energies (..., num_bins) from power spectra (..., fft_bins).

    ``filled`` and ``groups`` are the results of :func:`group_bands`. The groups are multiplied separately unless the
    operations are recorded, or would lose precision (TF32, autocast).
    """
    if is_traced_or_differentiated(power) or not keeps_precision(power):
        return matmul(power, filled[:, :num_bins])
    return torch.cat([power[..., bins] @ filled[bins, bands] for bins, bands in groups], -1)[..., :num_bins]


def floor_energy(log_energy: Tensor, energy_floor: float) -> Tensor:
    """Raise log energies (...) to at least the log of ``energy_floor``. A floor of 0 changes nothing."""
    return log_energy.clamp(min=math.log(energy_floor)) if energy_floor > 0 else log_energy
