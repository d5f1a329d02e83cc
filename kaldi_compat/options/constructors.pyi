# Written by `make generate`: do not edit.
from collections.abc import Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack as Unpack

from kaldi_compat.options.frontend import CenteredMeanOptions, FloorOptions, GlobalCmvnOptions, LowFrameRateOptions, PadFramesOptions, StackFramesOptions, UtteranceCmvnOptions, VoicedCmvnOptions
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.options.postprocessing import CmvnOptions, DeltaOptions, OnlineCmvnOptions, ShiftedDeltaOptions, SlidingCmvnOptions, SpliceOptions
from kaldi_compat.options.spectral import Dft, Engine, FbankOptions, MfccOptions, PlpOptions, SpectrogramOptions

class CenteredMeanConstructor:
    def __init__(self, options: CenteredMeanOptions | None = None, *, context: int = 150) -> None: ...

class CmvnConstructor:
    def __init__(self, statistics: Any = None, options: CmvnOptions | None = None, *, skip_dims: Sequence[int] = (), norm_means: bool = True, norm_vars: bool = False, reverse: bool = False) -> None: ...

class DeltaConstructor:
    def __init__(self, options: DeltaOptions | None = None, *, delta_order: int = 2, delta_window: int = 2) -> None: ...

class FbankConstructor:
    def __init__(self, options: FbankOptions | None = None, *, engine: Engine = "auto", dft: Dft = "fft", sample_frequency: float = 16000.0, frame_length: float = 25.0, frame_shift: float = 10.0, preemphasis_coefficient: float = 0.97, remove_dc_offset: bool = True, dither: float = 1.0, window_type: str = "povey", blackman_coeff: float = 0.42, round_to_power_of_two: bool = True, snip_edges: bool = True, allow_downsample: bool = False, allow_upsample: bool = False, max_feature_vectors: int = -1, waveform_scale: float = 1.0, num_mel_bins: int = 23, low_freq: float = 20.0, high_freq: float = 0.0, vtln_low: float = 100.0, vtln_high: float = -500.0, debug_mel: bool = False, htk_compat: bool = False, allow_empty_bins: bool = False, use_energy: bool = False, energy_floor: float = 0.0, raw_energy: bool = True, use_log_fbank: bool = True, use_power: bool = True) -> None: ...

class FloorConstructor:
    def __init__(self, options: FloorOptions | None = None, *, minimum: float = 0.0) -> None: ...

class GlobalCmvnConstructor:
    def __init__(self, statistics: Any = None, options: GlobalCmvnOptions | None = None, *, mean: float = 0.0, std: float = 1.0) -> None: ...

class LowFrameRateConstructor:
    def __init__(self, options: LowFrameRateOptions | None = None, *, stack: int = 7, stride: int = 6) -> None: ...

class MfccConstructor:
    def __init__(self, options: MfccOptions | None = None, *, engine: Engine = "auto", dft: Dft = "fft", sample_frequency: float = 16000.0, frame_length: float = 25.0, frame_shift: float = 10.0, preemphasis_coefficient: float = 0.97, remove_dc_offset: bool = True, dither: float = 1.0, window_type: str = "povey", blackman_coeff: float = 0.42, round_to_power_of_two: bool = True, snip_edges: bool = True, allow_downsample: bool = False, allow_upsample: bool = False, max_feature_vectors: int = -1, waveform_scale: float = 1.0, num_mel_bins: int = 23, low_freq: float = 20.0, high_freq: float = 0.0, vtln_low: float = 100.0, vtln_high: float = -500.0, debug_mel: bool = False, htk_compat: bool = False, allow_empty_bins: bool = False, use_energy: bool = True, energy_floor: float = 0.0, raw_energy: bool = True, num_ceps: int = 13, cepstral_lifter: float = 22.0) -> None: ...

class OnlineCmvnConstructor:
    def __init__(self, statistics: Any, options: OnlineCmvnOptions | None = None, *, skip_dims: Sequence[int] = (), cmn_window: int = 600, global_frames: int = 200, norm_means: bool = True, norm_vars: bool = False, speaker_frames: int = 600) -> None: ...

class PadFramesConstructor:
    def __init__(self, options: PadFramesOptions | None = None, *, length: int = 0, multiple: int = 1, value: float = 0.0) -> None: ...

