"""The pitch tracker: audio to the normalized correlation and the pitch of each frame (src/feat/pitch-functions.cc)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.functional.array_api import Array, get_namespace, widen_to_float32
from kaldi_compat.functional.checks import check_samples
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import PitchKeywords, Unpack
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import PitchFrames, split_into_frames
from kaldi_compat.pitch.search import Lattice, count_undecided_frames, search_paths

Key = TypeVar("Key")
# Maximum number of frames that are searched at once. Their arrays fit into the processor's cache.
_MAX_FRAMES = 768


class _ThreadMemory(threading.local):
    """Memory for paths that each thread reuses. Allocating memory for each block would take a tenth of the time."""

    memory: Lattice | None = None


_thread = _ThreadMemory()


class Paths:
    """The cheapest paths through the last frames of audio, whose states are undecided.

    Args:
        options: the tracker's options.
        memory: memory for frames, used if it has the right numbers of states and lags. None to allocate memory.
    """

    def __init__(self, options: PitchOptions, memory: Lattice | None = None) -> None:
        self.constants = PitchConstants.from_options(options)
        self.costs = np.zeros(self.constants.states, np.float32)  # Costs of the paths to the states of the last frame.
        widths = self.constants.states, self.constants.lags
        is_usable = memory is not None and (memory.predecessors.shape[1], memory.correlation.shape[1]) == widths
        self.memory = memory if memory is not None and is_usable else Lattice.allocate(self.constants, 0)
        self._count = 0  # Number of undecided frames at the start of the memory.

    def __len__(self) -> int:
        return self._count

    def extend(self, frames: PitchFrames, begin: int, end: int, ends: Sequence[int]) -> None:
        """Append the frames of rows ``begin`` to ``end - 1``, and continue the search for the cheapest paths.

        Args:
            frames: frames of one or several utterances.
            begin, end: first row to append, and the row after the last row.
            ends: index after the last frame of each utterance whose best path is traced. Frame 0 is the first
                undecided frame.

        Raises:
            AudioError: correlations overflow.
        """
        count = len(self) + end - begin
        if count > len(self.memory.best):
            undecided, self.memory = self._get_lattice(), Lattice.allocate(self.constants, max(count, 2 * len(self)))
            self._keep_frames(undecided)
        self._count = count
        search_paths(self.constants, frames, begin, end, self.costs, self._get_lattice(), ends)

    def _get_lattice(self) -> Lattice:
        return self.memory.slice_frames(0, len(self))

    def _keep_frames(self, undecided: Lattice) -> None:
        """Copy the frames ``undecided`` to the start of the memory, and discard all other frames."""
        self._count = len(undecided.best)
        pairs: Any = zip(self.memory, undecided, strict=True)
        for memory, undecided_array in pairs:
            memory[: self._count] = undecided_array

    def count_agreed_frames(self, max_latency: int) -> int:
        """Return the number of frames whose state all paths share, or that at least ``max_latency`` frames follow."""
        max_undecided = min(len(self), max_latency) - 1
        return len(self) - 1 - count_undecided_frames(self._get_lattice().predecessors, max_undecided)

    def decide_frames(self, count: int) -> Floats:
        """Remove the first ``count`` frames. Return features (count, 2): NCCF and pitch in Hz on their traced path."""
        lattice = self._get_lattice()
        features = np.stack((lattice.nccf[:count], self.constants.pitch[lattice.path[:count]]), -1)
        self._keep_frames(lattice.slice_frames(count, len(self)))
        return features


@takes_options(PitchOptions)
def track_pitch(samples: Array, options: PitchOptions | None = None, **changes: Unpack[PitchKeywords]) -> Array:
    """Compute the normalized correlation and the pitch of each frame of audio (Kaldi: ComputeKaldiPitch).

    Args:
        samples: audio ``(T,)`` on the scale of 16-bit integers, at ``options.sample_frequency``: an array or a tensor.
        options, changes: range and grid of the pitches, as ``PitchOptions`` or by name. Kaldi's defaults if omitted.

    Returns:
        Columns ``(frames, 2)``: normalized cross-correlation (NCCF, -1 to 1, higher where voiced), and pitch in Hz.
        The result has no gradient. For gradients and batches, use :class:`~kaldi_compat.torch.features.pitch.Pitch`.

    Raises:
        AudioError: ``samples`` has more than one axis, has unsigned or 8-bit integers, is not finite, or is too loud.
        FeatureError: ``samples`` is neither an array nor a tensor.
        OptionError: Kaldi refuses an option.

    >>> import numpy as np
    >>> from kaldi_compat import track_pitch
    >>> tone = 5000 * np.sin(2 * np.pi * 200 * np.arange(16000) / 16000)
    >>> print(track_pitch(tone.astype(np.float32))[50].round(2))
    [  1.   199.98]
    """
    xp = get_namespace(samples)
    check_samples(samples)
    audio: Any = samples if isinstance(samples, np.ndarray) else widen_to_float32(samples.detach()).cpu().numpy()
    options = make_options("track_pitch", PitchOptions, options, changes)
    ((_, features),) = track_pitches([("", audio)], options)
    track: Array = features if isinstance(samples, np.ndarray) else xp.from_numpy(features).to(samples.device)
    return track


@takes_options(PitchOptions)
def track_pitches(
    utterances: Iterable[tuple[Key, npt.NDArray[Any]]],
    options: PitchOptions | None = None,
    **changes: Unpack[PitchKeywords],
) -> list[tuple[Key, Floats]]:
    """Apply :func:`track_pitch` to many utterances at once.

    Args:
        utterances: pairs of any key and the utterance's audio, an array (T,).
        options, changes: options of the tracker: see :func:`track_pitch`.

    Returns:
        Pairs of a key and a track, in the order of ``utterances``. A track (frames, 2) has the normalized correlation
        and the pitch in Hz.

    Raises:
        OptionError: Kaldi refuses an option.
        AudioError: audio has more than one axis, has unsigned or 8-bit integers, is not finite, or is too loud.
    """
    options = make_options("track_pitches", PitchOptions, options, changes)
    keys, audio = [], [np.empty(0, np.int16)]
    for key, samples in utterances:
        keys.append(key)
        audio.append(convert_audio(samples))
    lengths = np.array(list(map(len, audio[1:])), np.int64)
    features, rows = track_block(convert_audio(np.concatenate(audio)), np.cumsum(lengths) - lengths, lengths, options)
    return [(key, features[first:end]) for key, first, end in zip(keys, rows[:-1], rows[1:], strict=True)]


def track_block(
    samples: npt.NDArray[Any], starts: Integers, lengths: Integers, options: PitchOptions
) -> tuple[Floats, Integers]:
    """Compute the normalized correlation and the pitch of the frames of a block of utterances.

    Args:
        samples: audio of the utterances, contiguous int16 or float32 (T,).
        starts, lengths: indices (utterances,) of the utterances' first samples, and numbers (utterances,) of samples.
        options: the tracker's options.

    Returns:
        features: columns (rows, 2) of all frames: normalized correlation, and pitch in Hz.
        bounds: indices (utterances + 1,): first row of each utterance, followed by the number of rows.

    Raises:
        AudioError: a sample is infinite or NaN, or the audio is so loud that its correlation overflows.
    """
    # After an error in this call, the thread's memory stays None, so that the next call allocates new memory.
    paths, _thread.memory = Paths(options, _thread.memory), None
    frames = split_into_frames(samples, starts, lengths, paths.constants)
    row_count, decided_count = int(frames.rows[-1]), 0
    features = np.empty((row_count, 2), np.float32)
    for begin in range(0, row_count, _MAX_FRAMES):
        end = min(begin + _MAX_FRAMES, row_count)
        if begin in frames.rows:
            paths.costs[:] = 0
        # The rows from ``decided_count`` on are undecided. All frames of an utterance are decided at its end.
        ends = frames.rows[(frames.rows > decided_count) & (frames.rows <= end)] - decided_count
        count = int(ends.max(initial=0))
        is_continued = decided_count + count < end  # True if the last utterance continues after row ``end - 1``.
        continued_end = [end - decided_count] if is_continued else []
        paths.extend(frames, begin, end, [*ends.tolist(), *continued_end])
        if is_continued:  # The frames of utterances that have ended are decided, even if paths do not agree on them.
            count = paths.count_agreed_frames(max_latency=len(paths) - count)
        features[decided_count : decided_count + count] = paths.decide_frames(count)
        decided_count += count
    # Keep the memory for the next call of this thread, unless long undecided paths have made it large.
    _thread.memory = paths.memory if len(paths.memory.best) <= 2 * _MAX_FRAMES else None
    return features, frames.rows


def convert_audio(samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert audio (T,) to float32, unless it is int16. The tracker takes only these two types.

    Raise AudioError if ``samples`` does not have exactly one axis, or has an unsupported type.
    """
    if samples.ndim != 1:
        raise AudioError(
            f"audio for pitch tracking must have one axis, not the shape {samples.shape}: take one channel"
        )
    check_samples(samples)
    return samples if samples.dtype == np.int16 else samples.astype(np.float32, copy=False)
