"""Files of other programs are named, and are neither words nor keys."""

import bz2
import gzip
import io
import json
import logging
import lzma
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from io_ark.blocks import Wave
from io_ark.cli.ark import main
from io_ark.errors import FormatError
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.source import BytesSource

AUDIO = Wave(8000.0, np.ones((1, 9), np.int16))
TABLE = b"utt1 [ 1 2 ]\n"


def written(write: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def tar(file: io.BytesIO) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.npy"))


FILES = {
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n",
    "run 'git lfs pull'": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n",
    "a document in HTML": b"<!DOCTYPE html>\n<html><head></head><body>Not Found</body></html>\n",
    "in HTML or": b"\n <html lang=en>\n<body>\nNot Found\n</body>\n",
    "HTML or XML": b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>",
    "a file of NumPy (.npy)": written(lambda file: np.save(file, np.ones((3, 2)))),
    "a zip file, such as NumPy (.npz)": written(lambda file: np.savez(file, a=np.ones((3, 2)))),
    "a PyTorch file": b"PK\3\4" + bytes(26) + b"archive/data.pkl" + bytes(9),
    "a file of HDF5": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "an Arrow file": b"ARROW1\0\0" + bytes(20),
    "a file of Parquet": b"PAR1\x15\4\x15\x10" + bytes(20),
    "a tar file": written(tar),
    "a safetensors file": b"\x40" + bytes(7) + b'{"a":{"dtype":"F32"}}',
    "a JSON file": json.dumps({"mean": [1, 2]}, indent=2).encode(),
    "JSON": b'[{"id": "a"}]\n',
    ".jsonl": b'{"id": "a"}\n{"id": "b"}\n',
    "compressed with gzip": gzip.compress(TABLE),
    "compressed with bzip2": bz2.compress(TABLE),
    "compressed with xz": lzma.compress(TABLE),
    "compressed with zstd": b"\x28\xb5\x2f\xfd\4\0" + bytes(20),
    "a pickle of Python": pickle.dumps({"a": 1}),
    "pickle of": pickle.dumps([1], protocol=2),
    "an ONNX model": b"\x08\x07\x12\x07pytorch\x1a\x052.1.0" + bytes(20),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "picture": b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(30),
    "a PDF document": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
    "a program": b"#!/bin/bash\necho hello\n",
    "program": b"\x7fELF\2\1\1" + bytes(40),
    "a database": b"SQLite format 3\0" + bytes(80),
    "a MATLAB file": b"MATLAB 5.0 MAT-file, Platform: posix" + b" " * 90,
    "text in UTF-16": "utt1 word\n".encode("utf-16"),
    "a file of MP4": b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(30),
    "Matroska": b"\x1a\x45\xdf\xa3\x01" + bytes(30),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_files_of_other_programs_are_refused_by_all_readers(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_bytes(FILES[what])
    readers: list[Callable[[], Any]] = [
        lambda: io_ark.load("x"),
        lambda: io_ark.load("cat x |"),
        lambda: io_ark.load("x", kind="matrix"),
        lambda: io_ark.load("x", kind="wave"),
        lambda: list(io_ark.read("x")),
        lambda: list(io_ark.read("ark:cat x |")),
        lambda: list(io_ark.SequentialReader("ark:x", kind="token-vector")),
        lambda: list(io_ark.SequentialReader("ark,p:x", kind="matrix")),
        lambda: "utt1" in io_ark.RandomAccessReader("ark:x", kind="token-vector"),
    ]
    scripts: list[Callable[[], Any]] = [
        lambda: io_ark.load_scp("x"),
        lambda: list(io_ark.read("scp:x")),
        lambda: io_ark.RandomAccessReader("scp:x", kind="token-vector"),
    ]
    for read in readers + scripts * (FILES[what][:1] != b"\0"):
        with pytest.raises(FormatError) as caught:
            read()
        assert what in str(caught.value)
    for command in ("ls", "head", "stat", "check", "show", "grep a"):
        assert main([*command.split(), "x"]) != 0
        captured = capsys.readouterr()
        assert what in captured.err + captured.out
        assert (captured.err + captured.out).count("\n") <= 2


def test_advice_for_compressed_files_is_a_command_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my x.gz").write_bytes(gzip.compress(TABLE))
    with pytest.raises(FormatError) as caught:
        list(io_ark.read("my x.gz"))
    table = str(caught.value).partition("read it as '")[2][:-1]
    with pytest.raises(FormatError) as caught:
        list(io_ark.read("ark:cat 'my x.gz' |"))
    piped = str(caught.value).partition("read it as '")[2][:-1]
    for advice in (table, piped):
        assert [key for key, _ in io_ark.read(advice)] == ["utt1"]


@given(st.lists(st.text("abcPARfLCgOS1{<%\x80\xff", min_size=1, max_size=5), min_size=1, max_size=4))
def test_words_are_read_as_words(words: list[str]) -> None:
    line = " ".join(words).encode("latin-1")
    source = BytesSource(line + b"\n")
    refuse_foreign_file(source, "ark")
    assert source.read_line() == line


KEYS = [
    "{}",
    "PAR1",
    "PAR1_utt",
    "PK",
    "fLaC",
    "OggS-1",
    "caff",
    ".snd",
    "ID3x",
    "NIST_1A",
    "BZh9",
    "version",
    "MATLAB",
    "RIFF",
]


@pytest.mark.parametrize("key", [*KEYS, "RIFF", "FORM", "<unk>", "[", "#", "mustard", "GIF89a", "ftyp", "SQLite"])
def test_tables_whose_first_key_resembles_a_file_of_another_program_are_read(key: str, tmp_path: Path) -> None:
    table, words = str(tmp_path / "x"), ["text", "with", "mustard", "at", "byte", "257"]
    for binary, value, kind in ((True, np.eye(2, dtype="f4"), "matrix"), (False, words, "token-vector")):
        with io_ark.Writer(f"ark{'' if binary else ',t'}:{table}", kind=kind) as writer:
            writer[key] = value
        ((read, values),) = io_ark.SequentialReader(f"ark:{table}", kind=kind)
        assert read == key and list(map(list, values)) == list(map(list, value))
        if key != "[":
            assert [read for read, _ in io_ark.read(table)] == [key]


def test_the_mark_of_tar_files_in_text_is_a_word(tmp_path: Path) -> None:
    line = b"utt1 " + b"m" * (257 - 5) + b"ustard and more\n"
    (tmp_path / "text").write_bytes(line)
    assert [key for key, _ in io_ark.read(tmp_path / "text")] == ["utt1"]


def test_byte_order_mark_gets_a_warning_and_stays_in_the_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfutt1 a b\n")
    for read in (io_ark.read, io_ark.load_scp, lambda name: list(io_ark.read(f"scp,p:{name}"))):
        with caplog.at_level(logging.WARNING):
            keys = [entry if isinstance(entry, str) else entry[0] for entry in read(str(tmp_path / "text"))]
        assert keys in (["\ufeffutt1"], [])
        assert "starts with a byte-order mark, which is read as a part of the first key" in caplog.text
        caplog.clear()


@pytest.mark.parametrize("kind", ["matrix", "vector", "wave", "int-vector", "nnet-example"])
def test_single_objects_are_not_archives(kind: str, tmp_path: Path) -> None:
    from io_ark.blocks import Wave

    values = {
        "matrix": np.eye(2),
        "vector": np.ones(3),
        "int-vector": [1, 2],
        "wave": Wave(8000.0, np.ones((1, 9), "i2")),
    }
    if kind not in values:
        (tmp_path / "x").write_bytes(b"\0B<Nnet3Eg> ")
    else:
        io_ark.save(tmp_path / "x", values[kind], kind=kind)  # type: ignore[call-overload]
    for read in (io_ark.read, lambda name: list(io_ark.SequentialReader(f"ark:{name}", kind=kind))):
        with pytest.raises(FormatError, match=r"is a single object, not an archive: read it with io_ark.load"):
            list(read(str(tmp_path / "x")))


def test_text_before_zero_bytes_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"some words\n" + bytes(100))
    with pytest.raises(FormatError, match="expected text, found a zero byte after the first line"):
        io_ark.load(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"\0B<Nnet3> <Nodes>")
    with pytest.raises(FormatError, match="no known kind of object starts with '<Nnet3>'"):
        io_ark.load(tmp_path / "x")
