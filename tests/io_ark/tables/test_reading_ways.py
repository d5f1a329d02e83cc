"""Every way to read an archive, whole or damaged, gives the same entries and the same error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_ark.codecs import KINDS
from tests.support.codec_samples import VALUES
from tests.support.codec_tools import archive_bytes, to_bytes
from tests.support.reading_ways import by_lookup, expected, sequential_ways, without_offset

_RNG = np.random.default_rng(5)
_FEATURES = [(_RNG.standard_normal((rows, 3)) * 3).astype(np.float32) for rows in (1, 40, 150, 9)]
TABLES = [
    *[(kind, archive_bytes([(b"k%d" % i, v) for i, v in enumerate(values)], kind)) for kind, values in VALUES.items()],
    *[
        (
            "matrix",
            archive_bytes([(b"u%d" % i, m) for i, m in enumerate(_FEATURES)], "compressed-matrix", method=method),
        )
        for method in (2, 3, 5)
    ],
    *[(kind, archive_bytes([(b"u%d" % i, m) for i, m in enumerate(_FEATURES)], kind)) for kind in ("matrix",)],
    *[
        (kind, archive_bytes([(b"u%d" % i, m[:, 0]) for i, m in enumerate(_FEATURES)], kind))
        for kind in ("vector", "double-vector")
    ],
]
SMALL = [(kind, data) for kind, data in TABLES if len(data) < 300]
PIECES = [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\0", *(bytes([byte]) for byte in b"\4\x08 \n]e-T2")]


def check(data: bytes, kind: str, step: int, folder: Path) -> None:
    want = expected(data, kind)
    for name, way in sequential_ways(step).items():
        found = way(data, kind, folder)
        if name.startswith("stream"):
            assert without_offset(found) == without_offset(want), name
        else:
            assert found == want, name
    good = to_bytes(kind, VALUES[kind][0]) if kind in VALUES else b""
    looked_up, should_be = by_lookup(good, data, kind, folder)
    assert looked_up == should_be


@pytest.mark.parametrize("table", range(len(TABLES)))
def test_whole_table(table: int, tmp_path: Path) -> None:
    kind, data = TABLES[table]
    entries, error = expected(data, kind)
    assert entries and not error
    for step in 1, 7, 5000:
        check(data, kind, step, tmp_path)


@pytest.mark.parametrize("table", range(len(SMALL)))
def test_table_cut_off_at_any_byte(table: int, tmp_path: Path) -> None:
    kind, data = SMALL[table]
    for end in range(len(data)):
        check(data[:end], kind, 3, tmp_path)


@settings(max_examples=150, deadline=None)
@given(table=st.sampled_from(TABLES), step=st.sampled_from([1, 2, 30, 5000]), data=st.data())
def test_damaged_table(
    table: tuple[str, bytes], step: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind, whole = table
    kind = data.draw(st.sampled_from([kind, kind, kind, *KINDS]))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 4))] = data.draw(st.sampled_from(PIECES))
    check(bytes(damaged), kind, step, tmp_path_factory.getbasetemp())
