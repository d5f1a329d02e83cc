"""kaldifeat's ``whisper_fbank``: see :mod:`kaldi_standins.kaldifeat`."""

from kaldi_standins.kaldifeat import WhisperFbank as WhisperFbank
from kaldi_standins.kaldifeat import WhisperFbankOptions as WhisperFbankOptions
