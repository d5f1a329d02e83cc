"""Framing, preemphasis and energy of batches of audio, as in Kaldi's src/feat/feature-window.cc."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kaldi_compat.functional.array_api import UNTRACED, Tracing, get_namespace

EPSILON = float(np.finfo(np.float32).eps)  # Kaldi's floor of an energy before the logarithm.
Places = TypeVar("Places", Tensor, npt.NDArray[np.int64])
Count = TypeVar("Count", int, Tensor, npt.NDArray[np.int64])


def count_frames(num_samples: Count, size: int, shift: int, snip_edges: bool = True) -> Count:
    """Return the number of frames of audio (Kaldi: NumFrames, with flush).

    Args:
        num_samples: number of samples: an int, or an integer tensor or array of any shape.
        size, shift: length of a frame and distance between the starts of frames, in samples.
        snip_edges: True counts frames that lie entirely within the audio. False counts ``num_samples / shift`` frames,
            rounded to a whole number (halves upward).
    """
    if not snip_edges:
        return (num_samples + shift // 2) // shift
    # For audio shorter than a frame, this count is not positive, even if division rounds toward zero as in ONNX.
    count = (num_samples - size + shift) // shift
    if isinstance(count, Tensor):
        return count.clamp(min=0)
    if isinstance(count, np.ndarray):
        return np.maximum(count, 0)
    return count if count > 0 else 0  # Unlike max(), this condition tells exporters that there are frames.


def reflect_indices(index: Places, length: Tensor | int) -> Places:
    """Map indices of samples to the range 0 to ``length - 1`` by repeated reflection at both ends.

    The samples at the ends are repeated: index -1 becomes 0, and index ``length`` becomes ``length - 1``. ``length``
    broadcasts to the shape of ``index``.
    """
    index = index % (2 * length)
    reflected: Places = get_namespace(index).minimum(index, 2 * length - 1 - index)
    return reflected


def cut_frames(
    samples: Tensor,
    size: int,
    shift: int,
    snip_edges: bool = True,
    lengths: Tensor | None = None,
    tracing: Tracing = UNTRACED,
) -> Tensor:
    """Cut audio into overlapping frames (Kaldi: ExtractWindow). Return a view of the audio if possible.

    Args:
        samples: audio of shape (..., T).
        size, shift, snip_edges: as for :func:`count_frames`.
        lengths: number of valid samples in each row of (B, T). The audio is reflected at this length instead of at T.
        tracing: flags of the tools (compilers, exporters) that record the operations on the audio.

    Returns:
        Frames of shape (..., count_frames(T), size). Frames after the last frame of a row are undefined. In a
        traced model, there are more undefined frames, so that there is at least one frame: exporters assume this, and
        unfold requires it.
    """
    count = 0 if tracing.traced else count_frames(samples.shape[-1], size, shift, snip_edges)
    spare = size + shift if count == 0 else 0
    if not snip_edges:
        samples = _reflect_ends(samples, size, shift, lengths, spare)
    elif spare:
        samples = nn.functional.pad(samples, (0, spare))
    frames = _cut_by_blocks(samples, size, shift) if tracing.to_onnx else samples.unfold(-1, size, shift)
    return frames if tracing.traced or count else frames[..., :0, :]


def _cut_by_blocks(samples: Tensor, size: int, shift: int) -> Tensor:
    """Cut audio (..., T) into frames (..., frames, size) by joining neighboring blocks of ``shift`` samples.

    In ONNX, unfold gathers single samples, which takes ten times as long. The audio must have at least one frame. The
    result has a few frames more than with unfold, which contain zeros after the end of the audio.
    """
    blocks_of_frame = -(-size // shift)
    padded = nn.functional.pad(samples, (0, blocks_of_frame * shift))
    num_blocks = padded.shape[-1] // shift
    blocks = padded[..., : num_blocks * shift].reshape(*samples.shape[:-1], num_blocks, shift)
    num_frames = num_blocks - blocks_of_frame + 1
    pieces = [blocks[..., k : k + num_frames, : min(shift, size - k * shift)] for k in range(blocks_of_frame)]
    return torch.cat(pieces, -1)


def _reflect_ends(samples: Tensor, size: int, shift: int, lengths: Tensor | None, spare: int) -> Tensor:
    """Extend or cut the audio (..., T) to the samples that the frames without ``snip_edges`` cover.

    The additional samples are reflections of the audio, and ``spare`` more reflected samples follow them. For the other
    arguments, see :func:`cut_frames`.
    """
    total = samples.shape[-1]
    first_sample = shift // 2 - size // 2
    beyond = size - size // 2 - shift % 2  # Maximum number of samples by which a frame extends beyond the audio.
    if lengths is None and not spare:
        before = torch.arange(min(first_sample, 0), 0, device=samples.device)
        after = torch.arange(total, total + beyond, device=samples.device)
        inside = samples[..., max(first_sample, 0) :]
        return torch.cat(
            (samples[..., reflect_indices(before, total)], inside, samples[..., reflect_indices(after, total)]), -1
        )
    index = torch.arange(first_sample, total + beyond + spare, device=samples.device)
    if spare:
        samples = nn.functional.pad(samples, (0, 1))  # Even for empty audio, index 0 must exist.
    if lengths is None:
        # The length is a tensor, because ONNX exporters do not support the remainder by a symbolic size.
        length = torch.zeros((), dtype=torch.int64, device=samples.device) + total
        return samples[..., reflect_indices(index, length.clamp(min=1))]
    return samples.gather(-1, reflect_indices(index, lengths.clamp(min=1).unsqueeze(-1)))


def preemphasize(frames: Tensor, coefficient: float) -> Tensor:
    """Subtract ``coefficient`` times the previous sample from each sample of frames (..., size).

    The first sample of a frame counts as its own predecessor.
    """
    previous = torch.cat((frames[..., :1], frames[..., :-1]), -1)
    return torch.sub(frames, previous, alpha=coefficient)


def compute_log_energy(frames: Tensor, floor: float = EPSILON) -> Tensor:
    """Compute the log energies (...) of frames (..., size). The energy, a sum of squares, is at least ``floor``."""
    return frames.square().sum(-1).clamp(min=floor).log()
