"""Resampling of tensors with a windowed sinc (Kaldi: src/feat/resample.cc)."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.exact.resample import PeriodFilters, count_resampled, divide_rounding_up
from kaldi_compat.functional.array_api import convert_like, is_traced

_BLOCK_SAMPLES = 8192  # Samples computed together, so that their taps stay in the cache.


def resample_tensor(samples: Tensor, filters: PeriodFilters, products: torch.dtype) -> Tensor:
    """Return audio at the other rate.

    Args:
        samples: floating point, ``(..., samples)``. Silence precedes and follows them.
        filters: the resampling filters from one rate to the other.
        products: type that products of samples and weights are rounded to. They are added up in double.

    Returns:
        ``(..., num_resampled(samples, ...))``, of the type of ``samples``.
    """
    count = count_resampled(samples.shape[-1], filters.period, filters.phases)
    periods = divide_rounding_up(count, filters.phases)
    weights = convert_like(filters.weights, samples).to(products)
    # The last period starts within the audio, so its filters reach at most this far past the end.
    padded = torch.nn.functional.pad(samples, (-filters.first, max(0, filters.first + filters.reach)))
    # In a traced model, the number of blocks of a loop would be a constant.
    step = periods if is_traced(samples) else max(1, _BLOCK_SAMPLES // filters.phases)
    starts = [0] if is_traced(samples) else range(0, max(periods, 1), step)
    blocks = []
    for start in starts:
        part = padded[..., start * filters.period : (start + step - 1) * filters.period + filters.reach]
        sums = (_taps(part.to(products), filters) * weights).sum(-1, dtype=torch.float64)
        blocks.append(sums.to(samples.dtype))
    return torch.cat(blocks, -2).reshape(*samples.shape[:-1], -1)[..., :count]


def _taps(samples: Tensor, filters: PeriodFilters) -> Tensor:
    """Return the inputs of each filter in each whole period: ``(..., samples)`` -> ``(..., periods, phases, taps)``."""
    taps = filters.weights.shape[-1]
    if filters.phases == 1:
        return samples.unfold(-1, taps, filters.period)[..., None, :]
    periods = (samples.shape[-1] - filters.reach) // filters.period + 1
    numbers = torch.arange(0, periods, device=samples.device)
    begin = filters.period * numbers[:, None] + convert_like(filters.starts, samples)
    # copies whole rows, which indexing does not
    rows = samples.unfold(-1, taps, 1).index_select(-2, begin.flatten())
    return rows.reshape(*samples.shape[:-1], -1, filters.phases, taps)
