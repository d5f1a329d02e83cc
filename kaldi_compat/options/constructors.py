"""Constructors of the modules, for type checkers and editors: every option as a keyword argument with its default.

Written by ``python -m kaldi_compat.options.generate``: do not edit. Each class is a mixin that is empty at run time:
``class Fbank(FbankConstructor, MelFeature)`` has the constructor below for a type checker, and when it runs that of
:class:`~kaldi_compat.features.module.ConfiguredModule`, which takes the same arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kaldi_compat.options.frontend import (
        CenteredMeanOptions,
        FloorOptions,
        GlobalCmvnOptions,
        LowFrameRateOptions,
        PadFramesOptions,
        StackFramesOptions,
        UtteranceCmvnOptions,
    )
    from kaldi_compat.options.pitch import (
        InterpolatePitchOptions,
        PitchOptions,
        ProcessPitchOptions,
        SmoothPitchOptions,
    )
    from kaldi_compat.options.postprocessing import (
        CmvnOptions,
        DeltaOptions,
        ReverberationOptions,
        ShiftedDeltaOptions,
        SlidingCmvnOptions,
        SpliceOptions,
        VadOptions,
    )
    from kaldi_compat.options.spectral import (
        Dft,
        Engine,
        FbankOptions,
        MfccOptions,
        PlpOptions,
        SpectrogramOptions,
    )

__all__ = [
    "CenteredMeanConstructor",
    "CmvnConstructor",
    "DeltaConstructor",
    "FbankConstructor",
    "FloorConstructor",
    "GlobalCmvnConstructor",
    "InterpolatePitchConstructor",
    "LowFrameRateConstructor",
    "MfccConstructor",
    "PadFramesConstructor",
    "PitchConstructor",
    "PlpConstructor",
    "ProcessPitchConstructor",
    "ReverberationConstructor",
    "ShiftedDeltaConstructor",
    "SlidingCmvnConstructor",
    "SmoothPitchConstructor",
    "SpectrogramConstructor",
    "SpliceConstructor",
    "StackFramesConstructor",
    "UtteranceCmvnConstructor",
    "VadConstructor",
]


class CenteredMeanConstructor:
    """Constructor of a module configured by CenteredMeanOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: CenteredMeanOptions | None = None,
            *,
            context: int = 150,
        ) -> None: ...


class CmvnConstructor:
    """Constructor of a module configured by CmvnOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            stats: Any = None,
            options: CmvnOptions | None = None,
            *,
            skip_dims: Sequence[int] = (),
            norm_means: bool = True,
            norm_vars: bool = False,
            reverse: bool = False,
        ) -> None: ...


class DeltaConstructor:
    """Constructor of a module configured by DeltaOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: DeltaOptions | None = None,
            *,
            delta_order: int = 2,
            delta_window: int = 2,
        ) -> None: ...


class FbankConstructor:
    """Constructor of a module configured by FbankOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: FbankOptions | None = None,
            *,
            engine: Engine = "auto",
            dft: Dft = "fft",
            sample_frequency: float = 16000.0,
            frame_length: float = 25.0,
            frame_shift: float = 10.0,
            preemphasis_coefficient: float = 0.97,
            remove_dc_offset: bool = True,
            dither: float = 1.0,
            window_type: str = "povey",
            blackman_coeff: float = 0.42,
            round_to_power_of_two: bool = True,
            snip_edges: bool = True,
            allow_downsample: bool = False,
            allow_upsample: bool = False,
            max_feature_vectors: int = -1,
            waveform_scale: float = 1.0,
            num_mel_bins: int = 23,
            low_freq: float = 20.0,
            high_freq: float = 0.0,
            vtln_low: float = 100.0,
            vtln_high: float = -500.0,
            debug_mel: bool = False,
            htk_compat: bool = False,
            allow_empty_bins: bool = False,
            use_energy: bool = False,
            energy_floor: float = 0.0,
            raw_energy: bool = True,
            use_log_fbank: bool = True,
            use_power: bool = True,
        ) -> None: ...


class FloorConstructor:
    """Constructor of a module configured by FloorOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: FloorOptions | None = None,
            *,
            minimum: float = 0.0,
        ) -> None: ...


