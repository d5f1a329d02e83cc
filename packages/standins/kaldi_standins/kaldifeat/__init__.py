"""API of kaldifeat: nested options, features and online features.

Code written for kaldifeat runs after a change of one import::

    import kaldi_standins.kaldifeat as kaldifeat
    opts = kaldifeat.FbankOptions()
    opts.frame_opts.dither = 0
    opts.mel_opts.num_bins = 80
    features = kaldifeat.Fbank(opts)(wave)

Samples may be on any scale. Setting an option that does not exist raises OptionError.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from torch import Tensor, nn

from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.functional.array_api import detect_tracing
from kaldi_compat.torch.features.fbank import Fbank as _Fbank
from kaldi_compat.torch.features.mfcc import Mfcc as _Mfcc
from kaldi_compat.torch.features.plp import Plp as _Plp
from kaldi_compat.torch.features.spectral import MelFeature, SpectralFeature
from kaldi_compat.torch.features.spectrogram import Spectrogram as _Spectrogram
from kaldi_compat.torch.tensors import frames
from kaldi_standins.kaldifeat.options import (
    FbankOptions,
    FeatureOptions,
    FrameExtractionOptions,
    MelBanksOptions,
    MfccOptions,
    PlpOptions,
    SpectrogramOptions,
    WhisperFbankOptions,
)
from kaldi_standins.kaldifeat.whisper import WhisperMel, normalize

__version__ = "1.25.5"  # Version of kaldifeat whose names this package has.

__all__ = [
    "Fbank", "FbankOptions", "FrameExtractionOptions", "MelBanksOptions", "Mfcc", "MfccOptions", "OfflineFeature",
    "OnlineFbank", "OnlineFeature", "OnlineMfcc", "OnlinePlp", "Plp", "PlpOptions", "Spectrogram",
    "SpectrogramOptions", "WhisperFbank", "WhisperFbankOptions", "num_frames",
]  # fmt: skip


def num_frames(num_samples: int, opts: FrameExtractionOptions, flush: bool = True) -> int:
    """Return the number of frames that audio has.

    Args:
        num_samples: number of samples that have been received.
        opts: options for cutting the samples into frames.
        flush: True if no more samples follow. False counts only frames that later samples cannot change.

    Raises:
        OptionError: Kaldi refuses an option.

    >>> from kaldi_standins.kaldifeat import FrameExtractionOptions, num_frames
    >>> opts = FrameExtractionOptions(snip_edges=False)
    >>> num_frames(16000, opts), num_frames(16000, opts, flush=False)
    (100, 99)
    """
    return _count_frames(FbankOptions(frame_opts=opts).to_our_options(), num_samples, flush)


def _count_frames(options: Any, num_samples: int, flush: bool) -> int:
    """Return the number of frames as :func:`num_frames` does, for ``options`` of kaldi-compat."""
    size, shift = options.window_size, options.window_shift
    if options.snip_edges:
        return frames.count_frames(num_samples, size, shift)
    count = frames.count_frames(num_samples, size, shift, snip_edges=False)
    # Frame i starts at sample i * shift + shift // 2 - size // 2. If it needs later samples, they may change it.
    return count if flush else min(count, frames.count_frames(num_samples - shift // 2 + size // 2, size, shift))


class _HtkMode(MelFeature):
    """A mel filter bank without the first FFT bin of the lowest mel bin."""

    def _compute_mel_weights(self, vtln_warp: float) -> Tensor:
        """Compute filters (fft_bins, num_mel_bins). Unless low_freq=0, set filter 0's first nonzero weight to 0."""
        weights = super()._compute_mel_weights(vtln_warp).clone()
        if self.options.low_freq != 0:
            weights[weights[:, 0].nonzero()[:1], 0] = 0.0
        return weights


class _HtkFbank(_HtkMode, _Fbank):
    pass


class _HtkMfcc(_HtkMode, _Mfcc):
    pass


class _HtkPlp(_HtkMode, _Plp):
    pass


