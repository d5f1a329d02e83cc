"""Codecs: one kind of Kaldi object each, bytes or text on one side, a Python value on the other.

A codec knows no file, no key and no pipe: it reads from a :class:`io_ark.streams.source.Source` and writes to anything with a
``write``. Ask :func:`codec` for one by the name of its kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from io_ark.codecs.base import Codec
from io_ark.errors import FormatError
from io_ark.streams.source import Source

__all__ = ["KINDS", "Codec", "codec", "guess"]

# kind: (module, class, arguments). A module is imported when one of its kinds is first asked for.
_CODECS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "matrix": ("matrix", "MatrixCodec", {"dtype": "float32"}),
    "double-matrix": ("matrix", "MatrixCodec", {"dtype": "float64"}),
    "compressed-matrix": ("compressed", "CompressedMatrixCodec", {}),
    "general-matrix": ("general", "GeneralMatrixCodec", {}),
    "sparse-vector": ("sparse", "SparseVectorCodec", {}),
    "sparse-matrix": ("sparse", "SparseMatrixCodec", {}),
    "packed-matrix": ("packed", "PackedMatrixCodec", {"form": "packed"}),
    "sp-matrix": ("packed", "PackedMatrixCodec", {"form": "symmetric"}),
    "tp-matrix": ("packed", "PackedMatrixCodec", {"form": "triangular"}),
    "vector": ("vector", "VectorCodec", {"dtype": "float32"}),
    "double-vector": ("vector", "VectorCodec", {"dtype": "float64"}),
    "int-vector": ("int_vector", "IntVectorCodec", {"dtype": "int32"}),
    "int8-vector": ("int_vector", "IntVectorCodec", {"dtype": "int8"}),
    "int-vector-vector": ("int_vector", "IntVectorVectorCodec", {}),
    "int-pair-vector": ("int_vector", "PairVectorCodec", {"dtype": "int32"}),
    "float-pair-vector": ("int_vector", "PairVectorCodec", {"dtype": "float32"}),
    "int": ("scalar", "IntCodec", {}),
    "float": ("scalar", "FloatCodec", {}),
    "double": ("scalar", "FloatCodec", {"double": True}),
    "bool": ("scalar", "BoolCodec", {}),
    "token": ("tokens", "TokenCodec", {}),
    "token-vector": ("tokens", "TokenVectorCodec", {}),
    "posterior": ("posterior", "PosteriorCodec", {}),
    "gauss-posterior": ("posterior", "GaussPosteriorCodec", {}),
    "nnet-example": ("nnet_example", "NnetExampleCodec", {}),
    "nnet-chain-example": ("nnet_example", "NnetChainExampleCodec", {}),
    "htk": ("htk", "HtkCodec", {}),
    "sphinx": ("sphinx", "SphinxCodec", {}),
    "wave": ("wave", "WaveCodec", {}),
    "wave-info": ("wave", "WaveInfoCodec", {}),
}

KINDS = tuple(_CODECS)


def codec(kind: str, **options: Any) -> Codec[Any]:
    """The codec for a kind of object.

    Args:
        kind: one of :data:`KINDS`.
        options: what that codec takes, such as ``method`` for ``"compressed-matrix"``.

    Raises:
        FormatError: there is no such kind, or it takes no such option.

    >>> import io
    >>> text = io.BytesIO()
    >>> codec("int-vector").write(text, [1, 2, 3], binary=False)
    >>> text.getvalue()
    b'1 2 3 \\n'
    """
    try:
        module, name, arguments = _CODECS[kind]
    except KeyError as error:
        raise FormatError(f"no kind of object is called {kind!r}; there are {', '.join(KINDS)}") from error
    made = getattr(import_module(f"io_ark.codecs.{module}"), name)
    try:
        wanted: Codec[Any] = made(**(arguments | options))
    except TypeError as error:
        raise FormatError(f"{kind!r} does not take these options: {', '.join(options)}") from error
    wanted.kind = kind
    return wanted


def guess(source: Source) -> Any:
    """The object that starts at the next byte of ``source``, whatever kind it is.

    Raises:
        FormatError: no kind of object looks like that.
        TruncatedError: the object is not all there.

    >>> from io_ark.streams.source import BytesSource
    >>> guess(BytesSource(b" [ 1 2 3 ]\\n"))
    array([1., 2., 3.], dtype=float32)
    """
    from io_ark.codecs.detect import detect_kind

    kind, options = detect_kind(source)
    return codec(kind, **options).read(source)
