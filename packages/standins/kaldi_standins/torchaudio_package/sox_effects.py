"""torchaudio's ``sox_effects``, which torchaudio removed in version 2.9, without SoX.

This module computes the effects speed, rate, gain, norm, channels, trim and ``remix -``. All other effects raise an
error: use the program ``sox``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError, OptionError
from kaldi_standins.torchaudio_package.files import load

__all__ = ["apply_effects_file", "apply_effects_tensor"]

Samples = npt.NDArray[np.float64]  # Samples of shape (T, channels).

# Low-pass filter of SoX's effect rate at its default quality, measured in the output of SoX 14.4.2. It is a sinc in a
# Kaiser window of shape BETA and of LENGTH samples at the lower rate. The amplitude is half at CUTOFF times the lower
# Nyquist frequency, and 126 dB less from that frequency on.
CUTOFF, BETA, LENGTH = 0.9568, 12.97, 196
# Largest number of phases of the resampling filters. A ratio of rates is rounded to a fraction with a denominator of at
# most this number, which changes the ratio by up to 4e-9.
MAX_PHASES = 2**14


def apply_effects_tensor(
    tensor: Tensor, sample_rate: int, effects: Sequence[Sequence[Any]], channels_first: bool = True
) -> tuple[Tensor, int]:
    """Apply effects of SoX to audio.

    Args:
        tensor: samples in -1 to 1, (channels, T).
        sample_rate: sampling rate in Hz.
        effects: lists of an effect's name and its arguments. ``["speed", "0.9"]`` changes only the sampling rate.
            ``["rate", "16000"]`` resamples with a filter like SoX's. ``["gain", "-6"]``, ``["gain", "-n", "-3"]`` and
            ``["norm", "-3"]`` take dB. ``["channels", "1"]`` and ``["remix", "-"]`` mix channels.
            ``["trim", "0.5", "2"]`` selects two seconds from 0.5 s on. In ``trim``, ``=2`` is a time from the start,
            and ``100s`` is a number of samples.
        channels_first: False for samples (T, channels).

    Returns:
        float32 samples in the layout of ``tensor``, and their sampling rate in Hz, rounded down to an integer. As in
        SoX, each effect clips to -1 to 1.

    Raises:
        AudioError: the samples do not have two axes.
        OptionError: an effect is not supported, or an argument is invalid.

    >>> import torch
    >>> from kaldi_standins.torchaudio_package.sox_effects import apply_effects_tensor
    >>> samples, rate = apply_effects_tensor(torch.zeros(1, 16000), 16000, [["speed", "0.8"], ["rate", "16000"]])
    >>> samples.shape, rate
    (torch.Size([1, 20000]), 16000)
    """
    if tensor.ndim != 2:
        layout = "(channels, T)" if channels_first else "(T, channels)"
        raise AudioError(f"expected samples of shape {layout}, not {tuple(tensor.shape)}: reshape the samples")
    audio = np.clip((tensor.T if channels_first else tensor).detach().to("cpu", torch.float64).numpy(), -1, 1)
    rate = Fraction(sample_rate)
    for name, *arguments in effects:
        words = [str(argument) for argument in arguments]
        try:
            audio, rate = EFFECTS[name](audio, rate, *words)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            effect = " ".join([str(name), *words])
            raise OptionError(
                f"cannot apply the effect {effect!r}: use speed, rate, gain, norm, channels or trim with numeric "
                "arguments, 'remix -', or the program sox"
            ) from None
        audio = np.clip(audio, -1, 1)
    samples = torch.from_numpy(audio.astype(np.float32))
    return (samples.T.contiguous() if channels_first else samples), int(rate)


def apply_effects_file(
    path: Any,
    effects: Sequence[Sequence[Any]],
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
) -> tuple[Tensor, int]:
    """Read an audio file and apply effects of SoX. See :func:`apply_effects_tensor` for the effects and the result.

    Args:
        path: path or open file.
        effects: lists with the name of an effect and its arguments.
        normalize, format: ignored.
        channels_first: False to return samples (T, channels).

    Raises:
        AudioError: the file cannot be read.
        MissingExtraError: soundfile is not installed.
        OptionError: an effect is not supported, or an argument is invalid.

    >>> import tempfile, torch
    >>> from kaldi_standins.torchaudio_package import save, sox_effects
    >>> save(path := tempfile.mkdtemp() + "/audio.wav", torch.zeros(1, 8000), 16000)
    >>> sox_effects.apply_effects_file(path, [["speed", "0.8"]])[1]
    12800
    """
    return apply_effects_tensor(*load(path, channels_first=channels_first), effects, channels_first)


def _apply_speed(audio: Samples, rate: Fraction, factor: str) -> tuple[Samples, Fraction]:
    return audio, rate * _parse_positive(factor)


def _apply_rate(audio: Samples, rate: Fraction, target: str) -> tuple[Samples, Fraction]:
    """Resample audio (T, channels) to ``target``, such as "16000" or "16k". Return the audio and the new rate in Hz.

    An output sample is the dot product of the surrounding input samples and the Kaiser-windowed sinc filter for its
    phase. A ratio of rates with more than MAX_PHASES phases is approximated. Raise ValueError for an invalid target.
    """
    new_rate = _parse_positive(target[:-1]) * 1000 if target[-1:] == "k" else _parse_positive(target)
    step = (rate / new_rate).limit_denominator(MAX_PHASES)  # Number of input samples per output sample.
    if step == 1:
        return audio, new_rate
    period, phases = step.numerator, step.denominator  # Numbers of input and output samples in a period.
    cutoff = CUTOFF * min(1, phases / period)
    half_length = LENGTH / 2 * max(1, period / phases)
    reach = int(half_length) + 1  # Number of input samples on each side of an output sample.
    output_count = int(len(audio) * new_rate / rate + Fraction(1, 2))
    resampled = np.zeros((-(-output_count // phases), phases, audio.shape[1]))
    padded = np.pad(audio, ((reach, reach + period + 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=0)
    for first_phase in range(0, phases, 64):  # Compute the filters of 64 phases at a time to limit the memory.
        starts, remainders = np.divmod(np.arange(first_phase, min(first_phase + 64, phases)) * period, phases)
        times = np.arange(-reach, reach + 1) - remainders[:, None] / phases
        kaiser = np.i0(BETA * np.sqrt(np.maximum(1 - (times / half_length) ** 2, 0))) / np.i0(BETA)
        filters = cutoff * np.sinc(cutoff * times) * kaiser * (np.abs(times) <= half_length)
        for phase, (start, taps) in enumerate(zip(starts, filters, strict=True), first_phase):
            outputs = windows[start::period][: len(resampled)] @ taps
            resampled[: len(outputs), phase] = outputs
    return resampled.reshape(-1, audio.shape[1])[:output_count], new_rate


def _apply_gain(audio: Samples, rate: Fraction, *words: str) -> tuple[Samples, Fraction]:
    """Multiply audio by a gain in dB, the last word (default 0). After the word "-n", first scale the peak to 1."""
    normalizes = words[:1] == ("-n",)
    (decibels,) = (words[1:] if normalizes else words) or ("0",)
    peak = float(np.abs(audio).max(initial=0)) if normalizes else 1.0
    return audio * (10 ** (float(decibels) / 20) / (peak or 1.0)), rate


def _apply_norm(audio: Samples, rate: Fraction, *words: str) -> tuple[Samples, Fraction]:
    return _apply_gain(audio, rate, "-n", *words)


def _apply_channels(audio: Samples, rate: Fraction, channel_count: str) -> tuple[Samples, Fraction]:
    """Mix or copy channels to get ``channel_count`` channels. Raise ValueError unless it is a positive integer.

    Output i is the mean of inputs i, i + outputs, ... Without such inputs, output i is a copy of input ``i % inputs``.
    """
    inputs, outputs = audio.shape[1], int(channel_count)
    if outputs < 1:
        raise ValueError
    mixed = [audio[:, i::outputs].mean(1) if i < inputs else audio[:, i % inputs] for i in range(outputs)]
    return np.stack(mixed, 1), rate


def _apply_remix(audio: Samples, rate: Fraction, mix: str) -> tuple[Samples, Fraction]:
    """Mix all channels to one. Raise ValueError if ``mix`` is not "-"."""
    if mix != "-":
        raise ValueError
    return audio.mean(1, keepdims=True), rate


def _apply_trim(audio: Samples, rate: Fraction, first: str, last: str = "-0") -> tuple[Samples, Fraction]:
    """Return the audio from the position ``first`` to the position ``last`` (exclusive), by default its end.

    See :func:`_parse_position` for the form of positions. Raise ValueError if ``first`` is after ``last``.
    """
    start = _parse_position(first, 0, len(audio), rate)
    end = _parse_position(last, start, max(len(audio), start), rate)
    if start > end:
        raise ValueError
    return audio[start:end], rate


def _parse_position(word: str, previous: int, total: int, rate: Fraction) -> int:
    """Convert a position in audio of ``total`` samples to a sample index. Raise ValueError for an invalid position.

    The sign says whether the position is after the sample ``previous`` (+, the default), after the start (=) or before
    the end (-). The number after the sign is in seconds ("1.5", "1:30") or in samples ("100s").
    """
    sign, number = (word[0], word[1:]) if word[:1] in ("=", "-", "+") else ("+", word)
    parts = number.removesuffix("s").split(":")
    if min(map(float, parts)) < 0:
        raise ValueError
    count = sum(Fraction(part) * 60**i for i, part in enumerate(reversed(parts)))
    samples = int(count if number.endswith("s") else count * rate + Fraction(1, 2))
    return {"+": previous + samples, "=": samples, "-": total - samples}[sign]


def _parse_positive(number: str) -> Fraction:
    """Convert a string to a number. Raise ValueError for a number that is not positive."""
    value = Fraction(number)
    if value <= 0:
        raise ValueError
    return value


EFFECTS: dict[str, Callable[..., tuple[Samples, Fraction]]] = {
    "speed": _apply_speed, "rate": _apply_rate, "gain": _apply_gain, "norm": _apply_norm,
    "channels": _apply_channels, "trim": _apply_trim, "remix": _apply_remix,
}  # fmt: skip
