"""Nested lists packed by the C library: the bytes of the codec without it, or left to the codec."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from io_ark.codecs import codec, nested_lists
from io_ark.errors import ArkError

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


def written(kind: str, value: Any) -> bytes | str:
    sink = io.BytesIO()
    try:
        codec(kind).write(sink, value)
    except ArkError as error:
        return type(error).__name__
    return sink.getvalue()


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_nested_lists_are_packed_alike_with_and_without_the_library(
    kind: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if nested_lists._NATIVE is None:
        pytest.skip("the C library is not built")
    with_library = written(kind, value)
    monkeypatch.setattr(nested_lists, "_NATIVE", None)
    assert with_library == written(kind, value)


def test_common_lists_are_packed_by_the_library() -> None:
    if nested_lists._NATIVE is None:
        pytest.skip("the C library is not built")
    assert nested_lists.pack_nested([[(1, 0.5)], []], 2, "if") == bytes.fromhex(
        "04 02000000 04 01000000 04 01000000 04 0000003f 04 00000000"
    )
    assert nested_lists.pack_nested([[1, 2.5]], 2, "i") is None
