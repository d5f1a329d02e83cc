"""kaldifeat's ``spectrogram``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import Spectrogram as Spectrogram
from kaldi_compat.interop.kaldifeat import SpectrogramOptions as SpectrogramOptions