_IN_HTK_MODE: dict[type[SpectralFeature], type[SpectralFeature]] = {
    _Fbank: _HtkFbank, _Mfcc: _HtkMfcc, _Plp: _HtkPlp,
}  # fmt: skip


def _make_feature(feature_type: type[SpectralFeature], opts: FeatureOptions) -> SpectralFeature:
    """Create a feature, or its variant for ``htk_mode``, with the options and on the device of ``opts``."""
    if getattr(getattr(opts, "mel_opts", None), "htk_mode", False):
        feature_type = _IN_HTK_MODE[feature_type]
    feature = feature_type(opts.to_our_options()).to(opts.device)
    return feature._trust_scale()  # Like kaldifeat, accept samples on any scale.


class OfflineFeature(nn.Module):
    """Base class of the features. Call an instance with audio ``(T,)``, or with a list of such tensors.

    Args:
        opts: the options.

    Attributes:
        computer: the feature of kaldi-compat.
    """

    feature_type: ClassVar[type[SpectralFeature]]

    def __init__(self, opts: FeatureOptions) -> None:
        super().__init__()
        self.opts = opts
        self.computer = _make_feature(self.feature_type, opts)
        # The same feature with frames side by side, so that `compute` can pass separate frames as audio.
        options = dataclasses.replace(self.computer.options, frame_shift=self.computer.options.frame_length)
        self._frame_computer = type(self.computer)(dataclasses.replace(options, snip_edges=True)).to(opts.device)
        self._frame_computer._trust_scale()

    def forward(
        self, waves: Tensor | Sequence[Tensor], vtln_warp: float = 1.0, chunk_size: int | None = None
    ) -> Tensor | list[Tensor]:
        """Compute the features of audio.

        Args:
            waves: audio ``(T,)``, or a list of audio.
            vtln_warp: VTLN factor.
            chunk_size: number of frames computed at once, to bound memory. None or 0 for all frames.

        Returns:
            Features ``(frames, dim)`` on the device of the audio. For a list of audio, a list of features.

        Raises:
            AudioError: ``waves`` is neither a tensor nor a list of tensors, or audio does not have the shape ``(T,)``.
            OptionError: ``chunk_size`` is negative.
        """
        if isinstance(waves, Tensor):
            return self._compute_list([waves], vtln_warp, chunk_size)[0]
        return self._compute_list(waves, vtln_warp, chunk_size)

    if TYPE_CHECKING:  # nn.Module declares __call__ without types.

        @overload
        def __call__(self, waves: Tensor, vtln_warp: float = 1.0, chunk_size: int | None = None) -> Tensor: ...
        @overload
        def __call__(
            self, waves: Sequence[Tensor], vtln_warp: float = 1.0, chunk_size: int | None = None
        ) -> list[Tensor]: ...
        def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...

    def _compute_list(self, waves: Sequence[Tensor], vtln_warp: float, chunk_size: int | None) -> list[Tensor]:
        """Compute the features of each tensor of ``waves``. For the arguments and errors, see :meth:`forward`."""
        if not isinstance(waves, list | tuple) or not all(isinstance(wave, Tensor) for wave in waves):
            raise AudioError("expected a tensor or a list of tensors: convert arrays with torch.from_numpy")
        if chunk_size:
            return [self.compute(self.convert_samples_to_frames(wave), vtln_warp, chunk_size) for wave in waves]
        features = self.computer([wave.to(self.opts.device) for wave in waves], vtln_warp=vtln_warp)
        return [self.finish(matrix).to(wave.device) for matrix, wave in zip(features, waves, strict=True)]

    def finish(self, features: Tensor) -> Tensor:
        """Apply the last step, which needs all frames, to ``features`` (frames, dim). The base class has none."""
        return features

    def convert_samples_to_frames(self, wave: Tensor) -> Tensor:
        """Cut audio ``(T,)`` into unprocessed frames ``(frames, size)``. ``size`` is the frame length in samples."""
        options = self.computer.options
        is_traced = detect_tracing(wave)
        return frames.cut_frames(wave, options.window_size, options.window_shift, options.snip_edges, tracing=is_traced)

    def compute(self, x: Tensor, vtln_warp: float = 1.0, chunk_size: int | None = None) -> Tensor:
        """Compute the features of frames.

        Args:
            x: frames ``(frames, size)``, as :meth:`convert_samples_to_frames` returns them.
            vtln_warp: VTLN factor.
            chunk_size: number of frames computed at once. None or 0 for all frames.

        Returns:
            Features ``(frames, dim)`` on the device of ``x``.

        Raises:
            AudioError: ``x`` is not a matrix, or its frames do not have the frame length of the options.
            OptionError: ``chunk_size`` is negative.
        """
        size = self.computer.options.window_size
        if x.ndim != 2 or x.shape[1] != size:
            advice = "pass the result of convert_samples_to_frames"
            raise AudioError(f"frames must have the shape (frames, {size}), not {tuple(x.shape)}: {advice}")
        if chunk_size is not None and chunk_size < 0:
            raise OptionError(f"chunk_size must be a number of frames, or None for all, not {chunk_size}")
        parts = [
            self._frame_computer(part.to(self.opts.device).reshape(-1), vtln_warp=vtln_warp)
            for part in torch.split(x, chunk_size or max(len(x), 1))
        ]
        return self.finish(torch.cat(parts)).to(x.device)


