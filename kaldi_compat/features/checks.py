"""Checks of the arguments of features, for arrays and tensors. Does not import torch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from kaldi_compat.errors import AudioError, OptionError

__all__ = ["Warps", "check_shape", "normalized_warps", "warn_of_scale", "warn_user_once"]

# One VTLN factor, or one for each utterance.
Warps = float | tuple[float, ...]

_warned: set[str] = set()


def check_shape(shape: Sequence[int], window_size: int, *, has_lengths: bool = False) -> None:
    """Raise unless audio of this shape can be (T,) or (B, T).

    Raises:
        AudioError: there is no axis, or the time axis seems to be the first of two.
    """
    if len(shape) < 1:
        raise AudioError("samples must have the shape (T,) or (B, T), not ()")
    if len(shape) > 1 and not has_lengths and 0 < shape[-1] < window_size <= shape[-2]:
        raise AudioError(
            f"samples of shape {tuple(shape)} are {shape[-2]} utterances of {shape[-1]} samples, and a frame has "
            f"{window_size}: the last axis is time, so transpose audio of shape (T, channels) or take one channel; for "
            "a batch of such short audio, pass lengths"
        )


def normalized_warps(vtln_warp: Any, leading_shape: Sequence[int]) -> Warps:
    """Return VTLN factors, however they are given, as one float or one for each row.

    Raises:
        AudioError: their number is not that of the rows.
        OptionError: they are not numbers.

    >>> from kaldi_compat.features.checks import normalized_warps
    >>> normalized_warps([1, 1.5], (2,)), normalized_warps(1, (2,))
    ((1.0, 1.5), 1.0)
    """
    if isinstance(vtln_warp, (float, int)):
        return float(vtln_warp)
    try:
        values = vtln_warp.tolist() if hasattr(vtln_warp, "tolist") else vtln_warp
        factors = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"vtln_warp must be a number, or one for each utterance, not {vtln_warp!r}") from None
    if factors.ndim == 0:
        return float(factors)
    if factors.shape != tuple(leading_shape):
        raise AudioError(
            f"vtln_warp has the shape {factors.shape}, the batch of utterances {tuple(leading_shape)}: pass one "
            "factor, or one for each utterance"
        )
    return tuple(factors.ravel().tolist())


def warn_of_scale(peak: float) -> None:
    """Warn, once per process, if the largest sample shows that audio is on the scale -1 to 1 and not on Kaldi's."""
    if 0 < peak <= 1:
        warn_user_once(
            "scale",
            f"the samples lie within -1 to 1 (largest {peak:.3g}), but Kaldi's features are defined on 16-bit "
            "integers: pass waveform_scale=32768, or ignore this warning if the signal really is that quiet",
        )


def warn_user_once(reason: str, message: str) -> None:
    """Warn once per process and reason, at the line of the caller outside torch and this package."""
    if reason in _warned:
        return
    _warned.add(reason)
    level, frame = 1, sys._getframe()
    ours = ("kaldi_compat", "torch")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
