"""Sums over compressed matrices are those of the values that they read back as, added one frame after the other."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_ark.blocks import ArrayBlock
from io_ark.codecs import codec, compressed_block, compressed_sums
from io_ark.native import NATIVE, library
from io_ark.streams.source import BytesSource
from kaldi_compat.functional.cmvn import cmvn_stats
from tests.support.reading_ways import without_library

pytestmark = pytest.mark.skipif(not NATIVE.in_use, reason="the C library is not built")

ROWS = (1, 4, 5, 8, 9, 31, 33, 99, 100, 250)


def added_up(matrices: list[npt.NDArray[np.float32]], method: int, level: str) -> None:
    block = ArrayBlock.of([f"u{i}" for i in range(len(matrices))], matrices)
    packed = compressed_block(block, method)
    with without_library():
        plain = compressed_block(block, method)
        assert packed is not None and plain is not None and plain.data.tobytes() == packed.data.tobytes()
        sums = compressed_sums(packed, block.shapes)
    stored = [codec("matrix").read(BytesSource(packed.data, int(start))) for start in packed.objects]
    wanted = np.stack([cmvn_stats(each) for each in stored])
    np.testing.assert_array_equal(sums, wanted)
    found = np.zeros(wanted.shape)
    add = NATIVE.function("ark_sum_compressed", level)
    add(packed.data, packed.objects, block.shapes, len(matrices), found)
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.sampled_from(ROWS), min_size=1, max_size=4),
    columns=st.sampled_from((1, 3, 15, 16, 17, 40, 80)),
    method=st.integers(1, 7),
    scale=st.sampled_from((1e-38, 1.0, 1e4, 1e36)),
    seed=st.integers(0, 2**16),
    level=st.sampled_from(library().levels or ("",)),
)
def test_sums_of_random_matrices(
    rows: list[int], columns: int, method: int, scale: float, seed: int, level: str
) -> None:
    rng = np.random.default_rng(seed)
    matrices = [(scale * rng.standard_normal((count, columns))).astype(np.float32) for count in rows]
    if seed % 3 == 0:
        matrices[0][:] = matrices[0][0]
    added_up(matrices, method, level)


def test_places_of_other_matrices_are_refused() -> None:
    block = ArrayBlock.of(["a", "b"], [np.ones((3, 2), np.float32), np.ones((3, 4), np.float32)])
    packed = compressed_block(block, 2)
    assert packed is not None
    with pytest.raises(ValueError, match="do not belong together"):
        compressed_sums(packed, block.shapes)
    with pytest.raises(ValueError, match="do not belong together"):
        compressed_sums(packed, block.shapes[:1])
