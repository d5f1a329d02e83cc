"""Stream of a spectral feature, whose frames are equal to the frames of the whole utterance."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.stream import AudioFlow, ChunkStream
from kaldi_compat.functional.array_api import is_traced_or_differentiated
from kaldi_compat.functional.checks import check_scale
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch.calls import FeatureStreamCall, Warp
from kaldi_compat.torch.streaming.base import ChunkFrames, Configured, WindowStream
from kaldi_compat.torch.streaming.history import Counts
from kaldi_compat.torch.tensors.dither import Generator, make_seed_source
from kaldi_compat.torch.tensors.frames import reflect_indices


class FeatureStream(FeatureStreamCall, AudioFlow, WindowStream[FrameOptions]):
    """Stream of a spectral feature, which takes audio in chunks and returns the same frames as for the whole utterance.

    With ``snip_edges=False``, the first frame waits for its right half, and the frames that extend beyond the end of
    the audio are returned with the final chunk, where the audio is reflected (Kaldi: OnlineGenericBaseFeature).

    Like a call of the feature, a call of the stream takes ``vtln_warp`` (one factor, or one for each slot) and
    ``generator``. Dithering draws noise for the same number of frames in all slots. Therefore only a stream with a
    single slot and a :class:`~kaldi_compat.KaldiRandom` draws the same noise as for the whole utterance.

    Args:
        module: ``Fbank``, ``Mfcc``, ``Plp`` or ``Spectrogram``. Other modules raise OptionError.
        slots: number of utterances that are processed at the same time.

    >>> import torch
    >>> from kaldi_compat import Fbank
    >>> stream = Fbank(dither=0.0, snip_edges=False).stream()
    >>> stream(torch.zeros(500)).shape, stream(torch.zeros(300)).shape, stream.flush().shape
    (torch.Size([2, 23]), torch.Size([2, 23]), torch.Size([1, 23]))
    """

    takes = "Fbank(dither=0.0)"
    item_axes = 0
    module: Any
    _chunks: ChunkStream | None = None
    _uses_feature = False  # True if the module computes the current utterance, not the exact engine.

    def __init__(self, module: Configured[FrameOptions], slots: int = 1) -> None:
        super().__init__(module, slots)
        self._feature = self.module
        # The exact engine computes plain audio of a single slot on a CPU. The module computes everything else.
        plan = self.module._make_exact_plan()
        self._chunks = ChunkStream(plan) if slots == 1 and plan is not None else None
        self._scale_is_known = False  # True if a chunk that is not silent has been checked.
        self._parameters: dict[str, Any] = {}  # Keyword arguments for the module in the current call.
        options = self.options
        self._set_frame_layout(options.window_size, options.window_shift, options.snip_edges)
        # _compute passes audio with reflected ends to the module, so the module must not reflect the audio again.
        if not options.snip_edges:
            self._feature = copy.copy(self._feature)
            self._feature.options = dataclasses.replace(options, snip_edges=True)

    def _take(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
        vtln_warp: Warp = 1.0,
        generator: Generator = None,
    ) -> ChunkFrames:
        """Take a chunk, and return the frames that no later chunk can change. Use the exact engine if possible."""
        if (
            self._chunks is not None
            and not self._uses_feature
            and lengths is None
            and isinstance(final, bool)
            and isinstance(vtln_warp, float)
            and self._is_plain(chunk)
        ):
            return self._compute_exactly(self._chunks, chunk, final, vtln_warp, generator)
        self._hand_over_to_feature()
        self._parameters = {"vtln_warp": vtln_warp, "generator": generator}
        try:
            return super()._take(chunk, lengths, final=final)
        finally:  # A refused chunk leaves the audio of earlier chunks in the history.
            self._uses_feature = bool(self.history.end.any())

    if not TYPE_CHECKING:  # FeatureStreamCall declares __call__ for type checkers.
        __call__ = _take

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        super().reset()
        self._uses_feature = False
        if self._chunks is not None:
            self._chunks.reset()

    def _is_plain(self, chunk: Tensor) -> bool:
        """Return True if the exact engine can compute a chunk (T,) or (1, T)."""
        return (
            type(chunk) is Tensor
            and chunk.layout == torch.strided
            and not chunk.is_nested
            and chunk.dtype in (torch.int16, torch.float32)
            and (chunk.ndim == 1 or (chunk.ndim == 2 and len(chunk) == 1))
            and chunk.device.type == "cpu"
            and self._feature.window.device.type == "cpu"
            and not is_traced_or_differentiated(chunk)
        )

    def _compute_exactly(
        self, chunks: ChunkStream, chunk: Tensor, final: bool, vtln_warp: float, generator: Generator
    ) -> ChunkFrames:
        """Return the frames that a plain chunk (T,) or (1, T) completes, computed by the exact engine."""
        if self._feature._warns_of_scale and not self._scale_is_known:
            check_scale(chunk, self.options.waveform_scale)
            self._scale_is_known = bool(chunk.any())  # Silence does not show the scale.
        samples = chunk.numpy(force=True)
        seeds = make_seed_source(generator) if self.options.dither != 0 else None
        features = chunks.advance(samples[0] if chunk.ndim == 2 else samples, final, vtln_warp, seeds)
        self._is_batched, self._item_dtype, self._item_device = chunk.ndim == 2, chunk.dtype, chunk.device
        frames = torch.from_numpy(features)
        return (frames[None], torch.tensor([len(frames)])) if chunk.ndim == 2 else frames

    def _hand_over_to_feature(self) -> None:
        """Move the current utterance's audio from the exact engine to the history, which the module reads."""
        if self._chunks is not None and self._chunks.history.end:
            exact = self._chunks.history
            self.history.start = self.history.end = np.array([exact.start])
            self.history.append(torch.from_numpy(exact.samples)[None], np.array([len(exact.samples)]))
            self.done = np.array([self._chunks.done])
            self._chunks.reset()

    def _compute(self, first: Counts, count: int) -> Tensor:
        """Compute ``count`` frames from frame ``first`` (slots,) on, (slots, count, dim).

        Without ``snip_edges``, the audio is reflected at its ends.
        """
        history = self.history
        num_samples = (count - 1) * self._shift + self._size if count else 0
        start = self._first + first * self._shift
        if self._snip_edges or bool(((start >= 0) & (start + num_samples <= history.end)).all()):
            audio = history.get_range(start, num_samples)
        else:
            indices = history.list_indices(start, num_samples)
            lengths = history.to_column(np.maximum(history.end, 1))
            audio = history.get_items(reflect_indices(indices, lengths))
        frames: Tensor = self._feature(audio, **self._parameters)
        return frames
