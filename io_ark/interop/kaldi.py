"""Readers and writers under Kaldi's names (src/util/table-types.h), each with the type of its values.

>>> from io_ark.interop.kaldi import SequentialBaseFloatMatrixReader
>>> with SequentialBaseFloatMatrixReader("ark:feats.ark") as reader:  # doctest: +SKIP
...     for key, matrix in reader:
...         print(key, matrix.shape)

The name is a function that makes a :class:`~io_ark.tables.readers.SequentialReader`, :class:`~io_ark.tables.readers.RandomAccessReader`
or :class:`~io_ark.tables.writers.Writer` of its kind, of which the type checker knows the values. The ``...Mapped`` ones take a
second rspecifier, that of a map such as ``utt2spk``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from io_ark.codecs.compressed import CompressedMatrix
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.tables.readers import RandomAccessReader, SequentialReader
from io_ark.tables.writers import Writer

Value = TypeVar("Value")
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Posterior = list[list[tuple[int, float]]]


class SequentialDoor(Protocol[Value]):
    """Makes a sequential reader of one kind."""

    def __call__(self, rspecifier: str, *, pipes: bool = True, background: bool = False) -> SequentialReader[Value]: ...


class RandomAccessDoor(Protocol[Value]):
    """Makes a random-access reader of one kind."""

    def __call__(self, rspecifier: str, *, pipes: bool = True) -> RandomAccessReader[Value]: ...


class MappedDoor(Protocol[Value]):
    """Makes a random-access reader of one kind, whose keys are first looked up in a map."""

    def __call__(self, rspecifier: str, utt2spk: str, *, pipes: bool = True) -> RandomAccessReader[Value]: ...


class WriterDoor(Protocol[Value]):
    """Makes a writer of one kind."""

    def __call__(self, wspecifier: str, *, pipes: bool = True, **options: Any) -> Writer[Value]: ...


Doors = tuple[SequentialDoor[Value], RandomAccessDoor[Value], MappedDoor[Value], WriterDoor[Value]]


def _mapped(kind: str, rspecifier: str, utt2spk: str, *, pipes: bool = True) -> RandomAccessReader[Any]:
    return RandomAccessReader(kind, rspecifier, utt2spk=utt2spk, pipes=pipes)


def _doors(kind: str, value: type[Value]) -> Doors[Value]:
    """The readers and the writer of one kind of object."""
    return (
        cast("SequentialDoor[Value]", partial(SequentialReader, kind)),
        cast("RandomAccessDoor[Value]", partial(RandomAccessReader, kind)),
        cast("MappedDoor[Value]", partial(_mapped, kind)),
        cast("WriterDoor[Value]", partial(Writer, kind)),
    )


(
    SequentialBaseFloatMatrixReader,
    RandomAccessBaseFloatMatrixReader,
    RandomAccessBaseFloatMatrixReaderMapped,
    BaseFloatMatrixWriter,
) = _doors("matrix", Float32)
(
    SequentialDoubleMatrixReader,
    RandomAccessDoubleMatrixReader,
    RandomAccessDoubleMatrixReaderMapped,
    DoubleMatrixWriter,
) = _doors("double-matrix", Float64)
(
    SequentialCompressedMatrixReader,
    RandomAccessCompressedMatrixReader,
    RandomAccessCompressedMatrixReaderMapped,
    CompressedMatrixWriter,
) = _doors("compressed-matrix", CompressedMatrix)
(
    SequentialGeneralMatrixReader,
    RandomAccessGeneralMatrixReader,
    RandomAccessGeneralMatrixReaderMapped,
    GeneralMatrixWriter,
) = _doors("general-matrix", Any)
(
    SequentialBaseFloatVectorReader,
    RandomAccessBaseFloatVectorReader,
    RandomAccessBaseFloatVectorReaderMapped,
    BaseFloatVectorWriter,
) = _doors("vector", Float32)
(
    SequentialDoubleVectorReader,
    RandomAccessDoubleVectorReader,
    RandomAccessDoubleVectorReaderMapped,
    DoubleVectorWriter,
) = _doors("double-vector", Float64)
(
    SequentialInt32Reader,
    RandomAccessInt32Reader,
    RandomAccessInt32ReaderMapped,
    Int32Writer,
) = _doors("int", int)
(
    SequentialInt32VectorReader,
    RandomAccessInt32VectorReader,
    RandomAccessInt32VectorReaderMapped,
    Int32VectorWriter,
) = _doors("int-vector", Int32)
(
    SequentialInt32VectorVectorReader,
    RandomAccessInt32VectorVectorReader,
    RandomAccessInt32VectorVectorReaderMapped,
    Int32VectorVectorWriter,
) = _doors("int-vector-vector", list[Int32])
(
    SequentialInt32PairVectorReader,
    RandomAccessInt32PairVectorReader,
    RandomAccessInt32PairVectorReaderMapped,
    Int32PairVectorWriter,
) = _doors("int-pair-vector", Int32)
(
    SequentialInt8VectorReader,
    RandomAccessInt8VectorReader,
    RandomAccessInt8VectorReaderMapped,
    Int8VectorWriter,
) = _doors("int8-vector", Int8)
(
    SequentialBaseFloatPairVectorReader,
    RandomAccessBaseFloatPairVectorReader,
    RandomAccessBaseFloatPairVectorReaderMapped,
    BaseFloatPairVectorWriter,
) = _doors("float-pair-vector", Float32)
(
    SequentialBaseFloatReader,
    RandomAccessBaseFloatReader,
    RandomAccessBaseFloatReaderMapped,
    BaseFloatWriter,
) = _doors("float", float)
(
    SequentialDoubleReader,
    RandomAccessDoubleReader,
    RandomAccessDoubleReaderMapped,
    DoubleWriter,
) = _doors("double", float)
(
    SequentialBoolReader,
    RandomAccessBoolReader,
    RandomAccessBoolReaderMapped,
    BoolWriter,
) = _doors("bool", bool)
(
    SequentialTokenReader,
    RandomAccessTokenReader,
    RandomAccessTokenReaderMapped,
    TokenWriter,
) = _doors("token", str)
(
    SequentialTokenVectorReader,
    RandomAccessTokenVectorReader,
    RandomAccessTokenVectorReaderMapped,
    TokenVectorWriter,
) = _doors("token-vector", list[str])
(
    SequentialPosteriorReader,
    RandomAccessPosteriorReader,
    RandomAccessPosteriorReaderMapped,
    PosteriorWriter,
) = _doors("posterior", Posterior)
(
    SequentialGaussPostReader,
    RandomAccessGaussPostReader,
    RandomAccessGaussPostReaderMapped,
    GaussPostWriter,
) = _doors("gauss-posterior", Any)
(
    SequentialWaveReader,
    RandomAccessWaveReader,
    RandomAccessWaveReaderMapped,
    WaveWriter,
) = _doors("wave", Wave)
(
    SequentialWaveInfoReader,
    RandomAccessWaveInfoReader,
    RandomAccessWaveInfoReaderMapped,
    WaveInfoWriter,
) = _doors("wave-info", WaveInfo)
(
    SequentialNnetExampleReader,
    RandomAccessNnetExampleReader,
    RandomAccessNnetExampleReaderMapped,
    NnetExampleWriter,
) = _doors("nnet-example", Any)
(
    SequentialNnetChainExampleReader,
    RandomAccessNnetChainExampleReader,
    RandomAccessNnetChainExampleReaderMapped,
    NnetChainExampleWriter,
) = _doors("nnet-chain-example", Any)
