"""APIs of other libraries: torchaudio, kaldifeat, kaldi_native_fbank, lhotse and transformers.

:func:`install` puts them, and those of :mod:`io_ark.interop`, in place of the libraries themselves.
"""

from kaldi_compat.interop.replace import install

__all__ = ["install"]
