# Written by `make generate`: do not edit.
from collections.abc import Callable
from typing import Any

from kaldi_standins.kaldi_native_io.kinds import CompressedMatrixWriter as CompressedMatrixWriter, Row
from kaldi_standins.kaldi_native_io.tables import RandomAccessTableReader, SequentialTableReader, TableWriter
from kaldi_standins.kaldi_native_io.values import WaveData, WaveInfo

def describe_classes(row: Row) -> dict[str, tuple[type, str]]: ...
def make_reading_function(row: Row) -> Callable[..., Any]: ...

class SequentialInt32Reader(SequentialTableReader):
    """Reads a table of values of type int."""

class RandomAccessInt32Reader(RandomAccessTableReader):
    """Looks up values of type int by key."""

class Int32Writer(TableWriter):
    """Writes a table of values of type int."""

class SequentialInt32VectorReader(SequentialTableReader):
    """Reads a table of values of type list of int."""

class RandomAccessInt32VectorReader(RandomAccessTableReader):
    """Looks up values of type list of int by key."""

class Int32VectorWriter(TableWriter):
    """Writes a table of values of type list of int."""

class SequentialBlobReader(SequentialTableReader):
    """Reads a table of values of type bytes."""

class RandomAccessBlobReader(RandomAccessTableReader):
    """Looks up values of type bytes by key."""

class BlobWriter(TableWriter):
    """Writes a table of values of type bytes."""

class SequentialInt8VectorReader(SequentialTableReader):
    """Reads a table of values of type list of int."""

class RandomAccessInt8VectorReader(RandomAccessTableReader):
    """Looks up values of type list of int by key."""

class Int8VectorWriter(TableWriter):
    """Writes a table of values of type list of int."""

class SequentialInt32VectorVectorReader(SequentialTableReader):
    """Reads a table of values of type list of lists of int."""

class RandomAccessInt32VectorVectorReader(RandomAccessTableReader):
    """Looks up values of type list of lists of int by key."""

class Int32VectorVectorWriter(TableWriter):
    """Writes a table of values of type list of lists of int."""

class SequentialInt32PairVectorReader(SequentialTableReader):
    """Reads a table of values of type list of pairs of int."""

class RandomAccessInt32PairVectorReader(RandomAccessTableReader):
    """Looks up values of type list of pairs of int by key."""

class Int32PairVectorWriter(TableWriter):
    """Writes a table of values of type list of pairs of int."""

class SequentialFloatReader(SequentialTableReader):
    """Reads a table of values of type float."""

class RandomAccessFloatReader(RandomAccessTableReader):
    """Looks up values of type float by key."""

class FloatWriter(TableWriter):
    """Writes a table of values of type float."""

class SequentialFloatPairVectorReader(SequentialTableReader):
    """Reads a table of values of type list of pairs of float."""

class RandomAccessFloatPairVectorReader(RandomAccessTableReader):
    """Looks up values of type list of pairs of float by key."""

class FloatPairVectorWriter(TableWriter):
    """Writes a table of values of type list of pairs of float."""

class SequentialDoubleReader(SequentialTableReader):
    """Reads a table of values of type float."""

class RandomAccessDoubleReader(RandomAccessTableReader):
    """Looks up values of type float by key."""

class DoubleWriter(TableWriter):
    """Writes a table of values of type float."""

class SequentialBoolReader(SequentialTableReader):
    """Reads a table of values of type bool."""

class RandomAccessBoolReader(RandomAccessTableReader):
    """Looks up values of type bool by key."""

class BoolWriter(TableWriter):
    """Writes a table of values of type bool."""

class SequentialTokenReader(SequentialTableReader):
    """Reads a table of values of type str."""

class RandomAccessTokenReader(RandomAccessTableReader):
    """Looks up values of type str by key."""

class TokenWriter(TableWriter):
    """Writes a table of values of type str."""

class SequentialTokenVectorReader(SequentialTableReader):
    """Reads a table of values of type list of str."""

class RandomAccessTokenVectorReader(RandomAccessTableReader):
    """Looks up values of type list of str by key."""

class TokenVectorWriter(TableWriter):
    """Writes a table of values of type list of str."""

class SequentialFloatVectorReader(SequentialTableReader):
    """Reads a table of values of type float32 array of shape (size,)."""

class RandomAccessFloatVectorReader(RandomAccessTableReader):
    """Looks up values of type float32 array of shape (size,) by key."""

class FloatVectorWriter(TableWriter):
    """Writes a table of values of type float32 array of shape (size,)."""

class SequentialDoubleVectorReader(SequentialTableReader):
    """Reads a table of values of type float64 array of shape (size,)."""

class RandomAccessDoubleVectorReader(RandomAccessTableReader):
    """Looks up values of type float64 array of shape (size,) by key."""

class DoubleVectorWriter(TableWriter):
    """Writes a table of values of type float64 array of shape (size,)."""

class SequentialFloatMatrixReader(SequentialTableReader):
    """Reads a table of values of type float32 array of shape (rows, columns)."""

class RandomAccessFloatMatrixReader(RandomAccessTableReader):
    """Looks up values of type float32 array of shape (rows, columns) by key."""

class FloatMatrixWriter(TableWriter):
    """Writes a table of values of type float32 array of shape (rows, columns)."""

class SequentialDoubleMatrixReader(SequentialTableReader):
    """Reads a table of values of type float64 array of shape (rows, columns)."""

class RandomAccessDoubleMatrixReader(RandomAccessTableReader):
    """Looks up values of type float64 array of shape (rows, columns) by key."""

