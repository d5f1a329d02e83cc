"""Base of the front ends on tensors and on arrays. Does not import torch."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from kaldi_compat.errors import AudioError, FeatureError, OptionError
from kaldi_compat.exact.resample import num_resampled
from kaldi_compat.frontends.audio import (
    check_sampling_rate,
    check_values,
    checked_samples,
    on_unit_scale,
    warn_of_channels,
)
from kaldi_compat.frontends.names import PresetName
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.frontends.steps import columns_of
from kaldi_compat.functional.array_api import as_like, astype, full, namespace, tracing
from kaldi_compat.functional.batches import checked_lengths, zero_past
from kaldi_compat.functional.checks import check_lengths_are_no_rate, checked_list
from kaldi_compat.options.spectral import FrameOptions

A = TypeVar("A")


class PresetFrontend(Generic[A]):
    """Base class of the front ends on tensors and on arrays: what follows from the preset, and the order of the work.

    A subclass has the feature and the steps, and what tensors and arrays need different code for.
    """

    _kind: ClassVar[type[Any]]  # of the audio: an array or a tensor
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

    def _feature(self, options: Any, like: Any = None) -> Any:
        """Return the feature with these options, on the device of ``like``."""
        raise NotImplementedError

    def _resampled(self, audio: Any, rate: int) -> Any:
        """Return audio at the model's sampling rate."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Number of columns of the model's input."""
        return columns_of(self.preset.options, self.preset.steps)

    @property
    def sampling_rate(self) -> int:
        """Sampling rate of the model, in Hz."""
        return self.preset.sampling_rate

    def _compute(self, samples: Any, lengths: Any, sampling_rate: int | None) -> Any:
        """Compute a model's input of audio."""
        rate, target = check_sampling_rate(sampling_rate, self.preset, resample=self.resample), self.sampling_rate
        check_lengths_are_no_rate(lengths, f"For audio at {lengths} Hz, pass sampling_rate={lengths}")
        if not isinstance(samples, self._kind):
            utterances = checked_list(samples, lengths, ("T",), self._kind, AudioError)
            return [self(each, sampling_rate=rate) for each in utterances]
        recorded = tracing(samples)
        if recorded.traced:
            audio = on_unit_scale(samples)
        else:
            audio = checked_samples(samples, self.preset, has_lengths=lengths is not None)
        if isinstance(audio, np.ndarray):
            audio = astype(audio, np.float32)
        ends = checked_lengths(lengths, audio, -1, AudioError)
        if ends is not None:
            ends = as_like(ends, audio)
            audio = zero_past(audio[..., None], ends)[..., 0]
        if _is_on_host(audio) and not recorded.traced_or_differentiated:
            check_values(audio)
            if ends is None:
                warn_of_channels(audio)
        if rate != target:
            audio = self._resampled(audio, rate)
            ends = None if ends is None else num_resampled(ends, rate, target)
        if self.preset.shortens_frame and not recorded.traced and self._has_short_frame(audio, ends):
            return self._row_by_row(audio, ends)
        return self._features(self.feature, audio, ends)

    def _has_short_frame(self, audio: Any, ends: Any) -> bool:
        size = self.preset.feature_options.window_size
        # Reading lengths on a GPU waits for it: short rows of a batch there have no frames.
        return audio.shape[-1] < size or (ends is not None and _is_on_host(ends) and bool((ends < size).any()))

    def _row_by_row(self, audio: Any, ends: Any) -> Any:
        """Compute audio of which some is shorter than a frame: such rows have a feature of their own."""
        xp = namespace(audio)
        rows = audio.reshape(-1, audio.shape[-1])
        lengths = [rows.shape[-1]] * len(rows) if ends is None else ends.reshape(-1).tolist()
        parts = [self._of_row(row[:length]) for row, length in zip(rows, lengths, strict=True)]
        longest = max(map(len, parts), default=0)
        padded = [xp.concatenate((part, full((longest - len(part), self.dim), 0.0, part))) for part in parts]
        whole = xp.stack(padded) if parts else full((0, 0, self.dim), 0.0, audio)
        features = whole.reshape(*audio.shape[:-1], longest, self.dim)
        return (
            features if ends is None else (features, as_like([len(part) for part in parts], ends).reshape(ends.shape))
        )

    def _of_row(self, audio: Any) -> Any:
        feature = self.feature
        if 2 <= len(audio) < self.preset.feature_options.window_size:
            feature = self._feature(shorter_frame(self.preset.feature_options, len(audio)), audio)
        return self._features(feature, audio, None)

    def _features(self, feature: Any, audio: Any, ends: Any) -> Any:
        if self.preset.subtract_clip_mean:
            count = audio.shape[-1] if ends is None else namespace(ends).clip(ends, 1, None)[..., None]
            precise = np.float64 if isinstance(audio, np.ndarray) else audio.dtype  # torch adds up pairs
            audio = audio - astype(namespace(audio).sum(audio, -1, dtype=precise)[..., None] / count, audio.dtype)
        result = feature(audio) if ends is None else feature(audio, ends)
        for step in self.steps:
            result = step(*result) if isinstance(result, tuple) else step(result)
        return result


def _is_on_host(values: Any) -> bool:
    return isinstance(values, np.ndarray) or values.device.type == "cpu"


def load_preset(
    preset: PresetName | str | os.PathLike[str] | Preset, statistics: Any, dither: float | None
) -> tuple[Preset, Statistics | None]:
    """Return a preset without the steps whose statistics are missing, and the statistics.

    Warns if the model ships statistics and none are given.

    Raises:
        OptionError: an unknown preset, or statistics for one that takes none.
        FeatureError: the statistics cannot be read, or do not fit the preset's features.
    """
    found = Preset.of(preset)
    if dither is not None:
        found = dataclasses.replace(found, options=dataclasses.replace(found.options, dither=dither))
    if statistics is None:
        if not found.statistics:
            return found, None
        warnings.warn(
            f"the preset {found.name!r} normalizes by statistics that the model ships ({found.statistics}): without "
            "them this step is left out; pass statistics='.../" + found.statistics + "'",
            stacklevel=4,
        )
        steps = tuple(step for step in found.steps if not step.statistics)
        return dataclasses.replace(found, steps=steps), None
    if not found.statistics:
        raise OptionError(f"the preset {found.name!r} takes no statistics: leave them out")
    numbers = Statistics.of(statistics)
    before = next(number for number, step in enumerate(found.steps) if step.statistics)
    columns = columns_of(found.options, found.steps[:before])
    if numbers.shift.ndim and len(numbers.shift) != columns:
        raise FeatureError(
            f"the statistics have {len(numbers.shift)} columns, but the features of the preset {found.name!r} have "
            f"{columns} where they are applied"
        )
    return found, numbers


def shorter_frame(options: FrameOptions, length: int) -> FrameOptions:
    """Return options whose frame is as long as this audio; narrower mel bins may then hold no bin of the FFT."""
    changes: dict[str, Any] = {"frame_length": 1000.0 * length / options.sample_frequency}
    if hasattr(options, "allow_empty_bins"):
        changes["allow_empty_bins"] = True
    return dataclasses.replace(options, **changes)


def why_no_stream(preset: Preset) -> OptionError:
    """Return the error for a preset that cannot be computed in chunks."""
    return OptionError(f"the preset {preset.name!r} cannot be computed in chunks: {preset.why_no_stream}")


def check_graph(preset: Preset) -> None:
    """Raise an OptionError for a preset that cannot be exported or scripted."""
    if preset.why_no_graph:
        raise OptionError(f"the preset {preset.name!r} cannot be exported: {preset.why_no_graph}")
