"""The pitch tracker on tensors: batched, on any device, with gradients, and inside compiled and exported models.

The steps of Ghahremani et al., "A pitch extraction algorithm tuned for automatic speech recognition" (ICASSP 2014), as
Kaldi takes them (src/feat/pitch-functions.cc): low-pass and resample, cut into windows, correlate at every whole lag,
interpolate to lags spaced evenly in log pitch, and search the cheapest path.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.resample import count_resampled
from kaldi_compat.functional.array_api import is_traced, matmul, sum_cumulatively
from kaldi_compat.functional.batches import zero_past
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.torch.tensors.pitch_paths import cheapest_paths
from kaldi_compat.torch.tensors.sinc import resample_tensor

_BLOCK = 256  # Frames correlated together, so that their windows stay in the cache.
_ENERGY_CHANGE = 0.01  # Kaldi's threshold on the relative change of the energy that calls for another search


class PitchTables(NamedTuple):
    """Tables of the tracker as tensors."""

    band: Tensor  # ``(lags - 1 + window, lags)``: ones where a sample is in the window at a lag
    weights: Tensor  # ``(lags, states)``: interpolates correlations to the lags that are the states
    discount: Tensor  # ``(states,)``: reduction of the correlation at longer lags
    pitch: Tensor  # ``(states,)`` in Hz
    lowpass_starts: Tensor  # ``starts`` of :class:`~kaldi_compat.exact.resample.PeriodFilters`
    lowpass_weights: Tensor  # ``weights`` of it

    @classmethod
    def of(cls, constants: PitchConstants) -> PitchTables:
        """Return the tables on the CPU."""
        reach, lags = constants.lags - 1 + constants.window, constants.lags
        lowpass = constants.period_filters
        tables = (
            np.tri(reach, lags, dtype=np.float32) - np.tri(reach, lags, -constants.window, dtype=np.float32),
            constants.weights,
            np.float32(constants.soft_min_f0) * constants.seconds,
            constants.pitch,
            lowpass.starts,
            lowpass.weights,
        )
        return cls(*map(torch.from_numpy, tables))


def silent_past(samples: Tensor, lengths: Tensor) -> Tensor:
    """Set audio (B, T) to zero past each row's length."""
    return zero_past(samples[..., None], lengths)[..., 0]


def track_batch(
    samples: Tensor, lengths: Tensor | None, constants: PitchConstants, tables: PitchTables
) -> tuple[Tensor, Tensor]:
    """Track pitch in a padded batch, entirely in torch on its device.

    Args:
        samples: (B, T), float32 or float64, on any device.
        lengths: (B,) numbers of valid samples of the rows; None for all.
        constants: the tracker's numbers and tables.
        tables: the tracker's tables, on the device.

    Returns:
        features: (B, frames, 2): correlation and pitch, zeros past a row's frames.
        frames: (B,) frames of each row.
    """
    utterances, longest = samples.shape
    traced = is_traced(samples)
    max_frames = num_frames_of_size(longest, constants) if traced else constants.count_frames(longest)
    counts = torch.zeros(utterances, dtype=torch.long, device=samples.device)
    if max_frames == 0:
        return samples.new_zeros((utterances, 0, 2)), counts
    counts = counts + longest if lengths is None else lengths.to(counts).clamp(0, longest)
    schedule = Schedule.of(counts, longest, max_frames, constants)
    frames = schedule.frames.clamp(max=max_frames)
    ends = constants.count_resampled(counts, finished=True).clamp(min=1)
    signal = silent_past(downsample_audio(silent_past(samples, counts), constants, tables), ends)

    windows = frame_windows(signal, max_frames, constants, ends)
    # If traced, the number of blocks would become a constant of the graph.
    parts = [
        correlations(part, constants, tables) for part in ([windows] if traced else torch.split(windows, _BLOCK, -2))
    ]
    inner, norm = (torch.cat(blocks, -2) for blocks in zip(*parts, strict=True))
    energy = mean_square(signal, schedule.samples.clamp(min=1))
    better_energy = mean_square(signal, schedule.recompute_samples[:, None].clamp(min=1))
    again = torch.arange(max_frames, device=samples.device) < schedule.recomputed[:, None]
    with torch.no_grad():
        searched = search_nccf(inner, norm, energy, better_energy, again, constants)
        path = cheapest_paths(compute_local_costs(searched, tables), constants.step, frames)
    return zero_past(path_features(nccf(inner, norm, 0.0), path, tables), frames), frames


