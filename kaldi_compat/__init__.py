"""Kaldi's signal processing in PyTorch: the same flags, the same numbers, on any device.

The names below are imported when they are first used: ``import kaldi_compat`` imports neither torch nor NumPy.
"""

from __future__ import annotations

__version__ = "1.0.0rc1"

# Maps modules to their public names. ``make generate`` writes the names to __init__.pyi for type checkers and editors.
NAMES = {
    "torch.data.archives": "ArchiveDataset",
    "torch.data.batching": "Batch Posteriors Utterance collate pad unpad",
    "torch.data.ctm": "Word",
    "torch.data.datasets": "FeatureDataset WaveDataset",
    "torch.data.on_device": "FeaturesOnDevice",
    "torch.data.reverberation": "NoiseAndReverberation",
    "torch.data.sampling": "BucketBatchSampler",
    "torch.data.spec_augment": "SpecAugment",
    "dump": "dump",
    "errors": "AudioError FeatureError KaldiCompatError OptionError",
    "exact.rand": "KaldiRandom",
    "torch.export": "export_frontend",
    "torch.features.fbank": "Fbank",
    "torch.features.mfcc": "Mfcc",
    "torch.features.model_input": (
        "CenteredMean Floor GlobalCmvn LowFrameRate PadFrames RepeatedDeltas StackFrames UtteranceCmvn VoicedCmvn"
    ),
    "torch.features.pitch": "Pitch ProcessPitch",
    "torch.features.plp": "Plp",
    "torch.features.postprocessing": "Cmvn Deltas OnlineCmvn ShiftedDeltas SlidingCmvn Splice",
    "torch.features.spectrogram": "Spectrogram",
    "torch.features.resample": "resample_waveform",
    "functional.detection": "eer min_dcf",
    "frontends.preset": "Preset list_presets",
    "options.config": "load_options",
    "options.pitch": "InterpolatePitchOptions PitchOptions ProcessPitchOptions SmoothPitchOptions",
    "options.postprocessing": "CmvnOptions DeltaOptions OnlineCmvnOptions ReverberationOptions ShiftedDeltaOptions "
    "SlidingCmvnOptions SpliceOptions VadOptions",
    "options.spectral": "FbankOptions MfccOptions PlpOptions SpectrogramOptions",
    "pitch.process": "process_pitch",
    "pitch.tracker": "track_pitch",
    "torch.frontend": "Frontend FrontendStream",
    "torch.streaming.base": "StreamChain",
    "torch.streaming.features": "FeatureStream",
    "torch.streaming.pitch": "PitchStream ProcessPitchStream",
    "torch.streaming.postprocessing": "DeltaStream OnlineCmvnStream ShiftedDeltaStream SlidingCmvnStream SpliceStream",
    "torch.streaming.stacking": "LowFrameRateStream StackFramesStream",
}
_MODULE_OF = {name: module for module, names in NAMES.items() for name in names.split()}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> object:
    """Import and return a public name on its first use. If torch is missing, the error says how to install it."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        value: object = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from io_ark.extras import format_missing_package

        advice = format_missing_package("torch", f"kaldi_compat.{name}")
        message = f"{advice}. The features of NumPy arrays need NumPy only: kaldi_compat.numpy"
        if _is_called_by_import():
            raise ModuleNotFoundError(message, name="torch") from None
        raise AttributeError(message) from None
    return globals().setdefault(name, value)  # setdefault keeps the package kaldi_compat.dump.


def _is_called_by_import() -> bool:
    """Return True if the calling ``__getattr__`` was called by ``from kaldi_compat import name``.

    In this case, the error must be a ModuleNotFoundError, because an import statement replaces the message of an
    AttributeError. hasattr(), getattr() with a default and the inspect module expect an AttributeError.
    """
    import sys

    caller = sys._getframe(1).f_back
    # importlib runs such an import statement in a function of this name.
    return caller is not None and caller.f_code.co_name == "_handle_fromlist"


def __dir__() -> list[str]:
    return sorted(__all__)
