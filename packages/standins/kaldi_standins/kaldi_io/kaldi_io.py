"""Module for ``from kaldi_io.kaldi_io import ...``. See :mod:`kaldi_standins.kaldi_io`."""

from kaldi_standins.kaldi_io import *  # noqa: F403  the names that its __all__ lists
from kaldi_standins.kaldi_io import (  # noqa: F401  names that public code imports
    _read_compressed_mat,
    _read_mat_ascii,
    _read_mat_binary,
    _read_vec_flt_binary,
)
