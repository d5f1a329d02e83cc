"""Pitch features of the first pass of online decoding, which does not know the end of the audio yet.

Selected by ``simulate_first_pass_online``. Each frame has the values of the chunk after which it was ready
(src/feat/pitch-functions.cc, ComputeKaldiPitchFirstPass and ComputeAndProcessKaldiPitch).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.process import standard_normal, undelayed_features
from kaldi_compat.pitch.tracker import Analysis, Floats
from kaldi_compat.pitch.viterbi import States

if TYPE_CHECKING:
    from kaldi_compat.pitch.process import Generator

__all__ = ["first_pass_features", "first_pass_pitch", "online_paths"]


def first_pass_pitch(analysis: Analysis, options: PitchOptions) -> Floats:
    """Return normalized correlation and pitch of each frame at the time it was ready: ``(frames, 2)``."""
    ready = 0
    rows = [np.zeros((0, 2), np.float32)]
    for path, now, _ in online_paths(analysis, options):
        rows.append(analysis.features(path[ready:now], options, ready))
        ready = max(ready, now)
    return np.concatenate(rows)


def first_pass_features(
    analysis: Analysis,
    pitch_options: PitchOptions,
    options: ProcessPitchOptions,
    generator: Generator | None = None,
) -> Floats:
    """Return the processed pitch features of each frame at the time it was ready: ``(frames, dim)``.

    Until the end is known, a frame waits for ``normalization_right_context`` later ones.
    """
    total = int(analysis.schedule.frames)
    noise = standard_normal(np.empty(total, np.float32), generator) if options.add_delta_pitch else None
    context = max(options.normalization_left_context, options.delta_window)
    given = 0
    rows = [np.zeros((0, options.dim), np.float32)]
    for path, ready, finished in online_paths(analysis, pitch_options):
        waiting = 0 if finished else max(0, options.normalization_right_context)
        now = ready - waiting + options.delay if ready else 0
        if now <= given:
            continue
        first = max(0, given - options.delay - context)
        track = analysis.features(path[first:ready], pitch_options, first)
        features = undelayed_features(track, None if noise is None else noise[first:ready], options)
        rows.append(features[np.clip(np.arange(given, now) - options.delay, 0, None) - first])
        given = now
    return np.concatenate(rows)


def online_paths(analysis: Analysis, options: PitchOptions) -> Iterator[tuple[States, int, bool]]:
    """Yield, after each chunk, the best path so far, the number of its frames that are ready, and True at the end.

    A frame is ready once all paths agree on it, or ``max_frames_latency`` frames later. The path may be the array
    yielded before, modified.
    """
    schedule = analysis.schedule
    if schedule.frames == 0:
        return
    final = analysis.lattice(options)
    before = analysis.lattice(options, schedule.recomputed, revised=False) if schedule.recomputed else final
    path = np.full(schedule.frames, -1, np.int16)
    lattice = before
    # The end is known together with the last chunk, before frames are requested.
    for end in dict.fromkeys(schedule.frames_ready[:-2].tolist()):
        if end == 0:
            continue
        if lattice is before and end >= options.recompute_frame:
            lattice = final
            path[:] = -1
        lattice.retrace(path, end)
        yield path[:end], end - lattice.latency(end, options.max_frames_latency), False
    yield final.path(), schedule.frames, True
