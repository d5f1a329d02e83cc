"""Front ends of published models as torch modules and streams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.resample import resample_rows
from kaldi_compat.frontends.audio import (
    INT16_SCALE,
    check_sampling_rate,
    check_values,
    prepare_audio,
    scale_to_unit,
)
from kaldi_compat.frontends.base import PresetFrontend, check_export, load_preset, make_missing_stream_error
from kaldi_compat.frontends.names import PresetName
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.frontends.steps import STEPS, Step
from kaldi_compat.functional.array_api import detect_tracing
from kaldi_compat.functional.checks import CheckedAudio, check_list, make_chunk_error
from kaldi_compat.options.spectral import Dft, Engine, FrameOptions
from kaldi_compat.torch.calls import StreamCall
from kaldi_compat.torch.features import model_input
from kaldi_compat.torch.features.engines import is_exact, view_in_numpy
from kaldi_compat.torch.features.fbank import Fbank
from kaldi_compat.torch.features.mfcc import Mfcc
from kaldi_compat.torch.features.module import FeatureModule, refuse_old_compilers
from kaldi_compat.torch.features.plp import Plp
from kaldi_compat.torch.features.resample import resample_waveform
from kaldi_compat.torch.features.script import make_scriptable
from kaldi_compat.torch.features.spectral import SpectralFeature
from kaldi_compat.torch.features.spectrogram import Spectrogram
from kaldi_compat.torch.streaming.base import StreamChain, refuse_export_of_stream

CLASSES: dict[str, type[SpectralFeature]] = {"fbank": Fbank, "mfcc": Mfcc, "plp": Plp, "spectrogram": Spectrogram}


class Frontend(PresetFrontend[Tensor], FeatureModule):
    """The front end of a published model, which computes the input of the model from audio like the model's project.

    :class:`kaldi_compat.frontends.numpy.Frontend` computes the same for NumPy arrays, without torch.

    Args:
        preset: a name of :func:`~kaldi_compat.frontends.list_presets`, the path of a json file, or a Preset.
        statistics: the file that the model ships, or numbers: see :meth:`Statistics.of
            <kaldi_compat.frontends.statistics.Statistics.of>`. None skips the step that needs them, with a warning.
        resample: True resamples audio whose sampling rate differs from the model's. False refuses such audio.
        dither: standard deviation of noise that is added to the samples; None for the preset's value, which is 0.
        engine: the engine that computes the features, as for :class:`~kaldi_compat.Fbank`.
        dft: "fft", or "matmul" for devices and runtimes without an FFT, as for :class:`~kaldi_compat.Fbank`.

    Attributes:
        preset: the preset. A step whose statistics are missing is left out.
        feature: the module that computes the feature.
        steps: the modules of the steps after the feature.

    Raises:
        OptionError: the preset, ``engine`` or ``dft`` is unknown, a file is not a preset, ``dither`` is invalid, or a
            preset without statistics gets statistics.
        FeatureError: the statistics cannot be read, or have the wrong dimension.

    >>> import torch
    >>> from kaldi_compat import Frontend
    >>> frontend = Frontend.from_preset("seamless-m4t")
    >>> frontend(torch.zeros(16000)).shape, frontend(torch.zeros(8000, dtype=torch.int16), sampling_rate=8000).shape
    (torch.Size([49, 160]), torch.Size([49, 160]))
    """

    def __init__(
        self,
        preset: PresetName | str | os.PathLike[str] | Preset,
        *,
        statistics: Any = None,
        resample: bool = True,
        dither: float | None = None,
        engine: Engine = "auto",
        dft: Dft = "fft",
    ) -> None:
        super().__init__()
        self.preset, loaded_statistics = load_preset(preset, statistics, dither)
        self.resample = resample
        self.engine: Engine = engine
        self.dft: Dft = dft
        self.feature = self._make_feature(self.preset.feature_options)
        self.steps = nn.ModuleList(_make_step(step, loaded_statistics) for step in self.preset.steps)

    @classmethod
    def from_preset(
        cls,
        preset: PresetName | str | os.PathLike[str] | Preset,
        *,
        statistics: Any = None,
        resample: bool = True,
        dither: float | None = None,
        engine: Engine = "auto",
        dft: Dft = "fft",
    ) -> Frontend:
        """Return the front end of a preset. For the arguments and errors, see :class:`Frontend`."""
        return cls(preset, statistics=statistics, resample=resample, dither=dither, engine=engine, dft=dft)

    def __prepare_scriptable__(self) -> nn.Module:
        """Return the module that ``torch.jit.script`` compiles instead of this module."""
        check_export(self.preset)
        example = torch.linspace(-0.1, 0.1, 2 * self.sampling_rate).view(2, -1)  # Two rows of one second.
        return make_scriptable(self, example, 1 / INT16_SCALE)

    def extra_repr(self) -> str:
        """Return the name of the preset."""
        return repr(self.preset.name)

    def _repr_html_(self) -> str:
        from kaldi_compat.frontends import description

        return description.format_html(self.preset, f"Frontend({self.preset.name!r})")

    @refuse_old_compilers
    def forward(
        self,
        samples: Tensor | Sequence[Tensor],
        lengths: Tensor | Sequence[int] | None = None,
        *,
        sampling_rate: int | None = None,
    ) -> Any:
        """Compute the input of the model from audio.

        Args:
            samples: one channel of audio: ``(T,)``, ``(B, T)``, or a list of ``(T,)``; floating point in -1 to 1, or
                int16. Rows are utterances, not channels. Audio on a CPU is checked for NaN; audio on a GPU is not,
                because the check would wait for the GPU.
            lengths: number of samples in each row of ``(B, T)``, a tensor or a list. Later samples are ignored.
            sampling_rate: sampling rate of the audio in Hz; the model's if None. If it differs from the model's, the
                audio is resampled as in Kaldi.

        Returns:
            Input of the model, ``(frames, dim)`` or ``(B, frames, dim)``. With ``lengths``, also the number of frames
            of each row, ``(B,)``. For a list of utterances, a list of inputs.

        Raises:
            AudioError: the audio is empty, has NaN or infinite samples, a wrong shape or type, or, without resampling,
                a different rate, or the lengths do not match.
            OptionError: ``sampling_rate`` is not a positive whole number.
        """
        rate = self.preset.sampling_rate
        if sampling_rate is not None:
            rate = check_sampling_rate(sampling_rate, self.preset, resample=self.resample)
        if not isinstance(samples, Tensor):
            utterances = check_list(samples, lengths, ("T",), Tensor, AudioError)
            return [self(utterance, sampling_rate=rate) for utterance in utterances]
        tracing = detect_tracing(samples)
        array = view_in_numpy(samples, tracing)  # The array is None unless NumPy can prepare the audio.
        if array is None:
            audio = prepare_audio(samples, lengths, rate, self.preset, self.feature.size, _resample, tracing)
            return self._compute_model_input(audio)
        audio = prepare_audio(array, lengths, rate, self.preset, self.feature.size, resample_rows)
        # Only the exact engine takes arrays, and only if no frame is shortened.
        if self.preset.shortens_frame or not is_exact(self.feature):
            row_lengths = None if audio.lengths is None else torch.as_tensor(audio.lengths)
            audio = CheckedAudio(torch.from_numpy(audio.samples), row_lengths)
        return self._compute_model_input(audio)

    def stream(self, slots: int = 1) -> FrontendStream:
        """Return a :class:`FrontendStream`, which computes the model's input from chunks of audio.

        Args:
            slots: number of utterances that the stream processes at the same time.

        Raises:
            OptionError: the preset needs the whole utterance.
        """
        return FrontendStream(self, slots)

    def _make_feature(self, options: FrameOptions, like: Tensor | None = None) -> SpectralFeature:
        """Make the module of the preset's feature with ``options``, on the device of ``like`` or else on the CPU."""
        feature = CLASSES[self.preset.feature](options, engine=self.engine, dft=self.dft)
        feature._has_accurate_fft = self.preset.double_precision
        feature._trust_scale()  # The preset decides the scale of the audio.
        return feature if like is None else feature.to(like.device)


