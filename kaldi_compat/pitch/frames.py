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
from typing import Any, NamedTuple

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
    frame_counts: Integers  # (chunks,): number of known frames of the utterance after each chunk.

    @functools.cached_property
    def c_arguments(self) -> Structure:
        """The frames as a structure for the C library."""
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
        starts, lengths: indices (utterances,) of the utterances' first samples, and numbers (utterances,) of samples.
        constants: the tracker's numbers and tables.
        ends: indices (chunks,) after the last sample of each chunk of a single utterance. None for chunks of
            ``constants.chunk`` samples.

    Raises:
        AudioError: a sample is infinite or NaN.
    """
    bounds, chunk_begins, chunk_ends = _divide_into_chunks(lengths, constants.chunk, ends)
    utterance, last_chunks = np.repeat(np.arange(len(lengths)), np.diff(bounds)), bounds[1:] - 1
    total_samples = constants.count_resampled(lengths, finished=True)
    sample_counts = constants.count_resampled(chunk_ends, finished=False)
    # The last chunk of an utterance is the end of its audio, after which all samples and frames are known.
    sample_counts[last_chunks] = np.maximum(total_samples, _take_previous(sample_counts, bounds)[last_chunks])
    total_frames = constants.count_available_frames(total_samples, finished=True)
    frame_counts = constants.count_available_frames(sample_counts, finished=False)
    frame_counts = np.minimum(frame_counts, total_frames[utterance])
    frame_counts[last_chunks] = total_frames
    chunks = _Chunks(bounds, sample_counts, frame_counts)

    first_outputs, output_ends = _take_previous(sample_counts, bounds), sample_counts
    table = np.column_stack((starts[utterance], chunk_ends, chunk_begins, first_outputs, output_ends))
    signal = resample_chunks(samples, constants.filters, table)
    if samples.dtype != np.int16:
        check_finite(signal)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ballast, revised = _compute_ballasts(signal, chunks, constants)
    groups, rows = group_rows(chunks.new_frame_counts), np.concatenate(([0], np.cumsum(total_frames)))
    first, shift, sizes = constants.start, constants.shift, sample_counts[last_chunks]
    if constants.preemphasis != 0:  # Kaldi applies preemphasis to each frame, so that frames no longer share samples.
        pairs = zip(np.split(signal, np.cumsum(sizes))[:-1], total_frames.tolist(), strict=True)
        frames = [preemphasize_frames(audio, first, count, constants) for audio, count in pairs]
        signal = np.concatenate([signal[:0], *frames])
        first, shift, sizes = 0, constants.span, total_frames * constants.span
    begins = np.cumsum(sizes) - sizes
    return PitchFrames(
        signal=signal, starts=begins, lengths=sizes, rows=rows, first=first, shift=shift,
        ballast=ballast, revised=revised, groups=groups, frame_counts=frame_counts,
    )  # fmt: skip


class _Chunks(NamedTuple):
    """Chunks in which the audio of utterances arrives."""

    bounds: Integers  # (utterances + 1,): index of the first chunk of each utterance, and the number of chunks.
    sample_counts: Integers  # (chunks,): number of known resampled samples of the utterance after each chunk.
    frame_counts: Integers  # (chunks,): number of known frames of the utterance after each chunk.

    @property
    def new_frame_counts(self) -> Integers:
        """Numbers (chunks,) of frames that become known with each chunk."""
        return self.frame_counts - _take_previous(self.frame_counts, self.bounds)


def _divide_into_chunks(
    lengths: Integers, chunk_size: int, ends: Integers | None
) -> tuple[Integers, Integers, Integers]:
    """Divide the audio of utterances into chunks. The last chunk of an utterance is empty, and marks its end.

    Args:
        lengths: numbers (utterances,) of samples of the utterances.
        chunk_size: number of samples in a chunk. 0 for one chunk with all audio of an utterance.
        ends: ends of the chunks, as for :func:`split_into_frames`. None for chunks of ``chunk_size`` samples.

    Returns:
        bounds: indices (utterances + 1,): first chunk of each utterance, followed by the number of chunks.
        begins, ends: indices (chunks,), in the utterance, of a chunk's first sample, and after its last sample.
    """
    if ends is not None:
        return np.array([0, len(ends) + 1]), np.concatenate(([0], ends)), np.concatenate((ends, lengths))
    step = chunk_size or max(1, int(lengths.max(initial=0)))
    chunk_counts = -(-lengths // step) + 1
    bounds = np.concatenate(([0], np.cumsum(chunk_counts)))
    # First chunk and length of the utterance of each chunk.
    first_chunks, utterance_lengths = (np.repeat(values, chunk_counts) for values in (bounds[:-1], lengths))
    begins = (np.arange(bounds[-1]) - first_chunks) * step
    return bounds, np.minimum(begins, utterance_lengths), np.minimum(begins + step, utterance_lengths)


def _take_previous(values: Integers, bounds: Integers) -> Integers:
    """Return the values (chunks,) of the chunks before each chunk, or 0 for the first chunk of an utterance.

    ``values`` (chunks,) has the values of all chunks. For ``bounds``, see :class:`_Chunks`.
    """
    previous = np.roll(values, 1)
    previous[bounds[:-1]] = 0
    return previous


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
    earlier_squares, earlier_values = total
    squares, values = compute_vector_sums(samples)
    return earlier_squares + squares, earlier_values + values


def compute_variance(total: tuple[float, float], count: int) -> float:
    """Return the variance of ``count`` samples, or NaN for 0 samples. ``total`` is a result of :func:`add_energy`."""
    if count == 0:
        return math.nan
    squares, values = total
    mean = values / count
    return squares / count - mean * mean


def _compute_ballasts(
    signal: Floats, chunks: _Chunks, constants: PitchConstants
) -> tuple[Floats, tuple[Floats, Floats] | None]:
    """Return ``ballast`` and ``revised`` of :class:`PitchFrames` for resampled audio (samples,) of all utterances."""
    if constants.ballast_online:
        return compute_ballast(_compute_frame_variances(signal, chunks, constants), constants), None
    variance = _compute_chunk_variances(signal, chunks)
    ballast = np.repeat(compute_ballast(variance, constants), chunks.new_frame_counts)
    return ballast, _find_changes_of_ballast(variance, chunks, constants)


def _compute_chunk_variances(signal: Floats, chunks: _Chunks) -> Doubles:
    """Return the variance (chunks,) of each utterance's audio up to the end of each chunk.

    ``signal`` (samples,) is the resampled audio of all utterances. The variance is NaN before the first sample.
    """
    new_sample_counts = chunks.sample_counts - _take_previous(chunks.sample_counts, chunks.bounds)
    sums = compute_signal_sums(signal, np.concatenate(([0], np.cumsum(new_sample_counts)))).astype(np.float64)
    for first, end in itertools.pairwise(chunks.bounds.tolist()):
        np.cumsum(sums[first:end], axis=0, out=sums[first:end])
    mean_square, mean = (sums / chunks.sample_counts[:, None]).T
    variance: Doubles = mean_square - mean**2
    return variance


def _compute_frame_variances(signal: Floats, chunks: _Chunks, constants: PitchConstants) -> Doubles:
    """Return the variance (rows,) of each utterance's audio up to the end of each frame.

    As in Kaldi, the sums for the frames of a chunk continue from the sums of the earlier chunks, each of which was
    added as a whole. ``signal`` (samples,) is the resampled audio of all utterances.
    """
    variances = []
    utterance_start = 0
    for first, end_chunk in itertools.pairwise(chunks.bounds.tolist()):
        length = int(chunks.sample_counts[end_chunk - 1])
        audio, chunk_sums, chunk_start, frame = signal[utterance_start:], (0.0, 0.0), 0, 0
        for chunk in range(first, end_chunk):
            total, summed_end = chunk_sums, chunk_start
            while frame < chunks.frame_counts[chunk]:
                end = min(constants.start + frame * constants.shift + constants.span, length)
                # The first frames of an utterance may end before the chunk in which they become known. Kaldi aborts on
                # such audio. Here, their sums start again at the first sample.
                if end < summed_end:
                    total, summed_end = (0.0, 0.0), 0
                total, summed_end = add_energy(total, audio[summed_end:end]), end
                variances.append(compute_variance(total, end))
                frame += 1
            chunk_end = int(chunks.sample_counts[chunk])
            chunk_sums, chunk_start = add_energy(chunk_sums, audio[chunk_start:chunk_end]), chunk_end
        utterance_start += length
    return np.array(variances, np.float64)


def compute_ballast(variance: Any, constants: PitchConstants) -> Any:
    """Return the ballast of frames (float32) for the variance of the audio, a float64 number or array of any shape."""
    return ((variance * constants.window) ** 2 * constants.ballast).astype(F32)


def _find_changes_of_ballast(
    variance: Doubles, chunks: _Chunks, constants: PitchConstants
) -> tuple[Floats, Floats] | None:
    """Return the old and the revised ballast (rows,) of each frame, or None if no ballast is revised.

    Kaldi searches the first ``recompute_frame`` frames of an utterance again when they are known, or at the end of
    shorter audio. It revises their ballasts if the variance has changed by more than ``_ENERGY_CHANGE`` since one of
    them was computed. Both results are 0 for frames whose ballast is not revised.

    Args:
        variance: variances (chunks,) from which the ballasts of the new frames of each chunk are computed.
        chunks: the chunks of all utterances.
        constants: the tracker's numbers and tables.
    """
    bounds, frame_counts, new_frames = chunks.bounds, chunks.frame_counts, chunks.new_frame_counts
    num_chunks, counts = np.diff(bounds), frame_counts[bounds[1:] - 1]
    max_repeated = max(0, constants.recompute_frame)  # Maximum number of frames that are searched again.
    # The revised ballast has the variance after the first chunk with ``max_repeated`` frames, or after the last chunk.
    is_early = (frame_counts < max(1, max_repeated)).astype(np.int64)
    num_early = np.add.reduceat(is_early, bounds[:-1]) if len(num_chunks) else num_chunks
    revised_variance = variance[bounds[:-1] + np.minimum(num_early, num_chunks - 1)].astype(F32)
    repeated_counts = np.minimum(counts, max_repeated)  # Number of frames of each utterance that are searched again.
    old_variance, new_variance = variance.astype(F32), np.repeat(revised_variance, num_chunks)
    # Kaldi compares the variances with ApproxEqual.
    is_changed = abs(old_variance - new_variance) > _ENERGY_CHANGE * (abs(old_variance) + abs(new_variance))
    is_changed &= (new_frames > 0) & (frame_counts - new_frames < np.repeat(repeated_counts, num_chunks))
    if not is_changed.any():
        return None
    has_changed = np.logical_or.reduceat(is_changed, bounds[:-1])
    is_revised = np.repeat(has_changed, counts)
    first_rows = np.cumsum(counts) - counts
    is_revised &= np.arange(len(is_revised)) < np.repeat(first_rows + repeated_counts, counts)
    old = np.repeat(_compute_revised_ballast(variance, constants), new_frames)
    revised = np.repeat(_compute_revised_ballast(revised_variance, constants), counts)
    return np.where(is_revised, old, F32(0)), np.where(is_revised, revised, F32(0))


def _compute_revised_ballast(variance: npt.NDArray[Any], constants: PitchConstants) -> Floats:
    """Return the ballast for each variance. The energy is rounded to float32, as in Kaldi's second search."""
    energy: Floats = variance.astype(F32) * F32(constants.window)
    return (energy.astype(np.float64) ** 2 * constants.ballast).astype(F32)


