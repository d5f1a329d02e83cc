"""Readers and writers under Kaldi's names (src/util/table-types.h), typed by their values.

>>> from io_ark.interop.kaldi import SequentialBaseFloatMatrixReader
>>> with SequentialBaseFloatMatrixReader("ark:feats.ark") as reader:  # doctest: +SKIP
...     for key, matrix in reader:
...         print(key, matrix.shape)

Each name is a function that creates a :class:`~io_ark.tables.readers.SequentialReader`,
:class:`~io_ark.tables.readers.RandomAccessReader` or :class:`~io_ark.tables.writers.Writer` of its kind. The
``...Mapped`` functions take a second rspecifier, of a map such as ``utt2spk``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from io_ark.codecs.compressed import CompressedMatrix
from io_ark.codecs.kinds import Kind
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.tables.readers import RandomAccessReader, SequentialReader
from io_ark.tables.writers import Writer

__all__ = [
    "BaseFloatMatrixWriter",
    "BaseFloatPairVectorWriter",
    "BaseFloatVectorWriter",
    "BaseFloatWriter",
    "BoolWriter",
    "CompressedMatrixWriter",
    "DoubleMatrixWriter",
    "DoubleVectorWriter",
    "DoubleWriter",
    "Factories",
    "Float32",
    "Float64",
    "GaussPostWriter",
    "GeneralMatrixWriter",
    "Int8",
    "Int8VectorWriter",
    "Int32",
    "Int32PairVectorWriter",
    "Int32VectorVectorWriter",
    "Int32VectorWriter",
    "Int32Writer",
    "MappedReaderFactory",
    "NnetChainExampleWriter",
    "NnetExampleWriter",
    "Posterior",
    "PosteriorWriter",
    "RandomAccessBaseFloatMatrixReader",
    "RandomAccessBaseFloatMatrixReaderMapped",
    "RandomAccessBaseFloatPairVectorReader",
    "RandomAccessBaseFloatPairVectorReaderMapped",
    "RandomAccessBaseFloatReader",
    "RandomAccessBaseFloatReaderMapped",
    "RandomAccessBaseFloatVectorReader",
    "RandomAccessBaseFloatVectorReaderMapped",
    "RandomAccessBoolReader",
    "RandomAccessBoolReaderMapped",
    "RandomAccessCompressedMatrixReader",
    "RandomAccessCompressedMatrixReaderMapped",
    "RandomAccessDoubleMatrixReader",
    "RandomAccessDoubleMatrixReaderMapped",
    "RandomAccessDoubleReader",
    "RandomAccessDoubleReaderMapped",
    "RandomAccessDoubleVectorReader",
    "RandomAccessDoubleVectorReaderMapped",
    "RandomAccessGaussPostReader",
    "RandomAccessGaussPostReaderMapped",
    "RandomAccessGeneralMatrixReader",
    "RandomAccessGeneralMatrixReaderMapped",
    "RandomAccessInt8VectorReader",
    "RandomAccessInt8VectorReaderMapped",
    "RandomAccessInt32PairVectorReader",
    "RandomAccessInt32PairVectorReaderMapped",
    "RandomAccessInt32Reader",
    "RandomAccessInt32ReaderMapped",
    "RandomAccessInt32VectorReader",
    "RandomAccessInt32VectorReaderMapped",
    "RandomAccessInt32VectorVectorReader",
    "RandomAccessInt32VectorVectorReaderMapped",
    "RandomAccessNnetChainExampleReader",
    "RandomAccessNnetChainExampleReaderMapped",
    "RandomAccessNnetExampleReader",
    "RandomAccessNnetExampleReaderMapped",
    "RandomAccessPosteriorReader",
    "RandomAccessPosteriorReaderMapped",
    "RandomAccessReaderFactory",
    "RandomAccessTokenReader",
    "RandomAccessTokenReaderMapped",
    "RandomAccessTokenVectorReader",
    "RandomAccessTokenVectorReaderMapped",
    "RandomAccessWaveInfoReader",
    "RandomAccessWaveInfoReaderMapped",
    "RandomAccessWaveReader",
    "RandomAccessWaveReaderMapped",
    "SequentialBaseFloatMatrixReader",
    "SequentialBaseFloatPairVectorReader",
    "SequentialBaseFloatReader",
    "SequentialBaseFloatVectorReader",
    "SequentialBoolReader",
    "SequentialCompressedMatrixReader",
    "SequentialDoubleMatrixReader",
    "SequentialDoubleReader",
    "SequentialDoubleVectorReader",
    "SequentialGaussPostReader",
    "SequentialGeneralMatrixReader",
    "SequentialInt8VectorReader",
    "SequentialInt32PairVectorReader",
    "SequentialInt32Reader",
    "SequentialInt32VectorReader",
    "SequentialInt32VectorVectorReader",
    "SequentialNnetChainExampleReader",
    "SequentialNnetExampleReader",
    "SequentialPosteriorReader",
    "SequentialReaderFactory",
    "SequentialTokenReader",
    "SequentialTokenVectorReader",
    "SequentialWaveInfoReader",
    "SequentialWaveReader",
    "TokenVectorWriter",
    "TokenWriter",
    "WaveInfoWriter",
    "WaveWriter",
    "WriterFactory",
]

Value = TypeVar("Value")
Read = TypeVar("Read", covariant=True)
Written = TypeVar("Written", contravariant=True)
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Posterior = list[list[tuple[int, float]]]


class SequentialReaderFactory(Protocol[Read]):
    """Function that creates a sequential reader of one kind."""

    def __call__(
        self, rspecifier: str, *, pipes: bool = True, network: bool = True, background: bool = False
    ) -> SequentialReader[Read]: ...


class RandomAccessReaderFactory(Protocol[Read]):
    """Function that creates a random-access reader of one kind."""

    def __call__(self, rspecifier: str, *, pipes: bool = True, network: bool = True) -> RandomAccessReader[Read]: ...


class MappedReaderFactory(Protocol[Read]):
    """Function that creates a random-access reader of one kind, whose keys are first looked up in a map."""

    def __call__(
        self, rspecifier: str, utt2spk: str, *, pipes: bool = True, network: bool = True
    ) -> RandomAccessReader[Read]: ...


class WriterFactory(Protocol[Written]):
    """Function that creates a writer of one kind."""

    def __call__(
        self, wspecifier: str, *, pipes: bool = True, network: bool = True, **options: Any
    ) -> Writer[Written]: ...


Factories = tuple[
    SequentialReaderFactory[Value], RandomAccessReaderFactory[Value], MappedReaderFactory[Value], WriterFactory[Value]
]


def _mapped(
    kind: Kind, rspecifier: str, utt2spk: str, *, pipes: bool = True, network: bool = True
) -> RandomAccessReader[Any]:
    return RandomAccessReader(kind, rspecifier, utt2spk=utt2spk, pipes=pipes, network=network)


def _factories(kind: Kind, value: type[Value]) -> Factories[Value]:
    """Return the functions that create the readers and the writer of one kind of object."""
    return (
        cast("SequentialReaderFactory[Value]", partial(SequentialReader, kind)),
        cast("RandomAccessReaderFactory[Value]", partial(RandomAccessReader, kind)),
        cast("MappedReaderFactory[Value]", partial(_mapped, kind)),
        cast("WriterFactory[Value]", partial(Writer, kind)),
    )


(
    SequentialBaseFloatMatrixReader,
    RandomAccessBaseFloatMatrixReader,
    RandomAccessBaseFloatMatrixReaderMapped,
    BaseFloatMatrixWriter,
) = _factories("matrix", Float32)
(
    SequentialDoubleMatrixReader,
    RandomAccessDoubleMatrixReader,
    RandomAccessDoubleMatrixReaderMapped,
    DoubleMatrixWriter,
) = _factories("double-matrix", Float64)
(
    SequentialCompressedMatrixReader,
    RandomAccessCompressedMatrixReader,
    RandomAccessCompressedMatrixReaderMapped,
    CompressedMatrixWriter,
) = _factories("compressed-matrix", CompressedMatrix)
(
    SequentialGeneralMatrixReader,
    RandomAccessGeneralMatrixReader,
    RandomAccessGeneralMatrixReaderMapped,
    GeneralMatrixWriter,
) = _factories("general-matrix", Any)
(
    SequentialBaseFloatVectorReader,
    RandomAccessBaseFloatVectorReader,
    RandomAccessBaseFloatVectorReaderMapped,
    BaseFloatVectorWriter,
) = _factories("vector", Float32)
(
    SequentialDoubleVectorReader,
    RandomAccessDoubleVectorReader,
    RandomAccessDoubleVectorReaderMapped,
    DoubleVectorWriter,
) = _factories("double-vector", Float64)
(
    SequentialInt32Reader,
    RandomAccessInt32Reader,
    RandomAccessInt32ReaderMapped,
    Int32Writer,
) = _factories("int", int)
(
    SequentialInt32VectorReader,
    RandomAccessInt32VectorReader,
    RandomAccessInt32VectorReaderMapped,
    Int32VectorWriter,
) = _factories("int-vector", Int32)
(
    SequentialInt32VectorVectorReader,
    RandomAccessInt32VectorVectorReader,
    RandomAccessInt32VectorVectorReaderMapped,
    Int32VectorVectorWriter,
) = _factories("int-vector-vector", list[Int32])
(
    SequentialInt32PairVectorReader,
    RandomAccessInt32PairVectorReader,
    RandomAccessInt32PairVectorReaderMapped,
    Int32PairVectorWriter,
) = _factories("int-pair-vector", Int32)
(
    SequentialInt8VectorReader,
    RandomAccessInt8VectorReader,
    RandomAccessInt8VectorReaderMapped,
    Int8VectorWriter,
) = _factories("int8-vector", Int8)
(
    SequentialBaseFloatPairVectorReader,
    RandomAccessBaseFloatPairVectorReader,
    RandomAccessBaseFloatPairVectorReaderMapped,
    BaseFloatPairVectorWriter,
) = _factories("float-pair-vector", Float32)
(
    SequentialBaseFloatReader,
    RandomAccessBaseFloatReader,
    RandomAccessBaseFloatReaderMapped,
    BaseFloatWriter,
) = _factories("float", float)
(
    SequentialDoubleReader,
    RandomAccessDoubleReader,
    RandomAccessDoubleReaderMapped,
    DoubleWriter,
) = _factories("double", float)
(
    SequentialBoolReader,
    RandomAccessBoolReader,
    RandomAccessBoolReaderMapped,
    BoolWriter,
) = _factories("bool", bool)
(
    SequentialTokenReader,
    RandomAccessTokenReader,
    RandomAccessTokenReaderMapped,
    TokenWriter,
) = _factories("token", str)
(
    SequentialTokenVectorReader,
    RandomAccessTokenVectorReader,
    RandomAccessTokenVectorReaderMapped,
    TokenVectorWriter,
) = _factories("token-vector", list[str])
(
    SequentialPosteriorReader,
    RandomAccessPosteriorReader,
    RandomAccessPosteriorReaderMapped,
    PosteriorWriter,
) = _factories("posterior", Posterior)
(
    SequentialGaussPostReader,
    RandomAccessGaussPostReader,
    RandomAccessGaussPostReaderMapped,
    GaussPostWriter,
) = _factories("gauss-posterior", Any)
(
    SequentialWaveReader,
    RandomAccessWaveReader,
    RandomAccessWaveReaderMapped,
    WaveWriter,
) = _factories("wave", Wave)
(
    SequentialWaveInfoReader,
    RandomAccessWaveInfoReader,
    RandomAccessWaveInfoReaderMapped,
    WaveInfoWriter,
) = _factories("wave-info", WaveInfo)
(
    SequentialNnetExampleReader,
    RandomAccessNnetExampleReader,
    RandomAccessNnetExampleReaderMapped,
    NnetExampleWriter,
) = _factories("nnet-example", Any)
(
    SequentialNnetChainExampleReader,
    RandomAccessNnetChainExampleReader,
    RandomAccessNnetChainExampleReaderMapped,
    NnetChainExampleWriter,
) = _factories("nnet-chain-example", Any)
