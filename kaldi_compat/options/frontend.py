"""Options of the steps that models apply to log-mel features: stacking, normalization and padding."""

from __future__ import annotations

import math

from kaldi_compat.options.base import BaseOptions, require
from kaldi_compat.options.declaration import option
from kaldi_compat.options.postprocessing import SlidingCmvnOptions, VadOptions

# Largest number of frames that a preset may pad to, because a preset from an unknown source must not use up the memory.
MAX_FRAMES = 1_000_000


class LowFrameRateOptions(BaseOptions):
    """Options of low frame rate features: every ``stride``-th stack of neighboring frames (FunASR)."""

    stack: int = option(7, "neighboring frames in a stack", ge=1, lt=1000, known_as=("lfr_m", "m", "size"))
    stride: int = option(
        6, "frames from one stack to the next", ge=1, lt=1000, known_as=("lfr_n", "n", "step", "subsampling_factor")
    )


class StackFramesOptions(BaseOptions):
    """Options of stacks of neighboring frames without overlap (transformers: SeamlessM4T)."""

    size: int = option(2, "frames in a stack", ge=1, lt=1000, known_as=("stride", "stack", "stack_size"))


class PadFramesOptions(BaseOptions):
    """Options of the padding of frames to a fixed length, or to a multiple of a length."""

    length: int = option(
        0, "number of frames after padding or cutting; 0 for any number", ge=0, le=MAX_FRAMES, known_as=("max_length",)
    )
    multiple: int = option(1, "the number of frames is padded to a multiple of this", ge=1, le=MAX_FRAMES)
    value: float = option(0.0, "value of the added frames", known_as=("padding_value",))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.length or self.multiple == 1, "length and multiple exclude each other: set one of them")


class UtteranceCmvnOptions(BaseOptions):
    """Options of the normalization of an utterance by its mean and standard deviation."""

    norm_vars: bool = option(False, "divide by the standard deviation", known_as=("normalize_vars", "norm_var"))
    unbiased: bool = option(False, "divide sums of squares by frames - 1, not by frames", known_as=("ddof",))
    epsilon: float = option(
        0.0, "added to the variance before the square root", ge=0, lt=math.inf, known_as=("eps", "variance_floor")
    )


class CenteredMeanOptions(BaseOptions):
    """Options of the subtraction of the mean over the existing frames around each frame (pyannote)."""

    context: int = option(150, "frames on each side over which the mean is computed", ge=0, lt=10**6)


class GlobalCmvnOptions(BaseOptions):
    """Options of the normalization of all columns by one fixed mean and one fixed standard deviation."""

    mean: float = option(0.0, "subtracted from the features", gt=-math.inf, lt=math.inf)
    std: float = option(1.0, "the features are divided by this", gt=0, lt=math.inf)


class FloorOptions(BaseOptions):
    """Options of the lower limit of features."""

    minimum: float = option(0.0, "smaller features are replaced by this", gt=-math.inf, lt=math.inf, known_as=("min",))


class VoicedCmvnOptions(SlidingCmvnOptions, VadOptions):
    """Options of sliding normalization followed by the selection of voiced frames (Kaldi's recipes for x-vectors)."""
