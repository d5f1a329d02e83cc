"""Pitch features of the first pass of online decoding, which does not know the end of the audio yet.

Selected by ``simulate_first_pass_online``. Each frame has the values of the chunk after which it was ready
(src/feat/pitch-functions.cc, ComputeKaldiPitchFirstPass and ComputeAndProcessKaldiPitch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import Frames, frames_of_block
from kaldi_compat.pitch.process import standard_normal, undelayed_features
from kaldi_compat.pitch.search import Found, States, latency, search, trace
from kaldi_compat.pitch.tracker import as_audio

if TYPE_CHECKING:
    from kaldi_compat.pitch.process import Generator


class Track(NamedTuple):
    """The best path of frames: states, and the correlation at each state's lag."""

    path: States
    nccf: Floats

    def part(self, begin: int, end: int) -> Track:
        """Return the frames from ``begin`` to ``end``, a view."""
        return Track(self.path[begin:end], self.nccf[begin:end])

    def copied(self) -> Track:
        """Return a copy, which later chunks do not modify."""
        return Track(self.path.copy(), self.nccf.copy())


@dataclass
class Analysis:
    """Search of an utterance at all times.

    Attributes:
        constants: of the tracker.
        frames: of the utterance.
        first: result of the search before the energy was revised, of the frames that were there by then or more.
        final: result of the search with the revised energy.
    """

    constants: PitchConstants
    frames: Frames
    first: Found
    final: Found

    @classmethod
    def of(cls, samples: npt.NDArray[Any], options: PitchOptions, ends: Sequence[int] | None = None) -> Analysis:
        """Analyse audio ``(samples,)``, which came in chunks with these ends, or in those of the options.

        Raises:
            AudioError: a sample is infinite or NaN, or the audio is absurdly loud.
        """
        constants = PitchConstants.of(options)
        audio = as_audio(samples)
        chunks = None if ends is None else np.array(ends, np.int64)
        frames = frames_of_block(audio, np.zeros(1, np.int64), np.array([len(audio)]), constants, chunks)
        count = int(frames.rows[-1])
        final = first = Found.empty(constants, count)
        search(constants, frames, 0, count, np.zeros(constants.states, np.float32), final)
        if frames.revised is not None:
            count = min(count, constants.recompute_frame)
            first = Found.empty(constants, count)
            search(constants, replace(frames, revised=None), 0, count, np.zeros(constants.states, np.float32), first)
        return cls(constants, frames, first, final)

    def features(self, track: Track) -> Floats:
        """Return (NCCF, pitch) of the frames of a track: ``(frames, 2)``."""
        return np.stack((track.nccf, self.constants.pitch[track.path]), -1)


def first_pass_pitch(analysis: Analysis, options: PitchOptions) -> Floats:
    """Return normalized correlation and pitch of each frame at the time it was ready: ``(frames, 2)``."""
    ready = 0
    rows = [np.zeros((0, 2), np.float32)]
    for track, now, _ in online_tracks(analysis, options):
        rows.append(analysis.features(track.part(ready, now)))
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
    total = int(analysis.frames.rows[-1])
    noise = standard_normal(np.empty(total, np.float32), generator) if options.add_delta_pitch else None
    context = max(options.normalization_left_context, options.delta_window)
    given = 0
    rows = [np.zeros((0, options.dim), np.float32)]
    for track, ready, finished in online_tracks(analysis, pitch_options):
        waiting = 0 if finished else max(0, options.normalization_right_context)
        now = ready - waiting + options.delay if ready else 0
        if now <= given:
            continue
        first = max(0, given - options.delay - context)
        pitch = analysis.features(track.part(first, ready))
        features = undelayed_features(pitch, None if noise is None else noise[first:ready], options)
        rows.append(features[np.clip(np.arange(given, now) - options.delay, 0, None) - first])
        given = now
    return np.concatenate(rows)


def online_tracks(analysis: Analysis, options: PitchOptions) -> Iterator[tuple[Track, int, bool]]:
    """Yield, after each chunk, the best path so far, the number of its frames that are ready, and True at the end.

    A frame is ready once all paths agree on it, or ``max_frames_latency`` frames later. The path may be the array
    yielded before, modified.
    """
    frames, constants, groups = int(analysis.frames.rows[-1]), analysis.constants, analysis.frames.groups
    if frames == 0:
        return
    found = analysis.first._replace(correlation=analysis.final.correlation)
    track = Track(np.full(frames, -1, np.int16), np.empty(frames, np.float32))
    # The end is known together with the last chunk, before frames are requested.
    for end in dict.fromkeys(analysis.frames.ready[:-2].tolist()):
        if end == 0:
            continue
        if found is not analysis.final and end >= options.recompute_frame:
            found = analysis.final
            track.path[:] = -1
        trace(constants, found, groups, [end], *track)
        yield track.part(0, end), end - latency(found.before[:end], min(options.max_frames_latency, end)), False
    track.path[:] = -1
    trace(constants, analysis.final, groups, [frames], *track)
    yield track, frames, True
