"""API of omniio's ``kaldi``, implemented by io_ark."""

from io_ark.interop.omniio import kaldi

__all__ = ["kaldi"]
