"""Values of kaldi_native_io: matrices and vectors that read and write themselves, headers, audio."""

from __future__ import annotations

import enum
import io
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark import load, save
from io_ark.codecs import Codec, codec
from io_ark.codecs.base import as_array
from io_ark.codecs.info import InfoCodec
from io_ark.codecs.wave import Wave
from io_ark.codecs.wave import WaveInfo as _Header
from io_ark.errors import ArkError
from io_ark.streams.access import Access
from io_ark.tables.loader import read_rxfilename
from kaldi_standins.kaldi_native_io.errors import TableError, as_table_error, to_table_error

Self = TypeVar("Self", bound="_Array")
_ANYTHING = Access()


class CompressionMethod(enum.IntEnum):
    """Compression method of a matrix, under Kaldi's names; see :class:`io_ark.codecs.compressed.CompressionMethod`."""

    kAutomaticMethod = 1
    kSpeechFeature = 2
    kTwoByteAuto = 3
    kTwoByteSignedInteger = 4
    kOneByteAuto = 5
    kOneByteUnsignedInteger = 6
    kOneByteZeroOne = 7


class _Array:
    """Base class of matrices and vectors: an array that reads and writes itself.

    Args:
        array: the values, which are converted to the precision of the class. None for an empty array.
    """

    __slots__ = ("__weakref__", "_values")
    _codec: ClassVar[Codec[Any]]
    _dtype: ClassVar[type]
    _ndim: ClassVar[int]
    _values: npt.NDArray[Any]

    def __init__(self, array: npt.ArrayLike | None = None) -> None:
        with as_table_error():
            values = np.empty((0,) * self._ndim) if array is None else as_array(array)
        self._values = np.array(values, self._dtype)
        if self._values.ndim != self._ndim:
            needed = f"{self._ndim} dimension{'s' * (self._ndim > 1)}"
            raise TableError(f"{type(self).__name__} needs an array with {needed}, not of shape {self._values.shape}")

    def numpy(self) -> npt.NDArray[Any]:
        """Return the array, which shares its memory with this object."""
        return self._values

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        # NumPy 2 copies for None only if necessary, and so does NumPy 1, which takes None for False.
        return np.array(self._values, dtype or self._dtype, copy=copy)

    @classmethod
    def read(cls: type[Self], rxfilename: str, *, pipes: bool = True, network: bool = True) -> Self:
        """Read a matrix or vector.

        Args:
            rxfilename: location of the object, such as ``feats.ark:123``. A range ``[0:9]`` has ten rows or elements.
            pipes, network: False to refuse commands and URLs, respectively.

        Raises:
            TableError: the object cannot be opened or read.
        """
        result = cls.__new__(cls)
        try:  # A try statement is faster than `with as_table_error()`.
            result._values = read_rxfilename(
                cls._codec, rxfilename, _ANYTHING if pipes and network else Access(pipes, network)
            )
        except ArkError as error:
            raise to_table_error(error) from error
        return result

    def write(self, wxfilename: str, binary: bool, *, pipes: bool = True, network: bool = True) -> None:
        """Write the matrix or vector to a single file, without a key.

        Args:
            wxfilename: path of the file, ``-`` for standard output, or a command that starts with ``|``.
            binary: True for Kaldi's binary format, False for text.
            pipes, network: False to refuse commands and URLs, respectively.

        Raises:
            TableError: the file cannot be opened or written.
        """
        with as_table_error():
            save(wxfilename, self._values, kind=self._codec, binary=binary, pipes=pipes, network=network)

    def __str__(self) -> str:
        """Return the values in Kaldi's text format."""
        buffer = io.BytesIO()
        self._codec.write(buffer, self._values, binary=False)
        return buffer.getvalue().decode("ascii")


class _Matrix(_Array):
    __slots__ = ()
    _ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        rows, columns = self._values.shape
        return rows, columns


class FloatMatrix(_Matrix):
    """Matrix of float32. ``numpy()`` and ``numpy.asarray`` return its array.

    Args:
        array: the values (rows, columns). None for an empty matrix.

    >>> from kaldi_standins.kaldi_native_io import FloatMatrix
    >>> FloatMatrix([[1.0, 2.0]]).numpy().tolist()
    [[1.0, 2.0]]
    """

    __slots__ = ()
    _codec = codec("matrix")
    _dtype = np.float32


class DoubleMatrix(_Matrix):
    """Matrix of float64. See :class:`FloatMatrix`."""

    __slots__ = ()
    _codec = codec("double-matrix")
    _dtype = np.float64


class FloatVector(_Array):
    """Vector of float32. ``numpy()`` and ``numpy.asarray`` return its array.

    Args:
        array: the values (size,). None for an empty vector.

    >>> from kaldi_standins.kaldi_native_io import FloatVector
    >>> FloatVector([1.0, 2.0]).numpy().tolist()
    [1.0, 2.0]
    """

    __slots__ = ()
    _codec = codec("vector")
    _dtype = np.float32
    _ndim = 1


class DoubleVector(_Array):
    """Vector of float64. See :class:`FloatVector`."""

    __slots__ = ()
    _codec = codec("double-vector")
    _dtype = np.float64
    _ndim = 1


@dataclass
class HtkHeader:
    """Header of HTK features.

    Attributes:
        num_samples: number of frames.
        sample_period: time between frames in units of 100 ns.
        sample_size: bytes per frame.
        sample_kind: HTK's code of the kind of features.
    """

    num_samples: int = 0
    sample_period: int = 0
    sample_size: int = 0
    sample_kind: int = 0


