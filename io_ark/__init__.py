"""Read and write Kaldi's archives and script files with NumPy.

:func:`load` and :func:`save` handle one object, :func:`load_scp`, :func:`read` and :func:`writer` tables. They detect
the type from the data, or enforce the type that ``kind`` names (see :mod:`io_ark.codecs`), as
:class:`SequentialReader`, :class:`RandomAccessReader` and :class:`Writer` always do. The name of the file or table
comes first everywhere.
"""

import sys

from io_ark.api import load, load_scp, read, save, writer
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
    "save",
    "writer",
]


def __dir__() -> list[str]:
    return __all__
