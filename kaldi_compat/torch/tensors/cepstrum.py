"""Linear prediction, the cepstra of its all-pole model, and the position of the energy among cepstra, as in Kaldi.

Source: src/feat/mel-computations.cc (Durbin, Lpc2Cepstrum).
"""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.torch.tensors.energies import floor_energy


def run_levinson_durbin(autocorrelation: Tensor) -> tuple[Tensor, Tensor]:
    """Compute linear prediction coefficients by Durbin's recursion from autocorrelations (..., n + 1) at lags 0 to n.

    Returns:
        The coefficients (..., n) with Kaldi's sign, opposite to the predictor's, and the residual energy (...).
    """
    by_lag = autocorrelation.movedim(-1, 0)
    order = len(by_lag) - 1
    reversed_by_lag = by_lag.flip(0)
    residual = by_lag[0]
    coefficients = by_lag[:0]
    for i in range(order):
        # Coefficients 0 to i - 1 are multiplied by the autocorrelations at lags i to 1.
        reflection = (by_lag[i + 1] + (coefficients * reversed_by_lag[order - i : order]).sum(0)) / residual
        # Kaldi's floor of 1e-5 keeps the residual of a constant signal positive.
        residual = residual * (1.0 - reflection.square()).clamp(min=1.0e-5)
        coefficients = torch.cat((coefficients - reflection * coefficients.flip(0), -reflection.unsqueeze(0)))
    return coefficients.movedim(0, -1), residual


def convert_lpc_to_cepstrum(coefficients: Tensor) -> Tensor:
    """Compute cepstral coefficients 1 to n of an all-pole model from its linear prediction coefficients (..., n)."""
    lpc = coefficients.movedim(-1, 0)
    weighted = lpc[:0]  # Cepstrum i times i, in descending order of i.
    for i in range(len(lpc)):
        latest = -(i + 1) * lpc[i] - (lpc[:i] * weighted).sum(0)
        weighted = torch.cat((latest.unsqueeze(0), weighted))
    orders = torch.arange(1, len(lpc) + 1, device=lpc.device, dtype=lpc.dtype)
    return weighted.flip(0).movedim(0, -1) / orders


def place_first_coefficient(
    cepstra: Tensor, log_energy: Tensor | None, energy_floor: float, htk_order: bool, scale_of_c0: float = 1.0
) -> Tensor:
    """Scale C0, or replace C0 with the log energy, and place this coefficient in the first or the last column.

    Args:
        cepstra: cepstra (..., num_ceps), with C0 in the first column.
        log_energy: log energies of the frames, shape (...); None to keep C0.
        energy_floor: floor of the energy; 0 for no floor.
        htk_order: True to move C0 or the energy to the last column.
        scale_of_c0: factor on C0 if there is no log energy.
    """
    if log_energy is None:
        coefficient = cepstra[..., :1] * scale_of_c0
    else:
        coefficient = floor_energy(log_energy, energy_floor).unsqueeze(-1)
    higher = cepstra[..., 1:]
    return torch.cat((higher, coefficient) if htk_order else (coefficient, higher), -1)