class PitchConstructor:
    def __init__(self, options: PitchOptions | None = None, *, sample_frequency: float = 16000.0, frame_length: float = 25.0, frame_shift: float = 10.0, preemphasis_coefficient: float = 0.0, min_f0: float = 50.0, max_f0: float = 400.0, soft_min_f0: float = 10.0, penalty_factor: float = 0.1, lowpass_cutoff: float = 1000.0, resample_frequency: float = 4000.0, delta_pitch: float = 0.005, nccf_ballast: float = 7000.0, nccf_ballast_online: bool = False, lowpass_filter_width: int = 1, upsample_filter_width: int = 5, max_frames_latency: int = 0, frames_per_chunk: int = 0, simulate_first_pass_online: bool = False, recompute_frame: int = 500, snip_edges: bool = True) -> None: ...

class PlpConstructor:
    def __init__(self, options: PlpOptions | None = None, *, engine: Engine = "auto", dft: Dft = "fft", sample_frequency: float = 16000.0, frame_length: float = 25.0, frame_shift: float = 10.0, preemphasis_coefficient: float = 0.97, remove_dc_offset: bool = True, dither: float = 1.0, window_type: str = "povey", blackman_coeff: float = 0.42, round_to_power_of_two: bool = True, snip_edges: bool = True, allow_downsample: bool = False, allow_upsample: bool = False, max_feature_vectors: int = -1, waveform_scale: float = 1.0, num_mel_bins: int = 23, low_freq: float = 20.0, high_freq: float = 0.0, vtln_low: float = 100.0, vtln_high: float = -500.0, debug_mel: bool = False, htk_compat: bool = False, allow_empty_bins: bool = False, use_energy: bool = True, energy_floor: float = 0.0, raw_energy: bool = True, lpc_order: int = 12, num_ceps: int = 13, compress_factor: float = 0.33333, cepstral_lifter: int = 22, cepstral_scale: float = 1.0) -> None: ...

class ProcessPitchConstructor:
    def __init__(self, options: ProcessPitchOptions | None = None, *, pitch_scale: float = 2.0, pov_scale: float = 2.0, pov_offset: float = 0.0, delta_pitch_scale: float = 10.0, delta_pitch_noise_stddev: float = 0.005, normalization_left_context: int = 75, normalization_right_context: int = 75, delta_window: int = 2, delay: int = 0, add_pov_feature: bool = True, add_normalized_log_pitch: bool = True, add_delta_pitch: bool = True, add_raw_log_pitch: bool = False) -> None: ...

class ShiftedDeltaConstructor:
    def __init__(self, options: ShiftedDeltaOptions | None = None, *, delta_window: int = 1, num_blocks: int = 7, block_shift: int = 3) -> None: ...

class SlidingCmvnConstructor:
    def __init__(self, options: SlidingCmvnOptions | None = None, *, cmn_window: int = 600, min_cmn_window: int = 100, max_warnings: int = 5, norm_vars: bool = False, center: bool = False) -> None: ...

class SpectrogramConstructor:
    def __init__(self, options: SpectrogramOptions | None = None, *, engine: Engine = "auto", dft: Dft = "fft", sample_frequency: float = 16000.0, frame_length: float = 25.0, frame_shift: float = 10.0, preemphasis_coefficient: float = 0.97, remove_dc_offset: bool = True, dither: float = 1.0, window_type: str = "povey", blackman_coeff: float = 0.42, round_to_power_of_two: bool = True, snip_edges: bool = True, allow_downsample: bool = False, allow_upsample: bool = False, max_feature_vectors: int = -1, waveform_scale: float = 1.0, energy_floor: float = 0.0, raw_energy: bool = True, return_raw_fft: bool = False) -> None: ...

class SpliceConstructor:
    def __init__(self, options: SpliceOptions | None = None, *, left_context: int = 4, right_context: int = 4) -> None: ...

class StackFramesConstructor:
    def __init__(self, options: StackFramesOptions | None = None, *, size: int = 2) -> None: ...

class UtteranceCmvnConstructor:
    def __init__(self, options: UtteranceCmvnOptions | None = None, *, norm_vars: bool = False, unbiased: bool = False, epsilon: float = 0.0) -> None: ...

