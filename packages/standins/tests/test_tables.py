"""Kaldi's tables by the names of other libraries: the checks of io_ark's own readers and writers."""

from __future__ import annotations

import gzip
import inspect
import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import io_ark
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.errors import ArkError, OpenError, WriteError
from io_ark.tables import readers
from kaldi_standins import kaldi, kaldi_io, kaldi_native_io, kaldi_python_io, kaldiio, torchaudio_kaldi_io
from kaldi_standins.kaldi_python_io import functional, inst
from tests.io_ark.streams.test_access import (
    MATRIX,
    REFUSALS,
    Names,
    check_private_addresses,
    check_refused,
)
from tests.io_ark.tables.test_interrupted_readers import (
    OWN,
    Step,
    new_iterators,
    outcomes_of,
    same_iterator,
    write_entries,
)
from tests.io_ark.tables.test_interrupted_writers import FULL, MANY, FullDisk, check_script_file, matrix
from tests.io_ark.tables.test_two_writers import AGAIN, WRITERS, check_two_writers, table
from tests.io_ark.test_api import VALUES, same
from tests.support.range_server import range_server
from tests.support.tables import write_table

NATIVE = kaldi_native_io.FloatMatrix(MATRIX)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_kaldis_names_read_and_write(tmp_path: Path) -> None:
    matrix, ints = VALUES["float-matrix"], np.array([1, 2], np.int32)
    with (
        kaldi.BaseFloatMatrixWriter(f"ark:{tmp_path}/m") as m,
        kaldi.Int32VectorWriter(f"ark:{tmp_path}/i") as i,
    ):
        m["s"] = matrix
        i["u"] = ints
    with kaldi.TokenWriter(f"ark,t:{tmp_path}/utt2spk") as tokens:
        tokens["u"] = "s"
    assert same(dict(kaldi.SequentialBaseFloatMatrixReader(f"ark:{tmp_path}/m"))["s"], matrix)
    assert same(kaldi.RandomAccessInt32VectorReader(f"ark:{tmp_path}/i")["u"], ints)
    mapped = kaldi.RandomAccessBaseFloatMatrixReaderMapped(f"ark:{tmp_path}/m", f"ark:{tmp_path}/utt2spk")
    assert same(mapped["u"], matrix)
    with kaldi.CompressedMatrixWriter(f"ark:{tmp_path}/c", method=3) as c:
        c["s"] = matrix  # type: ignore[assignment]
    value = dict(kaldi.SequentialCompressedMatrixReader(f"ark:{tmp_path}/c"))["s"]
    assert isinstance(value, CompressedMatrix)
    np.testing.assert_allclose(np.asarray(value), matrix, atol=1e-4)  # type: ignore[arg-type]


def test_kinds_have_their_kaldi() -> None:
    doors = [name for name in dir(kaldi) if name.endswith(("Reader", "ReaderMapped", "Writer"))]
    for name in doors:
        kind = name.removeprefix("Sequential").removeprefix("RandomAccess")
        if kind not in ("Reader", "Writer"):
            with pytest.raises(ArkError, match="nosuch"):
                getattr(kaldi, name)("ark,scp:nosuch/a,nosuch/b" if kind.endswith("Writer") else "ark:nosuch/a",
                                           *(["ark:nosuch/b"] if kind.endswith("Mapped") else []))  # fmt: skip
    assert len(doors) > 90


