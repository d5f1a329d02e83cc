"""Subtract the means of utterances: of a whole batch in a few launches on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["subtract_means"]

# Rows added up one after the other in float32: the error of a sum grows with their number.
_SPAN = 256


def subtract_means(features: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
    """Subtract from each utterance's features the mean of each column, without waiting for the device.

    Args:
        features: (frames, dim), of all utterances, maybe with other frames in between.
        places: first frame and number of frames of each utterance, in order.

    Returns:
        (frames, dim); undefined at frames of no utterance.

    >>> subtract_means(torch.tensor([[1.0], [3.0], [5.0]]), [(0, 2), (2, 1)]).tolist()
    [[-1.0], [1.0], [0.0]]
    """
    bounds = np.unique([0, len(features), *(edge for first, count in places for edge in (first, first + count))])
    counts = np.diff(bounds)
    if not len(counts):
        return features
    spans = -(-counts // _SPAN)
    lengths = np.full(int(spans.sum()), _SPAN)
    lengths[np.cumsum(spans) - 1] = counts - (spans - 1) * _SPAN
    # unsafe: without checks of the lengths, which would wait for the device.
    sums = torch.segment_reduce(features, "sum", lengths=_sent(lengths, features.device), unsafe=True)
    sums = torch.segment_reduce(sums, "sum", lengths=_sent(spans, features.device), unsafe=True)
    there = _sent(counts, features.device)
    return features - (sums / there[:, None]).repeat_interleave(there, 0, output_size=len(features))


def _sent(numbers: np.ndarray, device: torch.device) -> Tensor:
    here = torch.from_numpy(numbers)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here