class VoicedCmvnConstructor:
    def __init__(self, options: VoicedCmvnOptions | None = None, *, vad_energy_threshold: float = 5.0, vad_energy_mean_scale: float = 0.5, vad_frames_context: int = 0, vad_proportion_threshold: float = 0.6, cmn_window: int = 600, min_cmn_window: int = 100, max_warnings: int = 5, norm_vars: bool = False, center: bool = False) -> None: ...

CenteredMeanKeywords = TypedDict("CenteredMeanKeywords", {"context": int}, total=False)
CmvnKeywords = TypedDict("CmvnKeywords", {"norm_means": bool, "norm_vars": bool, "reverse": bool}, total=False)
DeltaKeywords = TypedDict("DeltaKeywords", {"delta_order": int, "delta_window": int}, total=False)
FloorKeywords = TypedDict("FloorKeywords", {"minimum": float}, total=False)
InterpolatePitchKeywords = TypedDict("InterpolatePitchKeywords", {"linear_interpolation": bool, "pitch_interval": float, "interpolator_factor": float, "max_voicing_prob": float, "max_pitch_change_per_frame": float}, total=False)
LowFrameRateKeywords = TypedDict("LowFrameRateKeywords", {"stack": int, "stride": int}, total=False)
OnlineCmvnKeywords = TypedDict("OnlineCmvnKeywords", {"cmn_window": int, "global_frames": int, "norm_means": bool, "norm_vars": bool, "speaker_frames": int}, total=False)
PadFramesKeywords = TypedDict("PadFramesKeywords", {"length": int, "multiple": int, "value": float}, total=False)
PitchKeywords = TypedDict("PitchKeywords", {"sample_frequency": float, "frame_length": float, "frame_shift": float, "preemphasis_coefficient": float, "min_f0": float, "max_f0": float, "soft_min_f0": float, "penalty_factor": float, "lowpass_cutoff": float, "resample_frequency": float, "delta_pitch": float, "nccf_ballast": float, "nccf_ballast_online": bool, "lowpass_filter_width": int, "upsample_filter_width": int, "max_frames_latency": int, "frames_per_chunk": int, "simulate_first_pass_online": bool, "recompute_frame": int, "snip_edges": bool}, total=False)
ProcessPitchKeywords = TypedDict("ProcessPitchKeywords", {"pitch_scale": float, "pov_scale": float, "pov_offset": float, "delta_pitch_scale": float, "delta_pitch_noise_stddev": float, "normalization_left_context": int, "normalization_right_context": int, "delta_window": int, "delay": int, "add_pov_feature": bool, "add_normalized_log_pitch": bool, "add_delta_pitch": bool, "add_raw_log_pitch": bool}, total=False)
ReverberationKeywords = TypedDict("ReverberationKeywords", {"shift_output": bool, "normalize_output": bool, "volume": float, "duration": float}, total=False)
ShiftedDeltaKeywords = TypedDict("ShiftedDeltaKeywords", {"delta_window": int, "num_blocks": int, "block_shift": int}, total=False)
SlidingCmvnKeywords = TypedDict("SlidingCmvnKeywords", {"cmn_window": int, "min_cmn_window": int, "max_warnings": int, "norm_vars": bool, "center": bool}, total=False)
SmoothPitchKeywords = TypedDict("SmoothPitchKeywords", {"normalization_window_size": int, "average_window_size": int}, total=False)
SpliceKeywords = TypedDict("SpliceKeywords", {"left_context": int, "right_context": int}, total=False)
StackFramesKeywords = TypedDict("StackFramesKeywords", {"size": int}, total=False)
UtteranceCmvnKeywords = TypedDict("UtteranceCmvnKeywords", {"norm_vars": bool, "unbiased": bool, "epsilon": float}, total=False)
VadKeywords = TypedDict("VadKeywords", {"vad_energy_threshold": float, "vad_energy_mean_scale": float, "vad_frames_context": int, "vad_proportion_threshold": float}, total=False)
VoicedCmvnKeywords = TypedDict("VoicedCmvnKeywords", {"vad_energy_threshold": float, "vad_energy_mean_scale": float, "vad_frames_context": int, "vad_proportion_threshold": float, "cmn_window": int, "min_cmn_window": int, "max_warnings": int, "norm_vars": bool, "center": bool}, total=False)
