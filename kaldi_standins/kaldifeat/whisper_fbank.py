"""kaldifeat's ``whisper_fbank``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import WhisperFbank as WhisperFbank
from kaldi_compat.interop.kaldifeat import WhisperFbankOptions as WhisperFbankOptions
