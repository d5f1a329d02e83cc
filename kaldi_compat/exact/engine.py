"""The exact engine: Kaldi's bits, computed in C if the library was built and in NumPy otherwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact import compiled, steps
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.exact.batch import AudioBatch
from kaldi_compat.exact.plan import Plan
from kaldi_compat.exact.sums import sum_columns
from kaldi_compat.native import NATIVE

# Function that takes a number of frames and returns the state of rand_r() for the noise of each frame, (frames,).
SeedSource = Callable[[int], npt.NDArray[np.int32]]

MIN_ROWS_PER_THREAD = 64  # Smallest number of frames whose computation takes longer than starting a thread.


def make_batch(
    plan: Plan,
    samples: npt.ArrayLike,
    lengths: Sequence[int] | npt.NDArray[Any] | None = None,
    *,
    starts: Sequence[int] | npt.NDArray[Any] | None = None,
    vtln_warp: float | Sequence[float] | npt.NDArray[Any] = 1.0,
) -> AudioBatch:
    """Return a batch of whole utterances.

    Args:
        plan: plan of the feature, which gives the size, the shift and the start of the frames.
        samples: audio of the utterances, one array (T,). A contiguous array of int16 or float32 is not copied.
        lengths: number of samples of each utterance; None for a single utterance.
        starts: index in ``samples`` of each utterance's first sample; None if the utterances are concatenated.
        vtln_warp: one VTLN factor, or one for each utterance.

    Raises:
        AudioError: the samples are not real numbers (T,), a length is negative, or an utterance exceeds the samples.
    """
    audio = convert_to_samples(samples)
    sizes = np.array([len(audio)] if lengths is None else lengths, np.int64)
    if starts is None:
        starts = np.cumsum(sizes) - sizes
    starts = np.array(starts, np.int64)
    if min(starts.min(initial=0), sizes.min(initial=0)) < 0 or (starts + sizes).max(initial=0) > len(audio):
        raise AudioError(f"an utterance extends beyond the {len(audio)} samples: check the starts and lengths")
    counts = count_frames(plan, sizes)
    # Kaldi makes no filters for an utterance without frames, so its VTLN factor may be invalid and is replaced by 1.
    warps = np.where(counts > 0, np.asarray(vtln_warp, np.float32), np.float32(1))
    # The appended 1 keeps the list of factors from being empty.
    factors, indices = np.unique(np.append(warps, np.float32(1)), return_inverse=True)
    return AudioBatch(
        samples=audio,
        starts=starts,
        lengths=sizes,
        firsts=np.full_like(sizes, plan.first),
        rows=np.concatenate(([0], np.cumsum(counts))),
        warps=indices[:-1].astype(np.int32),
        warp_factors=tuple(factors.tolist()),
    )


def make_chunk_batch(samples: npt.ArrayLike, first: int, count: int, vtln_warp: float = 1.0) -> AudioBatch:
    """Return a batch of ``count`` frames of one buffer: a whole utterance, or a chunk of a stream.

    Args:
        samples: the buffer (T,).
        first: index of the first frame's first sample. It may be negative, and the last frame may extend beyond the
            end of the buffer. The audio is reflected at both edges of the buffer, so in a stream, a frame may cross an
            edge only where the utterance starts or ends.
        count: number of frames.
        vtln_warp: VTLN factor.

    Raises:
        AudioError: the samples are not real numbers of shape (T,), or there are frames but no samples.
    """
    audio = convert_to_samples(samples)
    if count and not len(audio):
        raise AudioError("an utterance without samples cannot have frames: leave it out")
    return AudioBatch(
        samples=audio,
        starts=np.zeros(1, np.int64),
        lengths=np.array([len(audio)], np.int64),
        firsts=np.array([first], np.int64),
        rows=np.array([0, count], np.int64),
        warps=np.zeros(1, np.int32),
        warp_factors=(float(np.float32(vtln_warp)),),
    )


def count_frames(plan: Plan, lengths: Any) -> Any:
    """Return the number of frames of audio with ``lengths`` samples, an integer or an array (Kaldi: NumFrames).

    With ``snip_edges``, all frames lie within the audio. Otherwise, the number is ``lengths / shift``, rounded half up.
    """
    if plan.options.snip_edges:
        return np.maximum((lengths - plan.size + plan.shift) // plan.shift, 0)
    return (lengths + plan.shift // 2) // plan.shift


def convert_to_samples(samples: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert audio (T,) to a contiguous array, which is int16 if the audio is int16, and otherwise float32.

    Raise AudioError unless the samples are real numbers of shape (T,).
    """
    audio = np.asarray(samples)
    if audio.dtype.kind not in "iuf":
        raise AudioError(f"samples must be real numbers, not {audio.dtype}: convert them to int16 or float32")
    if audio.ndim != 1:
        raise AudioError(f"samples must have the shape (T,), not {audio.shape}: take one channel")
    contiguous = np.ascontiguousarray(audio, np.int16 if audio.dtype == np.int16 else np.float32)
    return contiguous if contiguous.flags.aligned else contiguous.copy()


