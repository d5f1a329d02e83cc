"""Front ends on NumPy arrays, without torch.

The class has the call of the torch module of the same name::

    from kaldi_compat.frontends.numpy import Frontend

    frontend = Frontend.from_preset("paraformer", statistics="am.mvn")
    features = frontend(samples)                                # (T,) -> (frames, 560)
    features, counts = frontend(batch, lengths)                 # (B, T) -> (B, frames, 560), (B,)
    features = frontend(samples, sampling_rate=8000)            # resampled
    stream = frontend.stream()                                  # audio in chunks
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import numpy as array_features
from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.resample import resample_rows
from kaldi_compat.exact.stream import WindowFlow, refuse_after_failure
from kaldi_compat.frontends.audio import check_sampling_rate, check_values, prepare_audio, scale_to_unit
from kaldi_compat.frontends.base import PresetFrontend, load_preset, make_missing_stream_error
from kaldi_compat.frontends.names import PresetName
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.frontends.steps import STEPS, Step, StepKind
from kaldi_compat.functional.checks import check_list, make_chunk_error, refuse_lengths
from kaldi_compat.functional.normalization import apply_shift_and_scale
from kaldi_compat.options.frontend import LowFrameRateOptions

__all__ = ["Frontend", "FrontendStream"]

CLASSES: dict[str, type[array_features.ArrayFeature]] = {
    "fbank": array_features.Fbank,
    "mfcc": array_features.Mfcc,
    "plp": array_features.Plp,
    "spectrogram": array_features.Spectrogram,
}


class Frontend(PresetFrontend[npt.NDArray[Any]]):
    """The front end of a published model, on NumPy arrays (:class:`kaldi_compat.Frontend` without torch).

    Args:
        preset: name from :func:`~kaldi_compat.frontends.list_presets`, path of a JSON file, or a :class:`Preset`.
        statistics: statistics that normalize the features: the path of the file that the model ships, or numbers (see
            :meth:`Statistics.of <kaldi_compat.frontends.statistics.Statistics.of>`). If the preset needs statistics and
            this is None, features are not normalized, and a warning says so.
        resample: True to resample audio of other sampling rates, False to refuse such audio.
        dither: standard deviation of the noise that is added to the samples. If None, the value of the preset is used.

    Raises:
        OptionError: the preset is unknown, its file is invalid, or the preset takes no statistics.
        FeatureError: the statistics cannot be read, or do not have the number of columns of the features.

    >>> import numpy as np
    >>> from kaldi_compat.frontends.numpy import Frontend
    >>> frontend = Frontend.from_preset("seamless-m4t")
    >>> frontend(np.zeros(16000, np.int16)).shape
    (49, 160)
    """

    def __init__(
        self,
        preset: PresetName | str | os.PathLike[str] | Preset,
        *,
        statistics: Any = None,
        resample: bool = True,
        dither: float | None = None,
    ) -> None:
        self.preset, model_statistics = load_preset(preset, statistics, dither)
        self.resample = resample
        self.feature = self._make_feature(self.preset.feature_options)
        self.steps = [_ArrayStep(step, model_statistics) for step in self.preset.steps]

    @classmethod
    def from_preset(
        cls,
        preset: PresetName | str | os.PathLike[str] | Preset,
        *,
        statistics: Any = None,
        resample: bool = True,
        dither: float | None = None,
    ) -> Frontend:
        """Return the front end of a preset. For the arguments, the errors and an example, see :class:`Frontend`."""
        return cls(preset, statistics=statistics, resample=resample, dither=dither)

    def __repr__(self) -> str:
        return f"Frontend({self.preset.name!r})"

    def _repr_html_(self) -> str:
        from kaldi_compat.frontends import description

        return description.format_html(self.preset, f"{self} (NumPy)")

    if not TYPE_CHECKING:  # Type checkers use the signature of PresetFrontend.

        def __call__(self, samples, lengths=None, *, sampling_rate=None):
            """Compute the input of the model from audio.

            Args:
                samples: one channel of audio: ``(T,)``, ``(B, T)``, or a list of ``(T,)``; floating point in -1 to 1,
                    or int16. Rows are utterances, not channels.
                lengths: number of samples in each row of ``(B, T)``. The samples after a row's length are ignored.
                sampling_rate: sampling rate of the audio in Hz; None for the model's rate. Audio of other rates is
                    resampled.

            Returns:
                Model input ``(frames, dim)`` or ``(B, frames, dim)``, float32. With ``lengths``, also the number of
                frames of each row, ``(B,)``. For a list, a list of inputs.

            Raises:
                AudioError: the audio is empty, has NaN, infinities, a wrong shape or type, or (with ``resample=False``)
                    a different sampling rate than the model; or the lengths do not match the audio.
                OptionError: ``sampling_rate`` is not a positive whole number, or is too large.
            """
            rate = self.preset.sampling_rate
            if sampling_rate is not None:
                rate = check_sampling_rate(sampling_rate, self.preset, resample=self.resample)
            if not isinstance(samples, np.ndarray):
                utterances = check_list(samples, lengths, ("T",), np.ndarray, AudioError)
                return [self(utterance, sampling_rate=rate) for utterance in utterances]
            return self._compute_model_input(
                prepare_audio(samples, lengths, rate, self.preset, self.feature.size, resample_rows)
            )

    def stream(self) -> FrontendStream:
        """Return a stream that computes the model's input from an utterance in chunks.

        See also: :class:`FrontendStream`.

        Raises:
            OptionError: the preset needs the whole utterance.

        >>> import numpy as np
        >>> from kaldi_compat.frontends.numpy import Frontend
        >>> stream = Frontend.from_preset("zipformer").stream()
        >>> stream(np.zeros(8000, np.float32)).shape
        (49, 80)
        """
        return FrontendStream(self)

    def _make_feature(self, options: Any, like: Any = None) -> array_features.ArrayFeature:
        """Make the object that computes the feature with ``options``. ``like`` is ignored: arrays have no device."""
        engine = "accurate" if self.preset.double_precision else "exact"
        feature = CLASSES[self.preset.feature](options, engine=engine)
        feature._trust_scale()  # The audio has the preset's scale, about which the feature need not warn.
        return feature


class _ArrayStep:
    """Computes ``step`` on arrays. A step that needs statistics takes ``statistics``, or the numbers in its options."""

    def __init__(self, step: Step, statistics: Statistics | None) -> None:
        self.options, self._step = step.options, step
        self._statistics: Statistics | None = None
        if self.kind.function is None:  # Only global_cmvn has no function.
            self._statistics = statistics if step.statistics else Statistics.of_numbers(step.options)

    @property
    def kind(self) -> StepKind:
        """Kind of the step. It is not stored, because its functions cannot be pickled."""
        return STEPS[self._step.kind]

    def __call__(self, features: Any, counts: Any = None) -> Any:
        """Apply the step to features.

        Args:
            features: features ``(..., frames, dim)``.
            counts: number of frames of each row ``(B,)``, or None.

        Returns:
            Processed features ``(..., new frames, new dim)``. With ``counts``, also the new number of frames of each
            row.
        """
        if self._statistics is not None:
            result = apply_shift_and_scale(features, self._statistics.shift, self._statistics.scale, lengths=counts)
        else:
            assert self.kind.function is not None
            result = self.kind.function(features, self.options, lengths=counts)
        is_complete = counts is None or isinstance(result, tuple)
        return result if is_complete else (result, self.kind.count(counts, self.options))


class FrontendStream:
    """Computes the input of a model from an utterance in chunks, with the same frames as for the whole utterance.

    The audio must have the model's sampling rate. A stream does not shorten frames, so with FunASR's presets, audio
    shorter than a frame has no frames.

    Args:
        frontend: the front end.

    Raises:
        OptionError: the preset needs the whole utterance.

    >>> import numpy as np
    >>> from kaldi_compat.frontends.numpy import Frontend
    >>> stream = Frontend.from_preset("zipformer").stream()
    >>> stream(np.zeros(8000, np.float32)).shape, stream(np.zeros(8000, np.float32), final=True).shape
    ((49, 80), (51, 80))
    """

    _has_failed = False  # True if the features have taken a chunk, and some steps have not.

    def __init__(self, frontend: Frontend) -> None:
        if frontend.preset.why_no_stream:
            raise make_missing_stream_error(frontend.preset)
        self.frontend = frontend
        self._audio = frontend.feature.stream()
        self._steps = [_StepStream(step) for step in frontend.steps]

    def __repr__(self) -> str:
        return f"<FrontendStream of {self.frontend!r}>"

    def reset(self) -> None:
        """Discard everything received so far, for the next utterance."""
        self._has_failed = False
        self._audio.reset()
        for step in self._steps:
            step.reset()

    def flush(self) -> Floats:
        """End the utterance, return its last frames, (frames, dim), and reset the stream."""
        return self(np.empty(0, np.float32), final=True)

    def __call__(self, samples: npt.NDArray[Any], lengths: None = None, *, final: bool = False) -> Floats:
        """Compute the frames that the next chunk of audio completes.

        Args:
            samples: next chunk of audio, ``(T,)``, floating point in -1 to 1 or int16. T may be 0.
            lengths: must be None, because a stream takes one utterance.
            final: True if the utterance ends with this chunk. The last frames are returned, and the stream is reset.

        Returns:
            Completed frames ``(frames, dim)``, float32. The number of frames may be 0.

        Raises:
            AudioError: the chunk is not an array (T,), has an unsupported type, NaN or infinities, ``lengths`` is not
                None, or an earlier call was interrupted between two steps.
        """
        if not isinstance(samples, np.ndarray) or samples.ndim != 1:
            raise make_chunk_error(samples, expects_tensor=False)
        rate = self.frontend.sampling_rate
        refuse_lengths(lengths, f"This front end takes audio at {rate} Hz: resample audio at another rate")
        chunk = scale_to_unit(samples)
        if len(chunk):
            check_values(chunk)
        refuse_after_failure(self._has_failed)
        frames: Floats = self._audio(chunk, final=final)
        self._has_failed = True
        for step in self._steps:
            frames = step(frames, final)
        self._has_failed = False
        return frames


class _FrameHistory:
    """Past frames that a step still needs, from frame number ``start`` to ``end - 1``."""

    start = end = 0
    frames: Floats | None = None

    def save(self) -> tuple[Floats | None, int, int]:
        """Return the state for :meth:`restore`. The frames are not copied, because no method changes them."""
        return self.frames, self.start, self.end

    def restore(self, state: tuple[Floats | None, int, int]) -> None:
        """Return to an earlier state."""
        self.frames, self.start, self.end = state

    def append(self, chunk: Floats, length: int) -> None:
        """Append the frames ``chunk``, (length, dim)."""
        self.frames = chunk if self.frames is None else np.concatenate((self.frames, chunk))
        self.end += length

    def discard_before(self, start: int, ended: bool) -> None:
        """Discard the frames before frame ``start`` of the utterance, or all frames if the utterance has ended."""
        if ended:
            self.frames, self.start, self.end = None, 0, 0
        elif self.frames is not None:
            self.frames, self.start = self.frames[start - self.start :].copy(), start


class _StepStream(WindowFlow):
    """Stream of a step on single frames, or on windows of ``size`` frames that start ``stride`` frames apart."""

    def __init__(self, step: _ArrayStep) -> None:
        self._step, self._size, self._stride, self._left_context = step, 1, 1, 0
        if isinstance(step.options, LowFrameRateOptions):
            self._size, self._stride = step.options.stack, step.options.stride
            self._left_context = (step.options.stack - 1) // 2  # Number of frames before a window's own frame.
        elif not step.kind.per_frame:
            self._size = self._stride = step.options.size
        self.reset()

    def reset(self) -> None:
        """Discard everything received so far, for the next utterance."""
        self.history, self.done = _FrameHistory(), 0

    def __call__(self, frames: Floats, final: bool) -> Floats:
        """Apply the step to the windows that the next frames complete.

        Args:
            frames: next frames (frames, dim).
            final: True if the utterance ends with these frames.

        Returns:
            Processed frames (windows, new dim).
        """
        result: Floats = self._advance(frames, len(frames), final)[0]
        return result

    def _count_frames(self, end: int) -> int:
        return -(-end // self._stride)

    def _count_decided_frames(self, end: int) -> int:
        return max(0, (end - self._size + self._left_context) // self._stride + 1)

    def _find_first_needed_item(self, done: int, end: int) -> int:
        """Return the first frame that window ``done`` or a later window needs, after ``end`` frames have arrived.

        The result is a multiple of the stride, so that windows of the stored frames begin as in whole utterances.
        """
        first_stride = min((done * self._stride - self._left_context) // self._stride, end // self._stride)
        return max(0, first_stride * self._stride)

    def _compute_frames(self, first: int, counts: int) -> Floats:
        """Return ``counts`` processed frames from frame ``first`` on, (counts, new dim)."""
        # Skip windows that reach before the stored frames. For them, the step repeats the first stored frame, which is
        # correct only at the start of the utterance.
        begin = first - self.history.start // self._stride
        computed: Floats = self._step(self.history.frames)
        return computed[begin : begin + counts]
