"""Utterances of any lengths in one buffer, and the frames of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Integers
from kaldi_compat.exact.plan import Plan


@dataclass(frozen=True)
class AudioBatch:
    """Audio of utterances, and where their frames lie.

    Frame ``r`` of utterance ``u`` starts at its sample ``firsts[u] + r * shift``, which may lie before its start:
    there, and past its end, the audio is reflected.
    """

    samples: npt.NDArray[Any]  # int16 or float32, contiguous
    starts: Integers  # the sample that each utterance begins at
    lengths: Integers  # number of samples of each utterance
    firsts: Integers  # first sample of each utterance's first frame, relative to its start
    rows: Integers  # (utterances + 1,): each utterance's first row of the features, and their number
    warps: npt.NDArray[np.int32]  # index of each utterance's VTLN factor
    warp_factors: tuple[float, ...]  # the VTLN factors
    # ``rand_r()`` states for dithering, one for each row; None without dithering
    seeds: npt.NDArray[np.int32] | None = None

    def with_seeds(self, seeds: npt.NDArray[np.int32]) -> AudioBatch:
        """Return the same audio with other noise."""
        if len(seeds) < self.rows[-1]:
            raise AudioError(f"{len(seeds)} seeds for {self.rows[-1]} frames")
        return replace(self, seeds=seeds)


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
        plan: gives the frames' size and shift.
        samples: all utterances, one after the other: one-dimensional; int16 and float32 are not copied.
        lengths: samples of each utterance; by default there is one.
        starts: first sample of each; by default each follows the one before it.
        vtln_warp: one VTLN factor, or one for each utterance.

    Raises:
        AudioError: arguments that do not go together.
    """
    audio = as_samples(samples)
    sizes = np.array([len(audio)] if lengths is None else lengths, np.int64)
    if starts is None:
        starts = np.cumsum(sizes) - sizes
    starts = np.array(starts, np.int64)
    if min(starts.min(initial=0), sizes.min(initial=0)) < 0 or (starts + sizes).max(initial=0) > len(audio):
        raise AudioError(f"an utterance lies outside of the {len(audio)} samples")
    counts = num_frames(plan, sizes)
    # Kaldi makes no filters for an utterance without frames, so that its factor may be any.
    warps = np.where(counts > 0, np.asarray(vtln_warp, np.float32), np.float32(1))
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


def chunk_batch(samples: npt.ArrayLike, first: int, count: int, vtln_warp: float = 1.0) -> AudioBatch:
    """Return ``count`` frames of a buffer as a batch: of an utterance, or of a part of one for streams.

    Args:
        samples: the buffer.
        first: first sample of the first frame in the buffer. It may be negative, and the last frame may reach past the
            end: the buffer is reflected there, so it must then start or end where the utterance does.
        count: number of frames.
        vtln_warp: VTLN factor.
    """
    audio = as_samples(samples)
    if count and not len(audio):
        raise AudioError("an utterance without samples cannot have frames")
    return AudioBatch(
        samples=audio,
        starts=np.zeros(1, np.int64),
        lengths=np.array([len(audio)], np.int64),
        firsts=np.array([first], np.int64),
        rows=np.array([0, count], np.int64),
        warps=np.zeros(1, np.int32),
        warp_factors=(float(np.float32(vtln_warp)),),
    )


def num_frames(plan: Plan, lengths: Any) -> Any:
    """Return the number of frames of audio with this number of samples (Kaldi: NumFrames)."""
    if plan.options.snip_edges:
        return np.maximum((lengths - plan.size + plan.shift) // plan.shift, 0)
    return (lengths + plan.shift // 2) // plan.shift


def as_samples(samples: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return audio (T,) as the engine takes it: int16 or else float32, contiguous."""
    audio = np.asarray(samples)
    if audio.ndim != 1 or audio.dtype.kind not in "iuf":
        raise AudioError(f"samples must be real numbers of shape (T,), not {audio.dtype} of shape {audio.shape}")
    contiguous = np.ascontiguousarray(audio, np.int16 if audio.dtype == np.int16 else np.float32)
    return contiguous if contiguous.flags.aligned else contiguous.copy()
