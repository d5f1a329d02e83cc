"""Stand-ins: modules with the interfaces of other libraries, implemented by io_ark and kaldi_compat.

There are stand-ins for torchaudio, kaldifeat, kaldi_native_fbank, lhotse, transformers, kaldiio, kaldi_native_io,
kaldi_io, kaldi_python_io and omniio. :func:`install` puts all except for transformers in place of the libraries
themselves, as ``python -m kaldi_standins replace`` does.
"""

from kaldi_standins.replace import install

__all__ = ["install"]
