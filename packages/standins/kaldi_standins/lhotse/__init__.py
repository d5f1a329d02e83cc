"""lhotse's extractors over ours (extra ``lhotse``), and extractors with Kaldi's defaults.

``Fbank``, ``Mfcc``, ``Spectrogram``, ``LogSpectrogram``, ``WhisperFbank`` and their configurations have lhotse's names,
options, defaults and features. What they store has lhotse's feature types, so that lhotse mixes it anywhere::

    from kaldi_standins.lhotse import Fbank, FbankConfig
    cuts = cuts.compute_and_store_features(Fbank(FbankConfig(num_mel_bins=80)), "data/fbank")

``KaldiFbank``, ``KaldiMfcc``, ``KaldiPlp`` and ``KaldiSpectrogram`` have lhotse's units and Kaldi's features: audio in
-1 to 1 is scaled to 16-bit integers. Importing this module registers them under the names ``kaldi-compat-fbank``,
``-mfcc``, ``-plp`` and ``-spectrogram``, so that lhotse's ``extract`` commands and configurations find them.
"""

import lhotse  # noqa: F401  First, because under the switch lhotse's own modules import the extractors.

from kaldi_standins.lhotse.extractors import *  # noqa: F403  the names that its __all__ lists
from kaldi_standins.lhotse.extractors import __all__  # noqa: F401
