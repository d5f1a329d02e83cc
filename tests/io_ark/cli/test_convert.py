"""``ark convert`` writes what the other libraries read, and reads what they write."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

import io_ark
from io_ark import numpy_files
from io_ark.cli import convert, formats
from io_ark.cli.ark import main
from io_ark.cli.formats import FORMATS, Settings, find_format
from io_ark.streams.unfinished import choose_temporary_name, put_in_place
from tests.support.ark_program import Ark
from tests.support.dump_data import left_by_a_dead_process
from tests.support.faults import at_call
from tests.support.processes import memory_below

PROGRAM = [sys.executable, "-c", "from io_ark.cli.ark import main; raise SystemExit(main())"]
WHOLE = ("npz", "hdf5", "parquet", "csv", "safetensors", "tar")  # of which nothing remains if they are not finished
FEATS = {
    key: np.random.default_rng(i).normal(size=(5 + i, 4)).astype("f4") for i, key in enumerate(["b.1", "a/2", "ü%"])
}
NEEDED = {"hdf5": "h5py", "parquet": "pyarrow", "lhotse": "lhotse"}
TARGETS = {
    "npz": "o.npz",
    "npy": "o/",
    "hdf5": "o.h5",
    "parquet": "o.parquet",
    "csv": "o.csv",
    "tar": "o.tar",
    "safetensors": "o.safetensors",
    "lhotse": "o.jsonl.gz",
}


@pytest.fixture(autouse=True)
def table(ark: Ark) -> None:
    kaldiio.save_ark("feats.ark", FEATS, scp="feats.scp")


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray] = FEATS) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)


@pytest.fixture(params=sorted(FORMATS))
def target(request: pytest.FixtureRequest) -> str:
    """A name that ends as a format's names do."""
    pytest.importorskip(NEEDED.get(request.param, "numpy"))
    return TARGETS[request.param]