@dataclass(frozen=True)
class MatrixShape:
    """Numbers of rows and columns of a matrix, read without its values.

    Attributes:
        num_rows: number of rows.
        num_cols: number of columns.

    >>> import tempfile
    >>> from kaldi_standins.kaldi_native_io import FloatMatrix, MatrixShape
    >>> FloatMatrix([[1.0, 2.0]]).write(path := tempfile.mkdtemp() + "/matrix", binary=True)
    >>> MatrixShape.read(path)
    MatrixShape(num_rows=1, num_cols=2)
    """

    num_rows: int = 0
    num_cols: int = 0

    @classmethod
    def read(cls, rxfilename: str, *, pipes: bool = True, network: bool = True) -> MatrixShape:
        """Read the numbers of rows and columns of a matrix.

        Args:
            rxfilename: location of the matrix, such as ``feats.ark:123``.
            pipes, network: False to refuse commands and URLs, respectively.

        Raises:
            TableError: the object cannot be opened or read, or is not a matrix.
        """
        with as_table_error():
            return cls.from_array(load(rxfilename, kind=InfoCodec("matrix"), pipes=pipes, network=network))

    @classmethod
    def from_array(cls, matrix: Any) -> MatrixShape:
        """Return the shape of an array (rows, columns), or of the metadata of a matrix."""
        rows, columns = matrix.shape
        return cls(int(rows), int(columns))


def _compute_duration(sample_count: int, sampling_rate: float) -> float:
    """Return a duration in seconds, rounded to float32 as in Kaldi, because users compute times from it."""
    return float(np.float32(sample_count) / np.float32(sampling_rate))


class WaveData:
    """Audio of a wave file.

    Args:
        sample_freq: sampling rate in Hz.
        data: samples on Kaldi's scale (16-bit integers), of shape (channels, samples) or (samples,).

    >>> from kaldi_standins.kaldi_native_io import WaveData
    >>> WaveData(16000, [0.0] * 8000).duration
    0.5
    """

    def __init__(self, sample_freq: float, data: npt.ArrayLike | FloatMatrix) -> None:
        self._frequency = float(np.float32(sample_freq))
        self._data = data if isinstance(data, FloatMatrix) else FloatMatrix(np.atleast_2d(data))

    @property
    def sample_freq(self) -> float:
        """Sampling rate in Hz."""
        return self._frequency

    @property
    def data(self) -> FloatMatrix:
        """Samples: a matrix of shape (channels, samples)."""
        return self._data

    @property
    def duration(self) -> float:
        """Duration in seconds, rounded to float32."""
        return _compute_duration(self._data.shape[1], self._frequency)

    def __str__(self) -> str:
        channels = self._data.shape[0]
        return f"sample_freq: {self._frequency:g} Hz\nnum_channels: {channels}\nduration: {self.duration:g} s\n"

    @classmethod
    def from_wave(cls, wave: Wave) -> WaveData:
        """Convert a :class:`io_ark.Wave`, whose samples have the shape (channels, samples), to this class."""
        return cls(wave.sample_frequency, wave.samples)

    def to_wave(self) -> Wave:
        """Convert the audio to a :class:`io_ark.Wave`."""
        return Wave(self._frequency, self._data.numpy())


class WaveInfo:
    """Fields of the header of a wave file. Headers of audio from a pipe may lack the number of samples.

    ``header`` is the header that io_ark has read. None for a header of zeros.

    >>> import io_ark, numpy as np, tempfile
    >>> from kaldi_standins.kaldi_native_io import read_wave_info
    >>> io_ark.save(path := tempfile.mkdtemp() + "/a.wav", io_ark.Wave(16000, np.zeros((1, 8000))))
    >>> read_wave_info(path).duration
    0.5
    """

    def __init__(self, header: _Header | None = None) -> None:
        self._header = _Header(0.0, 0, 0, False, 0) if header is None else header

    @property
    def sample_freq(self) -> float:
        """Sampling rate in Hz."""
        return self._header.sample_frequency

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return self._header.channels

    @property
    def sample_count(self) -> int:
        """Number of samples per channel, or -1 if the header lacks the number."""
        count = self._header.sample_count
        return -1 if count is None else count

    @property
    def duration(self) -> float:
        """Duration in seconds, rounded to float32: 0 for a rate of 0, negative if the header lacks the sample count."""
        return _compute_duration(self.sample_count, self.sample_freq) if self.sample_freq else 0.0

    @property
    def block_align(self) -> int:
        """Size in bytes of one sample for each channel, at 2 bytes per sample."""
        return 2 * self.num_channels

    @property
    def data_bytes(self) -> int:
        """Size of all samples in bytes. It is negative if the header lacks the number of samples."""
        return self.sample_count * self.block_align

    @property
    def reverse_bytes(self) -> bool:
        """True for big-endian samples."""
        return self._header.big_endian

    def __str__(self) -> str:
        names = "sample_freq", "sample_count", "duration", "num_channels", "block_align", "data_bytes"
        values = [(name, getattr(self, name)) for name in names]
        lines = [f"{name}: {value:g}" if isinstance(value, float) else f"{name}: {value}" for name, value in values]
        return "\n".join([*lines, f"reverse_bytes: {int(self.reverse_bytes)}", ""])
