"""Run what is computed in C with another instruction set, or without C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from kaldi_compat import native

LEVELS = native.library().levels
needs_c = pytest.mark.skipif(not native.library(), reason=native.library().reason)


@contextlib.contextmanager
def computing(how: str | None) -> Iterator[None]:
    """Compute with an instruction set of the C library during the block, or in NumPy if it is None."""
    function = native.NATIVE.function
    with pytest.MonkeyPatch.context() as patch:
        if how is None:
            patch.setattr(native.NATIVE, "in_use", False)
        else:
            patch.setattr(native, "function", lambda name, level=None: function(name, level or how))
        yield