def group_rows(sizes: Integers) -> Groups:
    """Return the group (rows,) of each row of :class:`PitchFrames`: 0 in a group of four, 1 in a pair, 2 for one row.

    Kaldi interpolates the correlations of a chunk as a product of a matrix, with a row for each frame, and a vector.
    The matrix is divided into groups of four rows, then a pair, then a single row, which add in different orders.
    ``sizes`` (chunks,) is the number of frames of each chunk.
    """
    ends = np.cumsum(sizes)
    groups = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    # One to three rows may follow the groups of four: a pair, and a single row if their number is odd.
    remaining = sizes % 4
    for distance in (1, 2, 3):
        groups[ends[remaining >= distance] - distance] = 1
    groups[ends[remaining % 2 == 1] - 1] = 2
    return groups


def preemphasize_frames(signal: Floats, first: int, count: int, constants: PitchConstants) -> Floats:
    """Return the samples (count * constants.span,) of frames with preemphasis, one frame after another.

    Args:
        signal: resampled audio (samples,). Samples of frames before or after the audio become zero.
        first: index of the first frame's first sample, which may be negative. Frame ``i`` starts ``i * shift`` later.
        count: number of frames.
        constants: the tracker's numbers and tables.
    """
    factor = F32(constants.preemphasis)
    position = first + constants.shift * np.arange(count)[:, None] + np.arange(constants.span)
    is_inside = (position >= 0) & (position < len(signal))
    windows = np.where(is_inside, signal[np.clip(position, 0, max(0, len(signal) - 1))], F32(0))
    previous = np.concatenate((windows[:, :1], windows[:, :-1]), 1)
    # The first sample of a frame or of the audio has no previous sample. Kaldi scales it in double precision.
    is_first = (np.arange(constants.span) == 0) | (position == 0)
    first_samples = (windows.astype(np.float64) * (1.0 - float(factor))).astype(F32)
    result: Floats = np.where(is_first, first_samples, windows - factor * previous)
    result[~is_inside] = 0
    return result.ravel()
