"""Resampling of audio, with the bits of Kaldi's src/feat/resample.cc (LinearResample, ResampleWaveform)."""

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
from kaldi_compat.options.base import as_float32

F32 = np.float32
MAX_RATE = 1e9  # Upper bound of sampling rates in Hz.
MAX_VECTOR_BYTES = 64  # Size in bytes of a vector of the widest instruction set (AVX-512).
BLOCK_SAMPLES = 8192  # Number of output samples that NumPy computes at once. The limit bounds its memory.
MAX_WEIGHTS = 1 << 22  # Largest number of float32 weights in the filters for a pair of rates. They take 16 MiB.


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of the output samples of one period, after which samples of both rates coincide again."""

    period: int  # Number of input samples in a period.
    first: tuple[int, ...]  # First input sample of each filter, relative to the period's start.
    weights: tuple[Floats, ...]  # Weights (taps,) of each filter. The numbers of taps may differ by one.

    def find_first_input(self, output: int) -> int:
        """Return the index of the first input sample that the filter of output sample ``output`` uses."""
        return self.first[output % len(self.first)] + output // len(self.first) * self.period

    def find_input_end(self, output: int) -> int:
        """Return the index after the last input sample that the filter of output sample ``output`` uses."""
        return self.find_first_input(output) + len(self.weights[output % len(self.first)])

    @functools.cached_property
    def c_arguments(self) -> Structure:
        """The filters as a structure for the C library, with the weights of all filters one after another."""
        taps = np.array(list(map(len, self.weights)))
        return native.get_structure("resampling_filters")(
            phases=len(taps),
            period=self.period,
            longest=int(taps.max()),
            first=np.array(self.first),
            taps=taps,
            offset=np.cumsum(taps) - taps,
            weights=np.concatenate(self.weights),
        )

    def allocate_memory(self) -> npt.NDArray[np.uint8]:
        """Return uninitialized working memory (bytes,) for the C library.

        The memory holds a SIMD vector for each tap of the longest filter, and a vector that is lost to alignment.
        """
        return np.empty((max(map(len, self.weights)) + 1) * MAX_VECTOR_BYTES, np.uint8)


@functools.lru_cache(maxsize=32)  # kaldi_explain tries a dozen pairs of rates again and again.
def make_resampling_filters(rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> Filters:
    """Return the filters that convert audio from ``rate_in`` to ``rate_out``.

    Args:
        rate_in, rate_out: sampling rates in Hz.
        cutoff: cutoff frequency in Hz, rounded to float32.
        num_zeros: number of zero crossings of the sinc on each side of its center.
    """
    common = math.gcd(rate_in, rate_out)
    half_width = num_zeros / (2.0 * cutoff)  # Half the width of the filter in seconds.
    first, weights = [], []
    for i in range(rate_out // common):
        center = i / rate_out
        begin, end = math.ceil((center - half_width) * rate_in), math.floor((center + half_width) * rate_in) + 1
        taps = [evaluate_windowed_sinc(float(F32(j / rate_in - center)), cutoff, num_zeros) for j in range(begin, end)]
        first.append(begin)
        weights.append(np.array(taps, F32) / F32(rate_in))
    return Filters(rate_in // common, tuple(first), tuple(weights))


def evaluate_windowed_sinc(time: float, cutoff: float, num_zeros: int) -> np.float32:
    """Return the impulse response of a low-pass filter, a sinc with a Hanning window, at ``time`` in seconds.

    Sinc, window and their product are rounded to float32. For the parameters, see :func:`make_resampling_filters`.
    The operations have Kaldi's order, because the sine near a zero crossing shows each rounding of its angle.
    """
    is_inside = abs(time) < num_zeros / (2.0 * cutoff)
    window = F32(0.5 * (1 + math.cos(2 * math.pi * cutoff / num_zeros * time)) if is_inside else 0.0)
    sinc: np.float32 = F32(math.sin(2 * math.pi * cutoff * time) / (math.pi * time) if time else 2 * cutoff)
    product: np.float32 = sinc * window
    return product


@dataclass(frozen=True)
class PeriodFilters:
    """The filters of one period as tables of equal length, for tensors."""

    period: int  # Number of input samples in a period.
    phases: int  # Number of output samples in a period. Each output sample has its own filter.
    first: int  # First input sample of the first filter, relative to the start of the period. It is 0 or negative.
    reach: int  # Number of input samples from ``first`` to the end of the last filter.
    starts: Any  # ``(phases,)``: first input sample of each filter, relative to ``first``.
    weights: Any  # ``(phases, taps)``: weights of the filters. A zero follows the weights of a shorter filter.

    @classmethod
    def from_filters(cls, filters: Filters) -> PeriodFilters:
        """Convert filters to NumPy tables. Shorter filters are padded with zeros at the end."""
        taps = max(map(len, filters.weights))
        starts = np.array(filters.first) - filters.first[0]
        return cls(
            period=filters.period,
            phases=len(starts),
            first=filters.first[0],
            reach=int(starts[-1]) + taps,
            starts=starts,
            weights=np.stack([np.pad(weights, (0, taps - len(weights))) for weights in filters.weights]),
        )


def count_resampled(num_samples: Any, rate_in: int, rate_out: int) -> Any:
    """Return ``num_samples * rate_out / rate_in`` (int or array) rounded up: the number of samples after resampling."""
    return divide_rounding_up(num_samples * rate_out, rate_in)


def divide_rounding_up(count: Any, divisor: int) -> Any:
    """Return ``count / divisor`` (int or array) rounded up to an integer. Neither number is negative."""
    # ONNX rounds negative quotients up, so -(-count // divisor) would be wrong.
    return (count + divisor - 1) // divisor


def check_resampling(rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> None:
    """Raise OptionError if a parameter of :func:`resample_linearly` is invalid, or the filters would be too large."""
    if not (rate_in > 0 and rate_out > 0 and num_zeros > 0 and 0 < 2 * cutoff <= min(rate_in, rate_out)):
        raise OptionError(
            f"cannot resample from {rate_in} to {rate_out} Hz with cutoff={cutoff:g} Hz and num_zeros={num_zeros}: "
            "pass positive numbers, and a cutoff of at most half of either rate"
        )
    filters, taps = rate_out // math.gcd(rate_in, rate_out), num_zeros * rate_in / cutoff
    if filters * taps > MAX_WEIGHTS:
        raise OptionError(
            f"cannot resample from {rate_in:g} to {rate_out:g} Hz, which needs {filters:.3g} filters of {taps:.3g} "
            "samples: choose rates with a larger common divisor, a higher cutoff or a smaller num_zeros"
        )


def resample_linearly(
    samples: npt.NDArray[np.float32], rate_in: int, rate_out: int, cutoff: float, num_zeros: int
) -> Floats:
    """Resample a whole waveform to a different sampling rate (Kaldi: LinearResample with ``flush``).

    Args:
        samples: float32 of shape (T,). Silence is assumed before and after the audio.
        rate_in: sampling rate in Hz.
        rate_out: sampling rate of the result in Hz.
        cutoff: cutoff frequency of the low-pass filter in Hz: at most half of either rate.
        num_zeros: width of the filter in zero crossings on each side. A wider filter is sharper and slower.

    Returns:
        Float32 of shape (ceil(T * rate_out / rate_in),).

    Raises:
        OptionError: a rate, the cutoff or the width is invalid, or the filters would be too large.
    """
    check_resampling(rate_in, rate_out, cutoff, num_zeros)
    filters = make_resampling_filters(rate_in, rate_out, float(F32(cutoff)), num_zeros)
    return resample_chunk(samples, filters, (0, count_resampled(len(samples), rate_in, rate_out)))


def resample_chunk(
    samples: npt.NDArray[Any], filters: Filters, outputs: tuple[int, int], chunk_start: int = 0
) -> Floats:
    """Return the output samples of one chunk, float32 (end - first,) (Kaldi: LinearResample::Resample).

    Args:
        samples: the audio of the utterance up to the end of the chunk, int16 or float32 (T,).
        filters: result of :func:`make_resampling_filters`.
        outputs: (first, end): index of the first output sample, and of the sample after the last; none if end <= first.
        chunk_start: index in ``samples`` of the chunk's first sample. As in Kaldi, the products of a filter that
            extends beyond the chunk are added in a different order, which changes the rounding.
    """
    first, end = outputs
    return resample_chunks(samples, filters, np.array([[0, len(samples), chunk_start, first, max(first, end)]]))


def _resample_by_phase(
    samples: npt.NDArray[Any], filters: Filters, outputs: tuple[int, int], chunk_start: int
) -> Floats:
    """Return the result of :func:`resample_chunk`, computed in NumPy.

    Output samples of the same phase share a filter, and are computed together. Output samples whose filters cross an
    edge of the chunk are computed one by one.
    """
    first, end = outputs
    inside_first, inside_end = find_outputs_inside(filters, outputs, chunk_start, len(samples))
    audio, out, phases = samples.astype(F32), np.empty(end - first, F32), len(filters.first)
    for start in range(inside_first, inside_end, BLOCK_SAMPLES):
        block = np.arange(start, min(start + BLOCK_SAMPLES, inside_end))
        for phase, weights in enumerate(filters.weights):
            indices = block[block % phases == phase]
            begins = filters.first[phase] + indices // phases * filters.period
            out[indices - first] = dot(audio[begins[:, None] + np.arange(len(weights))], weights)
    for output in (*range(first, min(inside_first, end)), *range(max(inside_end, first), end)):
        begin, weights = filters.find_first_input(output), filters.weights[output % phases]
        out[output - first] = _compute_edge_sample(audio, begin, weights)
    return out


def _resample_chunks_in_c(samples: npt.NDArray[Any], filters: Filters, chunks: npt.NDArray[np.int64]) -> Floats:
    """Resample chunks in C: see :func:`resample_chunks`. Raise ValueError for invalid samples or chunks."""
    if samples.dtype not in (np.int16, np.float32) or samples.ndim != 1:
        raise ValueError(f"samples must be int16 or float32 of shape (T,), not {samples.dtype} of {samples.shape}")
    samples, is_float = np.ascontiguousarray(samples), samples.dtype == np.float32
    starts, counts, _, firsts, ends = chunks.T
    if (chunks < 0).any() or (starts + counts > len(samples)).any() or (ends < firsts).any():
        raise ValueError(f"a chunk lies outside of the {len(samples)} samples: check its start and count")
    out_starts = np.cumsum(ends - firsts) - (ends - firsts)
    table = np.ascontiguousarray(np.column_stack((chunks, out_starts)), np.int64)
    out = np.empty(int((ends - firsts).sum()), np.float32)
    native.get_function("resample_chunks")(
        filters.c_arguments, samples, is_float, table, len(table), filters.allocate_memory(), out
    )
    return out


@native.twin(_resample_chunks_in_c)
def resample_chunks(samples: npt.NDArray[Any], filters: Filters, chunks: npt.NDArray[np.int64]) -> Floats:
    """Resample chunks of several utterances (see :func:`resample_chunk` for one chunk).

    Args:
        samples: audio of the utterances, int16 or float32 (T,).
        filters: result of :func:`make_resampling_filters`.
        chunks: (chunks, 5): index of the utterance's first sample, number of its samples up to the chunk's end, first
            sample of the chunk in the utterance, begin and end of the output samples. The chunks of an utterance are
            in order, and so are their outputs.

    Returns:
        The output samples of all chunks, concatenated: float32.
    """
    outputs = [
        _resample_by_phase(samples[start : start + count], filters, (first, end), begin)
        for start, count, begin, first, end in chunks.tolist()
    ]
    return np.concatenate([np.empty(0, F32), *outputs])


def find_outputs_inside(filters: Filters, outputs: tuple[int, int], begin: int, end: int) -> tuple[int, int]:
    """Find the output samples whose filters lie within the input samples ``begin`` to ``end - 1``.

    Args:
        filters: result of :func:`make_resampling_filters`.
        outputs: first output sample to search, and the index after the last output sample.
        begin, end: first input sample, and the index after the last input sample.

    Returns:
        First index and exclusive end of the output samples whose filters lie inside; equal if no such sample exists.
    """
    first_output, outputs_end = outputs
    candidates = range(first_output, outputs_end)
    inside_first = first_output + bisect.bisect_left(candidates, begin, key=filters.find_first_input)
    inside_end = first_output + bisect.bisect_right(candidates, end, key=filters.find_input_end)
    return inside_first, max(inside_first, inside_end)


def _compute_edge_sample(samples: Floats, first: int, weights: Floats) -> np.float32:
    """Return an output sample whose filter crosses an edge of its chunk. As in Kaldi, terms are added in float32.

    Args:
        samples: the audio (T,). Silence is assumed before and after it.
        first: index of the filter's first input sample, which may be negative.
        weights: weights of the filter (taps,).
    """
    total: np.float32 = F32(0)
    for i in range(max(0, -first), min(len(weights), len(samples) - first)):
        total += weights[i] * samples[first + i]
    return total


def choose_waveform_filter(rate_in: float, rate_out: float) -> tuple[int, int, float, int]:
    """Return the last four arguments of :func:`resample_linearly` for the filter of Kaldi's ResampleWaveform.

    Kaldi makes its filters for whole rates in Hz, so the fraction of a rate changes only the cutoff, which is 99% of
    half the lower rate. The filters have 6 zero crossings on each side.
    """
    # 15999.9999999 is 16000 in single precision. Rates above the limit are refused, and may be infinite if rounded.
    rate_in, rate_out = (as_float32(rate) if rate <= MAX_RATE else rate for rate in (rate_in, rate_out))
    return int(rate_in), int(rate_out), as_float32(0.99 * 0.5 * min(rate_in, rate_out)), 6


def resample_waveform(samples: npt.NDArray[np.float32], rate_in: float, rate_out: float) -> Floats:
    """Resample a whole waveform with the filter that Kaldi's programs choose (Kaldi: ResampleWaveform).

    For the arguments, the result and the errors, see :func:`resample_linearly`. Fractions of the rates are dropped,
    except for the cutoff of the filter.
    """
    return resample_linearly(samples, *choose_waveform_filter(rate_in, rate_out))


def resample_rows(audio: Floats, lengths: Any | None, rate_in: int, rate_out: int) -> Floats:
    """Apply :func:`resample_waveform` to each row of audio: (..., T) becomes (..., ceil(T * rate_out / rate_in)).

    Samples after the end of a resampled row are zero.

    Args:
        audio: float32 of shape (..., T).
        lengths: number of valid samples of each row (...); None if all samples are valid.
        rate_in, rate_out: sampling rates in Hz of the audio and of the result.
    """
    rows = audio.reshape(-1, audio.shape[-1])
    counts = [audio.shape[-1]] * len(rows) if lengths is None else np.ravel(lengths).tolist()
    resampled = np.zeros((len(rows), count_resampled(audio.shape[-1], rate_in, rate_out)), F32)
    for row, count, out in zip(rows, counts, resampled, strict=True):
        out[: count_resampled(count, rate_in, rate_out)] = resample_waveform(row[:count], rate_in, rate_out)
    return resampled.reshape(*audio.shape[:-1], resampled.shape[-1])
