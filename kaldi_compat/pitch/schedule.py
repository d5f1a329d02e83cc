"""Schedule of the pitch tracker: the frames computed after each chunk of audio, and the energy known by then.

Kaldi's tracker (src/feat/pitch-functions.cc, OnlinePitchFeatureImpl) processes audio as it arrives. This affects the
energy from which a frame's ballast is computed: the mean square of the samples received so far. After
``recompute_frame`` frames, or at the end of shorter audio, the frames so far are scaled to the energy known by then and
searched again. Audio given at once has two chunks, too: all of it, and its end, which adds the last frames.

Counts are integers: of NumPy for one utterance, or a tensor for a batch.
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
    """Frames computed after each chunk, and the samples that give their ballast.

    Attributes:
        frames_ready: ``(..., chunks + 1)`` frames computed after each chunk and after the end.
        samples_ready: ``(..., chunks + 1)`` resampled samples received after each chunk and after the end.
        samples: ``(..., frames)`` resampled samples whose energy gives each frame's ballast.
        recomputed: ``(...,)`` number of frames, from the first, that are searched again with a better energy.
        recompute_samples: ``(...,)`` resampled samples from which the better energy is computed.
    """

    frames_ready: Any
    samples_ready: Any
    samples: Any
    recomputed: Any
    recompute_samples: Any

    @property
    def frames(self) -> Any:
        """Number of frames of the whole audio: ``(...,)``."""
        return self.frames_ready[..., -1]

    @classmethod
    def of(cls, samples: int, constants: PitchConstants) -> Schedule:
        """Return the schedule of one utterance, in NumPy."""
        return cls.of_batch(np.array(samples), samples, num_frames(samples, constants), constants)

    @classmethod
    def of_batch(cls, lengths: Array, longest: int, frames: int, constants: PitchConstants) -> Schedule:
        """Return the schedules of utterances.

        Args:
            lengths: ``(...,)`` numbers of samples.
            longest: upper limit of the lengths.
            frames: number of frames in the result; frames beyond those of an utterance are undefined.
            constants: constants of the tracker.
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
        return cls(ready, there, samples, recomputed, better)


def _at_frames(there: Array, ready: Array, frames: Array) -> Array:
    """Return the samples received when a frame is computed, for ``(..., chunks + 1)`` and frames ``(n,)``."""
    last = ready.shape[-1] - 1
    found: Array
    if isinstance(ready, np.ndarray):
        found = there[np.minimum(np.searchsorted(ready, frames, side="right"), last)]
    else:
        chunk = (ready[..., None, :] <= frames[:, None]).sum(-1)
        found = there.gather(-1, chunk.clip(max=last))
    return found


def num_frames(samples: int, constants: PitchConstants) -> Any:
    """Return the number of frames of audio with this number of samples."""
    return frames_available(samples_out(samples, constants, finished=True), constants, finished=True)


def num_frames_of_size(samples: Any, constants: PitchConstants) -> Any:
    """Compute :func:`num_frames` in integer arithmetic, for sizes that may be symbols of a compiler.

    For centred frames, Kaldi rounds in float32, which gives another result from 2^23 resampled samples (35 minutes).
    """
    resampled = num_resampled(samples, constants.rate_in, constants.rate_out)
    if constants.snip_edges:
        return _not_negative((resampled - constants.window) // constants.shift + 1)
    if resampled < constants.window:
        return 0
    return (2 * resampled + constants.shift) // (2 * constants.shift)


def frames_available(samples: Any, constants: PitchConstants, *, finished: bool) -> Any:
    """Return the number of frames of this many resampled samples; before the end, only complete frames."""
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
    """Return the number of resampled samples for a number of input samples (LinearResample::GetNumOutputSamples).

    Those whose filter reaches past the end wait for more audio, unless the audio is finished.
    """
    if finished:
        return num_resampled(samples_in, constants.rate_in, constants.rate_out)
    ticks = math.lcm(constants.rate_in, constants.rate_out)
    interval = samples_in * (ticks // constants.rate_in) - constants.settling
    return _not_negative(-(-interval // (ticks // constants.rate_out)))


def _not_negative(count: Any) -> Any:
    return max(count, 0) if isinstance(count, int) or not hasattr(count, "clip") else count.clip(0)
