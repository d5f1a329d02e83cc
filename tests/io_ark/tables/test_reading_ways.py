"""Every way to read an archive, whole or damaged, gives the same entries and the same error."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.codecs import KINDS, codec
from io_ark.codecs.wave import Wave
from io_ark.errors import ArkError
from io_ark.native import NATIVE
from io_ark.streams.files import OpenFile
from io_ark.tables.blocks import read_entries
from tests.support.codec_samples import VALUES
from tests.support.codec_tools import archive_bytes, to_bytes
from tests.support.reading_ways import by_lookup, by_script, expected, sequential_ways, without_offset

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
_LARGE = [(_RNG.standard_normal((rows, 300)) * 3).astype(np.float32) for rows in (60, 5, 1000, 800, 1, 900, 4)]
LARGE = [archive_bytes([(b"u%d" % i, m) for i, m in enumerate(_LARGE)], "compressed-matrix", method=m) for m in (3, 5)]
# Kinds of other objects among them, a key after more white space, and an object longer than what is read ahead.
LARGE += [
    b"\n x".join((LARGE[0], LARGE[1], archive_bytes([(b"c", _LARGE[0])], "compressed-matrix", method=2), LARGE[0])),
    LARGE[0] + archive_bytes([(b"long", np.ones((3000, 100), np.float32))], "compressed-matrix", method=3) + LARGE[1],
]
_DENSE = [archive_bytes([(b"u%d" % i, m) for i, m in enumerate(_LARGE)], k) for k in ("matrix", "double-matrix")]
LARGE += [*_DENSE, _DENSE[0] + b"\n x".join((LARGE[1], *_DENSE, LARGE[0]))]
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
    in_order, should_be_in_order = by_script(data, kind, folder)
    assert in_order == [should_be_in_order] * len(in_order)


@pytest.mark.parametrize("table", range(len(TABLES)))
def test_all_ways_of_reading_give_the_same_table(table: int, tmp_path: Path) -> None:
    kind, data = TABLES[table]
    entries, error = expected(data, kind)
    assert entries and not error
    for step in 1, 7, 5000:
        check(data, kind, step, tmp_path)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("float", b"-1.5e+20 \n"),
        ("double", b"-1.5E-200 \n"),
        ("vector", b" [ -1.5e+20 5E-3 ]\n"),
        ("float-pair-vector", b"1.5e+20 5E-3 ; 1e2 3 \n"),
        ("posterior", b"[ 3 1.5e+20 4 5E-3 ] \n"),
    ],
)
def test_number_of_text_that_arrives_in_two_pieces(kind: str, text: bytes, tmp_path: Path) -> None:
    data = b"".join(b"k%d %s" % (i, text) for i in range(3))
    entries, error = expected(data, kind)
    assert len(entries) == 3 and not error
    for step in range(1, len(data)):
        for name, way in sequential_ways(step).items():
            assert not name.startswith("stream") or way(data, kind, tmp_path) == (entries, error), (step, name)


@pytest.mark.sweep
@pytest.mark.parametrize("table", range(len(SMALL)))
def test_table_cut_off_at_any_byte(table: int, tmp_path: Path) -> None:
    kind, data = SMALL[table]
    for end in range(len(data)):
        check(data[:end], kind, 3, tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("table", range(len(LARGE)))
def test_large_matrices(table: int, tmp_path: Path) -> None:
    whole = LARGE[table]
    entries, error = expected(whole, "matrix")
    assert len(entries) >= 7 and not error
    check(whole, "matrix", 5000, tmp_path)
    for end in (*range(1, len(whole), len(whole) // 12), len(whole) - 1):
        check(whole[:end], "matrix", 5000, tmp_path)


@pytest.mark.costly
@settings(max_examples=60, deadline=None)
@given(table=st.sampled_from(LARGE), at=st.integers(0, 200), entry=st.integers(0, 6), piece=st.sampled_from(PIECES))
def test_damaged_headers_of_large_matrices(
    table: bytes, at: int, entry: int, piece: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start = max(0, table.find(b"u%d " % entry) - 3 + at % 30)
    check(table[:start] + piece + table[start + at // 60 :], "matrix", 5000, tmp_path_factory.getbasetemp())


def test_reading_stops_after_the_entry_that_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "table.ark"
    path.write_bytes(LARGE[0])
    source = OpenFile(str(path)).open_source(0)
    entries = read_entries(source, codec("matrix"))
    taken = [next(entries)[0] for _ in range(3)]
    entries.close()
    assert taken == ["u0", "u1", "u2"]
    assert [key for key, _ in read_entries(source, codec("matrix"))] == ["u3", "u4", "u5", "u6"]


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


# A wave header, byte for byte: changes of one byte make it stereo, RIFX, of 8 bits, of an odd or unknown size ...
_HEADER = to_bytes("wave", Wave(16000, np.arange(8, dtype=np.int16)[None]))[:44]
CHANGES = [(at, value) for at in range(44) for value in (0, 1, 2, 0xFF)]


def test_headers_that_are_read_together_are_those_read_alone(tmp_path: Path) -> None:
    lines, wanted = [], {}
    for number, (at, value) in enumerate([*[(43, 0)] * 40, *CHANGES]):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(_HEADER[:at] + bytes([value]) + _HEADER[at + 1 :] + bytes(16))
        with suppress(ArkError):
            wanted[f"u{number}"] = io_ark.load(path, kind="wave-info")
            lines.append(f"u{number} {path}\n")
    (tmp_path / "short.wav").write_bytes(_HEADER[:43])
    (tmp_path / "wav.scp").write_text("".join([*lines, f"short {tmp_path}/short.wav\n"]))
    with io_ark.SequentialReader[Any](f"scp,p:{tmp_path}/wav.scp", kind="wave-info") as reader:
        blocks = list(reader.blocks())
    found = {key: value for block in blocks for key, value in block.entries()}
    assert found == wanted and 20 < len(found) < len(lines) + 1
    assert any(len(block) > 20 for block in blocks) or not NATIVE.in_use


def test_files_of_a_script_file_are_read_whole_and_once(tmp_path: Path) -> None:
    waves = {f"u{n}": Wave(16000, (n + np.arange(n % 70 + 1, dtype=np.int16))[None]) for n in range(200)}
    waves["u90"] = Wave(8000, np.arange(1 << 20, dtype=np.int16)[None])  # larger than the others' memory
    for key, wave in waves.items():
        io_ark.save(tmp_path / f"{key}.wav", wave, kind="wave")
    whole = (tmp_path / "u3.wav").read_bytes()
    (tmp_path / "u70.wav").write_bytes(whole[:40])
    (tmp_path / "u80.wav").write_bytes(b"")
    (tmp_path / "u85.wav").unlink()
    (tmp_path / "u100.wav").rename(tmp_path / "target.wav")
    (tmp_path / "u100.wav").symlink_to("target.wav")
    (tmp_path / "u130.wav").unlink()
    os.mkfifo(tmp_path / "u130.wav")
    lost = {"u70", "u80", "u85"}
    (tmp_path / "wav.scp").write_text("".join(f"{key} {tmp_path}/{key}.wav\n" for key in waves))

    # If the pipe were opened twice, the second reader would wait for another writer.
    writer = threading.Thread(target=(tmp_path / "u130.wav").write_bytes, args=(to_bytes("wave", waves["u130"]),))
    writer.start()
    with io_ark.SequentialReader[Any](f"scp,p:{tmp_path}/wav.scp", kind="wave") as reader:
        found = {key: value for block in reader.blocks() for key, value in block.entries()}
    writer.join()
    assert list(found) == [key for key in waves if key not in lost]
    for key, wave in found.items():
        assert wave.sample_frequency == waves[key].sample_frequency
        np.testing.assert_array_equal(wave.samples, waves[key].samples)


def test_names_with_a_zero_or_other_bytes_are_not_mixed_up(tmp_path: Path) -> None:
    for n in range(8):
        io_ark.save(tmp_path / f"{n}.wav", Wave(8000, np.array([[n]], np.int16)), kind="wave")
    lines = [f"u{n} {tmp_path}/{n}.wav" for n in range(8)]
    lines[2] = f"u2 {tmp_path}/2.wav\0u3 {tmp_path}/3.wav"
    lines[5] = f"u5 {tmp_path}/5\u00e9.wav"
    lines[6] = f"u6 cat {tmp_path}/6.wav |"
    (tmp_path / "wav.scp").write_text("".join(f"{line}\n" for line in lines))
    with io_ark.SequentialReader[Any](f"scp,p:{tmp_path}/wav.scp", kind="wave") as reader:
        found = {key: int(value.samples[0, 0]) for block in reader.blocks() for key, value in block.entries()}
    assert found == {f"u{n}": n for n in (0, 1, 3, 4, 6, 7)}


@pytest.mark.parametrize("missing", [1, 2, 10, 40, 201, 202, 210])
def test_truncated_wave_file_among_others_has_no_samples_or_header_of_its_neighbours(
    missing: int, tmp_path: Path
) -> None:
    """Files are read together into memory with gaps, which are not parts of the files."""
    whole = to_bytes("wave", Wave(16000, np.arange(1, 101, dtype=np.int16)[None]))
    paths = [tmp_path / f"{n}.wav" for n in range(6)]
    for n, path in enumerate(paths):
        path.write_bytes(whole[: len(whole) - n % 2 * missing])
    (tmp_path / "wav.scp").write_text("".join(f"{path.name} {path}\n" for path in paths))
    remaining = max(0, 200 - missing) // 2
    wanted = {f"{n}.wav": remaining if n % 2 else 100 for n in range(6) if n % 2 == 0 or remaining}
    found = {key: wave.samples.shape[1] for key, wave in io_ark.read(f"scp,p:{tmp_path}/wav.scp", kind="wave")}
    assert found == wanted
    headers = {key: info.sample_count for key, info in io_ark.read(f"scp,p:{tmp_path}/wav.scp", kind="wave-info")}
    assert headers == dict.fromkeys(wanted if missing > 200 else map("{}.wav".format, range(6)), 100)
