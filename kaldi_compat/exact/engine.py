"""The exact engine: Kaldi's bits, computed in C if the library is there and in NumPy otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact import compiled, steps
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.exact.batch import AudioBatch, chunk_batch, make_batch, num_frames
from kaldi_compat.exact.plan import Plan
from kaldi_compat.exact.sums import column_sums
from kaldi_compat.native import NATIVE, Library

# From a number of frames to the rand_r() states of their noise.
Seeds = Callable[[int], npt.NDArray[np.int32]]


def compute(
    plan: Plan, batch: AudioBatch, seeds: Seeds | None = None, *, threads: int = 1, out: Floats | None = None
) -> Floats:
    """Compute the features of a batch.

    Args:
        plan: what to compute: :func:`~kaldi_compat.exact.plan.plan_of`.
        batch: the audio: :func:`~kaldi_compat.exact.batch.make_batch`.
        seeds: gives the states of the noise of a plan with dithering; None for a batch that has states.
        threads: threads of the C library; NumPy uses one.
        out: where to put the features, float32 of shape (rows, dim), contiguous.

    Returns:
        Features (rows, dim); those of utterance ``u`` are rows ``batch.rows[u]`` to ``batch.rows[u + 1]``.

    >>> from kaldi_compat.exact.batch import make_batch
    >>> from kaldi_compat.exact.plan import plan_of
    >>> from kaldi_compat.options.spectral import FbankOptions
    >>> plan = plan_of(FbankOptions(num_mel_bins=80))
    >>> compute(plan, make_batch(plan, np.arange(16000, dtype=np.int16))).shape
    (98, 80)
    """
    rows, half = int(batch.rows[-1]), half_of(plan)
    if seeds is not None and plan.options.dither != 0:
        batch = batch.with_seeds(seeds(rows))
    if out is None:
        out = np.empty((rows, plan.dim), np.float32)
    elif out.shape != (rows, plan.dim) or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ValueError(f"out must be contiguous float32 of shape {(rows, plan.dim)}")
    if threads == 1 or rows < 64 * threads:
        half.compute(plan, batch, 0, rows, out)
        return out
    from concurrent.futures import ThreadPoolExecutor  # takes as long to import as a program's other modules

    edges = [rows * i // threads for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        parts = itertools.pairwise(edges)
        for done in [pool.submit(half.compute, plan, batch, a, b, out[a:b]) for a, b in parts]:
            done.result()
    return out


def half_of(plan: Plan) -> ModuleType:
    """Return the module that computes a plan: in C if the library is there and knows the plan, otherwise in NumPy."""
    if NATIVE.in_use:
        return compiled if plan.is_in_c else steps
    NATIVE.say_missing()
    return steps


def library() -> Library:
    """Return the C library of the engine; false, with a reason, if it computes in NumPy."""
    return NATIVE.library()


def features_of_rows(
    plan: Plan,
    rows: npt.NDArray[Any],
    lengths: npt.NDArray[Any] | None,
    warps: float | Sequence[float],
    seeds: Seeds | None,
    threads: int = 1,
) -> tuple[Floats, Integers | None]:
    """Compute the features of the rows of an array.

    Args:
        plan: what to compute.
        rows: audio (..., T).
        lengths: samples that count in each row (...); None for all.
        warps: one VTLN factor, or one for each row.
        seeds: gives the states of dithering noise; None if the plan has none.
        threads: threads of the C library.

    Returns:
        Features (..., frames, dim), zero past a row's own frames; and the rows' numbers of frames (...), or None.
    """
    leading, width = rows.shape[:-1], rows.shape[-1]
    if not leading and lengths is None and isinstance(warps, float):
        frames = int(num_frames(plan, width))
        # Kaldi makes no filters for an utterance without frames, so that its factor may be any.
        batch = chunk_batch(rows, plan.first, frames, warps if frames else 1.0)
        return compute(plan, batch, seeds, threads=threads), None
    count = int(np.prod(leading))
    sizes = np.full(count, width, np.int64) if lengths is None else np.asarray(lengths, np.int64).ravel()
    batch = make_batch(plan, rows.reshape(-1), sizes, starts=np.arange(count) * width, vtln_warp=warps)
    features = compute(plan, batch, seeds, threads=threads)
    most = int(num_frames(plan, width))
    counts = np.diff(batch.rows)
    if lengths is None:
        return features.reshape(*leading, most, plan.dim), None
    padded = np.zeros((count, most, plan.dim), np.float32)
    for row, first, number in zip(padded, batch.rows, counts, strict=False):
        row[:number] = features[first : first + number]
    return padded.reshape(*leading, most, plan.dim), counts.reshape(leading)


def features_of_list(
    plan: Plan, utterances: Sequence[npt.NDArray[Any]], warps: Sequence[float], seeds: Seeds | None, threads: int = 1
) -> list[Floats]:
    """Compute the features of utterances (T,) of any lengths, all at once: a list of (frames, dim)."""
    samples = np.concatenate(utterances) if utterances else np.empty(0, np.int16)
    batch = make_batch(plan, samples, [len(each) for each in utterances], vtln_warp=warps)
    features = compute(plan, batch, seeds, threads=threads)
    return [features[first:end] for first, end in itertools.pairwise(batch.rows)]


def subtract_mean(features: Floats) -> Floats:
    """Return features (frames, dim) less the mean of each column, rounded as by Kaldi's ``--subtract-mean``.

    >>> subtract_mean(np.array([[1.0], [3.0]], np.float32)).tolist()
    [[-1.0], [1.0]]
    """
    if not len(features):
        return features
    centered: Floats = features - column_sums(features) * np.float32(1.0 / len(features))
    return centered
