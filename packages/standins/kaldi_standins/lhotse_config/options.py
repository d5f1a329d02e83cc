"""Configurations with lhotse's names, order and defaults, generated from kaldi-compat's options.

Type checkers and editors read ``options.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

from typing import Any

from kaldi_compat.options import spectral as ours
from kaldi_standins.kaldifeat.whisper import WhisperMelOptions
from kaldi_standins.lhotse_config.base import (
    THEIR_NAMES,
    Config,
    EnergyConfig,
    LhotseOptions,
    PowerConfig,
    WhisperConfig,
)
from kaldi_standins.named_options import Field, make_fields, make_options_class

EPSILON = 1e-10  # Default of energy_floor in lhotse.
# Descriptions of options, by kaldi-compat's names, where kaldi-compat's own descriptions do not hold.
MEANINGS = {
    "frame_length": "length of a frame, in seconds",
    "frame_shift": "distance from the start of one frame to the start of the next, in seconds",
    "snip_edges": "keep only frames that lie wholly in the audio; False gives the number of frames that lhotse expects",
    "waveform_scale": "factor on the samples, which lie in -1 to 1 in lhotse",
}
DEVICE: Field = ("device", str, "cpu", "device that computes the features")


def _make_fields(our_type: type[Any], *names: str, **defaults: Any) -> list[Field]:
    """Return fields with lhotse's names for options ``names`` of kaldi-compat. ``defaults`` are lhotse's defaults."""
    return make_fields(our_type, *names, meanings=MEANINGS, renamed=THEIR_NAMES, **defaults)


def _make_frame_fields(**defaults: Any) -> list[Field]:
    """Return the fields that all features share: framing, dithering, energy and spectrum.

    ``defaults`` replace lhotse's defaults.
    """
    lhotse_defaults = {"sample_frequency": 16000, "frame_length": 0.025, "frame_shift": 0.01, "dither": 0.0}
    lhotse_defaults |= {"snip_edges": False, "energy_floor": EPSILON, "use_energy": False}
    return [
        *_make_fields(
            ours.FbankOptions,
            *("sample_frequency", "frame_length", "frame_shift", "round_to_power_of_two", "remove_dc_offset"),
            *("preemphasis_coefficient", "window_type", "dither", "snip_edges", "energy_floor", "raw_energy"),
            "use_energy",
            **lhotse_defaults | defaults,
        ),
        ("use_fft_mag", bool, False, "compute magnitudes instead of the power spectrum"),
    ]


def _make_mel_fields(num_mel_bins: int = 23, high_freq: float = -400.0) -> list[Field]:
    """Return the fields for mel bins. The arguments are the defaults of ``num_mel_bins`` and ``high_freq``."""
    defaults = {"num_mel_bins": num_mel_bins, "high_freq": high_freq}
    return [
        *_make_fields(ours.FbankOptions, "low_freq", "high_freq", "num_mel_bins", **defaults),
        ("num_mel_bins", int | None, None, "alias of ``num_filters``"),  # type: ignore[list-item]
        ("norm_filters", bool, False, "must be False"),
        ("torchaudio_compatible_mel_scale", bool, True, "must be True"),
    ]


def _make_kaldi_fields(*names: str, use_energy: bool = True, **mel_defaults: Any) -> list[Field]:
    """Return fields with Kaldi's defaults, except for dithering and ``snip_edges``.

    ``names`` are further options of fbank. If there are any, the result includes the fields for mel bins, in which
    ``mel_defaults`` replace Kaldi's defaults. The argument ``use_energy`` is the default of the option.
    """
    # The samples of lhotse are between -1 and 1. Kaldi's samples have the scale of 16-bit integers.
    scale = _make_fields(ours.FbankOptions, "blackman_coeff", "waveform_scale", waveform_scale=32768.0)
    options = _make_fields(ours.FbankOptions, *names, allow_empty_bins=True)
    return [
        *_make_frame_fields(energy_floor=0.0, use_energy=use_energy),
        *(_make_mel_fields(high_freq=0.0, **mel_defaults) if names else []),
        *scale,
        *options,
    ]


def _make_config(name: str, base: type[LhotseOptions], our_type: type[Any], *fields: Field) -> Any:
    """Return the configuration class of the extractor ``name``. Its options are ``fields`` and the device."""
    docstring = f"Options of :class:`~kaldi_standins.lhotse.{name}`."
    return make_options_class(f"{name}Config", base, docstring, our_type, *fields, DEVICE)


CEPSTRA = _make_fields(ours.MfccOptions, "num_ceps", "cepstral_lifter")
KALDIS_MEL = ("htk_compat", "allow_empty_bins")

FbankConfig = _make_config("Fbank", Config, ours.FbankOptions, *_make_frame_fields(), *_make_mel_fields(80))
MFCC_MEL = _make_mel_fields()
MFCC_MEL.insert(3, MFCC_MEL.pop())  # In lhotse's MfccConfig, the last mel option is the fourth.
MfccConfig = _make_config("Mfcc", PowerConfig, ours.MfccOptions, *_make_frame_fields(), *MFCC_MEL, *CEPSTRA)
SpectrogramConfig = _make_config("Spectrogram", Config, ours.SpectrogramOptions, *_make_frame_fields())
LogSpectrogramConfig = _make_config("LogSpectrogram", Config, ours.SpectrogramOptions, *_make_frame_fields())
WhisperFbankConfig = _make_config(
    "WhisperFbank", WhisperConfig, WhisperMelOptions, ("num_filters", int, 80, "number of mel bins; 128 for large-v3")
)
KaldiFbankConfig = _make_config(
    "KaldiFbank",
    Config,
    ours.FbankOptions,
    *_make_kaldi_fields(*KALDIS_MEL, "use_log_fbank", use_energy=False, num_mel_bins=80),
)
KaldiMfccConfig = _make_config("KaldiMfcc", PowerConfig, ours.MfccOptions, *_make_kaldi_fields(*KALDIS_MEL), *CEPSTRA)
KaldiPlpConfig = _make_config(
    "KaldiPlp",
    PowerConfig,
    ours.PlpOptions,
    *_make_kaldi_fields(*KALDIS_MEL),
    *_make_fields(ours.PlpOptions, "num_ceps", "cepstral_lifter", "lpc_order", "compress_factor", "cepstral_scale"),
)
KaldiSpectrogramConfig = _make_config(
    "KaldiSpectrogram",
    EnergyConfig,
    ours.SpectrogramOptions,
    *_make_kaldi_fields(),
    *_make_fields(ours.SpectrogramOptions, "return_raw_fft"),
)
