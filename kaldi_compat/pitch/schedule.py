"""When the pitch tracker computes which frames, and what it knows of the audio's energy by then.

Kaldi's tracker (src/feat/pitch-functions.cc, OnlinePitchFeatureImpl) takes audio as it arrives. What that changes in
the result is the energy that a frame's ballast is taken from: the mean square of the samples that were there when the
frame was computed. Once ``recompute_frame`` frames are there, or the audio ends before, the frames so far are scaled to
the energy known by then, and searched again. Audio given at once has two chunks as well: all of it, and its end, with
which the last frames come that reach past it.

Counts are integers: NumPy's for one utterance, or a tensor of them for a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaldi_compat.array_api import Array, arange, astype, float64, namespace
from kaldi_compat.functional.sinc import num_resampled
from kaldi_compat.pitch.constants import PitchConstants

__all__ = ["Schedule", "frames_available", "num_frames", "num_frames_of_size", "samples_out"]


@dataclass(frozen=True)
class Schedule:
    """Which frames are computed when, and from which samples their ballast is.

    Attributes:
        frames_ready: ``(..., chunks + 1)`` frames computed after each chunk, and after the end was known.
        samples: ``(..., frames)`` resampled samples whose energy gives each frame's ballast.
        recomputed: ``(...,)`` frames whose search is done again when the energy is known better: the first so many.
        recompute_samples: ``(...,)`` resampled samples that this better energy is of.
    """

    frames_ready: Any
    samples: Any
    recomputed: Any
    recompute_samples: Any

    @property
    def frames(self) -> Any:
        """Frames of the whole audio: ``(...,)``."""
        return self.frames_ready[..., -1]

    @classmethod
    def of(cls, samples: int, constants: PitchConstants) -> Schedule:
        """The schedule for one utterance of so many samples, in NumPy."""
        return cls.of_batch(np.array(samples), samples, num_frames(samples, constants), constants)

    @classmethod
    def of_batch(cls, lengths: Array, longest: int, frames: int, constants: PitchConstants) -> Schedule:
        """The schedules for utterances of these lengths.

        Args:
            lengths: ``(...,)`` samples.
            longest: none is longer.
            frames: how many frames are told of; those that an utterance does not have mean nothing.
            constants: of the tracker.
        """
        xp = namespace(lengths)
        given = lengths[..., None]
        end = samples_out(given, constants, finished=True)
        if constants.chunk:
            given = xp.minimum(constants.chunk * arange(1, -(-longest // constants.chunk) + 1, lengths), given)
        there = samples_out(given, constants, finished=False)
        ready = xp.concatenate(
            (frames_available(there, constants, finished=False), frames_available(end, constants, finished=True)), -1
        )
        there = xp.concatenate((there, end), -1)
        if constants.ballast_online:
            ends = constants.start + constants.shift * arange(0, frames, lengths) + constants.span
            samples, recomputed, better = xp.minimum(ends, end), 0 * lengths, end[..., 0]
        else:
            limit = max(0, constants.recompute_frame)
            samples = _at_frames(there, ready, arange(0, frames, lengths))
            recomputed = xp.clip(ready[..., -1], None, limit)
            reached = _at_frames(there, ready, arange(limit - 1, limit, lengths))
            better = xp.where(recomputed < max(1, limit), end, reached)[..., 0]
        return cls(ready, samples, recomputed, better)


def _at_frames(there: Array, ready: Array, frames: Array) -> Array:
    """Samples there are when a frame is computed, of ``(..., chunks + 1)`` and frames ``(n,)``: ``(..., n)``."""
    last = ready.shape[-1] - 1
    found: Array
    if isinstance(ready, np.ndarray):
        found = there[np.minimum(np.searchsorted(ready, frames, side="right"), last)]
    else:
        chunk = (ready[..., None, :] <= frames[:, None]).sum(-1)
        found = there.gather(-1, chunk.clip(max=last))
    return found


def num_frames(samples: int, constants: PitchConstants) -> Any:
    """Frames of audio of so many samples."""
    return frames_available(samples_out(samples, constants, finished=True), constants, finished=True)


def num_frames_of_size(samples: Any, constants: PitchConstants) -> Any:
    """:func:`num_frames` for a size that may be a symbol of a compiler, and knows whole numbers alone.

    Where frames are centred, Kaldi rounds in float32, which differs from 2^23 resampled samples (35 minutes) on.
    """
    resampled = num_resampled(samples, constants.rate_in, constants.rate_out)
    if constants.snip_edges:
        return _not_negative((resampled - constants.window) // constants.shift + 1)
    if resampled < constants.window:
        return 0
    return (2 * resampled + constants.shift) // (2 * constants.shift)


def frames_available(samples: Any, constants: PitchConstants, *, finished: bool) -> Any:
    """Frames that can be computed of so many resampled samples; before the end is known, those that are whole."""
    if isinstance(samples, int):
        return int(frames_available(np.array([samples]), constants, finished=finished)[0])
    size, shift = constants.window if finished else constants.span, constants.shift
    if constants.snip_edges:
        return _not_negative((samples - size) // shift + 1)
    xp = namespace(samples)
    centred = samples if finished else samples - size // 2
    # Rounded twice as in Kaldi's float32, which a GPU's division by a constant would not do.
    quotient = astype(float64(astype(centred, xp.float32)) / shift, xp.float32)
    return xp.where(samples < size, 0 * samples, astype(quotient + 0.5, xp.int64))


def samples_out(samples_in: Any, constants: PitchConstants, *, finished: bool) -> Any:
    """Samples there are at the lower rate once so many have come in (Kaldi: LinearResample::GetNumOutputSamples).

    Those whose filter reaches past the end wait for more audio, unless the audio is finished.
    """
    if finished:
        return num_resampled(samples_in, constants.rate_in, constants.rate_out)
    ticks = math.lcm(constants.rate_in, constants.rate_out)
    interval = samples_in * (ticks // constants.rate_in) - constants.settling
    return _not_negative(-(-interval // (ticks // constants.rate_out)))


def _not_negative(count: Any) -> Any:
    return max(count, 0) if isinstance(count, int) or not hasattr(count, "clip") else count.clip(0)
