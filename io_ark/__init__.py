"""Read and write Kaldi's archives and script files with NumPy.

:func:`load`, :func:`read`, :func:`load_scp` and :func:`writer` detect the type from the data. The typed readers and
writers enforce a type: :class:`SequentialReader`, :class:`RandomAccessReader`, :class:`Writer`, :func:`read_object` and
:func:`write_object` take the name of a kind of object (see :mod:`io_ark.codecs`). :mod:`kaldi_standins.kaldi` offers
them under Kaldi's names, and :mod:`kaldi_standins.kaldiio` offers kaldiio's functions.
"""

import sys

from io_ark.api import load, load_scp, read, writer
from io_ark.codecs.kinds import Kind
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.data_dir import Segment, load_segments, load_spk2utt, load_text, load_utt2spk
from io_ark.errors import ArkError
from io_ark.specifier import (
    classify_rspecifier,
    classify_wspecifier,
    is_table_rspecifier,
    is_table_wspecifier,
)
from io_ark.tables.loader import read_object, write_object
from io_ark.tables.readers import RandomAccessReader, SequentialReader
from io_ark.tables.writers import Writer

__version__ = "1.0.0rc1"

if sys.byteorder != "little":
    raise ImportError(
        "io_ark supports little-endian processors only: on this one it would read and write wrong numbers"
    )

__all__ = [
    "ArkError",
    "Kind",
    "RandomAccessReader",
    "Segment",
    "SequentialReader",
    "Wave",
    "WaveInfo",
    "Writer",
    "__version__",
    "classify_rspecifier",
    "classify_wspecifier",
    "is_table_rspecifier",
    "is_table_wspecifier",
    "load",
    "load_scp",
    "load_segments",
    "load_spk2utt",
    "load_text",
    "load_utt2spk",
    "read",
    "read_object",
    "write_object",
    "writer",
]


def __dir__() -> list[str]:
    return __all__
