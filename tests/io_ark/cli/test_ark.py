"""The program ``ark``, on tables that kaldiio wrote and on damage done to them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

import io_ark
from io_ark.cli import ark as program
from io_ark.cli import describe, listing
from io_ark.cli.ark import main
from io_ark.codecs.wave import Wave
from io_ark.models.acoustic import Network
from tests.support.ark_program import Ark
from tests.support.codec_tools import archive_bytes

FEATS = {f"utt{number}": np.random.default_rng(number).normal(size=(5 + number, 4)).astype("f4") for number in range(3)}


@pytest.fixture(autouse=True)
def table(ark: Ark) -> None:
    """The features of three utterances, in the working directory."""
    kaldiio.save_ark("feats.ark", FEATS, scp="feats.scp")


def columns(text: str, *which: slice) -> list[list[str]]:
    """The cells of each line between tabs."""
    return [line.split("\t")[which[0] if which else slice(None)] for line in text.splitlines()]


def test_ls_prints_kind_shape_storage_and_location(ark: Ark) -> None:
    kaldiio.save_ark("packed.ark", {"utt0": FEATS["utt0"]}, compression_method=2)
    lines = columns(ark("ls feats.scp packed.ark").out)
    assert lines[1] == ["utt1", "matrix", "6 x 4", "float32", Path("feats.scp").read_text().split()[3]]
    assert lines[3][:4] == ["utt0", "matrix", "5 x 4", "compressed: 1 byte per value, 4 percentiles per column"]


def test_ls_counts_the_entries_of_each_table(ark: Ark) -> None:
    Path("words").write_text("a anna\n")
    lines = ark("ls feats.scp words feats.ark")
    assert len(lines.out.splitlines()) == 7
    assert lines.err == "feats.scp: 3 entries\nwords: 1 entry\nfeats.ark: 3 entries\n"
    assert ark("head -n 2 feats.scp").err == "feats.scp: 2 entries\n"
    assert ark("grep 1 feats.scp words").err == "feats.scp: 1 entry\nwords: 0 entries\n"
    assert ark("ls --json feats.scp").err == ""
    cut_short()
    assert ark("ls feats.scp words", 1).err == "feats.scp: 3 entries\nwords: 1 entry\n"
    records = [json.loads(line) for line in ark("ls --json feats.scp", 1).out.splitlines()]
    assert records[1] == {
        "key": "utt1",
        "kind": "matrix",
        "shape": [6, 4],
        "stored": "float32",
        "where": "feats.ark:105",
    }
    assert records[2].keys() == {"key", "error"} and "utt2: ends too early" in records[2]["error"]


def test_ls_of_audio_integers_and_words(ark: Ark) -> None:
    with wave.open("a.wav", "wb") as out:
        out.setparams((2, 2, 8000, 0, "NONE", ""))
        out.writeframes(bytes(4 * 80))
    for name, line in ("wav.scp", "a a.wav\n"), ("ali.ark", "a 1 2 3\n"), ("utt2spk", "a anna\n"):
        Path(name).write_text(line)
    lines = columns(ark("ls wav.scp ali.ark utt2spk").out, slice(1, 4))
    assert lines == [["audio 8000 Hz", "2 x 80", "WAV"], ["int vector", "3", "text"], ["token", "-", "text"]]


def test_ls_of_ranges_and_commands(ark: Ark) -> None:
    kaldiio.save_ark("packed.ark", {"utt0": FEATS["utt0"]}, compression_method=3)
    Path("parts.scp").write_text(
        "utt0 packed.ark:5[1:3]\nutt1 feats.ark:5[0:1,2:3]\n"
        "utt2 tail -c +6 feats.ark |\nutt3 tail -c +6 feats.ark |[4:4]\n"
    )
    assert columns(ark("ls parts.scp").out, slice(4)) == [
        ["utt0", "matrix", "3 x 4", "compressed: 2 bytes per value"],
        ["utt1", "matrix", "2 x 2", "float32"],
        ["utt2", "matrix", "5 x 4", "float32"],
        ["utt3", "matrix", "1 x 4", "float32"],
    ]


@pytest.mark.parametrize("name", ["feats.scp", "feats.ark", "'ark:cat feats.ark |'"])
def test_ls_reports_a_truncated_object(name: str, ark: Ark) -> None:
    cut_short()
    assert "utt2: ends too early: expected 112 more bytes, but only 109 are available" in ark(f"ls {name}", 1).out


@pytest.mark.parametrize("name", ["feats.scp", "feats.ark"])
def test_show_prints_the_numbers(name: str, ark: Ark) -> None:
    shown = ark(f"show --all {name} utt2").out
    assert "utt2: matrix 7 x 4, float32, at " in shown
    numbers = np.array(shown.split("\n", 1)[1].replace("[", " ").replace("]", " ").split(), float)
    np.testing.assert_allclose(numbers, FEATS["utt2"].ravel(), atol=1e-6)


@pytest.mark.parametrize(("columns", "is_whole"), [(20, True), (21, False)])
def test_show_prints_up_to_100_numbers(columns: int, is_whole: bool, ark: Ark) -> None:
    value = np.arange(7 * columns, dtype="f4").reshape(7, columns)[: 5 if is_whole else 7]
    kaldiio.save_ark("feats.ark", {"utt1": value})
    assert ("..." not in ark("show feats.ark utt1").out) == is_whole
    rows = ark("show feats.ark utt1").out.splitlines()[1:]
    assert len(rows) == (5 if is_whole else 7) and (is_whole or rows[0].split()[3:5] == ["2.", "..."])
    assert "..." not in ark("show --all feats.ark utt1").out


@pytest.mark.parametrize(
    ("error", "said"),
    [(MemoryError("Unable to allocate 9 GiB"), "out of memory: Unable to allocate 9 GiB"),
     (OSError(5, "Input/output error", "feats.ark"), "feats.ark: Input/output error"),
     (OSError(5, "Input/output error"), "standard output: Input/output error"),
     (ModuleNotFoundError("HDF5 files need h5py"), "HDF5 files need h5py")],
)  # fmt: skip
def test_errors_of_the_system_are_one_line(
    error: Exception, said: str, ark: Ark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(program, "_discard_output", lambda: None)  # It would close the standard output of the test.
    monkeypatch.setattr(listing, "ls", fail)
    assert ark("ls feats.ark", 2).err == f"ark: {said}\n"


@pytest.mark.parametrize(
    ("value", "kind", "converted"),
    [
        (np.float32(2.5), "float32", 2.5), (np.zeros(()), "scalar", 0.0),
        (np.zeros((1, 1, 2)), "array 1 x 1 x 2", [[[0, 0]]]),
        (np.array([[1, 2]], "i4"), "int matrix 1 x 2", [[1, 2]]), (np.array([1], "u1"), "int vector 1", [1]),
        ("anna", "token", "anna"), ({"a": b"xyz", 1: None}, "dictionary", {"a": "3 bytes", "1": None}),
        ([1, (True, -np.inf)], "list 2", [1, [True, "-inf"]]), (2 + 1j, "complex", "(2+1j)"),
        (Wave(8000.0, np.array([[1, 2]], np.int16)), "audio 8000 Hz 1 x 2",
         {"sample_frequency": 8000.0, "samples": [[1, 2]]}),
    ],
)  # fmt: skip
def test_values_are_described_and_converted_to_json(value: object, kind: str, converted: object) -> None:
    assert describe.describe_value(value) == kind
    assert describe.convert_to_json(value) == converted


@pytest.mark.parametrize(
    ("names", "said"),
    [("feats.scp nobody", "feats.scp: nobody: the table does not have the key")]
    + [(table, "`ark show TABLE KEY`") for table in ("feats.scp", "scp:feats.scp", "feats.ark")],
)
def test_show_needs_a_key_of_the_table(names: str, said: str, ark: Ark) -> None:
    assert said in ark(f"show {names}", 2).err


def test_show_of_a_key_without_a_value_names_the_line(ark: Ark) -> None:
    Path("short.scp").write_text("nobody\n" + Path("feats.scp").read_text())
    with open("short.scp", "a") as file:
        file.write("nobody\n")
    assert "short.scp: line 1 has a key ('nobody') without a value" in ark("show short.scp nobody", 2).err
    assert "utt1: matrix 6 x 4" in ark("show short.scp utt1").out


def test_show_reads_only_the_object_of_the_key(ark: Ark) -> None:
    Path("piped.scp").write_text("utt0 touch ran; cat feats.ark |\n" + Path("feats.scp").read_text().split("\n")[1])
    assert "utt1: matrix 6 x 4" in ark("show piped.scp utt1").out
    assert not Path("ran").exists()


def test_show_of_a_damaged_entry_is_its_error(ark: Ark) -> None:
    cut_short()
    for name in "feats.scp", "feats.ark":
        assert "utt2: ends too early: expected 112 more bytes" in ark(f"show {name} utt2", 2).err


def test_fields_are_described_one_on_a_line() -> None:
    fields = {
        "a": np.array([[1, 2.5]]), "empty": np.zeros((0, 2)), "raw": b"xyz", "words": ["x"], "pair": (1, 2), "n": 5,
        "text": "a\x1b", "net": Network(b"<Nnet3>\nnode a\nnode b\n\nrest", True),
    }  # fmt: skip
    assert list(describe.describe_fields(fields)) == [
        "a: float64 1 x 2, 1 to 2.5", "empty: float64 0 x 2", "raw: 3 bytes", "words: 1", "pair: 2", "n: 5",
        "text: a\\x1b", "net: Network('Nnet3', 27 bytes)", "  data: 27 bytes", "  is_binary: True", "  node a",
        "  node b",
    ]  # fmt: skip


def test_check_reads_commands_and_whole_files(ark: Ark) -> None:
    for key, value in FEATS.items():
        kaldiio.save_mat(f"{key}.mat", value)
    Path("parts.scp").write_text("utt0 utt0.mat\nutt1 cat utt1.mat |\nutt2 utt2.mat[0:2]\nutt3 feats.ark:5[1:2]\n")
    expected = "parts.scp: utt3: the archive has another key at the offset: 'utt0 '"
    assert ark("check parts.scp", 1).out.replace("feats.ark:5", "parts.scp").splitlines() == [
        expected, "parts.scp: 4 entries read, 1 problem",
    ]  # fmt: skip


def test_check_of_a_valid_set_finds_nothing(ark: Ark) -> None:
    assert ark("check feats.scp feats.ark").out.count("3 entries read, no problem found") == 2


def damaged_in_the_middle() -> None:
    data = Path("feats.ark").read_bytes()
    Path("feats.ark").write_bytes(data.replace(b"utt1 \0BFM", b"utt1 \0BXM"))


def cut_short() -> None:
    Path("feats.ark").write_bytes(Path("feats.ark").read_bytes()[:-3])


def not_finite() -> None:
    feats = {key: value.copy() for key, value in FEATS.items()}
    feats["utt1"][2, 3] = np.nan
    kaldiio.save_ark("feats.ark", feats, scp="feats.scp")


def of_other_columns() -> None:
    kaldiio.save_ark("feats.ark", FEATS | {"utt2": np.ones((3, 5), "f4")}, scp="feats.scp")


def key_twice() -> None:
    kaldiio.save_ark("feats.ark", {"utt1": FEATS["utt1"]}, scp="feats.scp", append=True)


def without_rows() -> None:
    with io_ark.writer("ark,scp:feats.ark,feats.scp") as writer:
        for key, value in FEATS.items():
            writer[key] = value if key != "utt1" else np.zeros((0, 0), np.float32)


def keys_missing() -> None:
    Path("feats.scp").write_text(Path("feats.scp").read_text().partition("\n")[0] + "\n")


def key_missing() -> None:
    Path("feats.scp").write_text("".join(Path("feats.scp").read_text().splitlines(True)[:2]))


def keys_swapped() -> None:
    first, second, third = Path("feats.scp").read_text().splitlines()
    (one, here), (other, there) = first.split(), second.split()
    Path("feats.scp").write_text(f"{one} {there}\n{other} {here}\n{third}\n")


def in_another_order() -> None:
    Path("feats.scp").write_text("".join(Path("feats.scp").read_text().splitlines(True)[::-1]))


def empty() -> None:
    Path("feats.ark").write_bytes(b"")
    Path("feats.scp").write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (damaged_in_the_middle, "feats.ark:"),
        (cut_short, "utt2: ends too early: expected 112 more bytes, but only 109 are available"),
        (not_finite, "utt1: 1 of 24 values are not finite, first at [2, 3]"),
        (of_other_columns, "utt2: 5 columns, but utt0 has 4"),
        (key_twice, "utt1: duplicate key"),
        (without_rows, "utt1: the matrix has no rows"),
        (key_missing, "feats.scp: the key utt2 of feats.ark is missing"),
        (keys_missing, "feats.scp: 2 keys of feats.ark are missing, such as utt1"),
        (keys_swapped, "utt0: the archive has another key at the offset: 'utt1 '"),
        (in_another_order, "feats.ark: the keys are not in the order of feats.scp"),
        (empty, "feats.ark: has no entries"),
    ],
)
def test_check_reports_damage(damage: Callable[[], None], said: str, ark: Ark) -> None:
    damage()
    assert said in ark("check feats.scp feats.ark", 1).out


@pytest.mark.parametrize(("count", "last"), [(100, "many.scp: 100 entries read, 100 problems"),
                                              (101, "... and 1 more problems in many.scp")])  # fmt: skip
def test_check_prints_the_first_100_problems(count: int, last: str, ark: Ark) -> None:
    Path("many.scp").write_text("".join(f"k{number}\n" for number in range(count)))
    assert ark("check many.scp", 1).out.splitlines()[100] == last
    assert len(json.loads(ark("check --json many.scp", 1).out)["problems"]) == count


def test_invalid_single_object_is_one_entry(ark: Ark) -> None:
    Path("bad.mat").write_text(" [ 1 2 x\n 3 4 ]\nb 1 2\n")
    assert ark("ls bad.mat", 1).out == "-\tunreadable\tbad.mat:7: a matrix in text: expected a number, found 'x'\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("utt1 feats.ark:5[a:b]", "utt1: "),
        ("utt1 nowhere.ark:5", "nowhere.ark: utt1: cannot be opened"),
        ("", "line 2 is blank"),
        ("utt1", "line 2 has a key ('utt1') without a value"),
    ],
)
def test_check_and_ls_continue_after_an_invalid_line(line: str, said: str, ark: Ark) -> None:
    first, _, third = Path("feats.scp").read_text().splitlines()
    Path("feats.scp").write_text(f"{first}\n{line}\nutt7 {third.split()[1]}\n")
    problem, other, verdict = ark("check feats.scp", 1).out.splitlines()
    assert said in problem
    assert "utt7: the archive has another key at the offset: 'utt2 '" in other
    assert verdict == "feats.scp: 3 entries read, 2 problems"
    assert columns(ark("ls feats.scp", 1).out, slice(1, 2)) == [["matrix"], ["unreadable"], ["matrix"]]


def test_location_in_a_pipe_has_no_offset(ark: Ark) -> None:
    places = [cells[-1] for cells in columns(ark("ls 'ark:cat feats.ark |' feats.ark").out)]
    assert places == ["cat feats.ark |"] * 3 + [line.split()[1] for line in Path("feats.scp").read_text().splitlines()]


def test_pipes_can_be_refused(ark: Ark) -> None:
    Path("pipe.scp").write_text("utt0 touch ran; cat feats.ark |\n")
    for line in "--no-pipes check pipe.scp", "check --no-pipes pipe.scp":
        assert "is not run" in ark(line, 1).out
    assert not Path("ran").exists()


def test_stat_prints_the_moments_of_each_column(ark: Ark) -> None:
    out = ark("stat feats.scp").out
    assert "length: total 18, 5 to 7, mean 6.0, median 6.0" in out
    frames = np.concatenate(list(FEATS.values()))
    rows = np.array([line.split() for line in out.splitlines()[4:8]], float)
    wanted = np.stack([np.arange(4), frames.mean(0), frames.std(0), frames.min(0), frames.max(0)], axis=1)
    np.testing.assert_allclose(rows, wanted, rtol=1e-4, atol=1e-5)


def test_stat_counts_what_it_cannot_read(ark: Ark) -> None:
    cut_short()
    assert ark("stat feats.ark", 1).out.startswith("feats.ark: 2 entries, 1 unreadable\n")
    statistics = json.loads(ark("stat --json feats.ark", 1).out)
    assert (statistics["entries"], statistics["unreadable"]) == (2, 1)


def test_stat_of_vectors_and_of_matrices_with_other_columns(ark: Ark) -> None:
    with io_ark.writer("ark:vectors.ark") as writer:
        for key, values in ("a", [1, 2, 3]), ("b", [6, 8]):
            writer[key] = np.array(values, np.float32)
    columns = json.loads(ark("stat --json vectors.ark").out)["columns"]
    assert list(columns) == ["1"] and (columns["1"]["mean"], columns["1"]["max"]) == ([4], [8])
    of_other_columns()
    lines = ark("stat feats.ark").out.splitlines()
    assert [line for line in lines if line.startswith("  entries")] == [
        "  entries with 4 columns:", "  entries with 5 columns:",
    ]  # fmt: skip
    assert len(lines) == 3 + 2 + 4 + 2 + 5 + 1 and lines[-1] == "  constant: columns 0, 1, 2, 3, 4"


def test_stat_of_audio_and_words(ark: Ark) -> None:
    with io_ark.writer("ark:wav.ark") as writer:
        for key, count in ("a", 72000), ("b", 8000):
            writer[key] = Wave(8000.0, np.array([[-1] * count, [3] * count], np.int16))
    out = ark("stat wav.ark").out
    assert "  audio: 10.00 s (0.00 h)\n  length: total 80000, 8000 to 72000, mean 40000.0, median 40000.0\n" in out
    assert "constant: columns 0, 1\n" in out
    statistics = json.loads(ark("stat --json wav.ark").out)
    assert statistics["seconds"] == 10 and statistics["columns"]["2"]["mean"] == [-1, 3]
    Path("words").write_text("a anna\n")
    assert json.loads(ark("stat --json words").out) == {
        "table": "words", "entries": 1, "unreadable": 0, "stored": {"text": 1}, "seconds": 0.0,
        "lengths": {"total": 0, "smallest": 0, "largest": 0}, "columns": {},
    }  # fmt: skip


def test_stat_of_a_column_of_nan_is_nan(ark: Ark) -> None:
    with io_ark.writer("ark:nan.ark") as writer:
        writer["a"] = np.array([[1, np.nan], [1, np.nan]], np.float32)
    assert re.search(r"\n +1( +nan){4}\n", ark("stat nan.ark").out)
    columns = json.loads(ark("stat --json nan.ark").out)["columns"]["2"]
    assert [columns[name][1] for name in ("mean", "deviation", "min", "max")] == ["nan"] * 4


def test_stat_counts_the_storage_of_each_object(ark: Ark) -> None:
    data, lines = b"", ""
    for key, kind in ("c", "compressed-matrix"), ("d", "double-matrix"), ("f", "matrix"):
        lines += f"{key} feats.ark:{len(data) + 2}\n"
        data += archive_bytes([(key.encode(), FEATS["utt0"])], kind)
    Path("feats.ark").write_bytes(data)
    Path("feats.scp").write_text(lines)
    for table in "feats.ark", "feats.scp":
        stored = json.loads(ark(f"stat --json {table}").out)["stored"]
        assert stored == {"compressed: 2 bytes per value": 1, "float64": 1, "float32": 1}


def test_keys_that_are_not_utf8_are_printed_unchanged() -> None:
    Path("a.ark").write_bytes(b"caf\xe9 1 2\n\xc3\xa9t\xc3\xa9 3 4\n")
    for encoding in "utf-8:strict", "ascii:strict", "utf-16:strict":
        done = subprocess.run(
            [sys.executable, "-m", "io_ark.cli.ark", "ls", "a.ark"],
            env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [line.split(b"\t")[0] for line in done.stdout.splitlines()] == [b"caf\xe9", b"\xc3\xa9t\xc3\xa9"]


@pytest.mark.parametrize(
    ("kind", "value", "described", "shown"),
    [
        ("double-matrix", np.ones((2, 14)), "matrix\t2 x 14\tfloat64", "cmvn.ark: matrix 2 x 14\n[[1. 1."),
        ("matrix", np.ones((3, 2)), "matrix\t3 x 2\tfloat32", "cmvn.ark: matrix 3 x 2\n[[1. 1.]\n"),
        ("wave", Wave(8000.0, np.ones((1, 80), np.int16)), "audio 8000 Hz\t1 x 80\tWAV",
         "cmvn.ark: audio 8000 Hz 1 x 80\n[[1 1 1"),
        ("vector", [1, 2, 3], "vector\t3\ttext", "cmvn.ark: vector 3\n[1. 2. 3.]\n"),
    ],
)  # fmt: skip
def test_ls_of_a_single_object_says_so_and_shows_it(
    kind: Any, value: object, described: str, shown: str, ark: Ark
) -> None:
    io_ark.save("cmvn.ark", value, kind=kind, binary="text" not in described)
    printed = ark("ls cmvn.ark")
    assert printed.out == f"-\t{described}\tcmvn.ark\n"
    assert printed.err == "cmvn.ark: is a single object, not a table: print it with `ark show cmvn.ark`\n"
    assert ark("show cmvn.ark").out.startswith(shown)
    numbers = json.loads(ark("show --json cmvn.ark").out)
    samples = value.samples.tolist() if isinstance(value, Wave) else np.asarray(value).tolist()
    assert numbers["where"] == "cmvn.ark"
    assert (numbers["value"]["samples"] if isinstance(value, Wave) else numbers["value"]) == samples


@pytest.mark.parametrize(
    ("line", "status"),
    [("ls {}", 2), ("check {}", 1), ("stat {}", 2), ("diff feats.ark {}", 2), ("convert {} o.npz", 2), ("show {}", 2),
     ("show {} utt1", 2)],
)  # fmt: skip
@pytest.mark.parametrize(
    ("option", "name", "said"),
    [("--no-network", "http://127.0.0.1:1/a.scp", "the network is not used: it is disabled"),
     ("--no-pipes", "'ark:touch ran |'", "'touch ran' is not run: pipes are disabled"),
     ("--no-pipes", "'scp:touch ran |'", "'touch ran' is not run: pipes are disabled")],
)  # fmt: skip
def test_commands_and_urls_are_refused_apart(
    line: str, status: int, option: str, name: str, said: str, ark: Ark
) -> None:
    if line == "show {}":  # Here, a name is that of a single object.
        name = name.replace("ark:", "").replace("scp:", "").replace(".scp", ".mat")
    line = line.format(name)
    for words in f"{option} {line}", f"{line} {option}":
        assert said in "".join(ark(words, status))
    if option == "--no-pipes":
        assert not Path("ran").exists()
        main(shlex.split(f"--no-network {line}"))
        assert Path("ran").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [("o.npz", "such as NumPy (.npz), not an archive: convert it to a table with"), ("o.npy", "NumPy (.npy)"),
     ("o.tar", "WebDataset (.tar)"), ("o.jsonl", "lhotse manifest (.jsonl)"),
     ("fbank.conf", "is a configuration file"), ("mfcc.conf", "is a configuration file")],
)  # fmt: skip
def test_other_files_are_not_listed_as_tables(name: str, said: str, ark: Ark) -> None:
    np.savez("o.npz", a=np.ones(3))
    np.save("o.npy", np.ones(3))
    main(["convert", "o.npz", "o.tar"])
    Path("o.jsonl").write_text('{"type": "kaldi", "num_frames": 3}\n')
    Path("fbank.conf").write_text("# for 16 kHz\n\n--num-mel-bins=80\n")
    Path("mfcc.conf").write_text("--use-energy=false   # only non-default option.\n")
    assert said in ark(f"ls {name}", 2).err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"ark (kaldi-compat) {importlib.metadata.version('kaldi-compat')}\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["ls", "--no-pips", "x"], "ark: unknown option or argument '--no-pips': did you mean --no-pipes?"),
        (["--versoin"], "did you mean --version?"),
        (["ls", "-n", "x"], "ark: unknown option or argument '-n'; see ark --help"),
        (["shw", "x"], "ark: unknown command 'shw': did you mean show?"),
        ([], "ark: name a command: ls, head, grep, show"),
        (["head", "-n", "-1", "x"], "ark: argument -n/--count: expected a whole number of 0 or more, not '-1'"),
        (["diff", "--worst", "1.5", "x", "y"], "expected a whole number of 0 or more, not '1.5'"),
    ],
)
def test_invalid_command_line_gives_one_line_with_a_suggestion(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    message = capsys.readouterr().err
    assert error in message and message.count("\n") == 1


def test_control_characters_of_keys_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    for name, key in ("a", "k\x1b[2J\x07"), ("b", "k\x7f\x9b"):
        Path(name).write_bytes(key.encode() + b" \0B\4\1\0\0\0" + key.encode() + b" text\x1b[2J\n")
    for arguments in "ls", "ls --json", "stat", "check", "diff", "diff --json", "grep k":
        main([*arguments.split(), "a", "b"])
    main(["show", "a", "k\x1b[2J\x07"])
    captured = capsys.readouterr()
    assert not [char for char in captured.out + captured.err if not char.isprintable() and char not in "\n\t"]
    assert "k\\x1b[2J\\x07\t" in captured.out


@pytest.mark.parametrize(
    ("line", "status"), [("ls /dev/zero", 2), ("ls scp:/dev/zero", 2), ("show /dev/zero", 2), ("check /dev/zero", 1),
                         ("convert --from=npz /dev/zero o.ark", 2)],
)  # fmt: skip
def test_endless_input_ends_with_one_line(line: str, status: int, ark: Ark) -> None:
    assert "/dev/zero" in "".join(ark(line, status))
    assert not Path("o.ark").exists()


def test_closed_standard_output_gives_one_line() -> None:
    command = f"{sys.executable} -m io_ark.cli.ark ls feats.scp >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "ark: standard output is closed: redirect it to a file or /dev/null\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    "line",
    ["--help", "ls --help", "--version", "show feats.ark utt1", "stat feats.ark", "convert --json feats.ark o.npz"],
)
def test_output_to_a_full_disk_is_reported_once(line: str, buffered: str, ark: Ark) -> None:
    code = "import sys; from io_ark.cli.ark import main; sys.exit(main())"
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-c", code, *line.split()], stdout=full, stderr=subprocess.PIPE, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": buffered},
        )  # fmt: skip
    assert (run.returncode, run.stderr) == (2, b"ark: standard output: No space left on device\n")
