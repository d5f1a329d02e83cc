"""Pitch features of the first pass of online decoding, which does not know the end of the audio yet.

The option ``simulate_first_pass_online`` selects these features. The values of a frame come from the first chunk after
which the frame is ready (src/feat/pitch-functions.cc, ComputeKaldiPitchFirstPass and ComputeAndProcessKaldiPitch).
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
    """Results of the pitch search for an utterance, before and after the ballast is revised."""

    constants: PitchConstants  # The tracker's numbers and tables.
    frames: PitchFrames  # Frames of the audio for the search.
    # Result of the search with the ballast that is not revised. It has at least the frames that need this search.
    first: Lattice
    final: Lattice  # Result of the search of all frames with the revised ballast.

    @classmethod
    def from_audio(
        cls, samples: npt.NDArray[Any], options: PitchOptions, ends: Sequence[int] | None = None
    ) -> Analysis:
        """Search for the cheapest paths through the frames of an utterance whose audio arrives in chunks.

        Args:
            samples: audio ``(T,)`` on the scale of 16-bit integers, at ``options.sample_frequency``.
            options: the tracker's options.
            ends: index after the last sample of each chunk. None for chunks of ``options.frames_per_chunk`` frames.

        Raises:
            AudioError: the audio has more than one axis, has unsigned or 8-bit integers, is not finite, or is too loud.
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
        """Return columns ``(frames, 2)``: correlation (NCCF) and pitch in Hz of each frame on the traced path."""
        return np.stack((lattice.nccf, self.constants.pitch[lattice.path]), -1)


def _search_first_frames(constants: PitchConstants, frames: PitchFrames, count: int) -> Lattice:
    """Return the cheapest paths through the first ``count`` frames. No path is traced, so ``nccf`` is undefined."""
    lattice = Lattice.allocate(constants, count)
    search_paths(constants, frames, 0, count, np.zeros(constants.states, np.float32), lattice, ends=[])
    return lattice


def compute_first_pass_pitch(analysis: Analysis, options: PitchOptions) -> Floats:
    """Return the track (frames, 2) of the first pass of online decoding: normalized correlation, and pitch in Hz.

    The numbers of a frame come from the first path in which the frame is ready (:func:`trace_online_paths`).
    ``options`` are the tracker's options.
    """
    done_count = 0
    tracks = [np.zeros((0, 2), np.float32)]
    for lattice, ready_count, _ in trace_online_paths(analysis, options):
        tracks.append(analysis.compute_features(lattice.slice_frames(done_count, ready_count)))
        done_count = max(done_count, ready_count)
    return np.concatenate(tracks)


def compute_first_pass_features(
    analysis: Analysis,
    pitch_options: PitchOptions,
    options: ProcessPitchOptions,
    generator: Generator | None = None,
) -> Floats:
    """Compute the processed pitch features that the first pass of online decoding uses for each frame.

    The numbers of a frame come from the first path (:func:`trace_online_paths`) in which the frame and the next
    ``normalization_right_context`` frames are ready, or from the last path, at the end of the audio.

    Args:
        analysis: frames and paths of an utterance.
        pitch_options: options of the tracker.
        options: options of the processing.
        generator: source of the noise on the deltas, as for :func:`~kaldi_compat.pitch.process.process_pitch`.

    Returns:
        Features (frames + delay, dim), with the columns of :func:`~kaldi_compat.pitch.process.process_pitch`, or
        (0, dim) if there are no frames.
    """
    total = int(analysis.frames.rows[-1])
    noise = draw_standard_normal(np.empty(total, np.float32), generator) if options.add_delta_pitch else None
    context = max(options.normalization_left_context, options.delta_window)
    done_count = 0
    outputs = [np.zeros((0, options.dim), np.float32)]
    for lattice, ready_count, is_finished in trace_online_paths(analysis, pitch_options):
        num_waiting = 0 if is_finished else max(0, options.normalization_right_context)
        end = ready_count - num_waiting + options.delay if ready_count else 0
        if end <= done_count:
            continue
        first = max(0, done_count - options.delay - context)  # The first frame that the new outputs need.
        track = analysis.compute_features(lattice.slice_frames(first, ready_count))
        features = compute_undelayed_features(track, None if noise is None else noise[first:ready_count], options)
        outputs.append(features[np.clip(np.arange(done_count, end) - options.delay, 0, None) - first])
        done_count = end
    return np.concatenate(outputs)


def trace_online_paths(analysis: Analysis, options: PitchOptions) -> Iterator[tuple[Lattice, int, bool]]:
    """Yield the best path after each chunk that adds frames, its number of ready frames, and True for the last path.

    The ready frames are the frames on which all paths agree, one frame after them (as in Kaldi), and all frames that
    ``max_frames_latency`` frames follow. At the end of the audio, all frames are ready. The next iteration changes the
    arrays of the yielded path.
    """
    constants, frames, lattice = analysis.constants, analysis.frames, analysis.first
    total, costs = int(frames.rows[-1]), np.empty(constants.states, np.float32)
    if total == 0:
        return
    # The end of the audio is known when the last samples arrive, so the chunk with the last samples and the empty chunk
    # after it are processed in one step.
    chunks = [(end, False) for end in dict.fromkeys(frames.frame_counts[:-2].tolist()) if end > 0]
    for end, is_finished in [*chunks, (total, True)]:
        if is_finished or end >= options.recompute_frame:
            lattice = analysis.final
        search_paths(constants, frames, 0, 0, costs, lattice, [end])  # No row is searched, only the path is traced.
        latency = min(options.max_frames_latency, end)
        num_waiting = 0 if is_finished else count_undecided_frames(lattice.predecessors[:end], latency)
        yield lattice.slice_frames(0, end), end - num_waiting, is_finished
