"""Splice frames of blocks, append vectors to frames, and select columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.functional.block_deltas import filter_block
from kaldi_compat.options.postprocessing import SpliceOptions


def splice_block(x: Floats, bounds: Integers, options: SpliceOptions) -> Floats:
    """Concatenate each frame with its neighbors in the utterance, earliest first. The edge frames are repeated.

    Args:
        x, bounds: frames (frames, columns) of all utterances, and their boundaries (utterances + 1,).
        options: number of neighbors on each side. The result is (frames, columns * (left_context + 1 + right_context)).
    """
    offsets = range(-options.left_context, options.right_context + 1)
    np.empty((len(x), x.shape[1] * len(offsets)), np.float32)  # Refuse a context that exceeds the memory.
    return filter_block(x, bounds, [()] * len(offsets), offsets)


def select_columns(x: Floats, columns: Sequence[int]) -> Floats:
    """Return the columns of a matrix ``x`` (rows, dim) whose indices are in ``columns``, in this order."""
    return np.take(x, columns, axis=1)


def append_vectors(x: Floats, bounds: Integers, vectors: Floats) -> Floats:
    """Append the vector of each utterance to all frames of the utterance, and return (frames, columns + width).

    Args:
        x, bounds: frames (frames, columns) of all utterances, and their boundaries (utterances + 1,).
        vectors: (utterances, width): a vector for each utterance.
    """
    columns = x.shape[1]
    result = np.empty((len(x), columns + vectors.shape[1]), np.result_type(x, vectors))
    result[:, :columns] = x
    # A single utterance may be long, so its vector is broadcast instead of copied for every frame.
    result[:, columns:] = vectors if len(vectors) == 1 else np.repeat(vectors, np.diff(bounds), axis=0)
    return result
