"""kaldiio's names: what it writes we read to the same values, and the other way round."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from io_ark import kaldiio_names as ours
from io_ark.errors import ArkError, FormatError, MissingKeyError, OpenError, SpecifierError

RNG = np.random.default_rng(0)
TABLE: dict[str, Any] = {
    "float-matrix": RNG.standard_normal((20, 5)).astype(np.float32),
    "double-matrix": RNG.standard_normal((20, 5)),
    "float-vector": RNG.standard_normal(7).astype(np.float32),
    "double-vector": RNG.standard_normal(7),
    "ints": np.arange(9, dtype=np.int32),
}
AUDIO: dict[str, Any] = {
    "mono": (8000, RNG.integers(-2000, 2000, 8000).astype(np.int16)),
    "stereo": (16000, RNG.integers(-2000, 2000, (8000, 2)).astype(np.int16)),
}


def same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, tuple):
        assert one[0] == other[0]
        one, other = one[1], other[1]
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("table", [TABLE, AUDIO], ids=["arrays", "audio"])
@pytest.mark.parametrize("writer", [kaldiio, ours], ids=["kaldiio writes", "we write"])
def test_both_read_what_either_writes(table: dict[str, Any], writer: Any, tmp_path: Path) -> None:
    ark, scp = f"{tmp_path}/a.ark", f"{tmp_path}/a.scp"
    writer.save_ark(ark, table, scp=scp)
    for load in (
        lambda library: dict(library.load_ark(ark)),
        lambda library: dict(library.load_scp(scp)),
        lambda library: dict(library.load_scp(scp, max_cache_fd=3)),
        lambda library: dict(library.load_scp_sequential(scp)),
        lambda library: dict(iter(library.ReadHelper(f"ark:{ark}"))),
        lambda library: dict(iter(library.ReadHelper(f"scp:{scp}"))),
        lambda library: {
            key: library.load_mat(place) for key, place in map(str.split, Path(scp).read_text().splitlines())
        },
    ):
        theirs, mine = load(kaldiio), load(ours)
        assert list(theirs) == list(mine) == list(table)
        for key in table:
            same(mine[key], theirs[key])
            same(mine[key], table[key])


def test_the_same_bytes_are_written(tmp_path: Path) -> None:
    files = {}
    for library in kaldiio, ours:
        ark, scp = tmp_path / "a.ark", tmp_path / "a.scp"
        library.save_ark(str(ark), TABLE, scp=str(scp))
        library.save_ark(str(ark), {"more": TABLE["ints"]}, scp=str(scp), append=True)
        with library.WriteHelper(f"ark,scp,f:{tmp_path}/w.ark,{tmp_path}/w.scp") as writer:
            for key, value in (TABLE | AUDIO).items():
                writer(key, value)
            writer["again"] = TABLE["ints"]
        size = library.save_mat(f"{tmp_path}/m", TABLE["float-matrix"])
        names = "a.ark", "a.scp", "w.ark", "w.scp", "m"
        files[library] = [size, *((tmp_path / name).read_bytes() for name in names)]
    assert files[kaldiio] == files[ours]


def test_open_files_are_read_and_written(tmp_path: Path) -> None:
    contents = []
    for library in kaldiio, ours:
        with open(tmp_path / "a.ark", "wb") as ark, open(tmp_path / "a.scp", "w") as scp:
            library.save_ark(ark, {"a": TABLE["ints"]}, scp=scp)
            library.save_ark(ark, {"b": TABLE["float-matrix"]}, scp=scp)
        contents.append((tmp_path / "a.scp").read_text())
        with open(tmp_path / "a.ark", "rb") as file:
            assert [key for key, _ in library.load_ark(file)] == ["a", "b"]
        with open(tmp_path / "a.scp") as lines:
            same(library.load_scp(lines)["b"], TABLE["float-matrix"])
    assert contents[0] == contents[1]
    memory = io.BytesIO()
    ours.save_ark(memory, TABLE)
    assert list(dict(ours.load_ark(io.BytesIO(memory.getvalue())))) == list(TABLE)


@settings(max_examples=40, deadline=None)
@given(method=st.integers(1, 7), rows=st.integers(1, 60), columns=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_compressed_matrices_are_read_alike(
    method: int, rows: int, columns: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    matrix = np.random.default_rng(seed).random((rows, columns)).astype(np.float32)
    ours.save_mat(f"{folder}/c", matrix, compression_method=method)
    np.testing.assert_allclose(ours.load_mat(f"{folder}/c"), kaldiio.load_mat(f"{folder}/c"), atol=1e-5, rtol=1e-5)


def test_text_is_written_and_read(tmp_path: Path) -> None:
    arrays = {key: value for key, value in TABLE.items() if key != "ints"}
    ours.save_ark(f"{tmp_path}/t", arrays, text=True)
    for library in kaldiio, ours:
        for key, value in library.load_ark(f"{tmp_path}/t"):
            np.testing.assert_allclose(value, arrays[key], rtol=1e-4)


@pytest.mark.parametrize("part", ["", "[0:3]", "[2:3,1:2]", "[:,0:1]"])
def test_ranges_take_the_same_part(part: str, tmp_path: Path) -> None:
    ours.save_mat(f"{tmp_path}/m", TABLE["float-matrix"])
    same(ours.load_mat(f"{tmp_path}/m{part}"), kaldiio.load_mat(f"{tmp_path}/m{part}"))


def test_segments_are_cut(tmp_path: Path) -> None:
    ours.save_ark(f"{tmp_path}/w.ark", AUDIO, scp=f"{tmp_path}/w.scp")
    (tmp_path / "segments").write_text("a mono 0.25 0.5\nb mono 0.5 -1\n")
    theirs = kaldiio.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    mine = ours.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    helper = dict(iter(ours.ReadHelper(f"scp:{tmp_path}/w.scp", segments=f"{tmp_path}/segments")))
    assert list(mine) == list(theirs) == list(helper) == ["a", "b"]
    for key in mine:
        same(mine[key], theirs[key])
        same(helper[key], theirs[key])


def test_streams_are_opened_as_by_kaldi(tmp_path: Path) -> None:
    for library in kaldiio, ours:
        with library.open_like_kaldi(f"{tmp_path}/a", "w") as file:
            file.write("one\ntwo\n")
        with library.open_like_kaldi(f"{tmp_path}/a", "r") as file:
            assert list(file) == ["one\n", "two\n"]
        with library.open_like_kaldi(f"cat {tmp_path}/a |", "rb") as file:
            assert file.read() == b"one\ntwo\n"
        with library.open_like_kaldi(f"| cat > {tmp_path}/b", "wb") as file:
            file.write(b"x" * 300_000)
        assert (tmp_path / "b").read_bytes() == b"x" * 300_000
        memory = io.BytesIO()
        assert library.open_like_kaldi(memory, "wb") is memory


@pytest.mark.parametrize(
    "text", ["ark:a", "scp:a", "ark,scp:a,b", "ark,t,f:-", "ark,scp,t:a,b,c", "scp,p:a", "ark,s,cs,o:a"]
)
def test_specifiers_are_parsed_alike(text: str) -> None:
    assert ours.parse_specifier(text) == dict(kaldiio.parse_specifier(text))


def test_what_is_not_supported_says_so(tmp_path: Path) -> None:
    for call in (
        lambda: ours.load_mat("x", endian=">"),
        lambda: ours.save_ark(f"{tmp_path}/a", TABLE, endian=">"),
        lambda: ours.load_scp("x", separator=","),
        lambda: ours.save_ark(f"{tmp_path}/a", TABLE, write_function="pickle"),
        lambda: ours.WriteHelper(f"ark:{tmp_path}/a", write_function="numpy"),
        lambda: ours.ReadHelper("ark:x", segments="y"),
        lambda: ours.parse_specifier("nothing"),
    ):
        with pytest.raises((FormatError, SpecifierError)):
            call()
    with pytest.raises(FormatError, match=r"^a: "):
        ours.save_ark(f"{tmp_path}/a", {"a": None})
    (tmp_path / "pickled.ark").write_bytes(b"a PKL\x80\x04N.")
    with pytest.raises(ArkError):
        dict(ours.load_ark(f"{tmp_path}/pickled.ark"))
    ours.save_ark(f"{tmp_path}/b.ark", TABLE, scp=f"{tmp_path}/b.scp")
    with pytest.raises(MissingKeyError):
        ours.load_scp(f"{tmp_path}/b.scp")["nosuch"]


def test_an_archive_is_added_to_as_kaldiio_does(tmp_path: Path) -> None:
    table = {"a": np.eye(3, dtype=np.float32), "b": np.ones((2, 2), np.float32)}
    for folder, module in ("ours", ours), ("theirs", kaldiio):
        (tmp_path / folder).mkdir()
        for key, value in table.items():
            module.save_ark(f"{tmp_path}/{folder}/a.ark", {key: value}, scp=f"{tmp_path}/{folder}/a.scp", append=True)
    written = [[(tmp_path / folder / name).read_bytes().replace(folder.encode(), b"") for name in ("a.ark", "a.scp")]
               for folder in ("ours", "theirs")]  # fmt: skip
    assert written[0] == written[1]
    with pytest.raises(OpenError, match="cannot be opened for writing"):
        ours.save_ark(f"{tmp_path}/nosuch/a.ark", table, append=True)
