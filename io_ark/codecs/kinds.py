"""Kinds of objects for type checkers: literal names, and the types of the values that are read.

A kind of object is named by a string, and each overload of a reader maps the names in one of these groups to the type
of its values. The names themselves are in :mod:`io_ark.codecs.registry`; a test keeps the two equal.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Float32: TypeAlias = npt.NDArray[np.float32]
Float64: TypeAlias = npt.NDArray[np.float64]
Int32: TypeAlias = npt.NDArray[np.int32]

Float32Kind: TypeAlias = Literal[
    "matrix", "vector", "packed-matrix", "sp-matrix", "tp-matrix", "float-pair-vector", "sphinx"
]
Float64Kind: TypeAlias = Literal["double-matrix", "double-vector"]
Int32Kind: TypeAlias = Literal["int-vector", "int-pair-vector", "int-lines"]
FloatKind: TypeAlias = Literal["float", "double"]
# Kinds that any array-like value can be written as.
ArrayKind: TypeAlias = Literal[
    Float32Kind, Float64Kind, Int32Kind, "int8-vector", "compressed-matrix", "sparse-vector", "sparse-matrix"
]
# Kinds in none of the groups above that are written from values of one type.
OtherWrittenKind: TypeAlias = Literal[
    "general-matrix", "int-vector-vector", "bool", "gauss-posterior", "nnet-example", "nnet-chain-example", "htk",
    "wave-info",
]  # fmt: skip
# All kinds. For kinds in none of these groups, type checkers see the values as Any.
Kind: TypeAlias = Literal[
    Float32Kind, Float64Kind, Int32Kind, FloatKind, "general-matrix", "compressed-matrix", "sparse-vector",
    "sparse-matrix", "int8-vector", "int-vector-vector", "int", "bool", "token", "token-vector", "posterior",
    "gauss-posterior", "nnet-example", "nnet-chain-example", "htk", "wave", "wave-info", "plda", "diag-gmm",
    "full-gmm", "ivector-extractor", "acoustic-model", "transition-model", "topology", "tree", "fst", "config",
    "symbol-table", "lines",
]  # fmt: skip