class Schedule(NamedTuple):
    """Frames of a batch, and the samples that give their ballast (see :mod:`kaldi_compat.pitch.frames`)."""

    frames: Tensor  # ``(B,)`` number of frames
    samples: Tensor  # ``(B, frames)`` resampled samples whose energy gives each frame's ballast
    recomputed: Tensor  # ``(B,)`` number of frames, from the first, that are searched again with a better energy
    recompute_samples: Tensor  # ``(B,)`` resampled samples from which the better energy is computed

    @classmethod
    def of(cls, lengths: Tensor, longest: int, frames: int, constants: PitchConstants) -> Schedule:
        """Return the schedules of utterances.

        Args:
            lengths: ``(B,)`` numbers of samples.
            longest: upper limit of the lengths.
            frames: number of frames in the result; frames beyond those of an utterance are undefined.
            constants: the tracker's numbers and tables.
        """
        samples_in = lengths[:, None]
        numbers = torch.arange(0, frames, device=lengths.device)
        end = constants.count_resampled(samples_in, finished=True)
        if constants.chunk:
            chunks = torch.arange(1, -(-longest // constants.chunk) + 1, device=lengths.device)
            samples_in = torch.minimum(constants.chunk * chunks, samples_in)
        there = constants.count_resampled(samples_in, finished=False)
        in_chunks = constants.count_available_frames(there, finished=False)
        ready = torch.cat((in_chunks, constants.count_available_frames(end, finished=True)), -1)
        there = torch.cat((there, end), -1)
        if constants.ballast_online:
            ends = constants.start + constants.shift * numbers + constants.span
            return cls(ready[:, -1], torch.minimum(ends, end), 0 * lengths, end[:, 0])
        limit = max(0, constants.recompute_frame)
        recomputed = ready[:, -1].clip(None, limit)
        reached = _at_frames(there, ready, torch.arange(limit - 1, limit, device=lengths.device))
        better = torch.where(recomputed < max(1, limit), end[:, 0], reached[:, 0])
        return cls(ready[:, -1], _at_frames(there, ready, numbers), recomputed, better)


def _at_frames(there: Tensor, ready: Tensor, frames: Tensor) -> Tensor:
    """Return the samples received when a frame is computed, for ``(B, chunks + 1)`` and frames ``(n,)``."""
    chunk = (ready[..., None, :] <= frames[:, None]).sum(-1)
    return there.gather(-1, chunk.clip(max=ready.shape[-1] - 1))


def num_frames_of_size(samples: Any, constants: PitchConstants) -> Any:
    """Compute the number of frames in integer arithmetic, for sizes that may be symbols of a compiler.

    For centered frames, Kaldi rounds in float32, which gives another result from 2^23 resampled samples (35 minutes).
    """
    count = count_resampled(samples, constants.rate_in, constants.rate_out)
    if constants.snip_edges:
        frames = (count - constants.window) // constants.shift + 1
        return max(frames, 0) if isinstance(frames, int) or not hasattr(frames, "clip") else frames.clip(0)
    if count < constants.window:
        return 0
    return (2 * count + constants.shift) // (2 * constants.shift)


def downsample_audio(samples: Tensor, constants: PitchConstants, tables: PitchTables) -> Tensor:
    """Resample audio to the rate that pitch is tracked at: ``(..., samples)`` -> ``(..., fewer)``.

    Summed in double, which keeps a constant signal constant to the last bit (its windows then have no energy).
    """
    starts, weights = tables.lowpass_starts, tables.lowpass_weights
    filters = dataclasses.replace(constants.period_filters, starts=starts, weights=weights)
    return resample_tensor(samples, filters, torch.float64)


def frame_windows(signal: Tensor, frames: int, constants: PitchConstants, lengths: Tensor) -> Tensor:
    """Cut the samples that each frame needs, with zeros past the ends.

    Args:
        signal: ``(B, samples)`` resampled.
        frames: number of frames; each must start within the signal.
        constants: the tracker's numbers and tables.
        lengths: ``(B,)`` numbers of valid samples of each signal, which is zero past them.

    Returns:
        ``(B, frames, span)``
    """
    size, shift, start = constants.span, constants.shift, constants.start
    padded = torch.nn.functional.pad(signal, (max(0, -start), size + shift))
    windows = padded[..., max(0, start) :].unfold(-1, size, shift)[..., :frames, :]
    if constants.preemphasis == 0.0:
        return windows
    # Windows are filtered separately. A first sample is its own predecessor.
    firsts = start + shift * torch.arange(0, frames, device=signal.device)
    position = firsts[:, None] + torch.arange(0, size, device=signal.device)
    previous = torch.cat((windows[..., :1], windows[..., :-1]), -1)
    previous = torch.where(position == 0, windows, previous)
    inside = (position >= 0) & (position < lengths[..., None, None])
    return torch.where(inside, windows - constants.preemphasis * previous, 0 * windows)


def correlations(windows: Tensor, constants: PitchConstants, tables: PitchTables) -> tuple[Tensor, Tensor]:
    """Correlate the window of a frame with later windows: ``(..., span)`` -> two of ``(..., lags)``.

    Returns:
        inner: dot products of the window with the windows at each lag.
        norm: products of the energies of the two windows. The mean of the first window is subtracted from all samples.
    """
    size, first = constants.window, constants.first_lag
    mean = (windows[..., :size].double().sum(-1) / size).to(windows.dtype)
    centered = windows - mean[..., None]
    base = centered[..., :size]
    # A product of matrices would be subject to TF32 and autocast, and would copy all windows.
    lags = range(first, first + constants.lags)
    inner = torch.stack([(base * centered[..., k : k + size]).sum(-1) for k in lags], -1)
    # The energy of every window at once: squares times a band of ones, which adds no cancellation.
    energies = matmul(centered[..., first:] ** 2, tables.band.to(windows.dtype))
    return inner, (base**2).sum(-1)[..., None] * energies


def nccf(inner: Tensor, norm: Tensor, ballast: Tensor | float) -> Tensor:
    """Compute the normalized cross-correlation, ``inner / sqrt(norm + ballast)``; 0 in digital silence.

    The ballast (a number, or one per frame) reduces the correlation of quiet frames.
    """
    squared = norm + ballast
    silent = squared <= 0
    return torch.where(silent, 0 * inner, inner / torch.sqrt(torch.where(silent, 1 + 0 * squared, squared)))


def mean_square(signal: Tensor, counts: Tensor) -> Tensor:
    """Compute the variance of the first samples of signals, for several counts of samples, in double.

    ``(B, samples)`` and integers ``(B, n)`` -> ``(B, n)``.
    """
    wide, number = signal.double(), counts.double()

    def mean_of_first(x: Tensor) -> Tensor:
        sums: Tensor = sum_cumulatively(x, -1).gather(-1, counts - 1)
        return sums / number

    return mean_of_first(wide * wide) - mean_of_first(wide) ** 2


def search_nccf(
    inner: Tensor, norm: Tensor, energy: Tensor, better_energy: Tensor, recomputed: Tensor, constants: PitchConstants
) -> Tensor:
    """Compute the correlation that the path is searched in: with ballast, and scaled where the energy was revised.

    Args:
        inner, norm: ``(..., frames, lags)``: results of :func:`correlations`.
        energy: ``(..., frames)`` mean square from which each frame's ballast is computed.
        better_energy: ``(..., 1)`` mean square known when some frames are searched again.
        recomputed: ``(..., frames)`` mask of these frames.
        constants: the tracker's numbers and tables.

    Returns:
        ``(..., frames, lags)``
    """
    ballast = _ballast(energy, constants)
    correlation = nccf(inner, norm, ballast.to(inner.dtype)[..., None])
    # Kaldi's ApproxEqual compares with the sum of both energies. A change at one frame scales all frames.
    changed = abs(energy - better_energy) > _ENERGY_CHANGE * (abs(energy) + abs(better_energy))
    changed = (changed & recomputed).any(-1)[..., None] & recomputed
    average = norm.mean(-1).double()
    before, after = ballast + average, _ballast(better_energy, constants) + average
    # The energy of extremely loud audio overflows. Its correlation is not scaled.
    usable = changed & (after > 0) & torch.isfinite(before) & torch.isfinite(after)
    ratio = torch.where(usable, before, 1.0) / torch.where(usable, after, 1.0)
    return correlation * (ratio**0.5).to(inner.dtype)[..., None]


def _ballast(energy: Tensor, constants: PitchConstants) -> Tensor:
    return (energy * constants.window) ** 2 * constants.ballast


def compute_local_costs(correlation: Tensor, tables: PitchTables) -> Tensor:
    """Compute the cost of each state in each frame, eq. 5 of the paper: ``(..., lags)`` -> ``(..., states)``.

    The operations are in Kaldi's order, because the rounding decides between the states of silence.
    """
    interpolated = matmul(correlation, tables.weights.to(correlation.dtype))
    return (1 - interpolated) + interpolated * tables.discount.to(correlation.dtype)


def path_features(correlation: Tensor, path: Tensor, tables: PitchTables) -> Tensor:
    """Return (NCCF, pitch in Hz) along a path.

    ``(..., lags)`` correlation without ballast and ``(...,)`` states -> ``(..., 2)``.
    """
    weights = tables.weights.T[path].to(correlation.dtype)
    pitch = tables.pitch[path].to(correlation.dtype)
    return torch.stack(((correlation * weights).sum(-1), pitch), -1)
