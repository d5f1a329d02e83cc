"""kaldifeat's ``mfcc``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import Mfcc as Mfcc
from kaldi_standins.kaldifeat import MfccOptions as MfccOptions
from kaldi_standins.kaldifeat import OnlineMfcc as OnlineMfcc
