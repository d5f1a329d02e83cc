"""CRC-32, by carry-less multiplication where the processor has it."""

from __future__ import annotations

import zlib

import numpy as np

from kaldi_compat import native

ALL_BITS = 2**32 - 1


def _crc32_in_c(data: bytes | memoryview, before: int = 0) -> int:
    folded = np.empty(16, np.uint8)
    size = native.function("crc32_fold")(np.frombuffer(data, np.uint8), len(data), before ^ ALL_BITS, folded)
    return zlib.crc32(data[size:], zlib.crc32(folded.data, ALL_BITS)) if size else NotImplemented


@native.twin(_crc32_in_c)
def crc32(data: bytes | memoryview, before: int = 0) -> int:
    """Return the CRC-32 of data that follow data with the CRC-32 ``before``."""
    return zlib.crc32(data, before)
