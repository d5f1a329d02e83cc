"""The names of kaldi_io, on archives that kaldiio and Kaldi's formats define."""

from __future__ import annotations

import gzip
import importlib
import io
import sys
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

import io_ark
from io_ark.errors import (
    ArkError,
    FormatError,
    KeyFormatError,
    RangeError,
    SpecifierError,
    WriteError,
)
from kaldi_standins import kaldi_io
from tests.support.reading_ways import same

RNG = np.random.default_rng(0)
MATRICES = {"a": RNG.standard_normal((20, 5)).astype(np.float32), "b": RNG.standard_normal((3, 4))}
VECTORS = {"a": MATRICES["a"][0], "b": MATRICES["b"][0]}
INTEGERS = {"a": np.arange(9, dtype=np.int32), "b": np.array([-4], np.int32)}
POSTERIOR = [[(1, 0.5), (2, 0.25)], [(7, 1.0)], []]
KINDS = [
    (MATRICES, kaldi_io.read_mat_ark, kaldi_io.read_mat, kaldi_io.write_mat),
    (VECTORS, kaldi_io.read_vec_flt_ark, kaldi_io.read_vec_flt, kaldi_io.write_vec_flt),
    (INTEGERS, kaldi_io.read_vec_int_ark, kaldi_io.read_vec_int, kaldi_io.write_vec_int),
]


@pytest.mark.parametrize(("table", "read_ark", "read_one", "write"), KINDS, ids=["mat", "vec_flt", "vec_int"])
def test_arrays_are_read_and_written(table: Any, read_ark: Any, read_one: Any, write: Any, tmp_path: Path) -> None:
    archive = f"{tmp_path}/a.ark"
    kaldiio.save_ark(archive, table, scp=f"{tmp_path}/a.scp")
    expected = Path(archive).read_bytes()
    for name in archive, f"ark:{archive}", f"cat {archive} |", f"ark:cat {archive} |":
        same(dict(read_ark(name)), table)
    places = dict(line.split() for line in Path(f"{tmp_path}/a.scp").read_text().splitlines())
    same({key: read_one(place) for key, place in places.items()}, table)
    with kaldi_io.open_or_fd(f"ark:{tmp_path}/w.ark", "wb") as file:
        for key, value in table.items():
            write(file, value, key)
    with kaldi_io.open_or_fd(f"ark:| cat > {tmp_path}/p.ark", "wb") as file:
        for key, value in table.items():
            write(file, value, key=key)
    assert Path(f"{tmp_path}/w.ark").read_bytes() == Path(f"{tmp_path}/p.ark").read_bytes() == expected
    write(f"{tmp_path}/one", table["a"])
    same({"a": read_one(f"{tmp_path}/one")}, {"a": table["a"]})


