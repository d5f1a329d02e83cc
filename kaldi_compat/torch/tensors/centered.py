"""Subtract the mean of each utterance from a batch of features with a few kernel launches on a GPU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.torch.tensors.copies import to_device

# Number of frames that are added sequentially in float32. The rounding error of a sum grows with this number.
_SPAN = 256


def subtract_means(features: Tensor, utterance_rows: npt.NDArray[np.int64]) -> Tensor:
    """Subtract the mean of each column from the features of each utterance, without waiting for the device.

    Args:
        features: frames of all utterances, shape (frames, dim). Frames between utterances belong to no utterance.
        utterance_rows: first frame and number of frames of each utterance, shape (utterances, 2), in increasing order.

    Returns:
        Features of shape (frames, dim). Frames outside the utterances are undefined.
    """
    # A region is an utterance or a gap between utterances. Gaps are also summed, so that the regions cover all frames.
    bounds = np.unique(np.concatenate(([0, len(features)], utterance_rows[:, 0], utterance_rows.sum(1))))
    counts = np.diff(bounds)
    if not len(counts):
        return features
    # A region consists of spans of _SPAN frames. The last span of a region may be shorter.
    span_counts = -(-counts // _SPAN)
    lengths = np.full(int(span_counts.sum()), _SPAN)
    lengths[np.cumsum(span_counts) - 1] = counts - (span_counts - 1) * _SPAN
    span_lengths, spans_per_region, frame_counts = (
        to_device(torch.from_numpy(values), features.device) for values in (lengths, span_counts, counts)
    )
    # unsafe=True skips the check of the lengths, which would wait for the device.
    sums = torch.segment_reduce(features, "sum", lengths=span_lengths, unsafe=True)
    sums = torch.segment_reduce(sums, "sum", lengths=spans_per_region, unsafe=True)
    # Without output_size, repeat_interleave would wait for the sum of the counts.
    means = (sums / frame_counts[:, None]).repeat_interleave(frame_counts, 0, output_size=len(features))
    return torch.sub(features, means, out=means)
