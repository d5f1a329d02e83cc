"""Options of the pitch tracker and of what is done to pitch (Kaldi: src/feat/pitch-functions.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kaldi_compat.options.base import Options, _require_sizes, option, require

MAX_PITCHES = 32000  # candidates the pitch tracker tells apart


@dataclass(frozen=True, kw_only=True)
class PitchOptions(Options):
    """The pitch tracker (Kaldi: PitchExtractionOptions)."""

    sample_frequency: float = option(16000.0, "sampling rate of the audio in Hz")
    frame_length: float = option(25.0, "length of the window that is correlated, in milliseconds")
    frame_shift: float = option(10.0, "distance from one frame's start to the next one's in milliseconds")
    preemphasis_coefficient: float = option(0.0, "how much of the previous sample is subtracted (deprecated)")
    min_f0: float = option(50.0, "lowest pitch that is looked for, in Hz")
    max_f0: float = option(400.0, "highest pitch that is looked for, in Hz")
    soft_min_f0: float = option(10.0, "makes long lags cost more: their correlation counts 1 - soft_min_f0 * lag")
    penalty_factor: float = option(0.1, "cost of a change of pitch: this times the squared change of its log")
    lowpass_cutoff: float = option(1000.0, "cutoff of the low-pass filter before resampling, in Hz")
    resample_frequency: float = option(
        4000.0, "sampling rate that the pitch is tracked at, in Hz; at least twice lowpass_cutoff"
    )
    delta_pitch: float = option(0.005, "relative distance between neighbouring pitch candidates")
    nccf_ballast: float = option(7000.0, "higher makes quiet frames' correlations count less")
    nccf_ballast_online: bool = option(False, "take the ballast's energy from the samples up to each frame's end")
    lowpass_filter_width: int = option(1, "zeros of the low-pass filter on each side; more is sharper")
    upsample_filter_width: int = option(5, "zeros on each side of the filter that interpolates correlations")
    max_frames_latency: int = option(
        0, "frames that the first pass may wait for the path to settle; see simulate_first_pass_online"
    )
    frames_per_chunk: int = option(
        0, "take the audio in chunks of so many frames as online decoding does, which changes its energy; 0 does not"
    )
    simulate_first_pass_online: bool = option(
        False, "give what online decoding sees as soon as a chunk is there, not what it has at the end"
    )
    recompute_frame: int = option(
        500, "frame at which the path so far is found anew with a better estimate of the energy; with frames_per_chunk"
    )
    snip_edges: bool = option(
        True, "keep only frames that lie wholly in the audio; false gives length / frame_shift frames"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_sizes(self, "sample_frequency", "resample_frequency", "frame_shift", "frame_length")
        require(self.sample_frequency >= 1, f"sample_frequency must be positive, not {self.sample_frequency:g}")
        require(
            0 < self.lowpass_cutoff <= 0.5 * min(int(self.resample_frequency), int(self.sample_frequency)),
            f"lowpass_cutoff={self.lowpass_cutoff:g} must be positive and at most half of sample_frequency and of "
            f"resample_frequency={self.resample_frequency:g}",
        )
        require(0 < self.min_f0 < self.max_f0, f"min_f0={self.min_f0:g} must lie between 0 and max_f0={self.max_f0:g}")
        require(
            self.delta_pitch > 0 and math.log(self.max_f0 / self.min_f0) < MAX_PITCHES * math.log1p(self.delta_pitch),
            f"delta_pitch={self.delta_pitch:g} must be positive, and give less than {MAX_PITCHES} candidates",
        )
        require(self.lowpass_filter_width > 0, f"lowpass_filter_width must be positive: {self.lowpass_filter_width}")
        require(self.upsample_filter_width > 0, f"upsample_filter_width must be positive: {self.upsample_filter_width}")
        require(
            self.resample_frequency / self.max_f0 - 0.5 * self.upsample_filter_width > -1,
            f"max_f0={self.max_f0:g} is too high for resample_frequency={self.resample_frequency:g} and "
            f"upsample_filter_width={self.upsample_filter_width}: its filter would reach lags before 0",
        )
        require(self.window_shift >= 1, f"frame_shift={self.frame_shift:g} ms is less than one resampled sample")
        require(self.window_size >= 1, f"frame_length={self.frame_length:g} ms is less than one resampled sample")
        require(self.frames_per_chunk >= 0, f"frames_per_chunk must not be negative, but is {self.frames_per_chunk}")
        require(
            self.frames_per_chunk > 0 or not self.simulate_first_pass_online,
            "simulate_first_pass_online=true needs frames_per_chunk: there is one pass only without chunks",
        )

    @property
    def window_size(self) -> int:
        """Resampled samples in the window that is correlated."""
        # Kaldi multiplies in float here, and divides in double.
        return int(float(np.float32(self.resample_frequency) * np.float32(self.frame_length)) / 1000.0)

    @property
    def window_shift(self) -> int:
        """Resampled samples from one frame's start to the next one's."""
        return int(float(np.float32(self.resample_frequency) * np.float32(self.frame_shift)) / 1000.0)


@dataclass(frozen=True, kw_only=True)
class ProcessPitchOptions(Options):
    """From correlation and pitch to features for speech recognition (Kaldi: ProcessPitchOptions)."""

    pitch_scale: float = option(2.0, "factor on the normalized log pitch")
    pov_scale: float = option(2.0, "factor on the probability-of-voicing feature")
    pov_offset: float = option(0.0, "added to the probability-of-voicing feature, in place of mean normalization")
    delta_pitch_scale: float = option(10.0, "factor on the delta of the log pitch")
    delta_pitch_noise_stddev: float = option(
        0.005, "standard deviation of the noise added to the delta of the log pitch, which blurs the pitch's grid"
    )
    normalization_left_context: int = option(75, "frames before each frame that its pitch is normalized over")
    normalization_right_context: int = option(75, "frames after each frame that its pitch is normalized over")
    delta_window: int = option(2, "frames on each side that the delta looks at")
    delay: int = option(0, "frames by which the features are delayed")
    add_pov_feature: bool = option(True, "give the probability-of-voicing feature, a warped correlation")
    add_normalized_log_pitch: bool = option(True, "give the log pitch less its mean over voiced neighbours")
    add_delta_pitch: bool = option(True, "give the delta of the log pitch")
    add_raw_log_pitch: bool = option(False, "give the log pitch itself")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim > 0, "at least one of the pitch features must be chosen (the options add_...)")
        require(0 < self.delta_window < 1000, f"delta_window must lie in 1 to 999, but is {self.delta_window}")
        require(self.delay >= 0, f"delay must not be negative, but is {self.delay}")
        require(
            self.normalization_left_context >= 0 and self.normalization_right_context >= 0,
            "normalization_left_context and normalization_right_context must not be negative",
        )

    @property
    def dim(self) -> int:
        """Features a frame."""
        return self.add_pov_feature + self.add_normalized_log_pitch + self.add_delta_pitch + self.add_raw_log_pitch


@dataclass(frozen=True, kw_only=True)
class InterpolatePitchOptions(Options):
    """How gaps in a pitch track are bridged (Kaldi: interpolate-pitch)."""

    linear_interpolation: bool = option(False, "a straight line over each gap; false follows a model of smooth pitch")
    pitch_interval: float = option(4.0, "distance between the pitches that the model knows, in Hz")
    interpolator_factor: float = option(1.0e-05, "nearer to zero follows the measured pitch more, and less smoothly")
    max_voicing_prob: float = option(0.9, "probability that stands for a measured one of 1; below 1 allows smoothing")
    max_pitch_change_per_frame: float = option(10.0, "largest change from frame to frame in Hz; bounds the work")

    def __post_init__(self) -> None:
        super().__post_init__()
        interval = self.pitch_interval
        require(0.0 < interval < 20.0, f"pitch_interval must lie between 0 and 20 Hz, but is {interval:g}")
        require(
            0.0 < self.interpolator_factor < 1.0,
            f"interpolator_factor must lie between 0 and 1: {self.interpolator_factor:g}",
        )
        require(
            0.5 <= self.max_voicing_prob <= 1.0, f"max_voicing_prob must lie in 0.5 to 1: {self.max_voicing_prob:g}"
        )
        require(
            self.max_pitch_change_per_frame > 2.0 * interval,
            f"max_pitch_change_per_frame={self.max_pitch_change_per_frame:g} must exceed "
            f"twice pitch_interval={interval:g}",
        )


@dataclass(frozen=True, kw_only=True)
class SmoothPitchOptions(Options):
    """Log pitch less its moving mean, smoothed (Kaldi: process-pitch-feats)."""

    normalization_window_size: int = option(151, "frames of the window whose mean is subtracted; odd")
    average_window_size: int = option(5, "frames of the window that is averaged over; odd")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("normalization_window_size", "average_window_size"):
            size = getattr(self, name)
            require(size > 0 and size % 2 == 1, f"{name} must be odd and positive, but is {size}")
