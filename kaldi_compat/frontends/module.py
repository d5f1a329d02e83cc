"""Front ends of published models as torch modules, and as streams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from kaldi_compat.array_api import is_traced, is_traced_or_differentiated
from kaldi_compat.errors import AudioError
from kaldi_compat.features import model_input
from kaldi_compat.features.fbank import Fbank
from kaldi_compat.features.mfcc import Mfcc
from kaldi_compat.features.module import checked_list
from kaldi_compat.features.plp import Plp
from kaldi_compat.features.script import scriptable
from kaldi_compat.features.spectral import SpectralFeature
from kaldi_compat.features.spectrogram import Spectrogram
from kaldi_compat.features.statistics import Statistics
from kaldi_compat.frontends.audio import INT16_SCALE, check_sampling_rate, check_values, checked_samples, on_unit_scale
from kaldi_compat.frontends.base import PresetFrontend, resolved, shorter_frame, why_no_stream
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.frontends.steps import STEPS, Step
from kaldi_compat.functional.batches import checked_lengths, zero_past
from kaldi_compat.functional.sinc import num_resampled
from kaldi_compat.options.spectral import Dft, Engine, FrameOptions
from kaldi_compat.streaming.features import FeatureStream, Stream, StreamChain
from kaldi_compat.streaming.stacking import FrameStream, LowFrameRateStream, StackFramesStream
from kaldi_compat.tensors.resample import resample_waveform

__all__ = ["Frontend", "FrontendStream"]

CLASSES: dict[str, type[SpectralFeature]] = {"fbank": Fbank, "mfcc": Mfcc, "plp": Plp, "spectrogram": Spectrogram}


class Frontend(PresetFrontend, nn.Module):
    """The front end of a published model: from audio to the model's input, as the model's own project computes it.

    :class:`kaldi_compat.frontends.numpy.Frontend` computes the same of NumPy arrays, without torch.

    Args:
        preset: a name of :func:`~kaldi_compat.frontends.preset_names`, the path of a json file, or a Preset.
        statistics: what :meth:`Statistics.of <kaldi_compat.features.statistics.Statistics.of>` takes: the file that the
            model ships, or numbers. Without it, the step that needs it is left out, with a warning.
        resample: resample audio of another sampling rate; False refuses it.
        dither: standard deviation of noise on the samples, in place of the preset's, which is 0.
        engine: the engine that computes the features, as for :class:`~kaldi_compat.Fbank`.
        dft: "fft", or "matmul" for devices and runtimes without an FFT, as for :class:`~kaldi_compat.Fbank`.

    Attributes:
        preset: the preset; without the step whose statistics are missing.
        feature: the module of the feature.
        steps: the modules of the steps that follow.

    Raises:
        OptionError: an unknown preset, a file that is not one, or statistics for a preset that takes none.
        FeatureError: the statistics cannot be read or do not fit.

    >>> import torch
    >>> from kaldi_compat.frontends import Frontend
    >>> frontend = Frontend.from_preset("seamless-m4t")
    >>> frontend(torch.zeros(16000)).shape, frontend(torch.zeros(8000, dtype=torch.int16), sampling_rate=8000).shape
    (torch.Size([49, 160]), torch.Size([49, 160]))
    """

    def __init__(
        self,
        preset: str | os.PathLike[str] | Preset,
        *,
        statistics: Any = None,
        resample: bool = True,
        dither: float | None = None,
        engine: Engine = "auto",
        dft: Dft = "fft",
    ) -> None:
        super().__init__()
        self.preset, numbers = resolved(preset, statistics, dither)
        self.resample = resample
        self.engine: Engine = engine
        self.dft: Dft = dft
        self.feature = self._feature(self.preset.feature_options)
        self.steps = nn.ModuleList(_module_of(step, numbers) for step in self.preset.steps)

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike[str] | Preset,
        *,
        statistics: Any = None,
        resample: bool = True,
        dither: float | None = None,
        engine: Engine = "auto",
        dft: Dft = "fft",
    ) -> Frontend:
        """Return the front end of a preset; the arguments are those of the class."""
        return cls(preset, statistics=statistics, resample=resample, dither=dither, engine=engine, dft=dft)

    def __prepare_scriptable__(self) -> nn.Module:
        return scriptable(self, torch.linspace(-0.1, 0.1, 2 * self.sampling_rate).view(2, -1), 1 / INT16_SCALE)

    def extra_repr(self) -> str:
        """Return the name of the preset."""
        return repr(self.preset.name)

    def _repr_html_(self) -> str:
        from kaldi_compat.frontends import description

        return description.html(self.preset, f"Frontend({self.preset.name!r})")

    @overload
    def forward(self, samples: Tensor, lengths: None = None, *, sampling_rate: int | None = None) -> Tensor: ...
    @overload
    def forward(
        self, samples: Tensor, lengths: Tensor | Sequence[int], *, sampling_rate: int | None = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self, samples: Sequence[Tensor], lengths: None = None, *, sampling_rate: int | None = None
    ) -> list[Tensor]: ...
    def forward(
        self,
        samples: Tensor | Sequence[Tensor],
        lengths: Tensor | Sequence[int] | None = None,
        *,
        sampling_rate: int | None = None,
    ) -> Any:
        """Compute a model's input of audio.

        Args:
            samples: one channel of audio: ``(T,)``, ``(B, T)``, or a list of ``(T,)``; floating point in -1 to 1, or
                int16. Audio on a CPU is checked for NaN; on a GPU that would wait for the GPU.
            lengths: number of samples in each row of ``(B, T)``, a tensor or a list; the samples after them are
                ignored.
            sampling_rate: of the audio, in Hz; the model's if None. Audio of another rate is resampled as in Kaldi.

        Returns:
            ``(frames, dim)`` or ``(B, frames, dim)``; with ``lengths``, that and the number of frames of each row,
            ``(B,)``; for a list, a list.

        Raises:
            AudioError: audio that is empty, has NaN, a wrong shape or type, or, with ``resample=False``, another rate.
        """
        rate = check_sampling_rate(sampling_rate, self.preset, resample=self.resample)
        if not isinstance(samples, Tensor):
            return [self(each, sampling_rate=rate) for each in checked_list(samples, lengths, ("T",), AudioError)]
        if is_traced(samples):
            audio = on_unit_scale(samples)
        else:
            audio = checked_samples(samples, self.preset, has_lengths=lengths is not None)
        ends: Tensor | None = checked_lengths(lengths, audio, -1, AudioError)
        if ends is not None:
            ends = ends.to(audio.device)
            audio = zero_past(audio.unsqueeze(-1), ends).squeeze(-1)
        if audio.device.type == "cpu" and not is_traced_or_differentiated(audio):
            check_values(audio)
        if rate != self.preset.sampling_rate:
            audio = resample_waveform(audio, rate, self.preset.sampling_rate)
            ends = None if ends is None else num_resampled(ends, rate, self.preset.sampling_rate)
        if self.preset.shortens_frame and not is_traced(audio) and self._has_short_frame(audio, ends):
            return self._row_by_row(audio, ends)
        return self._features(self.feature, audio, ends)

    if TYPE_CHECKING:  # nn.Module declares __call__ as a function of anything to anything

        @overload
        def __call__(self, samples: Tensor, lengths: None = None, *, sampling_rate: int | None = None) -> Tensor: ...
        @overload
        def __call__(
            self, samples: Tensor, lengths: Tensor | Sequence[int], *, sampling_rate: int | None = None
        ) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self, samples: Sequence[Tensor], lengths: None = None, *, sampling_rate: int | None = None
        ) -> list[Tensor]: ...
        def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...

    def stream(self, slots: int = 1) -> FrontendStream:
        """Return a stream that computes the front end of audio in chunks, for ``slots`` utterances at once.

        Raises:
            OptionError: a step of the preset needs the whole utterance.
        """
        return FrontendStream(self, slots)

    def _feature(self, options: FrameOptions) -> SpectralFeature:
        # The FFT of torch is more accurate than Kaldi's, which the exact engine repeats.
        engine: Engine = "torch" if self.preset.double_precision and self.engine == "auto" else self.engine
        feature = CLASSES[self.preset.feature](options, engine=engine, dft=self.dft)
        feature._scale_is_known = True  # the preset says what scale the model takes
        return feature

    def _has_short_frame(self, audio: Tensor, ends: Tensor | None) -> bool:
        if audio.shape[-1] < self.feature.size:
            return True
        # Reading lengths on a GPU waits for it: short rows of a batch there have no frames.
        return ends is not None and ends.device.type == "cpu" and bool((ends < self.feature.size).any())

    def _row_by_row(self, audio: Tensor, ends: Tensor | None) -> Any:
        """Compute audio of which some is shorter than a frame: such rows have a feature of their own."""
        rows = audio.unsqueeze(0) if audio.dim() == 1 else audio
        lengths = [rows.shape[-1]] * len(rows) if ends is None else ends.reshape(-1).tolist()
        parts = [self._of_row(row[:length]) for row, length in zip(rows, lengths, strict=True)]
        whole = nn.utils.rnn.pad_sequence(parts, batch_first=True)
        features = whole[0] if audio.dim() == 1 else whole
        if ends is None:
            return features
        return features, torch.tensor([len(part) for part in parts], device=ends.device).reshape(ends.shape)

    def _of_row(self, audio: Tensor) -> Tensor:
        feature = self.feature
        if 2 <= len(audio) < feature.size:
            feature = self._feature(shorter_frame(self.preset.feature_options, len(audio))).to(audio.device)
        features: Tensor = self._features(feature, audio, None)
        return features

    def _features(self, feature: SpectralFeature, audio: Tensor, ends: Tensor | None) -> Any:
        if self.preset.subtract_clip_mean:
            count = audio.shape[-1] if ends is None else ends.clamp(min=1).unsqueeze(-1)
            audio = audio - audio.sum(-1, keepdim=True) / count
        result: Any = feature(audio) if ends is None else feature(audio, ends)
        for step in self.steps:
            result = step(*result) if isinstance(result, tuple) else step(result)
        return result


def _module_of(step: Step, statistics: Statistics | None) -> nn.Module:
    kind: Any = getattr(model_input, STEPS[step.kind].module)
    if step.statistics:
        module: nn.Module = kind(statistics)
    else:
        module = kind(options=step.options)
    return module


class FrontendStream:
    """The front end of audio in chunks: the frames that it gives for the whole utterance.

    The audio has the model's sampling rate. Audio shorter than a frame has no frames, for all presets. The call is that
    of :class:`~kaldi_compat.streaming.features.Stream`.

    Args:
        frontend: the front end.
        slots: number of streams.

    Raises:
        OptionError: a step of the preset needs the whole utterance.

    >>> import torch
    >>> from kaldi_compat.frontends import Frontend
    >>> stream = Frontend.from_preset("zipformer").stream()
    >>> stream(torch.zeros(8000)).shape, stream(torch.zeros(8000), final=True).shape
    (torch.Size([49, 80]), torch.Size([51, 80]))
    """

    def __init__(self, frontend: Frontend, slots: int = 1) -> None:
        if frontend.preset.why_no_stream:
            raise why_no_stream(frontend.preset)
        self.frontend, self.slots = frontend, slots
        steps = [_stream_of(module, slots) for module in frontend.steps]
        self._chain = StreamChain(FeatureStream(frontend.feature, slots), *steps)
        for stream in self._chain.streams:
            inner: Any = getattr(stream, "_feature", None)
            if inner is not None:
                inner._scale_is_known = True

    def __repr__(self) -> str:
        return f"<FrontendStream of {self.frontend.preset.name!r}, {self.slots} slot{'s' * (self.slots != 1)}>"

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        self._chain.reset()

    def flush(self) -> Any:
        """End all slots: return the frames that the end of the audio decides, and reset."""
        return self._chain.flush()

    def __call__(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
    ) -> Any:
        """Compute the frames that a chunk of each slot decides.

        Args:
            chunk: samples ``(slots, T)``, or ``(T,)`` for one slot; floating point in -1 to 1, or int16.
            lengths: number of valid samples in each slot; all if None.
            final: True for slots that end with this chunk.

        Returns:
            As :class:`~kaldi_compat.streaming.features.Stream`.

        Raises:
            AudioError: the chunk has another shape or type, or, on a CPU, NaN.
        """
        if not isinstance(chunk, Tensor):
            raise AudioError(f"a chunk must be a tensor, not {type(chunk).__name__}: pass torch.as_tensor(chunk)")
        audio = on_unit_scale(chunk)
        if audio.device.type == "cpu" and audio.numel() and lengths is None:
            check_values(audio)
        return self._chain(audio, lengths, final=final)


def _stream_of(module: Any, slots: int) -> Stream:
    if isinstance(module, model_input.LowFrameRate):
        return LowFrameRateStream(module.options, slots)
    if isinstance(module, model_input.StackFrames):
        return StackFramesStream(module.options, slots)
    return FrameStream(module, slots)
