"""Constants and private helpers of ``torchaudio.compliance.kaldi`` that public code imports.

Import them from :mod:`kaldi_standins.torchaudio`. Names, arguments, results and AssertionErrors are torchaudio's.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor, nn

from kaldi_compat.exact import tables
from kaldi_compat.functional.array_api import detect_tracing
from kaldi_compat.torch.tensors import frames

EPSILON = torch.tensor(frames.EPSILON)
MILLISECONDS_TO_SECONDS = 0.001
HAMMING, HANNING, POVEY, RECTANGULAR, BLACKMAN = "hamming", "hanning", "povey", "rectangular", "blackman"
# Windows are cached, because computing a window takes as long as computing the features of a second of audio.
_window = functools.lru_cache(maxsize=64)(tables.make_window)
WINDOWS = [HAMMING, HANNING, POVEY, RECTANGULAR, BLACKMAN]


def _get_epsilon(device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """Return float32's epsilon as a scalar tensor."""
    return EPSILON.to(device=device, dtype=dtype)


def _next_power_of_2(x: int) -> int:
    """Return the smallest power of two that is at least ``x``. The result for 0 is 1."""
    return 1 << (x - 1).bit_length() if x else 1


def _get_strided(waveform: Tensor, window_size: int, window_shift: int, snip_edges: bool) -> Tensor:
    """Cut audio (T,) into frames (frames, window_size). If ``snip_edges`` and no frame fits, the shape is (0, 0)."""
    assert waveform.dim() == 1, f"waveform must have one axis, not {waveform.dim()}"
    if snip_edges and len(waveform) < window_size:
        return waveform.new_empty(0, 0)
    return frames.cut_frames(waveform, window_size, window_shift, bool(snip_edges), tracing=detect_tracing(waveform))


def _feature_window_function(
    window_type: str, window_size: int, blackman_coeff: float, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Return a window (window_size,) of the type ``window_type``. The Blackman window uses ``blackman_coeff``."""
    return torch.tensor(_window(window_type, window_size, blackman_coeff), device=device, dtype=dtype)


def _get_log_energy(strided_input: Tensor, epsilon: Tensor, energy_floor: float) -> Tensor:
    """Return log energies (frames,) of frames (frames, size). Floor energies at ``epsilon`` and ``energy_floor``."""
    log_energy = torch.maximum(strided_input.square().sum(1), epsilon).log()
    return log_energy if energy_floor == 0 else log_energy.clamp(min=math.log(energy_floor))


def _get_waveform_and_window_properties(
    waveform: Tensor,
    channel: int,
    sample_frequency: float,
    frame_shift: float,
    frame_length: float,
    round_to_power_of_two: bool,
    preemphasis_coefficient: float,
) -> tuple[Tensor, int, int, int]:
    """Return a channel (T,) of audio (channels, T), and the window's shift, size and padded size in samples.

    Raise AssertionError if the channel does not exist or is shorter than a frame, or if an option is out of range.
    """
    channel = max(channel, 0)
    assert channel < len(waveform), f"channel {channel} does not exist: pass a channel from 0 to {len(waveform) - 1}"
    samples = waveform[channel]
    shift = int(sample_frequency * frame_shift * MILLISECONDS_TO_SECONDS)
    size = int(sample_frequency * frame_length * MILLISECONDS_TO_SECONDS)
    padded = _next_power_of_2(size) if round_to_power_of_two else size
    assert 2 <= size <= len(samples), f"frame_length must give from 2 to {len(samples)} samples, not {size}"
    assert shift > 0, f"frame_shift gives {shift} samples, but must give at least one sample"
    assert padded % 2 == 0, f"the padded window has {padded} samples, but the number must be even: change frame_length"
    assert 0.0 <= preemphasis_coefficient <= 1.0, "preemphasis_coefficient must lie within 0 to 1"
    assert sample_frequency > 0, f"sample_frequency={sample_frequency} must be positive"
    return samples, shift, size, padded


def _get_window(
    waveform: Tensor,
    padded_window_size: int,
    window_size: int,
    window_shift: int,
    window_type: str,
    blackman_coeff: float,
    snip_edges: bool,
    raw_energy: bool,
    energy_floor: float,
    dither: float,
    remove_dc_offset: bool,
    preemphasis_coefficient: float,
) -> tuple[Tensor, Tensor]:
    """Return windowed, padded frames (frames, padded_window_size) of audio (T,), and their log energies (frames,)."""
    device, dtype = waveform.device, waveform.dtype
    epsilon = _get_epsilon(device, dtype)
    cut = _get_strided(waveform, window_size, window_shift, snip_edges)
    if dither != 0:
        cut = cut + dither * torch.randn(cut.shape, device=device, dtype=dtype)
    if remove_dc_offset:
        cut = cut - cut.mean(1, keepdim=True)
    log_energy = _get_log_energy(cut, epsilon, energy_floor)
    if preemphasis_coefficient != 0:
        cut = frames.preemphasize(cut, preemphasis_coefficient)
    cut = cut * _feature_window_function(window_type, window_size, blackman_coeff, device, dtype)
    cut = nn.functional.pad(cut, (0, padded_window_size - window_size))
    return cut, log_energy if raw_energy else _get_log_energy(cut, epsilon, energy_floor)


def _subtract_column_mean(tensor: Tensor, subtract_mean: bool) -> Tensor:
    """Subtract each column's mean from features (frames, dim) if ``subtract_mean`` is True."""
    return tensor - tensor.mean(0, keepdim=True) if subtract_mean else tensor


def _get_dct_matrix(num_ceps: int, num_mel_bins: int) -> Tensor:
    """Return the DCT matrix (num_mel_bins, num_ceps) that converts log mel energies to cepstra."""
    return torch.from_numpy(tables.compute_dct(num_ceps, num_mel_bins).T.copy())


def _get_lifter_coeffs(num_ceps: int, cepstral_lifter: float) -> Tensor:
    """Return the lifter's factors (num_ceps,), by which cepstra are multiplied."""
    return torch.from_numpy(tables.compute_lifter(num_ceps, cepstral_lifter))
