"""omniio's names over io_ark: ``kaldi``, its part that stands in for kaldiio."""

from io_ark.interop.omniio import kaldi

__all__ = ["kaldi"]
