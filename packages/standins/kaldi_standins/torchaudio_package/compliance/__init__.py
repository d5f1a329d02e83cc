"""torchaudio's ``compliance``, whose only module is :mod:`kaldi_standins.torchaudio`."""

from kaldi_standins import torchaudio as kaldi

__all__ = ["kaldi"]