def test_table_survives_the_way_there_and_back(target: str, ark: Ark) -> None:
    ark(f"convert feats.scp {target}")
    ark(f"convert {target} back.scp")
    same(dict(io_ark.load_scp("back.scp")))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("feats.ark", "feats.ark"),
        ("feats.ark", "./sub/../feats.ark"),
        ("feats.ark", "link.ark"),
        ("feats.ark", "ark,scp:o.ark,feats.ark"),
        ("feats.scp", "feats.scp"),
        ("feats.scp", "feats.ark"),
        ("feats.ark", "feats.scp"),
        ("scp:feats.scp", "ark:hard.ark"),
        ("long.scp", "feats.ark"),
        ("o.npz", "o.npz"),
        ("o/", "o"),
    ],
)
def test_source_is_not_overwritten(source: str, target: str, ark: Ark) -> None:
    Path("sub").mkdir()
    Path("link.ark").symlink_to("feats.ark")
    os.link("feats.ark", "hard.ark")
    lines = Path("feats.scp").read_text()
    Path("long.scp").write_text("".join(f"k{i} other.ark:{i}\n" for i in range(2000)) + lines)
    ark("convert feats.ark o.npz")
    ark("convert feats.ark o/")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    said = ark(f"convert {'--to=npy' if target == 'o' else '--no-pipes'} {source} {target}", 2).err
    assert "is read as well, and writing would destroy it" in said
    assert before == {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", ["csv", "npz", "parquet", "tar", "safetensors"])
def test_full_disk_is_an_error_of_the_target(name: str, ark: Ark) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    assert ark(f"convert --to {name} feats.ark /dev/full", 2).err == (
        "ark: /dev/full: cannot be written to: No space left on device\n"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("name", ["csv", "npz", "parquet", "tar", "safetensors"])
def test_fifo_is_written_to_once(name: str, ark: Ark) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    os.mkfifo("fifo")
    with subprocess.Popen(["timeout", "60", "cat", "fifo"], stdout=subprocess.PIPE) as reader:
        said = subprocess.run(
            [*PROGRAM, "convert", "--to", name, "feats.ark", "fifo"],
            capture_output=True, text=True, timeout=60, check=False,
        ).stderr  # fmt: skip
        data = reader.communicate()[0]
    assert said == "fifo: 3 entries, 0 failed\n"
    Path("copy").write_bytes(data)
    ark(f"convert --from {name} copy back.ark")
    same(dict(io_ark.read("ark:back.ark")))


def test_hdf5_says_that_no_pipe_can_hold_it() -> None:
    pytest.importorskip("h5py")
    reading, writing = os.pipe()
    done = subprocess.run(
        [*PROGRAM, "convert", "--to", "hdf5", "feats.ark", "-"],
        stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writing)
    os.close(reading)
    assert (done.returncode, done.stderr) == (
        2, "ark: -: cannot be written to: the format needs a regular file, not a pipe: name a file\n"
    )  # fmt: skip


@pytest.mark.parametrize("name", ["csv", "npz"])
def test_closed_pipe_ends_the_program_without_a_message(name: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, "convert", "--to", name, "feats.ark", "-"],
        stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("key", ["k", "kk", "kkk"])
def test_data_of_safetensors_files_is_aligned(key: str, ark: Ark) -> None:
    np.savez("a.npz", **{key: np.arange(3.0)})
    ark("convert a.npz o.safetensors")
    assert int.from_bytes(Path("o.safetensors").read_bytes()[:8], "little") % 8 == 0


@pytest.mark.parametrize("kind", ["?", "u1", "<u8", ">f4", "<i8"])
@pytest.mark.parametrize("target", ["o.parquet", "o.h5", "o.safetensors", "o.tar"])
def test_arrays_of_numbers_keep_their_type(kind: str, target: str, ark: Ark) -> None:
    pytest.importorskip({"o.h5": "h5py", "o.parquet": "pyarrow"}.get(target, "numpy"))
    array = np.arange(6).reshape(2, 3).astype(kind)
    np.savez("a.npz", a=array)
    ark(f"convert a.npz {target}")
    ark(f"convert {target} b.npz")
    with np.load("b.npz") as back:
        assert back["a"].dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(back["a"], array)


@pytest.mark.parametrize("target", sorted({*TARGETS.values(), "o.ark"} - {"o.jsonl.gz", "o.csv"}))
@pytest.mark.parametrize("values", [["x", "yy"], [("x", 1.0)]])
def test_arrays_of_other_values_fail_alone(values: Any, target: str, ark: Ark) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip({"o.parquet": "pyarrow"}.get(target, "numpy"))
    kind = [("name", "S1"), ("value", "f4")] if isinstance(values[0], tuple) else h5py.string_dtype()
    with h5py.File("a.h5", "w", track_order=True) as file:
        file.create_dataset("a", data=np.array(values, kind))
        file["b"] = np.arange(3.0)
    said = ark(f"convert a.h5 {target}", 1).err
    assert re.search("^ark: a.h5: a: is an array of .*, not of numbers: remove the entry from the source\n", said)
    assert said.endswith(f"{target}: 1 entry, 1 failed\n")


@pytest.mark.parametrize("target", ["o.parquet", "o.csv", "o.safetensors"])
def test_numbers_that_a_format_lacks_fail_alone(target: str, ark: Ark) -> None:
    pytest.importorskip({"o.parquet": "pyarrow"}.get(target, "numpy"))
    np.savez("a.npz", a=np.array([1j]), b=np.arange(3.0))
    said = ark(f"convert a.npz {target}", 1).err
    assert said.startswith("ark: a.npz: a: ") and said.endswith(f"{target}: 1 entry, 1 failed\n")


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs a device")
def test_device_is_no_source_of_files(ark: Ark) -> None:
    assert ark("convert --from csv /dev/null o.ark", 2).err == (
        "ark: /dev/null: is not a regular file: copy its data to a file first\n"
    )


def test_target_is_opened_after_the_first_entry_was_read(ark: Ark) -> None:
    Path("old.npz").write_bytes(b"old")
    Path("empty.ark").touch()
    assert "empty.ark: has no entries to convert" in ark("convert empty.ark old.npz", 2).err
    for source in "none.ark", "'false |'":
        ark(f"convert {source} old.npz", 2)
    assert Path("old.npz").read_bytes() == b"old"
    said = ark("convert feats.ark none/x.npz", 2).err
    assert said == "ark: none/x.npz: cannot be written to: No such file or directory\n"
    ark("convert --no-pipes feats.ark 'ark:| touch made'", 2)
    assert not Path("made").exists()


def test_key_that_is_not_utf8_fails_alone(target: str, ark: Ark) -> None:
    Path("odd.ark").write_bytes(Path("feats.ark").read_bytes().replace("ü%".encode(), b"\xffx"))
    assert "the key is not UTF-8" in ark(f"convert odd.ark {target}", 1).err
    ark(f"convert {target} back.ark")
    assert set(dict(io_ark.read("ark:back.ark"))) == {"b.1", "a/2"}


@pytest.mark.parametrize(("source", "target"), [("one.npy", "o.ark"), ("feats.scp", "o.npy")])
def test_single_npy_file_is_refused_with_advice(source: str, target: str, ark: Ark) -> None:
    np.save("one.npy", np.eye(2))
    assert "name a folder of .npy files (x/), or a .npz file" in ark(f"convert {source} {target}", status=2).err
    assert not Path(target).exists()


@pytest.mark.parametrize("target", ["o.npz", "o.csv", "o.ark", "o/"])
def test_single_array_without_a_key_is_refused_with_advice(target: str, ark: Ark) -> None:
    io_ark.save("final.mat", np.eye(2, dtype=np.float32))
    advice = "is a single object without a key: load it in Python with io_ark.load, or write it to a table"
    assert ark(f"convert final.mat {target}", status=2).err == f"ark: final.mat: {advice}\n"
    assert not Path(target).exists()


def test_single_recording_is_refused_by_what_it_is(ark: Ark) -> None:
    io_ark.save("one.wav", io_ark.Wave(8000.0, np.ones((1, 8000), np.int16)))
    assert ark("convert one.wav o.npz", status=2).err.startswith("ark: one.wav: is not an array: audio 8000 Hz")


@pytest.mark.parametrize("name", ["o.pt", "o.pkl", "o.arrow", "o.mat", "o.ark.gz", "o.PT", "o.wav"])
def test_ending_of_an_unsupported_format_is_refused(name: str, ark: Ark) -> None:
    said = ark(f"convert feats.scp {name}", 2).err
    assert said.startswith(
        f"ark: {name}: ends in {name[name.rindex('.') :].lower()}, which is not a supported format: "
    )
    assert ".npz, " in said and ".safetensors" in said and "pass --to ark" in said
    assert not Path(name).exists()
    ark(f"convert --to ark feats.scp {name}")
    same(dict(io_ark.read(f"ark:{name}")))


@pytest.mark.parametrize(("name", "program"), [("o.gz", "gzip"), ("a b.bz2", "bzip2"), ("o'.xz", "xz")])
def test_advice_for_a_compressed_archive_is_a_command_that_writes_it(name: str, program: str, ark: Ark) -> None:
    said = ark(f"convert feats.scp {shlex.quote(name)}", 2).err
    assert f"ark:| {program} -c > " in said
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    ark(f"convert feats.scp {said[said.index('write ') + 6 : said.index(' for a compressed')]}")
    opened = {"gz": gzip, "bz2": bz2, "xz": lzma}[name.rpartition(".")[2]].open(name)
    with opened as file:
        assert file.read() == Path("feats.ark").read_bytes()


@pytest.mark.parametrize("name", ["o", "o.txt", "o.new", "ark:o.pt", "ark:o.npz", "'| cat > o.npz'", "ark:o.json"])
def test_names_without_a_known_ending_and_specifiers_are_tables(name: str, ark: Ark) -> None:
    ark(f"convert feats.scp {name}")
    same(dict(io_ark.read(f"ark:{name.strip(chr(39)).removeprefix('ark:').removeprefix('| cat > ')}")))


def test_ending_in_capital_letters_is_the_same_format(ark: Ark) -> None:
    ark("convert feats.scp O.NPZ")
    assert zipfile.is_zipfile("O.NPZ")


def test_folder_without_a_slash_gets_advice(ark: Ark) -> None:
    Path("d").mkdir()
    Path("d/wav.scp").touch()
    advice = "ark: d: is a folder, not a file: write d/ for a folder of .npy files, or name a file such as d/wav.scp\n"
    assert ark("convert d o.npz", 2).err == ark("convert feats.scp d", 2).err == advice
    folder = Path("d").absolute()
    assert f": write {folder}/ for a folder of .npy files, or name a file such as {folder}/wav.scp\n" in (
        ark(f"convert {folder} o.npz", 2).err
    )
    assert ark("convert d/ o.npz", 2).err == (
        "ark: d/: has no .npy files: name a file in the folder, such as feats.scp\n"
    )


def test_empty_names_are_the_standard_streams(ark: Ark) -> None:
    def convert_data(*names: str) -> bytes:
        data = Path("feats.ark").read_bytes()
        return subprocess.run([*PROGRAM, "convert", *names], input=data, capture_output=True, check=True).stdout

    assert convert_data("", "o.npz") == b"" and Path("o.npz").exists()
    assert convert_data("feats.ark", "") == Path("feats.ark").read_bytes()
    Path("o.csv").write_bytes(convert_data("feats.ark", "", "--to", "csv"))
    same(dict(FORMATS["csv"].iterate_entries(Path("o.csv"))))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("name", [name for name in WHOLE if name != "hdf5"])
def test_no_file_is_written_beside_standard_output(name: str, ark: Ark) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    command = [*PROGRAM, "convert", "feats.ark", "/proc/self/fd/1", "--to", name]
    Path("out").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    same(dict(FORMATS[name].iterate_entries(Path("out"))))


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs a device")
@pytest.mark.parametrize("name", ["npz", "csv", "safetensors", "tar", "parquet"])
def test_files_are_written_to_a_device(name: str, ark: Ark) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    assert ark(f"convert feats.ark /dev/null --to {name}").err == "/dev/null: 3 entries, 0 failed\n"


def test_urls_are_no_source_of_other_formats(ark: Ark) -> None:
    assert ark("convert http://127.0.0.1/o.npz o.ark", 2).err == (
        "ark: http://127.0.0.1/o.npz: is a URL, but URLs are read only as Kaldi tables: download the file first\n"
    )


def test_nothing_is_written_if_all_entries_fail(target: str, ark: Ark) -> None:
    Path("text").write_text("u1 a b\nu2 c d\n")
    old = set(Path().iterdir())
    said = ark(f"convert text {target}", 2).err.splitlines()
    assert said[0].endswith("only numbers; keep the entry in a Kaldi table such as ark,t:FILE")
    assert said[2:] == ["ark: text: no entry could be converted: nothing was written"]
    assert set(Path().iterdir()) == old


@pytest.mark.parametrize(
    "wspecifier", ["feats.ark", "ark,t:feats.ark", "ark,scp:feats.ark,o.scp", "'| cat > feats.ark'"]
)
@pytest.mark.parametrize("source", ["away.scp", "text", "masks.npz"])
def test_a_table_keeps_its_entries_if_all_others_fail(source: str, wspecifier: str, ark: Ark) -> None:
    Path("away.scp").write_text("b.1 away/feats.ark:4\n")  # As if another folder were the working directory.
    Path("text").write_text("u1 a b\n")
    np.savez("masks.npz", u1=np.ones(2, bool))
    old = Path("feats.ark").read_bytes()
    errors = ark(f"convert {source} {wspecifier}", 2).err.splitlines()
    assert errors[1:] == [f"ark: {source}: no entry could be converted: nothing was written"]
    assert Path("feats.ark").read_bytes() == old and not Path("o.scp").exists()


def test_an_invalid_script_file_of_targets_is_one_error(ark: Ark) -> None:
    errors = ark("convert feats.ark 'scp:echo run >> runs; echo b.1 |'", 2).err
    assert errors.endswith("|: line 1 has a key ('b.1') without a value: add the value\n") and errors.count("\n") == 1
    assert Path("runs").read_text() == "run\n"


def test_a_table_is_opened_once_after_entries_that_fail(ark: Ark) -> None:
    np.savez("mixed.npz", u1=np.ones(2, bool), **{"b.1": FEATS["b.1"]}, u2=np.ones(2, bool), u3=FEATS["a/2"])
    Path("o.scp").write_text("b.1 b.mat\nu3 u3.mat\n")
    targets = ["o.ark", "ark,t:o.txt", "ark,scp:p.ark,p.scp", "'| echo run >> runs; cat > q.ark'", "scp:o.scp"]
    for target in targets:
        assert ark(f"convert mixed.npz {target}", 1).err.endswith(": 2 entries, 2 failed\n")
    assert Path("runs").read_text() == "run\n"
    expected = {"b.1": FEATS["b.1"], "u3": FEATS["a/2"]}
    for rspecifier in ["ark:o.ark", "ark:p.ark", "scp:p.scp", "ark:q.ark", "scp:o.scp"]:
        same(dict(io_ark.read(rspecifier)), expected)
    assert Path("o.txt").read_text().startswith("b.1  [\n")


def test_the_first_entry_is_written_with_the_options_of_the_table(ark: Ark) -> None:
    np.savez("nan.npz", u1=np.full((1, 2), np.nan, "f4"))
    ark("convert --compress nan.npz ark,t:o.txt")  # Text is never compressed, so it can store NaN.
    assert Path("o.txt").read_text() == "u1  [\n  nan nan ]\n"
    ark("convert feats.ark o.ark")
    assert "a matrix with NaN cannot be compressed" in ark("convert --compress nan.npz o.ark", 2).err
    same(dict(io_ark.read("ark:o.ark")))
    ark("convert --compress feats.ark c.ark")
    assert Path("c.ark").read_bytes().startswith(b"b.1 \0BCM")


def test_numbers_that_no_reader_of_text_accepts_fail(ark: Ark) -> None:
    negative = np.array([[np.nan, 1]], np.float32)
    negative.view(np.uint32)[0, 0] |= 1 << 31
    arrays = {
        "infinite": np.array([[-np.inf, 1]], np.float32),
        "nan": negative,
        "vector": np.array([1, -np.inf]),
        "number": np.array(np.inf),
        "readable": np.array([[np.inf, np.nan, -0.0]], np.float32),
    }
    np.savez("odd.npz", **arrays)
    said = ark("convert odd.npz ark,t:odd.txt", 1)[1].splitlines()
    assert said[0] == (
        "ark: odd.npz: infinite: has the number -inf, which no reader of text accepts: choose a binary archive such as "
        "ark:FILE"
    )
    assert [line.split()[2] for line in said[:-1]] == ["infinite:", "nan:", "vector:", "number:"]
    np.testing.assert_array_equal(dict(io_ark.read("ark:odd.txt"))["readable"], arrays["readable"])
    ark("convert odd.npz ark:odd.ark")


@pytest.mark.parametrize("target", ["o.npz", "o.ark"])
def test_an_entry_whose_file_or_command_fails_is_one_failed_entry(target: str, ark: Ark) -> None:
    lines = Path("feats.scp").read_text().splitlines(keepends=True)
    Path("holes.scp").write_text("".join(["u1 nosuch.ark:3\n", *lines, "u2 exit 3 |\n"]))
    errors = ark(f"convert holes.scp {target}", 1).err
    assert "nosuch.ark: u1: cannot be opened: No such file" in errors and "exit 3 |: u2: the command" in errors
    assert errors.endswith(f"{target}: 3 entries, 2 failed\n")


@pytest.mark.parametrize("target", ["s3://bucket/o.h5", "s3://bucket/o/", "http://host/o.jsonl", "http://host/o.json"])
def test_urls_are_no_target_of_other_formats(target: str, ark: Ark) -> None:
    assert ark(f"convert feats.scp {target}", 2).err == (
        f"ark: {target}: is a URL, but the target must be a file: upload the file after the conversion\n"
    )
    assert not Path("s3:").exists() and not Path("http:").exists()


@pytest.mark.parametrize("target", ["./", "../folder/", "/"])
def test_the_root_and_the_working_directory_are_not_replaced(
    target: str, ark: Ark, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("folder").mkdir()
    monkeypatch.chdir("folder")
    assert "working directory cannot be replaced: choose another folder" in ark(f"convert ../feats.ark {target}", 2).err
    assert os.path.samefile("../folder", ".") and not list(Path().iterdir())


def test_vectors_are_no_lhotse_manifest(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    with io_ark.writer("ark:v.ark") as writer:
        writer["u1"] = np.ones(3, np.float32)
    assert ark("convert v.ark o.jsonl", 2).err == (
        "ark: o.jsonl: u1: is not a matrix: lhotse stores only matrices\n"
        "ark: v.ark: no entry could be converted: nothing was written\n"
    )
    assert not list(Path().glob("*o*.jsonl")) and not list(Path().glob("*_storage"))


def test_row_group_of_a_parquet_file_has_limited_bytes(monkeypatch: pytest.MonkeyPatch, ark: Ark) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(formats, "PARQUET_BYTES", 100)
    ark("convert feats.ark o.parquet")
    assert parquet.ParquetFile("o.parquet").metadata.num_row_groups == 2  # 80 + 96 bytes, and 112 bytes.
    ark("convert o.parquet back.ark")
    same(dict(io_ark.read("ark:back.ark")))


def test_row_group_of_a_parquet_file_fills_the_memory(monkeypatch: pytest.MonkeyPatch, ark: Ark) -> None:
    pytest.importorskip("pyarrow")
    io_ark.save("m", np.ones((3000, 80), np.float32), kind="matrix")
    Path("one.scp").write_text("a m\n")
    ark("convert one.scp o.parquet")
    monkeypatch.setattr(numpy_files, "MAX_UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr(numpy_files, "MAX_UNPACKED_RATIO", 1)
    assert "row group 0: an array of " in ark("convert o.parquet back.ark", 2).err


def test_row_group_of_a_parquet_file_has_up_to_64_arrays(ark: Ark) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    np.savez("a.npz", **{f"k{i}": np.full(2, i, "f4") for i in range(130)}, wide=np.ones(2))
    said = "ark: a.npz: wide: is float64, not float32 as earlier: convert arrays of one type\n"
    assert said in ark("convert a.npz o.parquet", 1).err
    metadata = parquet.ParquetFile("o.parquet").metadata
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [64, 64, 2]
    ark("convert o.parquet back.npz")
    with np.load("back.npz") as back:
        assert {key: value.tolist() for key, value in back.items()} == {f"k{i}": [i, i] for i in range(130)}


def test_other_files_beside_arrays_are_no_entries(ark: Ark) -> None:
    ark("convert feats.ark o/")
    Path("o/notes.txt").write_text("mine")
    with tarfile.open("o.tar", "w") as archive:
        for name in sorted(path.name for path in Path("o").iterdir()):
            archive.add(f"o/{name}", f"train/{name}")
        archive.add("o", "of.npy", recursive=False)
    for source in "o/", "o.tar":
        ark(f"convert {source} back.ark")
        assert dict(io_ark.read("ark:back.ark")).keys() == FEATS.keys()


def test_entries_that_no_table_can_hold_fail_alone(ark: Ark) -> None:
    arrays = {"a b": np.eye(2), "cube": np.zeros((2, 2, 2)), "masks": np.ones(2, bool), "words": np.array(["x"])}
    np.savez("a.npz", **arrays, last=np.eye(2))
    errors = ark("convert a.npz o.ark", status=1).err
    assert "cube: Kaldi has no 3-dimensional arrays of float64" in errors and "1 entry, 4 failed" in errors
    assert [key for key, _ in io_ark.read("o.ark")] == ["last"]


def test_numpy_reads_the_npz_file() -> None:
    main(["convert", "feats.ark", "o.npz"])
    with np.load("o.npz") as loaded:
        same(dict(loaded))


def test_an_interrupt_while_hdf5_writes_is_raised_when_it_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    write, done = formats._FileForHdf5.write, []

    def interrupted(self: Any, data: Any) -> int:
        if not done:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(write(self, data))
        return done[-1]

    monkeypatch.setattr(formats._FileForHdf5, "write", interrupted)
    with pytest.raises(KeyboardInterrupt), FORMATS["hdf5"].open_writer(Path("o.h5"), Settings()) as write_array:
        for key in "ab":
            write_array(key, np.zeros((1000, 80)))
    assert len(done) > 1 and not h5py.h5f.get_obj_count(types=h5py.h5f.OBJ_FILE)
    assert not [name for name in os.listdir() if name.startswith("o.h5")]


def test_h5py_reads_the_hdf5_file() -> None:
    h5py = pytest.importorskip("h5py")
    main(["convert", "feats.ark", "o.h5"])
    with h5py.File("o.h5") as file:
        np.testing.assert_array_equal(file["b.1"], FEATS["b.1"])
        assert list(file) == ["b.1", "a%2F2", "ü%25"]  # in the order of the table


def test_groups_of_hdf5_are_read_once_each(ark: Ark) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("g.h5", "w") as file:
        file["anna/a/1"] = FEATS["b.1"]
        file["anna/2"] = FEATS["ü%"]
        file["anna/a/up"] = h5py.SoftLink("/anna")
        file["last"] = FEATS["b.1"]
    ark("convert g.h5 o.ark")
    same(dict(io_ark.read("ark:o.ark")), {"anna/2": FEATS["ü%"], "anna/a/1": FEATS["b.1"], "last": FEATS["b.1"]})
    with h5py.File("g.h5", "w") as file:
        file["anna/away"] = h5py.ExternalLink("other.h5", "x")
    assert "anna/away: is a link to another file" in ark("convert g.h5 o.ark", 2).err


def test_pyarrow_reads_the_parquet_file() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    main(["convert", "feats.ark", "o.parquet"])
    rows = parquet.read_table("o.parquet").to_pylist()
    same({row["key"]: np.float32(row["values"]).reshape(row["shape"]) for row in rows})


def test_parquet_file_is_not_larger_than_the_numbers(ark: Ark) -> None:
    rng = np.random.default_rng(0)
    kaldiio.save_ark("floats.ark", {f"k{i}": rng.normal(size=(99, 40)).astype("f4") for i in range(9)})
    kaldiio.save_ark("integers.ark", {f"k{i}": np.repeat(rng.integers(0, 99, 300), 9).astype("i4") for i in range(9)})
    pytest.importorskip("pyarrow")
    for name, limit in (("floats", 1.05), ("integers", 0.5)):
        ark(f"convert {name}.ark {name}.parquet")
        size = sum(array.nbytes for _, array in io_ark.read(f"ark:{name}.ark"))
        assert Path(f"{name}.parquet").stat().st_size < limit * size


def test_tar_file_has_a_sample_name_without_dots_as_webdataset_needs() -> None:
    main(["convert", "feats.ark", "o.tar"])
    with tarfile.open("o.tar") as archive:
        assert archive.getnames() == ["b%2E1.npy", "a%2F2.npy", "%C3%BC%25.npy"]
        file = archive.extractfile("b%2E1.npy")
        assert file is not None
        np.testing.assert_array_equal(np.load(io.BytesIO(file.read())), FEATS["b.1"])


def test_lhotse_reads_the_manifest() -> None:
    lhotse = pytest.importorskip("lhotse")
    main(["convert", "--frame-shift=20", "--sample-frequency=8000", "feats.ark", "o.jsonl.gz"])
    features = list(lhotse.load_manifest("o.jsonl.gz"))
    same({each.recording_id: each.load() for each in features})
    fields = {name: value for name, value in features[0].to_dict().items() if not name.startswith("storage_")}
    assert fields == {
        "type": "kaldi", "num_frames": 5, "num_features": 4, "frame_shift": 0.02, "sampling_rate": 8000, "start": 0,
        "duration": 0.1, "recording_id": "b.1", "channels": 0,
    }  # fmt: skip
    main(["convert", "--frame-shift=12.5", "feats.ark", "p.jsonl"])
    features = list(lhotse.load_manifest("p.jsonl"))
    assert [(each.sampling_rate, each.frame_shift) for each in features] == [(16000, 0.0125)] * 3
    assert [each.duration for each in features] == [0.0625, 0.075, 0.0875]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("room", [0, 100])
def test_full_disk_ends_in_a_line(name: str, room: int, capsys: pytest.CaptureFixture[str]) -> None:
    resource = pytest.importorskip("resource")
    pytest.importorskip(NEEDED.get(name, "numpy"))
    main(["convert", "feats.ark", TARGETS[name]])  # which imports what the format needs
    before = Path(TARGETS[name]).read_bytes() if name in WHOLE else b""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        status = main(["convert", "feats.ark", TARGETS[name]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 2
    assert re.search(f"^ark: {TARGETS[name]}: cannot be written to: ", capsys.readouterr().err, re.M)
    assert name not in WHOLE or Path(TARGETS[name]).read_bytes() == before
    assert not list(Path().glob("*.unfinished-*"))


def test_other_files_in_a_folder_of_entries_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert [main(["convert", "feats.ark", "o/"]) for _ in range(2)] == [0, 0]
    np.save("o/of_yesterday.npy", np.ones(3))
    assert main(["convert", "feats.ark", "o/"]) == 2
    assert "o: contains of_yesterday.npy, which is not an entry of the source" in capsys.readouterr().err


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("name", WHOLE)
def test_interrupted_file_does_not_appear(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))

    def interrupted(entries: Iterable[Any], _: str) -> Iterator[Any]:
        yield from islice(entries, count)
        raise KeyboardInterrupt

    monkeypatch.setattr(convert, "show_progress", interrupted)
    assert main(["convert", "feats.ark", TARGETS[name]]) == 130
    assert sorted(path.name for path in Path().iterdir()) == ["feats.ark", "feats.scp"]


def files_of(name: str) -> dict[str, bytes]:
    """Return the content of a target, a file or a folder."""
    path = Path(name)
    found = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    return {str(each): each.read_bytes() for each in found}


def killed_at(number: int, arguments: list[str]) -> bool:
    """Run ``ark`` in a forked child that is killed at a call; return False if it ended before that."""
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        at_call(number, lambda: os._exit(9))
        try:
            main(arguments)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["npy", "npz", "tar", "safetensors"])
def test_target_is_old_or_new_after_a_kill_at_any_call(name: str, ark: Ark) -> None:
    target = TARGETS[name]
    kaldiio.save_ark("new.ark", {key: 2 * value for key, value in FEATS.items()})
    ark(f"convert new.ark {target}")
    newer = files_of(target)
    ark(f"convert feats.ark {target}")
    older = files_of(target)
    number = 0
    while killed_at(number, ["convert", "new.ark", target]):
        left = list(Path().glob("*unfinished*"))
        is_gone = any(path.name.endswith("-replaced") for path in left)  # between two renames
        assert files_of(target) in (older, newer) or (is_gone and not files_of(target)), number
        ark(f"convert feats.ark {target}")
        assert files_of(target) == older and not list(Path().glob("*unfinished*")), number
        number += 1
    assert number > 10 and files_of(target) == newer


def test_folder_that_lost_its_name_gets_it_back(ark: Ark) -> None:
    ark("convert feats.ark o/")
    before = files_of("o")
    left = left_by_a_dead_process(Path("o"))
    Path("o").rename(f"{left}-replaced")
    kaldiio.save_ark("other.ark", {"other": np.ones((2, 2), "f4")})
    said = ark("convert other.ark o/", 2).err
    assert "removed 1 unfinished name" in said and "which is not an entry of the source" in said
    assert files_of("o") == before


def test_what_killed_conversions_left_is_removed_and_named(target: str, ark: Ark) -> None:
    path = Path(target)
    left_by_a_dead_process(path).write_text("half")
    folder = left_by_a_dead_process(path.with_name(f"{target}_storage") if "json" in target else path)
    (folder / "deeper").mkdir(parents=True)
    (folder / "deeper" / "a.npy").symlink_to(Path("feats.ark").absolute())
    said = ark(f"convert feats.ark {target}").err
    assert "unfinished" in said and "that killed conversions left" in said
    assert not list(Path().glob("*unfinished*"))
    same(dict(io_ark.read("ark:feats.ark")))


def test_files_of_a_running_conversion_are_left(ark: Ark) -> None:
    name = choose_temporary_name(Path("o.npz"))
    running = name.with_name(name.name.replace(f"-{os.getpid()}-", f"-{os.getppid()}-"))
    running.write_text("half")
    assert "removed" not in ark("convert feats.ark o.npz").err
    assert running.read_text() == "half"


def test_links_at_and_in_the_target_are_replaced(target: str, ark: Ark) -> None:
    ark(f"convert feats.ark {target}")
    folders = [path for path in (Path(target), *Path().glob(f"{target}_storage/*")) if path.is_dir()]
    links = [Path(target)] if not target.endswith("/") else []
    links += [path for folder in folders for path in folder.iterdir() if path.is_file()]
    for path in links:
        path.unlink()
        Path("mine").write_text("mine")
        path.symlink_to(Path("mine").absolute())
    ark(f"convert feats.ark {target}")
    assert Path("mine").read_text() == "mine" and not any(path.is_symlink() for path in links)
    ark(f"convert {target} back.ark")
    same(dict(io_ark.read("ark:back.ark")))


def test_folder_or_file_in_the_place_of_a_target_is_refused(target: str, ark: Ark) -> None:
    path = Path(target)
    if target.endswith("/"):
        path.write_text("mine")
    else:
        path.mkdir()
    before = path.read_bytes() if path.is_file() else []
    said = ark(f"convert --to={ {value: key for key, value in TARGETS.items()}[target] } feats.ark {path}", 2).err
    assert said.count("\n") == 1 and said.startswith(f"ark: {path}: {'is a folder' * path.is_dir()}")
    assert (path.read_bytes() if path.is_file() else list(path.iterdir())) == before
    assert not list(Path().glob("*unfinished*"))


def test_folder_with_other_files_is_left_as_it_is(ark: Ark) -> None:
    ark("convert feats.ark o/")
    for name in ("notes.txt", "sub/a.npy"):
        before = files_of("o")
        Path("o", name).parent.mkdir(exist_ok=True)
        Path("o", name).write_text("mine")
        assert f"o: contains {name.partition('/')[0]}, which is not an entry" in ark("convert feats.ark o/", 2).err
        assert Path("o", name).read_text() == "mine"
        Path("o", name).unlink()
        if "/" in name:
            Path("o", name).parent.rmdir()
        assert files_of("o") == before


def write_parquet(values: dict[str, float], name: str) -> None:
    """Write a file whose keys, unlike the keys of a Kaldi table, may be any text."""
    arrow = pytest.importorskip("pyarrow")
    columns = {"key": [*values], "shape": [[1, 1]] * len(values), "values": [[value] for value in values.values()]}
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), name)


@pytest.mark.parametrize("key", ["", "\0", "a\0b", "a\rb", "a\nb", "\x7f"])
def test_keys_that_files_would_change_fail_alone(key: str, target: str, ark: Ark) -> None:
    write_parquet({key: 1.0, "a": 2.0}, "keys.parquet")
    said = ark(f"convert keys.parquet {target}", 1).err
    assert f"keys.parquet: the key {key!a} is empty or has control characters: rename the key\n" in said
    ark(f"convert {target} back.ark")
    same(dict(io_ark.read("ark:back.ark")), {"a": np.full((1, 1), 2.0)})


@pytest.mark.parametrize("key", [".", "..", "../x", "-", "%2E", "ü" * 30])
def test_keys_that_are_paths_come_back(key: str, target: str, ark: Ark) -> None:
    kaldiio.save_ark("keys.ark", {key: FEATS["b.1"]})
    ark(f"convert keys.ark {target}")
    ark(f"convert {target} back.ark")
    same(dict(io_ark.read("ark:back.ark")), {key: FEATS["b.1"]})


@pytest.mark.parametrize("name", ["npy", "npz", "lhotse"])
def test_key_that_is_too_long_for_a_name_fails_alone(name: str, ark: Ark) -> None:
    pytest.importorskip(NEEDED.get(name, "numpy"))
    long = "ü" * 35000  # 70,000 bytes, as the length in a ZIP file counts bytes.
    kaldiio.save_ark("keys.ark", {long: FEATS["b.1"], "a": FEATS["b.1"]})
    errors = ark(f"convert keys.ark {TARGETS[name]}", 1).err
    assert re.match("ark: keys.ark: ü+.*: the key is too long for ", errors) and errors.endswith(
        ": 1 entry, 1 failed\n"
    )
    ark(f"convert {TARGETS[name]} back.ark")
    same(dict(io_ark.read("ark:back.ark")), {"a": FEATS["b.1"]})


def test_folder_that_cannot_be_read_does_not_count_as_empty(ark: Ark, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ark("convert --from npy feats.ark o.ark", 2).err == "ark: feats.ark: cannot be read: Not a directory\n"
    Path("private").mkdir()

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "private")

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    assert ark("convert private/ o.ark", 2).err == "ark: private: cannot be read: Permission denied\n"


def test_lhotse_manifests_do_not_share_arrays(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    os.mkfifo("fifo.jsonl")
    assert ark("convert feats.ark fifo.jsonl", 2).err == (
        "ark: fifo.jsonl: is not a regular file: choose another target for the manifest\n"
    )
    kaldiio.save_ark("other.ark", {key: 2 * value for key, value in FEATS.items()})
    ark("convert feats.ark o.train.jsonl.gz")
    ark("convert other.ark o.dev.jsonl.gz")
    ark("convert other.ark o.train.jsonl")
    ark("convert o.train.jsonl.gz back.ark")
    same(dict(io_ark.read("ark:back.ark")))
    Path("n.jsonl_storage").write_text("mine")
    assert "n.jsonl_storage: is not a folder" in ark("convert feats.ark n.jsonl", 2).err
    assert Path("n.jsonl_storage").read_text() == "mine"


def read_manifest(name: str) -> dict[str, np.ndarray]:
    """Return the arrays that a manifest of lhotse names, without lhotse."""
    lines = (gzip.open if name.endswith(".gz") else open)(name, "rt").read().splitlines()
    entries = list(map(json.loads, lines))
    return {each["recording_id"]: np.load(f"{each['storage_path']}/{each['storage_key']}") for each in entries}


def stored_arrays(name: str) -> set[str]:
    """Return the files in the folder of the arrays of a manifest, by their paths in the folder."""
    folder = Path(f"{name}_storage")
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def other_values(name: str = "new.ark") -> dict[str, np.ndarray]:
    """Write an archive: two keys of FEATS, of which one has other values, and a third key."""
    values = {"b.1": FEATS["b.1"], "a/2": 2 * FEATS["a/2"], "new": FEATS["b.1"]}
    kaldiio.save_ark(name, values)
    return values


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["o.jsonl", pytest.param("o.jsonl.gz", marks=pytest.mark.costly)])
def test_manifest_and_arrays_are_old_or_new_after_a_kill_at_any_call(name: str, ark: Ark) -> None:
    pytest.importorskip("lhotse")
    newer = other_values()
    ark(f"convert feats.ark {name}")
    number, count = 0, {"old": 0, "new": 0}
    while killed_at(number, ["convert", "new.ark", name]):
        found = read_manifest(name)
        count["new" if "new" in found else "old"] += 1
        same(found, newer if "new" in found else FEATS)
        ark(f"convert feats.ark {name}")
        same(read_manifest(name))
        assert len(stored_arrays(name)) == len(FEATS) and not list(Path().glob("*unfinished*")), number
        number += 1
    assert count["old"] > 10 and count["new"] > 2
    same(read_manifest(name), newer)
    assert len(stored_arrays(name)) == len(newer)


def test_interrupted_conversion_leaves_the_old_manifest_and_its_arrays(
    monkeypatch: pytest.MonkeyPatch, ark: Ark
) -> None:
    pytest.importorskip("lhotse")
    other_values()
    ark("convert feats.ark o.jsonl")
    before = stored_arrays("o.jsonl")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(formats, "put_in_place", interrupt)
    ark("convert new.ark o.jsonl", 130)
    same(read_manifest("o.jsonl"))
    assert stored_arrays("o.jsonl") == before
    ark("convert new.ark first.jsonl", 130)
    assert not list(Path().glob("*first*"))


@pytest.mark.parametrize("step", ["move_arrays", "put_in_place", pytest.param("kill", marks=pytest.mark.sweep)])
def test_failed_conversion_keeps_equal_arrays_that_another_manifest_names(
    step: str, monkeypatch: pytest.MonkeyPatch, ark: Ark
) -> None:
    pytest.importorskip("lhotse")
    newer = other_values()
    ark("convert feats.ark o.jsonl")
    before = stored_arrays("o.jsonl")
    Path("o.jsonl").rename("old.jsonl")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if step == "kill":
        number = 0
        while killed_at(number, ["convert", "new.ark", "o.jsonl"]):
            same(read_manifest("old.jsonl"))
            if Path("o.jsonl").exists():
                same(read_manifest("o.jsonl"), newer)
                Path("o.jsonl").rename("new.jsonl")
            # A source that cannot be stored: the conversion only removes what the killed conversion has left.
            Path("vector.ark").write_text("u  [ 1 2 ]\n")
            ark("convert vector.ark o.jsonl", 2)
            same(read_manifest("old.jsonl"))
            if Path("new.jsonl").exists():
                same(read_manifest("new.jsonl"), newer)
                Path("new.jsonl").rename("o.jsonl")
                ark("convert vector.ark o.jsonl", 2)
                Path("o.jsonl").unlink()
                shutil.rmtree("o.jsonl_storage")
                Path("old.jsonl").unlink()
                ark("convert feats.ark o.jsonl")
                Path("o.jsonl").rename("old.jsonl")
            assert stored_arrays("o.jsonl") == before and not list(Path().glob("*unfinished*")), number
            number += 1
        assert number > 10
        return
    monkeypatch.setattr(formats, step, interrupt)
    ark("convert new.ark o.jsonl", 130)
    assert stored_arrays("o.jsonl") == before
    same(read_manifest("old.jsonl"))


@pytest.mark.costly
def test_manifest_that_a_user_renames_after_a_kill_keeps_its_arrays(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    newer = other_values()
    number, kept = 0, {"old": 0, "new": 0}
    kaldiio.save_ark("third.ark", {"third": FEATS["b.1"]})
    ark("convert feats.ark o.jsonl")
    while killed_at(number, ["convert", "new.ark", "o.jsonl"]):
        expected = newer if "new" in read_manifest("o.jsonl") else FEATS
        kept["old" if expected is FEATS else "new"] += 1
        Path("o.jsonl").rename("renamed.jsonl")
        ark("convert third.ark o.jsonl")
        same(read_manifest("renamed.jsonl"), expected)
        assert len(stored_arrays("o.jsonl")) == len(expected) + 1
        ark("convert feats.ark o.jsonl")
        Path("renamed.jsonl").rename("o.jsonl")
        ark("convert feats.ark o.jsonl")
        number += 1
    assert min(kept.values()) > 2


def test_damaged_manifest_keeps_its_arrays_if_a_conversion_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, ark: Ark
) -> None:
    pytest.importorskip("lhotse")
    ark("convert feats.ark o.jsonl")
    before, lines = stored_arrays("o.jsonl"), Path("o.jsonl").read_text()
    Path("o.jsonl").write_text(f"# mine\n{lines}")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(formats, "put_in_place", interrupt)
    ark("convert feats.ark o.jsonl", 130)
    assert stored_arrays("o.jsonl") == before


def test_failed_conversion_keeps_arrays_of_a_conversion_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, ark: Ark
) -> None:
    pytest.importorskip("lhotse")

    def wait_for(name: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not Path(name).exists() and time.monotonic() < end:
            time.sleep(0.01)

    def put_late(*paths: Path) -> None:
        Path("second.moved").touch()
        wait_for("first.ended", 30)
        put_in_place(*paths)

    def interrupt(*_: object) -> None:
        Path("first.moved").touch()
        wait_for("second.moved", 1)
        raise KeyboardInterrupt

    if (second := os.fork()) == 0:
        try:
            monkeypatch.setattr(formats, "put_in_place", put_late)
            wait_for("first.moved", 30)
            main(["convert", "feats.ark", "o.jsonl"])
        finally:
            os._exit(0)
    monkeypatch.setattr(formats, "put_in_place", interrupt)
    ark("convert feats.ark o.jsonl", 130)
    Path("first.ended").touch()
    os.waitpid(second, 0)
    same(read_manifest("o.jsonl"))


def test_equal_arrays_keep_their_names_in_a_new_manifest(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    other_values()
    ark("convert feats.ark o.jsonl")
    before = stored_arrays("o.jsonl")
    ark("convert feats.ark o.jsonl")
    assert stored_arrays("o.jsonl") == before
    ark("convert new.ark o.jsonl")
    assert len(before & stored_arrays("o.jsonl")) == 1


def test_only_arrays_that_a_conversion_wrote_are_removed(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    other_values()
    ark("convert feats.ark o.jsonl")
    folder, digest = Path("o.jsonl_storage"), f"mine-{16 * '0'}.npy"
    others = [
        folder / "notes.txt",
        folder / "b%2" / "mine.npy",
        folder / "b%2" / digest,
        Path(digest),
        Path("a") / digest,
    ]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    line = json.loads(Path("o.jsonl").read_text().splitlines()[0])
    with open("o.jsonl", "a") as manifest:
        for key in ("notes.txt", "b%2/mine.npy", f"../{digest}", str(Path("a", digest).absolute()), f"../a/{digest}"):
            print(json.dumps({**line, "storage_key": key}), file=manifest)
        print(json.dumps({**line, "storage_path": "elsewhere", "storage_key": f"b%2/{digest}"}), file=manifest)
    ark("convert new.ark o.jsonl")
    assert all(path.read_text() == "mine" for path in others)
    assert len(stored_arrays("o.jsonl")) == 3 + 3


def test_links_in_the_place_of_folders_of_arrays_are_refused_and_kept(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    other_values()
    ark("convert feats.ark o.jsonl")
    Path("o.jsonl_storage").rename("disk")
    Path("o.jsonl_storage").symlink_to("disk")
    assert "o.jsonl_storage: is a link, but the arrays need a folder" in ark("convert new.ark o.jsonl", 2).err
    same(read_manifest("o.jsonl"))
    Path("o.jsonl_storage").unlink()
    Path("disk").rename("o.jsonl_storage")
    Path("o.jsonl_storage", "new").symlink_to(Path("o.jsonl_storage", "b%2"))
    assert "o.jsonl_storage/new: is a link" in ark("convert new.ark o.jsonl", 2).err
    same(read_manifest("o.jsonl"))
    assert len(stored_arrays("o.jsonl")) == len(FEATS)
    Path("o.jsonl_storage", "new").unlink()
    Path("o.jsonl_storage", "new").write_text("mine")
    for _ in range(2):
        assert "o.jsonl_storage/new: is not a folder" in ark("convert new.ark o.jsonl", 2).err
        assert Path("o.jsonl_storage", "new").read_text() == "mine" and not list(Path().glob("*unfinished*"))
    same(read_manifest("o.jsonl"))


def test_folder_with_the_name_of_an_obsolete_array_is_kept(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    other_values()
    ark("convert feats.ark o.jsonl")
    array = next(Path("o.jsonl_storage").glob("a*/*.npy"))
    array.unlink()
    Path(array, "mine").mkdir(parents=True)
    ark("convert new.ark o.jsonl")
    assert Path(array, "mine").is_dir() and len(stored_arrays("o.jsonl")) == 3
    folder = Path("o.jsonl_storage", "new")
    folder.rename("disk")
    folder.symlink_to(Path("disk").absolute())
    ark("convert feats.ark o.jsonl", 2)  # The folder in the place of an array is refused.
    array.with_suffix(".npy").joinpath("mine").rmdir()
    array.rmdir()
    ark("convert feats.ark o.jsonl")
    assert len(list(Path("disk").iterdir())) == 1


def test_temporary_folder_that_is_a_link_is_not_followed(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    ark("convert feats.ark o.jsonl")
    Path("mine").mkdir()
    Path("o.jsonl").rename("mine/o.jsonl")
    before = stored_arrays("o.jsonl")
    left_by_a_dead_process(Path("o.jsonl_storage")).symlink_to("mine")
    other_values()
    ark("convert new.ark o.jsonl")
    assert Path("mine/o.jsonl").exists() and before < stored_arrays("o.jsonl")


@pytest.mark.parametrize("place", ["a\\u0000b", "loop/x"])
def test_odd_places_in_a_manifest_of_the_source_are_refused_in_a_line(place: str, ark: Ark) -> None:
    pytest.importorskip("lhotse")
    Path("loop").symlink_to("loop")
    ark("convert feats.ark o.jsonl")
    Path("x.jsonl").write_text(Path("o.jsonl").read_text().replace("o.jsonl_storage", place))
    assert ark("convert x.jsonl p.jsonl", 2).err.startswith("ark: x.jsonl: ")
    Path("p.jsonl_storage").symlink_to("p.jsonl_storage")
    assert "p.jsonl_storage: is a link" in ark("convert o.jsonl p.jsonl", 2).err


def test_arrays_of_the_source_are_not_the_target(ark: Ark) -> None:
    lhotse = pytest.importorskip("lhotse")
    ark("convert feats.ark o.jsonl")
    cuts = [
        lhotse.MonoCut(each.recording_id, 0, each.duration, 0, features=each)
        for each in lhotse.load_manifest("o.jsonl")
    ]
    lhotse.CutSet.from_cuts(cuts).to_file("cuts.jsonl.gz")
    for source in ("cuts.jsonl.gz", "o.jsonl_storage/a%2/"):
        assert ark(f"convert {source} o.jsonl", 2).err == (
            "ark: o.jsonl_storage: the source has arrays in this folder: choose another target, because the conversion "
            "could remove the arrays\n"
        )
        same(read_manifest("o.jsonl"))
    ark("convert cuts.jsonl.gz p.jsonl")
    same(read_manifest("p.jsonl"))


def test_duplicate_key_fails_alone(target: str, ark: Ark) -> None:
    Path("twice.ark").write_bytes(2 * Path("feats.ark").read_bytes())
    assert ark(f"convert twice.ark {target}", 1).err.count("is a duplicate key") == 3
    ark(f"convert {target} back.ark")
    same(dict(io_ark.read("ark:back.ark")))


@pytest.mark.parametrize("line", ["garbage", '{"a": 1}', '{"a', '{"type": "x", "storage_type": "no such"}'])
def test_damaged_lhotse_manifests_are_refused_in_a_line(line: str, ark: Ark) -> None:
    pytest.importorskip("lhotse")
    Path("bad.jsonl").write_text(line)
    assert ark("convert bad.jsonl o.ark", 2).err.startswith("ark: bad.jsonl: cannot be read: ")
    Path("empty.jsonl").write_text("")
    assert (
        ark("convert empty.jsonl o.ark", 2).err == "ark: empty.jsonl: the manifest is empty: check the name of SOURCE\n"
    )


def test_other_lhotse_manifests_convert_or_say_what_they_are(ark: Ark) -> None:
    lhotse = pytest.importorskip("lhotse")
    ark("convert feats.ark o.jsonl.gz")
    features = list(lhotse.load_manifest("o.jsonl.gz"))
    cuts = [lhotse.MonoCut(f"cut-{each.recording_id}", 0, each.duration, 0, features=each) for each in features]
    lhotse.CutSet.from_cuts(cuts).to_file("cuts.jsonl.gz")
    ark("convert cuts.jsonl.gz back.ark")
    same(dict(io_ark.read("ark:back.ark")), {f"cut-{key}": value for key, value in FEATS.items()})
    recording = lhotse.Recording("r", [], 8000, 8000, 1.0)
    lhotse.CutSet.from_cuts([lhotse.MonoCut("c", 0, 1.0, 0, recording=recording)]).to_file("bare.jsonl")
    lhotse.RecordingSet.from_recordings([recording]).to_file("recordings.jsonl")
    for name, kind in ("bare", "MonoCut"), ("recordings", "Recording"):
        assert f"is a manifest of {kind} without features" in ark(f"convert {name}.jsonl o.ark", 2).err
    for each in features:
        each.recording_id = None
    lhotse.FeatureSet.from_features(features).to_file("nameless.jsonl")
    assert ark("convert nameless.jsonl o.ark", 2).err.count("without a recording_id") == 1


@pytest.mark.parametrize("what", ["features", "cut", "mixed cut"])
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("kaldiio", "touch made |"),
        ("kaldiio", "names.scp"),
        ("kaldiio", "http://127.0.0.1:1/a.ark:3"),
        ("lilcom_chunky", "pipe:touch made"),
        ("lilcom_chunky", "http://127.0.0.1:1/a"),
        ("lilcom_url", "http:"),
        ("numpy_files", "nosuch"),
    ],
)
def test_lhotse_manifests_run_no_command_and_open_no_url(kind: str, place: str, what: str, ark: Ark) -> None:
    lhotse = pytest.importorskip("lhotse")
    for name in "http:", "touch made |":  # maybe from the same stranger
        Path(name).mkdir()
    Path("names.scp").write_text("k touch made |\n")
    found: Any = lhotse.Features("f", 5, 3, 0.01, 16000, 0.0, 0.05, kind, place, "k", recording_id="r", channels=0)
    cut = lhotse.MonoCut("c", 0, 0.05, 0, features=found)
    if what != "features":
        lhotse.CutSet.from_cuts([cut if what == "cut" else cut.append(cut.with_id("d"))]).to_file("x.jsonl")
    else:
        lhotse.FeatureSet.from_features([found]).to_file("x.jsonl")
    assert "script files in a manifest are not opened" in ark("convert x.jsonl x.ark", 2).err
    assert not Path("made").exists()


def test_manifests_of_nemo_are_named_as_such(ark: Ark) -> None:
    Path("m.json").write_text('{"audio_filepath": "/a.wav", "duration": 1.0}\n')
    assert "a NeMo manifest is only written, not read" in ark("convert m.json o.ark", 2).err
    pytest.importorskip("lhotse")
    Path("m.json").rename("m.jsonl")
    assert ark("convert m.jsonl o.ark", 2).err == (
        "ark: m.jsonl: is a manifest of NeMo, which `ark convert` writes but does not read: name a table or a lhotse "
        "manifest\n"
    )


def test_lhotse_manifests_of_names_that_lhotse_cannot_read_are_not_written(ark: Ark) -> None:
    assert "must end in .jsonl or .jsonl.gz" in ark("convert --to=lhotse feats.ark manifest", 2).err
    assert not Path("manifest").exists()


def test_vectors_keep_their_type() -> None:
    with io_ark.writer("ark:ali.ark") as writer:
        writer["a"] = np.array([1, 2, 3], np.int32)
    assert main(["convert", "ali.ark", "o.npz"]) == main(["convert", "o.npz", "back.ark"]) == 0
    [(_, value)] = io_ark.read("ark:back.ark")
    assert value.dtype == np.int32 and value.tolist() == [1, 2, 3]


def test_entries_that_are_no_arrays_fail_alone(ark: Ark) -> None:
    Path("mixed.ark").write_bytes(b"spk anna\n" + Path("feats.ark").read_bytes())
    captured = ark("convert --json mixed.ark o.npz", 1)
    assert "spk: is not an array: token cannot be converted" in captured.err
    assert json.loads(captured.out) == {"source": "mixed.ark", "target": "o.npz", "converted": 3, "failed": 1}


def test_audio_is_refused_because_its_rate_would_be_lost(ark: Ark) -> None:
    with io_ark.writer("ark:wav.ark") as writer:
        writer["a"] = io_ark.Wave(8000.0, np.zeros((1, 10), np.int16))
    said = ark("convert wav.ark o.npz", 2).err
    assert "a: is not an array: audio 8000 Hz cannot be converted" in said and "only numbers; use wav-copy\n" in said


def test_pickles_are_not_loaded(ark: Ark) -> None:
    np.savez("evil.npz", a=np.array([{"x": 1}], dtype=object))
    said = ark("convert evil.npz o.ark", 2).err
    assert "evil.npz: a.npy: cannot be read as a .npy array: it has Python objects instead of numbers" in said


def bomb(name: str) -> None:
    """Make a small file of a large array, or of one that lies elsewhere."""
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"shape": (10**13,), "fortran_order": False, "descr": "<f4"})
    if name == "header.npz":
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("a.npy", huge.getvalue())
    elif name == "ratio.npz":
        np.savez_compressed(name, a=np.zeros(30_000_000, np.float32))
    elif name == "header.tar":
        with tarfile.open(name, "w") as archive:
            member = tarfile.TarInfo("a.npy")
            member.size = len(huge.getvalue())
            archive.addfile(member, io.BytesIO(huge.getvalue()))
    elif name == "ratio.parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        values = arrow.ListArray.from_arrays([0, 9_000_000], arrow.array(np.zeros(9_000_000, np.float32)))
        table = arrow.table({"key": ["a"], "shape": [[9_000_000]], "values": values})
        parquet.write_table(table, name)
    elif name == "header/":
        Path(name).mkdir()
        Path(name, "a.npy").write_bytes(huge.getvalue())
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(name, "w") as file:
            if name == "external.h5":
                file.create_dataset("a", (10,), "u1", external=[("/etc/passwd", 0, 10)])
            elif name == "link.h5":
                file["a"] = h5py.ExternalLink("other.h5", "/a")
            elif name == "soft.h5":
                file["c/b"], file["a"] = h5py.ExternalLink("other.h5", "/a"), h5py.SoftLink("/c/b")
            elif name == "chain.h5":
                file["c/b"] = h5py.ExternalLink("other.h5", "/")
                file["a"] = h5py.SoftLink("/c/b/a")
            elif name == "virtual.h5":
                layout = h5py.VirtualLayout((10,), "u1")
                layout[:] = h5py.VirtualSource("other.h5", "a", (10,))
                file.create_virtual_dataset("a", layout)
            else:
                file.create_dataset("a", (10**12,), "f4", chunks=(1000,))


BOMBS = "header.npz ratio.npz header.tar ratio.parquet header/ external.h5 link.h5 soft.h5 chain.h5 virtual.h5 fill.h5"


@pytest.mark.parametrize("name", BOMBS.split())
def test_small_file_neither_fills_the_memory_nor_names_other_files(name: str, ark: Ark) -> None:
    bomb(name)
    if name.endswith(".h5"):
        h5py = pytest.importorskip("h5py")
        with h5py.File("other.h5", "w") as file:
            file["a"] = np.arange(10)
    with memory_below(50e6):
        others = ark(f"convert {name} o.ark", 2).err.splitlines()[1:]
    assert others in ([], [f"ark: {name}: no entry could be converted: nothing was written"])
    assert not Path("o.ark").exists()


def test_soft_link_within_the_file_is_followed(ark: Ark) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("o.h5", "w") as file:
        file["a"], file["b"] = np.ones((2, 3), np.float32), h5py.SoftLink("/a")
    ark("convert o.h5 o.ark")
    assert {key: value.shape for key, value in io_ark.read("o.ark")} == {"a": (2, 3), "b": (2, 3)}


NULLS: dict[str, dict[str, Any]] = {
    "key": {"key": ["a", None], "shape": [[1], [1]], "values": [[1.0], [2.0]]},
    "shape": {"key": ["a", "b"], "shape": [[1], None], "values": [[1.0], [2.0]]},
    "length": {"key": ["a", "b"], "shape": [[1], [None]], "values": [[1.0], [2.0]]},
    "array": {"key": ["a", "b"], "shape": [[1], [1]], "values": [[1.0], None]},
    "value": {"key": ["a", "b"], "shape": [[1], [2]], "values": [[1], [2, None]]},
}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff" * 8, (2**40).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(60),
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}'.ljust(60) + b"12345678",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}'.ljust(60) + b"12345678",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}'.ljust(60) + b"12345678",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'.ljust(60) + b"12345678",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}'.ljust(60) + b"12345678",
    ],
)  # fmt: skip
def test_damaged_safetensors_file_is_an_error(content: bytes, ark: Ark) -> None:
    Path("d.safetensors").write_bytes(content)
    first, *others = ark("convert d.safetensors o.ark", 2).err.splitlines()
    has_entry = b'{"a":' in content
    assert first.startswith(f"ark: d.safetensors: {'a: ' * has_entry}cannot be read as a safetensors file: ")
    assert others == ["ark: d.safetensors: no entry could be converted: nothing was written"] * has_entry


