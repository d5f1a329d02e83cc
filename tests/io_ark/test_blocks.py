"""Blocks: views of entries, map, select and concatenate."""

from __future__ import annotations

import io
import logging
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.blocks import (
    ArrayBlock,
    ArrayInfo,
    Block,
    MapError,
    ObjectBlock,
    PackedBlock,
    PosteriorArrays,
    PosteriorBlock,
    ShapeBlock,
    Skip,
    Wave,
    WaveBlock,
    concatenate,
    create_block,
)
from io_ark.blocks.base import pack_entries
from io_ark.codecs.posterior import IntListsCodec, PosteriorArraysCodec
from io_ark.errors import FormatError

POSTERIOR = PosteriorArrays(np.array([2, 0]), np.array([7, 3], np.int32), np.array([0.5, 0.25], np.float32))
VALUES = {
    ArrayBlock: [np.eye(2, dtype=np.float32), np.ones((3, 2), np.float32), np.zeros((1, 2), np.float32)],
    ShapeBlock: [ArrayInfo((n, 2), np.dtype(np.float32)) for n in (3, 0, 2)],
    PosteriorBlock: [POSTERIOR, PosteriorArrays.concatenate([POSTERIOR, POSTERIOR]), POSTERIOR],
    WaveBlock: [Wave(8000.0, np.arange(n, dtype=np.int16)[None]) for n in (3, 1, 4)],
    ObjectBlock: ["one", ["two"], 3],
}