class GlobalCmvnConstructor:
    """Constructor of a module configured by GlobalCmvnOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            statistics: Any = None,
            options: GlobalCmvnOptions | None = None,
            *,
            mean: float = 0.0,
            std: float = 1.0,
        ) -> None: ...


class InterpolatePitchConstructor:
    """Constructor of a module configured by InterpolatePitchOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: InterpolatePitchOptions | None = None,
            *,
            linear_interpolation: bool = False,
            pitch_interval: float = 4.0,
            interpolator_factor: float = 1e-05,
            max_voicing_prob: float = 0.9,
            max_pitch_change_per_frame: float = 10.0,
        ) -> None: ...


class LowFrameRateConstructor:
    """Constructor of a module configured by LowFrameRateOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: LowFrameRateOptions | None = None,
            *,
            stack: int = 7,
            stride: int = 6,
        ) -> None: ...


class MfccConstructor:
    """Constructor of a module configured by MfccOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: MfccOptions | None = None,
            *,
            engine: Engine = "auto",
            dft: Dft = "fft",
            sample_frequency: float = 16000.0,
            frame_length: float = 25.0,
            frame_shift: float = 10.0,
            preemphasis_coefficient: float = 0.97,
            remove_dc_offset: bool = True,
            dither: float = 1.0,
            window_type: str = "povey",
            blackman_coeff: float = 0.42,
            round_to_power_of_two: bool = True,
            snip_edges: bool = True,
            allow_downsample: bool = False,
            allow_upsample: bool = False,
            max_feature_vectors: int = -1,
            waveform_scale: float = 1.0,
            num_mel_bins: int = 23,
            low_freq: float = 20.0,
            high_freq: float = 0.0,
            vtln_low: float = 100.0,
            vtln_high: float = -500.0,
            debug_mel: bool = False,
            htk_compat: bool = False,
            allow_empty_bins: bool = False,
            use_energy: bool = True,
            energy_floor: float = 0.0,
            raw_energy: bool = True,
            num_ceps: int = 13,
            cepstral_lifter: float = 22.0,
        ) -> None: ...


class PadFramesConstructor:
    """Constructor of a module configured by PadFramesOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: PadFramesOptions | None = None,
            *,
            length: int = 0,
            multiple: int = 1,
            value: float = 0.0,
        ) -> None: ...


class PitchConstructor:
    """Constructor of a module configured by PitchOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: PitchOptions | None = None,
            *,
            sample_frequency: float = 16000.0,
            frame_length: float = 25.0,
            frame_shift: float = 10.0,
            preemphasis_coefficient: float = 0.0,
            min_f0: float = 50.0,
            max_f0: float = 400.0,
            soft_min_f0: float = 10.0,
            penalty_factor: float = 0.1,
            lowpass_cutoff: float = 1000.0,
            resample_frequency: float = 4000.0,
            delta_pitch: float = 0.005,
            nccf_ballast: float = 7000.0,
            nccf_ballast_online: bool = False,
            lowpass_filter_width: int = 1,
            upsample_filter_width: int = 5,
            max_frames_latency: int = 0,
            frames_per_chunk: int = 0,
            simulate_first_pass_online: bool = False,
            recompute_frame: int = 500,
            snip_edges: bool = True,
        ) -> None: ...