def _resample(audio: Tensor, ends: Tensor | None, rate: int, target: int) -> Tensor:
    return resample_waveform(audio, rate, target)


def _make_step(step: Step, statistics: Statistics | None) -> nn.Module:
    """Return the module of a step after the feature, with the statistics of the model if the step needs them."""
    step_class: Any = getattr(model_input, STEPS[step.kind].module)
    if step.statistics:
        module: nn.Module = step_class(statistics)
    else:
        module = step_class(options=step.options)
    return module


class FrontendStream(StreamCall):
    """Stream of a front end, which takes audio in chunks and returns the same frames as for the whole utterance.

    The audio must have the model's sampling rate. A stream does not shorten frames, so audio shorter than a frame has
    no frames in FunASR's presets. For the arguments of a call, see :class:`~kaldi_compat.torch.streaming.base.Stream`.

    Args:
        frontend: the front end.
        slots: number of utterances that are processed at the same time.

    Raises:
        OptionError: the preset needs the whole utterance.

    >>> import torch
    >>> from kaldi_compat import Frontend
    >>> stream = Frontend.from_preset("zipformer").stream()
    >>> stream(torch.zeros(8000)).shape, stream(torch.zeros(8000), final=True).shape
    (torch.Size([49, 80]), torch.Size([51, 80]))
    """

    def __init__(self, frontend: Frontend, slots: int = 1) -> None:
        if frontend.preset.why_no_stream:
            raise make_missing_stream_error(frontend.preset)
        self.frontend, self.slots = frontend, slots
        modules: Any = [frontend.feature, *frontend.steps]
        self._chain = StreamChain(*(module.stream(slots) for module in modules))

    def __repr__(self) -> str:
        return f"<FrontendStream of {self.frontend.preset.name!r}, {self.slots} slot{'s' * (self.slots != 1)}>"

    def reset(self) -> None:
        """Discard everything received so far, in every slot."""
        self._chain.reset()

    def flush(self) -> Any:
        """End the utterance in every slot, and return the last frames: see :meth:`kaldi_compat.StreamChain.flush`."""
        return self._chain.flush()

    def _take(
        self,
        chunk: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        final: bool | Tensor | Sequence[bool] = False,
    ) -> Any:
        """Take a chunk of each slot, and return the frames that no later chunk can change.

        For the arguments and the result, see :class:`~kaldi_compat.torch.streaming.base.Stream`. The chunk, (slots, T),
        or (T,) for one slot, is floating point in -1 to 1, or int16.

        Raises:
            AudioError: the chunk has a wrong shape or type, the lengths do not match it, or a chunk on a CPU, without
                lengths, has NaN or infinite samples.
            OptionError: the call is exported or traced.
        """
        if not isinstance(chunk, Tensor):
            raise make_chunk_error(chunk, expects_tensor=True)
        refuse_export_of_stream(chunk)
        audio = scale_to_unit(chunk)
        if audio.device.type == "cpu" and audio.numel() and lengths is None:
            check_values(audio)
        return self._chain(audio, lengths, final=final)

    if not TYPE_CHECKING:  # StreamCall declares __call__ for type checkers.
        __call__ = _take
