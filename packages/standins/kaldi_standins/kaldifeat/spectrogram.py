"""kaldifeat's ``spectrogram``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import Spectrogram as Spectrogram
from kaldi_standins.kaldifeat import SpectrogramOptions as SpectrogramOptions
