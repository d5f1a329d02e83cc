"""The CRC-32 that C computes is that of zlib."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_ark.native import NATIVE
from io_ark.streams import checksum

DATA = np.random.default_rng(1).integers(0, 256, 1 << 17, np.uint8).tobytes()
STARTS = st.one_of(st.sampled_from([0, 1, 0xFFFFFFFF]), st.integers(0, 0xFFFFFFFF))


@given(offset=st.integers(0, 70), size=st.one_of(st.integers(0, 600), st.integers(65400, 65700)), start=STARTS)
def test_crc_equals_that_of_zlib(offset: int, size: int, start: int) -> None:
    data = memoryview(DATA)[offset : offset + size]
    assert checksum.compute_crc(data, start) == zlib.crc32(data, start)


@pytest.mark.skipif(not NATIVE.in_use, reason="the C library is not built")
@given(offset=st.integers(0, 70), size=st.integers(0, 600), start=STARTS)
def test_folded_bytes_have_the_crc_of_the_bytes(offset: int, size: int, start: int) -> None:
    data, folded = np.frombuffer(DATA, np.uint8)[offset : offset + size], np.empty(16, np.uint8)
    count = NATIVE.function("ark_fold_crc")(data, size, start, folded)
    assert count in (0, size // 64 * 64)  # 0 if the processor lacks the instruction
    assert count == 0 or zlib.crc32(folded.tobytes(), 0xFFFFFFFF) == zlib.crc32(data[:count].tobytes(), start)


def test_parts_have_the_crc_of_the_whole() -> None:
    middle = len(DATA) // 2 + 3
    assert checksum.compute_crc(DATA[middle:], checksum.compute_crc(DATA[:middle])) == zlib.crc32(DATA)
