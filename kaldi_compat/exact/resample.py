"""Audio at another sampling rate, with the bits of Kaldi's src/feat/resample.cc (LinearResample, ResampleWaveform)."""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.errors import OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.sums import dot
from kaldi_compat.native import Structure

F32 = np.float32
_BIGGEST_VECTOR = 64  # bytes
AT_ONCE = 8192  # output samples computed at once in NumPy
MAX_WEIGHTS = 1 << 22  # of all filters


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of one period, after which both rates coincide again: output sample ``i`` has a filter of its own."""

    period: int  # input samples in a period
    first: tuple[int, ...]  # the input sample that each filter begins at, counted from the period's start
    weights: tuple[Floats, ...]  # the filters, which may differ in length by one

    def first_of(self, output: int) -> int:
        """Return the input sample that the filter of an output sample begins at."""
        return self.first[output % len(self.first)] + output // len(self.first) * self.period

    def end_of(self, output: int) -> int:
        """Return the input sample after the last one of an output sample's filter."""
        return self.first_of(output) + len(self.weights[output % len(self.first)])

    @functools.cached_property
    def for_c(self) -> Structure:
        """The filters as the C library reads them."""
        taps = np.array([len(each) for each in self.weights])
        return native.structure("resampling_filters")(
            phases=len(taps),
            period=self.period,
            longest=int(taps.max()),
            first=np.array(self.first),
            taps=taps,
            offset=np.cumsum(taps) - taps,
            weights=np.concatenate(self.weights),
        )

    def memory(self) -> npt.NDArray[np.uint8]:
        """Return memory for the C library to work in."""
        return np.empty((max(map(len, self.weights)) + 1) * _BIGGEST_VECTOR, np.uint8)