def test_torchaudios_kaldi_io_reads_the_same(tmp_path: Path) -> None:
    for kind, name, value in (("matrix", "mat", VALUES["float-matrix"]), ("vector", "vec_flt", VALUES["float-vector"]),
                              ("double-matrix", "mat", VALUES["double-matrix"]),
                              ("double-vector", "vec_flt", VALUES["double-vector"]),
                              ("int-vector", "vec_int", VALUES["ints"])):  # fmt: skip
        with io_ark.Writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", kind=kind) as writer:
            writer["k"] = value
        (tmp_path / "a.ark.gz").write_bytes(gzip.compress((tmp_path / "a.ark").read_bytes()))
        read_ark, read_scp = (
            getattr(torchaudio_kaldi_io, f"read_{name}_ark"),
            getattr(torchaudio_kaldi_io, f"read_{name}_scp"),
        )
        with (
            open(tmp_path / "a.ark", "rb") as ark,
            open(tmp_path / "a.scp", "rb") as scp,
            open(tmp_path / "a.scp") as lines,
        ):
            for entries in (
                read_ark(f"{tmp_path}/a.ark"), read_ark(f"ark:{tmp_path}/a.ark"), read_ark(f"cat {tmp_path}/a.ark |"),
                read_ark(ark), read_ark(f"{tmp_path}/a.ark.gz"), read_scp(f"{tmp_path}/a.scp"), read_scp(scp),
                read_scp(lines),
            ):  # fmt: skip
                ((key, tensor),) = list(entries)
                assert key == "k" and isinstance(tensor, torch.Tensor)
                np.testing.assert_array_equal(tensor.numpy(), value)  # type: ignore[arg-type]
                assert tensor.numpy().dtype == value.dtype  # type: ignore[attr-defined]
    with pytest.raises(ArkError, match="open it in binary"):
        list(torchaudio_kaldi_io.read_mat_scp(io.StringIO("k a.ark:2")))
    (tmp_path / "parts.scp").write_text(f"k {tmp_path}/d.mat[1:2,0:1]\n")
    io_ark.save(f"{tmp_path}/d.mat", VALUES["double-matrix"], kind="double-matrix")
    ((_, part),) = torchaudio_kaldi_io.read_mat_scp(f"{tmp_path}/parts.scp")
    np.testing.assert_array_equal(part.numpy(), VALUES["double-matrix"][1:2, :1])  # type: ignore[index]


def test_gzipped_archives_that_are_missing_or_damaged_are_our_errors(tmp_path: Path) -> None:
    with io_ark.Writer(f"ark:{tmp_path}/a.ark", kind="matrix") as writer:
        writer["k"] = np.random.default_rng(0).standard_normal((500, 20)).astype(np.float32)
    packed = gzip.compress((tmp_path / "a.ark").read_bytes())
    path = tmp_path / "a.ark.gz"
    with pytest.raises(OpenError, match=r"a\.ark\.gz: cannot be opened: No such file"):
        list(torchaudio_kaldi_io.read_mat_ark(str(path)))
    for damaged in packed[:-2000], packed[:300] + b"\0" * 300 + packed[600:], b"no gzip" * 100:
        path.write_bytes(damaged)
        with pytest.raises(OpenError, match="cannot be read"):
            list(torchaudio_kaldi_io.read_mat_ark(str(path)))
        with gzip.open(path) as stream, pytest.raises(OpenError, match="cannot be read"):
            list(kaldiio.load_ark(stream))  # type: ignore[arg-type]


def test_paths_are_names_of_files_whatever_they_look_like(tmp_path: Path) -> None:
    value = VALUES["float-matrix"]
    for name in "a.ark", "b.ark:5", "| c", "d |", "e[0:1]", "ark:f", " g ":
        path = tmp_path / name
        assert kaldiio.save_mat(path, value) == path.stat().st_size
        assert same(kaldiio.load_mat(path), value)
        kaldiio.save_ark(path, {"k": value})
        assert same(dict(kaldiio.load_ark(path))["k"], value)
        assert same(dict(torchaudio_kaldi_io.read_mat_ark(path))["k"], value)
    with io_ark.writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp") as writer:
        writer["k"] = value
    assert same(dict(torchaudio_kaldi_io.read_mat_scp(tmp_path / "a.scp"))["k"], value)
    assert same(kaldiio.load_scp(tmp_path / "a.scp")["k"], value)


