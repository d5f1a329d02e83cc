"""Functions of ``torchaudio.functional`` that follow Kaldi."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kaldi_compat.features.pitch import Pitch
from kaldi_compat.functional import cmvn, deltas
from kaldi_compat.options.postprocessing import DeltaOptions, SlidingCmvnOptions

__all__ = ["add_deltas", "compute_deltas", "compute_kaldi_pitch", "sliding_window_cmn"]


def compute_kaldi_pitch(
    waveform: Tensor,
    sample_rate: float,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    min_f0: float = 50,
    max_f0: float = 400,
    soft_min_f0: float = 10.0,
    penalty_factor: float = 0.1,
    lowpass_cutoff: float = 1000,
    resample_frequency: float = 4000,
    delta_pitch: float = 0.005,
    nccf_ballast: float = 7000,
    lowpass_filter_width: int = 1,
    upsample_filter_width: int = 5,
    max_frames_latency: int = 0,
    frames_per_chunk: int = 0,
    simulate_first_pass_online: bool = False,
    recompute_frame: int = 500,
    snip_edges: bool = True,
) -> Tensor:
    """Track pitch, as the function that torchaudio removed in version 2.1 (Kaldi: compute-kaldi-pitch-feats).

    Args:
        waveform: samples (..., T).
        sample_rate: in Hz.
        frame_length, frame_shift: in milliseconds.
        min_f0, max_f0, soft_min_f0, penalty_factor, lowpass_cutoff, resample_frequency, delta_pitch, nccf_ballast: see
            :class:`~kaldi_compat.options.pitch.PitchOptions`.
        lowpass_filter_width, upsample_filter_width, max_frames_latency, frames_per_chunk, simulate_first_pass_online,
            recompute_frame, snip_edges: likewise.

    Returns:
        (..., frames, 2): in Kaldi's order, the normalized correlation (NCCF), then the pitch in Hz.

    Raises:
        OptionError: a value that Kaldi refuses.

    >>> tone = 0.2 * torch.sin(2 * torch.pi * 200 * torch.arange(16000) / 16000)
    >>> compute_kaldi_pitch(tone, 16000).shape
    torch.Size([98, 2])
    """
    track = Pitch(
        sample_frequency=float(sample_rate),
        frame_length=frame_length,
        frame_shift=frame_shift,
        min_f0=min_f0,
        max_f0=max_f0,
        soft_min_f0=soft_min_f0,
        penalty_factor=penalty_factor,
        lowpass_cutoff=lowpass_cutoff,
        resample_frequency=resample_frequency,
        delta_pitch=delta_pitch,
        nccf_ballast=nccf_ballast,
        lowpass_filter_width=lowpass_filter_width,
        upsample_filter_width=upsample_filter_width,
        max_frames_latency=max_frames_latency,
        frames_per_chunk=frames_per_chunk,
        simulate_first_pass_online=simulate_first_pass_online,
        recompute_frame=recompute_frame,
        snip_edges=snip_edges,
    )
    rows = track(waveform.reshape(-1, waveform.shape[-1]))
    return rows.reshape(*waveform.shape[:-1], *rows.shape[1:])


def sliding_window_cmn(
    specgram: Tensor, cmn_window: int = 600, min_cmn_window: int = 100, center: bool = False, norm_vars: bool = False
) -> Tensor:
    """Normalize each frame by the mean, and with ``norm_vars`` the variance, of a sliding window.

    Args:
        specgram: features (..., frames, dim).
        cmn_window, min_cmn_window: length of the window in frames, and at the start.
        center: centre the window on the frame; False has it end there.
        norm_vars: divide by the standard deviation.

    Returns:
        (..., frames, dim).

    Raises:
        OptionError: a window without frames.
    """
    options = SlidingCmvnOptions(
        cmn_window=cmn_window, min_cmn_window=min_cmn_window, center=center, norm_vars=norm_vars
    )
    normalized: Tensor = cmvn.sliding_cmvn(specgram, options)
    return normalized


def compute_deltas(specgram: Tensor, win_length: int = 5, mode: str = "replicate") -> Tensor:
    """Compute deltas as torchaudio does: the slopes alone, along the last axis.

    Args:
        specgram: features (..., dim, frames).
        win_length: frames of the window; an even number is that less 1.
        mode: padding at the edges, as of ``torch.nn.functional.pad``.

    Returns:
        (..., dim, frames).

    Raises:
        ValueError: a window of less than 3 frames.

    See also :func:`add_deltas`, which is Kaldi's.
    """
    if win_length < 3:
        raise ValueError(f"Window length should be greater than or equal to 3. Found win_length {win_length}")
    size = (win_length - 1) // 2
    weights = torch.arange(-size, size + 1, dtype=specgram.dtype, device=specgram.device)
    rows = specgram.reshape(1, -1, specgram.shape[-1])
    padded = torch.nn.functional.pad(rows, (size, size), mode=mode)
    slopes = padded.unfold(-1, 2 * size + 1, 1) @ weights / (weights @ weights)
    return slopes.reshape(specgram.shape)


def add_deltas(features: Any, delta_order: int = 2, delta_window: int = 2) -> Any:
    """Append deltas to features as Kaldi does: (..., frames, dim) to (..., frames, dim * (1 + delta_order)).

    Raises:
        OptionError: an order or a window that Kaldi refuses.
    """
    return deltas.add_deltas(features, DeltaOptions(delta_order=delta_order, delta_window=delta_window))
