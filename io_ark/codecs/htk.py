"""Features in HTK's format: a header of 12 bytes, then big-endian floats.

Source: ``ReadHtk`` and ``WriteHtk`` in Kaldi's ``src/matrix/kaldi-matrix.cc``; the HTK Book, section 5.10.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock
from io_ark.codecs.base import Codec, Sink, as_floats, register_kind, view_raw_bytes
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Bytes = npt.NDArray[np.uint8]

_HEADER = struct.Struct(">iihH")
_FIELDS = np.dtype([("frames", ">i4"), ("period", ">i4"), ("size", ">i2"), ("kind", ">u2")])
_BASE = 0o77  # Bits of the basic kind, such as MFCC. The other bits are qualifiers.
_COMPRESSED = 0o2000  # Qualifier _C: the numbers are compressed.
_CHECKSUM = 0o10000  # Qualifier _K: a checksum of 2 bytes follows the data.
_VECTOR_QUANTIZED = 0o40000  # Qualifier _V: the data are indexes of vectors.
# Basic kinds WAVEFORM, IREFC and DISCRETE, whose data are not floats.
_NOT_FLOATS = (0, 5, 10)


@register_kind("htk")
class HtkFeatures(NamedTuple):
    """Features with the fields of their HTK header.

    Attributes:
        features: float32 of shape (frames, dimension).
        sample_period: time between frames in units of 100 ns (10 ms are 100000).
        parameter_kind: HTK's code of the kind of features, with its qualifiers.
    """

    features: npt.NDArray[Any]
    sample_period: int
    parameter_kind: int


def encode_htk_block(block: ArrayBlock, sample_period: int, parameter_kind: int) -> tuple[Bytes, Bytes] | None:
    """Encode the matrices of a block in the format of :class:`HtkCodec`.

    Args:
        block: matrices of shape (frames, dimension).
        sample_period, parameter_kind: see :class:`HtkFeatures`.

    Returns:
        The bytes of the headers, shape (entries, 12), and the bytes of the numbers of all matrices, shape (bytes,).
        None if a number does not fit into a header.
    """
    # As in `as_floats`, an empty matrix has no rows and no columns.
    rows, columns = np.where(block.shapes.all(axis=1, keepdims=True), block.shapes, 0).T
    headers = np.empty(len(block), _FIELDS)
    fields = {"frames": rows, "period": sample_period, "size": 4 * columns, "kind": parameter_kind}
    for name, values in fields.items():
        limits = np.iinfo(_FIELDS[name])
        if np.min(values) < limits.min or np.max(values) > limits.max:
            return None
        headers[name] = values
    return headers.view(np.uint8).reshape(len(block), -1), block.values.astype(">f4").view(np.uint8)


class HtkCodec(Codec[HtkFeatures]):
    """Codec of :class:`HtkFeatures` in the format of HTK, which has no text format and no binary marker."""

    marker = b""

    def read(self, source: Source) -> HtkFeatures:
        at = source.tell()
        frames, period, size, parameter_kind = _HEADER.unpack(source.read(_HEADER.size))
        if parameter_kind & (_COMPRESSED | _VECTOR_QUANTIZED) or parameter_kind & _BASE in _NOT_FLOATS:
            source.fail(f"HTK features of kind {parameter_kind:#o} are compressed, quantized or not floats: write "
                        "plain features, for example with HCopy", at)  # fmt: skip
        if frames < 0 or size < 0:
            source.fail(f"invalid size of an HTK file: {frames} frames of {size} bytes; the file is damaged", at)
        columns = size // 4
        values = source.read_array(">f4", frames * columns).reshape(frames, columns).astype(np.float32)
        if parameter_kind & _CHECKSUM and len(source.peek(2)) == 2:  # The checksum is not checked, and may be missing.
            source.skip(2)
        return HtkFeatures(values, period, parameter_kind & ~_CHECKSUM)

    def write_body(self, sink: Sink, value: HtkFeatures, binary: bool) -> None:
        if not binary:
            raise FormatError("HTK features have no text format: write in binary, to a table without the option 't'")
        features = as_floats(value.features, ">f4", 2)
        try:
            header = _HEADER.pack(len(features), value.sample_period, 4 * features.shape[1], value.parameter_kind)
        except struct.error as error:
            raise FormatError(f"HTK cannot hold {features.shape[1]} columns, period {value.sample_period} and kind "
                              f"{value.parameter_kind}: pass at most 8191 columns, an integer period below 2**31 and "
                              "an integer kind below 2**16") from error  # fmt: skip
        sink.write(header)
        sink.write(view_raw_bytes(features))