class DoubleMatrixWriter(TableWriter):
    """Writes a table of values of type float64 array of shape (rows, columns)."""

class SequentialHtkMatrixReader(SequentialTableReader):
    """Reads a table of values of type pair of a float32 array and an :class:`HtkHeader`."""

class RandomAccessHtkMatrixReader(RandomAccessTableReader):
    """Looks up values of type pair of a float32 array and an :class:`HtkHeader` by key."""

class HtkMatrixWriter(TableWriter):
    """Writes a table of values of type pair of a float32 array and an :class:`HtkHeader`."""

class SequentialPosteriorReader(SequentialTableReader):
    """Reads a table of values of type list (frames) of lists of pairs of int and float."""

class RandomAccessPosteriorReader(RandomAccessTableReader):
    """Looks up values of type list (frames) of lists of pairs of int and float by key."""

class PosteriorWriter(TableWriter):
    """Writes a table of values of type list (frames) of lists of pairs of int and float."""

class SequentialGaussPostReader(SequentialTableReader):
    """Reads a table of values of type list (frames) of lists of pairs of int and float32 array."""

class RandomAccessGaussPostReader(RandomAccessTableReader):
    """Looks up values of type list (frames) of lists of pairs of int and float32 array by key."""

class GaussPostWriter(TableWriter):
    """Writes a table of values of type list (frames) of lists of pairs of int and float32 array."""

class SequentialMatrixShapeReader(SequentialTableReader):
    """Reads a table of values of type :class:`MatrixShape`."""

class RandomAccessMatrixShapeReader(RandomAccessTableReader):
    """Looks up values of type :class:`MatrixShape` by key."""

class SequentialWaveReader(SequentialTableReader):
    """Reads a table of values of type :class:`WaveData`."""

class RandomAccessWaveReader(RandomAccessTableReader):
    """Looks up values of type :class:`WaveData` by key."""

class WaveWriter(TableWriter):
    """Writes a table of values of type :class:`WaveData`."""

class SequentialWaveInfoReader(SequentialTableReader):
    """Reads a table of values of type :class:`WaveInfo`."""

class RandomAccessWaveInfoReader(RandomAccessTableReader):
    """Looks up values of type :class:`WaveInfo` by key."""

def read_int32_vector(rxfilename: str, *, pipes: bool = True, network: bool = True) -> list[int]:
    """Read a value of type list of int."""

def read_int8_vector(rxfilename: str, *, pipes: bool = True, network: bool = True) -> list[int]:
    """Read a value of type list of int."""

def read_wave(rxfilename: str, *, pipes: bool = True, network: bool = True) -> WaveData:
    """Read a value of type :class:`WaveData`."""

def read_wave_info(rxfilename: str, *, pipes: bool = True, network: bool = True) -> WaveInfo:
    """Read a value of type :class:`WaveInfo`."""


__all__ = [
    "BlobWriter",
    "BoolWriter",
    "CompressedMatrixWriter",
    "DoubleMatrixWriter",
    "DoubleVectorWriter",
    "DoubleWriter",
    "FloatMatrixWriter",
    "FloatPairVectorWriter",
    "FloatVectorWriter",
    "FloatWriter",
    "GaussPostWriter",
    "HtkMatrixWriter",
    "Int32PairVectorWriter",
    "Int32VectorVectorWriter",
    "Int32VectorWriter",
    "Int32Writer",
    "Int8VectorWriter",
    "PosteriorWriter",
    "RandomAccessBlobReader",
    "RandomAccessBoolReader",
    "RandomAccessDoubleMatrixReader",
    "RandomAccessDoubleReader",
    "RandomAccessDoubleVectorReader",
    "RandomAccessFloatMatrixReader",
    "RandomAccessFloatPairVectorReader",
    "RandomAccessFloatReader",
    "RandomAccessFloatVectorReader",
    "RandomAccessGaussPostReader",
    "RandomAccessHtkMatrixReader",
    "RandomAccessInt32PairVectorReader",
    "RandomAccessInt32Reader",
    "RandomAccessInt32VectorReader",
    "RandomAccessInt32VectorVectorReader",
    "RandomAccessInt8VectorReader",
    "RandomAccessMatrixShapeReader",
    "RandomAccessPosteriorReader",
    "RandomAccessTokenReader",
    "RandomAccessTokenVectorReader",
    "RandomAccessWaveInfoReader",
    "RandomAccessWaveReader",
    "SequentialBlobReader",
    "SequentialBoolReader",
    "SequentialDoubleMatrixReader",
    "SequentialDoubleReader",
    "SequentialDoubleVectorReader",
    "SequentialFloatMatrixReader",
    "SequentialFloatPairVectorReader",
    "SequentialFloatReader",
    "SequentialFloatVectorReader",
    "SequentialGaussPostReader",
    "SequentialHtkMatrixReader",
    "SequentialInt32PairVectorReader",
    "SequentialInt32Reader",
    "SequentialInt32VectorReader",
    "SequentialInt32VectorVectorReader",
    "SequentialInt8VectorReader",
    "SequentialMatrixShapeReader",
    "SequentialPosteriorReader",
    "SequentialTokenReader",
    "SequentialTokenVectorReader",
    "SequentialWaveInfoReader",
    "SequentialWaveReader",
    "TokenVectorWriter",
    "TokenWriter",
    "WaveWriter",
    "read_int32_vector",
    "read_int8_vector",
    "read_wave",
    "read_wave_info",
]
