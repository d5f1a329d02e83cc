"""torchaudio's ``compliance``, whose only module is :mod:`kaldi_compat.interop.torchaudio`."""

from kaldi_compat.interop import torchaudio as kaldi

__all__ = ["kaldi"]
