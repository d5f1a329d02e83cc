"""Module for ``from kaldi_io.kaldi_io import ...``. See :mod:`kaldi_standins.kaldi_io`."""

from kaldi_standins.kaldi_io import *  # noqa: F403  __all__ lists the names.
from kaldi_standins.kaldi_io import (  # noqa: F401  Public code imports these names.
    _read_compressed_mat,
    _read_mat_ascii,
    _read_mat_binary,
    _read_vec_flt_binary,
)