def plain(value: object) -> object:
    """Return a value in a form that can be compared."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray) else value


def entries(block: Block) -> list[tuple[str, object]]:
    assert len(block) == len(block.decode_keys())
    return [(key, plain(value)) for key, value in block.entries()]


@pytest.mark.parametrize("kind", VALUES)
def test_blocks_of_single_entries_concatenate_to_the_same_entries_and_parts_of_it_have_them(kind: type[Block]) -> None:
    keys, values = ["a", "b", "ü"], VALUES[kind]
    singles = [create_block([key], [value]) for key, value in zip(keys, values, strict=True)]
    assert {type(each) for each in singles} == {kind}
    block = concatenate(singles)
    assert type(block) is kind
    expected = [(key, plain(value)) for key, value in zip(keys, values, strict=True)]
    assert entries(block) == expected == entries(block)
    for mask in ([True, True, True], [True, False, True], [False, True, False], [False] * 3):
        chosen = block.select(np.array(mask))
        assert type(chosen) is kind
        assert entries(chosen) == [entry for entry, wanted in zip(expected, mask, strict=True) if wanted]
    for bounds in ([0, 3], [0, 1, 3], [0, 2, 3], [0, 1, 2, 3]):
        parts = list(block.split(bounds))
        assert [type(part) for part in parts] == [kind] * (len(bounds) - 1)
        assert [entries(part) for part in parts] == [expected[i:j] for i, j in pairwise(bounds)]


def test_blocks_that_differ_concatenate_to_objects() -> None:
    single, double = (create_block(["a"], [np.ones(2, dtype)]) for dtype in (np.float32, np.float64))
    vector, matrix = create_block(["b"], [np.ones(2)]), create_block(["c"], [np.ones((1, 2))])
    shapes = [create_block(["d"], [ArrayInfo((1, 2), np.dtype(dtype))]) for dtype in (np.float32, np.float64)]
    for parts in ([single, double], [vector, matrix], [single, create_block(["x"], ["y"])], shapes):
        joined = concatenate(parts)
        assert type(joined) is ObjectBlock
        assert entries(joined) == [entry for part in parts for entry in entries(part)]
    assert entries(concatenate([])) == []


def test_rows_of_other_columns_stay_under_their_keys() -> None:
    block = create_block(["a", "b"], [np.eye(2, dtype=np.float32), np.ones((1, 2), np.float32)])
    assert isinstance(block, ArrayBlock)
    wider = block.with_rows(np.arange(9.0).reshape(3, 3))
    assert [(key, value.tolist()) for key, value in wider.entries()] == [
        ("a", [[0, 1, 2], [3, 4, 5]]),
        ("b", [[6, 7, 8]]),
    ]


@pytest.mark.parametrize(
    ("data", "binary"), [(b"a \0Bx", True), (b"a\t\0Bx", False), (b"a 1 \n", False), (b"a \n", False)]
)
def test_only_entries_in_binary_are_copied_as_they_are(data: bytes, binary: bool) -> None:
    packed = pack_entries(b"key\na\n", np.frombuffer(b"key \0Byz" + data, np.uint8), np.array([8, 8 + len(data)]))
    assert (packed is not None) == binary
    assert packed is None or packed.objects.tolist() == [4, 10]


def test_map_makes_arrays_of_small_arrays_of_one_type_only() -> None:
    block = create_block(["a", "b"], [np.ones((2, 2)), np.ones((3, 2))])
    assert type(block.map(lambda key, matrix: matrix.sum(axis=1))) is ArrayBlock
    assert type(block.map(lambda key, matrix: matrix if key == "a" else matrix.astype(np.float32))) is ObjectBlock
    assert type(block.map(lambda key, matrix: np.zeros((100, 100)))) is ObjectBlock
    assert type(block.map(lambda key, matrix: len(matrix))) is ObjectBlock
    large = create_block(["a"], [np.zeros((1000, 100))])
    assert isinstance(large, ArrayBlock)
    assert np.shares_memory(next(large.entries())[1], large.values)


@pytest.mark.parametrize("columns", [1, 2])
def test_reversed_rows_can_be_written(columns: int, tmp_path: Path) -> None:
    """Of one column, the reversed rows are a view with a negative stride."""
    matrix = np.arange(3 * columns, dtype=np.float32).reshape(3, columns)
    block = create_block(["a"], [matrix])
    assert isinstance(block, ArrayBlock)
    vectors = create_block(["a"], [matrix[:, 0].copy()])
    assert isinstance(vectors, ArrayBlock)
    written = {
        "map": block.map(lambda key, rows: rows[::-1]),
        "rows": block.with_rows(matrix[::-1]),
        "vectors": vectors.with_vectors(matrix[::-1, 0]),
    }
    for name, changed in written.items():
        kind = "vector" if name == "vectors" else "matrix"
        with io_ark.Writer(f"ark:{tmp_path}/{name}", kind=kind) as writer:
            writer.write_block(changed)
        ((_, value),) = io_ark.SequentialReader[Any](f"ark:{tmp_path}/{name}", kind=kind)
        np.testing.assert_array_equal(value, matrix[::-1, 0] if name == "vectors" else matrix[::-1])


WITH_EMPTY = [np.ones((2, 2), np.float32), np.ones((0, 2), np.float32), np.ones((3, 0), np.float32)]
PAIRS = ArrayBlock(b"a\nb\nc\n", np.array([1, -2, 3, 40, 5, 6], np.int32), np.array([[2, 2], [0, 2], [1, 2]]))
LISTS = PosteriorArrays(np.array([2, 0, 1]), np.array([7, -8, 9], np.int32), np.array([0.5, np.nan, 1e-8], np.float32))
FRAMES = PosteriorBlock(b"a\nb\nc\n", np.array([2, 0, 1]), LISTS)


@pytest.mark.parametrize("options", ["", ",t"])
@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("matrix", create_block(list("abc"), WITH_EMPTY)),
        ("compressed-matrix", create_block(list("abc"), WITH_EMPTY)),
        ("int-vector", create_block(list("abc"), [np.array(each, np.int32) for each in ([1, -20], [], [3])])),
        ("int-pair-vector", PAIRS),
        ("float-pair-vector", replace(PAIRS, values=PAIRS.values / np.float32(3))),
        ("float-pair-vector", PAIRS),
        (PosteriorArraysCodec(), FRAMES),
        (IntListsCodec(), FRAMES),
    ],
)
def test_blocks_are_written_as_their_entries(kind: Any, block: Block, options: str, tmp_path: Path) -> None:
    found = []
    for name in "together", "alone":
        with io_ark.Writer[Any](f"ark{options},scp:{tmp_path}/ark,{tmp_path}/scp", kind=kind) as writer:
            if name == "together":
                writer.write_block(block)
            for key, value in block.entries() if name == "alone" else ():
                writer[key] = value
        found.append(((tmp_path / "ark").read_bytes(), (tmp_path / "scp").read_bytes()))
    assert found[0] == found[1]


def test_map_leaves_skipped_entries_out_and_logs_their_messages(caplog: pytest.LogCaptureFixture) -> None:
    def function(key: str, value: str) -> str:
        if key == "b":
            raise Skip("No b")
        if key == "c":
            raise Skip
        return value * 2

    with caplog.at_level(logging.WARNING, "io_ark"):
        assert entries(create_block(list("abcd"), list("wxyz")).map(function)) == [("a", "ww"), ("d", "zz")]
    assert caplog.messages == ["No b"]


def test_error_of_map_has_the_results_of_the_entries_before_it() -> None:
    def function(key: str, value: int) -> float:
        if key == "b":
            raise Skip
        return 1 / value

    with pytest.raises(MapError, match="d: division by zero") as caught:
        create_block(list("abcde"), [1, 2, 4, 0, 1]).map(function)
    assert entries(caught.value.done) == [("a", 1.0), ("c", 0.25)]
    assert (caught.value.key, caught.value.skipped) == ("d", 1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_packed_entries_cannot_be_taken_apart() -> None:
    with pytest.raises(TypeError, match="binary archive"):
        PackedBlock(b"a\n", np.zeros(9, np.uint8), np.zeros(1, np.int64)).entries()
    assert create_block(["a"], ["b"]).pack() is None


@pytest.mark.parametrize("codec", [PosteriorArraysCodec(), IntListsCodec()])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("integer", [2**31, 2**32 + 7, 0.5])
def test_posterior_arrays_beyond_32_bits_are_refused(codec: PosteriorArraysCodec, binary: bool, integer: float) -> None:
    arrays = PosteriorArrays(np.array([1]), np.array([integer]), np.array([1.0], np.float32))
    with pytest.raises(FormatError, match=r"integers from \d+ to \d+ do not fit|cannot hold float64"):
        codec.write(io.BytesIO(), arrays, binary=binary)
