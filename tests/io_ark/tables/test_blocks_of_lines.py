"""Entries and lines that are read together are those that are read one by one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.codecs import codec
from io_ark.errors import ArkError
from io_ark.streams import BytesSource, StreamSource
from io_ark.tables.blocks import read_entries
from tests.support.reading_ways import frozen, without_library
from tests.support.tables import write_table

KEYS = [f"u{i:02}" for i in range(30)]


@pytest.fixture(autouse=True)
def table(folder: Path) -> None:
    write_table("vector", "ark,scp:t.ark,t.scp", {key: np.full(3, i, np.float32) for i, key in enumerate(KEYS)})


@pytest.mark.parametrize("taken", [1, 2, 3, 17, 29, 30])
@pytest.mark.parametrize("kind_of_source", [BytesSource, lambda data: StreamSource(io.BytesIO(data))])
def test_source_is_after_the_last_entry_that_was_taken(taken: int, kind_of_source: Any) -> None:
    data = Path("t.ark").read_bytes()
    source = kind_of_source(data)
    entries = read_entries(source, codec("vector"))
    assert [next(entries)[0] for _ in range(taken)] == KEYS[:taken]
    entries.close()
    assert source.tell() == taken * len(data) // len(KEYS)
    assert [key for key, _ in read_entries(source, codec("vector"))] == KEYS[taken:]


def outcome(rspecifier: str, blocks: bool, kind: str = "vector") -> Any:
    found: list[Any] = []
    try:
        with io_ark.SequentialReader[Any](rspecifier, kind=kind) as reader:  # type: ignore[arg-type]
            for block in reader.blocks() if blocks else (reader,):
                found.extend((key, frozen(value)) for key, value in (block.entries() if blocks else block))  # type: ignore[union-attr]
    except ArkError as error:
        return found, type(error), error.key
    return found


@pytest.mark.parametrize("whole_files", [False, True])
@pytest.mark.parametrize("sign", ["\t", "\v", "\f", "\r", "\x1c", "\x85", "\xa0"])
def test_white_space_in_a_line_is_read_as_line_by_line(sign: str, whole_files: bool) -> None:
    lines = Path("t.scp").read_text().splitlines()
    if whole_files:
        for number in range(len(lines)):
            io_ark.save(f"{number}.wav", io_ark.Wave(8000.0, np.full((1, 9), number, np.int16)), kind="wave")
            lines[number] = f"u{number} {number}.wav"
    kind = "wave" if whole_files else "vector"
    for odd in range(0, 12, 4):
        changed = list(lines)
        key, place = changed[odd].split()
        changed[odd] = f"{key}{sign}x {place}"
        Path("odd.scp").write_bytes("".join(f"{line}\n" for line in changed).encode())
        with without_library():
            expected = outcome("scp:odd.scp", False, kind)
        assert outcome("scp:odd.scp", False, kind) == outcome("scp:odd.scp", True, kind) == expected


VALUES_OF: dict[str, Any] = {
    "vector": lambda i: np.full(3, i, np.float32),
    "matrix": lambda i: np.full((2, 3), i, np.float32),
    "compressed-matrix": lambda i: np.full((9, 3), i, np.float32),
    "int-vector": lambda i: np.full(i + 1, i, np.int32),
    "posterior": lambda i: [[(i, 0.5)], []],
    "token-vector": lambda i: ["a"] * i + ["b"],
    "float": lambda i: i / 2,
    "wave": lambda i: io_ark.Wave(8000.0, np.full((1, i + 1), i, np.int16)),
}


@pytest.mark.parametrize("kind", VALUES_OF)
@pytest.mark.parametrize("lines", [[0, 1, 1, 2], [0, 0, 0], [3, 4, 2, 5], [5, 5, 6, 6], [1, 2, 3, 4, 4, 4, 5]])
def test_lines_of_one_place_have_one_value_each(lines: list[int], kind: str) -> None:
    write_table(kind, "ark,scp:t.ark,t.scp", {f"u{i}": VALUES_OF[kind](i) for i in range(7)})
    places = [line.split()[1] for line in Path("t.scp").read_text().splitlines()]
    Path("odd.scp").write_text("".join(f"k{number} {places[at]}\n" for number, at in enumerate(lines)))
    for blocks in False, True:
        with without_library():
            expected = outcome("scp:odd.scp", False, kind)
        assert len(expected) == len(lines)
        assert outcome("scp:odd.scp", blocks, kind) == expected