def test_entry_of_another_type_in_a_safetensors_file_fails_alone(ark: Ark) -> None:
    entries = {name: {"dtype": kind, "shape": [1], "data_offsets": [0, 4]}
               for name, kind in (("a", "F32"), ("b", "F99"), ("c", "F32"))}  # fmt: skip
    header = json.dumps(entries).encode()
    Path("d.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + np.float32(2).tobytes())
    said = ark("convert d.safetensors o.ark", 1)
    assert "ark: d.safetensors: b: cannot be read" in said.err and "o.ark: 2 entries, 1 failed" in said.out + said.err
    assert {key: value.tolist() for key, value in io_ark.read("o.ark")} == {"a": [2], "c": [2]}


def test_safetensors_file_holds_no_metadata_as_an_entry(ark: Ark) -> None:
    with io_ark.writer("ark:m.ark") as writer:
        writer["__metadata__"] = writer["b"] = np.ones(3, np.float32)
    said = ark("convert m.ark m.safetensors", 1)
    assert "__metadata__: safetensors files reserve this key" in said.err and "1 failed" in said.out + said.err


def test_safetensors_reads_the_file_and_is_read() -> None:
    library = pytest.importorskip("safetensors.numpy")
    main(["convert", "feats.ark", "o.safetensors"])
    found = library.load_file("o.safetensors")
    expected = dict(io_ark.read("feats.ark"))
    assert found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in found)
    library.save_file(found, "theirs.safetensors", {"written": "by a test"})
    main(["convert", "theirs.safetensors", "back.ark"])
    assert all(np.array_equal(value, expected[key]) for key, value in io_ark.read("back.ark"))


