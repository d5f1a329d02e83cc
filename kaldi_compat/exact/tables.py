"""Windows, transforms and weights of the spectral features, rounded as Kaldi rounds them.

Trigonometric functions and powers in double precision come from the C library by way of :mod:`math`, as Kaldi's do.
Sources: src/feat/feature-window.cc (FeatureWindowFunction), src/matrix/matrix-functions.cc (ComputeDctMatrix),
src/feat/mel-computations.cc (ComputeLifterCoeffs, GetEqualLoudnessVector), src/feat/feature-functions.cc
(InitIdftBases).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kaldi_compat.exact.arrays import Floats

F32 = np.float32


def make_window(window_type: str, size: int, blackman_coeff: float = 0.42) -> Floats:
    """Return the samples (size,) of a window function.

    Args:
        window_type: "hamming", "hann", "hanning", "povey", "rectangular", "sine" or "blackman".
        size: number of samples.
        blackman_coeff: constant term of the Blackman window.
    """
    step, blackman = 2 * math.pi / max(size - 1, 1), float(F32(blackman_coeff))
    shapes: dict[str, Callable[[float], float]] = {
        "hamming": lambda i: 0.54 - 0.46 * math.cos(step * i),
        # torch's periodic Hann window, which Kaldi lacks.
        "hann": lambda i: 0.5 - 0.5 * math.cos(2 * math.pi / size * i),
        "hanning": lambda i: 0.5 - 0.5 * math.cos(step * i),
        "povey": lambda i: math.pow(0.5 - 0.5 * math.cos(step * i), 0.85),
        "rectangular": lambda i: 1.0,
        "sine": lambda i: math.sin(0.5 * step * i),
        "blackman": lambda i: blackman - 0.5 * math.cos(step * i) + (0.5 - blackman) * math.cos(2 * step * i),
    }
    return np.array([shapes[window_type](float(i)) for i in range(size)], F32)


def compute_dct(num_ceps: int, num_bins: int) -> Floats:
    """Return the first ``num_ceps`` rows of the orthonormal DCT-II as a matrix (num_ceps, num_bins)."""
    first_scale, scale = (float(F32(math.sqrt(numerator / num_bins))) for numerator in (1.0, 2.0))
    step = math.pi / num_bins
    rows = [[scale * math.cos(step * (n + 0.5) * k) for n in range(num_bins)] for k in range(num_ceps)]
    rows[0] = [first_scale] * num_bins
    return np.array(rows, F32)


def compute_lifter(num_ceps: int, scale: float) -> Floats:
    """Return the cepstral lifter (num_ceps,): the factors ``1 + Q/2 sin(pi i / Q)`` for scale Q, or ones if Q is 0."""
    q = float(F32(scale))
    if q == 0:
        return np.ones(num_ceps, F32)
    return np.array([1.0 + 0.5 * q * math.sin(math.pi * i / q) for i in range(num_ceps)], F32)


def compute_inverse_dft(rows: int, columns: int) -> Floats:
    """Return the matrix (rows, columns) that maps one half of a symmetric power spectrum to autocorrelations.

    The half has ``columns`` bins, from 0 to the Nyquist frequency. The autocorrelations are at lags 0 to ``rows - 1``.
    """
    angle, scale = F32(math.pi / (columns - 1)), float(F32(1.0 / (2.0 * (columns - 1))))
    matrix = np.empty((rows, columns), F32)
    for i in range(rows):
        # As in Kaldi, the angles are products of float32 numbers, and their cosines are computed in double precision.
        cosines = [math.cos(angle * F32(i) * F32(j)) for j in range(columns)]
        matrix[i] = [scale, *(2.0 * scale * c for c in cosines[1:-1]), scale * cosines[-1]]
    return matrix


def compute_equal_loudness(centers: Floats) -> Floats:
    """Return factors (num_mel_bins,) on mel energies, which model equal loudness at 40 dB (Hermansky 1990).

    ``centers`` (num_mel_bins,) are the center frequencies of the mel bins in Hz.
    """
    squares = (centers * centers).astype(np.float64)
    share = (squares / (squares + 1.6e5)).astype(F32)
    loudness: Floats = ((share * share) * ((squares + 1.44e6) / (squares + 9.61e6))).astype(F32)
    return loudness
