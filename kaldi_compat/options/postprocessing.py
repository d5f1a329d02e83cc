"""Options of what is done to features and audio afterwards: deltas, CMVN, splicing, voice activity, reverberation."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.options.base import Options, option, require


@dataclass(frozen=True, kw_only=True)
class DeltaOptions(Options):
    """Time derivatives appended to features (Kaldi: DeltaFeaturesOptions)."""

    delta_order: int = option(2, "order of the highest derivative")
    delta_window: int = option(2, "frames on each side that a derivative looks at, for each order")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.delta_order < 1000, f"delta_order must lie in 0 to 999, but is {self.delta_order}")
        require(0 < self.delta_window < 1000, f"delta_window must lie in 1 to 999, but is {self.delta_window}")


@dataclass(frozen=True, kw_only=True)
class ShiftedDeltaOptions(Options):
    """Shifted delta cepstra (Kaldi: ShiftedDeltaFeaturesOptions)."""

    delta_window: int = option(1, "frames on each side that a delta looks at")
    num_blocks: int = option(7, "number of delta blocks, from this frame on forward")
    block_shift: int = option(3, "frames from one block to the next")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.delta_window < 1000, f"delta_window must lie in 1 to 999, but is {self.delta_window}")
        require(self.num_blocks >= 0, f"num_blocks must not be negative, but is {self.num_blocks}")


@dataclass(frozen=True, kw_only=True)
class CmvnOptions(Options):
    """How mean and variance statistics are applied (Kaldi: apply-cmvn)."""

    norm_means: bool = option(True, "subtract the mean; false copies the features as they are")
    norm_vars: bool = option(False, "also divide by the standard deviation")
    reverse: bool = option(False, "go back from zero mean and unit variance to the statistics' mean and variance")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.norm_means or not self.norm_vars,
            "norm_vars=true needs norm_means=true: variances are not normalized alone",
        )


@dataclass(frozen=True, kw_only=True)
class SlidingCmvnOptions(Options):
    """Mean and variance normalization over a window that moves (Kaldi: SlidingWindowCmnOptions)."""

    cmn_window: int = option(600, "length of the window in frames")
    min_cmn_window: int = option(
        100, "frames the window has at least at the start of an utterance; only where center is false"
    )
    max_warnings: int = option(5, "warnings about floored variances for each utterance at most; -1 is no limit")
    norm_vars: bool = option(False, "normalize the variance to one too")
    center: bool = option(False, "centre the window on the frame; false has it end there")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.cmn_window > 0, f"cmn_window must be positive, but is {self.cmn_window}")


@dataclass(frozen=True, kw_only=True)
class SpliceOptions(Options):
    """Neighbouring frames put side by side (Kaldi: splice-feats)."""

    left_context: int = option(4, "frames before each frame")
    right_context: int = option(4, "frames after each frame")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.left_context >= 0, f"left_context must not be negative, but is {self.left_context}")
        require(self.right_context >= 0, f"right_context must not be negative, but is {self.right_context}")


@dataclass(frozen=True, kw_only=True)
class VadOptions(Options):
    """Voice activity from the log energy in a feature's first column (Kaldi: VadEnergyOptions)."""

    vad_energy_threshold: float = option(5.0, "constant term of the threshold on the log energy")
    vad_energy_mean_scale: float = option(0.5, "this times the utterance's mean log energy is added to the threshold")
    vad_frames_context: int = option(0, "frames on each side that vote on a frame")
    vad_proportion_threshold: float = option(0.6, "share of those frames that must lie above the threshold")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.vad_energy_mean_scale >= 0,
            f"vad_energy_mean_scale must not be negative, but is {self.vad_energy_mean_scale:g}",
        )
        require(self.vad_frames_context >= 0, f"vad_frames_context must not be negative: {self.vad_frames_context}")
        require(
            0.0 < self.vad_proportion_threshold < 1.0,
            f"vad_proportion_threshold must lie between 0 and 1, but is {self.vad_proportion_threshold:g}",
        )


@dataclass(frozen=True, kw_only=True)
class ReverberationOptions(Options):
    """What is done to a signal in a room with noise (Kaldi: wav-reverberate)."""

    shift_output: bool = option(
        True, "shift the output back by the delay of the impulse response's peak and keep the input's length"
    )
    normalize_output: bool = option(True, "scale the output to the power of the input; not if volume is given")
    volume: float = option(0.0, "scale the output by this in place of normalizing it; 0 does not")
    duration: float = option(
        0.0, "seconds of output: cut, or filled by repeating the signal; 0 or less is as shift_output has it"
    )