@pytest.mark.parametrize("name", NULLS)
def test_null_in_a_parquet_file_is_an_error(name: str, ark: Ark) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(NULLS[name]), "n.parquet")
    if name == "key":
        assert ark("convert n.parquet o.ark", 2).err == "ark: n.parquet: has a row without a key: give each row a key\n"
        return
    said = ark("convert n.parquet o.ark", 1)
    place = (
        " in the column shape: write the shape of the array"
        if name in ("shape", "length")
        else ", which no array can hold"
    )
    assert f"ark: n.parquet: b: has a null value{place}" in said.err
    assert {key: value.tolist() for key, value in io_ark.read("o.ark")} == {"a": [1]}


def test_parquet_file_of_long_strings_and_lists_is_read(ark: Ark) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "key": arrow.array(["a"], arrow.large_string()),
        "shape": arrow.array([[2, 1]], arrow.large_list(arrow.int64())),
        "values": arrow.array([[1.0, 2.0]], arrow.large_list(arrow.float32())),
    }
    parquet.write_table(arrow.table(columns), "long.parquet")
    ark("convert long.parquet o.ark")
    np.testing.assert_equal(dict(io_ark.read("o.ark")), {"a": [[1], [2]]})


def test_parquet_file_of_other_values_is_an_error(ark: Ark) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    named = "n.parquet: has columns of the types "
    for columns, said in (
        ({"key": ["a"], "shape": [[3]], "values": [[1.0]]}, "n.parquet: a: cannot be read: cannot reshape"),
        ({"key": ["a"], "shape": ["3"], "values": [[1.0]]}, f"{named}string, string and list<"),
        ({"key": ["a"], "shape": [[1]], "values": [1.0]}, f"{named}string, list<"),
        ({"key": ["a"], "shape": [[1]], "values": [1.0]}, ": int64> and double: expected a string, a list of integers"),
        ({"key": [1], "shape": [[1]], "values": [[1.0]]}, f"{named}int64, list<"),
        ({"key": ["a"], "shape": [["1"]], "values": [[1.0]]}, "has lists of string as shapes and of double as values"),
        ({"key": ["a"], "shape": [[1]], "values": [["1"]]}, "has lists of int64 as shapes and of string as values"),
        ({"key": ["a"], "shape": [[1]]}, "lacks the columns key, shape and values"),
    ):
        parquet.write_table(arrow.table(columns), "n.parquet")
        error = ark("convert n.parquet o.ark", 2).err
        assert said in error and error.count("\n") == 1 + ("a: " in said)


