"""Compressed matrices and text numbers in C are those of the NumPy code, and of Python."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from io_ark.blocks import ArrayBlock
from io_ark.codecs import codec, compressed, text_format, text_parse
from io_ark.codecs.base import Codec
from io_ark.codecs.compressed import align_numbers
from io_ark.codecs.text_format import encode_list, encode_lists
from io_ark.codecs.text_parse import read_rows
from io_ark.native import NATIVE, library
from tests.support.reading_ways import without_library
from tests.support.table_samples import VALUES

pytestmark = pytest.mark.skipif(not library(), reason=library().reason)
_MOST = float(np.float32(1e30))
FLOATS = st.floats(-_MOST, _MOST, width=32)
SHAPES = arrays.array_shapes(min_dims=2, max_dims=2, max_side=12)


def written(kind: str, value: Any, binary: bool, **options: Any) -> bytes:
    """The bytes of a value."""
    sink = io.BytesIO()
    writer: Codec[Any] = codec(kind, **options)
    writer.write(sink, value, binary=binary)
    return sink.getvalue()


@given(
    matrix=st.one_of(
        arrays.arrays(np.float32, SHAPES, elements=FLOATS),
        arrays.arrays(np.float32, SHAPES, elements=st.sampled_from([0.0, -0.0, 1.0, 1.5, 255.0, -3e4])),
        arrays.arrays(np.float32, st.tuples(st.integers(90, 130), st.integers(1, 20)), elements=FLOATS, fill=FLOATS),
    ),
    method=st.integers(1, 7),
)
def test_compressed_matrices_have_the_same_bytes_and_values(matrix: np.ndarray[Any, Any], method: int) -> None:
    fast = compressed.compress(matrix, method)
    values = fast.to_array()
    with without_library():
        slow = compressed.compress(matrix, method)
        assert slow.to_array().tobytes() == values.tobytes()
    assert (slow.format, slow.minimum, slow.range) == (fast.format, fast.minimum, fast.range)
    assert np.array_equal(slow.codes, fast.codes)
    assert np.array_equal(slow.percentiles, fast.percentiles)


@given(
    rows=st.lists(st.sampled_from((1, 4, 5, 8, 9, 31, 33, 100)), min_size=1, max_size=4),
    columns=st.sampled_from((1, 3, 15, 16, 17, 40)),
    method=st.integers(1, 7),
    scale=st.sampled_from((1e-38, 1.0, 1e4, 1e36)),
    seed=st.integers(0, 2**16),
)
def test_blocks_are_compressed_to_the_same_bytes(
    rows: list[int], columns: int, method: int, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrices = [(scale * rng.standard_normal((count, columns))).astype(np.float32) for count in rows]
    matrices[0][:] = matrices[0][0] if seed % 3 == 0 else matrices[0]
    block = ArrayBlock.from_arrays([f"u{i}" for i in range(len(matrices))], matrices)
    packed = compressed.compressed_block(block, method)
    with without_library():
        plain = compressed.compressed_block(block, method)
    assert packed is not None and plain is not None
    assert (packed.data.tobytes(), packed.objects.tolist()) == (plain.data.tobytes(), plain.objects.tolist())


@pytest.mark.parametrize(("keys", "rows"), [(["a"], [1, 2]), (["a", "b"], [1, 3])])
def test_block_with_other_keys_or_rows_is_compressed(keys: list[str], rows: list[int]) -> None:
    good = ArrayBlock.from_arrays(["a", "b"], [np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)])
    text = "".join(f"{key}\n" for key in keys).encode()
    block = ArrayBlock(text, good.values, np.array([[row, 2] for row in rows], np.int64), 2)
    with pytest.raises(ValueError, match="do not match"):
        compressed.compressed_block(block, 2)


@pytest.mark.parametrize("level", library().levels)
@pytest.mark.parametrize("method", [2, 3, 5])
def test_compression_writes_nothing_behind_its_results(level: str, method: int) -> None:
    for count in range(1, 40):
        values = (np.arange(count, dtype=np.float32) * 37 % 256)[:, None]
        with without_library():
            stored = compressed.compress(values, method)
        header, *integers = compressed._encode_parts(stored)
        data = b"".join(integers)
        size = len(b"a \0B" + header + data)
        packed, room = np.full(size + 16, 77, np.uint8), np.full(count + 16, 77, np.float32)
        places = np.zeros(1, np.int64), np.zeros(1, np.int64)
        shapes = np.array([values.shape])
        assert (
            NATIVE.get_function("ark_compress_arrays", level)(b"a\n", shapes, values, 1, method, packed, *places)
            == size
        )
        assert packed.tobytes() == b"a \0B" + header + data + b"M" * 16
        NATIVE.get_function("ark_decompress", level)(header, b"x" + data, 1, room)
        with without_library():
            assert room[:count].tobytes() == stored.to_array().tobytes()
        assert (room[count:] == 77).all()


@pytest.mark.parametrize("rows", [31, 32, 1 << 15, 70_001])
def test_percentiles_of_long_columns(rows: int) -> None:
    rng = np.random.default_rng(rows)
    columns = [rng.standard_normal(rows), rng.integers(0, 3, rows), np.arange(rows) % 7 == 3]
    matrix = np.stack(columns, axis=1).astype(np.float32)
    fast = compressed.compress(matrix, 2)
    with without_library():
        slow = compressed.compress(matrix, 2)
    np.testing.assert_array_equal(fast.percentiles, slow.percentiles)
    np.testing.assert_array_equal(fast.codes, slow.codes)


@given(
    numbers=arrays.arrays(np.uint32, st.integers(1, 60), elements=st.integers(0, 2**32 - 1)),
    wide=arrays.arrays(np.uint64, st.integers(1, 60), elements=st.integers(0, 2**64 - 1)),
)
def test_any_float_is_printed_as_python_does(numbers: Any, wide: Any) -> None:
    for values in numbers.view(np.float32), wide.view(np.float64), np.arange(len(wide)) * 2.0**-11:
        expected = text_format.format_row(values.tolist()).encode()
        assert encode_list(values, (b"", b"")) == expected


def test_text_next_to_the_middle_of_two_floats_is_read_as_the_nearest() -> None:
    rng = np.random.default_rng(0)
    values = (rng.uniform(1, 10, 20000) * 10.0 ** rng.integers(-20, 20, 20000)).astype(np.float32)
    middles = (values.astype(np.float64) + np.nextafter(values, np.float32(np.inf))) / 2
    words = [b"%.17e" % middle for middle in middles.tolist()]
    for word in words:
        if (found := read_rows(word, True)) is not None:  # else it is left to Python
            assert found[0][0] == text_parse.round_to_float32(word), word


@given(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(["%.7g", "%.9g", "%.17g", "%.25e", "%.3f", "%r", "%d"]),
)
def test_text_is_read_as_the_nearest_number(value: float, layout: str) -> None:
    text = (layout % value).encode()
    for single in True, False:
        found = read_rows(b" " + text + b" \n", single)
        if found is not None:  # else it is left to Python
            nearest = text_parse.round_to_float32(text) if single else float(text)
            assert found[0].tolist() == [nearest]
            assert np.signbit(found[0][0]) == np.signbit(nearest)


def test_numbers_as_kaldi_writes_them_are_not_left_to_python() -> None:
    values = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    text, _ = encode_lists([40] * 50, (values.reshape(-1),), (b"\n  ", b""))
    for single in True, False:
        found = read_rows(text, single)
        assert found is not None
        assert found[1] == [40] * 50
        assert found[0].tolist() == [
            (text_parse.round_to_float32 if single else float)(word) for word in text.split()
        ]  # fmt: skip


@pytest.mark.parametrize(
    "text", [b"+1", b".5", b"-.5", b"1-2", b"nan", b"1e", b"0x10", b"1e99999", b"--1", b"-", b"1]", b"1" * 400]
)
def test_unusual_text_is_left_to_python(text: bytes) -> None:
    assert read_rows(text, True) is None
    assert read_rows(text, False) is None


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("kind", list(VALUES))
def test_objects_are_written_with_the_same_bytes(kind: str, binary: bool) -> None:
    fast = [written(kind, value, binary) for value in VALUES[kind]]
    with without_library():
        assert [written(kind, value, binary) for value in VALUES[kind]] == fast


@pytest.mark.parametrize("array", [np.frombuffer(b"x" + bytes(64), "<f4", 8, 1), np.ones((4, 4), np.float32).T[::2]])
def test_c_gets_contiguous_and_aligned_numbers(array: np.ndarray[Any, Any]) -> None:
    given = align_numbers(array)
    assert given.flags.aligned and given.flags.c_contiguous and np.array_equal(given, array)
    assert align_numbers(given) is given
