"""Frames of audio in chunks: the flow that all engines and steps share, and the exact engine's stream."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.batch import as_samples, chunk_batch
from kaldi_compat.exact.compiled import ChunkCall
from kaldi_compat.exact.engine import Seeds, compute
from kaldi_compat.exact.plan import Plan
from kaldi_compat.native import NATIVE

# A number of items or frames: an int for one stream, an array (slots,) for several.
Count = Any


def at_least(count: Count, low: Count) -> Count:
    """Return the larger of two counts."""
    return max(count, low) if isinstance(count, int) else np.maximum(count, low)


def at_most(count: Count, high: Count) -> Count:
    """Return the smaller of two counts."""
    return min(count, high) if isinstance(count, int) else np.minimum(count, high)


def where(condition: Any, count: Count, other: Count) -> Count:
    """Return ``count`` where the condition holds, and the other one elsewhere."""
    return (count if condition else other) if isinstance(condition, bool) else np.where(condition, count, other)


class WindowFlow(abc.ABC):
    """Frames of items that arrive in chunks: each depends on a window of items, and is decided once that is complete.

    Take a chunk, decide how many frames are known, compute them, and forget the items that no later frame needs. A
    subclass says which windows there are, and computes frames.
    """

    history: Any  # the items that later frames need: has start, end, append() and keep_from()
    done: Count  # number of frames returned so far

    def _advance(self, chunk: Any, lengths: Count, ended: Any) -> tuple[Any, Count]:
        """Return the frames that a chunk decides, and their counts.

        Args:
            chunk: the next items.
            lengths: number of items in the chunk.
            ended: True where the items end with this chunk; the next ones start anew.
        """
        history = self.history
        history.append(chunk, lengths)
        end = history.end
        known = where(ended, self._frames_in(end), self._frames_decided_by(end))
        counts = at_least(known - self.done, 0)
        frames = self._frames(self.done, counts)
        done = self.done + counts
        history.keep_from(self._oldest_needed(done, end), ended)
        self.done = where(ended, 0, done)
        return frames, counts

    @abc.abstractmethod
    def _frames_in(self, end: Count) -> Count:
        """Return the number of frames of a stream that ends after ``end`` items."""

    @abc.abstractmethod
    def _frames_decided_by(self, end: Count) -> Count:
        """Return the number of frames that are known after ``end`` items, whatever follows."""

    @abc.abstractmethod
    def _oldest_needed(self, done: Count, end: Count) -> Count:
        """Return the first item that frame ``done`` or a later one may need, after ``end`` items."""

    @abc.abstractmethod
    def _frames(self, first: Count, counts: Count) -> Any:
        """Compute ``counts`` frames from frame ``first`` on."""


class AudioFlow(WindowFlow):
    """Frames of audio in chunks (Kaldi: OnlineGenericBaseFeature)."""

    _size: int
    _shift: int
    _snip_edges: bool
    _first: int  # first sample of the first frame

    def _lay_out(self, size: int, shift: int, snip_edges: bool) -> None:
        self._size, self._shift, self._snip_edges = size, shift, snip_edges
        self._first = 0 if snip_edges else shift // 2 - size // 2

    def _frames_in(self, end: Count) -> Count:
        return self._frames_inside(end) if self._snip_edges else (end + self._shift // 2) // self._shift

    def _frames_decided_by(self, end: Count) -> Count:
        inside = self._frames_inside(end)
        return inside if self._snip_edges else at_most(inside, self._frames_in(end))

    def _frames_inside(self, end: Count) -> Count:
        return at_least((end - self._first - self._size) // self._shift + 1, 0)

    def _oldest_needed(self, done: Count, end: Count) -> Count:
        start = self._first + done * self._shift
        # The reflection at the end needs up to a frame of past audio.
        return start if self._snip_edges else at_least(at_most(start, end - self._size), 0)


class ArrayHistory:
    """Buffer of the past samples of one stream.

    Attributes:
        samples: those that are kept.
        start: number of the first of them, counted from the start of the utterance.
        end: number of samples received so far.
    """

    def __init__(self) -> None:
        self.samples: npt.NDArray[Any] = np.empty(0, np.int16)
        self.start = self.end = 0

    def append(self, chunk: npt.NDArray[Any], length: int) -> None:
        """Append a chunk of this length."""
        self.samples = np.concatenate((self.samples, chunk)) if len(self.samples) else chunk
        self.end += length

    def keep_from(self, start: int, ended: bool) -> None:
        """Discard the samples before ``start``, and all samples of a stream that has ended."""
        first = min(max(start, self.start), self.end)
        # A copy, so that the caller's chunk is not kept and may be overwritten.
        self.samples = np.empty(0, np.int16) if ended else self.samples[first - self.start :].copy()
        self.start, self.end = (0, 0) if ended else (first, self.end)


class ChunkStream(AudioFlow):
    """Features of audio in chunks by the exact engine, equal to those of the whole utterance.

    Attributes:
        history: the samples that later frames need.
        done: number of frames returned so far.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lay_out(plan.size, plan.shift, plan.options.snip_edges)
        self._call = ChunkCall(plan) if NATIVE.in_use and plan.is_in_c else None
        self._vtln_warp = 1.0
        self._seeds: Seeds | None = None
        self.reset()

    def reset(self) -> None:
        """Discard everything received so far, for the next utterance."""
        self.history = ArrayHistory()
        self.done = 0

    def advance(
        self, chunk: npt.NDArray[Any], final: bool, vtln_warp: float = 1.0, seeds: Seeds | None = None
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
        self._vtln_warp, self._seeds = vtln_warp, seeds
        samples = as_samples(chunk)
        features: Floats = self._advance(samples, len(samples), final)[0]
        return features

    def _frames(self, first: int, counts: int) -> Floats:
        plan, samples = self._plan, self.history.samples
        begin = self._first + first * self._shift - self.history.start
        seeds = self._seeds(counts) if self._seeds is not None and plan.options.dither != 0 else None
        if self._call is not None:
            return self._call(samples, begin, counts, self._vtln_warp, seeds)
        batch = chunk_batch(samples, begin, counts, self._vtln_warp)
        return compute(plan, batch if seeds is None else batch.with_seeds(seeds))
