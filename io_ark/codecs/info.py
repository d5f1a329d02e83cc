"""Read the shapes of objects without loading them."""

from __future__ import annotations

from typing import Any

from io_ark.codecs.base import Codec
from io_ark.codecs.matrix import MatrixCodec
from io_ark.codecs.registry import codec
from io_ark.codecs.scan import Scan, ShapeScan
from io_ark.native import NATIVE
from io_ark.streams.source import Source


class InfoCodec(Codec[Any]):
    """Codec that reads the shapes of objects (see :meth:`Codec.read_part`). It cannot write.

    Args:
        of: kind of the objects (see :mod:`io_ark.codecs`), or a codec of the objects.

    >>> import io, numpy as np
    >>> from io_ark.codecs import codec
    >>> from io_ark.codecs.info import InfoCodec
    >>> from io_ark.streams.source import BytesSource
    >>> data = io.BytesIO()
    >>> codec("matrix").write(data, np.zeros((5, 3)))
    >>> InfoCodec("matrix").read(BytesSource(data.getvalue()))
    ArrayInfo(shape=(5, 3), dtype=dtype('float32'))
    """

    def __init__(self, of: str | Codec[Any]) -> None:
        self._codec = codec(of) if isinstance(of, str) else of

    def create_scan(self) -> Scan | None:
        return ShapeScan(self._codec.dtype) if isinstance(self._codec, MatrixCodec) and NATIVE.in_use else None

    def read(self, source: Source) -> Any:
        return self._codec.read_part(source, None)
