"""Energies of spectra in torch."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.mel import F32
from kaldi_compat.functional.array_api import is_traced_or_differentiated, keeps_precision, matmul

# Bands in a group of the filter bank, which fill one or two vector registers.
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


def in_groups(weights: Floats) -> tuple[Floats, list[tuple[slice, slice]]]:
    """Split a filter bank, which is mostly zeros, into groups of neighboring bands: a few small, dense matrices.

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
    if is_traced_or_differentiated(power) or not keeps_precision(power):
        return matmul(power, filled[:, :num_bins])
    return torch.cat([power[..., bins] @ filled[bins, bands] for bins, bands in groups], -1)[..., :num_bins]


def floor_energy(log_energy: Tensor, energy_floor: float) -> Tensor:
    """Limit log energies to the log of this floor from below; a floor of 0 means none."""
    return log_energy.clamp(min=math.log(energy_floor)) if energy_floor > 0 else log_energy
