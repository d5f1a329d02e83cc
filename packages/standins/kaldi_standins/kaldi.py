"""Readers and writers under Kaldi's names (src/util/table-types.h), typed by their values.

>>> from kaldi_standins.kaldi import SequentialBaseFloatMatrixReader
>>> with SequentialBaseFloatMatrixReader("ark:feats.ark") as reader:  # doctest: +SKIP
...     for key, matrix in reader:
...         print(key, matrix.shape)

Each name is a function that creates a :class:`~io_ark.tables.readers.SequentialReader`,
:class:`~io_ark.tables.random_access.RandomAccessReader` or :class:`~io_ark.tables.writers.Writer` of one kind of
object. The ``...Mapped`` functions take a second rspecifier, which names a map such as ``utt2spk``.

Type checkers and editors read ``kaldi.pyi``, which ``make generate`` writes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from io_ark.codecs.kinds import Kind
from io_ark.tables.random_access import RandomAccessReader
from io_ark.tables.readers import SequentialReader
from io_ark.tables.writers import Writer

# Maps the names of types in Kaldi's classes, such as SequentialBaseFloatMatrixReader, to kinds of objects.
KINDS: dict[str, Kind] = {
    "BaseFloatMatrix": "matrix",
    "DoubleMatrix": "double-matrix",
    "CompressedMatrix": "compressed-matrix",
    "GeneralMatrix": "general-matrix",
    "BaseFloatVector": "vector",
    "DoubleVector": "double-vector",
    "Int32": "int",
    "Int32Vector": "int-vector",
    "Int32VectorVector": "int-vector-vector",
    "Int32PairVector": "int-pair-vector",
    "Int8Vector": "int8-vector",
    "BaseFloatPairVector": "float-pair-vector",
    "BaseFloat": "float",
    "Double": "double",
    "Bool": "bool",
    "Token": "token",
    "TokenVector": "token-vector",
    "Posterior": "posterior",
    "GaussPost": "gauss-posterior",
    "Wave": "wave",
    "WaveInfo": "wave-info",
    "NnetExample": "nnet-example",
    "NnetChainExample": "nnet-chain-example",
}


def _open_mapped(kind: Kind, rspecifier: str, utt2spk: str, **access: Any) -> RandomAccessReader[Any]:
    return RandomAccessReader(rspecifier, kind=kind, utt2spk=utt2spk, **access)


def _list_functions(name: str, kind: Kind) -> dict[str, Any]:
    """Map names of Kaldi's classes for the type ``name`` to functions that create readers or writers of ``kind``."""
    return {
        f"Sequential{name}Reader": partial(SequentialReader, kind=kind),
        f"RandomAccess{name}Reader": partial(RandomAccessReader, kind=kind),
        f"RandomAccess{name}ReaderMapped": partial(_open_mapped, kind),
        f"{name}Writer": partial(Writer, kind=kind),
    }


_FUNCTIONS = {name: function for row in KINDS.items() for name, function in _list_functions(*row).items()}
globals().update(_FUNCTIONS)
__all__ = sorted(_FUNCTIONS)
