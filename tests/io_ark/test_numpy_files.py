"""NumPy's files, whole, damaged and hostile."""

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from io_ark.errors import ArkError, FormatError, MissingFileError, OpenError
from io_ark.numpy_files import load_npy, load_npz


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns first": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "scalar": np.float64(3.5),
    "no rows": np.zeros((0, 3), np.float32),
    "words": np.array(["one", "three"]),
    "dates": np.array(["2026-11-28"], "datetime64[D]"),
    "big-endian": np.arange(3, dtype=">i4"),
    "fields": np.array([(1, 2.0)], [("a", "<i4"), ("b", "<f8")]),
}
HOSTILE = {
    "3.55 PiB": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000), }"),
    "negative": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }", bytes(64)),
    "two negative": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4), }", bytes(64)),
    "beyond 64 bits": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 0), }}"),
    "nothing many times": npy("{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,), }"),
    "open bracket": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3"),
    "deep brackets": npy("(" * 9000),
    "a number of many digits": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'9' * 5000},), }}"),
    "no dictionary": npy("[]"),
    "other keys": npy("{}"),
    "unknown type": npy("{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,), }"),
    "pickle": saved(np.array([{}, 1], object)),
    "version 9": b"\x93NUMPY\x09\x00" + bytes(64),
    "cut in the data": saved(np.zeros(9))[:-1],
    "cut in the header": saved(np.zeros(9))[:30],
    "magic only": b"\x93NUMPY",
    "empty": b"",
    "a line": b"hello\n",
    "zip": b"PK\x03\x04" + bytes(60),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_those_of_numpy(name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAYS[name])
    np.savez(tmp_path / "a.npz", ARRAYS[name])
    np.savez_compressed(tmp_path / "b.npz", ARRAYS[name])
    expected = np.load(tmp_path / "a.npy")
    for array in (load_npy(tmp_path / "a.npy"), *(load_npz(tmp_path / f)["arr_0"] for f in ("a.npz", "b.npz"))):
        np.testing.assert_array_equal(array, expected)
        assert (array.dtype, array.shape, array.flags.writeable) == (expected.dtype, expected.shape, True)
        assert array.flags.f_contiguous == expected.flags.f_contiguous


@pytest.mark.parametrize("name", HOSTILE)
def test_errors_are_one_line_with_the_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    file.write_bytes(HOSTILE[name])
    with pytest.raises(FormatError, match=r"cannot be read as a .npy array: ") as caught:
        load_npy(file)
    assert caught.value.file == str(file) and "\n" not in str(caught.value)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", HOSTILE[name])
    with pytest.raises(FormatError, match=r"x.npy: cannot be read as a .npy array: "):
        load_npz(tmp_path / "a.npz")


def test_unknown_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(HOSTILE["version 9"])
    with pytest.raises(FormatError, match=r"version 9\.0 of the format is not supported"):
        load_npy(tmp_path / "a.npy")


def test_damaged_zip_files_give_one_error(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", samples=np.arange(400), features=np.ones((3, 4)))
    whole, file = (tmp_path / "a.npz").read_bytes(), tmp_path / "b.npz"
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole[: random.integers(len(whole)) if random.random() < 0.3 else None])
        for _ in range(random.integers(1, 4)):
            if damaged:
                damaged[random.integers(len(damaged))] = random.integers(256)
        file.write_bytes(damaged)
        try:
            load_npz(file)
        except ArkError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 200


def test_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", np.zeros(1 << 24))
    with pytest.raises(FormatError, match=r"an array of 134217856 bytes is implausible in a file of .* bytes"):
        load_npz(tmp_path / "a.npz")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for load in (load_npy, load_npz):
        for name in ("/dev/zero", tmp_path / "fifo"):
            with pytest.raises(OpenError, match=r"is not a regular file"):
                load(name)
        with pytest.raises(OpenError, match=r"is a directory: name a file"):
            load(tmp_path)
        with pytest.raises(MissingFileError):
            load(tmp_path / "none")
        with pytest.raises(OpenError):
            load("a\0b")
