"""Tests of copy-int-vector that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kaldi_compat.programs import copy_int_vector
from tests.support.tables import text


@pytest.mark.parametrize(
    ("numbers", "written"), [([1, -2, 300000], b"[ 1 -2 300000 ]\n"), ([], b"[ ]\n")], ids=["three", "none"]
)
def test_single_files_have_kaldis_plain_layout(numbers: list[int], written: bytes) -> None:
    # Kaldi's WriteIntegerVector: not what stands in tables, where each number has a byte with its size.
    binary = b"\0B\4" + struct.pack(f"<i{len(numbers)}i", len(numbers), *numbers)
    Path("text").write_bytes(b" " + written.replace(b" ]", b"\n]").strip())
    for source in ("text", "binary"):
        assert copy_int_vector.main([source, "binary"]) == 0
        assert Path("binary").read_bytes() == binary
        assert copy_int_vector.main(["--binary=false", source, "again"]) == 0
        assert Path("again").read_bytes() == written


def test_tables_have_a_size_byte_per_number() -> None:
    assert copy_int_vector.main([text("a", "u 1 -2 3\n"), "ark:b"]) == 0
    assert Path("b").read_bytes() == b"u \0B\4" + struct.pack("<i", 3) + struct.pack("<bibibi", 4, 1, 4, -2, 4, 3)
