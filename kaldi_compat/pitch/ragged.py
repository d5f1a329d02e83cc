"""The pitch tracker on many utterances at once, with the bits of :mod:`kaldi_compat.pitch.tracker`, in C.

The correlations of an utterance are not kept: a frame's are forgotten as soon as all paths agree on its state, so that
long audio needs little memory besides its samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.errors import AudioError
from kaldi_compat.exact.resample import resample_chunks
from kaldi_compat.exact.sums import signal_sums
from kaldi_compat.native import pitch as compiled
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch import exact
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.exact import PitchTables
from kaldi_compat.pitch.schedule import Schedule, frames_available, samples_out

__all__ = ["RaggedFrames", "is_supported", "overflow_error", "track_ragged"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RaggedFrames:
    """Resampled audio of utterances, and what is known of their frames before the search.

    Attributes:
        signal: (samples,): the audio of all utterances.
        starts, lengths: (utterances,): where the samples of each utterance are.
        rows: (utterances + 1,): the first frame of each among the frames of all.
        ballast: (rows,): added to the products of energies.
        revised: two of (rows,): the ballast that a frame's correlations are scaled from, and to, which is the same for
            those that are not scaled; None if none are.
        groups: (rows,): see :func:`~kaldi_compat.pitch.exact.row_groups`.
    """

    signal: Floats
    starts: Integers
    lengths: Integers
    rows: Integers
    ballast: Floats
    revised: tuple[Floats, Floats] | None
    groups: npt.NDArray[np.uint8]


def is_supported(options: PitchOptions) -> bool:
    """Return True if :func:`track_ragged` can compute with these options."""
    return bool(native.library()) and options.preemphasis_coefficient == 0


def track_ragged(
    samples: npt.NDArray[Any], starts: Integers, lengths: Integers, options: PitchOptions
) -> tuple[Floats, Integers]:
    """Compute normalized correlation and pitch of the frames of utterances.

    Args:
        samples: int16 or float32 of shape (T,), contiguous: where the samples of all utterances are.
        starts, lengths: (utterances,): of each utterance.
        options: of the tracker.

    Returns:
        (rows, 2): the features of all frames, and the boundaries of the utterances: (utterances + 1,).

    Raises:
        AudioError: a sample is infinite or NaN, or the audio is absurdly loud.
    """
    constants = PitchConstants.of(options)
    with np.errstate(over="ignore", invalid="ignore"):
        if constants.chunk or constants.ballast_online or len(starts) == 1:
            frames = _joined([_frames_of(samples[a : a + n], options) for a, n in zip(starts, lengths, strict=True)])
        else:
            frames = _frames_of_all(samples, starts, lengths, options)
    features = compiled.track(PitchTables.of(options), frames, constants.start)
    if features is None:
        raise overflow_error()
    return features, frames.rows


def overflow_error() -> AudioError:
    """Return the error of audio whose correlations overflow."""
    return AudioError("audio to track pitch in is so loud that its correlation overflows: scale it down")


def _checked(signal: Floats, samples: npt.NDArray[Any]) -> Floats:
    if samples.dtype != np.int16 and not np.isfinite(signal).all():
        raise AudioError("audio to track pitch in holds an infinity or something that is not a number")
    return signal


def _frames_of(samples: npt.NDArray[Any], options: PitchOptions) -> RaggedFrames:
    """Return the frames of one utterance."""
    constants = PitchConstants.of(options)
    schedule = Schedule.of(len(samples), constants)
    count = int(schedule.frames)
    if count == 0:
        none, zero = np.empty(0, np.float32), np.zeros(1, np.int64)
        return RaggedFrames(none, zero, zero, np.zeros(2, np.int64), none, None, np.empty(0, np.uint8))
    signal = _checked(exact.downsample(samples, options), samples)
    energy, better = exact.energies(signal, schedule, options)
    first = energy[: int(schedule.recomputed)].astype(np.float32)
    revised = None
    if exact.energy_changed(first, np.float32(better)).any():
        revised = np.zeros(count, np.float32), np.zeros(count, np.float32)
        revised[0][: len(first)] = exact.ballast_to_revise(first, options)
        revised[1][: len(first)] = exact.ballast_to_revise(better, options)
    return RaggedFrames(
        signal=signal,
        starts=np.zeros(1, np.int64),
        lengths=np.array([len(signal)], np.int64),
        rows=np.array([0, count], np.int64),
        ballast=exact.ballast_of(energy, options).astype(np.float32),
        revised=revised,
        groups=exact.row_groups(schedule.frames_ready),
    )


def _joined(parts: list[RaggedFrames]) -> RaggedFrames:
    """Return the frames of several batches as one."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.array([len(part.signal) for part in parts], np.int64)
    counts = np.array([part.rows[-1] for part in parts], np.int64)
    revised = None
    if any(part.revised is not None for part in parts):
        pairs = [part.revised or (np.zeros_like(part.ballast),) * 2 for part in parts]
        revised = np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])
    return RaggedFrames(
        signal=np.concatenate([part.signal for part in parts]),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        rows=np.concatenate(([0], np.cumsum(counts))),
        ballast=np.concatenate([part.ballast for part in parts]),
        revised=revised,
        groups=np.concatenate([part.groups for part in parts]),
    )


