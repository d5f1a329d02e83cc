"""kaldifeat's ``mfcc``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import Mfcc, MfccOptions, OnlineMfcc

__all__ = ["Mfcc", "MfccOptions", "OnlineMfcc"]
