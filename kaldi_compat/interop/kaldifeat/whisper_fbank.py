"""kaldifeat's ``whisper_fbank``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import WhisperFbank, WhisperFbankOptions

__all__ = ["WhisperFbank", "WhisperFbankOptions"]