def compute_batch_features(
    plan: Plan, batch: AudioBatch, seeds: SeedSource | None = None, *, threads: int = 1, out: Floats | None = None
) -> Floats:
    """Compute the features of a batch.

    Args:
        plan: plan of the feature (:func:`~kaldi_compat.exact.plan.make_plan`).
        batch: audio of the utterances (:func:`make_batch`).
        seeds: source of the ``rand_r()`` states for the dithering noise; None if the batch has seeds, or for no noise.
        threads: number of threads. With fewer than ``MIN_ROWS_PER_THREAD`` rows per thread, one thread is used.
        out: array that receives the features, contiguous float32 (rows, dim); None for a new array.

    Returns:
        Features (rows, dim). Rows ``batch.rows[u]`` to ``batch.rows[u + 1] - 1`` belong to utterance ``u``.

    Raises:
        ValueError: ``out`` has a different type or shape.
        AudioError: ``seeds`` returns too few states.
        MemoryError: the memory for a block of frames cannot be allocated.
    """
    row_count, implementation = int(batch.rows[-1]), select_implementation(plan)
    if seeds is not None and plan.options.dither != 0:
        batch = batch.with_seeds(seeds(row_count))
    if out is None:
        out = np.empty((row_count, plan.dim), np.float32)
    elif out.shape != (row_count, plan.dim) or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be a float32 array of shape {(row_count, plan.dim)} in C order, not {out.dtype} of shape "
            f"{out.shape}: omit out, or create it with np.empty"
        )
    if threads == 1 or row_count < MIN_ROWS_PER_THREAD * threads:
        implementation.compute_batch_features(plan, batch, 0, row_count, out)
        return out
    from concurrent.futures import ThreadPoolExecutor  # Its import takes as long as the other imports of a program.

    bounds = [row_count * index // threads for index in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        futures = [
            pool.submit(implementation.compute_batch_features, plan, batch, begin, end, out[begin:end])
            for begin, end in itertools.pairwise(bounds)
        ]
        for future in futures:
            future.result()
    return out


def select_implementation(plan: Plan) -> ModuleType:
    """Return the module that computes a plan: ``compiled`` if the C library supports the plan, otherwise ``steps``.

    The first call without the library issues a warning.
    """
    if NATIVE.in_use:
        return compiled if plan.is_in_c else steps
    NATIVE.warn_if_missing()
    return steps


def make_chunk_call(plan: Plan) -> Callable[..., Floats]:
    """Return a function that computes the features of frames in a buffer, for repeated calls.

    For the parameters of the function, see :meth:`kaldi_compat.exact.compiled.ChunkCall.__call__`.
    """
    return compiled.ChunkCall(plan) if select_implementation(plan) is compiled else partial(_compute_chunk, plan)


def _compute_chunk(plan: Plan, buffer: Floats, length: int, first: int, count: int, warp: float, seeds: Any) -> Floats:
    """Return the result of :meth:`kaldi_compat.exact.compiled.ChunkCall.__call__`, computed in NumPy."""
    batch, out = make_chunk_batch(buffer[:length], first, count, warp), np.empty((count, plan.dim), np.float32)
    steps.compute_batch_features(plan, batch if seeds is None else batch.with_seeds(seeds), 0, count, out)
    return out


def compute_row_features(
    plan: Plan,
    rows: npt.NDArray[Any],
    lengths: npt.NDArray[Any] | None,
    warps: float | Sequence[float],
    seeds: SeedSource | None,
    threads: int = 1,
) -> tuple[Floats, Integers | None]:
    """Compute the features of each row of audio in one batch.

    Args:
        plan, seeds, threads: see :func:`compute_batch_features`.
        rows: audio (..., T).
        lengths: number of valid samples of each row (...); None if all samples are valid.
        warps: one VTLN factor, or one for each row.

    Returns:
        Features (..., frames, dim), zero after the last frame of each row; and the number of frames of each row (...),
        or None without lengths.
    """
    leading, row_length = rows.shape[:-1], rows.shape[-1]
    max_frames = int(count_frames(plan, row_length))
    if not leading and lengths is None and isinstance(warps, float):
        # Kaldi makes no filters for an utterance without frames, so its VTLN factor may be invalid and is not used.
        batch = make_chunk_batch(rows, plan.first, max_frames, warps if max_frames else 1.0)
        return compute_batch_features(plan, batch, seeds, threads=threads), None
    row_count = math.prod(leading)
    sizes = np.full(row_count, row_length, np.int64) if lengths is None else np.asarray(lengths, np.int64).ravel()
    batch = make_batch(plan, rows.reshape(-1), sizes, starts=np.arange(row_count) * row_length, vtln_warp=warps)
    features = compute_batch_features(plan, batch, seeds, threads=threads)
    if lengths is None:
        return features.reshape(*leading, max_frames, plan.dim), None
    counts = np.diff(batch.rows)
    padded = np.zeros((row_count, max_frames, plan.dim), np.float32)
    for row, first, frame_count in zip(padded, batch.rows, counts, strict=False):
        row[:frame_count] = features[first : first + frame_count]
    return padded.reshape(*leading, max_frames, plan.dim), counts.reshape(leading)


def compute_list_features(
    plan: Plan, audio: Sequence[npt.NDArray[Any]], warps: Sequence[float], seeds: SeedSource | None, threads: int = 1
) -> list[Floats]:
    """Return the features (frames, dim) of each utterance, computed in one batch.

    Args:
        plan, seeds, threads: see :func:`compute_batch_features`.
        audio: samples (T,) of each utterance.
        warps: VTLN factor of each utterance.
    """
    samples = np.concatenate(audio) if audio else np.empty(0, np.int16)
    batch = make_batch(plan, samples, list(map(len, audio)), vtln_warp=warps)
    features = compute_batch_features(plan, batch, seeds, threads=threads)
    return [features[begin:end] for begin, end in itertools.pairwise(batch.rows)]


def subtract_mean(features: Floats) -> Floats:
    """Return features (frames, dim) minus the mean of each column, rounded as by Kaldi's ``--subtract-mean``."""
    if not len(features):
        return features
    centered: Floats = features - sum_columns(features) * np.float32(1.0 / len(features))
    return centered
