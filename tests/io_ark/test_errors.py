"""Errors: their text, and pickling."""

from __future__ import annotations

import pickle

import pytest

import io_ark
from io_ark.errors import ArkError, OpenError, SpecifierError
from io_ark.numpy_files import load_npy


def test_pickled_error_keeps_file_offset_and_key() -> None:
    error = pickle.loads(pickle.dumps(SpecifierError("odd", file="a.scp", offset=3, key="k")))
    assert str(error) == "a.scp:3: k: odd"
    assert isinstance(error, SpecifierError)


@pytest.mark.parametrize("place", ["file", "message"])
def test_secrets_of_urls_are_not_shown(place: str) -> None:
    url = "https://anna:word@host:80/a.ark?X-Amz-Signature=1f3e&b=c#d"
    error = OpenError(**{"message": "no", place: f"read from '{url}', then s3://bucket/a@b failed"})  # type: ignore[arg-type]
    assert "https://***@host:80/a.ark?***', then s3://bucket/a@b failed" in str(error)
    assert not any(secret in str(error) for secret in ("anna", "word", "Signature", "1f3e", "b=c"))


def test_long_lines_are_shortened() -> None:
    assert len(str(OpenError("x" * 5_000_000, file="a.scp"))) < 2000


def test_only_characters_that_cannot_be_printed_are_escaped() -> None:
    assert str(OpenError("no", file="a\tb\n\\.ark", key="\u00fc\udcff")) == "a\\tb\\n\\.ark: \u00fc\\udcff: no"


@pytest.mark.parametrize("name", ["a\0b.npy", "ark:a\0b", "ark:cat a\0b |", "scp:a\0b"])
def test_null_byte_in_a_name_is_explained(name: str) -> None:
    with pytest.raises(ArkError, match=r"the name has a null byte \(\\0\), which the system does not allow: correct"):
        dict(io_ark.read(name) if ":" in name else load_npy(name))
