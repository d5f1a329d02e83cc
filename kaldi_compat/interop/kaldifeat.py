"""API of kaldifeat: its nested options, its features and its online features.

Code written for kaldifeat runs after a change of one import::

    import kaldi_compat.interop.kaldifeat as kaldifeat
    opts = kaldifeat.FbankOptions()
    opts.frame_opts.dither = 0
    opts.mel_opts.num_bins = 80
    features = kaldifeat.Fbank(opts)(wave)

Defaults are Kaldi's. Setting an option that does not exist raises OptionError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from torch import Tensor, nn

from kaldi_compat.data.batching import unpad
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.features import fbank, mfcc, plp, spectrogram
from kaldi_compat.features.spectral import SpectralFeature
from kaldi_compat.interop.kaldifeat_groups import FeatureOptions
from kaldi_compat.interop.kaldifeat_options import (
    FbankOptions,
    FrameExtractionOptions,
    MelBanksOptions,
    MfccOptions,
    PlpOptions,
    SpectrogramOptions,
)
from kaldi_compat.streaming.features import FeatureStream

__all__ = [
    "Fbank",
    "FbankOptions",
    "FrameExtractionOptions",
    "MelBanksOptions",
    "Mfcc",
    "MfccOptions",
    "OfflineFeature",
    "OnlineFbank",
    "OnlineFeature",
    "OnlineMfcc",
    "OnlinePlp",
    "Plp",
    "PlpOptions",
    "Spectrogram",
    "SpectrogramOptions",
]


class OfflineFeature(nn.Module):
    """Base class of the features. Call it with audio, or with a list of audio."""

    feature_type: ClassVar[type[SpectralFeature]]

    def __init__(self, opts: FeatureOptions) -> None:
        super().__init__()
        self.opts = opts
        self.computer = self.feature_type(opts.ours()).to(opts.device)

    @overload
    def forward(self, waves: Tensor, vtln_warp: float = 1.0, chunk_size: int | None = None) -> Tensor: ...
    @overload
    def forward(
        self, waves: Sequence[Tensor], vtln_warp: float = 1.0, chunk_size: int | None = None
    ) -> list[Tensor]: ...
    def forward(
        self, waves: Tensor | Sequence[Tensor], vtln_warp: float = 1.0, chunk_size: int | None = None
    ) -> Tensor | list[Tensor]:
        """Compute features.

        Args:
            waves: audio ``(T,)`` on Kaldi's scale, or a list.
            vtln_warp: VTLN factor.
            chunk_size: number of frames computed at once, to bound memory; all if None.

        Returns:
            ``(frames, dim)``, or a list.
        """
        alone = isinstance(waves, Tensor)
        items = [wave.to(self.opts.device) for wave in ([waves] if isinstance(waves, Tensor) else waves)]
        features = [self._of_one(wave, vtln_warp, chunk_size) for wave in items]
        return features[0] if alone else features

    if TYPE_CHECKING:  # nn.Module declares __call__ as a function of anything to anything

        @overload
        def __call__(self, waves: Tensor, vtln_warp: float = 1.0, chunk_size: int | None = None) -> Tensor: ...
        @overload
        def __call__(
            self, waves: Sequence[Tensor], vtln_warp: float = 1.0, chunk_size: int | None = None
        ) -> list[Tensor]: ...
        def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...

    def _of_one(self, wave: Tensor, vtln_warp: float, chunk_size: int | None) -> Tensor:
        if chunk_size is None:
            whole: Tensor = self.computer(wave, vtln_warp=vtln_warp)
            return whole
        stream = FeatureStream(self.computer)
        chunks = torch.split(wave, chunk_size * self.computer.options.window_shift)
        parts = [stream(chunk, final=i == len(chunks) - 1, vtln_warp=vtln_warp) for i, chunk in enumerate(chunks)]
        return torch.cat(parts)


class Fbank(OfflineFeature):
    """Log-mel filter bank features.

    >>> opts = FbankOptions()
    >>> opts.frame_opts.dither = 0.0
    >>> opts.mel_opts.num_bins = 80
    >>> Fbank(opts)(torch.zeros(16000)).shape
    torch.Size([98, 80])
    """

    feature_type = fbank.Fbank


class Mfcc(OfflineFeature):
    """Mel-frequency cepstral coefficients."""

    feature_type = mfcc.Mfcc


class Plp(OfflineFeature):
    """Perceptual linear prediction cepstra."""

    feature_type = plp.Plp


class Spectrogram(OfflineFeature):
    """Log power spectrum."""

    feature_type = spectrogram.Spectrogram


class OnlineFeature:
    """Base class of online features: audio arrives in chunks, and frames are kept until they are read.

    Only the latest ``frame_opts.max_feature_vectors`` frames are kept, unless that is -1.
    """

    feature_type: ClassVar[type[SpectralFeature]]

    def __init__(self, opts: FeatureOptions) -> None:
        self.opts = opts
        self._feature = self.feature_type(opts.ours()).to(opts.device)
        self._stream = FeatureStream(self._feature)
        self._frames: list[Tensor] = []
        self._discarded = 0
        self._finished = False

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self._feature.dim

    @property
    def frame_shift_in_seconds(self) -> float:
        """Seconds from one frame's start to the next one's."""
        return self._feature.options.frame_shift / 1000.0

    @property
    def num_frames_ready(self) -> int:
        """Number of frames known so far."""
        return self._discarded + len(self._frames)

    def accept_waveform(self, sampling_rate: float, waveform: Tensor | Sequence[float]) -> None:
        """Add the next chunk of audio ``(T,)``.

        Raises:
            AudioError: the sampling rate differs from ``frame_opts.samp_freq``, or the input is finished.
        """
        if sampling_rate != self._feature.options.sample_frequency:
            raise AudioError(
                f"a chunk has a sampling rate of {sampling_rate:g} Hz, but samp_freq is "
                f"{self._feature.options.sample_frequency:g}: resample it"
            )
        if self._finished:
            raise AudioError("the input is finished: create a new feature for the next utterance")
        self._take(torch.as_tensor(waveform, dtype=torch.float32), final=False)

    def input_finished(self) -> None:
        """End the audio: the last frames become available."""
        if not self._finished:
            self._take(torch.zeros(0), final=True)
        self._finished = True

    def _take(self, chunk: Tensor, *, final: bool) -> None:
        frames = self._stream(chunk.to(self.opts.device), final=final)
        self._frames += unpad(frames.unsqueeze(1), torch.ones(len(frames), dtype=torch.int64))
        limit = self._feature.options.max_feature_vectors
        if 0 <= limit < len(self._frames):
            over = len(self._frames) - limit
            self._discarded += over
            del self._frames[:over]

    def is_last_frame(self, frame: int) -> bool:
        """Return True if this is the last frame of the utterance."""
        return self._finished and frame == self.num_frames_ready - 1

    def get_frame(self, frame: int) -> Tensor:
        """Return a frame ``(1, dim)`` by its number.

        Raises:
            OptionError: the frame is not ready yet, or was discarded.
        """
        if not self._discarded <= frame < self.num_frames_ready:
            raise OptionError(
                f"frame {frame} is not available: ask for {self._discarded} to {self.num_frames_ready - 1}"
            )
        return self._frames[frame - self._discarded]

    def get_frames(self, frames: Sequence[int]) -> list[Tensor]:
        """Return frames by their numbers."""
        return [self.get_frame(frame) for frame in frames]


class OnlineFbank(OnlineFeature):
    """Log-mel filter bank features of audio in chunks.

    >>> opts = FbankOptions()
    >>> opts.frame_opts.dither = 0.0
    >>> online = OnlineFbank(opts)
    >>> online.accept_waveform(16000, torch.zeros(1000))
    >>> online.num_frames_ready, online.get_frame(3).shape
    (4, torch.Size([1, 23]))
    """

    feature_type = fbank.Fbank


class OnlineMfcc(OnlineFeature):
    """Mel-frequency cepstral coefficients of audio in chunks."""

    feature_type = mfcc.Mfcc


class OnlinePlp(OnlineFeature):
    """Perceptual linear prediction cepstra of audio in chunks."""

    feature_type = plp.Plp