@functools.lru_cache(maxsize=32)  # a search for the front end of an array tries a dozen, again and again
def resampling_filters(rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> Filters:
    """Return the filters for two sampling rates and a cutoff, all in Hz, the cutoff in float32."""
    common = math.gcd(rate_in, rate_out)
    width = num_zeros / (2.0 * cutoff)
    first, weights = [], []
    for i in range(rate_out // common):
        center = i / rate_out
        begin, end = math.ceil((center - width) * rate_in), math.floor((center + width) * rate_in) + 1
        taps = [_windowed_sinc(float(F32(j / rate_in - center)), cutoff, num_zeros) for j in range(begin, end)]
        first.append(begin)
        weights.append(np.array(taps, F32) / F32(rate_in))
    return Filters(rate_in // common, tuple(first), tuple(weights))


def _windowed_sinc(time: float, cutoff: float, num_zeros: int) -> np.float32:
    """Return the low-pass filter at a time in seconds: sinc, window and their product are each rounded to float32."""
    inside = abs(time) < num_zeros / (2.0 * cutoff)
    window = F32(0.5 * (1 + math.cos(2 * math.pi * cutoff / num_zeros * time)) if inside else 0.0)
    sinc: np.float32 = F32(math.sin(2 * math.pi * cutoff * time) / (math.pi * time) if time else 2 * cutoff)
    product: np.float32 = sinc * window
    return product


@dataclass(frozen=True)
class PeriodFilters:
    """The filters of one period as tables of equal length, for tensors."""

    period: int  # number of input samples in a period
    phases: int  # number of output samples in a period, each with its own filter
    first: int  # first input sample of the first filter, relative to the start of the period: 0 or less
    reach: int  # number of input samples from there to the end of the last filter
    starts: Any  # ``(phases,)``: first input sample of each filter, relative to ``first``
    weights: Any  # ``(phases, taps)``: the filters; shorter ones end with a zero

    @classmethod
    def of(cls, filters: Filters) -> PeriodFilters:
        """Return the tables of filters, in NumPy."""
        taps = max(map(len, filters.weights))
        starts = np.array(filters.first) - filters.first[0]
        return cls(
            period=filters.period,
            phases=len(starts),
            first=filters.first[0],
            reach=int(starts[-1]) + taps,
            starts=starts,
            weights=np.stack([np.pad(each, (0, taps - len(each))) for each in filters.weights]),
        )


def num_resampled(num_samples: Any, rate_in: int, rate_out: int) -> Any:
    """Return the number of samples at ``rate_out`` that begin within ``num_samples`` (int or array) at ``rate_in``.

    >>> num_resampled(16001, 16000, 8000)
    8001
    """
    return ceil_divided(num_samples * rate_out, rate_in)


def ceil_divided(count: Any, by: int) -> Any:
    """Return a quotient of positive numbers, rounded up."""
    return (count + by - 1) // by  # ONNX rounds the quotients of negative numbers up


def check_rates(rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> None:
    """Raise :class:`OptionError` if these do not make a filter: see :func:`linear_resample`."""
    if not (rate_in > 0 and rate_out > 0 and num_zeros > 0 and 0 < 2 * cutoff <= min(rate_in, rate_out)):
        raise OptionError(
            f"cannot resample from {rate_in} to {rate_out} Hz with cutoff={cutoff:g} Hz and num_zeros={num_zeros}: all "
            "must be positive and the cutoff at most half of either rate"
        )
    filters, taps = rate_out // math.gcd(rate_in, rate_out), num_zeros * rate_in / cutoff
    if filters * taps > MAX_WEIGHTS:
        raise OptionError(
            f"cannot resample from {rate_in:g} to {rate_out:g} Hz: these rates need {filters:.3g} filters of "
            f"{taps:.3g} samples; choose rates with a large common divisor"
        )


def linear_resample(
    samples: npt.NDArray[np.float32], rate_in: int, rate_out: int, cutoff: float, num_zeros: int
) -> Floats:
    """Return audio at another sampling rate (Kaldi: LinearResample, flushed).

    Args:
        samples: float32 of shape (T,); beyond its ends there is silence.
        rate_in: sampling rate in Hz.
        rate_out: the rate wanted, in Hz.
        cutoff: cutoff frequency of the low-pass filter in Hz: at most half of either rate.
        num_zeros: width of the filter; more is sharper and slower.

    Returns:
        Float32 of shape (ceil(T * rate_out / rate_in),).

    Raises:
        OptionError: rates, cutoff or width that make no filter.

    >>> linear_resample(np.ones(16000, np.float32), 16000, 8000, 3960.0, 6).shape
    (8000,)
    """
    check_rates(rate_in, rate_out, cutoff, num_zeros)
    filters = resampling_filters(rate_in, rate_out, float(F32(cutoff)), num_zeros)
    return resample_chunk(samples, filters, (0, num_resampled(len(samples), rate_in, rate_out)))


def resample_chunk(
    samples: npt.NDArray[Any], filters: Filters, outputs: tuple[int, int], chunk_start: int = 0
) -> Floats:
    """Return some output samples of audio that arrives in chunks (Kaldi: LinearResample::Resample).

    Args:
        samples: int16 or float32 of shape (T,): the audio up to the chunk's end.
        filters: the resampling filters from one rate to the other.
        outputs: the first output sample, and the one after the last.
        chunk_start: where the chunk starts: filters that reach back further are summed up in another order.
    """
    chunk = 0, len(samples), chunk_start, outputs[0], max(outputs)
    return resample_chunks(samples, filters, np.array([chunk]))


def _resample_by_phase(
    samples: npt.NDArray[Any], filters: Filters, outputs: tuple[int, int], chunk_start: int
) -> Floats:
    first, end = outputs_inside(filters, outputs, chunk_start, len(samples))
    audio, out, phases = samples.astype(F32), np.empty(outputs[1] - outputs[0], F32), len(filters.first)
    for start in range(first, end, AT_ONCE):
        some = np.arange(start, min(start + AT_ONCE, end))
        for phase, weights in enumerate(filters.weights):
            chosen = some[some % phases == phase]
            begin = filters.first[phase] + chosen // phases * filters.period
            out[chosen - outputs[0]] = dot(audio[begin[:, None] + np.arange(len(weights))], weights)
    for output in (*range(outputs[0], min(first, outputs[1])), *range(max(end, outputs[0]), outputs[1])):
        out[output - outputs[0]] = _edge(audio, filters.first_of(output), filters.weights[output % phases])
    return out


def _resample_chunks_in_c(samples: npt.NDArray[Any], filters: Filters, chunks: npt.NDArray[np.int64]) -> Floats:
    samples, is_float = _for_c(samples)
    starts, counts, _, first, end = chunks.T
    if (chunks < 0).any() or (starts + counts > len(samples)).any() or (end < first).any():
        raise ValueError(f"chunks that do not lie within {len(samples)} samples")
    places = np.cumsum(end - first) - (end - first)
    table = np.ascontiguousarray(np.column_stack((chunks, places)), np.int64)
    out = np.empty(int((end - first).sum()), np.float32)
    native.function("resample_chunks")(filters.for_c, samples, is_float, table, len(table), filters.memory(), out)
    return out


@native.twin(_resample_chunks_in_c)
def resample_chunks(samples: npt.NDArray[Any], filters: Filters, chunks: npt.NDArray[np.int64]) -> Floats:
    """Compute :func:`resample_chunk` of chunks of the audio of some utterances.

    Args:
        samples: int16 or float32 of shape (T,): of all utterances.
        filters: the resampling filters from one rate to the other.
        chunks: (chunks, 5): where the utterance starts, its samples up to the chunk's end, where in the utterance the
            chunk starts, the first output sample and the one after the last. The chunks of an utterance follow each
            other, and so do their outputs.

    Returns:
        The outputs of all chunks, one after the other.
    """
    parts = [
        _resample_by_phase(samples[start : start + count], filters, (first, end), begin)
        for start, count, begin, first, end in chunks.tolist()
    ]
    return np.concatenate([np.empty(0, F32), *parts])


def _for_c(samples: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], bool]:
    """Return contiguous samples, and True if they are float32, not int16."""
    if samples.dtype not in (np.int16, np.float32) or samples.ndim != 1:
        raise ValueError("samples must be int16 or float32 of shape (T,)")
    return np.ascontiguousarray(samples), samples.dtype == np.float32


def outputs_inside(filters: Filters, outputs: tuple[int, int], begin: int, end: int) -> tuple[int, int]:
    """Return which of the outputs have filters that lie within the samples ``begin`` to ``end``."""
    wanted = range(*outputs)
    first = outputs[0] + bisect.bisect_left(wanted, begin, key=filters.first_of)
    return first, max(first, outputs[0] + bisect.bisect_right(wanted, end, key=filters.end_of))


def _edge(samples: Floats, first: int, weights: Floats) -> np.float32:
    """Return a sample whose filter reaches past the ends, where Kaldi adds up in float32."""
    total: np.float32 = F32(0)
    for i in range(max(0, -first), min(len(weights), len(samples) - first)):
        total += weights[i] * samples[first + i]
    return total


def waveform_filter(rate_in: float, rate_out: float) -> tuple[int, int, float, int]:
    """Return rates, cutoff and width for :func:`linear_resample` as Kaldi's programs choose them (ResampleWaveform).

    The fraction of a rate moves the cutoff only: Kaldi's filters are made for whole rates.

    >>> waveform_filter(16000, 8000.5)
    (16000, 8000, 3960.24755859375, 6)
    """
    cutoff = F32(0.99 * 0.5 * float(F32(min(rate_in, rate_out))))
    return int(rate_in), int(rate_out), float(cutoff), 6


def resample_waveform(samples: npt.NDArray[np.float32], rate_in: float, rate_out: float) -> Floats:
    """Return audio at another sampling rate, as Kaldi's programs compute it (ResampleWaveform).

    Args:
        samples: float32 of shape (T,).
        rate_in: sampling rate in Hz.
        rate_out: the rate wanted, in Hz.

    >>> resample_waveform(np.ones(16000, np.float32), 16000, 8000).shape
    (8000,)
    """
    return linear_resample(samples, *waveform_filter(rate_in, rate_out))


def resample_rows(audio: Floats, lengths: Any | None, rate_in: int, rate_out: int) -> Floats:
    """Return :func:`resample_waveform` of each row of audio, zero past its end.

    Args:
        audio: float32 of shape (..., T).
        lengths: number of samples of each row (...); None for all.
        rate_in: sampling rate in Hz.
        rate_out: the rate wanted, in Hz.
    """
    rows = audio.reshape(-1, audio.shape[-1])
    ends = [audio.shape[-1]] * len(rows) if lengths is None else np.ravel(lengths).tolist()
    resampled = np.zeros((len(rows), num_resampled(audio.shape[-1], rate_in, rate_out)), F32)
    for row, end, out in zip(rows, ends, resampled, strict=True):
        out[: num_resampled(end, rate_in, rate_out)] = resample_waveform(row[:end], rate_in, rate_out)
    return resampled.reshape(*audio.shape[:-1], resampled.shape[-1])
