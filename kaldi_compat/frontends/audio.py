"""Checks of the audio that front ends take. For arrays and tensors; does not import torch."""

from __future__ import annotations

from typing import Any

from kaldi_compat.errors import WRONG_NUMBERS, AudioError, OptionError
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.functional.array_api import Array, astype, namespace
from kaldi_compat.functional.checks import check_samples, check_shape, warn_user_once

INT16_SCALE = 32768.0
# Float samples beyond this are not in -1 to 1: no resampling or mixing of such audio goes so far.
MAX_PEAK = 16.0
_ALIKE = 0.9  # correlation of two rows from which they look like channels


def checked_samples(samples: Array, preset: Preset, *, has_lengths: bool) -> Array:
    """Return audio in -1 to 1 in floating point, after checks of shape and type.

    Raises:
        AudioError: no samples, more than one channel, or samples that are neither int16 nor floating point.
    """
    scaled = on_unit_scale(samples)
    shape = tuple(samples.shape)
    if len(shape) not in (1, 2):
        raise AudioError(
            f"samples must have the shape (T,) or (B, T), not {shape}: take one channel, or the mean of the channels"
        )
    if shape[-1] == 0:
        raise AudioError(f"the audio is empty: samples of shape {shape}")
    check_shape(shape, preset.options.window_size, has_lengths=has_lengths)
    return scaled


def on_unit_scale(samples: Array) -> Array:
    """Return samples in -1 to 1: int16 divided by 32768, floating point as it is.

    Raises:
        AudioError: the samples are of another type.
    """
    check_samples(samples)
    xp = namespace(samples)
    if samples.dtype == xp.int16:
        scaled: Array = astype(samples, xp.float32) * (1 / INT16_SCALE)
        return scaled
    if samples.dtype == xp.float64 or samples.dtype == xp.float32:
        return samples
    if samples.dtype == xp.float16 or str(samples.dtype) == "torch.bfloat16":
        return astype(samples, xp.float32)
    raise AudioError(f"samples must be int16, or floating point in -1 to 1, not {samples.dtype}")


def check_values(samples: Array) -> None:
    """Raise if samples are not finite, and warn if they are on another scale than -1 to 1.

    Raises:
        AudioError: a sample is NaN or infinite.
    """
    xp = namespace(samples)
    low, high = float(samples.min()), float(samples.max())
    peak = max(-low, high)
    if not peak < float("inf"):  # of NaN too
        count = int((~xp.isfinite(samples)).sum())
        raise AudioError(f"{count} of the samples are NaN or infinite: check how the audio was decoded")
    if peak > MAX_PEAK:
        warn_user_once(
            "frontend scale",
            f"the samples reach {peak:.0f}, but the front end takes floating-point audio in -1 to 1: divide it by "
            f"32768, or pass int16 (see {WRONG_NUMBERS})",
        )


def warn_of_channels(samples: Array) -> None:
    """Warn if two rows resemble each other as the two channels of one recording do, which are no batch."""
    if samples.ndim == 2 and len(samples) == 2:
        left, right = samples[0], samples[1]
        product, powers = float((left * right).sum()), float((left * left).sum()) * float((right * right).sum())
        if product > _ALIKE * powers**0.5 > 0:
            warn_user_once(
                "frontend channels",
                "two rows of audio are almost the same: if they are the channels of one recording, take one of them or "
                "their mean, samples.mean(0), because rows are utterances of a batch "
                f"(see {WRONG_NUMBERS})",
            )


def check_sampling_rate(sampling_rate: Any, preset: Preset, *, resample: bool) -> int:
    """Return the sampling rate of the audio in Hz, which is the preset's if it is not given.

    Raises:
        AudioError: the rate differs from the preset's and ``resample`` is False.
        OptionError: the rate is not a positive whole number.
    """
    wanted = preset.sampling_rate
    if sampling_rate is None:
        return wanted
    try:
        rate = int(sampling_rate)
    except (TypeError, ValueError, OverflowError):
        rate = 0
    if rate <= 0 or rate != sampling_rate:
        raise OptionError(f"sampling_rate must be a positive whole number of Hz, not {sampling_rate!r}")
    if rate != wanted and not resample:
        raise AudioError(
            f"the audio is sampled at {rate} Hz, but the preset {preset.name!r} takes {wanted} Hz: resample it, or "
            "make the front end with resample=True"
        )
    return rate
