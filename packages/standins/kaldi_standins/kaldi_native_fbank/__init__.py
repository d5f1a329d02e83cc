"""API of kaldi_native_fbank without PyTorch: options, features and functions.

Code written for kaldi_native_fbank runs after a change of one import::

    import kaldi_standins.kaldi_native_fbank as knf
    opts = knf.FbankOptions()
    opts.frame_opts.dither = 0
    fbank = knf.OnlineFbank(opts)
    fbank.accept_waveform(16000, samples)
    fbank.input_finished()
    features = [fbank.get_frame(i) for i in range(fbank.num_frames_ready)]

Samples may be on any scale: an array, a list or another sequence of numbers. Frames are NumPy arrays (dim,).
"""

from kaldi_standins.kaldi_native_fbank.base import StreamError, WrongOptionError
from kaldi_standins.kaldi_native_fbank.matrices import (
    CmvnAccumulator,
    FeatureTransform,
    apply_cmvn,
    apply_cmvn_,
    compute_cmvn_stats,
    compute_deltas,
    splice_frames,
    transform_features,
)
from kaldi_standins.kaldi_native_fbank.mel import FeatureWindowFunction, MelBanks
from kaldi_standins.kaldi_native_fbank.nemo import OnlineNemoFbank
from kaldi_standins.kaldi_native_fbank.online import (
    OnlineFbank,
    OnlineMfcc,
    OnlineRawAudioSamples,
    OnlineWhisperFbank,
)
from kaldi_standins.kaldi_native_fbank.options import (
    CmvnOptions,
    DeltaOptions,
    FbankOptions,
    FrameExtractionOptions,
    MelBanksOptions,
    MfccOptions,
    NemoFbankOptions,
    PitchExtractionOptions,
    ProcessPitchOptions,
    RawAudioSamplesOptions,
    SpliceOptions,
    StftConfig,
    WhisperFeatureOptions,
)
from kaldi_standins.kaldi_native_fbank.pitch import OnlinePitch, compute_and_process_kaldi_pitch
from kaldi_standins.kaldi_native_fbank.stft import IStft, Rfft, Stft, StftResult

__version__ = "1.23.0"  # Version of kaldi-native-fbank whose names this package has.

__all__ = [
    "CmvnAccumulator", "CmvnOptions", "DeltaOptions", "FbankOptions", "FeatureTransform", "FeatureWindowFunction",
    "FrameExtractionOptions", "IStft", "MelBanks", "MelBanksOptions", "MfccOptions", "NemoFbankOptions",
    "OnlineFbank", "OnlineMfcc", "OnlineNemoFbank", "OnlinePitch", "OnlineRawAudioSamples", "OnlineWhisperFbank",
    "PitchExtractionOptions", "ProcessPitchOptions", "RawAudioSamplesOptions", "Rfft", "SpliceOptions", "Stft",
    "StftConfig", "StftResult", "StreamError", "WhisperFeatureOptions", "WrongOptionError", "apply_cmvn",
    "apply_cmvn_", "compute_and_process_kaldi_pitch", "compute_cmvn_stats", "compute_deltas", "splice_frames",
    "transform_features",
]  # fmt: skip
