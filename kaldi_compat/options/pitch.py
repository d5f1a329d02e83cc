"""Options of the pitch tracker and of pitch post-processing (Kaldi: src/feat/pitch-functions.h)."""

from __future__ import annotations

import math

import numpy as np

from kaldi_compat.options.base import BaseOptions, as_float32, require
from kaldi_compat.options.declaration import LENGTH_NAMES, LIMIT, RATE_NAMES, SHIFT_NAMES, option

MAX_PITCHES = 32000  # Largest number of pitch candidates. The tracker stores the index of a candidate as int16.
MAX_LAG_WEIGHTS = 1 << 26  # Largest number of lags times candidates, so that their weights fit into 0.5 GB of memory.
# Largest length of the low-pass filter in samples of the input, so that the filter fits into memory.
MAX_TAPS = 1 << 22


class PitchOptions(BaseOptions):
    """Options of the pitch tracker (Kaldi: PitchExtractionOptions)."""

    sample_frequency: float = option(
        16000.0, "sampling rate of the audio", unit="Hz", ge=1, lt=LIMIT, known_as=RATE_NAMES
    )
    frame_length: float = option(
        25.0, "length of the window that is correlated", unit="milliseconds", gt=0, lt=LIMIT, known_as=LENGTH_NAMES
    )
    frame_shift: float = option(
        10.0,
        "distance from the start of one frame to the start of the next",
        unit="milliseconds",
        gt=0,
        lt=LIMIT,
        known_as=SHIFT_NAMES,
    )
    preemphasis_coefficient: float = option(0.0, "fraction of the previous sample that is subtracted (deprecated)")
    min_f0: float = option(50.0, "lowest pitch to look for", unit="Hz", gt=0, known_as=("fmin", "f_min", "f0_min"))
    max_f0: float = option(400.0, "highest pitch to look for", unit="Hz", known_as=("fmax", "f_max", "f0_max"))
    soft_min_f0: float = option(
        10.0, "penalizes long lags: their correlation is weighted by 1 - soft_min_f0 * lag", unit="Hz"
    )
    penalty_factor: float = option(0.1, "cost of a change of pitch: factor on the squared change of its log")
    lowpass_cutoff: float = option(1000.0, "cutoff of the low-pass filter before resampling", unit="Hz", gt=0)
    resample_frequency: float = option(
        4000.0, "sampling rate of pitch tracking; at least twice lowpass_cutoff", unit="Hz", gt=0, lt=LIMIT
    )
    delta_pitch: float = option(0.005, "relative distance between neighboring pitch candidates", gt=0)
    nccf_ballast: float = option(7000.0, "a larger value reduces the correlations of quiet frames")
    nccf_ballast_online: bool = option(False, "compute the ballast's energy from the samples up to each frame's end")
    lowpass_filter_width: int = option(1, "zeros of the low-pass filter on each side; more make it sharper", gt=0)
    upsample_filter_width: int = option(5, "zeros on each side of the filter that interpolates correlations", gt=0)
    max_frames_latency: int = option(0, "maximum latency of the first pass, in frames; see simulate_first_pass_online")
    frames_per_chunk: int = option(
        0, "process chunks of this many frames as online decoding does, which changes the energy; 0 for all audio", ge=0
    )
    simulate_first_pass_online: bool = option(
        False, "return the first output of online decoding for each chunk, not the final one"
    )
    recompute_frame: int = option(
        500, "frame at which the path is recomputed with a better estimate of the energy; with frames_per_chunk"
    )
    snip_edges: bool = option(
        True, "keep only frames that lie wholly in the audio; false gives length / frame_shift frames"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            as_float32(self.lowpass_cutoff) <= 0.5 * min(self.integer_rates),
            f"lowpass_cutoff={self.lowpass_cutoff:g} must be at most half of sample_frequency={self.sample_frequency:g}"
            f" and of resample_frequency={self.resample_frequency:g}: decrease it",
        )
        require(
            self.lowpass_filter_width * self.sample_frequency <= MAX_TAPS * self.lowpass_cutoff,
            f"lowpass_filter_width={self.lowpass_filter_width} at lowpass_cutoff={self.lowpass_cutoff:g} needs a "
            f"filter of more than {MAX_TAPS} samples: reduce the width or increase the cutoff",
        )
        require(self.min_f0 < self.max_f0, f"min_f0={self.min_f0:g} must be below max_f0={self.max_f0:g}: lower min_f0")
        require(
            math.log(self.max_f0 / self.min_f0) < MAX_PITCHES * math.log1p(self.delta_pitch),
            f"delta_pitch={self.delta_pitch:g} gives more than {MAX_PITCHES} pitch candidates: increase delta_pitch",
        )
        # The tracker stores a table of weights, (lags, candidates), which must fit into memory.
        lags = self.resample_frequency / self.min_f0
        candidates = math.log(self.max_f0 / self.min_f0) / math.log1p(self.delta_pitch)
        require(
            lags * candidates <= MAX_LAG_WEIGHTS,
            f"min_f0={self.min_f0:g} needs {lags:.0f} lags, and delta_pitch={self.delta_pitch:g} gives "
            f"{candidates:.0f} pitch candidates, which need too much memory: increase min_f0 or delta_pitch",
        )
        # The first lag, max_f0's period minus half the upsampling filter's width, rounded up, must not be negative.
        require(
            self.resample_frequency / self.max_f0 - 0.5 * self.upsample_filter_width > -1,
            f"max_f0={self.max_f0:g} is too high for resample_frequency={self.resample_frequency:g} and "
            f"upsample_filter_width={self.upsample_filter_width}, whose filter reaches negative lags: reduce max_f0",
        )
        require(
            self.window_shift >= 1, f"frame_shift={self.frame_shift:g} ms is less than a resampled sample: increase it"
        )
        require(
            self.window_size >= 1, f"frame_length={self.frame_length:g} ms is less than a resampled sample: increase it"
        )
        require(
            self.frames_per_chunk > 0 or not self.simulate_first_pass_online,
            "simulate_first_pass_online=true needs chunks: set frames_per_chunk to a positive number",
        )

    @property
    def integer_rates(self) -> tuple[int, int]:
        """Sampling rates in Hz of the audio and of pitch tracking. Kaldi's resampler takes integers."""
        return int(as_float32(self.sample_frequency)), int(as_float32(self.resample_frequency))

    @property
    def window_size(self) -> int:
        """Number of resampled samples in a correlation window."""
        # Kaldi computes the product in single precision, and divides it in double precision.
        return int(float(np.float32(self.resample_frequency) * np.float32(self.frame_length)) / 1000.0)

    @property
    def window_shift(self) -> int:
        """Number of resampled samples from the start of one frame to the start of the next frame."""
        return int(float(np.float32(self.resample_frequency) * np.float32(self.frame_shift)) / 1000.0)