def _frames_of_all(
    samples: npt.NDArray[Any], starts: Integers, lengths: Integers, options: PitchOptions
) -> RaggedFrames:
    """Return the frames of utterances that arrive as a whole: all samples are one chunk, and their end another.

    This is :func:`_frames_of` without a loop over the utterances.
    """
    constants = PitchConstants.of(options)
    ready = samples_out(lengths, constants, finished=False)
    total = samples_out(lengths, constants, finished=True)
    counts = frames_available(total, constants, finished=True)
    early = np.minimum(frames_available(ready, constants, finished=False), counts)
    zero = np.zeros_like(lengths)
    chunks = np.stack(
        (
            np.column_stack((starts, lengths, zero, zero, ready)),
            np.column_stack((starts, lengths, lengths, ready, np.maximum(total, ready))),
        ),
        axis=1,
    )
    signal = _checked(resample_chunks(samples, exact.lowpass_filters(options), chunks.reshape(-1, 5)), samples)
    sizes = np.maximum(total, ready)
    begins = np.cumsum(sizes) - sizes
    first, last = _energies(signal, begins, ready, sizes)
    limit = max(0, constants.recompute_frame)
    recomputed = np.minimum(counts, limit)
    better = np.where((recomputed >= max(1, limit)) & (limit - 1 < early), first, last).astype(np.float32)
    changed = exact.energy_changed(first.astype(np.float32), better) & (np.minimum(early, recomputed) > 0)
    changed |= exact.energy_changed(last.astype(np.float32), better) & (recomputed > early)
    parts = np.stack((early, counts - early), axis=1).ravel()

    def of_rows(values: Doubles) -> Floats:
        return np.repeat(values.astype(np.float32), parts)

    energy = np.stack((first, last), axis=1).ravel()
    rows = np.concatenate(([0], np.cumsum(counts)))
    revised = None
    if changed.any():
        is_revised = np.repeat(changed, counts)
        is_revised &= np.arange(rows[-1]) - np.repeat(rows[:-1], counts) < np.repeat(recomputed, counts)
        before = of_rows(exact.ballast_to_revise(energy, options))
        after = np.repeat(exact.ballast_to_revise(better, options), counts)
        revised = before * is_revised, after * is_revised
    return RaggedFrames(
        signal=signal,
        starts=begins,
        lengths=sizes,
        rows=rows,
        ballast=of_rows(exact.ballast_of(energy, options)),
        revised=revised,
        groups=_groups(early, counts),
    )


def _energies(signal: Floats, begins: Integers, ready: Integers, sizes: Integers) -> tuple[Doubles, Doubles]:
    """Return the variance of each utterance before its end is known, and of the whole utterance; NaN of nothing."""
    parts = np.stack((begins, begins + ready), axis=1).ravel()
    lengths = np.stack((ready, sizes - ready), axis=1).ravel()
    sums = signal_sums(signal, parts, lengths).astype(np.float64).reshape(-1, 2, 2).cumsum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = np.stack((ready, sizes), axis=1)[..., None]
        mean_square, mean = np.moveaxis(sums / counts, -1, 0)
        variances = mean_square - mean**2
    return variances[:, 0], variances[:, 1]


def _groups(early: Integers, counts: Integers) -> npt.NDArray[np.uint8]:
    """Return :func:`~kaldi_compat.pitch.exact.row_groups` of utterances with two chunks."""
    sizes = np.stack((early, counts - early), axis=1).ravel()
    ends = np.cumsum(sizes)
    groups = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    left = sizes % 4
    for back in (1, 2, 3):
        groups[ends[left >= back] - back] = 1
    groups[ends[left % 2 == 1] - 1] = 2
    return groups
