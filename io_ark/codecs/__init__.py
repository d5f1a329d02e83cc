"""Codecs, one for each kind of Kaldi object: bytes or text on one side, a Python value on the other.

A codec does not know about files, keys or pipes. It reads from a :class:`io_ark.streams.source.Source` and writes to
any object with a ``write`` method. :func:`codec` creates one by the name of its kind; :func:`read_any` and
:class:`AnyCodec` detect the kind from the data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from io_ark.codecs.base import Codec
from io_ark.codecs.detect import AnyCodec, kind_of, read_any
from io_ark.codecs.registry import KINDS, codec

if TYPE_CHECKING:
    from io_ark.codecs.compressed import CompressedMatrix, CompressionMethod, compress, compressed_block
    from io_ark.codecs.general import GeneralMatrix
    from io_ark.codecs.htk import HtkFeatures
    from io_ark.codecs.info import InfoCodec
    from io_ark.codecs.int_vector import PlainIntVectorCodec
    from io_ark.codecs.pack import number_lines
    from io_ark.codecs.posterior import IntListsCodec, PosteriorArraysCodec
    from io_ark.codecs.wave import pcm16

__all__ = [
    "KINDS",
    "AnyCodec",
    "Codec",
    "CompressedMatrix",
    "CompressionMethod",
    "GeneralMatrix",
    "HtkFeatures",
    "InfoCodec",
    "IntListsCodec",
    "PlainIntVectorCodec",
    "PosteriorArraysCodec",
    "codec",
    "compress",
    "compressed_block",
    "kind_of",
    "number_lines",
    "pcm16",
    "read_any",
]

# Maps names to the modules of this package that define them. A module is imported when one of its names is first used,
# so that copying matrices loads no code for audio.
_HOMES = {
    "CompressedMatrix": "compressed",
    "CompressionMethod": "compressed",
    "compress": "compressed",
    "compressed_block": "compressed",
    "GeneralMatrix": "general",
    "HtkFeatures": "htk",
    "InfoCodec": "info",
    "IntListsCodec": "posterior",
    "PosteriorArraysCodec": "posterior",
    "number_lines": "pack",
    "PlainIntVectorCodec": "int_vector",
    "pcm16": "wave",
}


def __getattr__(name: str) -> Any:
    """Import and return a name of ``_HOMES``. Raise AttributeError for any other name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
