"""The CRC-32 that archives are verified with is zlib's, with and without carry-less multiplication."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat import native
from kaldi_compat.native.crc32 import crc32

CONTENT = np.random.default_rng(0).integers(0, 256, 1 << 16, dtype=np.uint8).tobytes()


@given(start=st.integers(0, 70), size=st.integers(0, 400) | st.integers(0, 1 << 16), before=st.integers(0, 2**32 - 1))
def test_crc32_is_zlibs(start: int, size: int, before: int) -> None:
    data = memoryview(CONTENT)[start : start + size]
    assert crc32(data, before) == crc32(bytes(data), before) == zlib.crc32(data, before)


@pytest.mark.skipif(not native.NATIVE.in_use, reason="the C library is not built")
def test_fold_reads_whole_blocks_only() -> None:
    folded = np.zeros(16, np.uint8)
    sizes = [native.function("crc32_fold")(np.zeros(size, np.uint8), size, 0, folded) for size in (63, 64, 200)]
    assert sizes in ([0, 64, 192], [0, 0, 0])
