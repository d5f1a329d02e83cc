"""Compression of a batch of features on its device, so that only the bytes to be written are copied back.

The arithmetic is that of :mod:`io_ark.codecs.compressed` (Kaldi's ``src/matrix/compressed-matrix.cc``), step by step in
float32, on torch tensors of several utterances at once. Tests compare the bytes of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.codecs.compressed import CompressedMatrix

__all__ = ["FEWEST_ROWS", "compress_speech", "matrices"]

# Kaldi's own constant for 1/65535, and where its rounding (add 0.499 in float64, truncate) goes up, both in float32.
_PER_STEP = float(np.float32(1.52590218966964e-05))
_ROUNDS_UP = float(np.nextafter(np.float32(0.501), np.float32(1)))
# With fewer rows Kaldi's automatic choice is another method.
FEWEST_ROWS = 9

Array = npt.NDArray[Any]


def compress_speech(features: Tensor, lengths: Tensor) -> list[Tensor]:
    """Compress the features of a padded batch by Kaldi's method 2 (kSpeechFeature), one byte per element.

    Args:
        features: float32 of shape (B, T, dim); frames past an utterance's length are ignored.
        lengths: frames of each, shape (B,), at least 5, on the features' device.

    Returns:
        the arguments of :func:`matrices`, once they are on the host: least value (B,), range (B,), percentiles
        (B, dim, 4), codes (B, dim, T) in uint8, lengths.

    >>> parts = compress_speech(torch.arange(40.0).reshape(1, 20, 2), torch.tensor([20]))
    >>> packed, = matrices([part.numpy() for part in parts])
    >>> packed.shape, packed.codes.nbytes
    ((20, 2), 40)
    """
    inside = torch.arange(features.shape[1], device=features.device) < lengths.unsqueeze(1)
    columns = torch.where(inside.unsqueeze(-1), features, torch.inf).transpose(1, 2).contiguous()
    ordered = columns.sort(-1).values
    last = (lengths - 1).view(-1, 1, 1)
    greatest = ordered.gather(-1, last.expand(-1, ordered.shape[1], 1)).amax((1, 2))
    least = ordered[..., 0].amin(-1)
    # A constant matrix gets some range; Kaldi's sum is in float64.
    wide = (least.double() + (1.0 + least.double().abs())).float()
    span = torch.where(least == greatest, wide, greatest) - least
    minimum = least.view(-1, 1, 1)
    percentiles = _percentiles(ordered, lengths, minimum, span.view(-1, 1, 1))
    limits = (percentiles.float() * (span * _PER_STEP).view(-1, 1, 1) + minimum).unsqueeze(2)
    return [least, span, percentiles.to(torch.int32), _codes(columns, limits), lengths]


def matrices(parts: Sequence[Array]) -> list[CompressedMatrix]:
    """Make the compressed matrices that the arrays of :func:`compress_speech` describe.

    A matrix with NaN or infinities, which cannot be compressed, has a range that is not finite either.
    """
    return [
        CompressedMatrix(b"CM", float(least), float(span), codes[:, :length], percentiles.astype(np.uint16))
        for least, span, percentiles, codes, length in zip(*parts, strict=True)
    ]


def _percentiles(ordered: Tensor, lengths: Tensor, minimum: Tensor, span: Tensor) -> Tensor:
    """Return the values at 0, 1/4, 3/4 and 1 of each column in 65535ths of the range, made distinct: (B, dim, 4)."""
    quarter = torch.div(lengths, 4, rounding_mode="floor")
    places = torch.stack((torch.zeros_like(lengths), quarter, 3 * quarter, lengths - 1), -1)
    chosen = ordered.gather(-1, places.unsqueeze(1).expand(-1, ordered.shape[1], 4))
    scaled = ((chosen - minimum) / span).clamp(0, 1) * 65535
    whole = scaled.floor()
    steps = (whole + (scaled - whole >= _ROUNDS_UP)).to(torch.int64)
    first = steps[..., 0].clamp(max=65532)
    second = torch.maximum(steps[..., 1], first + 1).clamp(max=65533)
    third = torch.maximum(steps[..., 2], second + 1).clamp(max=65534)
    fourth = torch.maximum(steps[..., 3], third + 1).clamp(max=65535)
    return torch.stack((first, second, third, fourth), -1)


def _codes(columns: Tensor, limits: Tensor) -> Tensor:
    """Return each element's byte, its rounded number of steps above its column's least value: (B, dim, T), uint8.

    There are 64 steps up to the second percentile, then 128, then 63; they are counted in halves, and truncated.
    """
    total = torch.zeros_like(columns)
    for low, high, steps in zip(limits.unbind(-1), limits.unbind(-1)[1:], (64, 128, 63), strict=False):
        height = high - low
        if steps == 63:
            # If the limits are equal in float32, Kaldi's conversion of the quotient overflows and counts no step.
            height = torch.where(high > low, height, torch.inf)
        part = (columns - low) / height
        part = torch.where(part.isnan() & ~(high > low), 1.0, part)
        total += (part * float(steps) * 2.0).clamp(0, 2 * steps).trunc()
    return torch.div(total + 1, 2, rounding_mode="floor").to(torch.uint8)