def test_tables_of_servers_are_read(tmp_path: Path) -> None:
    with range_server(tmp_path) as server:
        write_table("matrix", f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", {"a": MATRIX, "b": 2 * MATRIX})
        np.testing.assert_array_equal(dict(kaldiio.load_ark(f"{server.url}/a.ark"))["b"], 2 * MATRIX)
        np.testing.assert_array_equal(kaldi_io.read_mat(f"{server.url}/a.ark:2"), MATRIX)


DOORS: list[Callable[..., object]] = [
    lambda at, **no: kaldiio.load_mat(at.source, **no),
    lambda at, **no: list(kaldiio.load_ark(at.source, **no)),
    lambda at, **no: kaldiio.load_scp(at.source, **no),
    lambda at, **no: kaldiio.load_scp(str(at.script), **no)["a"],
    lambda at, **no: kaldiio.load_scp(str(at.script), segments=str(at.segments), **no)["s"],
    lambda at, **no: list(kaldiio.load_scp_sequential(str(at.script), **no)),
    lambda at, **no: list(kaldiio.load_scp_sequential(str(at.script), segments=str(at.segments), **no)),
    lambda at, **no: kaldiio.load_wav_scp(str(at.script), **no)["a"],
    lambda at, **no: kaldiio.save_ark(at.out, {"a": MATRIX}, **no),
    lambda at, **no: kaldiio.save_ark(f"{at.script.parent}/a", {"a": MATRIX}, scp=at.out, **no),
    lambda at, **no: kaldiio.save_mat(at.out, MATRIX, **no),
    lambda at, **no: kaldiio.WriteHelper(f"ark:{at.out}", **no),
    lambda at, **no: list(kaldiio.ReadHelper(f"scp:{at.script}", **no)),
    lambda at, **no: list(kaldiio.ReadHelper(f"scp:{at.script}", str(at.segments), **no)),
    lambda at, **no: kaldiio.open_like_kaldi(at.source, **no),
    lambda at, **no: kaldiio.open_like_kaldi(at.out, "w", **no),
    lambda at, **no: kaldiio.matio.SegmentsExtractor(str(at.script), segments=str(at.segments), **no)["s"],
    lambda at, **no: kaldi_io.read_segments_as_bool_vec(at.source, **no),
    lambda at, **no: kaldi_io.open_or_fd(at.source, **no),
    lambda at, **no: kaldi_io.open_or_fd(at.out, "wb", **no),
    lambda at, **no: kaldi_io.read_mat(at.source, **no),
    lambda at, **no: kaldi_io.read_vec_flt(at.source, **no),
    lambda at, **no: kaldi_io.read_vec_int(at.source, **no),
    lambda at, **no: kaldi_io.read_post(at.source, **no),
    lambda at, **no: kaldi_io.read_cntime(at.source, **no),
    lambda at, **no: list(kaldi_io.read_post_rxspec(f"ark:{at.source}", **no)),
    lambda at, **no: list(kaldi_io.read_post_rxspec(f"scp:{at.script}", **no)),
    lambda at, **no: kaldi_io.write_mat(at.out, MATRIX, **no),
    lambda at, **no: kaldi_io.write_vec_flt(at.out, MATRIX[0], **no),
    lambda at, **no: kaldi_io.write_vec_int(at.out, np.array([1], np.int32), **no),
    lambda at, **no: functional.read_kaldi_mat(at.source, **no),
    lambda at, **no: functional.read_kaldi_vec(at.source, **no),
    lambda at, **no: inst.parse_scps(at.source, **no),
    lambda at, **no: kaldi_python_io.Reader(at.source, **no),
    lambda at, **no: kaldi_python_io.ScriptReader(at.source, **no),
    lambda at, **no: kaldi_python_io.ScriptReader(str(at.script), **no)["a"],
    lambda at, **no: kaldi_python_io.AlignScriptReader(str(at.script), **no)["a"],
    lambda at, **no: list(kaldi_python_io.ArchiveReader(at.source, **no)),
    lambda at, **no: list(kaldi_python_io.AlignArchiveReader(at.source, **no)),
    lambda at, **no: list(kaldi_python_io.Nnet3EgsReader(at.source, **no)),
    lambda at, **no: kaldi_python_io.ArchiveWriter(at.out, **no),
    lambda at, **no: kaldi_python_io.ArchiveWriter(f"{at.script.parent}/a", at.out, **no),
    lambda at, **no: kaldi_native_io.FloatMatrix.read(at.source, **no),
    lambda at, **no: kaldi_native_io.DoubleVector.read(at.source, **no),
    lambda at, **no: NATIVE.write(at.out, True, **no),
    lambda at, **no: kaldi_native_io.MatrixShape.read(at.source, **no),
    lambda at, **no: kaldi_native_io.read_int32_vector(at.source, **no),
    lambda at, **no: kaldi_native_io.read_int8_vector(at.source, **no),
    lambda at, **no: kaldi_native_io.read_blob(at.source, **no),
    lambda at, **no: kaldi_native_io.read_wave(at.source, **no),
    lambda at, **no: kaldi_native_io.read_wave_info(at.source, **no),
    lambda at, **no: kaldi_native_io.SequentialFloatMatrixReader(f"ark:{at.source}", **no),
    lambda at, **no: kaldi_native_io.SequentialFloatMatrixReader(f"scp:{at.script}", **no).value,
    lambda at, **no: kaldi_native_io.RandomAccessFloatMatrixReader(f"ark:{at.source}", **no)["a"],
    lambda at, **no: kaldi_native_io.FloatMatrixWriter(f"ark:{at.out}", **no),
]
for library in kaldi_io, torchaudio_kaldi_io:
    for name in dir(library):
        read: Any = getattr(library, name)
        if name.startswith("read_") and name.endswith(("_ark", "_scp")):
            DOORS.append(lambda at, read=read, **no: list(read(at.source, **no)))
        if name.startswith("read_") and name.endswith("_scp"):
            DOORS.append(lambda at, read=read, **no: list(read(str(at.script), **no)))
            DOORS.append(lambda at, read=read, **no: list(read(at.script.open("rb"), **no)))


@pytest.mark.parametrize("refusal", REFUSALS)
def test_stand_ins_refuse_commands_and_urls(
    refusal: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refused(DOORS, refusal, tmp_path, monkeypatch)


def test_stand_ins_permit_commands_and_urls_by_default() -> None:
    modules = kaldi_io, torchaudio_kaldi_io, kaldiio.matio, kaldiio.highlevel, kaldi_native_io, functional, inst
    owners = [*modules, *(value for module in modules for value in vars(module).values() if inspect.isclass(value))]
    functions = {value for owner in owners for value in vars(owner).values() if inspect.isfunction(value)}
    checked = 0
    for function in functions:
        if function.__module__.startswith("kaldi_standins."):
            parameters = inspect.signature(function).parameters
            defaults = [parameters[name].default for name in ("pipes", "network") if name in parameters]
            assert all(default in (True, inspect.Parameter.empty) for default in defaults), function
            checked += len(defaults)
    assert checked > 80


def test_stand_ins_run_commands_by_default(tmp_path: Path) -> None:
    made, script, segments = (tmp_path / name for name in ("made", "a.scp", "segments"))
    at = Names(f"touch {made} |", f"| touch {made}", script, segments)
    script.write_text(f"a touch {made} |\n")
    segments.write_text("s a 0 1\n")
    for number, door in enumerate(DOORS):
        with suppress(ArkError):  # The command has no output.
            opened = door(at)
            if hasattr(opened, "close"):
                opened.close()
        assert made.exists(), (number, door)
        made.unlink()


def test_no_door_to_a_script_file_reaches_a_private_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_private_addresses(DOORS, 16, tmp_path, monkeypatch)


def file_object(file: Any) -> Any:
    return lambda key: kaldi_io.write_mat(file, MATRIX, key), file.close


TWO_WRITERS = {
    **WRITERS,
    "kaldiio.WriteHelper, script": lambda name: table(kaldiio.WriteHelper(f"ark,scp:{name},{name}.scp")),
    "kaldi_native_io": lambda name: table(kaldi_native_io.FloatMatrixWriter(f"ark:{name}")),
    "kaldi_io.open_or_fd": lambda name: file_object(kaldi_io.open_or_fd(name, "wb")),
    "kaldiio.open_like_kaldi": lambda name: file_object(kaldiio.open_like_kaldi(name, "wb")),
}


@pytest.mark.parametrize(
    ("first", "second"),
    [(first, second) for first in TWO_WRITERS for second in TWO_WRITERS if not {first, second} <= set(WRITERS)],
)
def test_older_writer_of_a_file_does_not_write_over_the_newer(first: str, second: str, folder: Path) -> None:
    check_two_writers(TWO_WRITERS[first], TWO_WRITERS[second], with_script="script" in second)


def test_appending_breaks_the_older_writer_and_is_not_cut_off_by_it(folder: Path) -> None:
    kaldiio.save_ark("o.ark", {"a": MATRIX})
    first = io_ark.writer("o.ark")
    first["lost"] = MATRIX
    kaldiio.save_ark("o.ark", {"b": MATRIX}, append=True)
    with pytest.raises(WriteError, match=AGAIN):
        first.close()
    appending = kaldiio.open_like_kaldi("o.ark", "ab")
    kaldiio.save_ark("o.ark", {"c": MATRIX}, append=True)
    del appending
    assert list(dict(io_ark.read("o.ark"))) == ["b", "c"]


def native(reader: Any) -> Step:
    taken = [""]

    def step() -> str | None:
        if taken[0] and not reader.done and reader.key == taken[0]:
            reader.next()
        if reader.done:
            return None
        taken[0] = reader.key
        return taken[0]

    return step


READERS: dict[str, Callable[[], Step]] = {
    "kaldi_native_io": lambda: native(kaldi_native_io.SequentialFloatMatrixReader("ark:t.ark")),
    "kaldi_native_io, iterated": lambda: same_iterator(kaldi_native_io.SequentialFloatMatrixReader("ark:t.ark")),
    "kaldi_native_io, script": lambda: native(kaldi_native_io.SequentialFloatMatrixReader("scp:t.scp")),
    "kaldiio.load_ark": lambda: same_iterator(kaldiio.load_ark("t.ark")),
    "kaldiio.load_scp_sequential": lambda: same_iterator(kaldiio.load_scp_sequential("t.scp")),
    "kaldiio.ReadHelper": lambda: new_iterators(kaldiio.ReadHelper("ark:t.ark")),
    "kaldi_io.read_mat_ark": lambda: same_iterator(kaldi_io.read_mat_ark("t.ark")),
    "kaldi_io.read_mat_scp": lambda: same_iterator(kaldi_io.read_mat_scp("t.scp")),
    "torchaudio": lambda: same_iterator(torchaudio_kaldi_io.read_mat_ark("t.ark")),
}


@pytest.mark.parametrize("way", READERS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupted_reader_does_not_end_early(way: str, folder: Path) -> None:
    write_entries()
    helper = __import__(kaldiio.ReadHelper.__module__, fromlist=["ReadHelper"])
    modules = kaldi_io, torchaudio_kaldi_io, kaldiio.matio, helper, kaldi_native_io.tables
    outcomes = outcomes_of(READERS[way], OWN | {module.__file__ for module in modules})
    assert {"refused"} <= outcomes <= {"whole", "refused"}


def test_reader_whose_next_failed_has_no_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> Iterator[Any]:
        yield "utt00", np.zeros((1, 1), np.float32)
        raise KeyboardInterrupt

    write_entries()
    monkeypatch.setattr(readers, "read_archive", damaged)
    with kaldi_native_io.SequentialFloatMatrixReader("ark:t.ark") as reader:
        with pytest.raises(KeyboardInterrupt):
            reader.next()
        for ask in lambda: reader.done, lambda: reader.key, lambda: reader.value, reader.next:
            with pytest.raises(kaldi_native_io.TableError, match="interrupted"):
                ask()


def by_helper() -> None:
    with kaldiio.WriteHelper("ark,scp:o.ark,o.scp") as writer:
        for key in MANY:
            writer(key, matrix(key))


def by_save_ark() -> None:
    kaldiio.save_ark("o.ark", {key: matrix(key) for key in MANY}, scp="o.scp")


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize("buffer", [24, 60])
@pytest.mark.parametrize("write", [by_helper, by_save_ark])
def test_script_file_on_a_full_disk_names_whole_entries_only(
    write: Callable[[], None], buffer: int, error: OSError, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_script_file(write, FullDisk(monkeypatch, buffer), error)
