"""kaldifeat's options, with its names, order and defaults, made of ours. See :mod:`kaldi_standins.kaldifeat`.

Type checkers and editors read ``options.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

from typing import Any

import torch

from kaldi_compat.options import spectral as ours
from kaldi_standins.kaldifeat.base import FeatureOptions, Options, WhisperOptions
from kaldi_standins.kaldifeat.whisper import WhisperMelOptions
from kaldi_standins.named_options import fields_of, options_class

# What an option of ours means here, where that differs.
MEANINGS = {"max_feature_vectors": "number of frames that an online feature keeps; all if -1 or 0"}
ENERGY = ("use_energy", "energy_floor", "raw_energy")


def _feature(name: str, our_type: type[Any], *names: str, base: type = FeatureOptions, groups: int = 2) -> Any:
    fields = [*_GROUPS[-groups:], *fields_of(our_type, *names), _DEVICE]
    return options_class(
        f"{name}Options", base, f"Options of :class:`~kaldi_standins.kaldifeat.{name}`.", our_type, *fields
    )


FrameExtractionOptions = options_class(
    "FrameExtractionOptions",
    Options,
    "How audio is cut into frames: :class:`~kaldi_compat.options.spectral.FrameOptions` with kaldifeat's names.",
    ours.FrameOptions,
    *fields_of(
        ours.FrameOptions,
        *("sample_frequency", "frame_shift", "frame_length", "dither", "preemphasis_coefficient", "remove_dc_offset"),
        *("window_type", "round_to_power_of_two", "blackman_coeff", "snip_edges", "max_feature_vectors"),
        meanings=MEANINGS,
    ),
)
MelBanksOptions = options_class(
    "MelBanksOptions",
    Options,
    "The mel filter bank: :class:`~kaldi_compat.options.spectral.MelOptions` with kaldifeat's names.",
    ours.MelOptions,
    *fields_of(
        ours.MelOptions,
        *("num_mel_bins", "low_freq", "high_freq", "vtln_low", "vtln_high", "debug_mel"),
        num_mel_bins=25,  # but 23 in the defaults of the features
    ),
    ("htk_mode", bool, False, "drop the first FFT bin of the lowest mel bin, as HTK does if ``low_freq`` is not 0"),
)
_GROUPS = (
    ("mel_opts", MelBanksOptions, lambda: MelBanksOptions(num_bins=23), "the mel filter bank"),
    ("frame_opts", FrameExtractionOptions, FrameExtractionOptions, "how audio is cut into frames"),
)
_DEVICE = ("device", torch.device, lambda: torch.device("cpu"), "device that computes the features")
FbankOptions = _feature("Fbank", ours.FbankOptions, *ENERGY, "htk_compat", "use_log_fbank", "use_power")
MfccOptions = _feature("Mfcc", ours.MfccOptions, "num_ceps", *ENERGY, "cepstral_lifter", "htk_compat")
PlpOptions = _feature(
    "Plp",
    ours.PlpOptions,
    *("lpc_order", "num_ceps", *ENERGY, "compress_factor", "cepstral_lifter", "cepstral_scale", "htk_compat"),
)
SpectrogramOptions = _feature("Spectrogram", ours.SpectrogramOptions, *ENERGY[1:], "return_raw_fft", groups=1)
WhisperFbankOptions = _feature("WhisperFbank", WhisperMelOptions, "num_mels", base=WhisperOptions, groups=1)
