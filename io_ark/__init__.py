"""Kaldi's tables on disk, in NumPy."""

from io_ark.errors import ArkError
from io_ark.objects import read_object, write_object
from io_ark.specifier import (
    classify_rspecifier,
    classify_wspecifier,
    is_table_rspecifier,
    is_table_wspecifier,
)
from io_ark.tables import RandomAccessReader, SequentialReader, Writer

__all__ = [
    "ArkError",
    "RandomAccessReader",
    "SequentialReader",
    "Writer",
    "classify_rspecifier",
    "classify_wspecifier",
    "is_table_rspecifier",
    "is_table_wspecifier",
    "read_object",
    "write_object",
]
