"""kaldifeat's ``fbank``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import Fbank as Fbank
from kaldi_standins.kaldifeat import FbankOptions as FbankOptions
from kaldi_standins.kaldifeat import OnlineFbank as OnlineFbank
