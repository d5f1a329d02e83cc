"""Errors: their text, and pickling."""

from __future__ import annotations

import pickle

from io_ark.errors import (
    SpecifierError,
)


def test_pickled_error_keeps_file_offset_and_key() -> None:
    error = pickle.loads(pickle.dumps(SpecifierError("odd", file="a.scp", offset=3, key="k")))
    assert str(error) == "a.scp:3: k: odd"
    assert isinstance(error, SpecifierError)
