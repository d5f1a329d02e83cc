"""Features of audio in chunks by the exact engine: the samples that are kept, and the frames to compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.batch import as_samples, chunk_batch
from kaldi_compat.exact.compiled import ChunkCall
from kaldi_compat.exact.engine import compute
from kaldi_compat.exact.plan import Plan
from kaldi_compat.native import NATIVE

Floats = npt.NDArray[np.float32]


class ChunkStream:
    """The frames of audio in chunks, equal to those of the whole utterance (Kaldi: OnlineGenericBaseFeature).

    Attributes:
        buffer: samples that later frames need.
        start: number of the buffer's first sample, counted from the start of the utterance.
        done: number of frames returned so far.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._snip_edges = plan.options.snip_edges
        self.first = 0 if self._snip_edges else plan.shift // 2 - plan.size // 2  # first sample of the first frame
        self._call = ChunkCall(plan) if NATIVE.in_use and plan.is_in_c else None
        self.reset()

    def reset(self) -> None:
        """Discard everything received so far, for the next utterance."""
        self.buffer: npt.NDArray[Any] = np.empty(0, np.int16)
        self.start = 0
        self.done = 0

    def advance(
        self,
        chunk: npt.NDArray[Any],
        final: bool,
        vtln_warp: float = 1.0,
        seeds: Callable[[int], npt.NDArray[np.int32]] | None = None,
    ) -> Floats:
        """Return the frames that a chunk decides.

        Args:
            chunk: samples (T,).
            final: the utterance ends with this chunk; the stream is reset.
            vtln_warp: VTLN factor.
            seeds: gives the states of dithering noise for a number of frames.

        Returns:
            (frames, dim).
        """
        plan = self._plan
        chunk = as_samples(chunk)
        buffer = np.concatenate((self.buffer, chunk)) if len(self.buffer) else chunk
        end = self.start + len(buffer)
        count = self._frames_known(end, final) - self.done
        first = self.first + self.done * plan.shift
        states = seeds(count) if seeds is not None and plan.options.dither != 0 else None
        if self._call is not None:
            features = self._call(buffer, first - self.start, count, vtln_warp, states)
        else:
            batch = chunk_batch(buffer, first - self.start, count, vtln_warp)
            features = compute(plan, batch if states is None else batch.with_seeds(states))
        if final:
            self.reset()
            return features
        self.done += count
        oldest = first + count * plan.shift
        if not self._snip_edges:
            oldest = min(oldest, end - plan.size)  # the reflection at the end looks back by up to a frame
        keep = min(max(oldest - self.start, 0), len(buffer))
        # A copy, so that the caller's chunk is not kept and may be overwritten.
        self.buffer, self.start = buffer[keep:].copy(), self.start + keep
        return features

    def _frames_known(self, end: int, final: bool) -> int:
        plan = self._plan
        inside = max(0, (end - self.first - plan.size) // plan.shift + 1)
        if self._snip_edges:
            return inside
        of_whole = (end + plan.shift // 2) // plan.shift
        return of_whole if final else min(inside, of_whole)
