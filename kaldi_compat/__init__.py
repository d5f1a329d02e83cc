"""Kaldi's signal processing in PyTorch: the same flags, the same numbers, on any device.

The names below are imported when they are first used: ``import kaldi_compat`` imports neither torch nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from kaldi_compat.data.batching import Batch as Batch
    from kaldi_compat.data.batching import Utterance as Utterance
    from kaldi_compat.data.batching import collate as collate
    from kaldi_compat.data.batching import pad as pad
    from kaldi_compat.data.batching import unpad as unpad
    from kaldi_compat.data.datasets import ArchiveDataset as ArchiveDataset
    from kaldi_compat.data.datasets import FeatureDataset as FeatureDataset
    from kaldi_compat.data.datasets import FeaturesOnDevice as FeaturesOnDevice
    from kaldi_compat.data.datasets import WaveDataset as WaveDataset
    from kaldi_compat.data.sampling import BucketBatchSampler as BucketBatchSampler
    from kaldi_compat.errors import AudioError as AudioError
    from kaldi_compat.errors import FeatureError as FeatureError
    from kaldi_compat.errors import KaldiCompatError as KaldiCompatError
    from kaldi_compat.errors import OptionError as OptionError
    from kaldi_compat.exact.rand import KaldiRandom as KaldiRandom
    from kaldi_compat.features.fbank import Fbank as Fbank
    from kaldi_compat.features.mfcc import Mfcc as Mfcc
    from kaldi_compat.features.model_input import CenteredMean as CenteredMean
    from kaldi_compat.features.model_input import Floor as Floor
    from kaldi_compat.features.model_input import GlobalCmvn as GlobalCmvn
    from kaldi_compat.features.model_input import LowFrameRate as LowFrameRate
    from kaldi_compat.features.model_input import PadFrames as PadFrames
    from kaldi_compat.features.model_input import StackFrames as StackFrames
    from kaldi_compat.features.model_input import UtteranceCmvn as UtteranceCmvn
    from kaldi_compat.features.pitch import Pitch as Pitch
    from kaldi_compat.features.pitch import ProcessPitch as ProcessPitch
    from kaldi_compat.features.plp import Plp as Plp
    from kaldi_compat.features.postprocessing import Cmvn as Cmvn
    from kaldi_compat.features.postprocessing import Deltas as Deltas
    from kaldi_compat.features.postprocessing import ShiftedDeltas as ShiftedDeltas
    from kaldi_compat.features.postprocessing import SlidingCmvn as SlidingCmvn
    from kaldi_compat.features.postprocessing import Splice as Splice
    from kaldi_compat.features.spectrogram import Spectrogram as Spectrogram
    from kaldi_compat.options.config import load_options as load_options
    from kaldi_compat.options.pitch import InterpolatePitchOptions as InterpolatePitchOptions
    from kaldi_compat.options.pitch import PitchOptions as PitchOptions
    from kaldi_compat.options.pitch import ProcessPitchOptions as ProcessPitchOptions
    from kaldi_compat.options.pitch import SmoothPitchOptions as SmoothPitchOptions
    from kaldi_compat.options.postprocessing import CmvnOptions as CmvnOptions
    from kaldi_compat.options.postprocessing import DeltaOptions as DeltaOptions
    from kaldi_compat.options.postprocessing import ReverberationOptions as ReverberationOptions
    from kaldi_compat.options.postprocessing import ShiftedDeltaOptions as ShiftedDeltaOptions
    from kaldi_compat.options.postprocessing import SlidingCmvnOptions as SlidingCmvnOptions
    from kaldi_compat.options.postprocessing import SpliceOptions as SpliceOptions
    from kaldi_compat.options.postprocessing import VadOptions as VadOptions
    from kaldi_compat.options.spectral import FbankOptions as FbankOptions
    from kaldi_compat.options.spectral import MfccOptions as MfccOptions
    from kaldi_compat.options.spectral import PlpOptions as PlpOptions
    from kaldi_compat.options.spectral import SpectrogramOptions as SpectrogramOptions
    from kaldi_compat.pitch.process import process_pitch as process_pitch
    from kaldi_compat.pitch.tracker import track_pitch as track_pitch
    from kaldi_compat.streaming.features import DeltaStream as DeltaStream
    from kaldi_compat.streaming.features import FeatureStream as FeatureStream
    from kaldi_compat.streaming.features import ShiftedDeltaStream as ShiftedDeltaStream
    from kaldi_compat.streaming.features import SlidingCmvnStream as SlidingCmvnStream
    from kaldi_compat.streaming.features import SpliceStream as SpliceStream
    from kaldi_compat.streaming.features import StreamChain as StreamChain
    from kaldi_compat.streaming.pitch import PitchStream as PitchStream
    from kaldi_compat.streaming.pitch import ProcessPitchStream as ProcessPitchStream
    from kaldi_compat.streaming.stacking import LowFrameRateStream as LowFrameRateStream
    from kaldi_compat.streaming.stacking import StackFramesStream as StackFramesStream
    from kaldi_compat.tensors.resample import resample_waveform as resample_waveform

# The same names by module. tests/kaldi_compat/test_public_names.py compares the two lists.
_NAMES_OF = {
    "data.batching": (
        "Batch",
        "Utterance",
        "collate",
        "pad",
        "unpad",
    ),
    "data.datasets": (
        "ArchiveDataset",
        "FeatureDataset",
        "FeaturesOnDevice",
        "WaveDataset",
    ),
    "data.sampling": ("BucketBatchSampler",),
    "errors": (
        "AudioError",
        "FeatureError",
        "KaldiCompatError",
        "OptionError",
    ),
    "exact.rand": ("KaldiRandom",),
    "features.fbank": ("Fbank",),
    "features.mfcc": ("Mfcc",),
    "features.model_input": (
        "CenteredMean",
        "Floor",
        "GlobalCmvn",
        "LowFrameRate",
        "PadFrames",
        "StackFrames",
        "UtteranceCmvn",
    ),
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
    "tensors.resample": ("resample_waveform",),
    "options.config": ("load_options",),
    "options.pitch": (
        "InterpolatePitchOptions",
        "PitchOptions",
        "ProcessPitchOptions",
        "SmoothPitchOptions",
    ),
    "options.postprocessing": (
        "CmvnOptions",
        "DeltaOptions",
        "ReverberationOptions",
        "ShiftedDeltaOptions",
        "SlidingCmvnOptions",
        "SpliceOptions",
        "VadOptions",
    ),
    "options.spectral": (
        "FbankOptions",
        "MfccOptions",
        "PlpOptions",
        "SpectrogramOptions",
    ),
    "pitch.process": ("process_pitch",),
    "pitch.tracker": ("track_pitch",),
    "streaming.features": (
        "DeltaStream",
        "FeatureStream",
        "ShiftedDeltaStream",
        "SlidingCmvnStream",
        "SpliceStream",
        "StreamChain",
    ),
    "streaming.pitch": (
        "PitchStream",
        "ProcessPitchStream",
    ),
    "streaming.stacking": (
        "LowFrameRateStream",
        "StackFramesStream",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        value: object = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from io_ark.extras import missing

        raise ModuleNotFoundError(
            f"{missing('torch', f'kaldi_compat.{name}')}. The features of NumPy arrays need NumPy only: "
            "kaldi_compat.features.numpy",
            name="torch",
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
