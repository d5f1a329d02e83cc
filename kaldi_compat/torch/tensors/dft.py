"""Spectra of frames, computed by the FFT, or by a matrix product for devices and runtimes without an FFT.

Spectra are pairs of real numbers, because some devices and runtimes also lack complex numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from kaldi_compat.functional.array_api import is_traced, matmul


def compute_spectrum(frames: Tensor, points: int, matrix: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Compute the DFT of zero-padded frames (..., size): real and imaginary parts (..., points // 2 + 1, 2).

    ``points`` must be even. ``matrix`` is the result of :func:`make_dft_matrix`, or None for the FFT.
    """
    if matrix is not None:
        rounded, remainder = matrix
        basis = rounded.double() + remainder.double() if frames.dtype == torch.float64 else rounded
        return matmul(frames, basis).reshape(*frames.shape[:-1], points // 2 + 1, 2)
    # MKL refuses a transform of no frames, so a frame of zeros is added if there may be no frames.
    if not (is_traced(frames) or frames.numel() == 0):
        return torch.view_as_real(torch.fft.rfft(frames, points))
    rows = frames.unsqueeze(0).flatten(0, -2)
    padded = nn.functional.pad(rows, (0, points - frames.shape[-1], 0, 1))
    transformed = torch.view_as_real(torch.fft.rfft(padded))[:-1]
    return transformed.reshape(*frames.shape[:-1], points // 2 + 1, 2)


def make_dft_matrix(size: int, points: int) -> tuple[Tensor, Tensor]:
    """Return the matrix of the DFT with ``points`` points of zero-padded frames (size,), as two float32 matrices.

    The sum of both is exact to 48 bits, because the second matrix is the rounding error of the first. Both are float32,
    for devices without float64.

    Returns:
        Two matrices (size, 2 * (points // 2 + 1)). The columns alternate between real and imaginary parts, from the
        lowest to the highest frequency.
    """
    # Cosines of large angles lose digits, so the product of indices is reduced to one turn before it is scaled.
    angles = 2 * np.pi / points * (np.outer(np.arange(size), np.arange(points // 2 + 1)) % points)
    exact = np.stack((np.cos(angles), -np.sin(angles)), -1).reshape(size, -1)
    exact[np.abs(exact) < 1e-15] = 0  # Because pi is rounded, zeros become about 1e-16.
    rounded = exact.astype(np.float32)
    return torch.from_numpy(rounded), torch.from_numpy((exact - rounded).astype(np.float32))
