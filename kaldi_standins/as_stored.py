"""Arrays in the precision in which they are stored."""

from __future__ import annotations

from typing import Any, Literal

from io_ark.codecs import Codec, codec
from io_ark.codecs.base import Sink
from io_ark.specifier import Range
from io_ark.streams.source import Source


class AsStored(Codec[Any]):
    """Codec of float matrices or vectors: float64 if stored as double, else float32.

    Args:
        kind: "matrix" or "vector".
    """

    def __init__(self, kind: Literal["matrix", "vector"]) -> None:
        self._single, self._double = codec(kind), codec(f"double-{kind}")

    def read(self, source: Source) -> Any:
        return self._of(source).read(source)

    def part(self, source: Source, wanted: Range | None) -> Any:
        return self._of(source).part(source, wanted)

    def write(self, sink: Sink, value: Any, *, binary: bool = True) -> None:
        (self._double if value.dtype.itemsize == 8 else self._single).write(sink, value, binary=binary)

    def _of(self, source: Source) -> Codec[Any]:
        return self._double if source.peek(3) == b"\0BD" else self._single
