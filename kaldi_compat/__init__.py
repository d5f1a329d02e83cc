"""Kaldi's signal processing in PyTorch: the same flags, the same numbers, on any device.

The names below are imported when they are first used: ``import kaldi_compat`` imports neither torch nor NumPy.
"""

from __future__ import annotations

__version__ = "1.0.0rc1"

# The public names of each module. ``make generate`` writes them to __init__.pyi, for type checkers and editors.
NAMES = {
    "data.archives": "ArchiveDataset",
    "data.batching": "Batch Posteriors Utterance collate pad unpad",
    "data.ctm": "Word",
    "data.datasets": "FeatureDataset WaveDataset",
    "data.on_device": "FeaturesOnDevice",
    "data.reverberation": "NoiseAndReverberation",
    "data.sampling": "BucketBatchSampler",
    "data.spec_augment": "SpecAugment",
    "errors": "AudioError FeatureError KaldiCompatError OptionError",
    "exact.rand": "KaldiRandom",
    "features.fbank": "Fbank",
    "features.mfcc": "Mfcc",
    "features.model_input": (
        "CenteredMean Floor GlobalCmvn LowFrameRate PadFrames RepeatedDeltas StackFrames UtteranceCmvn VoicedCmvn"
    ),
    "features.pitch": "Pitch ProcessPitch",
    "features.plp": "Plp",
    "features.postprocessing": "Cmvn Deltas OnlineCmvn ShiftedDeltas SlidingCmvn Splice",
    "features.spectrogram": "Spectrogram",
    "features.resample": "resample_waveform",
    "frontends.conform": "Scorecard conform",
    "frontends.explanation": "Explanation explain",
    "options.config": "load_options",
    "options.pitch": "InterpolatePitchOptions PitchOptions ProcessPitchOptions SmoothPitchOptions",
    "options.postprocessing": "CmvnOptions DeltaOptions OnlineCmvnOptions ReverberationOptions ShiftedDeltaOptions "
    "SlidingCmvnOptions SpliceOptions VadOptions",
    "options.spectral": "FbankOptions MfccOptions PlpOptions SpectrogramOptions",
    "pitch.process": "process_pitch",
    "pitch.tracker": "track_pitch",
    "streaming.base": "StreamChain",
    "streaming.features": "FeatureStream",
    "streaming.pitch": "PitchStream ProcessPitchStream",
    "streaming.postprocessing": "DeltaStream OnlineCmvnStream ShiftedDeltaStream SlidingCmvnStream SpliceStream",
    "streaming.stacking": "LowFrameRateStream StackFramesStream",
}
_MODULE_OF = {name: module for module, names in NAMES.items() for name in names.split()}
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
