"""Pitch features of the first pass of online decoding, which does not know the end of the audio yet.

Selected by ``simulate_first_pass_online``. Each frame has the values of the chunk after which it was ready
(src/feat/pitch-functions.cc, ComputeKaldiPitchFirstPass and ComputeAndProcessKaldiPitch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import PitchFrames, split_into_frames
from kaldi_compat.pitch.process import compute_undelayed_features, draw_standard_normal
from kaldi_compat.pitch.search import Lattice, count_undecided_frames, search_paths
from kaldi_compat.pitch.tracker import convert_audio

if TYPE_CHECKING:
    from kaldi_compat.pitch.process import Generator


@dataclass
class Analysis:
    """Results of the pitch search for an utterance, before and after the energy was revised."""

    constants: PitchConstants  # The tracker's numbers and tables.
    frames: PitchFrames  # Frames of the audio for the search.
    # Result of the search before the energy was revised. It has at least the frames that were known by then.
    first: Lattice
    final: Lattice  # Result of the search of all frames with the revised energy.

    @classmethod
    def from_audio(
        cls, samples: npt.NDArray[Any], options: PitchOptions, ends: Sequence[int] | None = None
    ) -> Analysis:
        """Split audio ``(samples,)``, which arrived in chunks, into frames, and search for the cheapest paths.

        ``ends`` are the ends of the chunks in samples; None for chunks of ``options.frames_per_chunk`` frames.

        Raises:
            AudioError: a sample is infinite or NaN, or the audio is so loud that its correlation overflows.
        """
        constants = PitchConstants.from_options(options)
        audio = convert_audio(samples)
        chunk_ends = None if ends is None else np.array(ends, np.int64)
        frames = split_into_frames(audio, np.zeros(1, np.int64), np.array([len(audio)]), constants, chunk_ends)
        count = int(frames.rows[-1])
        final = first = _search_first_frames(constants, frames, count)
        if frames.revised is not None:
            known_count = min(count, constants.recompute_frame)
            first = _search_first_frames(constants, replace(frames, revised=None), known_count)
        return cls(constants, frames, first, final)

    def compute_features(self, lattice: Lattice) -> Floats:
        """Return the correlation (NCCF) and the pitch in Hz of each frame of a traced lattice: ``(frames, 2)``."""
        return np.stack((lattice.nccf, self.constants.pitch[lattice.path]), -1)


def _search_first_frames(constants: PitchConstants, frames: PitchFrames, count: int) -> Lattice:
    """Search for the cheapest paths through the first ``count`` frames. No path is traced, so ``nccf`` is undefined."""
    lattice = Lattice.allocate(constants, count)
    search_paths(constants, frames, 0, count, np.zeros(constants.states, np.float32), lattice, ends=[])
    return lattice


def compute_first_pass_pitch(analysis: Analysis, options: PitchOptions) -> Floats:
    """Compute the correlation and the pitch that the first pass of online decoding uses for each frame.

    The numbers of a frame come from the first path in which the frame is ready (:func:`trace_online_tracks`).

    Returns:
        The normalized correlation, and the pitch in Hz, (frames, 2).
    """
    ready = 0
    tracks = [np.zeros((0, 2), np.float32)]
    for lattice, count, _ in trace_online_tracks(analysis, options):
        tracks.append(analysis.compute_features(lattice.slice_frames(ready, count)))
        ready = max(ready, count)
    return np.concatenate(tracks)


def compute_first_pass_features(
    analysis: Analysis,
    pitch_options: PitchOptions,
    options: ProcessPitchOptions,
    generator: Generator | None = None,
) -> Floats:
    """Compute the processed pitch features that the first pass of online decoding uses for each frame.

    The numbers of a frame come from the first path in which the frame is ready (:func:`trace_online_tracks`) and, until
    the audio has ended, the next ``normalization_right_context`` frames are ready as well.

    Args:
        analysis: frames and paths of an utterance.
        pitch_options: options of the tracker.
        options: options of the processing.
        generator: source of the noise for deltas, as for :func:`~kaldi_compat.pitch.process.process_pitch`.

    Returns:
        Features (frames, dim), with the columns of :func:`~kaldi_compat.pitch.process.process_pitch`.
    """
    total = int(analysis.frames.rows[-1])
    noise = draw_standard_normal(np.empty(total, np.float32), generator) if options.add_delta_pitch else None
    context = max(options.normalization_left_context, options.delta_window)
    done = 0
    outputs = [np.zeros((0, options.dim), np.float32)]
    for lattice, ready, finished in trace_online_tracks(analysis, pitch_options):
        num_waiting = 0 if finished else max(0, options.normalization_right_context)
        end = ready - num_waiting + options.delay if ready else 0
        if end <= done:
            continue
        first = max(0, done - options.delay - context)
        track = analysis.compute_features(lattice.slice_frames(first, ready))
        features = compute_undelayed_features(track, None if noise is None else noise[first:ready], options)
        outputs.append(features[np.clip(np.arange(done, end) - options.delay, 0, None) - first])
        done = end
    return np.concatenate(outputs)


def trace_online_tracks(analysis: Analysis, options: PitchOptions) -> Iterator[tuple[Lattice, int, bool]]:
    """Yield the best path after each chunk that adds frames, its number of ready frames, and True at the audio's end.

    A frame is ready once all paths agree on it, or once ``max_frames_latency`` frames follow it. At the end of
    the audio, all frames are ready. Each step changes the yielded path in place.
    """
    constants, frames, lattice = analysis.constants, analysis.frames, analysis.first
    total, costs = int(frames.rows[-1]), np.empty(constants.states, np.float32)
    if total == 0:
        return
    # The end of the audio is known when the last samples arrive, so the chunk with the last samples and the empty chunk
    # after it are processed in one step.
    chunks = [(end, False) for end in dict.fromkeys(frames.ready[:-2].tolist()) if end > 0]
    for end, finished in [*chunks, (total, True)]:
        if finished or end >= options.recompute_frame:
            lattice = analysis.final
        search_paths(constants, frames, 0, 0, costs, lattice, [end])  # No row is searched, only the path is traced.
        latency = min(options.max_frames_latency, end)
        num_waiting = 0 if finished else count_undecided_frames(lattice.predecessors[:end], latency)
        yield lattice.slice_frames(0, end), end - num_waiting, finished
