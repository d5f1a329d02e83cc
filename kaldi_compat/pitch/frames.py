"""Frames of the pitch tracker: resampled audio, and the ballast of each frame.

Kaldi's tracker (src/feat/pitch-functions.cc, OnlinePitchFeatureImpl) processes audio as it arrives. This affects the
energy from which a frame's ballast is computed: the variance of the samples received so far. After
``recompute_frame`` frames, or at the end of shorter audio, the frames so far are scaled to the energy known by then and
searched again. Whole audio has two chunks as well: the audio, and its end, which adds the last frames.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Doubles, Floats, Integers
from kaldi_compat.exact.resample import resample_chunks
from kaldi_compat.exact.sums import compute_signal_sums, compute_vector_sums
from kaldi_compat.native import Structure
from kaldi_compat.pitch.constants import PitchConstants

Groups = npt.NDArray[np.uint8]
F32 = np.float32

# Kaldi searches again if the old and new energy differ by more than this fraction of their sum.
_ENERGY_CHANGE = F32(0.01)


@dataclass(frozen=True, eq=False)
class PitchFrames:
    """Frames of utterances, with the numbers that are known before the search.

    Frame ``r`` of utterance ``u`` is row ``rows[u] + r``. It starts at sample ``first + r * shift`` of the utterance's
    signal; silence precedes and follows the signal.
    """

    signal: Floats  # (samples,): the resampled audio of all utterances.
    starts: Integers  # (utterances,): index in ``signal`` of each utterance's first sample.
    lengths: Integers  # (utterances,): number of samples of each utterance.
    rows: Integers  # (utterances + 1,): the first row of each utterance.
    first: int  # Index of the first frame's first sample in an utterance. It may be negative.
    shift: int  # Number of samples from the start of a frame to the start of the next frame.
    ballast: Floats  # (rows,): number added to the product of energies, which reduces the correlation of quiet frames.
    # Two arrays (rows,): the ballast of the first search, and the ballast to which correlations are scaled. Both are 0
    # for frames that are not scaled. None if no frame is scaled.
    revised: tuple[Floats, Floats] | None
    groups: Groups  # (rows,): group of each row, which decides the order of its sums: see :func:`group_rows`.
    ready: Integers  # (chunks,): number of frames of the utterance that are known after each chunk.

    @functools.cached_property
    def c_arguments(self) -> Structure:
        """Structure of the frames for the C library."""
        revised_from, revised_to = self.revised or (None, None)
        return native.get_structure("pitch_batch")(
            self,
            start=self.starts,
            length=self.lengths,
            count=len(self.starts),
            revised_from=revised_from,
            revised_to=revised_to,
        )


def split_into_frames(
    samples: npt.NDArray[Any],
    starts: Integers,
    lengths: Integers,
    constants: PitchConstants,
    ends: Integers | None = None,
) -> PitchFrames:
    """Resample the audio of utterances, and compute the frames that the pitch search needs.

    Args:
        samples: audio of the utterances, int16 or float32 (T,).
        starts, lengths: (utterances,): first sample and number of samples of each utterance.
        constants: the tracker's numbers and tables.
        ends: ends of the chunks of a single utterance, in samples; None for chunks of the size in ``constants``.

    Raises:
        AudioError: a sample is infinite or not a number.
    """
    step = constants.chunk or max(1, int(lengths.max(initial=0)))
    chunk_counts = -(-lengths // step) if ends is None else np.array([len(ends)])
    chunk_counts = chunk_counts + 1  # An empty chunk after the last samples tells the search that the audio has ended.
    bounds = np.concatenate(([0], np.cumsum(chunk_counts)))
    utterance = np.repeat(np.arange(len(chunk_counts)), chunk_counts)
    chunk_index = np.arange(bounds[-1]) - bounds[utterance]
    begin = np.minimum(chunk_index * step, lengths[utterance]) if ends is None else np.concatenate(([0], ends))
    end = np.minimum(begin + step, lengths[utterance]) if ends is None else np.concatenate((ends, lengths))
    is_last = chunk_index == chunk_counts[utterance] - 1

    ready_samples = constants.count_resampled(end, finished=False)
    total = constants.count_resampled(lengths, finished=True)
    ready_samples[is_last] = np.maximum(total, np.where(chunk_counts > 1, ready_samples[bounds[1:] - 2], 0))
    previous_ready = _take_values_of_previous_chunk(ready_samples, chunk_index)
    table = np.column_stack((starts[utterance], end, begin, previous_ready, ready_samples))
    signal = resample_chunks(samples, constants.filters, table)
    if samples.dtype != np.int16:
        check_finite(signal)
    sizes = ready_samples[is_last]
    begins = np.cumsum(sizes) - sizes

    frame_ends = constants.count_available_frames(ready_samples, finished=False)
    counts = constants.count_available_frames(total, finished=True)
    frame_ends = np.minimum(frame_ends, counts[utterance])
    frame_ends[is_last] = counts
    new_frames = frame_ends - _take_values_of_previous_chunk(frame_ends, chunk_index)
    rows = np.concatenate(([0], np.cumsum(counts)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        revised = None
        if constants.ballast_online:
            ballast = compute_ballast(
                _compute_frame_variances(signal, begins, bounds, ready_samples, frame_ends, constants), constants
            )
        else:
            edges = np.append(np.repeat(begins, chunk_counts) + previous_ready, len(signal))
            variance = _compute_chunk_variances(signal, edges, ready_samples, bounds)
            ballast = np.repeat(compute_ballast(variance, constants), new_frames)
            revised = _find_changes_of_ballast(variance, frame_ends, new_frames, bounds, rows, constants)
    first, shift = constants.start, constants.shift
    if constants.preemphasis != 0:
        utterances = zip(begins.tolist(), sizes.tolist(), counts.tolist(), strict=True)
        signal = np.concatenate(
            [preemphasize_frames(signal[i : i + size], first, count, constants) for i, size, count in utterances]
        )
        first, shift, sizes = 0, constants.span, counts * constants.span
        begins = np.cumsum(sizes) - sizes
    return PitchFrames(signal, begins, sizes, rows, first, shift, ballast, revised, group_rows(new_frames), frame_ends)


def _take_values_of_previous_chunk(values: Integers, chunk_index: Integers) -> Integers:
    """Return the previous chunk's value for each chunk, (chunks,), or 0 for the first chunk of an utterance.

    ``chunk_index`` is the index of each chunk in its utterance.
    """
    return np.where(chunk_index == 0, 0, np.roll(values, 1))


def check_finite(signal: Floats) -> None:
    """Raise :class:`AudioError` if resampled audio contains infinity or NaN."""
    if not np.isfinite(signal).all():
        raise AudioError(
            "the audio for pitch tracking contains NaN or infinity: replace such samples with finite numbers"
        )


def add_energy(total: tuple[float, float], samples: Floats) -> tuple[float, float]:
    """Add samples to the sum of squares and the sum of samples of earlier audio.

    Args:
        total: sum of squares and sum of the samples of earlier audio, in double precision.
        samples: the next samples, float32 (samples,). Their two sums are computed in float32.

    Returns:
        The sum of squares and the sum of samples after the addition.
    """
    squares, values = compute_vector_sums(samples)
    return total[0] + squares, total[1] + values


def compute_variance(total: tuple[float, float], count: int) -> float:
    """Return the variance of ``count`` samples, or NaN for 0 samples. ``total`` is the result of :func:`add_energy`."""
    if count == 0:
        return math.nan
    mean = total[1] / count
    return total[0] / count - mean * mean


def _compute_chunk_variances(
    signal: Floats, sample_bounds: Integers, sample_counts: Integers, chunk_bounds: Integers
) -> Doubles:
    """Return the variance (chunks,) of each utterance's audio up to the end of each chunk. NaN means no audio yet.

    Args:
        signal: (samples,): the audio of all utterances.
        sample_bounds: (chunks + 1,): index of the first sample of each chunk, and the number of samples.
        sample_counts: (chunks,): number of samples of the utterance up to the end of each chunk.
        chunk_bounds: (utterances + 1,): index of the first chunk of each utterance, and the number of chunks.
    """
    sums = compute_signal_sums(signal, sample_bounds).astype(np.float64)
    for first, end in itertools.pairwise(chunk_bounds.tolist()):
        np.cumsum(sums[first:end], axis=0, out=sums[first:end])
    mean_square, mean = (sums / sample_counts[:, None]).T
    variance: Doubles = mean_square - mean**2
    return variance


def _compute_frame_variances(
    signal: Floats, begins: Integers, bounds: Integers, ready: Integers, done: Integers, constants: PitchConstants
) -> Doubles:
    """Return the variance (frames,) of each utterance's audio up to the end of each frame.

    Args:
        signal: (samples,): the resampled audio of all utterances.
        begins, bounds: first sample and first chunk of each utterance; ``bounds`` ends with the number of chunks.
        ready, done: (chunks,): numbers of samples and of frames of the utterance up to the end of each chunk.
        constants: the tracker's numbers and tables.
    """
    variances = []
    for (first, last), begin in zip(itertools.pairwise(bounds.tolist()), begins.tolist(), strict=True):
        audio, chunk_sums, chunk_start, frame = signal[begin:], (0.0, 0.0), 0, 0
        for chunk in range(first, last):
            total, summed_end = chunk_sums, chunk_start
            while frame < done[chunk]:
                end = min(constants.start + frame * constants.shift + constants.span, int(ready[last - 1]))
                # Kaldi aborts on such utterances, whose first frames are complete only at their end.
                if end < summed_end:
                    total, summed_end = (0.0, 0.0), 0
                total, summed_end = add_energy(total, audio[summed_end:end]), end
                variances.append(compute_variance(total, end))
                frame += 1
            chunk_sums = add_energy(chunk_sums, audio[chunk_start : ready[chunk]])
            chunk_start = int(ready[chunk])
    return np.array(variances, np.float64)


def compute_ballast(variance: Any, constants: PitchConstants) -> Any:
    """Return the ballast (float32) of a window in audio with a ``variance``, which is a float64 number or an array."""
    return ((variance * constants.window) ** 2 * constants.ballast).astype(F32)


def _find_changes_of_ballast(
    variance: Doubles, ends: Integers, new_frames: Integers, bounds: Integers, rows: Integers, constants: PitchConstants
) -> tuple[Floats, Floats] | None:
    """Return the old and the revised ballast (rows,) of each frame, or None if no ballast is revised.

    Both are 0 for frames whose correlations are not scaled. The first ``recompute_frame`` frames of an utterance are
    scaled if the variance has changed since one of them was computed.

    Args:
        variance: (chunks,): variance that gives the ballast of the frames of each chunk.
        ends, new_frames: (chunks,): number of frames up to the end of the chunk, and in the chunk.
        bounds, rows: (utterances + 1,): first chunk and first frame of each utterance.
        constants: the tracker's numbers and tables.
    """
    num_chunks, counts = np.diff(bounds), np.diff(rows)
    limit = max(0, constants.recompute_frame)
    # The revised ballast has the variance after the first chunk with ``limit`` frames, or after the last chunk.
    num_short = np.add.reduceat((ends < max(1, limit)).astype(np.int64), bounds[:-1]) if len(num_chunks) else num_chunks
    revised_variance = variance[bounds[:-1] + np.minimum(num_short, num_chunks - 1)].astype(F32)
    recomputed_counts = np.minimum(counts, limit)
    old_variance, new_variance = variance.astype(F32), np.repeat(revised_variance, num_chunks)
    # Kaldi compares the variances with ApproxEqual.
    is_changed = abs(old_variance - new_variance) > _ENERGY_CHANGE * (abs(old_variance) + abs(new_variance))
    is_changed &= (new_frames > 0) & (ends - new_frames < np.repeat(recomputed_counts, num_chunks))
    if not is_changed.any():
        return None
    has_changed = np.logical_or.reduceat(is_changed, bounds[:-1])
    is_revised = np.repeat(has_changed, counts)
    is_revised &= np.arange(rows[-1]) - np.repeat(rows[:-1], counts) < np.repeat(recomputed_counts, counts)
    old, revised = (
        np.repeat(_compute_revised_ballast(variance, constants), new_frames),
        np.repeat(_compute_revised_ballast(revised_variance, constants), counts),
    )
    return np.where(is_revised, old, F32(0)), np.where(is_revised, revised, F32(0))


def _compute_revised_ballast(variance: npt.NDArray[Any], constants: PitchConstants) -> Floats:
    """Return the ballast for each variance, computed in float32, as Kaldi does when it revises a ballast."""
    energy: Floats = variance.astype(F32) * F32(constants.window)
    return (energy.astype(np.float64) ** 2 * constants.ballast).astype(F32)


def group_rows(sizes: Integers) -> Groups:
    """Return the group (rows,) of the row of each frame: 0 in a group of four rows, 1 in a pair, 2 for a single row.

    The interpolation of correlations is a product of a matrix, with a row for each frame of a chunk, and a vector. Rows
    in groups of four add their products in a different order than the last one to three rows.

    Args:
        sizes: (chunks,): number of frames of each chunk.
    """
    ends = np.cumsum(sizes)
    groups = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    remaining = sizes % 4
    for distance in (1, 2, 3):
        groups[ends[remaining >= distance] - distance] = 1
    groups[ends[remaining % 2 == 1] - 1] = 2
    return groups


def preemphasize_frames(signal: Floats, first: int, count: int, constants: PitchConstants) -> Floats:
    """Return the samples of frames with preemphasis, one frame after the other: (count * span,).

    Args:
        signal: (samples,): the audio. Frame ``i`` starts at sample ``first + i * shift``. Samples outside become zero.
        first, count: first sample of the first frame (it may be negative), and number of frames.
        constants: the tracker's numbers and tables.
    """
    factor = F32(constants.preemphasis)
    position = first + constants.shift * np.arange(count)[:, None] + np.arange(constants.span)
    is_inside = (position >= 0) & (position < len(signal))
    windows = np.where(is_inside, signal[np.clip(position, 0, max(0, len(signal) - 1))], F32(0)) if count else position
    previous = np.concatenate((windows[:, :1], windows[:, :-1]), 1)
    # A frame's or the audio's first sample has no previous sample, so Kaldi scales it, in double precision.
    is_first = (np.arange(constants.span) == 0) | (position == 0)
    first_samples = (windows * (1.0 - float(factor))).astype(F32)
    result = np.where(is_first, first_samples, windows - factor * previous)
    return np.where(is_inside, result, F32(0)).astype(F32).ravel()
