"""Features in the format of CMU Sphinx: a count of floats, then the floats.

Source: ``SphinxMatrixHolder`` in Kaldi's ``src/util/kaldi-holder-inl.h`` (big-endian, the byte order of Sphinx) and
``WriteSphinx`` in ``src/matrix/kaldi-matrix.cc`` (little-endian).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock
from io_ark.codecs.base import INT32_MAX, Codec, Sink, as_floats, view_raw_bytes
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


def encode_sphinx_block(block: ArrayBlock, *, big_endian: bool = True) -> tuple[Bytes, Bytes] | None:
    """Encode the matrices (frames, dim) of a block in the format and byte order of :class:`SphinxCodec`.

    Returns:
        The bytes of the headers, shape (entries, 4), and the bytes of the numbers of all matrices, shape (bytes,).
        None if a matrix has 2**31 or more numbers.
    """
    order, counts = ">" if big_endian else "<", block.count_elements()
    if counts.max() > INT32_MAX:
        return None
    headers = counts.astype(order + "i4").view(np.uint8).reshape(len(block), -1)
    return headers, block.values.astype(order + "f4", copy=False).view(np.uint8)


class SphinxCodec(Codec[Array]):
    """Codec of features in the format of CMU Sphinx, which has no text format and no binary marker.

    The value is a float32 array of shape (frames, dim).

    Args:
        dim: number of features per frame. It is needed to read, because a file stores only the total count of numbers.
        big_endian: True for the byte order of Sphinx, False for the byte order of Kaldi's ``WriteSphinx``.
    """

    marker = b""

    def __init__(self, dim: int = 13, big_endian: bool = True) -> None:
        if dim < 1:
            message = f"invalid dimension of Sphinx features: dim={dim} is less than 1; pass the number of columns"
            raise FormatError(message)
        self.dim = dim
        self._order = ">" if big_endian else "<"

    def read(self, source: Source) -> Array:
        at = source.tell()
        count = int(np.frombuffer(source.read(4), self._order + "i4")[0])
        if count < 0 or count % self.dim:
            source.fail(f"the count of {count} floats is negative or not a multiple of dim={self.dim}: pass the number "
                        "of features per frame as dim", at)  # fmt: skip
        return source.read_array(self._order + "f4", count).reshape(-1, self.dim).astype(np.float32)

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        if not binary:
            raise FormatError("Sphinx features have no text format: write in binary, to a table without the option 't'")
        features = as_floats(value, self._order + "f4", 2)
        if features.size > INT32_MAX:
            raise FormatError(f"{features.size} floats are too many for a Sphinx file: split the features")
        sink.write(np.array(features.size, self._order + "i4").tobytes())
        sink.write(view_raw_bytes(features))
