# Written by `make generate`: do not edit.
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.codecs.compressed import CompressedMatrix
from io_ark.codecs.kinds import Kind
from io_ark.codecs.wave import Wave, WaveInfo
from io_ark.tables.random_access import RandomAccessReader
from io_ark.tables.readers import SequentialReader
from io_ark.tables.writers import Writer

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Posterior = list[list[tuple[int, float]]]
_Read = TypeVar("_Read", covariant=True)
_Written = TypeVar("_Written", contravariant=True)

class _Sequential(Protocol[_Read]):
    def __call__(
        self, rspecifier: str, *, pipes: bool = True, network: bool = True, background: bool = False
    ) -> SequentialReader[_Read]: ...

class _RandomAccess(Protocol[_Read]):
    def __call__(self, rspecifier: str, *, pipes: bool = True, network: bool = True) -> RandomAccessReader[_Read]: ...

class _Mapped(Protocol[_Read]):
    def __call__(
        self, rspecifier: str, utt2spk: str, *, pipes: bool = True, network: bool = True
    ) -> RandomAccessReader[_Read]: ...

class _Writer(Protocol[_Written]):
    def __call__(
        self, wspecifier: str, *, pipes: bool = True, network: bool = True, **options: Any
    ) -> Writer[_Written]: ...

KINDS: dict[str, Kind]

