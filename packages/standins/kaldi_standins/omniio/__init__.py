"""API of omniio's ``kaldi``, implemented by io_ark."""

from kaldi_standins.omniio import kaldi

__all__ = ["kaldi"]
