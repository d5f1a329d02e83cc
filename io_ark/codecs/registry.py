"""Registry of codecs: the kinds of Kaldi objects by name.

A module of codecs is imported when one of its kinds is first used, which keeps ``import io_ark`` fast: a program that
copies matrices loads no audio, lattice or training-example code.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from io_ark.codecs.base import Codec
from io_ark.errors import FormatError

# Maps kinds to a module in this folder or a full module name, a class, and its default arguments.
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
    "config": ("lists", "ConfigCodec", {}),
    "symbol-table": ("lists", "SymbolTableCodec", {}),
    "int-lines": ("lists", "IntLinesCodec", {}),
    "lines": ("lists", "LinesCodec", {}),
    "fst": ("fst", "FstCodec", {}),
    "plda": ("io_ark.models.plda", "PldaCodec", {}),
    "diag-gmm": ("io_ark.models.gmm", "DiagGmmCodec", {}),
    "full-gmm": ("io_ark.models.gmm", "FullGmmCodec", {}),
    "ivector-extractor": ("io_ark.models.extractor", "IvectorExtractorCodec", {}),
    "acoustic-model": ("io_ark.models.acoustic", "AcousticModelCodec", {}),
    "transition-model": ("io_ark.models.codecs", "TransitionModelCodec", {}),
    "topology": ("io_ark.models.codecs", "HmmTopologyCodec", {}),
    "tree": ("io_ark.models.codecs", "ContextDependencyCodec", {}),
    "htk": ("htk", "HtkCodec", {}),
    "sphinx": ("sphinx", "SphinxCodec", {}),
    "wave": ("wave", "WaveCodec", {}),
    "wave-info": ("wave", "WaveInfoCodec", {}),
}

KINDS = tuple(_CODECS)


def codec(kind: str, **options: Any) -> Codec[Any]:
    """Create the codec of a kind of object.

    Args:
        kind: one of :data:`KINDS`.
        options: arguments of the codec of ``kind``, such as ``method`` for ``"compressed-matrix"``.

    Raises:
        FormatError: the kind or an option is unknown.

    >>> import io
    >>> from io_ark.codecs import codec
    >>> text = io.BytesIO()
    >>> codec("int-vector").write(text, [1, 2, 3], binary=False)
    >>> text.getvalue()
    b'1 2 3 \\n'
    """
    try:
        codec_class, arguments = _find_class(kind)
    except KeyError as error:
        raise FormatError(f"unknown kind of object {kind!r}: choose one of {', '.join(KINDS)}") from error
    try:
        new_codec = codec_class(**(arguments | options))
    except TypeError as error:
        problem = f"{kind!r} does not accept the options {', '.join(options)}, or their values"
        raise FormatError(f"{problem} ({error}): correct or remove them") from error
    new_codec.kind = kind
    return new_codec


@cache
def _find_class(kind: str) -> tuple[type[Codec[Any]], dict[str, Any]]:
    """Return the codec class of a kind and its default arguments. Raise KeyError if the kind is unknown."""
    module, name, arguments = _CODECS[kind]
    full_module = module if "." in module else f"io_ark.codecs.{module}"
    return getattr(import_module(full_module), name), arguments
