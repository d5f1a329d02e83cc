"""Headers alone give the shapes that reading gives, leave the source at the same place, and raise the same errors."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.blocks import ArrayInfo
from io_ark.cli.ark import main
from io_ark.codecs import AnyCodec, Codec, codec
from io_ark.codecs.info import InfoCodec
from io_ark.errors import ArkError, RangeError, TruncatedError
from io_ark.streams import source
from io_ark.streams.source import BytesSource, FileSource, Source, StreamSource
from tests.support.codec_samples import samples
from tests.support.codec_tools import to_bytes

SAMPLES = samples()
IDS = [f"{number}-{kind}" for number, (kind, _) in enumerate(SAMPLES)]
GIBIBYTE = 1 << 30
MAX_HEADER_BYTES = 50


def sources(data: bytes, folder: Path) -> list[Source]:
    """The same bytes from memory, from a stream that does not know its length, and from a file."""
    path = folder / "data"
    path.write_bytes(data)
    file = path.open("rb")
    return [
        BytesSource(data, name="x"),
        StreamSource(io.BytesIO(data), "x"),
        FileSource(file.fileno(), 0, len(data), "x", owner=file),
    ]


def like(value: Any) -> Any:
    """Return what an object and its info have in common."""
    value = getattr(value, "samples", value)
    shape = getattr(value, "shape", None)
    return (type(value) if shape is None else shape), getattr(value, "dtype", np.dtype("int16"))


def outcome(read: Callable[[Source], Any], source: Source) -> Any:
    """Return the value read and the rest of the source, or the error."""
    try:
        value = read(source)
    except ArkError as error:
        return type(error), str(error)
    return like(value), source.tell(), source.read_rest()


def assert_alike(decoder: Codec[Any], data: bytes, folder: Path) -> None:
    for one, other in zip(sources(data, folder), sources(data, folder), strict=True):
        assert outcome(lambda source: decoder.read_part(source, None), one) == outcome(decoder.read, other)


@pytest.mark.costly
@pytest.mark.parametrize(("kind", "data"), SAMPLES, ids=IDS)
def test_info_of_whole_and_truncated_objects(kind: str, data: bytes, tmp_path: Path) -> None:
    for decoder in (codec(kind), AnyCodec()):
        assert_alike(decoder, data + b"utt2 ", tmp_path)
        for end in (*range(min(len(data), MAX_HEADER_BYTES)), len(data) // 2, len(data) - 1):
            assert_alike(decoder, data[:end], tmp_path)


STORED = {  # the kind that is written: the kind that reads it
    "matrix": "matrix", "double-matrix": "matrix", "compressed-matrix": "double-matrix", "vector": "double-vector",
    "double-vector": "vector", "int-vector": "int-vector", "int8-vector": "int8-vector", "packed-matrix": "sp-matrix",
    "wave": "wave",
}  # fmt: skip


@given(
    kind=st.sampled_from(sorted(STORED)),
    rows=st.integers(0, 60),
    columns=st.integers(0, 300),
    method=st.integers(1, 7),
    kept=st.one_of(st.none(), st.floats(0, 1)),
)
@settings(max_examples=300, deadline=None)
def test_info_of_arrays_of_any_shape(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: int, columns: int, method: int, kept: float | None
) -> None:
    numbers = np.arange(rows * columns) % 100
    value: Any = numbers
    if kind.endswith("matrix"):
        value = numbers.reshape(rows, columns).astype(float)
    if kind == "packed-matrix":
        value = np.zeros((rows, rows))
    if kind == "wave":
        value = io_ark.Wave(8000.0, np.zeros((1 + rows % 3, 1 + columns), np.int16))
    data = to_bytes(kind, value, **({"method": method} if kind == "compressed-matrix" else {}))
    data = data + b"utt2 x" if kept is None else data[: int(kept * len(data))]
    assert_alike(codec(STORED[kind]), data, tmp_path_factory.mktemp("any", numbered=True))


def test_only_the_header_is_looked_at() -> None:
    class Blank(BytesSource):
        def read_array(self, dtype: Any, count: int) -> Any:
            raise AssertionError("numbers were read")

    for kind in ("matrix", "vector", "packed-matrix"):
        value = np.zeros((3, 3)) if kind != "vector" else np.zeros(3)
        codec(kind).read_part(Blank(to_bytes(kind, value)), None)
    codec("matrix").read_part(Blank(to_bytes("compressed-matrix", np.zeros((9, 3)))), None)


@pytest.mark.parametrize("text", ["1:3", "0:8,1:2", ":,2:2", "7:10", "2:2,0:0"])
@pytest.mark.parametrize("kind", ["matrix", "compressed-matrix"])
def test_info_of_a_range_equals_the_shape_of_the_range(kind: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "feats"
    path.write_bytes(to_bytes(kind, np.arange(27.0).reshape(9, 3)))
    for where in (f"{path}[{text}]", f"cat {path} |[{text}]"):
        info = io_ark.load(where, kind=InfoCodec("matrix"))
        assert info == ArrayInfo(io_ark.load(where, kind="matrix").shape, np.dtype(np.float32))


@pytest.mark.parametrize(
    ("kind", "value", "part"), [("matrix", np.zeros((9, 3)), "9:20"), ("int-vector", [1, 2, 3], "0:1")]
)
def test_info_of_invalid_range_is_an_error(kind: str, value: Any, part: str, tmp_path: Path) -> None:
    (tmp_path / "object").write_bytes(to_bytes(kind, value))
    with pytest.raises(RangeError) as whole:
        io_ark.load(f"{tmp_path}/object[{part}]", kind=kind)
    with pytest.raises(RangeError) as info:
        io_ark.load(f"{tmp_path}/object[{part}]", kind=InfoCodec(kind))
    assert str(info.value) == str(whole.value)


def test_part_of_a_vector(tmp_path: Path) -> None:
    (tmp_path / "vector").write_bytes(to_bytes("vector", np.zeros(9)))
    assert io_ark.load(f"{tmp_path}/vector[2:4]", kind=InfoCodec("vector")).shape == (3,)


def test_info_in_a_thread_and_in_a_permissive_reader(tmp_path: Path) -> None:
    feats = {f"u{rows}": np.zeros((rows, 4), np.float32) for rows in (3, 5, 2000)}
    kaldiio.save_ark(f"{tmp_path}/a.ark", feats, scp=f"{tmp_path}/a.scp")
    with io_ark.SequentialReader[Any](f"ark,bg:{tmp_path}/a.ark", kind=InfoCodec("matrix")) as reader:
        assert {key: info.shape for key, info in reader} == {key: value.shape for key, value in feats.items()}
    os.truncate(tmp_path / "a.ark", (tmp_path / "a.ark").stat().st_size - 1)
    with io_ark.SequentialReader[Any](f"scp,p:{tmp_path}/a.scp", kind=InfoCodec("matrix")) as reader:
        assert [key for key, _ in reader] == ["u3", "u5"]
        assert reader.skipped == 1
    with pytest.raises(TruncatedError, match="u2000"):
        list(io_ark.SequentialReader[Any](f"scp:{tmp_path}/a.scp", kind=InfoCodec("matrix")))


# Header, bytes after it, and how `ark ls` tells of it.
LARGE = [
    (b"\0BFM " + struct.pack("<bibi", 4, 1 << 20, 4, 256), GIBIBYTE, "matrix\t1048576 x 256\tfloat32"),
    (b"\0BDM " + struct.pack("<bibi", 4, 1 << 20, 4, 128), GIBIBYTE, "matrix\t1048576 x 128\tfloat64"),
    (b"\0BCM " + struct.pack("<ffii", 0, 1, 1 << 20, 1024), GIBIBYTE + 8 * 1024,
     "matrix\t1048576 x 1024\tcompressed: 1 byte per value, 4 percentiles per column"),
    (b"\0BCM2 " + struct.pack("<ffii", 0, 1, 1 << 20, 512), GIBIBYTE,
     "matrix\t1048576 x 512\tcompressed: 2 bytes per value"),
    (b"\0BCM3 " + struct.pack("<ffii", 0, 1, 1 << 20, 1024), GIBIBYTE,
     "matrix\t1048576 x 1024\tcompressed: 1 byte per value"),
    (b"\0BFV " + struct.pack("<bi", 4, 1 << 28), GIBIBYTE, "vector\t268435456\tfloat32"),
    (b"\0BFP " + struct.pack("<bi", 4, 1 << 14), 2 * (1 << 14) * (1 + (1 << 14)), "vector\t134225920\tfloat32, packed"),
    (b"RIFF" + struct.pack("<I", GIBIBYTE + 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 2, 8000, 32000, 4, 16)
     + b"data" + struct.pack("<I", GIBIBYTE), GIBIBYTE, "audio 8000 Hz\t2 x 268435456\tWAV"),
]  # fmt: skip


def with_holes(folder: Path, objects: list[tuple[bytes, int, str]]) -> None:
    """An archive of large objects, whose bytes are holes in the file, and its script file."""
    with (folder / "large.ark").open("wb") as archive, (folder / "large.scp").open("w") as script:
        for number, (header, size, _) in enumerate(objects):
            archive.write(b"u%d " % number)
            script.write(f"u{number} {folder}/large.ark:{archive.tell()}\n")
            archive.write(header)
            archive.seek(size, os.SEEK_CUR)
        archive.truncate()


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of bytes of each system call that reads."""
    given: list[int] = []

    def pread(*arguments: Any, original: Callable[..., bytes] = os.pread) -> bytes:
        data = original(*arguments)
        given.append(len(data))
        return data

    def preadv(*arguments: Any, original: Callable[..., int] = os.preadv) -> int:
        given.append(original(*arguments))
        return given[-1]

    monkeypatch.setattr(source, "pread", pread)
    monkeypatch.setattr(source, "preadv", preadv)
    return given


