"""Stubs of readers and writers with the names of Kaldi and of kaldi_native_io."""

from __future__ import annotations

from kaldi_standins import kaldi
from kaldi_standins.kaldi_native_io import table_types
from kaldi_standins.kaldi_native_io.kinds import ROWS

# Types of the values of each kind, which are the same for reading and writing.
VALUES = {
    "matrix": "Float32",
    "double-matrix": "Float64",
    "compressed-matrix": "CompressedMatrix",
    "general-matrix": "Any",
    "vector": "Float32",
    "double-vector": "Float64",
    "int": "int",
    "int-vector": "Int32",
    "int-vector-vector": "list[Int32]",
    "int-pair-vector": "Int32",
    "int8-vector": "Int8",
    "float-pair-vector": "Float32",
    "float": "float",
    "double": "float",
    "bool": "bool",
    "token": "str",
    "token-vector": "list[str]",
    "posterior": "Posterior",
    "gauss-posterior": "Any",
    "wave": "Wave",
    "wave-info": "WaveInfo",
    "nnet-example": "Any",
    "nnet-chain-example": "Any",
}

# Types that kaldi_native_io's functions return.
READ = {
    "read_int32_vector": "list[int]",
    "read_int8_vector": "list[int]",
    "read_wave": "WaveData",
    "read_wave_info": "WaveInfo",
}

KALDI = """\
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

"""

KALDI_NATIVE_IO = """\
# Written by `make generate`: do not edit.
from collections.abc import Callable
from typing import Any

from kaldi_standins.kaldi_native_io.kinds import CompressedMatrixWriter as CompressedMatrixWriter, Row
from kaldi_standins.kaldi_native_io.tables import RandomAccessTableReader, SequentialTableReader, TableWriter
from kaldi_standins.kaldi_native_io.values import WaveData, WaveInfo

def describe_classes(row: Row) -> dict[str, tuple[type, str]]: ...
def make_reading_function(row: Row) -> Callable[..., Any]: ...

"""


def kaldi_source() -> str:
    """Return the text of ``packages/standins/kaldi_standins/kaldi.pyi``."""
    lines = [
        f"{name}: {protocol}[{VALUES[kind]}]\n"
        for stem, kind in kaldi.KINDS.items()
        for name, protocol in {
            f"Sequential{stem}Reader": "_Sequential",
            f"RandomAccess{stem}Reader": "_RandomAccess",
            f"RandomAccess{stem}ReaderMapped": "_Mapped",
            f"{stem}Writer": "_Writer",
        }.items()
    ]
    return KALDI + "".join(lines) + _format_all(kaldi.__all__)


def kaldi_native_io_source() -> str:
    """Return the text of ``packages/standins/kaldi_standins/kaldi_native_io/table_types.pyi``."""
    classes = [
        f'class {name}({base.__name__}):\n    """{text}"""\n\n'
        for row in ROWS
        for name, (base, text) in table_types.describe_classes(row).items()
    ]
    arguments = "rxfilename: str, *, pipes: bool = True, network: bool = True"
    functions = [
        f'def {row.function}({arguments}) -> {READ[row.function]}:\n    """Read a value of type {row.value}."""\n\n'
        for row in ROWS
        if row.function
    ]
    return KALDI_NATIVE_IO + "".join(classes + functions) + _format_all(table_types.__all__)


def _format_all(names: list[str]) -> str:
    return "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"
