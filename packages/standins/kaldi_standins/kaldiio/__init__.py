"""API of kaldiio, implemented by io_ark: replace ``import kaldiio`` with ``from kaldi_standins import kaldiio``.

The submodules ``matio``, ``highlevel``, ``utils``, ``wavio`` and ``compression_header`` also have kaldiio's names.
Arguments and results have kaldiio's shapes (audio is ``(rate, samples)``, with samples of shape ``(samples,)`` or
``(samples, channels)``). Errors come from :mod:`io_ark.errors`. docs/migrating/kaldiio.md lists the differences.
"""

from kaldi_standins.kaldiio.highlevel import ReadHelper, WriteHelper
from kaldi_standins.kaldiio.matio import (
    load_ark,
    load_mat,
    load_scp,
    load_scp_sequential,
    load_wav_scp,
    save_ark,
    save_mat,
)
from kaldi_standins.kaldiio.utils import open_like_kaldi, parse_specifier

__version__ = "2.18.1"  # Version of kaldiio whose behavior this package has.

__all__ = [
    "ReadHelper",
    "WriteHelper",
    "__version__",
    "load_ark",
    "load_mat",
    "load_scp",
    "load_scp_sequential",
    "load_wav_scp",
    "open_like_kaldi",
    "parse_specifier",
    "save_ark",
    "save_mat",
]