class PlpConstructor:
    """Constructor of a module configured by PlpOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: PlpOptions | None = None,
            *,
            engine: Engine = "auto",
            dft: Dft = "fft",
            sample_frequency: float = 16000.0,
            frame_length: float = 25.0,
            frame_shift: float = 10.0,
            preemphasis_coefficient: float = 0.97,
            remove_dc_offset: bool = True,
            dither: float = 1.0,
            window_type: str = "povey",
            blackman_coeff: float = 0.42,
            round_to_power_of_two: bool = True,
            snip_edges: bool = True,
            allow_downsample: bool = False,
            allow_upsample: bool = False,
            max_feature_vectors: int = -1,
            waveform_scale: float = 1.0,
            num_mel_bins: int = 23,
            low_freq: float = 20.0,
            high_freq: float = 0.0,
            vtln_low: float = 100.0,
            vtln_high: float = -500.0,
            debug_mel: bool = False,
            htk_compat: bool = False,
            allow_empty_bins: bool = False,
            use_energy: bool = True,
            energy_floor: float = 0.0,
            raw_energy: bool = True,
            lpc_order: int = 12,
            num_ceps: int = 13,
            compress_factor: float = 0.33333,
            cepstral_lifter: int = 22,
            cepstral_scale: float = 1.0,
        ) -> None: ...


class ProcessPitchConstructor:
    """Constructor of a module configured by ProcessPitchOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: ProcessPitchOptions | None = None,
            *,
            pitch_scale: float = 2.0,
            pov_scale: float = 2.0,
            pov_offset: float = 0.0,
            delta_pitch_scale: float = 10.0,
            delta_pitch_noise_stddev: float = 0.005,
            normalization_left_context: int = 75,
            normalization_right_context: int = 75,
            delta_window: int = 2,
            delay: int = 0,
            add_pov_feature: bool = True,
            add_normalized_log_pitch: bool = True,
            add_delta_pitch: bool = True,
            add_raw_log_pitch: bool = False,
        ) -> None: ...


class ReverberationConstructor:
    """Constructor of a module configured by ReverberationOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: ReverberationOptions | None = None,
            *,
            shift_output: bool = True,
            normalize_output: bool = True,
            volume: float = 0.0,
            duration: float = 0.0,
        ) -> None: ...


class ShiftedDeltaConstructor:
    """Constructor of a module configured by ShiftedDeltaOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: ShiftedDeltaOptions | None = None,
            *,
            delta_window: int = 1,
            num_blocks: int = 7,
            block_shift: int = 3,
        ) -> None: ...


class SlidingCmvnConstructor:
    """Constructor of a module configured by SlidingCmvnOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: SlidingCmvnOptions | None = None,
            *,
            cmn_window: int = 600,
            min_cmn_window: int = 100,
            max_warnings: int = 5,
            norm_vars: bool = False,
            center: bool = False,
        ) -> None: ...


class SmoothPitchConstructor:
    """Constructor of a module configured by SmoothPitchOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: SmoothPitchOptions | None = None,
            *,
            normalization_window_size: int = 151,
            average_window_size: int = 5,
        ) -> None: ...


class SpectrogramConstructor:
    """Constructor of a module configured by SpectrogramOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: SpectrogramOptions | None = None,
            *,
            engine: Engine = "auto",
            dft: Dft = "fft",
            sample_frequency: float = 16000.0,
            frame_length: float = 25.0,
            frame_shift: float = 10.0,
            preemphasis_coefficient: float = 0.97,
            remove_dc_offset: bool = True,
            dither: float = 1.0,
            window_type: str = "povey",
            blackman_coeff: float = 0.42,
            round_to_power_of_two: bool = True,
            snip_edges: bool = True,
            allow_downsample: bool = False,
            allow_upsample: bool = False,
            max_feature_vectors: int = -1,
            waveform_scale: float = 1.0,
            energy_floor: float = 0.0,
            raw_energy: bool = True,
            return_raw_fft: bool = False,
        ) -> None: ...


class SpliceConstructor:
    """Constructor of a module configured by SpliceOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: SpliceOptions | None = None,
            *,
            left_context: int = 4,
            right_context: int = 4,
        ) -> None: ...


class StackFramesConstructor:
    """Constructor of a module configured by StackFramesOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: StackFramesOptions | None = None,
            *,
            size: int = 2,
        ) -> None: ...


class UtteranceCmvnConstructor:
    """Constructor of a module configured by UtteranceCmvnOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: UtteranceCmvnOptions | None = None,
            *,
            norm_vars: bool = False,
            unbiased: bool = False,
            epsilon: float = 0.0,
        ) -> None: ...


class VadConstructor:
    """Constructor of a module configured by VadOptions."""

    if TYPE_CHECKING:

        def __init__(
            self,
            options: VadOptions | None = None,
            *,
            vad_energy_threshold: float = 5.0,
            vad_energy_mean_scale: float = 0.5,
            vad_frames_context: int = 0,
            vad_proportion_threshold: float = 0.6,
        ) -> None: ...
