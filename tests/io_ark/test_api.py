"""Automatic type detection from bytes and values; data directories; Kaldi's and torchaudio's names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import kaldi_native_io
import numpy as np
import pytest
import torch

import io_ark
from io_ark.codecs import KINDS, kind_of
from io_ark.codecs.wave import Wave
from io_ark.data_dir import Segment, parse_segment
from io_ark.errors import (
    ArkError,
    FormatError,
    MissingKeyError,
    OrderError,
    SpecifierError,
)

VALUES = {
    "float-matrix": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3),
    "double-matrix": np.linspace(-1, 1, 12).reshape(4, 3),
    "float-vector": np.linspace(-1, 1, 5, dtype=np.float32),
    "double-vector": np.linspace(-1, 1, 5),
    "ints": np.array([3, 1, 2], np.int32),
    "long-ints": np.array([3, 1, 2], np.int64),
    "list-of-ints": [3, 1, 2],
    "wave": Wave(8000.0, np.arange(20, dtype=np.int16).reshape(2, 10)),
    "tensor": torch.linspace(-1, 1, 12).reshape(4, 3),
}


def same(one: object, other: object) -> bool:
    if isinstance(one, Wave):
        return isinstance(other, Wave) and one[0] == other[0] and np.array_equal(one[1], other[1])
    return np.array_equal(np.asarray(one), np.asarray(other))


def test_written_values_are_read_back(tmp_path: Path) -> None:
    with io_ark.writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp") as writer:
        for key, value in VALUES.items():
            writer[key] = value
    for table in (
        dict(io_ark.read(f"ark:{tmp_path}/a.ark")),
        dict(io_ark.read(f"{tmp_path}/a.ark")),
        dict(io_ark.read(f"scp,p:{tmp_path}/a.scp")),
        dict(io_ark.read(f"{tmp_path}/a.scp")),
        io_ark.load_scp(f"{tmp_path}/a.scp"),
        io_ark.load_scp(f"{tmp_path}/a.scp", mmap=True),
        pickle.loads(pickle.dumps(io_ark.load_scp(f"{tmp_path}/a.scp"))),
    ):
        assert list(table) == list(VALUES)
        for key, value in VALUES.items():
            assert same(table[key], value), key
            assert getattr(table[key], "dtype", None) == {
                "tensor": np.float32, "long-ints": np.int32, "list-of-ints": np.int32, "wave": None,
            }.get(key, getattr(value, "dtype", None)), key  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapping_of_every_kind_can_be_pickled(tmp_path: Path, kind: Any) -> None:
    """The processes of a data loader receive their data set as a pickle."""
    (tmp_path / "a.scp").write_text("utt1 a.ark:5\n")
    again = pickle.loads(pickle.dumps(io_ark.load_scp(f"{tmp_path}/a.scp", kind=kind)))
    assert list(again) == ["utt1"]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_mapping_can_be_pickled_after_a_number_has_been_read(tmp_path: Path, kind: Any) -> None:
    with io_ark.writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", kind=kind) as writer:
        writer["utt1"] = 1.5
    mapping = io_ark.load_scp(f"{tmp_path}/a.scp")
    assert mapping["utt1"] == 1.5
    assert pickle.loads(pickle.dumps(mapping))["utt1"] == 1.5


def test_speech_is_compressed(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((100, 20)).astype(np.float32)
    with io_ark.writer(f"ark,scp:{tmp_path}/c.ark,{tmp_path}/c.scp", compress="speech") as writer:
        writer["m"] = matrix
        writer["v"] = matrix[0]
    with io_ark.Writer(f"ark:{tmp_path}/k.ark", kind="compressed-matrix", method=2) as writer:
        writer["m"] = matrix
    compressed, kinds = (tmp_path / "c.ark").read_bytes(), (tmp_path / "k.ark").read_bytes()
    assert compressed.startswith(kinds)
    table = io_ark.load_scp(f"{tmp_path}/c.scp")
    np.testing.assert_allclose(table["m"], matrix, atol=0.1)
    np.testing.assert_array_equal(table["v"], matrix[0])
    with io_ark.writer(f"ark:{tmp_path}/n.ark", compress="speech", kind="matrix") as writer:
        writer["m"] = matrix
    assert compressed.startswith((tmp_path / "n.ark").read_bytes())
    with io_ark.writer(f"ark,t:{tmp_path}/t.ark", compress="speech", kind="matrix") as writer:
        writer["m"] = [[1, 2]]
    assert (tmp_path / "t.ark").read_bytes() == b"m  [\n  1 2 ]\n"
    with pytest.raises(FormatError, match="method"):
        io_ark.writer(f"ark:{tmp_path}/x", compress="nothing")
    with pytest.raises(FormatError, match="applies to matrices"):
        io_ark.writer(f"ark:{tmp_path}/x", compress="speech", kind="vector")


def test_one_kind_can_be_asked_for(tmp_path: Path) -> None:
    with io_ark.writer(f"{tmp_path}/d.ark", kind="matrix") as writer:
        writer["a"] = VALUES["double-matrix"]
    assert next(iter(io_ark.read(f"{tmp_path}/d.ark")))[1].dtype == np.float32
    with io_ark.Writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", kind="matrix") as w:
        w["a"] = VALUES["float-matrix"]
    assert io_ark.load_scp(f"{tmp_path}/a.scp", kind="double-matrix")["a"].dtype == np.float64
    with pytest.raises(FormatError, match=r"a\.ark:\d+: a: "):
        io_ark.load_scp(f"{tmp_path}/a.scp", kind="vector")["a"]


def test_errors_of_a_mapping_have_key_and_location(tmp_path: Path) -> None:
    (tmp_path / "a.scp").write_text("a nosuch:3\n")
    table = io_ark.load_scp(f"{tmp_path}/a.scp")
    with pytest.raises(ArkError, match=r"^nosuch: a: cannot be opened"):
        table["a"]
    with pytest.raises(MissingKeyError):
        table["b"]
    assert repr(table) == f"<{tmp_path}/a.scp: 1 key>"
    (tmp_path / "a.scp").write_text("a x\na y\n")
    with pytest.raises(OrderError):
        io_ark.load_scp(f"{tmp_path}/a.scp")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([], "int-vector"), ([[1], []], "int-vector-vector"), (["a", "b"], "token-vector"), ("a", "token"),
        (True, "bool"), (3, "int"), (2.5, "double"), (np.float32(2.5), "float"), (np.int64(3), "int"),
        ([[(3, 0.5)], []], "posterior"),
        (np.zeros((0, 0), np.float32), "matrix"),
    ],
)  # fmt: skip
def test_kinds_of_values(value: object, kind: str) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    "value", [None, {}, [None], np.zeros((2, 2), complex), np.zeros((2, 2, 2)), [["a"]], np.array(["x"])]
)
def test_value_without_a_kind_is_refused(value: object, tmp_path: Path) -> None:
    with io_ark.writer(f"ark:{tmp_path}/a") as writer, pytest.raises(FormatError, match=r"^a: "):
        writer["a"] = value


def test_matrix_of_integers_is_refused_with_advice() -> None:
    with pytest.raises(FormatError, match=r"no 2-dimensional arrays of int64: convert the numbers to float32$"):
        kind_of(np.zeros((2, 2), np.int64))


@pytest.mark.parametrize(("data", "offset"), [(b"", ""), (b"u ", ":2")])
def test_missing_object_is_named(data: bytes, offset: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(FormatError, match="expected an object, found the end; the file is empty or incomplete"):
        io_ark.load(f"{tmp_path}/a{offset}")


def test_data_directories(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("u1 s1\nu2 s1\nu3 s2\n")
    (tmp_path / "spk2utt").write_text("s1 u1 u2\ns2 u3\n")
    (tmp_path / "text").write_text("u1 hello world\nu2\nu3 été\n")
    assert dict(io_ark.load_utt2spk(f"{tmp_path}/utt2spk")) == {"u1": "s1", "u2": "s1", "u3": "s2"}
    assert dict(io_ark.load_spk2utt(f"{tmp_path}/spk2utt")) == {"s1": ["u1", "u2"], "s2": ["u3"]}
    assert dict(io_ark.load_text(f"{tmp_path}/text")) == {"u1": "hello world", "u2": "", "u3": "été"}
    with pytest.raises(FormatError, match="line 2 has a key"):
        io_ark.load_utt2spk(f"{tmp_path}/text")


def test_segments_are_cut_out_of_recordings(tmp_path: Path) -> None:
    with io_ark.Writer(f"ark,scp:{tmp_path}/w.ark,{tmp_path}/w.scp", kind="wave") as writer:
        for name in "r1", "r2":
            writer[name] = Wave(8000.0, np.arange(8000, dtype=np.int16)[None])
        writer["stereo"] = Wave(8000.0, np.arange(16000, dtype=np.int16).reshape(2, 8000))
    (tmp_path / "segments").write_text(
        "a r1 0.25 0.5\nb r1 0.5 -1\nc r2 0.8 1.4\nd stereo 0 0.5 1\ne r2 0.00006 0.50007\n"
        "f r1 0 9\ng r1 0.5 0.55\nh stereo 0 1\ni stereo 0 1 2\nj nosuch 0 1\n"
    )
    times = io_ark.load_segments(f"{tmp_path}/segments")
    assert times["a"] == Segment("a", "r1", 0.25, 0.5)
    audio = io_ark.load_segments(f"{tmp_path}/segments", f"{tmp_path}/w.scp")
    spans = {key: (int(audio[key].samples[0, 0]), audio[key].samples.shape[1]) for key in "abcde"}  # type: ignore[union-attr]
    assert spans == {"a": (2000, 2000), "b": (4000, 4000), "c": (6400, 1600), "d": (8000, 4000), "e": (0, 4001)}
    for key, complaint in (("f", "is outside"), ("g", "shorter than 0.1 s"), ("h", "has no channel"),
                           ("i", "has channel 2"), ("j", "'nosuch' is not in wav.scp")):  # fmt: skip
        with pytest.raises(ArkError, match=f"{key}: .*{complaint}"):
            audio[key]


def test_words_are_told_apart_by_ascii_white_space(tmp_path: Path) -> None:
    # Kaldi's SplitStringToVector, for which kaldi_native_io's TokenVector stands.
    line = "s\u3000a\u00a0b\tu1\u3000x  u2\u2028y\rz \x1c\n"
    (tmp_path / "spk2utt").write_text(line, newline="")
    ((key, words),) = kaldi_native_io.SequentialTokenVectorReader(f"ark:{tmp_path}/spk2utt")
    assert dict(io_ark.load_spk2utt(f"{tmp_path}/spk2utt")) == {key: words}
    assert parse_segment("a\u00a0b r\u30001\t0 1\r") == Segment("a\u00a0b", "r\u30001", 0.0, 1.0)


@pytest.mark.parametrize(
    "rest", ["r 1", "r 1 2 3 4", "r x 2", "r 0 inf", "r 2 1", "r 1 1", "r -1 2", "r 0 1 x", "r 0 1 -1"]
)
def test_broken_segments_are_refused(rest: str) -> None:
    with pytest.raises(FormatError):
        parse_segment(f"a {rest}")


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.ark"
    with io_ark.writer(f"ark,scp:{path},{tmp_path}/a.scp") as writer:
        writer["one"], writer["two"] = np.zeros(3, np.float32), np.ones(3, np.float32)
    table = io_ark.load_scp(f"{tmp_path}/a.scp")
    assert table["one"].tolist() == table["one"].tolist() == [0, 0, 0]
    header = b"FV \x04\3\0\0\0"
    with open(path, "r+b") as file:
        file.seek(path.read_bytes().index(header) + len(header))
        file.write(np.full(3, 2, np.float32).tobytes())
    assert table["one"].tolist() == [2, 2, 2]


def test_paths_are_names_of_files_whatever_they_look_like(tmp_path: Path) -> None:
    matrix = VALUES["float-matrix"]
    for name in "a.ark", "b.ark:5", "| c", "d |", "e[0:1]", "ark:f", " g ":
        path = tmp_path / name
        with io_ark.writer(path) as writer:
            writer["k"] = matrix
        assert same(dict(io_ark.read(path))["k"], matrix)
        io_ark.save(path, matrix, kind="matrix")
        assert same(io_ark.load(path), matrix) and same(io_ark.load(path, kind="matrix"), matrix)
    assert len(list(tmp_path.iterdir())) == 7
    with io_ark.writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp") as writer:
        writer["k"] = matrix
    scp = tmp_path / "a.scp"
    for table in io_ark.load_scp(scp), dict(io_ark.read(scp)):
        assert same(table["k"], matrix)
    (tmp_path / "utt2spk |").write_text("u s\n")
    assert dict(io_ark.load_utt2spk(tmp_path / "utt2spk |")) == {"u": "s"}


def test_load_of_a_script_file_names_the_function_for_it(tmp_path: Path) -> None:
    (tmp_path / "feats.scp").write_text("a feats.ark:2\n")
    with pytest.raises(
        SpecifierError, match=r"feats\.scp: is a script file: read it with io_ark\.load_scp or io_ark\.read"
    ):
        io_ark.load(tmp_path / "feats.scp")


@pytest.mark.parametrize("door", [lambda name: io_ark.writer(name), lambda name: io_ark.save(name, np.eye(2))])
def test_output_named_like_a_script_file_is_refused_with_advice(door: Any, tmp_path: Path) -> None:
    with pytest.raises(
        io_ark.ArkError,
        match=r"is the name of a script file: choose another name, or pass 'ark,scp:.*/feats\.ark,.*/feats\.scp'",
    ):
        door(f"{tmp_path}/feats.scp")
    assert not list(tmp_path.iterdir())


def test_archive_given_as_a_script_file_is_named_so(tmp_path: Path) -> None:
    with io_ark.writer(f"ark:{tmp_path}/feats.scp") as writer:
        writer["utt"] = np.eye(2)
    with pytest.raises(io_ark.ArkError, match="is binary, but a script file is text"):
        list(io_ark.read(tmp_path / "feats.scp"))


def test_saved_objects_are_loaded_with_their_types(tmp_path: Path) -> None:
    for value in (np.eye(2), np.float32([1, 2]), 3, "word", [1, 2]):
        for binary in True, False:
            io_ark.save(tmp_path / "o", value, binary=binary)
            kind = io_ark.codecs.kind_of(value)
            np.testing.assert_array_equal(io_ark.load(tmp_path / "o", kind=kind), value)
    io_ark.save(tmp_path / "c", np.float32(np.eye(9)), compress="speech")
    assert isinstance(io_ark.load(tmp_path / "c", kind="compressed-matrix"), io_ark.codecs.CompressedMatrix)


def test_arguments_without_a_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected arguments max_duration: pass them to your codec"):
        io_ark.load(tmp_path / "a.wav", max_duration=1.0)