@pytest.mark.parametrize("table", ["large.ark", "large.scp"])
def test_ls_of_large_objects_reads_their_headers(
    table: str, tmp_path: Path, bytes_read: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    with_holes(tmp_path, LARGE)
    assert main(["ls", str(tmp_path / table)]) == 0
    lines = [line.split("\t", 1)[1].rsplit("\t", 1)[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == [described for _, _, described in LARGE]
    assert 0 < sum(bytes_read) < 2 * 4096 * len(LARGE)


def test_ls_reports_a_truncated_large_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_holes(tmp_path, LARGE[:1])
    os.truncate(tmp_path / "large.ark", (tmp_path / "large.ark").stat().st_size - 1)
    for table in ("large.ark", "large.scp"):
        assert main(["ls", str(tmp_path / table)]) == 1
        out = capsys.readouterr().out
        assert f"ends too early: expected {GIBIBYTE} more bytes, but only {GIBIBYTE - 1} are available" in out


@pytest.mark.parametrize("specifier", ["ark:{}/large.ark", "scp:{}/large.scp"])
def test_feat_to_len_and_dim_read_headers(
    specifier: str, tmp_path: Path, bytes_read: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    from kaldi_compat.programs import feat_to_dim, feat_to_len

    with_holes(tmp_path, LARGE[:5])
    source = specifier.format(tmp_path)
    assert feat_to_len.main([source]) == 0
    assert capfd.readouterr().out == f"{5 << 20}\n"
    assert feat_to_dim.main([source, "ark,t:-"]) == 0
    assert capfd.readouterr().out == "u0 256 \nu1 128 \nu2 1024 \nu3 512 \nu4 1024 \n"
    assert 0 < sum(bytes_read) < 2 * 2 * 4096 * 5


def test_lengths_of_a_dataset_read_headers(tmp_path: Path, bytes_read: list[int]) -> None:
    pytest.importorskip("torch")
    from kaldi_compat.torch.data.datasets import FeatureDataset

    with_holes(tmp_path, LARGE[:5])
    assert FeatureDataset(tmp_path / "large.scp").lengths() == 5 * [1 << 20]
    assert 0 < sum(bytes_read) < 2 * 4096 * 5


def test_shapes_of_more_bytes_than_there_can_be_are_errors(tmp_path: Path) -> None:
    good = b"\0BFM \4\1\0\0\0\4\1\0\0\0" + bytes(4)
    huge = b"\0BFM \4\0\0\0\x40\4\0\0\0\x40"  # 2^30 by 2^30: 2^62 bytes, which is 0 in 64 bits
    (tmp_path / "a.ark").write_bytes(b"a " + good + b"b " + good + b"c " + huge + b"d " + good)
    with (
        io_ark.SequentialReader[Any](f"ark:{tmp_path}/a.ark", kind=InfoCodec("matrix")) as reader,
        pytest.raises(TruncatedError, match="c: "),
    ):
        assert [block.decode_keys() for block in reader.blocks()] == []