@pytest.mark.parametrize("how", ["file", "buffer within a key", "memory", "pipe"])
def test_keys_and_objects_are_read_in_turn_from_an_open_file(how: str, tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", MATRICES)
    data = (tmp_path / "a.ark").read_bytes()
    opened = {
        "file": lambda: kaldi_io.open_or_fd(f"{tmp_path}/a.ark"),
        "buffer within a key": lambda: open(f"{tmp_path}/a.ark", "rb", buffering=2),  # noqa: SIM115
        "memory": lambda: io.BytesIO(data),
        "pipe": lambda: kaldi_io.popen(f"cat {tmp_path}/a.ark"),
    }[how]
    with opened() as file:
        read = {}
        while (key := kaldi_io.read_key(file)) is not None:
            read[key] = kaldi_io.read_mat(file)
        same(read, MATRICES)


@pytest.mark.parametrize("buffering", [3, 4096])
def test_key_after_white_space_is_read_from_an_open_file(buffering: int, tmp_path: Path) -> None:
    (tmp_path / "a.ark").write_bytes(b"\n  key [ 1 ]\n")
    with open(tmp_path / "a.ark", "rb", buffering=buffering) as file:
        assert kaldi_io.read_key(file) == "key"
        assert file.tell() == 7
        assert kaldi_io.read_vec_flt(file).tolist() == [1]
        assert kaldi_io.read_key(file) is None


def test_read_key_has_the_argument_of_the_original() -> None:
    assert kaldi_io.read_key(fd=io.BytesIO(b"key [ 1 ]\n")) == "key"
    matio = importlib.import_module("kaldi_standins.kaldiio.matio")
    assert matio.read_token(fd=io.BytesIO(b"key [ 1 ]\n")) == "key"


def test_errors_in_an_open_file_name_the_offset_in_the_file(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", {"a": np.ones((2, 3), np.float32)})
    size = (tmp_path / "a.ark").stat().st_size
    with open(tmp_path / "a.ark", "ab") as file:
        file.write(b"b wrong")
    with open(tmp_path / "a.ark", "rb") as file:
        file.seek(size)
        assert kaldi_io.read_key(file) == "b"
        assert file.tell() == size + 2
        with pytest.raises(ArkError) as caught:
            kaldi_io.read_mat(file)
    assert caught.value.offset == size + 2


def test_gzipped_files_are_read_and_written(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", MATRICES, scp=f"{tmp_path}/a.scp")
    for name in "a.ark", "a.scp":
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    same(dict(kaldi_io.read_mat_ark(f"{tmp_path}/a.ark.gz")), MATRICES)
    same(dict(kaldi_io.read_mat_scp(f"{tmp_path}/a.scp.gz")), MATRICES)
    with kaldi_io.open_or_fd(f"{tmp_path}/w.gz", "wb") as file:
        kaldi_io.write_mat(file, MATRICES["a"], "a")
    assert gzip.decompress((tmp_path / "w.gz").read_bytes()).startswith(b"a \0BFM ")
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(ArkError):
        dict(kaldi_io.read_mat_ark(f"{tmp_path}/bad.gz"))


def test_command_that_ends_in_gz_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, opened in enumerate([
        lambda: kaldi_io.open_or_fd("ark:| gzip -c > 0.gz", "wb"),
        lambda: kaldi_io.open_or_fd("| gzip -c > 1.gz", "wb"),
        lambda: kaldi_io.popen("gzip -c > 2.gz", "wb"),
    ]):  # fmt: skip
        with opened() as file:
            kaldi_io.write_mat(file, MATRICES["a"], "a")
        same(dict(kaldi_io.read_mat_ark(f"{number}.gz")), {"a": MATRICES["a"]})
    kaldi_io.write_mat("| gzip -c > 3.gz", MATRICES["b"], "b")
    same(dict(kaldi_io.read_mat_ark("gunzip -c 3.gz |")), {"b": MATRICES["b"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.gz", "1.gz", "2.gz", "3.gz"]


def test_gzipped_files_have_offsets_and_are_appended_to(tmp_path: Path) -> None:
    archive = f"{tmp_path}/a.ark.gz"
    for mode, key in ("wb", "a"), ("ab", "b"):
        with kaldi_io.open_or_fd(archive, mode) as file:
            kaldi_io.write_mat(file, MATRICES[key], key)
    same(dict(kaldi_io.read_mat_ark(archive)), MATRICES)
    offset = len(gzip.decompress(Path(archive).read_bytes())) - MATRICES["b"].nbytes - 15
    (tmp_path / "a.scp").write_text(f"b {archive}:{offset}[0:2]\nc {archive}:2\n")
    same({"b": kaldi_io.read_mat(f"{archive}:{offset}")}, {"b": MATRICES["b"]})
    same(dict(kaldi_io.read_mat_scp(f"{tmp_path}/a.scp")), {"b": MATRICES["b"][:2], "c": MATRICES["a"]})
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    (tmp_path / "a.scp").write_text(f"k {tmp_path}/bad.gz:5\n")
    with pytest.raises(ArkError, match=r"bad\.gz:5: k: "):
        dict(kaldi_io.read_mat_scp(f"{tmp_path}/a.scp"))


def test_integers_of_an_empty_file_are_an_error(tmp_path: Path) -> None:
    for name in "false |", "/dev/null":
        with pytest.raises(ArkError, match="found the end"):
            kaldi_io.read_vec_int(name)


def test_text_has_kaldi_ios_types(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("a  [\n  1 2\n  3 4 ]\n")
    (tmp_path / "v").write_text("a  [ 0.1 2 ]\n")
    (tmp_path / "i").write_text("a 1 2 3\nb [ 4 5 ]\nc\n")
    same(dict(kaldi_io.read_mat_ark(f"{tmp_path}/m")), {"a": np.array([[1, 2], [3, 4]], np.float32)})
    same(dict(kaldi_io.read_vec_flt_ark(f"{tmp_path}/v")), {"a": np.array([0.1, 2])})
    same(dict(kaldi_io.read_ali_ark(f"{tmp_path}/i")), {
        "a": np.array([1, 2, 3]), "b": np.array([4, 5]), "c": np.array([], int),
    })  # fmt: skip
    (tmp_path / "i").write_text("a 1 x\n")
    with pytest.raises(FormatError, match="a: expected a line of integers"):
        dict(kaldi_io.read_vec_int_ark(f"{tmp_path}/i"))


def test_ranges_are_slices_of_python(tmp_path: Path) -> None:
    kaldiio.save_mat(f"{tmp_path}/m", MATRICES["a"])
    parts = {
        "[0:9]": np.s_[0:9],
        "[:,1:3]": np.s_[:, 1:3],
        "[5:]": np.s_[5:],
        "[2:99,:2]": np.s_[2:99, :2],
        "": np.s_[:],
    }
    for part, slices in parts.items():
        (tmp_path / "scp").write_text(f"k {tmp_path}/m{part}\n")
        same(dict(kaldi_io.read_mat_scp(f"scp:{tmp_path}/scp")), {"k": MATRICES["a"][slices]})
    for part in "[a:b]", "[1]", "[0:1,0:1,0:1]":
        (tmp_path / "scp").write_text(f"k {tmp_path}/m{part}\n")
        with pytest.raises(RangeError, match="k: "):
            dict(kaldi_io.read_mat_scp(f"{tmp_path}/scp"))


def test_a_range_of_a_posterior_is_refused() -> None:
    with pytest.raises(RangeError, match=r"k: .*posterior"):
        list(kaldi_io.read_post_scp(io.BytesIO(b"k echo [ 1 0.5 ] |[0:1]\n")))


def test_posteriors_and_times_are_read_and_written(tmp_path: Path) -> None:
    with kaldi_io.open_or_fd(f"{tmp_path}/p", "wb") as file:
        kaldi_io.write_post(file, POSTERIOR, "a")
        kaldi_io.write_post(file, [], "b")
    (tmp_path / "scp").write_text(f"a {tmp_path}/p:2\n")
    assert dict(io_ark.read(f"{tmp_path}/p", kind="posterior")) == {"a": POSTERIOR, "b": []}
    assert dict(kaldi_io.read_post_ark(f"{tmp_path}/p"))["a"] == kaldi_io.read_post(f"{tmp_path}/p:2") == POSTERIOR
    assert dict(kaldi_io.read_cnet_ark(f"{tmp_path}/p")) == dict(kaldi_io.read_post_rxspec(f"ark:{tmp_path}/p"))
    assert dict(kaldi_io.read_post_rxspec(f"scp:{tmp_path}/scp")) == {"a": POSTERIOR}
    with pytest.raises(SpecifierError, match="does not start with"):
        kaldi_io.read_post_rxspec("x")
    with io_ark.Writer(f"ark:{tmp_path}/t", kind="float-pair-vector") as writer:
        writer["a"] = np.array([[0, 0.5], [0.5, 1.25]], np.float32)
    assert dict(kaldi_io.read_cntime_ark(f"{tmp_path}/t")) == {"a": [(0, 0.5), (0.5, 1.25)]}
    assert kaldi_io.read_cntime(f"{tmp_path}/t:2") == [(0, 0.5), (0.5, 1.25)]


def test_segments_are_a_mask_of_frames(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("u1 rec 0.02 0.05\nu2 rec 0.07 0.08\n")
    mask, key = kaldi_io.read_segments_as_bool_vec(f"{tmp_path}/segments", return_key=True)
    assert (mask.astype(int).tolist(), mask.dtype, key) == ([0, 0, 1, 1, 1, 0, 0, 1], np.bool_, "rec")
    np.testing.assert_array_equal(kaldi_io.read_segments_as_bool_vec(io.BytesIO(b"u rec 0 0.03\n")), [True] * 3)
    for text, message in {"": "no segments", "u r 0\n": "fewer than 4", "u r 0 x\n": "not a number",
                          "u r 0 nan\n": "NaN or infinite", "u r 0 1\nv s 0 1\n": "2 recordings",
                          "u r 1 2\nv r 0 1\n": "decrease"}.items():  # fmt: skip
        (tmp_path / "segments").write_text(text)
        with pytest.raises(FormatError, match=message):
            kaldi_io.read_segments_as_bool_vec(f"{tmp_path}/segments")


def test_wrong_objects_raise_kaldi_ios_errors(tmp_path: Path) -> None:
    with pytest.raises(kaldi_io.UnsupportedDataType, match="float32 or float64, not an array of int64"):
        kaldi_io.write_mat(f"{tmp_path}/m", np.zeros((2, 2), np.int64))
    with pytest.raises(KeyFormatError):
        kaldi_io.write_mat(io.BytesIO(), MATRICES["a"], key="two words")
    kaldiio.save_ark(f"{tmp_path}/v", VECTORS)
    kaldiio.save_ark(f"{tmp_path}/m", MATRICES)
    with pytest.raises(kaldi_io.UnknownMatrixHeader, match="a: expected a float matrix"):
        dict(kaldi_io.read_mat_ark(f"{tmp_path}/v"))
    with pytest.raises(kaldi_io.UnknownVectorHeader, match="a: expected a float vector"):
        dict(kaldi_io.read_vec_flt_ark(f"{tmp_path}/m"))
    with pytest.raises(kaldi_io.SubprocessFailed, match="exit"):
        dict(kaldi_io.read_mat_ark(f"cat {tmp_path}/m; exit 3 |"))


@pytest.mark.parametrize("method", [None, 1, 3, 5])
def test_private_readers_leave_the_bytes_after_an_object(method: int | None, tmp_path: Path) -> None:
    path = tmp_path / "object"
    matrix = MATRICES["a"]
    kaldiio.save_mat(str(path), matrix, **({"compression_method": method} if method else {}))
    expected = kaldi_io.read_mat(str(path))
    data = path.read_bytes() + b"</End> "
    assert data[:2] == b"\0B"
    found = [kaldi_io._read_mat_binary(file := io.BytesIO(data[2:]))]
    if method:
        found.append(kaldi_io._read_compressed_mat(file_after := io.BytesIO(data[5:]), data[2:5].decode()))
        assert file_after.read() == b"</End> "
    assert file.read() == b"</End> "
    for each in found:
        np.testing.assert_array_equal(each, expected)


def test_private_readers_of_vectors_and_text_leave_the_bytes_after_an_object() -> None:
    for vector in VECTORS.values():
        written = io.BytesIO()
        kaldi_io.write_vec_flt(written, vector)
        file = io.BytesIO(written.getvalue()[2:] + b"rest")
        np.testing.assert_array_equal(kaldi_io._read_vec_flt_binary(file), vector)
        assert file.read() == b"rest"
    file = io.BytesIO(b"\n  1 2.5\n  -3 4 ]\nrest")
    np.testing.assert_array_equal(kaldi_io._read_mat_ascii(file), np.array([[1, 2.5], [-3, 4]], np.float32))
    assert file.read() == b"rest"


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 3)])
def test_no_matrix_is_written_as_a_vector(shape: tuple[int, int]) -> None:
    file = io.BytesIO()
    with pytest.raises(FormatError, match="expected a 1-dimensional array"):
        kaldi_io.write_vec_flt(file, np.zeros(shape, np.float32), key="utt1")
    assert not file.getvalue()


def test_private_readers_refuse_damaged_objects() -> None:
    huge = b"\4\xff\xff\xff\x7f\4\xff\xff\xff\x7f"
    for call, data in [
        (kaldi_io._read_mat_binary, b"FM " + huge + bytes(100)),
        (kaldi_io._read_mat_binary, b"FM \4\2"),
        (kaldi_io._read_mat_binary, b"FV \4\2\0\0\0" + bytes(8)),
        (kaldi_io._read_vec_flt_binary, b"DV \4\2\0\0\0" + bytes(8)),
        (kaldi_io._read_mat_ascii, b"1 2\n 3 4\n"),
        (lambda file: kaldi_io._read_compressed_mat(file, "CM2"), b" " + bytes(8) + b"\xff\xff\xff\x7f" * 2),
        (lambda file: kaldi_io._read_compressed_mat(file, "XY "), bytes(30)),
    ]:
        with pytest.raises(FormatError, match="<stream>"):
            call(io.BytesIO(data))


def test_negative_sizes_are_refused_before_the_rest_is_read() -> None:
    """The product of two negative sizes is positive, so it would be read from a pipe until its end."""
    for call, sizes in [
        (kaldi_io._read_mat_binary, b"FM " + b"\4\xf0\xff\xff\xff" * 2),
        (lambda file: kaldi_io._read_compressed_mat(file, "CM3"), b" " + bytes(8) + b"\xf0\xff\xff\xff" * 2),
    ]:
        file = io.BytesIO(sizes + b"rest")
        with pytest.raises(FormatError, match="<stream>"):
            call(file)
        assert file.read() == b"rest"


def test_script_of_write_ark_scp_names_the_matrices(tmp_path: Path) -> None:
    with open(tmp_path / "m.ark", "wb") as archive, open(tmp_path / "m.scp", "w") as script:
        for key, matrix in MATRICES.items():
            kaldi_io.write_ark_scp(key, matrix, archive, script)
    same(dict(kaldi_io.read_mat_scp(f"{tmp_path}/m.scp")), MATRICES)


def test_submodule_can_be_imported_under_kaldi_ios_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaldi_io", kaldi_io)
    imported = importlib.import_module("kaldi_io.kaldi_io")
    del sys.modules["kaldi_io.kaldi_io"]
    for name in *kaldi_io.__all__, "_read_mat_binary":
        assert getattr(imported, name) is getattr(kaldi_io, name)


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.ark").write_bytes(b"")
    with open(tmp_path / "a.ark", "rb") as file, pytest.raises(WriteError, match=r"a\.ark: cannot be written: "):
        kaldi_io.write_mat(file, MATRICES["a"], "a")
    with open(tmp_path / "a.ark", "wb", buffering=0) as file:
        kaldi_io.write_mat(file, MATRICES["a"], "a")
    same(dict(kaldi_io.read_mat_ark(f"{tmp_path}/a.ark")), {"a": MATRICES["a"]})
