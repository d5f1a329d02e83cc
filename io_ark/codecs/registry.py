"""Registry of codecs: the kinds of Kaldi objects by name.

A module of codecs is imported when one of its kinds is first used, which keeps ``import io_ark`` fast: a program that
copies matrices loads no audio, lattice or training-example code. Each entry is therefore a function that imports its
class, and not the path of a module in a string, so that type checkers and refactoring tools see the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from io_ark.codecs.base import Codec
from io_ark.errors import FormatError

CodecClass = Callable[..., Codec[Any]]


def _matrix() -> CodecClass:
    from io_ark.codecs.matrix import MatrixCodec

    return MatrixCodec


def _compressed() -> CodecClass:
    from io_ark.codecs.compressed import CompressedMatrixCodec

    return CompressedMatrixCodec


def _general() -> CodecClass:
    from io_ark.codecs.general import GeneralMatrixCodec

    return GeneralMatrixCodec


def _sparse_vector() -> CodecClass:
    from io_ark.codecs.sparse import SparseVectorCodec

    return SparseVectorCodec


def _sparse_matrix() -> CodecClass:
    from io_ark.codecs.sparse import SparseMatrixCodec

    return SparseMatrixCodec


def _packed() -> CodecClass:
    from io_ark.codecs.packed import PackedMatrixCodec

    return PackedMatrixCodec


def _vector() -> CodecClass:
    from io_ark.codecs.vector import VectorCodec

    return VectorCodec


def _int_vector() -> CodecClass:
    from io_ark.codecs.int_vector import IntVectorCodec

    return IntVectorCodec


def _int_vector_vector() -> CodecClass:
    from io_ark.codecs.int_vector import IntVectorVectorCodec

    return IntVectorVectorCodec


def _pair_vector() -> CodecClass:
    from io_ark.codecs.int_vector import PairVectorCodec

    return PairVectorCodec


def _int() -> CodecClass:
    from io_ark.codecs.scalar import IntCodec

    return IntCodec


def _float() -> CodecClass:
    from io_ark.codecs.scalar import FloatCodec

    return FloatCodec


def _bool() -> CodecClass:
    from io_ark.codecs.scalar import BoolCodec

    return BoolCodec


def _token() -> CodecClass:
    from io_ark.codecs.tokens import TokenCodec

    return TokenCodec


def _token_vector() -> CodecClass:
    from io_ark.codecs.tokens import TokenVectorCodec

    return TokenVectorCodec


def _posterior() -> CodecClass:
    from io_ark.codecs.posterior import PosteriorCodec

    return PosteriorCodec


def _gauss_posterior() -> CodecClass:
    from io_ark.codecs.posterior import GaussPosteriorCodec

    return GaussPosteriorCodec


def _nnet_example() -> CodecClass:
    from io_ark.codecs.nnet_example import NnetExampleCodec

    return NnetExampleCodec


def _nnet_chain_example() -> CodecClass:
    from io_ark.codecs.nnet_example import NnetChainExampleCodec

    return NnetChainExampleCodec


def _htk() -> CodecClass:
    from io_ark.codecs.htk import HtkCodec

    return HtkCodec


def _sphinx() -> CodecClass:
    from io_ark.codecs.sphinx import SphinxCodec

    return SphinxCodec


def _wave() -> CodecClass:
    from io_ark.codecs.wave import WaveCodec

    return WaveCodec


def _wave_info() -> CodecClass:
    from io_ark.codecs.wave import WaveInfoCodec

    return WaveInfoCodec


# kind: (function that imports the class, its default arguments)
_CODECS: dict[str, tuple[Callable[[], CodecClass], dict[str, Any]]] = {
    "matrix": (_matrix, {"dtype": "float32"}),
    "double-matrix": (_matrix, {"dtype": "float64"}),
    "compressed-matrix": (_compressed, {}),
    "general-matrix": (_general, {}),
    "sparse-vector": (_sparse_vector, {}),
    "sparse-matrix": (_sparse_matrix, {}),
    "packed-matrix": (_packed, {"form": "packed"}),
    "sp-matrix": (_packed, {"form": "symmetric"}),
    "tp-matrix": (_packed, {"form": "triangular"}),
    "vector": (_vector, {"dtype": "float32"}),
    "double-vector": (_vector, {"dtype": "float64"}),
    "int-vector": (_int_vector, {"dtype": "int32"}),
    "int8-vector": (_int_vector, {"dtype": "int8"}),
    "int-vector-vector": (_int_vector_vector, {}),
    "int-pair-vector": (_pair_vector, {"dtype": "int32"}),
    "float-pair-vector": (_pair_vector, {"dtype": "float32"}),
    "int": (_int, {}),
    "float": (_float, {}),
    "double": (_float, {"double": True}),
    "bool": (_bool, {}),
    "token": (_token, {}),
    "token-vector": (_token_vector, {}),
    "posterior": (_posterior, {}),
    "gauss-posterior": (_gauss_posterior, {}),
    "nnet-example": (_nnet_example, {}),
    "nnet-chain-example": (_nnet_chain_example, {}),
    "htk": (_htk, {}),
    "sphinx": (_sphinx, {}),
    "wave": (_wave, {}),
    "wave-info": (_wave_info, {}),
}

KINDS = tuple(_CODECS)


def codec(kind: str, **options: Any) -> Codec[Any]:
    """Create the codec of a kind of object.

    Args:
        kind: one of :data:`KINDS`.
        options: arguments of that codec, such as ``method`` for ``"compressed-matrix"``.

    Raises:
        FormatError: for an unknown kind, or an option that the codec does not have.

    >>> import io
    >>> from io_ark.codecs import codec
    >>> text = io.BytesIO()
    >>> codec("int-vector").write(text, [1, 2, 3], binary=False)
    >>> text.getvalue()
    b'1 2 3 \\n'
    """
    try:
        codec_class, arguments = _CODECS[kind]
    except KeyError as error:
        raise FormatError(f"unknown kind of object {kind!r}: choose one of {', '.join(KINDS)}") from error
    try:
        created = codec_class()(**(arguments | options))
    except TypeError as error:
        raise FormatError(f"{kind!r} does not take these options: {', '.join(options)}") from error
    created.kind = kind
    return created
