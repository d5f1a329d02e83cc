# Written by `make generate`: do not edit.
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
from kaldi_compat.features.resample import resample_waveform as resample_waveform
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

NAMES: dict[str, str]
_MODULE_OF: dict[str, str]
__version__: str
__all__: list[str]
