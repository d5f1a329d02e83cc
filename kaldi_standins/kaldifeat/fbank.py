"""kaldifeat's ``fbank``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import Fbank as Fbank
from kaldi_compat.interop.kaldifeat import FbankOptions as FbankOptions
from kaldi_compat.interop.kaldifeat import OnlineFbank as OnlineFbank
