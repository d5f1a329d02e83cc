"""Run what is computed in C with another instruction set, or without C."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kaldi_compat import native

LEVELS = native.library().levels
needs_c = pytest.mark.skipif(not native.library(), reason=native.library().reason)


@contextlib.contextmanager
def computing(how: str | None) -> Iterator[None]:
    """Compute with an instruction set of the C library during the block, or in NumPy if it is None."""
    function = native.NATIVE.get_function
    with pytest.MonkeyPatch.context() as patch:
        if how is None:
            patch.setattr(native.NATIVE, "in_use", False)
        else:
            patch.setattr(native, "get_function", lambda name, level=None, **kind: function(name, level or how, **kind))
        yield


def assert_same_bits(compute: Callable[[], Any]) -> None:
    """Compute an array, or several, in NumPy and in C with each instruction set, and compare the bits."""
    with computing(None):
        expected = _arrays(compute())
    for level in LEVELS:
        with computing(level):
            compiled = _arrays(compute())
        for one, other in zip(compiled, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=level)
            assert one.dtype == other.dtype
            assert not (np.signbit(one) ^ np.signbit(other)).any(), f"{level}: zeros of another sign"


def _arrays(result: Any) -> list[Any]:
    return [result] if isinstance(result, np.ndarray) else [np.asarray(part) for part in result]
