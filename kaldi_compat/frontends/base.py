"""Base of the front ends on tensors and on arrays. Does not import torch."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from io_ark.text import format_count
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.frontends.audio import has_short_row
from kaldi_compat.frontends.names import PresetName
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.frontends.steps import count_columns
from kaldi_compat.functional.array_api import convert_like, detect_tracing, full, get_namespace
from kaldi_compat.functional.checks import CheckedAudio
from kaldi_compat.options.spectral import FrameOptions

A = TypeVar("A")


class PresetFrontend(Generic[A]):
    """Base class of the front ends on tensors and on arrays.

    A subclass has the feature and the steps. It checks audio and passes it to :meth:`_compute_model_input`.

    Attributes:
        preset: the preset that the front end computes.
        resample: True to resample audio of other sampling rates, False to refuse such audio.
        feature: object that computes the features of the preset, such as log-mel energies, from audio.
        steps: objects that process the features, one after another.
    """

    preset: Preset
    resample: bool
    feature: Any
    steps: Any

    if TYPE_CHECKING:

        @overload
        def __call__(self, samples: A, lengths: None = None, *, sampling_rate: int | None = None) -> A: ...
        @overload
        def __call__(
            self, samples: A, lengths: A | Sequence[int], *, sampling_rate: int | None = None
        ) -> tuple[A, A]: ...
        @overload
        def __call__(
            self, samples: Sequence[A], lengths: None = None, *, sampling_rate: int | None = None
        ) -> list[A]: ...
        def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...

    def _make_feature(self, options: Any, like: Any = None) -> Any:
        """Make the object that computes the feature with ``options``, on the device of ``like`` if it is a tensor."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Number of columns of the model's input."""
        return count_columns(self.preset.options, self.preset.steps)

    @property
    def sampling_rate(self) -> int:
        """Sampling rate of the model, in Hz."""
        return self.preset.sampling_rate

    def _compute_model_input(self, audio: CheckedAudio, feature: Any = None) -> Any:
        """Compute a model's input from checked audio.

        Args:
            audio: audio (T,) or (B, T), and the lengths of its rows.
            feature: object that computes the features. If None, use the preset's feature, and shorten the frame for
                short rows if the preset asks for it.

        Returns:
            Model input (frames, dim) or (B, frames, dim), float32. With lengths, also the number of frames of each row,
            (B,).
        """
        if feature is None:
            feature = self.feature
            if self.preset.shortens_frame and has_short_row(audio, feature.size):
                return self._compute_rows(audio.samples, audio.lengths)
        features = feature._compute(audio, None)
        for step in self.steps:
            features = step(*features) if isinstance(features, tuple) else step(features)
        return features

    def _compute_rows(self, audio: Any, row_lengths: Any) -> Any:
        """Compute the model's input of each row of audio. For a row that is shorter than a frame, shorten the frame.

        Args:
            audio: audio (T,) or (B, T).
            row_lengths: number of valid samples in each row, (B,), or None.

        Returns:
            Model input (frames, dim) or (B, frames, dim), with zeros after the frames of a shorter row. With
            ``row_lengths``, also the number of frames of each row, (B,).
        """
        xp = get_namespace(audio)
        rows = audio.reshape(-1, audio.shape[-1])
        valid_counts = [rows.shape[-1]] * len(rows) if row_lengths is None else row_lengths.reshape(-1).tolist()
        inputs = [self._compute_row(row[:length]) for row, length in zip(rows, valid_counts, strict=True)]
        longest = max(map(len, inputs), default=0)
        padded = [xp.concatenate((frames, full((longest - len(frames), self.dim), 0.0, frames))) for frames in inputs]
        stacked = xp.stack(padded) if inputs else full((0, 0, self.dim), 0.0, audio)
        features = stacked.reshape(*audio.shape[:-1], longest, self.dim)
        if row_lengths is None:
            return features
        return features, convert_like([len(frames) for frames in inputs], row_lengths).reshape(row_lengths.shape)

    def _compute_row(self, audio: Any) -> Any:
        """Compute the model's input (frames, dim) of audio (T,). If 2 <= T < frame length, use a frame of T samples."""
        feature = self.feature
        if 2 <= len(audio) < feature.size:
            feature = self._make_feature(shorten_frame(self.preset.feature_options, len(audio)), audio)
        return self._compute_model_input(CheckedAudio(audio, tracing=detect_tracing(audio)), feature)


def load_preset(
    preset: PresetName | str | os.PathLike[str] | Preset, statistics: Any, dither: float | None
) -> tuple[Preset, Statistics | None]:
    """Load a preset, and the statistics that normalize its features, or None if ``statistics`` is None.

    If the preset needs statistics but ``statistics`` is None, warn, and drop the steps of the preset that need them.
    ``dither``, unless it is None, replaces the preset's standard deviation of the dithering noise.

    Raises:
        OptionError: the preset is unknown, or takes no statistics.
        FeatureError: the statistics cannot be read, or do not have the number of columns of the features.
    """
    result = Preset.of(preset)
    if dither is not None:
        result = dataclasses.replace(result, options=dataclasses.replace(result.options, dither=dither))
    if statistics is None:
        if not result.statistics:
            return result, None
        warnings.warn(
            f"the preset {result.name!r} normalizes by statistics that the model ships ({result.statistics}): without "
            "them this step is left out; pass statistics='.../" + result.statistics + "'",
            stacklevel=4,
        )
        steps = tuple(step for step in result.steps if not step.statistics)
        return dataclasses.replace(result, steps=steps), None
    if not result.statistics:
        raise OptionError(f"the preset {result.name!r} takes no statistics: leave them out")
    model_statistics = Statistics.of(statistics)
    step_index = next(index for index, step in enumerate(result.steps) if step.statistics)
    columns = count_columns(result.options, result.steps[:step_index])
    if model_statistics.shift.ndim and len(model_statistics.shift) != columns:
        raise FeatureError(
            f"the statistics have {format_count(len(model_statistics.shift), 'column')}, but the features of the "
            f"preset {result.name!r} have {columns} at this step: pass the statistics of the same model"
        )
    return result, model_statistics


def shorten_frame(options: FrameOptions, length: int) -> FrameOptions:
    """Return a copy of options for frames of ``length`` samples. The copy allows mel bins without an FFT bin."""
    changes: dict[str, Any] = {"frame_length": 1000.0 * length / options.sample_frequency}
    if hasattr(options, "allow_empty_bins"):
        changes["allow_empty_bins"] = True
    return dataclasses.replace(options, **changes)


def make_missing_stream_error(preset: Preset) -> OptionError:
    """Make the error for a preset that cannot be computed in chunks. The message has the reason."""
    reason = f"because {preset.why_no_stream}: call the front end with whole utterances"
    return OptionError(f"the preset {preset.name!r} cannot be computed in chunks, {reason}")


def check_export(preset: Preset) -> None:
    """Raise :class:`OptionError` if a preset cannot be exported or scripted."""
    if preset.why_no_graph:
        reason = f"because {preset.why_no_graph}: run the front end in PyTorch or NumPy"
        raise OptionError(f"the preset {preset.name!r} cannot be exported, {reason}")
