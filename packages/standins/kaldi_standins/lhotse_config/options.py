"""Configurations with lhotse's names, order and defaults, made of our options.

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
from kaldi_standins.named_options import Field, fields_of, options_class

EPSILON = 1e-10  # lhotse's
# What an option of ours means here, where that differs.
MEANINGS = {
    "frame_length": "length of a frame, in seconds",
    "frame_shift": "distance from the start of one frame to the start of the next, in seconds",
    "snip_edges": "keep only frames that lie wholly in the audio; False gives the number of frames that lhotse expects",
    "waveform_scale": "factor on the samples, which lie in -1 to 1 in lhotse",
}
DEVICE: Field = ("device", str, "cpu", "device that computes the features")


def _fields(our_type: type[Any], *names: str, **defaults: Any) -> list[Field]:
    return fields_of(our_type, *names, meanings=MEANINGS, renamed=THEIR_NAMES, **defaults)


def _frames(**defaults: Any) -> list[Field]:
    lhotses = {"sample_frequency": 16000, "frame_length": 0.025, "frame_shift": 0.01, "dither": 0.0}
    lhotses |= {"snip_edges": False, "energy_floor": EPSILON, "use_energy": False}
    return [
        *_fields(
            ours.FbankOptions,
            *("sample_frequency", "frame_length", "frame_shift", "round_to_power_of_two", "remove_dc_offset"),
            *("preemphasis_coefficient", "window_type", "dither", "snip_edges", "energy_floor", "raw_energy"),
            "use_energy",
            **lhotses | defaults,
        ),
        ("use_fft_mag", bool, False, "magnitudes, not the power spectrum"),
        DEVICE,
    ]


def _mel(num_mel_bins: int = 23, high_freq: float = -400.0) -> list[Field]:
    own = {"num_mel_bins": num_mel_bins, "high_freq": high_freq}
    return [
        *_fields(ours.FbankOptions, "low_freq", "high_freq", "num_mel_bins", **own),
        ("num_mel_bins", int | None, None, "another name of ``num_filters``"),  # type: ignore[list-item]
        ("norm_filters", bool, False, "only False"),
        ("torchaudio_compatible_mel_scale", bool, True, "only True"),
    ]


def _kaldis(*names: str, energy: bool = True, **mel: Any) -> list[Field]:
    """Return the fields with Kaldi's defaults, but for dithering and ``snip_edges``."""
    scale = _fields(ours.FbankOptions, "blackman_coeff", "waveform_scale", waveform_scale=32768.0)
    options = _fields(ours.FbankOptions, *names, allow_empty_bins=True)
    return [
        *_frames(energy_floor=0.0, use_energy=energy),
        *(_mel(high_freq=0.0, **mel) if names else []),
        *scale,
        *options,
    ]


def _config(name: str, base: type[LhotseOptions], our_type: type[Any], *fields: Field) -> Any:
    text = f"Options of :class:`~kaldi_standins.lhotse.{name}`."
    return options_class(f"{name}Config", base, text, our_type, *fields)


CEPSTRA = _fields(ours.MfccOptions, "num_ceps", "cepstral_lifter")
KALDIS_MEL = ("htk_compat", "allow_empty_bins")

FbankConfig = _config("Fbank", Config, ours.FbankOptions, *_frames(), *_mel(80))
MfccConfig = _config("Mfcc", PowerConfig, ours.MfccOptions, *_frames(), *_mel(), *CEPSTRA)
SpectrogramConfig = _config("Spectrogram", Config, ours.SpectrogramOptions, *_frames())
LogSpectrogramConfig = _config("LogSpectrogram", Config, ours.SpectrogramOptions, *_frames())
WhisperFbankConfig = _config(
    "WhisperFbank",
    WhisperConfig,
    WhisperMelOptions,
    ("num_filters", int, 80, "number of mel bins; 128 for large-v3"),
    DEVICE,
)
KaldiFbankConfig = _config(
    "KaldiFbank",
    Config,
    ours.FbankOptions,
    *_kaldis(*KALDIS_MEL, "use_log_fbank", energy=False, num_mel_bins=80),
)
KaldiMfccConfig = _config("KaldiMfcc", PowerConfig, ours.MfccOptions, *_kaldis(*KALDIS_MEL), *CEPSTRA)
KaldiPlpConfig = _config(
    "KaldiPlp",
    PowerConfig,
    ours.PlpOptions,
    *_kaldis(*KALDIS_MEL),
    *_fields(ours.PlpOptions, "num_ceps", "cepstral_lifter", "lpc_order", "compress_factor", "cepstral_scale"),
)
KaldiSpectrogramConfig = _config(
    "KaldiSpectrogram",
    EnergyConfig,
    ours.SpectrogramOptions,
    *_kaldis(),
    *_fields(ours.SpectrogramOptions, "return_raw_fft"),
)
