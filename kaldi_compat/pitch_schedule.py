"""When the pitch tracker computes which frames, and what it knows of the audio's energy by then.

Kaldi's tracker (src/feat/pitch-functions.cc, OnlinePitchFeatureImpl) takes audio as it arrives. What that changes in
the result is the energy that a frame's ballast is taken from: the mean square of the samples that were there when the
frame was computed. Once ``recompute_frame`` frames are there, or the audio ends before, the frames so far are scaled to
the energy known by then, and searched again. Audio given at once has two chunks as well: all of it, and its end, with
which the last frames come that reach past it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.options import PitchOptions, as_float32
from kaldi_compat.pitch_nccf import first_window_start, full_window

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    """Which frames are computed when, and from which samples their ballast is.

    Attributes:
        frames_ready: ``(chunks + 1,)`` frames computed after each chunk, and after the end was known.
        samples: ``(frames,)`` resampled samples whose energy gives each frame's ballast.
        recomputed: frames whose search is done again when the energy is known better: the first so many.
        recompute_samples: resampled samples that this better energy is of.
    """

    frames_ready: Ints
    samples: Ints
    recomputed: int
    recompute_samples: int

    @property
    def frames(self) -> int:
        """Frames of the whole audio."""
        return int(self.frames_ready[-1])

    @classmethod
    def of(cls, samples: int, options: PitchOptions) -> Schedule:
        """The schedule for audio of so many samples."""
        chunk = samples_per_chunk(options) or max(samples, 1)
        given = [min(start + chunk, samples) for start in range(0, samples, chunk)]
        there = [samples_out(count, options, finished=False) for count in given]
        ready = [frames_available(count, options, finished=False) for count in there]
        there.append(samples_out(samples, options, finished=True))
        ready.append(frames_available(there[-1], options, finished=True))
        frames_ready = np.maximum.accumulate(np.array(ready))
        total = int(frames_ready[-1])
        of_frame = np.array(there)[np.searchsorted(frames_ready, np.arange(total), side="right")]
        if options.nccf_ballast_online:
            ends = first_window_start(options) + options.window_shift * np.arange(total) + full_window(options)
            return cls(frames_ready, np.minimum(ends, there[-1]), 0, there[-1])
        recomputed = min(total, max(0, options.recompute_frame))
        when = there[-1] if total < options.recompute_frame or recomputed == 0 else int(of_frame[recomputed - 1])
        return cls(frames_ready, of_frame, recomputed, when)


def samples_per_chunk(options: PitchOptions) -> int:
    """Samples of a chunk of audio; 0 for all at once."""
    if options.frames_per_chunk == 0:
        return 0
    samples = np.float32(options.frames_per_chunk) * np.float32(options.sample_frequency)
    return max(1, int(samples * np.float32(options.frame_shift) / np.float32(1000)))


def frames_available(samples: int, options: PitchOptions, *, finished: bool) -> int:
    """Frames that can be computed of so many resampled samples; before the end is known, those that are whole."""
    length = options.window_size if finished else full_window(options)
    if samples < length:
        return 0
    if options.snip_edges:
        return (samples - length) // options.window_shift + 1
    centred = samples if finished else samples - length // 2
    return int(np.float32(centred) / np.float32(options.window_shift) + np.float32(0.5))


def samples_out(samples_in: int, options: PitchOptions, *, finished: bool) -> int:
    """Samples there are at the lower rate once so many have come in (Kaldi: LinearResample::GetNumOutputSamples).

    Those whose filter reaches past the end wait for more audio, unless the audio is finished.
    """
    rate_in, rate_out = int(options.sample_frequency), int(options.resample_frequency)
    ticks = math.lcm(rate_in, rate_out)
    interval = samples_in * (ticks // rate_in)
    if not finished:
        width = np.float32(options.lowpass_filter_width / (2.0 * as_float32(options.lowpass_cutoff)))
        interval -= math.floor(width * np.float32(ticks))
    return max(0, -(-interval // (ticks // rate_out)))