@pytest.mark.parametrize("ending", ["npz", "h5", "parquet", "tar"])
def test_file_that_is_damaged_in_the_middle_gives_one_line(ending: str, ark: Ark) -> None:
    pytest.importorskip({"h5": "h5py", "parquet": "pyarrow"}.get(ending, "numpy"))
    table = {f"u{i}": np.random.default_rng(i).standard_normal((50, 40)).astype(np.float32) for i in range(200)}
    with io_ark.writer("big.ark") as writer:
        for key, value in table.items():
            writer[key] = value
    ark(f"convert big.ark d.{ending}")
    data = bytearray(Path(f"d.{ending}").read_bytes())
    for place in range(len(data) // 3, len(data) // 3 + 20_000, 7):
        data[place] ^= 0x5A
    Path(f"d.{ending}").write_bytes(data)
    status = main(["convert", f"d.{ending}", "o.ark"])
    assert status in (0, 1, 2)  # HDF5 has no checksums


@pytest.mark.parametrize("source", ["x.npz", "x/", "x.tar"])
def test_unreadable_array_fails_alone(source: str, ark: Ark) -> None:
    Path("x").mkdir()
    for key, array in ("a", np.ones((2, 2))), ("c", np.ones((3, 2))):
        np.save(f"x/{key}.npy", array)
    Path("x/b.npy").write_bytes(b"no array")
    with tarfile.open("x.tar", "w") as tar, zipfile.ZipFile("x.npz", "w") as archive:
        for name in ("a.npy", "b.npy", "c.npy"):
            tar.add(f"x/{name}", name)
            archive.write(f"x/{name}", name)
    errors = ark(f"convert {source} o.ark", 1).err
    assert errors.count("cannot be read as a .npy array") == 1 and "b.npy" in errors
    assert errors.endswith("o.ark: 2 entries, 1 failed\n")
    assert [key for key, _ in io_ark.read("ark:o.ark")] == ["a", "c"]


def test_value_of_csv_that_is_no_number_fails_alone(ark: Ark) -> None:
    Path("x.csv").write_text("utterance,frame,0\na,0,1\nb,0,\nb,1,2\nc,0,3\n")
    errors = ark("convert x.csv o.ark", 1).err
    assert errors.startswith("ark: x.csv: b: the value '' is not a number") and "2 entries, 1 failed" in errors
    assert [key for key, _ in io_ark.read("ark:o.ark")] == ["a", "c"]


def test_missing_array_of_a_lhotse_manifest_fails_alone(ark: Ark) -> None:
    pytest.importorskip("lhotse")
    ark("convert feats.ark x.jsonl")
    missing = sorted(Path("x.jsonl_storage").rglob("*.npy"))[0]
    missing.unlink()
    errors = ark("convert x.jsonl o.ark", 1).err
    assert str(missing.name) in errors and errors.endswith("o.ark: 2 entries, 1 failed\n")


@pytest.mark.parametrize("order", ["C", "F"])
def test_order_of_an_array_in_memory_does_not_matter(order: str, ark: Ark) -> None:
    values = np.asarray(np.arange(12.0).reshape(3, 4), order=order)  # type: ignore[call-overload]
    np.savez_compressed("o.npz", a=values)
    ark("convert o.npz back.ark")
    np.testing.assert_array_equal(dict(io_ark.read("ark:back.ark"))["a"], values)


@pytest.mark.parametrize("name", ["x.npz", "x.h5", "x.parquet", "x.tar"])
def test_damaged_and_missing_files_give_one_line(name: str, ark: Ark) -> None:
    pytest.importorskip({"x.h5": "h5py", "x.parquet": "pyarrow"}.get(name, "numpy"))
    Path(name).write_bytes(b"no such format at all" * 40)
    for each, said in (name, f"ark: {name}: cannot be read"), (f"none.{name}", "no such file"):
        (line,) = ark(f"convert {each} o.ark", 2).err.splitlines()
        assert said in line


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, ark: Ark) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    said = ark("convert feats.ark o.h5", 2).err
    assert "HDF5 files need h5py, which is not installed: pip install h5py" in said


def test_format_option_wins_over_the_ending(ark: Ark) -> None:
    ark("convert --to=npz feats.ark data")
    ark("convert --from=npz --compress data c.ark")
    assert ark("ls c.ark").out.count("compressed: 1 byte per value") == 3
    assert "the format 'npzz' is unknown: choose from ark, npz" in ark("convert --to=npzz feats.ark data", 2).err
    assert find_format("feats.ark", "") is None