class Fbank(OfflineFeature):
    """Log-mel filter bank features.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import Fbank, FbankOptions
    >>> opts = FbankOptions()
    >>> opts.frame_opts.dither = 0.0
    >>> opts.mel_opts.num_bins = 80
    >>> Fbank(opts)(torch.zeros(16000)).shape
    torch.Size([98, 80])
    """

    opts: FbankOptions
    feature_type = _Fbank


class Mfcc(OfflineFeature):
    """Mel-frequency cepstral coefficients.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import Mfcc, MfccOptions
    >>> Mfcc(MfccOptions())(torch.zeros(16000)).shape
    torch.Size([98, 13])
    """

    opts: MfccOptions
    feature_type = _Mfcc


class Plp(OfflineFeature):
    """Perceptual linear prediction cepstra.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import Plp, PlpOptions
    >>> Plp(PlpOptions())(torch.zeros(16000)).shape
    torch.Size([98, 13])
    """

    opts: PlpOptions
    feature_type = _Plp


class Spectrogram(OfflineFeature):
    """Log power spectrum.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import Spectrogram, SpectrogramOptions
    >>> Spectrogram(SpectrogramOptions())(torch.zeros(16000)).shape
    torch.Size([98, 257])
    """

    opts: SpectrogramOptions
    feature_type = _Spectrogram


class WhisperFbank(OfflineFeature):
    """Whisper's log-mel features of audio in -1 to 1. Unlike kaldifeat, it normalizes each utterance separately."""

    opts: WhisperFbankOptions
    feature_type = WhisperMel

    def finish(self, features: Tensor) -> Tensor:
        """Normalize the features ``(frames, dim)`` of an utterance by :func:`~.whisper.normalize`."""
        return normalize(features)


