"""Cepstra of log mel energies or of loudness: the DCT, liftering and linear prediction of Kaldi.

Sources: src/matrix/matrix-functions.cc (ComputeDctMatrix), src/feat/mel-computations.cc (ComputeLifterCoeffs, Durbin,
Lpc2Cepstrum, GetEqualLoudnessVector) and src/feat/feature-functions.cc (InitIdftBases).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.functional.energies import floored

__all__ = [
    "dct_matrix",
    "equal_loudness",
    "idft_matrix",
    "levinson_durbin",
    "lifter",
    "lpc_to_cepstrum",
    "with_first",
]

FloatArray = npt.NDArray[np.float32]


def dct_matrix(num_ceps: int, num_bins: int) -> Tensor:
    """Return the orthonormal DCT-II, transposed: float32 (num_bins, num_ceps), to be applied from the right.

    >>> dct_matrix(2, 2)
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]])
    """
    basis = np.cos(np.pi / num_bins * np.outer(np.arange(num_bins) + 0.5, np.arange(num_ceps)))
    basis[:, 1:] *= np.float32(np.sqrt(2.0 / num_bins))
    basis[:, 0] = np.float32(np.sqrt(1.0 / num_bins))
    return torch.from_numpy(basis.astype(np.float32))


def lifter(num_ceps: int, scale: float) -> Tensor:
    """Return the factors ``1 + Q/2 sin(pi i / Q)`` on the cepstra, all 1 if the scale Q is 0: float32 (num_ceps,)."""
    scale = float(np.float32(scale))
    if scale == 0:
        return torch.ones(num_ceps)
    return torch.from_numpy((1 + 0.5 * scale * np.sin(np.pi * np.arange(num_ceps) / scale)).astype(np.float32))


def idft_matrix(num_bases: int, num_bins: int) -> Tensor:
    """Return the inverse DFT from a symmetric power spectrum to autocorrelation: float32 (num_bins, num_bases)."""
    angle = np.float32(np.pi / (num_bins - 1))
    phase = (angle * np.arange(num_bases, dtype=np.float32)) * np.arange(num_bins, dtype=np.float32)[:, None]
    basis = np.cos(phase.astype(np.float64)) / (num_bins - 1)
    basis[[0, -1]] *= 0.5
    return torch.from_numpy(basis.astype(np.float32))


def equal_loudness(centers: FloatArray) -> FloatArray:
    """Return equal-loudness weights, at 40 dB, of mel bins centred at these frequencies in Hz (Hermansky 1990)."""
    squared = centers * centers
    ratio = squared / (squared + np.float32(1.6e5))
    return np.asarray(ratio * ratio * ((squared + np.float32(1.44e6)) / (squared + np.float32(9.61e6))), np.float32)


def levinson_durbin(autocorrelation: Tensor) -> tuple[Tensor, Tensor]:
    """Compute linear prediction coefficients from autocorrelation, by Durbin's recursion.

    Args:
        autocorrelation: lags 0 to n, shape (..., n + 1).

    Returns:
        The coefficients (..., n) with Kaldi's sign (the predictor is their negative), and the residual energy (...).
    """
    lags = autocorrelation.movedim(-1, 0)
    order = len(lags) - 1
    past = lags.flip(0)
    error = lags[0]
    coefficients = lags[:0]
    for i in range(order):
        # coefficients 0 to i - 1 meet lags i to 1
        reflection = (lags[i + 1] + (coefficients * past[order - i : order]).sum(0)) / error
        # Kaldi's floor keeps the residual positive for a constant signal
        error = error * (1.0 - reflection.square()).clamp(min=1.0e-5)
        coefficients = torch.cat((coefficients - reflection * coefficients.flip(0), -reflection.unsqueeze(0)))
    return coefficients.movedim(0, -1), error


def lpc_to_cepstrum(coefficients: Tensor) -> Tensor:
    """Compute cepstra 1 to n of the all-pole model with these prediction coefficients. (..., n) -> (..., n)."""
    lpc = coefficients.movedim(-1, 0)
    weighted = lpc[:0]  # i times the i-th cepstrum, latest first
    for i in range(len(lpc)):
        latest = -(i + 1) * lpc[i] - (lpc[:i] * weighted).sum(0)
        weighted = torch.cat((latest.unsqueeze(0), weighted))
    numbers = torch.arange(1, len(lpc) + 1, device=lpc.device, dtype=lpc.dtype)
    return weighted.flip(0).movedim(0, -1) / numbers


def with_first(
    cepstra: Tensor, log_energy: Tensor | None, energy_floor: float, htk_order: bool, scale_of_c0: float = 1.0
) -> Tensor:
    """Replace C0 by the log energy if given, and move it to the last column for HTK's order.

    Args:
        cepstra: (..., num_ceps).
        log_energy: (...), or None to keep C0.
        energy_floor: floor of the energy; 0 for none.
        htk_order: True to move C0 or the energy to the last column.
        scale_of_c0: factor on a C0 that is kept.

    Returns:
        (..., num_ceps).
    """
    if log_energy is None:
        first = cepstra[..., :1] * scale_of_c0
    else:
        first = floored(log_energy, energy_floor).unsqueeze(-1)
    rest = cepstra[..., 1:]
    return torch.cat((rest, first) if htk_order else (first, rest), -1)
