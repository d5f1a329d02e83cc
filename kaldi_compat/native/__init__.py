"""The exact engine in C (optional): features with the bits of Kaldi, one frame per SIMD lane."""

from __future__ import annotations

import os

from io_ark.native.library import Library, load

__all__ = ["FUNCTIONS", "library"]

FUNCTIONS = (
    "convolve",
    "dot",
    "interpolate_pitch",
    "matrix_batch",
    "matrix_products",
    "pitch_correlate",
    "pitch_interpolate",
    "pitch_search",
    "pitch_track",
    "ragged_affine",
    "ragged_append",
    "ragged_columns",
    "ragged_filter",
    "ragged_products",
    "ragged_sliding",
    "ragged_smooth_pitch",
    "ragged_splice",
    "ragged_stats",
    "ragged_vad",
    "ragged_weighted_stats",
    "ragged_window_means",
    "resample",
    "resample_chunks",
    "signal_sums",
    "spectral_features",
    "sum",
)
"""Functions of the library that this package calls. A library without one of them was built from other sources."""


_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def library() -> Library:
    """Return the library of this package; false if it was not built or is switched off."""
    return load(_DIRECTORY, *FUNCTIONS)
