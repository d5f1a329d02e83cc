"""Checks of the arguments of features, for arrays and tensors. Does not import torch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kaldi_compat.errors import AudioError, OptionError

if TYPE_CHECKING:
    from typing_extensions import Self

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
        each = f"{shape[-1]} sample{'s' * (shape[-1] != 1)}"
        raise AudioError(
            f"samples of shape {tuple(shape)} are {shape[-2]} utterances of {each}, and a frame has {window_size}: the "
            "last axis is time, so transpose audio of shape (T, channels) or take one channel; for a batch of such "
            "short audio, pass lengths"
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


class KnowsScale:
    """Base class of the features: warns, once per process, of audio on the scale -1 to 1 instead of Kaldi's."""

    warns_of_scale = True

    def trust_scale(self) -> Self:
        """Never warn of the scale of the audio: whoever configured the feature knows it. Return the feature."""
        self.warns_of_scale = False
        return self

    def check_scale(self, samples: Any, waveform_scale: float) -> float:
        """Warn if floating-point samples lie within -1 to 1. Return the largest one that was looked at."""
        if not self.warns_of_scale or 0 in samples.shape:
            return 0.0
        # Of audio on Kaldi's scale nearly every sample is greater than 1, so that one of each row tells.
        middle = samples[..., samples.shape[-1] // 2]
        peak = (abs(float(middle)) if samples.ndim == 1 else float(abs(middle).max())) * waveform_scale
        if 0 <= peak <= 1:
            peak = float(abs(samples).max()) * waveform_scale
        if not 0 <= peak <= 1:
            return peak
        if peak > 0:
            warn_user_once(
                "scale",
                f"the samples lie within -1 to 1 (largest {peak:.3g}), but Kaldi's features are defined on 16-bit "
                "integers: pass waveform_scale=32768, or ignore this warning if the signal really is that quiet",
            )
        return peak


def warn_user_once(reason: str, message: str) -> None:
    """Warn once per process and reason, as :func:`warn_user` does."""
    if reason not in _warned:
        _warned.add(reason)
        warn_user(message)


def warn_user(message: str) -> None:
    """Warn at the line of the caller outside torch and this package."""
    level, frame = 1, sys._getframe()
    ours = ("kaldi_compat", "torch", "")  # torch runs code without a name, too
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
