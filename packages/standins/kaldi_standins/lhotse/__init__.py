"""Stand-ins for lhotse's extractors, and extractors with Kaldi's defaults. They need the extra ``lhotse``.

``Fbank``, ``Mfcc``, ``Spectrogram``, ``LogSpectrogram``, ``WhisperFbank`` and their configurations have lhotse's names,
options, defaults and features. Stored features have lhotse's feature types, so that lhotse without the stand-ins can
mix them::

    from kaldi_standins.lhotse import Fbank, FbankConfig
    cuts = cuts.compute_and_store_features(Fbank(FbankConfig(num_mel_bins=80)), "data/fbank")

``KaldiFbank``, ``KaldiMfcc``, ``KaldiPlp`` and ``KaldiSpectrogram`` have lhotse's units and compute Kaldi's features:
audio in -1 to 1 is scaled to 16-bit integers. Importing this module registers the names ``kaldi-compat-fbank``,
``kaldi-compat-mfcc``, ``kaldi-compat-plp`` and ``kaldi-compat-spectrogram`` for lhotse's ``extract`` commands and
configurations.
"""

import lhotse  # noqa: F401  Imported first, because a replaced lhotse imports the extractors itself.

from kaldi_standins.lhotse.extractors import *  # noqa: F403  __all__ lists the names.
from kaldi_standins.lhotse.extractors import __all__  # noqa: F401
