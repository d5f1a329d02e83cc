"""Resampling of tensors with a windowed sinc filter (Kaldi: src/feat/resample.cc)."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.exact.resample import PeriodFilters, count_resampled, divide_rounding_up
from kaldi_compat.functional.array_api import convert_like, is_traced

_BLOCK_SAMPLES = 8192  # Number of output samples computed together, so that the inputs fit into the cache.


def resample_tensor(samples: Tensor, filters: PeriodFilters, product_type: torch.dtype) -> Tensor:
    """Resample audio with precomputed filters.

    Args:
        samples: floating-point audio, ``(..., samples)``. Silence is assumed before and after the audio.
        filters: filters for the two sampling rates.
        product_type: data type that products of samples and weights are rounded to, before they are summed in float64.

    Returns:
        Audio ``(..., ceil(samples * filters.phases / filters.period))``, with the data type of ``samples``.
    """
    count = count_resampled(samples.shape[-1], filters.period, filters.phases)
    periods = divide_rounding_up(count, filters.phases)
    weights = convert_like(filters.weights, samples).to(product_type)
    # The last period starts within the audio, so the filters need at most filters.first + filters.reach samples after
    # the audio.
    padded = torch.nn.functional.pad(samples, (-filters.first, max(0, filters.first + filters.reach)))
    # A traced model has a single block, because the number of blocks would become a constant of the graph.
    block_periods = periods if is_traced(samples) else max(1, _BLOCK_SAMPLES // filters.phases)
    starts = [0] if is_traced(samples) else range(0, max(periods, 1), block_periods)
    blocks = []
    for start in starts:
        block = padded[..., start * filters.period : (start + block_periods - 1) * filters.period + filters.reach]
        sums = (_gather_taps(block.to(product_type), filters) * weights).sum(-1, dtype=torch.float64)
        blocks.append(sums.to(samples.dtype))
    return torch.cat(blocks, -2).flatten(-2)[..., :count]


def _gather_taps(samples: Tensor, filters: PeriodFilters) -> Tensor:
    """Return the samples ``(..., periods, phases, taps)`` that the filter of each phase weights in each period."""
    taps = filters.weights.shape[-1]
    if filters.phases == 1:
        return samples.unfold(-1, taps, filters.period)[..., None, :]
    periods = (samples.shape[-1] - filters.reach) // filters.period + 1
    period_indices = torch.arange(0, periods, device=samples.device)
    begin = filters.period * period_indices[:, None] + convert_like(filters.starts, samples)
    # index_select copies whole rows, which is faster than indexing with a tensor.
    rows = samples.unfold(-1, taps, 1).index_select(-2, begin.flatten())
    return rows.reshape(*samples.shape[:-1], periods, filters.phases, taps)