class OnlineFeature:
    """Base class of online features, which receive audio in chunks and store the frames.

    Only the latest ``frame_opts.max_feature_vectors`` frames are stored. -1 or 0 stores all frames.
    """

    feature_type: ClassVar[type[SpectralFeature]]

    def __init__(self, opts: FeatureOptions) -> None:
        self.opts = opts
        self._feature = _make_feature(self.feature_type, opts)
        self._stream = self._feature.stream()
        self._frames: list[Tensor] = []
        self._discarded_count = 0
        self._is_finished = False

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self._feature.dim

    @property
    def frame_shift_in_seconds(self) -> float:
        """Seconds from the start of one frame to the start of the next frame."""
        return self._feature.options.frame_shift / 1000.0

    @property
    def num_frames_ready(self) -> int:
        """Number of frames computed so far, including discarded frames."""
        return self._discarded_count + len(self._frames)

    def accept_waveform(self, sampling_rate: float, waveform: Tensor | Sequence[float]) -> None:
        """Add the next chunk of audio, samples ``(T,)`` at ``sampling_rate`` in Hz. Ignore an empty chunk.

        Raises:
            AudioError: the sampling rate differs from ``frame_opts.samp_freq``, or the input is finished.
        """
        if len(waveform) == 0:
            return
        if sampling_rate != self._feature.options.sample_frequency:
            raise AudioError(
                f"a chunk has a sampling rate of {sampling_rate:g} Hz, but samp_freq is "
                f"{self._feature.options.sample_frequency:g}: resample the audio"
            )
        if self._is_finished:
            raise AudioError("the input is finished: create a new feature for the next utterance")
        self._take_chunk(torch.as_tensor(waveform, dtype=torch.float32), final=False)

    def input_finished(self) -> None:
        """End the audio, which makes the last frames available. A second call does nothing."""
        if not self._is_finished:
            self._take_chunk(torch.zeros(0), final=True)
        self._is_finished = True

    def _take_chunk(self, chunk: Tensor, *, final: bool) -> None:
        """Store the frames that a chunk (T,), or the end (``final``), completes. Discard the oldest excess frames."""
        new_frames = self._stream(chunk.to(self.opts.device), final=final)
        assert not isinstance(new_frames, tuple)  # A chunk without the axis of slots gives a tensor.
        self._frames += new_frames.unsqueeze(1).unbind()
        max_frames = self._feature.options.max_feature_vectors  # -1 for no limit.
        if 0 <= max_frames < len(self._frames):
            excess = len(self._frames) - max_frames
            self._discarded_count += excess
            del self._frames[:excess]

    def is_last_frame(self, frame: int) -> bool:
        """Return True if ``frame``, counted from 0, is the last frame. Before :meth:`input_finished`, return False."""
        return self._is_finished and frame == self.num_frames_ready - 1

    def get_frame(self, frame: int) -> Tensor:
        """Return a frame ``(1, dim)`` by its number, counted from 0.

        Raises:
            OptionError: the frame does not exist, is not ready yet, or was discarded.
        """
        if not self._discarded_count <= frame < self.num_frames_ready:
            first, last = self._discarded_count, self.num_frames_ready - 1
            advice = f"ask for {first} to {last}" if last >= first else "no frame is ready"
            raise OptionError(f"frame {frame} is not available: {advice}")
        return self._frames[frame - self._discarded_count]

    def get_frames(self, frames: Sequence[int]) -> list[Tensor]:
        """Return a list of frames ``(1, dim)`` by their numbers. See :meth:`get_frame` for the numbers and errors."""
        return [self.get_frame(frame) for frame in frames]


class OnlineFbank(OnlineFeature):
    """Log-mel filter bank features of audio in chunks.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import FbankOptions, OnlineFbank
    >>> online = OnlineFbank(FbankOptions())
    >>> online.accept_waveform(16000, torch.zeros(1000))
    >>> online.num_frames_ready, online.get_frame(3).shape
    (4, torch.Size([1, 23]))
    """

    opts: FbankOptions
    feature_type = _Fbank


class OnlineMfcc(OnlineFeature):
    """Mel-frequency cepstral coefficients of audio in chunks.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import MfccOptions, OnlineMfcc
    >>> online = OnlineMfcc(MfccOptions())
    >>> online.accept_waveform(16000, torch.zeros(1000))
    >>> online.num_frames_ready, online.get_frame(3).shape
    (4, torch.Size([1, 13]))
    """

    opts: MfccOptions
    feature_type = _Mfcc


class OnlinePlp(OnlineFeature):
    """Perceptual linear prediction cepstra of audio in chunks.

    >>> import torch
    >>> from kaldi_standins.kaldifeat import PlpOptions, OnlinePlp
    >>> online = OnlinePlp(PlpOptions())
    >>> online.accept_waveform(16000, torch.zeros(1000))
    >>> online.num_frames_ready, online.get_frame(3).shape
    (4, torch.Size([1, 13]))
    """

    opts: PlpOptions
    feature_type = _Plp
