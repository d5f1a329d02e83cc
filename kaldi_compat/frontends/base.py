"""What the front ends on tensors and on arrays share. Does not import torch."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import Any

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.features.statistics import Statistics
from kaldi_compat.frontends.preset import Preset
from kaldi_compat.frontends.steps import STEPS, Step
from kaldi_compat.options.spectral import FbankOptions, FrameOptions, SpectrogramOptions

__all__ = ["PresetFrontend", "columns_of", "resolved", "shorter_frame", "why_no_stream"]


class PresetFrontend:
    """Base class of the front ends: what follows from the preset."""

    preset: Preset

    @property
    def dim(self) -> int:
        """Number of columns of the model's input."""
        return columns_of(self.preset.options, self.preset.steps)

    @property
    def sampling_rate(self) -> int:
        """Sampling rate of the model, in Hz."""
        return self.preset.sampling_rate


def resolved(
    preset: str | os.PathLike[str] | Preset, statistics: Any, dither: float | None
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


def columns_of(options: FrameOptions, steps: tuple[Step, ...]) -> int:
    """Return the number of columns of a feature after these steps."""
    if isinstance(options, FbankOptions):
        columns = options.num_mel_bins + options.use_energy
    elif isinstance(options, SpectrogramOptions):
        points = options.padded_window_size
        columns = points if options.return_raw_fft else points // 2 + 1
    else:
        columns = int(options.num_ceps)  # type: ignore[attr-defined]
    for step in steps:
        columns *= STEPS[step.kind].widens(step.options)
    return columns


def shorter_frame(options: FrameOptions, length: int) -> FrameOptions:
    """Return options whose frame is as long as this audio; narrower mel bins may then hold no bin of the FFT."""
    changes: dict[str, Any] = {"frame_length": 1000.0 * length / options.sample_frequency}
    if hasattr(options, "allow_empty_bins"):
        changes["allow_empty_bins"] = True
    return dataclasses.replace(options, **changes)


def why_no_stream(preset: Preset) -> OptionError:
    """Return the error for a preset that cannot be computed in chunks."""
    return OptionError(f"the preset {preset.name!r} cannot be computed in chunks: {preset.why_no_stream}")
