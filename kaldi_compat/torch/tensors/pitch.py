"""The pitch tracker for batches of tensors on any device, with gradients, and in compiled and exported models.

The tracker of Ghahremani et al., "A pitch extraction algorithm tuned for automatic speech recognition" (ICASSP 2014)
and src/feat/pitch-functions.cc filters and resamples audio, cuts it into windows, correlates them at every whole lag,
interpolates the correlation to lags that are evenly spaced in log pitch, and finds the cheapest path through them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.resample import count_resampled
from kaldi_compat.functional.array_api import is_traced, matmul, sum_cumulatively
from kaldi_compat.functional.batches import zero_padding
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.torch.tensors.pitch_paths import find_cheapest_paths
from kaldi_compat.torch.tensors.sinc import resample_tensor

_BLOCK = 256  # Number of frames that are correlated together, so that their windows fit into the cache of a CPU.
# Kaldi searches the path again if the variance changes by more than this fraction of the sum of both variances.
_ENERGY_CHANGE = 0.01


class PitchTables(NamedTuple):
    """Tables of the pitch tracker as tensors."""

    band: Tensor  # ``(lags - 1 + window, lags)``: 1 if a sample is in the window at a lag, else 0.
    weights: Tensor  # ``(lags, states)``: interpolation weights from whole lags to the lags of the states.
    discount: Tensor  # ``(states,)``: share of the correlation that is subtracted, which increases with the lag.
    pitch: Tensor  # ``(states,)``: pitch of each state in Hz.
    lowpass_starts: Tensor  # ``(phases,)``: ``PeriodFilters.starts`` of the low-pass filter.
    lowpass_weights: Tensor  # ``(phases, taps)``: ``PeriodFilters.weights`` of the low-pass filter.

    @classmethod
    def from_constants(cls, constants: PitchConstants) -> PitchTables:
        """Return the tables of a pitch tracker as tensors on the CPU."""
        num_samples, lags = constants.lags - 1 + constants.window, constants.lags
        lowpass = constants.period_filters
        tables = (
            np.tri(num_samples, lags, dtype=np.float32)
            - np.tri(num_samples, lags, -constants.window, dtype=np.float32),
            constants.weights,
            np.float32(constants.soft_min_f0) * constants.seconds,
            constants.pitch,
            lowpass.starts,
            lowpass.weights,
        )
        return cls(*map(torch.from_numpy, tables))


def silence_padding(samples: Tensor, lengths: Tensor) -> Tensor:
    """Return audio (B, T) with zeros from sample ``lengths[b]`` on in each row ``b``."""
    return zero_padding(samples[..., None], lengths)[..., 0]


def track_batch(
    samples: Tensor, lengths: Tensor | None, constants: PitchConstants, tables: PitchTables
) -> tuple[Tensor, Tensor]:
    """Track pitch in a padded batch with torch's operations on the device of the batch.

    Args:
        samples: (B, T), float32 or float64, on any device.
        lengths: (B,): number of valid samples of each row; None if all samples are valid.
        constants, tables: constants and tables of the tracker. The tables are on the device of the samples.

    Returns:
        features: (B, frames, 2): normalized correlation, and pitch in Hz; zero after the last frame of each row.
        frames: (B,): number of frames of each row.
    """
    utterances, longest = samples.shape
    is_graph = is_traced(samples)
    max_frames = count_frames_in_integers(longest, constants) if is_graph else constants.count_frames(longest)
    counts = torch.zeros(utterances, dtype=torch.long, device=samples.device)
    if max_frames == 0:
        return samples.new_zeros((utterances, 0, 2)), counts
    counts = counts + longest if lengths is None else lengths.to(counts).clamp(0, longest)
    schedule = Schedule.from_lengths(counts, longest, max_frames, constants)
    frames = schedule.frames.clamp(max=max_frames)
    ends = constants.count_resampled(counts, finished=True).clamp(min=1)
    signal = silence_padding(downsample_audio(silence_padding(samples, counts), constants, tables), ends)

    windows = cut_windows(signal, max_frames, constants, ends)
    # A traced graph has a single block, because the number of blocks would become a constant of the graph.
    pairs = [
        correlate_windows(block, constants, tables)
        for block in ([windows] if is_graph else torch.split(windows, _BLOCK, -2))
    ]
    inner, norm = (torch.cat(blocks, -2) for blocks in zip(*pairs, strict=True))
    variance = compute_variances(signal, schedule.samples.clamp(min=1))
    new_variance = compute_variances(signal, schedule.repeated_samples[:, None].clamp(min=1))
    is_repeated = torch.arange(max_frames, device=samples.device) < schedule.repeated_frames[:, None]
    with torch.no_grad():
        search_nccf = compute_search_nccf(inner, norm, variance, new_variance, is_repeated, constants)
        path = find_cheapest_paths(compute_local_costs(search_nccf, tables), constants.step, frames)
    return zero_padding(gather_path_features(compute_nccf(inner, norm, 0.0), path, tables), frames), frames


class Schedule(NamedTuple):
    """Numbers of frames, and numbers of resampled samples whose variance determines the ballast.

    See :mod:`kaldi_compat.pitch.frames`, which explains the ballast, and :func:`compute_search_nccf`, which adds it.
    """

    frames: Tensor  # ``(B,)``: number of frames.
    samples: Tensor  # ``(B, frames)``: number of samples whose variance gives the ballast of each frame.
    repeated_frames: Tensor  # ``(B,)``: number of the first frames, which are searched again with a better ballast.
    repeated_samples: Tensor  # ``(B,)``: number of samples whose variance gives the better ballast.

    @classmethod
    def from_lengths(cls, lengths: Tensor, longest: int, max_frames: int, constants: PitchConstants) -> Schedule:
        """Return the schedule of utterances whose audio arrives in chunks, as in Kaldi's tracker.

        Args:
            lengths: ``(B,)``: number of samples of each utterance before resampling.
            longest: upper bound on the lengths.
            max_frames: number of columns of the field ``samples``, at least the number of frames of each utterance.
                Columns after the last frame of an utterance are undefined.
            constants: the tracker's numbers, such as the length of a chunk.
        """
        received = lengths[:, None]  # Number of samples that have arrived after each chunk.
        frame_indices = torch.arange(0, max_frames, device=lengths.device)
        end = constants.count_resampled(received, finished=True)
        if constants.chunk:
            chunks = torch.arange(1, -(-longest // constants.chunk) + 1, device=lengths.device)
            received = torch.minimum(constants.chunk * chunks, received)
        # The columns of ``sample_counts`` and ``frame_counts`` are the chunks, and the end of the audio.
        sample_counts = constants.count_resampled(received, finished=False)
        available = constants.count_available_frames(sample_counts, finished=False)
        frame_counts = torch.cat((available, constants.count_available_frames(end, finished=True)), -1)
        sample_counts = torch.cat((sample_counts, end), -1)
        if constants.ballast_online:  # No frame is searched again.
            frame_ends = constants.start + constants.shift * frame_indices + constants.span
            return cls(frame_counts[:, -1], torch.minimum(frame_ends, end), 0 * lengths, end[:, 0])
        # The first ``max_repeated`` frames are searched again as soon as they are known, or at the end of short audio.
        max_repeated = max(0, constants.recompute_frame)
        repeated_frames = frame_counts[:, -1].clip(None, max_repeated)
        last_index = torch.arange(max_repeated - 1, max_repeated, device=lengths.device)
        last_samples = _find_received_samples(sample_counts, frame_counts, last_index)
        repeated_samples = torch.where(repeated_frames < max(1, max_repeated), end[:, 0], last_samples[:, 0])
        samples = _find_received_samples(sample_counts, frame_counts, frame_indices)
        return cls(frame_counts[:, -1], samples, repeated_frames, repeated_samples)


def _find_received_samples(sample_counts: Tensor, frame_counts: Tensor, frames: Tensor) -> Tensor:
    """Return the number of samples ``(B, n)`` that have been received when each of ``frames`` is computed.

    Args:
        sample_counts: ``(B, chunks + 1)``: number of samples that have been received after each chunk and at the end.
        frame_counts: ``(B, chunks + 1)``: number of frames that can be computed from these samples.
        frames: ``(n,)``: indices of frames. A frame that is never computed gets the samples at the end.
    """
    chunk = (frame_counts[..., None, :] <= frames[:, None]).sum(-1)
    return sample_counts.gather(-1, chunk.clip(max=frame_counts.shape[-1] - 1))


def count_frames_in_integers(samples: Any, constants: PitchConstants) -> Any:
    """Return the number of frames of whole audio with ``samples`` samples, an int, a tensor or a compiler's symbol.

    Unlike :meth:`PitchConstants.count_frames`, this function uses integers, which compilers can trace. For centered
    frames, Kaldi rounds to float32, so the result may differ for 2^23 resampled samples (35 minutes at 4 kHz) or more.
    """
    count = count_resampled(samples, constants.rate_in, constants.rate_out)
    if constants.snip_edges:
        frames = (count - constants.window) // constants.shift + 1
        return frames.clip(0) if hasattr(frames, "clip") else max(frames, 0)  # A symbol, like an int, has no clip.
    if count < constants.window:
        return 0
    return (2 * count + constants.shift) // (2 * constants.shift)


def downsample_audio(samples: Tensor, constants: PitchConstants, tables: PitchTables) -> Tensor:
    """Resample audio ``(..., samples)`` to the sampling rate of the tracker. The data type stays the same.

    The sums are in double precision, so that a constant signal stays exactly constant and has no energy.
    """
    starts, weights = tables.lowpass_starts, tables.lowpass_weights
    filters = dataclasses.replace(constants.period_filters, starts=starts, weights=weights)
    return resample_tensor(samples, filters, torch.float64)


def cut_windows(signal: Tensor, num_frames: int, constants: PitchConstants, lengths: Tensor) -> Tensor:
    """Return the samples of each frame with preemphasis, ``(B, frames, span)``. They are zero outside the signal.

    Args:
        signal: ``(B, samples)``: resampled audio, which is zero after the valid samples.
        num_frames: number of frames. Every frame must start before the end of the signal.
        lengths: ``(B,)``: number of valid samples of each row.
    """
    size, shift, start = constants.span, constants.shift, constants.start
    padded = torch.nn.functional.pad(signal, (max(0, -start), size + shift))
    windows = padded[..., max(0, start) :].unfold(-1, size, shift)[..., :num_frames, :]
    if constants.preemphasis == 0.0:
        return windows
    # Kaldi applies preemphasis to each frame separately. The first sample of a frame or of the signal counts as its own
    # predecessor.
    first_samples = start + shift * torch.arange(0, num_frames, device=signal.device)
    position = first_samples[:, None] + torch.arange(0, size, device=signal.device)
    previous = torch.cat((windows[..., :1], windows[..., :-1]), -1)
    previous = torch.where(position == 0, windows, previous)
    is_inside = (position >= 0) & (position < lengths[..., None, None])
    return torch.where(is_inside, windows - constants.preemphasis * previous, 0 * windows)


def correlate_windows(windows: Tensor, constants: PitchConstants, tables: PitchTables) -> tuple[Tensor, Tensor]:
    """Correlate the first window of each frame, ``(..., span)``, with the windows of the frame at all lags.

    The mean of the first window is subtracted from all samples of the frame.

    Returns:
        inner: ``(..., lags)``: dot products of the first window and the windows at all lags.
        norm: ``(..., lags)``: products of the energies of the two windows.
    """
    size, first = constants.window, constants.first_lag
    mean = (windows[..., :size].double().sum(-1) / size).to(windows.dtype)
    centered = windows - mean[..., None]
    base = centered[..., :size]
    # A matrix product instead of these sums would lose precision with TF32 or autocast, and would copy all windows.
    lags = range(first, first + constants.lags)
    inner = torch.stack([(base * centered[..., k : k + size]).sum(-1) for k in lags], -1)
    # Squares times a band of ones give the energies of all windows without the cancellation of a running sum.
    energies = matmul(centered[..., first:] ** 2, tables.band.to(windows.dtype))
    return inner, (base**2).sum(-1)[..., None] * energies


def compute_nccf(inner: Tensor, norm: Tensor, ballast: Tensor | float) -> Tensor:
    """Compute the normalized cross-correlation, ``inner / sqrt(norm + ballast)``. In digital silence, it is 0.

    ``inner`` and ``norm`` ``(..., lags)`` are the results of :func:`correlate_windows`. The ballast, which broadcasts
    to their shape, reduces the correlation of quiet frames.
    """
    square = norm + ballast
    is_silent = square <= 0
    return torch.where(is_silent, 0 * inner, inner / torch.sqrt(torch.where(is_silent, 1 + 0 * square, square)))


def compute_variances(signal: Tensor, counts: Tensor) -> Tensor:
    """Return the float64 variances ``(B, n)`` of the first ``counts`` ``(B, n)`` samples of audio ``(B, samples)``."""
    doubles = signal.double()

    def average_first(x: Tensor) -> Tensor:
        """Return the means ``(B, n)`` of the first ``counts`` elements of each row of ``x``."""
        sums: Tensor = sum_cumulatively(x, -1).gather(-1, counts - 1)
        return sums / counts.double()

    return average_first(doubles * doubles) - average_first(doubles) ** 2


def compute_search_nccf(
    inner: Tensor, norm: Tensor, variance: Tensor, new_variance: Tensor, is_repeated: Tensor, constants: PitchConstants
) -> Tensor:
    """Compute the correlation ``(..., frames, lags)`` for the path search, with ballast.

    If the variance of a frame has changed by more than ``_ENERGY_CHANGE`` when its search is repeated, the correlations
    of all frames whose search is repeated are scaled to the new ballast.

    Args:
        inner, norm: ``(..., frames, lags)``: the results of :func:`correlate_windows`.
        variance: ``(..., frames)``: variance from which the ballast of each frame is computed.
        new_variance: ``(..., 1)``: variance that is known when the search is repeated.
        is_repeated: ``(..., frames)``: mask of the frames whose search is repeated.
    """
    ballast = _compute_ballast(variance, constants)
    correlation = compute_nccf(inner, norm, ballast.to(inner.dtype)[..., None])
    # Like Kaldi's ApproxEqual, compare with the sum of both variances.
    has_changed = abs(variance - new_variance) > _ENERGY_CHANGE * (abs(variance) + abs(new_variance))
    has_changed = (has_changed & is_repeated).any(-1)[..., None] & is_repeated
    mean_norm = norm.mean(-1).double()
    old_norm, new_norm = ballast + mean_norm, _compute_ballast(new_variance, constants) + mean_norm
    # The energy of extremely loud audio overflows. The correlation is then not scaled, so that it stays finite.
    is_scaled = has_changed & (new_norm > 0) & torch.isfinite(old_norm) & torch.isfinite(new_norm)
    ratio = torch.where(is_scaled, old_norm, 1.0) / torch.where(is_scaled, new_norm, 1.0)
    return correlation * (ratio**0.5).to(inner.dtype)[..., None]


def _compute_ballast(variance: Tensor, constants: PitchConstants) -> Tensor:
    """Return the ballast for each variance of audio (any shape). It is added to the product of two energies."""
    return (variance * constants.window) ** 2 * constants.ballast


def compute_local_costs(correlation: Tensor, tables: PitchTables) -> Tensor:
    """Compute the cost of each state, ``(..., states)``, from the correlation ``(..., lags)`` at whole lags.

    This is equation 5 of Ghahremani et al. (2014). The operations are in Kaldi's order, because in silence only their
    rounding decides between the states.
    """
    interpolated = matmul(correlation, tables.weights.to(correlation.dtype))
    return (1 - interpolated) + interpolated * tables.discount.to(correlation.dtype)


def gather_path_features(correlation: Tensor, path: Tensor, tables: PitchTables) -> Tensor:
    """Return NCCF and pitch in Hz, ``(..., 2)``, for the states ``path`` ``(...)``.

    ``correlation`` ``(..., lags)`` is the correlation at whole lags, without ballast.
    """
    weights = tables.weights.T[path].to(correlation.dtype)
    pitch = tables.pitch[path].to(correlation.dtype)
    return torch.stack(((correlation * weights).sum(-1), pitch), -1)
