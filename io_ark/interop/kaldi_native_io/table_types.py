"""kaldi_native_io's readers and writers. The base classes are in :mod:`io_ark.interop.kaldi_native_io.tables`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.compressed import compress
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.info import InfoCodec
from io_ark.errors import FormatError
from io_ark.interop.kaldi_native_io.blob import BlobCodec
from io_ark.interop.kaldi_native_io.errors import as_table_error
from io_ark.interop.kaldi_native_io.tables import RandomAccessTableReader, SequentialTableReader, TableWriter
from io_ark.interop.kaldi_native_io.values import CompressionMethod, HtkHeader, MatrixShape, WaveData, WaveInfo

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
    "Int8VectorWriter",
    "Int32PairVectorWriter",
    "Int32VectorVectorWriter",
    "Int32VectorWriter",
    "Int32Writer",
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
    "RandomAccessInt8VectorReader",
    "RandomAccessInt32PairVectorReader",
    "RandomAccessInt32Reader",
    "RandomAccessInt32VectorReader",
    "RandomAccessInt32VectorVectorReader",
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
    "SequentialInt8VectorReader",
    "SequentialInt32PairVectorReader",
    "SequentialInt32Reader",
    "SequentialInt32VectorReader",
    "SequentialInt32VectorVectorReader",
    "SequentialMatrixShapeReader",
    "SequentialPosteriorReader",
    "SequentialTokenReader",
    "SequentialTokenVectorReader",
    "SequentialWaveInfoReader",
    "SequentialWaveReader",
    "TokenVectorWriter",
    "TokenWriter",
    "WaveWriter",
]

Array = npt.NDArray[Any]


def as_list(values: Array) -> list[int]:
    """Convert a vector of integers to a list."""
    numbers: list[int] = values.tolist()
    return numbers


def as_lists(vectors: list[Array]) -> list[list[int]]:
    """Convert vectors of integers to lists."""
    return [vector.tolist() for vector in vectors]


def as_pairs(values: Array) -> list[tuple[Any, ...]]:
    """Convert an array of shape (pairs, 2) to pairs."""
    return [tuple(pair) for pair in values.tolist()]


def as_htk(value: HtkFeatures) -> tuple[Array, HtkHeader]:
    """Convert features to an array and a header."""
    frames, columns = value.features.shape
    return value.features, HtkHeader(frames, value.sample_period, 4 * columns, value.parameter_kind)


def from_htk(value: tuple[Array, HtkHeader]) -> HtkFeatures:
    """Convert an array and a header to features."""
    features, header = value
    return HtkFeatures(float_matrix(features), header.sample_period, header.sample_kind)


def _needing(dtype: type, ndim: int) -> Callable[[Any], Array]:
    """Return a function that returns its argument if it is an array of this type and number of dimensions."""

    def check(value: Any) -> Array:
        array = np.asarray(value)
        if array.dtype != dtype or array.ndim != ndim:
            raise FormatError(f"needs an array of {np.dtype(dtype)} with {ndim} dimensions, not of {array.dtype} with "
                              f"{array.ndim}: convert it with .astype, or use another writer")  # fmt: skip
        return array

    return check


float_vector = _needing(np.float32, 1)
double_vector = _needing(np.float64, 1)
float_matrix = _needing(np.float32, 2)
double_matrix = _needing(np.float64, 2)


class SequentialInt32Reader(SequentialTableReader):
    """Reads a table of values of type int."""

    _kind = "int"


class RandomAccessInt32Reader(RandomAccessTableReader):
    """Looks up a table of values of type int."""

    _kind = "int"


class Int32Writer(TableWriter):
    """Writes a table of values of type int."""

    _kind = "int"


class SequentialInt32VectorReader(SequentialTableReader):
    """Reads a table of values of type list of int."""

    _kind = "int-vector"
    _convert = staticmethod(as_list)


class RandomAccessInt32VectorReader(RandomAccessTableReader):
    """Looks up a table of values of type list of int."""

    _kind = "int-vector"
    _convert = staticmethod(as_list)


class Int32VectorWriter(TableWriter):
    """Writes a table of values of type list of int."""

    _kind = "int-vector"


class SequentialBlobReader(SequentialTableReader):
    """Reads a table of values of type bytes."""

    _kind = BlobCodec()


class RandomAccessBlobReader(RandomAccessTableReader):
    """Looks up a table of values of type bytes."""

    _kind = BlobCodec()


class BlobWriter(TableWriter):
    """Writes a table of values of type bytes."""

    _kind = BlobCodec()


class SequentialInt8VectorReader(SequentialTableReader):
    """Reads a table of values of type list of int."""

    _kind = "int8-vector"
    _convert = staticmethod(as_list)


class RandomAccessInt8VectorReader(RandomAccessTableReader):
    """Looks up a table of values of type list of int."""

    _kind = "int8-vector"
    _convert = staticmethod(as_list)


class Int8VectorWriter(TableWriter):
    """Writes a table of values of type list of int."""

    _kind = "int8-vector"


class SequentialInt32VectorVectorReader(SequentialTableReader):
    """Reads a table of values of type list of lists of int."""

    _kind = "int-vector-vector"
    _convert = staticmethod(as_lists)


class RandomAccessInt32VectorVectorReader(RandomAccessTableReader):
    """Looks up a table of values of type list of lists of int."""

    _kind = "int-vector-vector"
    _convert = staticmethod(as_lists)


class Int32VectorVectorWriter(TableWriter):
    """Writes a table of values of type list of lists of int."""

    _kind = "int-vector-vector"


class SequentialInt32PairVectorReader(SequentialTableReader):
    """Reads a table of values of type list of pairs of int."""

    _kind = "int-pair-vector"
    _convert = staticmethod(as_pairs)


class RandomAccessInt32PairVectorReader(RandomAccessTableReader):
    """Looks up a table of values of type list of pairs of int."""

    _kind = "int-pair-vector"
    _convert = staticmethod(as_pairs)


class Int32PairVectorWriter(TableWriter):
    """Writes a table of values of type list of pairs of int."""

    _kind = "int-pair-vector"


class SequentialFloatReader(SequentialTableReader):
    """Reads a table of values of type float."""

    _kind = "float"


class RandomAccessFloatReader(RandomAccessTableReader):
    """Looks up a table of values of type float."""

    _kind = "float"


class FloatWriter(TableWriter):
    """Writes a table of values of type float."""

    _kind = "float"


class SequentialFloatPairVectorReader(SequentialTableReader):
    """Reads a table of values of type list of pairs of float."""

    _kind = "float-pair-vector"
    _convert = staticmethod(as_pairs)


class RandomAccessFloatPairVectorReader(RandomAccessTableReader):
    """Looks up a table of values of type list of pairs of float."""

    _kind = "float-pair-vector"
    _convert = staticmethod(as_pairs)


class FloatPairVectorWriter(TableWriter):
    """Writes a table of values of type list of pairs of float."""

    _kind = "float-pair-vector"


class SequentialDoubleReader(SequentialTableReader):
    """Reads a table of values of type float."""

    _kind = "double"


class RandomAccessDoubleReader(RandomAccessTableReader):
    """Looks up a table of values of type float."""

    _kind = "double"


class DoubleWriter(TableWriter):
    """Writes a table of values of type float."""

    _kind = "double"


class SequentialBoolReader(SequentialTableReader):
    """Reads a table of values of type bool."""

    _kind = "bool"


class RandomAccessBoolReader(RandomAccessTableReader):
    """Looks up a table of values of type bool."""

    _kind = "bool"


class BoolWriter(TableWriter):
    """Writes a table of values of type bool."""

    _kind = "bool"


class SequentialTokenReader(SequentialTableReader):
    """Reads a table of values of type str."""

    _kind = "token"


class RandomAccessTokenReader(RandomAccessTableReader):
    """Looks up a table of values of type str."""

    _kind = "token"


class TokenWriter(TableWriter):
    """Writes a table of values of type str."""

    _kind = "token"


class SequentialTokenVectorReader(SequentialTableReader):
    """Reads a table of values of type list of str."""

    _kind = "token-vector"


class RandomAccessTokenVectorReader(RandomAccessTableReader):
    """Looks up a table of values of type list of str."""

    _kind = "token-vector"


class TokenVectorWriter(TableWriter):
    """Writes a table of values of type list of str."""

    _kind = "token-vector"


class SequentialFloatVectorReader(SequentialTableReader):
    """Reads a table of values of type float32 array of shape (size,)."""

    _kind = "vector"


class RandomAccessFloatVectorReader(RandomAccessTableReader):
    """Looks up a table of values of type float32 array of shape (size,)."""

    _kind = "vector"


class FloatVectorWriter(TableWriter):
    """Writes a table of values of type float32 array of shape (size,)."""

    _kind = "vector"
    _convert = staticmethod(float_vector)


class SequentialDoubleVectorReader(SequentialTableReader):
    """Reads a table of values of type float64 array of shape (size,)."""

    _kind = "double-vector"


class RandomAccessDoubleVectorReader(RandomAccessTableReader):
    """Looks up a table of values of type float64 array of shape (size,)."""

    _kind = "double-vector"


class DoubleVectorWriter(TableWriter):
    """Writes a table of values of type float64 array of shape (size,)."""

    _kind = "double-vector"
    _convert = staticmethod(double_vector)


class SequentialFloatMatrixReader(SequentialTableReader):
    """Reads a table of values of type float32 array of shape (rows, columns)."""

    _kind = "matrix"


class RandomAccessFloatMatrixReader(RandomAccessTableReader):
    """Looks up a table of values of type float32 array of shape (rows, columns)."""

    _kind = "matrix"


class FloatMatrixWriter(TableWriter):
    """Writes a table of values of type float32 array of shape (rows, columns)."""

    _kind = "matrix"
    _convert = staticmethod(float_matrix)


class SequentialDoubleMatrixReader(SequentialTableReader):
    """Reads a table of values of type float64 array of shape (rows, columns)."""

    _kind = "double-matrix"


class RandomAccessDoubleMatrixReader(RandomAccessTableReader):
    """Looks up a table of values of type float64 array of shape (rows, columns)."""

    _kind = "double-matrix"


class DoubleMatrixWriter(TableWriter):
    """Writes a table of values of type float64 array of shape (rows, columns)."""

    _kind = "double-matrix"
    _convert = staticmethod(double_matrix)


class SequentialHtkMatrixReader(SequentialTableReader):
    """Reads a table of values of type pair of a float32 array and an :class:`HtkHeader`."""

    _kind = "htk"
    _convert = staticmethod(as_htk)


class RandomAccessHtkMatrixReader(RandomAccessTableReader):
    """Looks up a table of values of type pair of a float32 array and an :class:`HtkHeader`."""

    _kind = "htk"
    _convert = staticmethod(as_htk)


class HtkMatrixWriter(TableWriter):
    """Writes a table of values of type pair of a float32 array and an :class:`HtkHeader`."""

    _kind = "htk"
    _convert = staticmethod(from_htk)


class SequentialPosteriorReader(SequentialTableReader):
    """Reads a table of values of type list (frames) of lists of pairs of int and float."""

    _kind = "posterior"


class RandomAccessPosteriorReader(RandomAccessTableReader):
    """Looks up a table of values of type list (frames) of lists of pairs of int and float."""

    _kind = "posterior"


class PosteriorWriter(TableWriter):
    """Writes a table of values of type list (frames) of lists of pairs of int and float."""

    _kind = "posterior"


class SequentialGaussPostReader(SequentialTableReader):
    """Reads a table of values of type list (frames) of lists of pairs of int and float32 array."""

    _kind = "gauss-posterior"


class RandomAccessGaussPostReader(RandomAccessTableReader):
    """Looks up a table of values of type list (frames) of lists of pairs of int and float32 array."""

    _kind = "gauss-posterior"


class GaussPostWriter(TableWriter):
    """Writes a table of values of type list (frames) of lists of pairs of int and float32 array."""

    _kind = "gauss-posterior"


class SequentialMatrixShapeReader(SequentialTableReader):
    """Reads a table of values of type :class:`MatrixShape`."""

    _kind = InfoCodec("matrix")
    _convert = staticmethod(MatrixShape.of)


class RandomAccessMatrixShapeReader(RandomAccessTableReader):
    """Looks up a table of values of type :class:`MatrixShape`."""

    _kind = InfoCodec("matrix")
    _convert = staticmethod(MatrixShape.of)


class SequentialWaveReader(SequentialTableReader):
    """Reads a table of values of type :class:`WaveData`."""

    _kind = "wave"
    _convert = staticmethod(WaveData.of)


class RandomAccessWaveReader(RandomAccessTableReader):
    """Looks up a table of values of type :class:`WaveData`."""

    _kind = "wave"
    _convert = staticmethod(WaveData.of)


class WaveWriter(TableWriter):
    """Writes a table of values of type :class:`WaveData`."""

    _kind = "wave"
    _convert = staticmethod(WaveData.as_wave)


class SequentialWaveInfoReader(SequentialTableReader):
    """Reads a table of values of type :class:`WaveInfo`."""

    _kind = "wave-info"
    _convert = staticmethod(WaveInfo)


class RandomAccessWaveInfoReader(RandomAccessTableReader):
    """Looks up a table of values of type :class:`WaveInfo`."""

    _kind = "wave-info"
    _convert = staticmethod(WaveInfo)


class CompressedMatrixWriter(TableWriter):
    """Writes a table of compressed matrices; the method may differ from entry to entry."""

    _kind = "compressed-matrix"

    def write(self, key: str, value: Any, method: int = CompressionMethod.kAutomaticMethod) -> None:
        """Write one entry.

        Args:
            key: the key.
            value: float32 or float64 array of shape (rows, columns).
            method: a :class:`CompressionMethod`.
        """
        with as_table_error(key):
            super().write(key, compress(value, int(method)))

    def __setitem__(self, key: str, value: Any) -> None:
        self.write(key, *(value if isinstance(value, tuple) else (value,)))
