"""Options of post-processing: deltas, CMVN, splicing, voice activity detection, reverberation."""

from __future__ import annotations

from kaldi_compat.options.base import BaseOptions, require
from kaldi_compat.options.declaration import option


class DeltaOptions(BaseOptions):
    """Options of time derivatives that are appended to features (Kaldi: DeltaFeaturesOptions)."""

    delta_order: int = option(2, "order of the highest derivative", ge=0, lt=1000, known_as=("order",))
    delta_window: int = option(
        2,
        "frames on each side from which a derivative is computed, for each order",
        ge=1,
        lt=1000,
        known_as=("window", "width", "win_length"),
    )


class ShiftedDeltaOptions(BaseOptions):
    """Options of shifted delta cepstra (Kaldi: ShiftedDeltaFeaturesOptions)."""

    delta_window: int = option(
        1, "frames on each side from which a delta is computed", ge=1, lt=1000, known_as=("window", "width")
    )
    num_blocks: int = option(7, "number of delta blocks, starting at the frame itself", ge=0, lt=1e6)
    block_shift: int = option(3, "frames from one block to the next")

    def __post_init__(self) -> None:
        super().__post_init__()
        # Distances of frames are 32-bit integers. They include delta_window, which is less than 1000.
        require(
            self.num_blocks * abs(self.block_shift) < 2**31 - 1000,
            f"num_blocks={self.num_blocks} at block_shift={self.block_shift} exceed 2**31 frames: reduce num_blocks",
        )


class CmvnOptions(BaseOptions):
    """Options of the normalization by mean and variance statistics (Kaldi: apply-cmvn)."""

    norm_means: bool = option(
        True, "subtract the mean; false copies the features", known_as=("mean_norm", "mean", "normalize_means")
    )
    norm_vars: bool = option(
        False, "also divide by the standard deviation", known_as=("var_norm", "std_norm", "variance", "std")
    )
    reverse: bool = option(False, "turn zero mean and unit variance back into the statistics' mean and variance")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.norm_means or not self.norm_vars,
            "norm_vars=true needs norm_means=true, because variances are not normalized alone",
        )


class OnlineCmvnOptions(BaseOptions):
    """Options of the normalization of each frame by the frames up to it (Kaldi: OnlineCmvnOptions)."""

    cmn_window: int = option(600, "length of the window in frames; 0 only if nothing is subtracted", ge=0)
    global_frames: int = option(200, "weight of the corpus at the start of a speaker's first utterance, in frames")
    norm_means: bool = option(True, "subtract the mean")
    norm_vars: bool = option(False, "also divide by the standard deviation")
    speaker_frames: int = option(600, "maximum weight of the speaker's earlier utterances, in frames")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.norm_means or not self.norm_vars, "norm_vars=true needs norm_means=true")
        require(self.cmn_window > 0 or not self.norm_means, "cmn_window=0 leaves no frame for the mean: increase it")


class SlidingCmvnOptions(BaseOptions):
    """Options of mean and variance normalization over a sliding window (Kaldi: SlidingWindowCmnOptions)."""

    cmn_window: int = option(600, "length of the window in frames", gt=0, known_as=("window", "window_size"))
    min_cmn_window: int = option(
        100, "minimum number of frames in the window at the start of an utterance; only if center is false"
    )
    max_warnings: int = option(5, "limit of warnings about floored variances for each utterance; -1 for no limit")
    norm_vars: bool = option(
        False, "also normalize the variance to one", known_as=("norm_variance", "var_norm", "std_norm")
    )
    center: bool = option(False, "center the window on the frame; false ends it there")


class SpliceOptions(BaseOptions):
    """Options of the concatenation of neighboring frames (Kaldi: splice-feats)."""

    left_context: int = option(4, "frames before each frame", ge=0, known_as=("left",))
    right_context: int = option(4, "frames after each frame", ge=0, known_as=("right",))


class VadOptions(BaseOptions):
    """Options of voice activity detection by the log energy in the first column (Kaldi: VadEnergyOptions)."""

    vad_energy_threshold: float = option(5.0, "constant term of the threshold on the log energy")
    vad_energy_mean_scale: float = option(0.5, "factor on the utterance's mean log energy in the threshold", ge=0)
    vad_frames_context: int = option(0, "frames on each side that contribute to the decision for a frame", ge=0)
    vad_proportion_threshold: float = option(0.6, "fraction of the context that must exceed the threshold", gt=0, lt=1)


class ReverberationOptions(BaseOptions):
    """Options of the simulation of reverberation and noise (Kaldi: wav-reverberate)."""

    shift_output: bool = option(
        True, "shift the output back by the delay of the impulse response's peak and keep the input's length"
    )
    normalize_output: bool = option(True, "scale the output to the power of the input; not if volume is given")
    volume: float = option(0.0, "factor on the output instead of normalizing it; 0 for none")
    duration: float = option(
        0.0,
        "length of the output: cut, or filled by repeating the signal; 0 or less leaves it to shift_output",
        unit="seconds",
    )
