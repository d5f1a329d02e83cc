"""The pitch tracker: audio to the normalized correlation and the pitch of each frame (src/feat/pitch-functions.cc)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.array_api import Array, at_least_float32, namespace
from kaldi_compat.errors import AudioError
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch import exact
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.exact import PitchTables
from kaldi_compat.pitch.schedule import Schedule
from kaldi_compat.pitch.viterbi import Lattice

__all__ = ["Analysis", "Floats", "search_pitches", "track_pitch", "track_pitches"]

Floats = npt.NDArray[np.float32]
Key = TypeVar("Key")


@dataclass
class Analysis:
    """Analysis of an utterance before its path is searched.

    Attributes:
        schedule: frames computed after each chunk.
        searched: ``(frames, lags)``: correlation with ballast, in which the path is searched.
        scale: ``(frames,)``: factors on it, where the energy was revised.
        correlation: ``(frames, lags)``: correlation without ballast.
        groups: ``(frames,)``: see :func:`~kaldi_compat.pitch.exact.row_groups`.
    """

    schedule: Schedule
    searched: Floats
    scale: Floats
    correlation: Floats
    groups: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, samples: npt.NDArray[Any], options: PitchOptions) -> Analysis:
        """Analyse audio ``(samples,)``."""
        if samples.ndim != 1:
            raise AudioError(f"audio to track pitch in has one axis, not the shape {samples.shape}")
        constants, tables = PitchConstants.of(options), PitchTables.of(options)
        schedule = Schedule.of(len(samples), constants)
        frames = int(schedule.frames)
        if frames == 0:
            none = np.zeros((0, tables.lags), np.float32)
            return cls(schedule, none, np.zeros(0, np.float32), none, np.zeros(0, np.uint8))
        signal = exact.downsample(samples if samples.dtype == np.int16 else samples.astype(np.float32), options)
        if not np.isfinite(signal).all():
            raise AudioError("audio to track pitch in holds an infinity or something that is not a number")
        with np.errstate(over="ignore", invalid="ignore"):  # products of absurdly loud audio overflow
            energy, better = exact.energies(signal, schedule, options)
            ballast = exact.ballast_of(energy, options).astype(np.float32)
            laid, shift = exact.frame_signal(signal, frames, constants)
            searched, correlation, average = exact.correlate(tables, laid, shift, ballast)
            scale = exact.recompute_scale(energy, better, average, int(schedule.recomputed), options)
        if not (np.isfinite(searched).all() and np.isfinite(correlation).all()):
            raise AudioError("audio to track pitch in is so loud that its correlation overflows: scale it down")
        return cls(schedule, searched, scale, correlation, exact.row_groups(schedule.frames_ready))

    def features(self, path: npt.NDArray[np.int16], options: PitchOptions, first: int = 0) -> Floats:
        """Return (NCCF, pitch) of the frames from ``first`` on, along a path of states: ``(frames, 2)``."""
        frames = slice(first, first + len(path))
        tables = PitchTables.of(options)
        nccf = exact.interpolate(tables, self.correlation[frames], self.groups[frames], path)
        return np.stack((nccf, PitchConstants.of(options).pitch[path]), -1)

    def lattice(self, options: PitchOptions, frames: int | None = None, *, revised: bool = True) -> Lattice:
        """Search the paths of all frames, or of the first ones; with the revised energy, or with the first one."""
        tables = PitchTables.of(options)
        count = len(self.searched) if frames is None else frames
        lattice = Lattice(count, len(tables.weights))
        exact.search(
            tables,
            self.searched[:count],
            self.scale[:count] if revised else np.ones(count, np.float32),
            self.groups[:count],
            np.zeros(len(tables.weights), np.float32),
            lattice.predecessors,
            lattice.best,
        )
        return lattice


def track_pitch(samples: Array, options: PitchOptions | None = None) -> Array:
    """Compute normalized correlation and pitch of each frame of audio (Kaldi: ComputeKaldiPitch).

    Args:
        samples: ``(samples,)`` at ``options.sample_frequency``, on Kaldi's scale (16-bit integers), NumPy or torch.
        options: None for Kaldi's defaults.

    Returns:
        ``(frames, 2)``: the normalized cross-correlation (NCCF, -1 to 1, higher where voiced) and the pitch in Hz.
        The result has no gradient: for that, and for batches, use :class:`~kaldi_compat.features.pitch.Pitch`.

    Raises:
        AudioError: ``samples`` has more than one axis.
        FeatureError: ``samples`` is neither an array nor a tensor.

    >>> tone = 5000 * np.sin(2 * np.pi * 200 * np.arange(16000) / 16000)
    >>> print(track_pitch(tone.astype(np.float32))[50].round(2))
    [  1.   199.98]
    """
    xp = namespace(samples)
    audio: Any = samples if isinstance(samples, np.ndarray) else at_least_float32(samples.detach()).cpu().numpy()
    ((_, features),) = track_pitches([("", audio)], options or PitchOptions())
    tracked: Array = features if isinstance(samples, np.ndarray) else xp.from_numpy(features).to(samples.device)
    return tracked


def track_pitches(
    utterances: Iterable[tuple[Key, npt.NDArray[Any]]], options: PitchOptions
) -> Iterator[tuple[Key, Floats]]:
    """Apply :func:`track_pitch` to many utterances, in order: keys and samples give keys and features."""
    return search_pitches(((key, Analysis.of(samples, options)) for key, samples in utterances), options)


def search_pitches(analyses: Iterable[tuple[Key, Analysis]], options: PitchOptions) -> Iterator[tuple[Key, Floats]]:
    """Search the pitch of analysed utterances: the second half of :func:`track_pitches`."""
    for key, analysis in analyses:
        yield key, analysis.features(analysis.lattice(options).path(), options)
