"""kaldifeat's ``fbank``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import Fbank, FbankOptions, OnlineFbank

__all__ = ["Fbank", "FbankOptions", "OnlineFbank"]
