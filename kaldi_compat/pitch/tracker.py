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
from kaldi_compat.pitch.ragged import is_supported, overflow_error, track_ragged
from kaldi_compat.pitch.schedule import Schedule
from kaldi_compat.pitch.viterbi import Lattice

__all__ = ["Analysis", "Floats", "track_alone", "track_block", "track_pitch", "track_pitches"]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Key = TypeVar("Key")
_BLOCK_SAMPLES = 1 << 18  # of utterances that are tracked at once


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
        audio = _as_audio(samples)
        constants, tables = PitchConstants.of(options), PitchTables.of(options)
        schedule = Schedule.of(len(samples), constants)
        frames = int(schedule.frames)
        if frames == 0:
            none = np.zeros((0, tables.lags), np.float32)
            return cls(schedule, none, np.zeros(0, np.float32), none, np.zeros(0, np.uint8))
        signal = exact.downsample(audio, options)
        if not np.isfinite(signal).all():
            raise AudioError("audio to track pitch in holds an infinity or something that is not a number")
        with np.errstate(over="ignore", invalid="ignore"):  # products of absurdly loud audio overflow
            energy, better = exact.energies(signal, schedule, options)
            ballast = exact.ballast_of(energy, options).astype(np.float32)
            laid, shift = exact.frame_signal(signal, frames, constants)
            searched, correlation, average = exact.correlate(tables, laid, shift, ballast)
            scale = exact.recompute_scale(energy, better, average, int(schedule.recomputed), options)
        if not (np.isfinite(searched).all() and np.isfinite(correlation).all()):
            raise overflow_error()
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
    if not is_supported(options):
        for key, samples in utterances:
            yield key, track_alone(samples, options)
        return
    for block in _blocks(utterances):
        audio = [_as_audio(each) for _, each in block]
        lengths = np.array([len(each) for each in audio], np.int64)
        together = audio[0] if len(audio) == 1 else np.concatenate(audio)
        features, rows = track_ragged(np.ascontiguousarray(together), np.cumsum(lengths) - lengths, lengths, options)
        for (key, _), first, end in zip(block, rows[:-1].tolist(), rows[1:].tolist(), strict=True):
            yield key, features[first:end]


def track_alone(samples: npt.NDArray[Any], options: PitchOptions) -> Floats:
    """Compute :func:`track_pitch` of one utterance with the correlations of all its frames in memory."""
    analysis = Analysis.of(samples, options)
    return analysis.features(analysis.lattice(options).path(), options)


def track_block(
    samples: npt.NDArray[np.int16], starts: Integers, lengths: Integers, options: PitchOptions
) -> tuple[Floats, Integers]:
    """Compute :func:`track_pitch` of a block of utterances: see :func:`~kaldi_compat.pitch.ragged.track_ragged`."""
    if is_supported(options):
        return track_ragged(samples, starts, lengths, options)
    tracks = [track_alone(samples[a : a + n], options) for a, n in zip(starts, lengths, strict=True)]
    return np.concatenate(tracks), np.cumsum([0, *map(len, tracks)])


def _blocks(
    utterances: Iterable[tuple[Key, npt.NDArray[Any]]],
) -> Iterator[list[tuple[Key, npt.NDArray[Any]]]]:
    """Group utterances of one type that have few samples together. Those read before an error come before it."""
    block: list[tuple[Key, npt.NDArray[Any]]] = []
    size, failure = 0, None
    entries = iter(utterances)
    while True:
        try:
            key, samples = next(entries)
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        if block and (size + len(samples) > _BLOCK_SAMPLES or samples.dtype != block[0][1].dtype):
            yield block
            block, size = [], 0
        block.append((key, samples))
        size += len(samples)
    if block:
        yield block
    if failure is not None:
        raise failure


def _as_audio(samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return samples (T,) in one of the types that are computed with: int16 or float32."""
    if samples.ndim != 1:
        raise AudioError(f"audio to track pitch in has one axis, not the shape {samples.shape}")
    return samples if samples.dtype == np.int16 else samples.astype(np.float32, copy=False)
