"""Convert the configuration of transformers' feature extractors to options of filter banks, without transformers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kaldi_compat.errors import OptionError
from kaldi_compat.options.spectral import FbankOptions

INT16_SCALE = 32768.0  # Factor that scales audio from -1 to 1 to the range of 16-bit integers.


@dataclass(frozen=True)
class FbankSettings:
    """The filter bank of a feature extractor.

    Attributes:
        options: options of :class:`~kaldi_compat.Fbank` for audio on the scale -1 to 1.
        floor: floor of the mel energies before the log; 0 for Kaldi's floor.
    """

    options: FbankOptions
    floor: float = 0.0


Get = Callable[[str, Any], Any]


def _make_settings(
    get: Get, mel_bins: tuple[str, int], sizes: tuple[int, int, int] | None = None, floor: float = 0.0, **options: Any
) -> FbankSettings:
    """Return the filter-bank options of a feature extractor of transformers, read from its settings.

    Args:
        get: function from the name and default of a setting to its value.
        mel_bins: name and default of the setting for the number of mel bins.
        sizes: frame length and frame shift in samples, and number of FFT points. None for Kaldi's defaults.
        floor: see :class:`FbankSettings`.
        options: further options of :class:`~kaldi_compat.Fbank`.
    """
    rate, bins = float(get("sampling_rate", 16000)), int(get(*mel_bins))
    fbank = FbankOptions(**{"num_mel_bins": bins, "sample_frequency": rate, "dither": 0.0, **options})
    return FbankSettings(fbank if sizes is None else _set_frame_size(fbank, *sizes), floor)


def _get_sizes(get: Get) -> tuple[int, int, int]:
    return int(get("win_length", 400)), int(get("hop_length", 160)), int(get("n_fft", 512))


EXTRACTORS: Mapping[str, Callable[[Get], FbankSettings]] = {
    "ASTFeatureExtractor": lambda get: _make_settings(
        get, ("num_mel_bins", 128), window_type="hanning", allow_empty_bins=True
    ),
    "LasrFeatureExtractor": lambda get: _make_settings(
        get,
        ("feature_size", 128),
        _get_sizes(get),
        floor=1e-5,
        window_type="hanning",
        preemphasis_coefficient=0.0,
        remove_dc_offset=False,
        low_freq=125.0,
        high_freq=7500.0,
        allow_empty_bins=True,
    ),
    "Phi4MultimodalFeatureExtractor": lambda get: _make_settings(
        get,
        ("feature_size", 80),
        _get_sizes(get),
        floor=1.0,
        window_type="hamming",
        preemphasis_coefficient=float(get("preemphasis", 0.97)),
        remove_dc_offset=False,
        low_freq=float(get("mel_min_frequency", 0)),
        high_freq=float(get("mel_max_frequency", 7690)),
        waveform_scale=INT16_SCALE,
    ),
    "SeamlessM4TFeatureExtractor": lambda get: _make_settings(
        get, ("num_mel_bins", 80), (400, 160, 512), waveform_scale=INT16_SCALE
    ),
    "Speech2TextFeatureExtractor": lambda get: _make_settings(
        get, ("num_mel_bins", 80), dither=float(get("dither", 0.0)), waveform_scale=INT16_SCALE
    ),
}


def read_fbank_settings(extractor: Any) -> FbankSettings:
    """Return the options of the filter bank that a feature extractor computes before it normalizes, stacks and pads.

    Args:
        extractor: a feature extractor of transformers, a processor that has one, or its configuration: the dictionary
            in ``preprocessor_config.json``.

    Raises:
        OptionError: the extractor does not compute Kaldi's filter bank, or has settings that Kaldi does not have.
    """
    extractor = getattr(extractor, "feature_extractor", extractor)
    if isinstance(extractor, Mapping):
        extractor = extractor.get("feature_extractor", extractor)
        name, get = str(extractor.get("feature_extractor_type", "")), extractor.get
    else:
        name, get = type(extractor).__name__, lambda key, default: getattr(extractor, key, default)
    if name not in EXTRACTORS:
        problem = f"{name} has none" if name else "the configuration has no feature_extractor_type"
        advice = f"pass one of the types {', '.join(EXTRACTORS)}"
        raise OptionError(f"expected a feature extractor with Kaldi's filter bank, but {problem}: {advice}")
    return EXTRACTORS[name](get)


def _set_frame_size(options: FbankOptions, size: int, shift: int, points: int) -> FbankOptions:
    """Return ``options`` with a frame length of ``size`` samples and a frame shift of ``shift`` samples.

    Raises:
        OptionError: Kaldi's FFT for frames of ``size`` samples does not have ``points`` points.
    """
    length_ms, shift_ms = (1000.0 * samples / options.sample_frequency for samples in (size, shift))
    changed = dataclasses.replace(options, frame_length=length_ms, frame_shift=shift_ms)
    # If rounding to float32 has lost a sample, add a thousandth of a sample.
    if (changed.window_size, changed.window_shift) != (size, shift):
        added_ms = 1.0 / options.sample_frequency
        changed = dataclasses.replace(options, frame_length=length_ms + added_ms, frame_shift=shift_ms + added_ms)
    if changed.padded_window_size != points:
        raise OptionError(
            f"n_fft={points} with win_length={size} is not Kaldi's FFT: set n_fft={changed.padded_window_size}"
        )
    return changed
