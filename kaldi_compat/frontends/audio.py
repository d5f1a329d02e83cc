"""Checks of the audio that front ends take, for arrays and tensors. Does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from io_ark.text import quote_value
from kaldi_compat.errors import WRONG_NUMBERS, AudioError, OptionError
from kaldi_compat.exact.resample import MAX_RATE, count_resampled
from kaldi_compat.exact.sums import sum_in_order
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.functional.array_api import UNTRACED, Array, Tracing, astype, convert_like, get_namespace
from kaldi_compat.functional.batches import check_lengths, zero_padding
from kaldi_compat.functional.checks import (
    CheckedAudio,
    check_samples,
    check_shape,
    refuse_rate_as_lengths,
    warn_user_once,
)

INT16_SCALE = 32768.0
# Peak above which audio that should be in -1 to 1 causes a warning. Resampled or mixed audio may exceed 1, but does not
# reach this peak.
MAX_PEAK = 16.0
MIN_CORRELATION = 0.9  # Two rows with a larger correlation are probably the channels of one recording.


def prepare_audio(
    samples: Array,
    lengths: Any,
    rate: int,
    preset: Preset,
    size: int,
    resample: Callable[[Array, Any, int, int], Array],
    tracing: Tracing = UNTRACED,
) -> CheckedAudio:
    """Check audio, convert it to the scale -1 to 1, and resample it to the sampling rate of a preset.

    Samples beyond the length of a row become 0. If the preset subtracts the mean, the mean of the resampled valid
    samples of each row is then subtracted from all samples of the row.

    Args:
        samples: audio, (T,) or a batch (B, T), int16 or floating point in -1 to 1.
        lengths: number of valid samples in each row, (B,); None if all samples are valid.
        rate: sampling rate of the audio in Hz.
        preset: preset, which determines the sampling rate of the result, and whether the mean is subtracted.
        size: number of samples in a frame at the preset's sampling rate.
        resample: function from audio, the lengths of the rows, the rate and the new rate to the resampled audio.
        tracing: flags of the tools that record the operations on the samples.

    Returns:
        Audio on the scale -1 to 1 (see :func:`scale_to_unit`), and the resampled lengths of the rows, or None.

    Raises:
        AudioError: the audio is empty, has NaN, infinities, a wrong shape or type, or lengths that do not match.
    """
    if lengths is not None:
        refuse_rate_as_lengths(lengths, "For audio at {rate} Hz, pass sampling_rate={rate}")
    audio = scale_to_unit(samples)
    shape, target = tuple(samples.shape), preset.sampling_rate
    if not tracing.traced:
        if len(shape) not in (1, 2):
            raise AudioError(
                f"samples must have the shape (T,) or (B, T), not {shape}: take one channel, or the mean of the "
                "channels"
            )
        if shape[-1] == 0:
            raise AudioError(f"the audio is empty: samples of shape {shape}; leave out the utterance")
        if len(shape) > 1 and lengths is None:
            check_shape(shape, size)
    row_lengths = None
    if lengths is not None:
        row_lengths = convert_like(check_lengths(lengths, audio, -1, AudioError), audio)
        audio = zero_padding(audio[..., None], row_lengths)[..., 0]
    if not tracing.traced_or_differentiated and (isinstance(audio, np.ndarray) or audio.device.type == "cpu"):
        check_values(audio)
        if row_lengths is None:
            warn_of_channels(audio)
    if rate != target:
        audio = resample(audio, row_lengths, rate, target)
        row_lengths = None if row_lengths is None else convert_like(count_resampled(row_lengths, rate, target), audio)
    if preset.subtract_clip_mean:
        audio = _subtract_mean(audio, row_lengths)
    return CheckedAudio(audio, row_lengths, tracing=tracing)


def _subtract_mean(audio: Array, row_lengths: Any) -> Array:
    """Subtract the mean of each row's valid samples from all samples of the row. ``audio`` is (T,) or (B, T).

    ``row_lengths`` are the numbers of valid samples, (B,); None if all samples are valid. Other samples must be 0.
    """
    xp = get_namespace(audio)
    count = audio.shape[-1] if row_lengths is None else xp.clip(row_lengths, 1, None)[..., None]
    # torch adds pairs of partial sums, so that rounding errors stay small without double precision.
    total: Any = sum_in_order(audio, -1) if isinstance(audio, np.ndarray) else xp.sum(audio, -1, keepdim=True)
    centered: Array = audio - astype(total / count, audio.dtype)
    return centered


def has_short_row(audio: CheckedAudio, size: int) -> bool:
    """Return True if a row of audio is known to be shorter than a frame of ``size`` samples.

    Return False while a tool records the operations. Lengths on a GPU are not read, because reading would wait for the
    GPU. A short row that is not recognized has no frames.
    """
    if audio.tracing.traced:
        return False
    if audio.samples.shape[-1] < size or audio.lengths is None:
        return bool(audio.samples.shape[-1] < size)
    is_readable = isinstance(audio.lengths, np.ndarray) or audio.lengths.device.type == "cpu"
    return is_readable and bool((audio.lengths < size).any())


def scale_to_unit(samples: Array) -> Array:
    """Return samples on the scale -1 to 1, as float32, or as float64 for a float64 tensor.

    Divide int16 samples by 32768. Keep the values of floating-point samples. Raise AudioError for other types.
    """
    check_samples(samples)
    xp = get_namespace(samples)
    if samples.dtype == xp.int16:
        scaled: Array = astype(samples, xp.float32) * (1 / INT16_SCALE)
        return scaled
    if samples.dtype == xp.float32 or (samples.dtype == xp.float64 and xp is not np):
        return samples
    if samples.dtype in (xp.float16, xp.float64) or str(samples.dtype) == "torch.bfloat16":
        return astype(samples, xp.float32)
    raise AudioError(f"samples must be int16, or floating point in -1 to 1, not {samples.dtype}: convert them")


def check_values(samples: Array) -> None:
    """Raise :class:`AudioError` if a sample is NaN or infinite. Warn once if a sample is far beyond -1 to 1."""
    if 0 in samples.shape:
        return
    xp = get_namespace(samples)
    low, high = float(samples.min()), float(samples.max())
    peak = max(-low, high)
    if not peak < float("inf"):  # The negated comparison is also True for NaN.
        count = int((~xp.isfinite(samples)).sum())
        raise AudioError(f"{count} of the samples are NaN or infinite: check how the audio was decoded")
    if peak > MAX_PEAK:
        warn_user_once(
            "frontend scale",
            f"the samples reach {peak:.0f}, but the front end takes floating-point audio in -1 to 1: divide it by "
            f"32768, or pass int16 (see {WRONG_NUMBERS})",
        )


def warn_of_channels(samples: Array) -> None:
    """Warn once if ``samples`` are two rows (2, T) that are probably the channels of one recording."""
    if samples.ndim == 2 and len(samples) == 2:
        left, right = samples[0], samples[1]
        product, powers = float((left * right).sum()), float((left * left).sum()) * float((right * right).sum())
        if product > MIN_CORRELATION * powers**0.5 > 0:
            warn_user_once(
                "frontend channels",
                "two rows of audio are almost the same: if they are the channels of one recording, take one of them or "
                "their mean, samples.mean(0), because rows are utterances of a batch "
                f"(see {WRONG_NUMBERS})",
            )


def check_sampling_rate(sampling_rate: Any, preset: Preset, *, resample: bool) -> int:
    """Check the sampling rate of audio in Hz, and return it as an integer.

    Raises:
        AudioError: the rate differs from the rate of the preset, and ``resample`` is False.
        OptionError: the rate is not a positive whole number, or is too large.
    """
    target = preset.sampling_rate
    try:
        rate = int(sampling_rate)
    except (TypeError, ValueError, OverflowError):
        rate = 0
    if not 0 < rate < MAX_RATE or rate != sampling_rate:
        raise OptionError(
            f"sampling_rate must be a positive whole number of Hz below {MAX_RATE:g}, not {quote_value(sampling_rate)}"
        )
    if rate != target and not resample:
        raise AudioError(
            f"the audio is sampled at {rate} Hz, but the preset {preset.name!r} takes {target} Hz: resample the audio, "
            "or make the front end with resample=True"
        )
    return rate
