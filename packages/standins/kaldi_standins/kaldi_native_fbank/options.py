"""Options with the names, order and defaults of kaldi_native_fbank, generated from kaldi-compat's options.

Type checkers and editors read ``options.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kaldi_compat.options import pitch, postprocessing, spectral
from kaldi_standins.kaldi_native_fbank.base import (
    ListedOptions,
    Options,
    PitchExtractionBase,
    ProcessPitchBase,
    StftBase,
)
from kaldi_standins.named_options import Field, make_fields, make_options_class

ENERGY = ("use_energy", "energy_floor", "raw_energy")
EPSILON = 2.0**-23  # Machine epsilon of float32, the floor of mel energies in Kaldi.
MEANINGS = {"window_type": f"window function; one of {', '.join(spectral.WINDOW_TYPES)}, hann (periodic)"}


def _make_class(name: str, text: str, our_type: type[Any], *fields: Field, base: type = Options) -> Any:
    return make_options_class(name, base, text, our_type, *fields, is_comparable=False)


def _make_feature_class(name: str, our_type: type[Any], *fields: Field, base: type = ListedOptions) -> Any:
    return _make_class(name, f"Options of :class:`Online{name.removesuffix('Options')}`.", our_type, *fields, base=base)


FrameExtractionOptions = _make_class(
    "FrameExtractionOptions",
    "How audio is cut into frames: :class:`~kaldi_compat.options.spectral.FrameOptions` with the original's names.",
    spectral.FrameOptions,
    *make_fields(
        spectral.FrameOptions,
        *("sample_frequency", "frame_shift", "frame_length", "dither", "preemphasis_coefficient", "remove_dc_offset"),
        *("window_type", "round_to_power_of_two", "blackman_coeff", "snip_edges"),
        dither=0.00003,  # Kaldi's 1.0 divided by 32768, for audio in -1 to 1.
        meanings=MEANINGS,
    ),
    base=ListedOptions,
)
MelBanksOptions = _make_class(
    "MelBanksOptions",
    "The mel filter bank: :class:`~kaldi_compat.options.spectral.MelFeatureOptions` with the original's names.",
    spectral.MelFeatureOptions,
    *make_fields(
        spectral.MelFeatureOptions,
        *("num_mel_bins", "low_freq", "high_freq", "vtln_low", "vtln_high", "debug_mel"),
        num_mel_bins=25,  # The original's default. Options of features use 23.
    ),
    ("htk_mode", bool, False, "floor mel energies at 1, and drop the first FFT bin of the lowest mel bin, as HTK does"),
    ("is_librosa", bool, False, "use librosa's filters instead of Kaldi's, usually with ``low_freq`` 0"),
    ("norm", str, "slaney", "scale of librosa's filters: slaney for equal area; empty for equal height"),
    ("use_slaney_mel_scale", bool, True, "use Slaney's mel scale for librosa's filters instead of HTK's"),
    ("floor_to_int_bin", bool, False, "round the edges of librosa's filters down to FFT bins"),
    base=ListedOptions,
)
_FRAMES: Field = ("frame_opts", FrameExtractionOptions, FrameExtractionOptions, "how audio is cut into frames")
_MEL: Field = ("mel_opts", MelBanksOptions, lambda: MelBanksOptions(num_bins=23), "the mel filter bank")
FbankOptions = _make_feature_class(
    "FbankOptions",
    spectral.FbankOptions,
    _FRAMES,
    _MEL,
    *make_fields(spectral.FbankOptions, *ENERGY, "htk_compat", "use_log_fbank"),
    ("use_log_floor", bool, True, "floor energies at ``eps`` before the log, as Kaldi; False adds ``eps``, as NeMo"),
    ("eps", float, EPSILON, "floor of the energies, or constant that is added to them, before the log"),
    *make_fields(spectral.FbankOptions, "use_power"),
)
MfccOptions = _make_feature_class(
    "MfccOptions",
    spectral.MfccOptions,
    _FRAMES,
    _MEL,
    *make_fields(spectral.MfccOptions, "num_ceps", *ENERGY, "cepstral_lifter", "htk_compat"),
    base=Options,
)
WhisperFeatureOptions = _make_class(
    "WhisperFeatureOptions",
    "Options of :class:`OnlineWhisperFbank`, which always uses Whisper's frames and ignores ``frame_opts``.",
    object,
    _FRAMES,
    ("dim", int, 80, "number of mel bins; 128 for large-v3"),
)
RawAudioSamplesOptions = _make_feature_class(
    "RawAudioSamplesOptions",
    spectral.SpectrogramOptions,
    (
        *_FRAMES[:2],
        lambda: FrameExtractionOptions(
            window_type="rectangular", dither=0, preemph_coeff=0, remove_dc_offset=False, round_to_power_of_two=False
        ),
        "how audio is cut into frames, which are not processed further by default",
    ),
)
NemoFbankOptions = _make_feature_class(
    "NemoFbankOptions",
    object,
    *make_fields(spectral.FrameOptions, "sample_frequency", "frame_shift", "frame_length"),
    ("num_mel_bins", int, 80, "number of mel bins"),
    *make_fields(spectral.MelFeatureOptions, "low_freq", "high_freq", low_freq=0.0),
    *make_fields(spectral.FrameOptions, "preemphasis_coefficient"),
    ("buffered_capacity", int, 0, "if this many frames are requested, limit the audio to them; 0 for no limit"),
)
PitchExtractionOptions = _make_class(
    "PitchExtractionOptions",
    "The pitch tracker: :class:`~kaldi_compat.options.pitch.PitchOptions` with the original's names.",
    pitch.PitchOptions,
    *make_fields(
        pitch.PitchOptions,
        *("sample_frequency", "frame_shift", "frame_length", "preemphasis_coefficient", "min_f0", "max_f0"),
        *("soft_min_f0", "penalty_factor", "lowpass_cutoff"),
    ),
    *(("resample_freq", *field[1:]) for field in make_fields(pitch.PitchOptions, "resample_frequency")),
    *make_fields(
        pitch.PitchOptions,
        *("delta_pitch", "nccf_ballast", "lowpass_filter_width", "upsample_filter_width", "max_frames_latency"),
        *("frames_per_chunk", "simulate_first_pass_online", "recompute_frame", "nccf_ballast_online", "snip_edges"),
    ),
    base=PitchExtractionBase,
)
ProcessPitchOptions = _make_class(
    "ProcessPitchOptions",
    "Features computed from a pitch track: :class:`~kaldi_compat.options.pitch.ProcessPitchOptions`.",
    pitch.ProcessPitchOptions,
    *make_fields(pitch.ProcessPitchOptions, *(field.name for field in dataclasses.fields(pitch.ProcessPitchOptions))),
    base=ProcessPitchBase,
)
CmvnOptions = _make_class(
    "CmvnOptions",
    "Options of :func:`apply_cmvn`.",
    postprocessing.CmvnOptions,
    *make_fields(postprocessing.CmvnOptions, "norm_vars", "reverse"),
)
DeltaOptions = _make_class(
    "DeltaOptions",
    "Options of :func:`compute_deltas`.",
    object,
    ("order", int, 2, "order of the highest delta"),
    ("window", int, 2, "number of frames on each side from which a delta is computed"),
)
SpliceOptions = _make_class(
    "SpliceOptions",
    "Options of :func:`splice_frames`.",
    object,
    ("left_context", int, 3, "number of frames that precede each frame"),
    ("right_context", int, 3, "number of frames that follow each frame"),
)
StftConfig = _make_class(
    "StftConfig",
    "Options of :class:`Stft` and :class:`IStft`.",
    object,
    ("n_fft", int, dataclasses.MISSING, "number of FFT points, which must be even"),
    ("hop_length", int, dataclasses.MISSING, "samples from the start of one frame to the start of the next"),
    ("win_length", int, dataclasses.MISSING, "length of the window in samples"),
    ("window_type", str, "", "window function, such as hann; no window if empty"),
    ("center", bool, True, "pad the audio by ``n_fft // 2`` samples at both ends"),
    ("pad_mode", str, "reflect", "reflect, replicate or constant (zeros)"),
    ("normalized", bool, False, "scale the spectrum by ``1 / sqrt(n_fft)``"),
    ("window", list, list, "samples of the window, which replaces ``window_type``"),
    base=StftBase,
)