SequentialBaseFloatMatrixReader: _Sequential[Float32]
RandomAccessBaseFloatMatrixReader: _RandomAccess[Float32]
RandomAccessBaseFloatMatrixReaderMapped: _Mapped[Float32]
BaseFloatMatrixWriter: _Writer[Float32]
SequentialDoubleMatrixReader: _Sequential[Float64]
RandomAccessDoubleMatrixReader: _RandomAccess[Float64]
RandomAccessDoubleMatrixReaderMapped: _Mapped[Float64]
DoubleMatrixWriter: _Writer[Float64]
SequentialCompressedMatrixReader: _Sequential[CompressedMatrix]
RandomAccessCompressedMatrixReader: _RandomAccess[CompressedMatrix]
RandomAccessCompressedMatrixReaderMapped: _Mapped[CompressedMatrix]
CompressedMatrixWriter: _Writer[CompressedMatrix]
SequentialGeneralMatrixReader: _Sequential[Any]
RandomAccessGeneralMatrixReader: _RandomAccess[Any]
RandomAccessGeneralMatrixReaderMapped: _Mapped[Any]
GeneralMatrixWriter: _Writer[Any]
SequentialBaseFloatVectorReader: _Sequential[Float32]
RandomAccessBaseFloatVectorReader: _RandomAccess[Float32]
RandomAccessBaseFloatVectorReaderMapped: _Mapped[Float32]
BaseFloatVectorWriter: _Writer[Float32]
SequentialDoubleVectorReader: _Sequential[Float64]
RandomAccessDoubleVectorReader: _RandomAccess[Float64]
RandomAccessDoubleVectorReaderMapped: _Mapped[Float64]
DoubleVectorWriter: _Writer[Float64]
SequentialInt32Reader: _Sequential[int]
RandomAccessInt32Reader: _RandomAccess[int]
RandomAccessInt32ReaderMapped: _Mapped[int]
Int32Writer: _Writer[int]
SequentialInt32VectorReader: _Sequential[Int32]
RandomAccessInt32VectorReader: _RandomAccess[Int32]
RandomAccessInt32VectorReaderMapped: _Mapped[Int32]
Int32VectorWriter: _Writer[Int32]
SequentialInt32VectorVectorReader: _Sequential[list[Int32]]
RandomAccessInt32VectorVectorReader: _RandomAccess[list[Int32]]
RandomAccessInt32VectorVectorReaderMapped: _Mapped[list[Int32]]
Int32VectorVectorWriter: _Writer[list[Int32]]
SequentialInt32PairVectorReader: _Sequential[Int32]
RandomAccessInt32PairVectorReader: _RandomAccess[Int32]
RandomAccessInt32PairVectorReaderMapped: _Mapped[Int32]
Int32PairVectorWriter: _Writer[Int32]
SequentialInt8VectorReader: _Sequential[Int8]
RandomAccessInt8VectorReader: _RandomAccess[Int8]
RandomAccessInt8VectorReaderMapped: _Mapped[Int8]
Int8VectorWriter: _Writer[Int8]
SequentialBaseFloatPairVectorReader: _Sequential[Float32]
RandomAccessBaseFloatPairVectorReader: _RandomAccess[Float32]
RandomAccessBaseFloatPairVectorReaderMapped: _Mapped[Float32]
BaseFloatPairVectorWriter: _Writer[Float32]
SequentialBaseFloatReader: _Sequential[float]
RandomAccessBaseFloatReader: _RandomAccess[float]
RandomAccessBaseFloatReaderMapped: _Mapped[float]
BaseFloatWriter: _Writer[float]
SequentialDoubleReader: _Sequential[float]
RandomAccessDoubleReader: _RandomAccess[float]
RandomAccessDoubleReaderMapped: _Mapped[float]
DoubleWriter: _Writer[float]
SequentialBoolReader: _Sequential[bool]
RandomAccessBoolReader: _RandomAccess[bool]
RandomAccessBoolReaderMapped: _Mapped[bool]
BoolWriter: _Writer[bool]
SequentialTokenReader: _Sequential[str]
RandomAccessTokenReader: _RandomAccess[str]
RandomAccessTokenReaderMapped: _Mapped[str]
TokenWriter: _Writer[str]
SequentialTokenVectorReader: _Sequential[list[str]]
RandomAccessTokenVectorReader: _RandomAccess[list[str]]
RandomAccessTokenVectorReaderMapped: _Mapped[list[str]]
TokenVectorWriter: _Writer[list[str]]
SequentialPosteriorReader: _Sequential[Posterior]
RandomAccessPosteriorReader: _RandomAccess[Posterior]
RandomAccessPosteriorReaderMapped: _Mapped[Posterior]
PosteriorWriter: _Writer[Posterior]
SequentialGaussPostReader: _Sequential[Any]
RandomAccessGaussPostReader: _RandomAccess[Any]
RandomAccessGaussPostReaderMapped: _Mapped[Any]
GaussPostWriter: _Writer[Any]
SequentialWaveReader: _Sequential[Wave]
RandomAccessWaveReader: _RandomAccess[Wave]
RandomAccessWaveReaderMapped: _Mapped[Wave]
WaveWriter: _Writer[Wave]
SequentialWaveInfoReader: _Sequential[WaveInfo]
RandomAccessWaveInfoReader: _RandomAccess[WaveInfo]
RandomAccessWaveInfoReaderMapped: _Mapped[WaveInfo]
WaveInfoWriter: _Writer[WaveInfo]
SequentialNnetExampleReader: _Sequential[Any]
RandomAccessNnetExampleReader: _RandomAccess[Any]
RandomAccessNnetExampleReaderMapped: _Mapped[Any]
NnetExampleWriter: _Writer[Any]
SequentialNnetChainExampleReader: _Sequential[Any]
RandomAccessNnetChainExampleReader: _RandomAccess[Any]
RandomAccessNnetChainExampleReaderMapped: _Mapped[Any]
NnetChainExampleWriter: _Writer[Any]

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
    "GaussPostWriter",
    "GeneralMatrixWriter",
    "Int32PairVectorWriter",
    "Int32VectorVectorWriter",
    "Int32VectorWriter",
    "Int32Writer",
    "Int8VectorWriter",
    "NnetChainExampleWriter",
    "NnetExampleWriter",
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
    "RandomAccessInt32PairVectorReader",
    "RandomAccessInt32PairVectorReaderMapped",
    "RandomAccessInt32Reader",
    "RandomAccessInt32ReaderMapped",
    "RandomAccessInt32VectorReader",
    "RandomAccessInt32VectorReaderMapped",
    "RandomAccessInt32VectorVectorReader",
    "RandomAccessInt32VectorVectorReaderMapped",
    "RandomAccessInt8VectorReader",
    "RandomAccessInt8VectorReaderMapped",
    "RandomAccessNnetChainExampleReader",
    "RandomAccessNnetChainExampleReaderMapped",
    "RandomAccessNnetExampleReader",
    "RandomAccessNnetExampleReaderMapped",
    "RandomAccessPosteriorReader",
    "RandomAccessPosteriorReaderMapped",
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
    "SequentialInt32PairVectorReader",
    "SequentialInt32Reader",
    "SequentialInt32VectorReader",
    "SequentialInt32VectorVectorReader",
    "SequentialInt8VectorReader",
    "SequentialNnetChainExampleReader",
    "SequentialNnetExampleReader",
    "SequentialPosteriorReader",
    "SequentialTokenReader",
    "SequentialTokenVectorReader",
    "SequentialWaveInfoReader",
    "SequentialWaveReader",
    "TokenVectorWriter",
    "TokenWriter",
    "WaveInfoWriter",
    "WaveWriter",
]
