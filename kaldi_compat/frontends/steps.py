"""Steps of a front end after the feature, with their functions and their numbers of frames and columns.

One entry of :data:`STEPS` describes a kind of step for both classes, on tensors and on arrays. Does not import torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kaldi_compat.errors import OptionError
from kaldi_compat.functional import deltas, normalization, stacking, vad
from kaldi_compat.options import frontend as options
from kaldi_compat.options.base import find_nearest_name, make_options
from kaldi_compat.options.postprocessing import DeltaOptions
from kaldi_compat.options.spectral import FrameOptions


@dataclass(frozen=True)
class StepKind:
    """Kind of step that processes features, such as ``low_frame_rate``."""

    module: str  # Name of the module class in :mod:`kaldi_compat.torch.features.model_input`.
    options: type[Any]  # Dataclass of the step's options.
    # Function of features (..., frames, dim), options and lengths that returns features, and if `selects` is True, the
    # numbers of frames. None for global_cmvn, which needs statistics.
    function: Callable[..., Any] | None
    # Function of the number of frames and the options that returns the number of frames after the step.
    count: Callable[[Any, Any], Any] = lambda frames, options: frames
    column_factor: Callable[[Any], int] = lambda options: 1  # Function that returns the factor of the columns.
    streams: bool = False  # True if the step can be computed in chunks.
    per_frame: bool = False  # True if a frame is computed from one frame of the input.
    selects: bool = False  # True if the values of the features determine which frames remain.


STEPS: Mapping[str, StepKind] = {
    "low_frame_rate": StepKind(
        "LowFrameRate",
        options.LowFrameRateOptions,
        stacking.low_frame_rate,
        count=stacking.count_stacks,
        column_factor=lambda options: int(options.stack),
        streams=True,
    ),
    "stack_frames": StepKind(
        "StackFrames",
        options.StackFramesOptions,
        stacking.stack_frames,
        count=lambda frames, options: frames // options.size,
        column_factor=lambda options: int(options.size),
        streams=True,
    ),
    "pad_frames": StepKind(
        "PadFrames", options.PadFramesOptions, stacking.pad_frames, count=stacking.count_padded_frames
    ),
    "utterance_cmvn": StepKind("UtteranceCmvn", options.UtteranceCmvnOptions, normalization.utterance_cmvn),
    "centered_mean": StepKind("CenteredMean", options.CenteredMeanOptions, normalization.subtract_centered_mean),
    "global_cmvn": StepKind("GlobalCmvn", options.GlobalCmvnOptions, None, streams=True, per_frame=True),
    "repeated_deltas": StepKind(
        "RepeatedDeltas",
        DeltaOptions,
        deltas.repeated_deltas,
        column_factor=lambda options: int(options.delta_order) + 1,
    ),
    "voiced_cmvn": StepKind("VoicedCmvn", options.VoicedCmvnOptions, vad.voiced_cmvn, selects=True),
    "floor": StepKind("Floor", options.FloorOptions, normalization.floor_features, streams=True, per_frame=True),
}


@dataclass(frozen=True)
class Step:
    """Step of a preset, which processes features.

    Attributes:
        kind: a name in :data:`STEPS`, such as "low_frame_rate".
        options: dataclass of the step's options.
        statistics: name of the file of statistics that the model ships and the step needs; "" if it needs no file.
    """

    kind: str
    options: Any
    statistics: str = ""

    def __str__(self) -> str:
        if self.statistics:
            return f"{self.kind}(statistics from {self.statistics})"
        values = dataclasses.asdict(self.options)
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in values.items())})"


def make_step(description: Any) -> Step:
    """Create a step from its description in a preset, such as ``{"low_frame_rate": {"stack": 7, "stride": 6}}``.

    Raise :class:`OptionError` if the step or an option is unknown, or a value is invalid.
    """
    if not isinstance(description, Mapping) or len(description) != 1:
        raise OptionError(f"a step is one name with its options, such as {{'stack_frames': {{}}}}, not {description!r}")
    ((name, values),) = description.items()
    kind = STEPS.get(name)
    if kind is None:
        nearest = find_nearest_name(str(name), STEPS)
        hint = f"did you mean {nearest}?" if nearest else f"choose from {', '.join(STEPS)}"
        raise OptionError(f"there is no step {name!r}: {hint}")
    if not isinstance(values, Mapping):
        raise OptionError(f"the options of the step {name} must be names with values, not {values!r}")
    changes = dict(values)
    statistics = changes.pop("statistics", "") if name == "global_cmvn" else ""
    if not isinstance(statistics, str):
        raise OptionError(f"statistics of the step {name} must be the name of a file, not {statistics!r}")
    if statistics and changes:
        raise OptionError(f"the step {name} takes statistics, or mean and std: leave one of them out")
    return Step(name, make_options(name, kind.options, options=None, changes=changes), statistics)


def count_columns(options: FrameOptions, steps: tuple[Step, ...]) -> int:
    """Return the number of columns of features that are computed with ``options`` and processed by ``steps``."""
    columns = options.dim
    for step in steps:
        columns *= STEPS[step.kind].column_factor(step.options)
    return columns
