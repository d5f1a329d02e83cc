"""The kinds of kaldi_native_io's tables, one row for each kind, and the conversions of their values.

:mod:`~kaldi_standins.kaldi_native_io.table_types` makes two readers and a writer from each row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.codecs import Codec
from io_ark.codecs.base import as_array
from io_ark.codecs.compressed import compress
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.info import InfoCodec
from io_ark.codecs.kinds import Kind
from io_ark.errors import FormatError
from kaldi_standins.kaldi_native_io.blob import BlobCodec
from kaldi_standins.kaldi_native_io.errors import as_table_error
from kaldi_standins.kaldi_native_io.tables import TableWriter, keep_value
from kaldi_standins.kaldi_native_io.values import CompressionMethod, HtkHeader, MatrixShape, WaveData, WaveInfo

Array = npt.NDArray[Any]


def to_list(values: Array) -> list[int]:
    """Convert a vector of integers to a list of int."""
    numbers: list[int] = values.tolist()
    return numbers


def to_lists(vectors: list[Array]) -> list[list[int]]:
    """Convert a list of vectors of integers to a list of lists."""
    return [vector.tolist() for vector in vectors]


def to_pairs(values: Array) -> list[tuple[Any, ...]]:
    """Convert an array of shape (pairs, 2) to a list of tuples."""
    return [tuple(pair) for pair in values.tolist()]


def split_htk_features(value: HtkFeatures) -> tuple[Array, HtkHeader]:
    """Split HTK features into a float32 array (frames, columns) and a header."""
    frames, columns = value.features.shape
    return value.features, HtkHeader(frames, value.sample_period, 4 * columns, value.parameter_kind)


def join_htk_features(value: tuple[Array, HtkHeader]) -> HtkFeatures:
    """Combine a float32 array (frames, columns) and a header into HTK features. Raise FormatError for another array."""
    features, header = value
    return HtkFeatures(float_matrix(features), header.sample_period, header.sample_kind)


def _make_array_check(dtype: type, ndim: int) -> Callable[[Any], Array]:
    """Return a function that converts a value to an array, and raises FormatError if its dtype or ndim differs."""

    def check_array(value: Any) -> Array:
        array = as_array(value)
        if array.dtype != dtype or array.ndim != ndim:
            raise FormatError(f"needs a {ndim}-dimensional array of {np.dtype(dtype)}, not {array.dtype} of "
                              f"shape {array.shape}: convert the array, or use another writer")  # fmt: skip
        return array

    return check_array


float_vector = _make_array_check(np.float32, 1)
double_vector = _make_array_check(np.float64, 1)
float_matrix = _make_array_check(np.float32, 2)
double_matrix = _make_array_check(np.float64, 2)


class Row(NamedTuple):
    """A type of table in kaldi_native_io.

    Attributes:
        name: kaldi_native_io's name, as in ``SequentialNAMEReader``.
        kind: the kind of the objects, or the codec for them.
        value: description of the values' type, for docstrings.
        read: converts a value that was read to kaldi_native_io's type.
        write: converts a value of kaldi_native_io's type for writing.
        is_written: True if kaldi_native_io has a writer for this type.
        function: name of the function that reads one value, or "".
    """

    name: str
    kind: Kind | Codec[Any]
    value: str
    read: Callable[[Any], Any] = keep_value
    write: Callable[[Any], Any] = keep_value
    is_written: bool = True
    function: str = ""


ROWS = (
    Row("Int32", "int", "int"),
    Row("Int32Vector", "int-vector", "list of int", read=to_list, function="read_int32_vector"),
    Row("Blob", BlobCodec(), "bytes"),
    Row("Int8Vector", "int8-vector", "list of int", read=to_list, function="read_int8_vector"),
    Row("Int32VectorVector", "int-vector-vector", "list of lists of int", read=to_lists),
    Row("Int32PairVector", "int-pair-vector", "list of pairs of int", read=to_pairs),
    Row("Float", "float", "float"),
    Row("FloatPairVector", "float-pair-vector", "list of pairs of float", read=to_pairs),
    Row("Double", "double", "float"),
    Row("Bool", "bool", "bool"),
    Row("Token", "token", "str"),
    Row("TokenVector", "token-vector", "list of str"),
    Row("FloatVector", "vector", "float32 array of shape (size,)", write=float_vector),
    Row("DoubleVector", "double-vector", "float64 array of shape (size,)", write=double_vector),
    Row("FloatMatrix", "matrix", "float32 array of shape (rows, columns)", write=float_matrix),
    Row("DoubleMatrix", "double-matrix", "float64 array of shape (rows, columns)", write=double_matrix),
    Row(
        "HtkMatrix",
        "htk",
        "pair of a float32 array and an :class:`HtkHeader`",
        read=split_htk_features,
        write=join_htk_features,
    ),
    Row("Posterior", "posterior", "list (frames) of lists of pairs of int and float"),
    Row("GaussPost", "gauss-posterior", "list (frames) of lists of pairs of int and float32 array"),
    Row("MatrixShape", InfoCodec("matrix"), ":class:`MatrixShape`", read=MatrixShape.from_array, is_written=False),
    Row("Wave", "wave", ":class:`WaveData`", read=WaveData.from_wave, write=WaveData.to_wave, function="read_wave"),
    Row("WaveInfo", "wave-info", ":class:`WaveInfo`", read=WaveInfo, is_written=False, function="read_wave_info"),
)


class CompressedMatrixWriter(TableWriter):
    """Writes a table of compressed matrices. Assign a pair (matrix, method) to a key to select a compression method."""

    _kind = "compressed-matrix"

    def write(self, key: str, value: Any, method: int = CompressionMethod.kAutomaticMethod) -> None:
        """Compress a matrix, and write it as an entry.

        Args:
            key: key of the entry.
            value: float32 or float64 array of shape (rows, columns).
            method: a :class:`CompressionMethod`.

        Raises:
            TableError: the writer is closed, the value is not a matrix, the method does not exist, or the entry cannot
                be written.
        """
        with as_table_error(key):
            super().write(key, compress(value, int(method)))

    def __setitem__(self, key: str, value: Any) -> None:
        self.write(key, *(value if isinstance(value, tuple) else (value,)))
