"""Features of padded batches and of lists of utterances by the exact engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.batch import AudioBatch, make_batch, num_frames, whole_batch
from kaldi_compat.exact.engine import compute
from kaldi_compat.exact.plan import Plan

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
# From a number of frames to the rand_r() states of their noise.
Seeds = Callable[[int], npt.NDArray[np.int32]]
Warps = float | Sequence[float]


def features_of_rows(
    plan: Plan,
    rows: npt.NDArray[Any],
    lengths: npt.NDArray[Any] | None,
    warps: Warps,
    seeds: Seeds,
    threads: int = 1,
) -> tuple[Floats, Integers | None]:
    """Compute the features of the rows of an array.

    Args:
        plan: what to compute.
        rows: audio (..., T).
        lengths: samples that count in each row (...); None for all.
        warps: one VTLN factor, or one for each row.
        seeds: gives the states of dithering noise.
        threads: threads of the C library.

    Returns:
        Features (..., frames, dim), zero past a row's own frames; and the rows' numbers of frames (...), or None.
    """
    leading, width = rows.shape[:-1], rows.shape[-1]
    if not leading and lengths is None and isinstance(warps, float):
        return _compute(plan, whole_batch(plan, rows, warps), seeds, threads), None
    count = int(np.prod(leading))
    sizes = np.full(count, width, np.int64) if lengths is None else np.asarray(lengths, np.int64).ravel()
    batch = make_batch(plan, rows.reshape(-1), sizes, starts=np.arange(count) * width, vtln_warp=warps)
    features = _compute(plan, batch, seeds, threads)
    most = int(num_frames(plan, np.array([width]))[0])
    counts = np.diff(batch.rows)
    if lengths is None:
        return features.reshape(*leading, most, plan.dim), None
    padded = np.zeros((count, most, plan.dim), np.float32)
    for row, first, number in zip(padded, batch.rows, counts, strict=False):
        row[:number] = features[first : first + number]
    return padded.reshape(*leading, most, plan.dim), counts.reshape(leading)


def features_of_list(
    plan: Plan, utterances: Sequence[npt.NDArray[Any]], warps: Warps, seeds: Seeds, threads: int = 1
) -> list[Floats]:
    """Compute the features of utterances (T,) of any lengths, all at once: a list of (frames, dim)."""
    samples = np.concatenate(utterances) if utterances else np.empty(0, np.int16)
    batch = make_batch(plan, samples, [len(each) for each in utterances], vtln_warp=warps)
    features = _compute(plan, batch, seeds, threads)
    return [features[first:end] for first, end in zip(batch.rows[:-1], batch.rows[1:], strict=True)]


def _compute(plan: Plan, batch: AudioBatch, seeds: Seeds, threads: int) -> Floats:
    if plan.options.dither != 0:
        batch = batch.with_seeds(seeds(int(batch.rows[-1])))
    return compute(plan, batch, threads=threads)
