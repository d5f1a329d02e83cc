"""Checks of what a feature is called with."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kaldi_compat.array_api import is_recorded
from kaldi_compat.errors import AudioError, OptionError

__all__ = ["Warps", "check_scale", "checked_samples", "normalized_warps", "warn_user_once"]

# One VTLN factor, or one for each utterance.
Warps = float | tuple[float, ...]

_warned: set[str] = set()


def checked_samples(samples: Tensor, window_size: int, *, has_lengths: bool = False) -> Tensor:
    """Return audio as it is, or raise.

    Raises:
        AudioError: the samples are not real numbers of shape (T,) or (B, T), or the time axis seems to be the first.
    """
    if samples.dim() < 1 or samples.is_complex() or samples.dtype == torch.bool:
        raise AudioError(
            f"samples must be real numbers of shape (T,) or (B, T), not {samples.dtype} of shape {tuple(samples.shape)}"
        )
    if samples.dim() > 1 and not has_lengths and not is_recorded(samples):
        rows, width = samples.shape[-2:]
        if 0 < width < window_size <= rows:
            raise AudioError(
                f"samples of shape {tuple(samples.shape)} are {rows} utterances of {width} samples, less than one "
                f"frame of {window_size}: the last axis is time, so transpose audio of shape (T, channels) or take one "
                "channel; for a batch of such short audio, pass lengths"
            )
    return samples


def normalized_warps(vtln_warp: Any, leading_shape: Sequence[int]) -> Warps:
    """Return VTLN factors, however they are given, as one float or one for each row.

    Raises:
        AudioError: their number is not that of the rows.
        OptionError: they are not numbers.
    """
    if isinstance(vtln_warp, (float, int)):
        return float(vtln_warp)
    try:
        factors = torch.as_tensor(vtln_warp, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        raise OptionError(f"vtln_warp must be a number, or one for each utterance, not {vtln_warp!r}") from None
    if factors.dim() == 0:
        return float(factors)
    if tuple(factors.shape) != tuple(leading_shape):
        raise AudioError(
            f"vtln_warp has the shape {tuple(factors.shape)}, the batch of utterances {tuple(leading_shape)}: "
            "pass one factor, or one for each utterance"
        )
    return tuple(factors.flatten().tolist())


def check_scale(samples: Tensor, waveform_scale: float) -> bool:
    """Warn if audio is on the scale -1 to 1 and not on Kaldi's; return False if it is silent, so that nobody can tell.

    On a CUDA graph under capture nothing can be looked at: returns False.
    """
    if samples.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    peak = float(samples.detach().abs().max()) * waveform_scale if samples.numel() else 0.0
    if 0 < peak <= 1:
        warn_user_once(
            "scale",
            f"the samples lie within -1 to 1 (largest {peak:.3g}), but Kaldi's features are defined on 16-bit integers: "
            "pass waveform_scale=32768, or ignore this warning if the signal really is that quiet",
        )
    return peak > 0


def warn_user_once(reason: str, message: str) -> None:
    """Warn once per process and reason, at the line of the caller outside torch and this package."""
    if reason in _warned:
        return
    _warned.add(reason)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "kaldi_compat",
        "torch",
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
