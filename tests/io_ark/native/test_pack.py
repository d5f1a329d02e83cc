"""Nested lists written by the C library have the bytes that the codec writes without it."""

from __future__ import annotations

import io
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_ark.blocks import posterior
from io_ark.codecs import codec
from io_ark.codecs.text_format import encode_lists
from io_ark.errors import ArkError
from io_ark.native import NATIVE
from tests.support.reading_ways import without_library

needs_library = pytest.mark.skipif(not NATIVE.in_use, reason="the C library is not built")

VALUES: list[tuple[str, Any]] = [
    ("posterior", [[(1, 0.5), (2, 0.1)], [], [(2**31 - 1, -3e38)]]),
    ("posterior", []),
    ("posterior", [[[1, 0.5]]]),
    ("posterior", ([(1, 2)], ((3, True),))),
    ("posterior", [[(np.int32(1), np.float32(0.1))]]),
    ("posterior", [[(1, 1e39)], [(1, float("nan"))], [(1, float("-inf"))]]),
    ("posterior", [[(1, 0.5, 2)]]),
    ("posterior", [[(1.5, 0.5)]]),
    ("posterior", [[(2**31, 0.5)]]),
    ("posterior", [[1, 0.5]]),
    ("posterior", [None]),
    ("int-vector-vector", [[1, -2], [], [2**31 - 1, -(2**31)]]),
    ("int-vector-vector", [[True], (1,), np.array([3])]),
    ("int-vector-vector", [[1, 2.5]]),
    ("int-vector-vector", [1]),
    ("int-pair-vector", [(1, 2), (3, -4)]),
    ("int-pair-vector", [(1, 2), (3,)]),
    ("int-pair-vector", [(1, 2, 3), (4,)]),
    ("int-pair-vector", [(1, 2.0)]),
    ("float-pair-vector", [(1.5, 2.0), (0.1, -1e-40)]),
    ("float-pair-vector", [(1, 2.5)]),
    ("float-pair-vector", [(1e300, 2.5)]),
]


def written(kind: str, value: Any, binary: bool) -> bytes | str:
    sink = io.BytesIO()
    try:
        codec(kind).write(sink, value, binary=binary)
    except ArkError as error:
        return type(error).__name__
    return sink.getvalue()


def check(kind: str, value: Any, binary: bool) -> None:
    with_library = written(kind, value, binary)
    with without_library():
        assert with_library == written(kind, value, binary)


@needs_library
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_nested_lists_are_written_alike_with_and_without_the_library(kind: str, value: Any, binary: bool) -> None:
    check(kind, value, binary)


INT32 = st.integers(-(2**31), 2**31 - 1)
FLOATS = st.floats(width=32) | st.floats()
NESTED = st.one_of(
    st.tuples(st.just("posterior"), st.lists(st.lists(st.tuples(INT32, FLOATS)))),
    st.tuples(st.just("int-vector-vector"), st.lists(st.lists(INT32))),
    st.tuples(st.just("int-pair-vector"), st.lists(st.tuples(INT32, INT32))),
    st.tuples(st.just("float-pair-vector"), st.lists(st.tuples(FLOATS, FLOATS))),
)


@needs_library
@settings(max_examples=300, deadline=None)
@given(nested=NESTED, binary=st.booleans())
def test_random_nested_lists_are_written_alike_with_and_without_the_library(
    nested: tuple[str, Any], binary: bool
) -> None:
    check(*nested, binary)


LISTS = [
    ([2, 0, 1], (np.array([7, -(2**31), 9], np.int32),)),
    ([2, 0, 1], (np.array([7, -8, 9], np.int32), np.array([0.5, np.nan, 1e-40], np.float32))),
    ([3], (np.array([-np.inf, 1e-310, -0.0]), np.array([-np.nan, 0.1, 2.5e300]))),
    ([], (np.empty(0, np.float32),)),
]


@needs_library
@pytest.mark.parametrize("brackets", [None, (b"[ ", b"] "), (b"\n  ", b"")])
@pytest.mark.parametrize(("lengths", "columns"), LISTS)
def test_lists_of_arrays_are_encoded_alike_with_and_without_the_library(
    lengths: list[int], columns: Any, brackets: Any
) -> None:
    data, ends = encode_lists(lengths, columns, brackets)
    with without_library():
        plain, places = encode_lists(lengths, columns, brackets)
    assert (data, ends.tolist()) == (plain, places.tolist())
    assert ends[-1:].tolist() == [len(data)] * bool(lengths)


@pytest.mark.parametrize("counts", [[1], [3], [3, -1]])
@pytest.mark.parametrize("native", [True, False])
def test_lists_of_other_arrays_are_refused(counts: list[int], native: bool) -> None:
    with nullcontext() if native else without_library():
        with pytest.raises(ValueError, match="do not match the lengths"):
            encode_lists(counts, (np.zeros(2, np.int32),))
        for dtype in ">i4", "<i8":
            with pytest.raises(ValueError, match="convert them to int32, float32 or float64"):
                encode_lists([2], (np.zeros(2, dtype),))


@needs_library
@settings(deadline=None)
@given(value=st.lists(st.lists(st.tuples(INT32, st.floats(width=32, allow_nan=False)))))
def test_posteriors_are_made_alike_with_and_without_the_library(value: list[list[tuple[int, float]]]) -> None:
    integers = np.array([integer for frame in value for integer, _ in frame], np.int32)
    weights = np.array([weight for frame in value for _, weight in frame], np.float32)
    arrays = posterior.PosteriorArrays(np.array([len(frame) for frame in value], np.int64), integers, weights)
    assert repr(arrays.to_lists()) == repr(value)
    with without_library():
        assert repr(arrays.to_lists()) == repr(value)


@needs_library
def test_posteriors_of_other_types_are_converted() -> None:
    arrays = posterior.PosteriorArrays(np.array([2, 0]), np.array([7, 3, 9])[::2], np.array([0.5, 1.0, 0.25])[::2])
    assert arrays.to_lists() == [[(7, 0.5), (9, 0.25)], []]


@needs_library
@pytest.mark.parametrize("counts", [[1], [3], [3, -1]])
def test_counts_that_do_not_match_the_values_are_refused(counts: list[int]) -> None:
    arrays = posterior.PosteriorArrays(np.array(counts), np.zeros(2, np.int32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="do not match the counts"):
        arrays.to_lists()
