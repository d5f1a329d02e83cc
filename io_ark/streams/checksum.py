"""CRC-32 of what is written to files."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from io_ark.native import NATIVE

_MIN_BYTES = 1 << 16  # For fewer bytes, the call of C takes longer than zlib.


def _compute_crc_in_c(data: bytes | memoryview, start: int = 0) -> Any:
    if len(data) < _MIN_BYTES:
        return NotImplemented
    folded = np.empty(16, np.uint8)
    count = NATIVE.function("ark_fold_crc")(np.frombuffer(data, np.uint8), len(data), start, folded)
    return zlib.crc32(memoryview(data)[count:], zlib.crc32(folded.data, 0xFFFFFFFF) if count else start)


@NATIVE.twin(_compute_crc_in_c)
def compute_crc(data: bytes | memoryview, start: int = 0) -> int:
    """Return the CRC-32 of bytes that follow other bytes, whose CRC-32 is ``start``."""
    return zlib.crc32(data, start)