class ProcessPitchOptions(BaseOptions):
    """Options of the features that are computed from correlation and pitch (Kaldi: ProcessPitchOptions)."""

    pitch_scale: float = option(2.0, "factor on the normalized log pitch")
    pov_scale: float = option(2.0, "factor on the probability-of-voicing feature")
    pov_offset: float = option(0.0, "added to the probability-of-voicing feature, in place of mean normalization")
    delta_pitch_scale: float = option(10.0, "factor on the delta of the log pitch")
    delta_pitch_noise_stddev: float = option(
        0.005, "standard deviation of the noise added to the delta of the log pitch, which blurs the grid of pitches"
    )
    # Kaldi accepts -1, a window that excludes the frame itself, and aborts for smaller values.
    normalization_left_context: int = option(75, "frames before each frame over which its pitch is normalized", ge=-1)
    normalization_right_context: int = option(75, "frames after each frame over which its pitch is normalized", ge=-1)
    delta_window: int = option(2, "frames on each side from which the delta is computed", ge=1, lt=1000)
    delay: int = option(0, "delay of the features, in frames", ge=0, lt=1e7)
    add_pov_feature: bool = option(True, "output the probability-of-voicing feature, a warped correlation")
    add_normalized_log_pitch: bool = option(True, "output the log pitch minus its voicing-weighted mean")
    add_delta_pitch: bool = option(True, "output the delta of the log pitch")
    add_raw_log_pitch: bool = option(False, "output the log pitch itself")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim > 0, "no pitch feature is chosen: set one of the options add_... to true")

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        return self.add_pov_feature + self.add_normalized_log_pitch + self.add_delta_pitch + self.add_raw_log_pitch


class InterpolatePitchOptions(BaseOptions):
    """Options of the interpolation that fills gaps in a pitch track (Kaldi: interpolate-pitch)."""

    linear_interpolation: bool = option(False, "a straight line over each gap; false follows a model of smooth pitch")
    pitch_interval: float = option(4.0, "distance between the pitches of the model", unit="Hz", gt=0, lt=20)
    interpolator_factor: float = option(
        1.0e-05, "a value closer to 0 follows the measured pitch more closely and less smoothly", gt=0, lt=1
    )
    max_voicing_prob: float = option(
        0.9, "probability that replaces a measured 1; a value below 1 allows smoothing", ge=0.5, le=1
    )
    max_pitch_change_per_frame: float = option(10.0, "largest change from frame to frame; limits the search", unit="Hz")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.linear_interpolation or self.max_pitch_change_per_frame > 2.0 * self.pitch_interval,
            f"max_pitch_change_per_frame={self.max_pitch_change_per_frame:g} must be greater than twice "
            f"pitch_interval={self.pitch_interval:g}: increase it",
        )


class SmoothPitchOptions(BaseOptions):
    """Options of the smoothing and normalization of the log pitch (Kaldi: process-pitch-feats)."""

    normalization_window_size: int = option(151, "frames of the window whose mean is subtracted; odd", ge=1)
    average_window_size: int = option(5, "frames of the smoothing window; odd", ge=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("normalization_window_size", "average_window_size"):
            size = getattr(self, name)
            require(size % 2 == 1, f"{name}={size} must be odd: add 1 or subtract 1")
