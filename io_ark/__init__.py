"""Kaldi's tables on disk, in NumPy: archives and script files, read and written with Kaldi's rules and bytes.

The casual face tells the type from the bytes: :func:`load`, :func:`read`, :func:`load_scp`, :func:`writer`. The other
one is told it: :class:`SequentialReader`, :class:`RandomAccessReader`, :class:`Writer`, :func:`read_object` and
:func:`write_object` take the name of a kind of object (:mod:`io_ark.codecs`); :mod:`io_ark.interop.kaldi` has them under
Kaldi's names, and :mod:`io_ark.interop.kaldiio` under kaldiio's.
"""

from io_ark.api import load, load_scp, read, writer
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

__all__ = [
    "ArkError",
    "RandomAccessReader",
    "Segment",
    "SequentialReader",
    "Wave",
    "WaveInfo",
    "Writer",
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
