"""kaldifeat's ``mfcc``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import Mfcc as Mfcc
from kaldi_compat.interop.kaldifeat import MfccOptions as MfccOptions
from kaldi_compat.interop.kaldifeat import OnlineMfcc as OnlineMfcc
