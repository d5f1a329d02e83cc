"""Kaldi's signal processing in PyTorch: the same flags, the same numbers, on any device.

What is named here is loaded when it is first used, so that ``import kaldi_compat`` does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kaldi_compat.errors import AudioError as AudioError
    from kaldi_compat.errors import FeatureError as FeatureError
    from kaldi_compat.errors import KaldiCompatError as KaldiCompatError
    from kaldi_compat.errors import OptionError as OptionError
    from kaldi_compat.exact.rand import KaldiRandom as KaldiRandom
    from kaldi_compat.features.fbank import Fbank as Fbank
    from kaldi_compat.features.mfcc import Mfcc as Mfcc
    from kaldi_compat.features.pitch import Pitch as Pitch
    from kaldi_compat.features.pitch import ProcessPitch as ProcessPitch
    from kaldi_compat.features.plp import Plp as Plp
    from kaldi_compat.features.postprocessing import Cmvn as Cmvn
    from kaldi_compat.features.postprocessing import Deltas as Deltas
    from kaldi_compat.features.postprocessing import ShiftedDeltas as ShiftedDeltas
    from kaldi_compat.features.postprocessing import SlidingCmvn as SlidingCmvn
    from kaldi_compat.features.postprocessing import Splice as Splice
    from kaldi_compat.features.spectrogram import Spectrogram as Spectrogram
    from kaldi_compat.functional.resample import resample_waveform as resample_waveform
    from kaldi_compat.options.config import load_options as load_options
    from kaldi_compat.options.pitch import PitchOptions as PitchOptions
    from kaldi_compat.options.pitch import ProcessPitchOptions as ProcessPitchOptions
    from kaldi_compat.options.spectral import FbankOptions as FbankOptions
    from kaldi_compat.options.spectral import MfccOptions as MfccOptions
    from kaldi_compat.options.spectral import PlpOptions as PlpOptions
    from kaldi_compat.options.spectral import SpectrogramOptions as SpectrogramOptions
    from kaldi_compat.pitch.process import process_pitch as process_pitch
    from kaldi_compat.pitch.tracker import track_pitch as track_pitch

_NAMES_OF = {
    "errors": (
        "AudioError",
        "FeatureError",
        "KaldiCompatError",
        "OptionError",
    ),
    "exact.rand": ("KaldiRandom",),
    "features.fbank": ("Fbank",),
    "features.mfcc": ("Mfcc",),
    "features.pitch": (
        "Pitch",
        "ProcessPitch",
    ),
    "features.plp": ("Plp",),
    "features.postprocessing": (
        "Cmvn",
        "Deltas",
        "ShiftedDeltas",
        "SlidingCmvn",
        "Splice",
    ),
    "features.spectrogram": ("Spectrogram",),
    "functional.resample": ("resample_waveform",),
    "options.config": ("load_options",),
    "options.pitch": (
        "PitchOptions",
        "ProcessPitchOptions",
    ),
    "options.spectral": (
        "FbankOptions",
        "MfccOptions",
        "PlpOptions",
        "SpectrogramOptions",
    ),
    "pitch.process": ("process_pitch",),
    "pitch.tracker": ("track_pitch",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
