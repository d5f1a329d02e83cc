"""The exact engine: Kaldi's bits, computed in C if the library is there and in NumPy otherwise."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact import compiled, steps
from kaldi_compat.exact.batch import AudioBatch
from kaldi_compat.exact.plan import Plan
from kaldi_compat.exact.sums import column_sums
from kaldi_compat.native import Library


def library() -> Library:
    """Return the C library of the exact engine; it is false without one, and says why."""
    return native.library()


def compute(
    plan: Plan,
    batch: AudioBatch,
    *,
    threads: int = 1,
    out: npt.NDArray[np.float32] | None = None,
    use_native: bool | None = None,
) -> npt.NDArray[np.float32]:
    """Compute the features of a batch.

    Args:
        plan: what to compute: :func:`~kaldi_compat.exact.plan.plan_of`.
        batch: the audio: :func:`~kaldi_compat.exact.batch.make_batch`.
        threads: threads of the C library; NumPy uses one.
        out: where to put the features, float32 of shape (rows, dim), contiguous.
        use_native: compute in C (True) or in NumPy (False); by default in C if the library is there.

    Returns:
        Features (rows, dim); those of utterance ``u`` are rows ``batch.rows[u]`` to ``batch.rows[u + 1]``.

    Raises:
        RuntimeError: the C library is asked for and is not there.

    >>> from kaldi_compat.exact.batch import make_batch
    >>> from kaldi_compat.exact.plan import plan_of
    >>> from kaldi_compat.options.spectral import FbankOptions
    >>> plan = plan_of(FbankOptions(num_mel_bins=80))
    >>> compute(plan, make_batch(plan, np.arange(16000, dtype=np.int16))).shape
    (98, 80)
    """
    rows = int(batch.rows[-1])
    if out is None:
        out = np.empty((rows, plan.dim), np.float32)
    elif out.shape != (rows, plan.dim) or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ValueError(f"out must be contiguous float32 of shape {(rows, plan.dim)}")
    if use_native and not library():
        raise RuntimeError(f"the C library is not available: {library().reason}")
    if not library() or use_native is False or not plan.is_in_c:
        steps.compute(plan, batch, 0, rows, out)
        return out
    edges = [rows * i // threads for i in range(threads + 1)]
    if threads == 1 or rows < 64 * threads:
        compiled.compute(plan, batch, 0, rows, out)
        return out
    from concurrent.futures import ThreadPoolExecutor  # takes as long to import as a program's other modules

    with ThreadPoolExecutor(threads) as pool:
        parts = itertools.pairwise(edges)
        for done in [pool.submit(compiled.compute, plan, batch, a, b, out[a:b]) for a, b in parts]:
            done.result()
    return out


def subtract_mean(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return features (frames, dim) less the mean of each column, rounded as by Kaldi's ``--subtract-mean``.

    >>> subtract_mean(np.array([[1.0], [3.0]], np.float32)).tolist()
    [[-1.0], [1.0]]
    """
    if not len(features):
        return features
    centered: npt.NDArray[np.float32] = features - column_sums(features) * np.float32(1.0 / len(features))
    return centered
