"""Options with kaldifeat's names, order and defaults, generated from kaldi-compat's options.

Type checkers and editors read ``options.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

from typing import Any

import torch

from kaldi_compat.options import spectral as ours
from kaldi_standins.kaldifeat.base import FeatureOptions, Options, WhisperOptions
from kaldi_standins.kaldifeat.whisper import WhisperMelOptions
from kaldi_standins.named_options import make_fields, make_options_class

# Descriptions of options, by kaldi-compat's names, where kaldi-compat's own descriptions do not hold.
MEANINGS = {"max_feature_vectors": "number of frames that an online feature keeps; all if -1 or 0"}
ENERGY = ("use_energy", "energy_floor", "raw_energy")


def _make_feature_options(
    name: str, our_type: type[Any], *names: str, base: type = FeatureOptions, group_count: int = 2
) -> Any:
    """Create the options class of the feature ``name``.

    The class has the last ``group_count`` groups of ``_GROUPS``, the options ``names`` of ``our_type``, and the device.
    """
    fields = [*_GROUPS[-group_count:], *make_fields(our_type, *names), _DEVICE]
    return make_options_class(
        f"{name}Options", base, f"Options of :class:`~kaldi_standins.kaldifeat.{name}`.", our_type, *fields
    )


FrameExtractionOptions = make_options_class(
    "FrameExtractionOptions",
    Options,
    "How audio is cut into frames: :class:`~kaldi_compat.options.spectral.FrameOptions` with kaldifeat's names.",
    ours.FrameOptions,
    *make_fields(
        ours.FrameOptions,
        *("sample_frequency", "frame_shift", "frame_length", "dither", "preemphasis_coefficient", "remove_dc_offset"),
        *("window_type", "round_to_power_of_two", "blackman_coeff", "snip_edges", "max_feature_vectors"),
        meanings=MEANINGS,
    ),
)
MelBanksOptions = make_options_class(
    "MelBanksOptions",
    Options,
    "The mel filter bank: :class:`~kaldi_compat.options.spectral.MelFeatureOptions` with kaldifeat's names.",
    ours.MelFeatureOptions,
    *make_fields(
        ours.MelFeatureOptions,
        *("num_mel_bins", "low_freq", "high_freq", "vtln_low", "vtln_high", "debug_mel"),
        num_mel_bins=25,  # The original's default. Options of features use 23.
    ),
    ("htk_mode", bool, False, "drop the first FFT bin of the lowest mel bin, as HTK does if ``low_freq`` is not 0"),
)
_GROUPS = (
    ("mel_opts", MelBanksOptions, lambda: MelBanksOptions(num_bins=23), "the mel filter bank"),
    ("frame_opts", FrameExtractionOptions, FrameExtractionOptions, "how audio is cut into frames"),
)
_DEVICE = ("device", torch.device, lambda: torch.device("cpu"), "device that computes the features")
FbankOptions = _make_feature_options("Fbank", ours.FbankOptions, *ENERGY, "htk_compat", "use_log_fbank", "use_power")
MfccOptions = _make_feature_options("Mfcc", ours.MfccOptions, "num_ceps", *ENERGY, "cepstral_lifter", "htk_compat")
PlpOptions = _make_feature_options(
    "Plp",
    ours.PlpOptions,
    *("lpc_order", "num_ceps", *ENERGY, "compress_factor", "cepstral_lifter", "cepstral_scale", "htk_compat"),
)
SpectrogramOptions = _make_feature_options(
    "Spectrogram", ours.SpectrogramOptions, *ENERGY[1:], "return_raw_fft", group_count=1
)
WhisperFbankOptions = _make_feature_options(
    "WhisperFbank", WhisperMelOptions, "num_mels", base=WhisperOptions, group_count=1
)
