"""kaldiio's names: what it writes we read to the same values, and the other way round."""

from __future__ import annotations

import importlib
import inspect
import io
import os
import pickle
import re
import tracemalloc
from collections import OrderedDict
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import kaldiio
import kaldiio.compression_header
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.errors import (
    ArkError,
    FormatError,
    MissingKeyError,
    OpenError,
    PipeError,
    SpecifierError,
    TruncatedError,
    WriteError,
)
from io_ark.streams import BytesSource
from kaldi_standins import kaldi_io
from kaldi_standins import kaldiio as ours
from kaldi_standins.kaldiio import compression_header, matio, utils, wavio
from kaldi_standins.kaldiio.plain_pickle import read_pickle
from tests.support.reading_ways import same

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


# Functions that read a script file by a library.
SCRIPT_WAYS = [
    lambda library, scp: dict(library.load_scp(scp)),
    lambda library, scp: dict(library.load_scp(scp, max_cache_fd=3)),
    lambda library, scp: dict(library.load_scp_sequential(scp)),
    lambda library, scp: dict(iter(library.ReadHelper(f"scp:{scp}"))),
]


@pytest.mark.parametrize("table", [TABLE, AUDIO], ids=["arrays", "audio"])
@pytest.mark.parametrize("writer", [kaldiio, ours], ids=["kaldiio writes", "we write"])
def test_both_read_what_either_writes(table: dict[str, Any], writer: Any, tmp_path: Path) -> None:
    ark, scp = f"{tmp_path}/a.ark", f"{tmp_path}/a.scp"
    writer.save_ark(ark, table, scp=scp)
    places = list(map(str.split, Path(scp).read_text().splitlines()))
    for load in (
        lambda library, _: dict(library.load_ark(ark)),
        lambda library, _: dict(iter(library.ReadHelper(f"ark:{ark}"))),
        lambda library, _: {key: library.load_mat(place) for key, place in places},
        *SCRIPT_WAYS,
    ):
        for library in kaldiio, ours:
            same(load(library, scp), table)


def test_bytes_equal_kaldiios(tmp_path: Path) -> None:
    files = {}
    for library in kaldiio, ours:
        ark, scp = tmp_path / "a.ark", tmp_path / "a.scp"
        library.save_ark(str(ark), TABLE, scp=str(scp))
        library.save_ark(str(ark), {"more": TABLE["ints"]}, scp=str(scp), append=True)
        library.save_ark(f"{tmp_path}/new.ark", TABLE, append=True)
        with library.WriteHelper(f"ark,scp,f:{tmp_path}/w.ark,{tmp_path}/w.scp") as writer:
            for key, value in (TABLE | AUDIO).items():
                writer(key, value)
            writer["again"] = TABLE["ints"]
        size = library.save_mat(f"{tmp_path}/m", TABLE["float-matrix"])
        names = "a.ark", "a.scp", "new.ark", "w.ark", "w.scp", "m"
        files[library] = [size, *((tmp_path / name).read_bytes() for name in names)]
        (tmp_path / "new.ark").unlink()
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


@pytest.mark.parametrize("options", [{}, {"text": True}, {"compression_method": 2}, {"endian": ">"}])
@pytest.mark.parametrize("kind", ["vector", "audio"])
def test_masks_are_not_dropped(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    masked = np.ma.masked_array(np.ones(4, np.int16), [True, False, False, False])
    value = (8000, masked) if kind == "audio" else masked.astype(np.float32)
    with pytest.raises(FormatError, match="masked"):
        ours.save_ark(str(tmp_path / "a.ark"), {"a": value}, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_audio_not_int16_is_refused(dtype: Any, tmp_path: Path) -> None:
    for library in kaldiio, ours:
        with pytest.raises(ValueError, match=np.dtype(dtype).name):
            library.save_ark(f"{tmp_path}/a", {"a": (8000, np.full(100, 0.5, dtype))})


@settings(max_examples=40, deadline=None)
@given(method=st.integers(1, 7), rows=st.integers(1, 60), columns=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_compressed_matrices_are_read_alike(
    method: int, rows: int, columns: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    matrix = np.random.default_rng(seed).random((rows, columns)).astype(np.float32)
    ours.save_mat(f"{folder}/c", matrix, compression_method=method)
    np.testing.assert_allclose(ours.load_mat(f"{folder}/c"), kaldiio.load_mat(f"{folder}/c"), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "part",
    ["", "[0:3]", "[2:3,1:2]", "[:,0:1]", "[,1:2]", "[2]", "[0:4:2]", "[5:99]", "[30:40]", "[:]", "[ 1:2 ]", "[-3:-1]"],
)
def test_ranges_take_the_same_part(part: str, tmp_path: Path) -> None:
    places = {}
    for key, value in (TABLE | AUDIO).items():
        kaldiio.save_ark(f"{tmp_path}/{key}", {key: value})
        if isinstance(value, tuple) or value.ndim == 2 or "," not in part:
            places[key] = f"{tmp_path}/{key}:{len(key) + 1}{part}"
    (tmp_path / "scp").write_text(
        "".join(f"{key} {place}\n" for key, place in places.items() if key != "mono" or "," not in part)
    )
    for load in SCRIPT_WAYS:
        same(load(ours, f"{tmp_path}/scp"), load(kaldiio, f"{tmp_path}/scp"))


@pytest.mark.parametrize("part", ["[a:b]", "[0:1,0:1,0:1]", "[1:2:3:4]", "[0:1:0]"])
def test_invalid_range_is_refused(part: str, tmp_path: Path) -> None:
    ours.save_mat(f"{tmp_path}/m", TABLE["float-matrix"])
    with pytest.raises(ArkError):
        ours.load_mat(f"{tmp_path}/m{part}")


def test_error_of_a_name_without_a_range_has_the_whole_name() -> None:
    with pytest.raises(SpecifierError, match=r"^'\| cat > a\[1' starts with"):
        ours.load_mat("| cat > a[1")


TEXT = "a 3\nb 1 2 3\nc 1.5 2\nd  [ 0 1 2 ]\ne  [ 0.5 1 2 ]\nf  [\n  1 2\n  3 -4 ]\ng  [\n  1.5 2\n  3 4 ]\nh 2.5\n"


def test_text_gives_the_arrays_of_kaldiio(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(TEXT)
    mine = dict(ours.load_ark(f"{tmp_path}/t"))
    assert list(mine) == list("abcdefgh")
    same(mine, dict(kaldiio.load_ark(f"{tmp_path}/t")))


def test_text_with_mixed_numbers_is_float(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a  [ 1 2.5 ]\nb two words\nc 1 2.5\n")
    mine = dict(ours.load_ark(f"{tmp_path}/t"))
    assert (mine["a"].tolist(), mine["a"].dtype, mine["b"]) == ([1.0, 2.5], np.float32, ["two", "words"])
    assert (mine["c"].tolist(), mine["c"].dtype) == ([1.0, 2.5], np.float32)
    (tmp_path / "t").write_text("a  [ 1 99999999999 ]\n")
    with pytest.raises(FormatError, match="do not fit"):
        dict(ours.load_ark(f"{tmp_path}/t"))


@pytest.mark.parametrize("options", ["", "t,", "f,"])
def test_classes_derived_from_write_helper_write_entries_by_themselves(options: str, tmp_path: Path) -> None:
    written = []
    for library in (kaldiio, ours):

        class Helper(library.WriteHelper):  # type: ignore[name-defined,misc]
            library: Any

            def __call__(self, key: str, array: Any) -> None:
                if key == "through save_ark":
                    given = {"text": self.text, "compression_method": self.compression_method}
                    self.library.save_ark(
                        self.fark, {key[:7]: array}, scp=self.fscp, write_function=self.write_function, **given
                    )
                elif key == "bytes":
                    self.fark.write(b"bytes ")
                    self.fscp.write(f"bytes {self.fark.name}:{self.fark.tell()}\n")
                    self.library.save_mat(self.fark, array)
                else:
                    super().__call__(key, array)
                if self.flush:
                    self.fark.flush()
                    self.fscp.flush()

        Helper.library = library
        with Helper(f"ark,scp,{options}:{tmp_path}/a.ark,{tmp_path}/a.scp".replace(",:", ":")) as helper:
            for key in ("a", "through save_ark", "b", "bytes", "c"):
                helper(key, np.ones((2, 3), np.float32))
            assert not helper.closed
        assert helper.closed
        written.append([(tmp_path / name).read_bytes() for name in ("a.ark", "a.scp")])
    assert written[0] == written[1]


def test_floats_in_text_are_written_alike(tmp_path: Path) -> None:
    floats = {key: value for key, value in TABLE.items() if key != "ints"}
    for library, name in (kaldiio, "k"), (ours, "o"):
        library.save_ark(f"{tmp_path}/{name}", floats, text=True)
        with library.WriteHelper(f"ark,t:{tmp_path}/{name}w") as writer:
            for key, value in floats.items():
                writer(key, value)
    for end in "", "w":
        assert (tmp_path / f"o{end}").read_bytes() == (tmp_path / f"k{end}").read_bytes()
    for key, value in ours.load_ark(f"{tmp_path}/o"):
        np.testing.assert_array_equal(value, floats[key].astype(np.float32))


@pytest.mark.parametrize("separator", ["\t", ","])
def test_separator_after_keys_is_used(separator: str, tmp_path: Path) -> None:
    ours.save_ark(f"{tmp_path}/a", TABLE, scp=f"{tmp_path}/a.scp")
    lines = (tmp_path / "a.scp").read_text().replace(" ", separator).replace("float-matrix", "float matrix")
    (tmp_path / "b.scp").write_text(lines)
    for load in "load_scp", "load_scp_sequential":
        theirs, mine = (
            dict(getattr(library, load)(f"{tmp_path}/b.scp", separator=separator)) for library in (kaldiio, ours)
        )
        assert "float matrix" in mine
        same(mine, theirs)
    with pytest.raises(FormatError, match="line 1 has no"):
        ours.load_scp(f"{tmp_path}/b.scp", separator="|")


def test_segments_are_cut(tmp_path: Path) -> None:
    ours.save_ark(f"{tmp_path}/w.ark", AUDIO, scp=f"{tmp_path}/w.scp")
    (tmp_path / "segments").write_text(
        "a mono 0.25 0.5\nb mono 0.5 -1\nc stereo 0.1 0.2\nd mono 0.5 0.55\ne mono 0.9 9\n"
        "f mono 0.00019 0.5001\ng stereo 0 0.3\n"
    )
    theirs = kaldiio.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    mine = ours.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    helper = dict(iter(ours.ReadHelper(f"scp:{tmp_path}/w.scp", segments=f"{tmp_path}/segments")))
    assert list(mine) == list("abcdefg")
    same(dict(mine), dict(theirs))
    same(helper, dict(theirs))
    again = pickle.loads(pickle.dumps(mine))
    same(again["c"], mine["c"])
    (tmp_path / "segments").write_text("a stereo 0 0.1 1\nb mono 0 0.1 0\n")
    channels = ours.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    same(channels["a"], (16000, AUDIO["stereo"][1][:1600, 1]))
    same(channels["b"], (8000, AUDIO["mono"][1][:800]))
    (tmp_path / "segments").write_text("a mono 2 3\nb absent 0 1\nc stereo 0 1 2\n")
    mine = ours.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    for key in mine:
        with pytest.raises(ArkError, match=f"{key}|absent"):
            mine[key]


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
    "text",
    [
        "ark:a",
        "scp:a",
        "ark,scp:a,b",
        "ark,t,f:-",
        "ark,scp,t:a,b,c",
        "scp,p:a",
        "ark,s,cs,o:a",
        "scp,ark:b,a",
        "t,scp,ark:b,a",
    ],
)
def test_specifiers_are_parsed_alike(text: str) -> None:
    assert ours.parse_specifier(text) == dict(kaldiio.parse_specifier(text))


def test_unsupported_arguments_are_refused(tmp_path: Path) -> None:
    for call in (
        lambda: ours.load_mat("x", endian="="),
        lambda: ours.save_ark(f"{tmp_path}/a", TABLE, endian="big"),
        lambda: ours.save_ark(f"{tmp_path}/a", TABLE, write_function=np.save),
        lambda: ours.save_ark(f"{tmp_path}/a", TABLE, write_function="json"),
        lambda: ours.WriteHelper(f"ark:{tmp_path}/a", write_function="numpy_x"),
        lambda: ours.save_ark(f"{tmp_path}/a", AUDIO, write_function="soundfile_flac"),
        lambda: ours.ReadHelper("ark:x", segments="y"),
        lambda: ours.parse_specifier("nothing"),
        lambda: ours.matio.SegmentsExtractor("x"),
    ):
        with pytest.raises(SpecifierError):
            call()
    with pytest.raises(FormatError, match=r"^a: "):
        ours.save_ark(f"{tmp_path}/a", {"a": None})
    with pytest.raises(OpenError, match="cannot be opened for writing"):
        ours.save_ark(f"{tmp_path}/nosuch/a.ark", TABLE, append=True)
    ours.save_ark(f"{tmp_path}/b.ark", TABLE, scp=f"{tmp_path}/b.scp")
    with pytest.raises(MissingKeyError):
        ours.load_scp(f"{tmp_path}/b.scp")["nosuch"]
    with pytest.raises(FileNotFoundError, match="cannot be opened"):
        ours.load_mat(f"{tmp_path}/nosuch.ark")
    with open_pipe() as pipe, pytest.raises(SpecifierError, match="without positions"):
        ours.save_ark(pipe, TABLE, scp=f"{tmp_path}/c.scp")


def open_pipe() -> Any:
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "wb", buffering=0)


NOTHING = ["false |", "nosuch_program -i x |", "/dev/null", "empty", "empty:0", "blank", "echo |"]


@pytest.mark.parametrize("place", NOTHING)
def test_object_of_no_bytes_is_an_error_as_in_kaldiio(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("blank").write_text("  \n")
    Path("a.scp").write_text(f"u {place}\n")
    for library, error in (kaldiio, (AssertionError, OSError)), (ours, ArkError):
        for read in lambda library, _: library.load_mat(place), *SCRIPT_WAYS:
            with pytest.raises(error):
                read(library, "a.scp")


def test_failing_command_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.scp").write_text("u nosuch_program -i x |\nv echo 1 2 |\n")
    with pytest.raises(PipeError, match="u: the command had nonzero return status 32512"):
        ours.load_scp(f"{tmp_path}/a.scp")["u"]
    assert [key for key, _ in ours.ReadHelper(f"scp,p:{tmp_path}/a.scp")] == ["v"]


def test_only_a_blank_line_in_an_archive_is_an_empty_vector(tmp_path: Path) -> None:
    (tmp_path / "a.ark").write_text("u 1 2\nv \nw 3")
    assert [value.tolist() for _, value in ours.load_ark(f"{tmp_path}/a.ark")] == [[1, 2], [], [3]]
    (tmp_path / "a.ark").write_text("u 1 2\nv ")
    with pytest.raises(FormatError, match="v: expected an object, found nothing"):
        dict(ours.load_ark(f"{tmp_path}/a.ark"))


def test_segments_of_training_examples_are_refused(tmp_path: Path) -> None:
    examples = Path(__file__).parents[3] / "tests" / "data" / "nnet_examples" / "nnet.ark"
    offset = examples.read_bytes().index(b" ") + 1
    (tmp_path / "egs.scp").write_text(f"rec {examples}:{offset}\n")
    (tmp_path / "segments").write_text("utt rec 0 1\n")
    table = ours.load_scp(f"{tmp_path}/egs.scp", segments=f"{tmp_path}/segments")
    with pytest.raises(FormatError, match="utt: the recording 'rec' is not audio"):
        table["utt"]
    with pytest.raises(ArkError):
        ours.load_mat(f"{examples}:{offset}[0:1]")


BYTES_AUDIO: dict[str, Any] = {
    "mono": (8000, RNG.integers(0, 255, 4001).astype(np.uint8)),
    "stereo": (16000, RNG.integers(0, 255, (300, 2)).astype(np.uint8)),
}


def files_of(library: Any, folder: Path, table: dict[str, Any], **options: Any) -> tuple[bytes, bytes]:
    library.save_ark(f"{folder}/a.ark", table, scp=f"{folder}/a.scp", **options)
    return (folder / "a.ark").read_bytes(), (folder / "a.scp").read_bytes()


@pytest.mark.parametrize("compression", [None, 2, 3, 5])
def test_big_endian_archives_equal_kaldiios(compression: int | None, tmp_path: Path) -> None:
    table = TABLE if compression is None else {"a": TABLE["float-matrix"], "b": TABLE["float-matrix"][:9]}
    options = {"endian": ">", "compression_method": compression}
    mine = files_of(ours, tmp_path, table, **options)
    read = dict(ours.load_ark(f"{tmp_path}/a.ark", endian=">"))
    by_script = ours.load_scp(f"{tmp_path}/a.scp", endian=">")
    assert files_of(kaldiio, tmp_path, table, **options)[1] == mine[1]
    theirs = dict(kaldiio.load_ark(f"{tmp_path}/a.ark", endian=">"))
    if compression is None:
        assert (tmp_path / "a.ark").read_bytes() == mine[0]
    for key, value in theirs.items():
        np.testing.assert_allclose(read[key], value, atol=1e-5)
        np.testing.assert_array_equal(by_script[key], read[key])


def test_big_endian_arrays_are_writable(tmp_path: Path) -> None:
    for key, array in {"matrix": np.ones((2, 3)), "vector": np.ones(3, np.float32)}.items():
        ours.save_ark(f"{tmp_path}/a.ark", {key: array}, endian=">")
        ((_, again),) = ours.load_ark(f"{tmp_path}/a.ark", endian=">")
        assert again.flags.writeable
        same(again, array)


def test_sizes_of_big_endian_objects_are_checked(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"\0BFM \x04\x7f\xff\xff\xff\x04\x7f\xff\xff\xff")
    with pytest.raises(ArkError, match=r"expected \d+ more bytes"):
        ours.load_mat(f"{tmp_path}/m", endian=">")
    (tmp_path / "m").write_bytes(b"\0B\x04\xff\xff\xff\xff")
    with pytest.raises(FormatError, match="invalid size: -1"):
        ours.load_mat(f"{tmp_path}/m", endian=">")


def test_audio_of_8_bits_equals_kaldiios(tmp_path: Path) -> None:
    assert files_of(ours, tmp_path, BYTES_AUDIO) == files_of(kaldiio, tmp_path, BYTES_AUDIO)
    same(dict(ours.load_scp(f"{tmp_path}/a.scp")), BYTES_AUDIO)  # kaldiio misreads all audio but the first.
    size = wavio.write_wav(f"{tmp_path}/a.wav", *BYTES_AUDIO["mono"])
    assert size == (tmp_path / "a.wav").stat().st_size
    same(wavio.read_wav(f"{tmp_path}/a.wav"), BYTES_AUDIO["mono"])


SAMPLES = RNG.integers(-1000, 1000, (500, 2)) / 32768
SOUNDS = {"a": (8000, SAMPLES), "b": (SAMPLES, 16000)}


@pytest.mark.parametrize(
    ("table", "options"),
    [
        ({"a": np.zeros((0, 3), np.float32), "b": np.zeros((0, 0))}, {}),
        ({"a": np.array([3, -4, 5], np.int32)}, {"text": True}),
        ({"a": SAMPLES, "b": SAMPLES[:10, 0]}, {"write_function": "numpy"}),
        (SOUNDS, {"write_function": "soundfile"}),
        (SOUNDS, {"write_function": "soundfile", "write_kwargs": {"format": "flac"}}),
        (SOUNDS, {"write_function": "soundfile", "write_kwargs": {"subtype": "FLOAT"}}),
    ],
    ids=["empty", "text", "numpy", "wav", "flac", "float"],
)
def test_other_archives_equal_kaldiios(table: dict[str, Any], options: dict[str, Any], tmp_path: Path) -> None:
    if "soundfile" in options.get("write_function", ""):
        pytest.importorskip("soundfile")
    assert files_of(ours, tmp_path, table, **options) == files_of(kaldiio, tmp_path, table, **options)
    expected = dict(kaldiio.load_ark(f"{tmp_path}/a.ark"))
    assert list(expected) == list(table)
    same(dict(ours.load_ark(f"{tmp_path}/a.ark")), expected)
    same(dict(ours.load_scp(f"{tmp_path}/a.scp")), expected)


def test_espnet_flac_archives_are_read(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    samples = RNG.integers(-1000, 1000, 3000) / 32768
    with open(f"{tmp_path}/a.ark", "wb") as ark, open(f"{tmp_path}/a.scp", "w") as scp:
        for key in "ab":
            ours.save_ark(
                ark,
                {key: (samples, 16000)},
                scp=scp,
                append=True,
                write_function="soundfile",
                write_kwargs={"format": "flac"},
            )
    assert b"fLaC" in (tmp_path / "a.ark").read_bytes()
    for key, (rate, read) in kaldiio.load_scp(f"{tmp_path}/a.scp").items():
        assert (key in "ab", rate) == (True, 16000)
        np.testing.assert_allclose(read, samples)
    same(ours.load_scp(f"{tmp_path}/a.scp")["b"], (16000, samples))


def test_flac_in_wav_scp_is_read(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    samples = RNG.integers(-1000, 1000, 3000).astype(np.int16)
    soundfile.write(f"{tmp_path}/a.flac", samples, 16000)
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.flac\nb cat {tmp_path}/a.flac |\n")
    for library in kaldiio, ours:
        table = library.load_scp(f"{tmp_path}/wav.scp")
        for key in "ab":
            same(table[key], (16000, samples / 32768))
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(50))
    with pytest.raises(FormatError, match="soundfile"):
        ours.load_scp(f"{tmp_path}/wav.scp")["a"]


def test_wave_files_of_other_formats_are_read_by_soundfile(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    samples = RNG.integers(-1000, 1000, (300, 2)) / 32768
    for subtype in "PCM_24", "FLOAT":
        soundfile.write(f"{tmp_path}/a.wav", samples, 8000, subtype=subtype)
        same(ours.load_mat(f"{tmp_path}/a.wav"), (8000, samples))
        data = (tmp_path / "a.wav").read_bytes()
        (tmp_path / "a.ark").write_bytes(b"a " + data + b"b " + data)
        assert list(dict(ours.load_ark(f"{tmp_path}/a.ark"))) == ["a", "b"]


def test_words_are_not_taken_for_tags_of_extended_objects(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a AUDIO BOOK\nb NPY\nc PKL file\nd fLa\n")
    assert dict(ours.load_ark(f"{tmp_path}/text")) == {
        "a": ["AUDIO", "BOOK"], "b": "NPY", "c": ["PKL", "file"], "d": "fLa",
    }  # fmt: skip


PLAIN = {
    "number": 3.5,
    "list": [1, "two", b"3", None, (True, 2**70)],
    "audio": (8000, np.linspace(0, 1, 7)),
    "arrays": {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "f": np.asfortranarray(np.eye(3))[:, 1:]},
    "scalar": np.float32(0.25),
    "big-endian": np.arange(3, dtype=">i4"),
}


@pytest.mark.parametrize(
    ("head", "is_extended"),
    [(b"AUDIO\1x", True), (b"AUDIO\10x", True), (b"AUDIO\11x", False), (b"AUDIO\0B", False), (b"NPY\2xx", True),
     (b"NPY\0BFM", False), (b"NPY 1 2", False), (b"PKL\x80\4x", True), (b"PKL\1xx", False), (b"fLaC\0\0", True)],
)  # fmt: skip
def test_tag_is_followed_by_the_number_of_bytes_of_a_size(head: bytes, is_extended: bool) -> None:
    from kaldi_standins.kaldiio.extended import find_extended_reader

    assert (find_extended_reader(head) is not None) == is_extended


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickles_of_plain_values_are_read(protocol: int, tmp_path: Path) -> None:
    for library in kaldiio, ours:
        files_of(library, tmp_path, PLAIN, write_function="pickle", write_kwargs={"protocol": protocol})
        for table in dict(ours.load_ark(f"{tmp_path}/a.ark")), dict(ours.load_scp(f"{tmp_path}/a.scp")):
            assert list(table) == list(PLAIN)
            assert table["list"] == PLAIN["list"] and table["scalar"] == 0.25
            same(table["audio"], PLAIN["audio"])
            same(table["big-endian"], PLAIN["big-endian"])
            for key, array in table["arrays"].items():
                same(array, PLAIN["arrays"][key])


@pytest.mark.parametrize("protocol", [0, 1])
def test_a_pickle_that_could_not_be_read_is_not_written(protocol: int, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="pass protocol=2"):
        files_of(ours, tmp_path, {"a": [1]}, write_function="pickle", write_kwargs={"protocol": protocol})


class Harmful:
    """Pickled as a call of a function."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call = call, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "value",
    [Harmful(os.system, "touch harmed"), Harmful(print, "harmed"), Path("x"), Harmful(eval, "1"), np.array([None, 1])],
)
def test_pickles_run_no_code(value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p").write_bytes(b"PKL" + pickle.dumps(value))
    with pytest.raises(FormatError, match="pickle"):
        ours.load_mat(f"{tmp_path}/p")
    assert not (tmp_path / "harmed").exists()
    with pytest.raises(FormatError, match="cannot pickle"):
        ours.save_ark(f"{tmp_path}/q", {"a": [value]}, write_function="pickle")


@pytest.mark.parametrize("name", ["dtype", "scalar", "_frombuffer"])
def test_functions_with_names_of_numpy_in_other_modules_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match=f"a pickle names other.{name}: "):
        read_pickle(BytesSource(b"\x80\x02cother\n" + name.encode() + b"\nU\x02f4\x85R."))


def test_pickle_of_a_complex_number_is_read(tmp_path: Path) -> None:
    ours.save_ark(f"{tmp_path}/a", {"a": [1 + 2j]}, write_function="pickle")
    assert dict(ours.load_ark(f"{tmp_path}/a")) == {"a": [1 + 2j]}


@pytest.mark.parametrize("value", [OrderedDict(a=1), np.ma.masked_array([1])], ids=["dict", "array"])
def test_subclasses_of_plain_types_are_not_pickled(value: Any, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot pickle an object of type"):
        ours.save_ark(f"{tmp_path}/a", {"a": value}, write_function="pickle")


def test_truncated_pickle_is_an_error(tmp_path: Path) -> None:
    data = b"PKL" + pickle.dumps(PLAIN["audio"])
    for size in (*range(5, len(data), 9), len(data) - 1):
        (tmp_path / "p").write_bytes(data[:size])
        with pytest.raises(ArkError):
            ours.load_mat(f"{tmp_path}/p")


PLAIN_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
)


@given(value=PLAIN_VALUES, protocol=st.integers(2, 5))
def test_any_plain_value_is_read_as_it_was_pickled(value: Any, protocol: int) -> None:
    assert read_pickle(BytesSource(pickle.dumps(value, protocol))) == value


@given(data=st.data(), protocol=st.integers(2, 5))
def test_damaged_pickle_is_a_value_or_an_error(data: Any, protocol: int) -> None:
    damaged = bytearray(pickle.dumps(PLAIN | {"more": [{1, 2}, frozenset("a"), np.arange(3, dtype=">i4")]}, protocol=4))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        some = data.draw(
            st.binary(max_size=2) | st.sampled_from([bytes([code]) for code in b"(ae0tbRrqhj}])u.\x94\x90"])
        )
        damaged[at : at + data.draw(st.integers(0, 2))] = some
    with suppress(ArkError):
        read_pickle(BytesSource(bytes(damaged)))


DEEP = b"\x80\x02}" + b")" + 100_000 * b"\x85" + b"Ns."
BOMBS = {
    "a number for a value put aside": b"\x80\x02Nr\xff\xff\xff\x01.",
    "nested tuples as a key": DEEP,
    "nested tuples in a set": DEEP.replace(b"}", b"\x8f(").replace(b"Ns", b"\x90"),
    "nested tuples in a frozen set": DEEP.replace(b"}", b"(").replace(b"Ns", b"\x91"),
    "nested tuples beside numbers as a key": DEEP.replace(b"\x85", b"K\1\x86"),
    "one tuple as many keys": b"\x80\x02(" + 10_000 * b"K\1" + b"tq\0}" + 10_000 * b"h\0Ns" + b".",
    "many arrays of the same bytes": b"(B\x40\x42\x0f\0" + bytes(10**6) + b"q\1" + 300 * (
        b"cnumpy\n_reconstruct\n)R(K\1J\x90\xd0\3\0\x85cnumpy\ndtype\nX\2\0\0\0f4\x85R\x89h\1tb") + b"t.",
    "many texts to encode": b"(X\x40\x42\x0f\0" + 10**6 * b"a" + b"q\1"
        + 1000 * b"c_codecs\nencode\nh\1X\6\0\0\0latin1\x86R" + b"t.",
    "a text as a function": b"X\1\0\0\0a)R.",
    "a function as a value": b"]cnumpy\ndtype\na.",
    "an array without values": b"]cnumpy\n_reconstruct\n)Ra.",
    "a change of a list": b"]Nb.",
    "more taken than there is": b"N\x87.",
    "two values": b"NN.",
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("name", BOMBS)
def test_pickle_takes_no_more_memory_than_its_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pickle, "Unpickler")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"^<bytes>:0: a pickle") if "aside" not in name else nullcontext():
            read_pickle(BytesSource(BOMBS[name]))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_tuples_without_tuples_are_read_as_keys_and_members() -> None:
    value = {(): 1, (1, "a"): {(), (2,)}}
    assert read_pickle(BytesSource(pickle.dumps(value))) == value


def test_lists_that_refer_to_each_other_are_read_at_once() -> None:
    laughs: list[Any] = []
    for _ in range(200):
        laughs = [laughs, laughs]
    found = read_pickle(BytesSource(pickle.dumps(laughs)))
    for _ in range(200):
        assert found[0] is found[1]
        found = found[0]
    assert found == []


def test_numpy_array_is_no_larger_than_its_bytes(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    zipped = io.BytesIO()
    np.savez(zipped, a=np.zeros(3))
    for data in file.getvalue(), zipped.getvalue(), b"":
        size = len(data).to_bytes(2, "little")
        (tmp_path / "a.ark").write_bytes(b"a NPY\2" + size + data)
        with pytest.raises(FormatError, match=r"a\.ark: a: cannot be read as a \.npy array"):
            dict(ours.load_ark(f"{tmp_path}/a.ark"))


def test_last_line_of_a_duplicate_key_is_used(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", {"a": TABLE["ints"], "b": TABLE["float-vector"]}, scp=f"{tmp_path}/a.scp")
    lines = (tmp_path / "a.scp").read_text()
    (tmp_path / "d.scp").write_text(lines + lines.replace("b ", "a ").splitlines()[1] + "\n")
    for separator in None, " ":
        for library in kaldiio, ours:
            table = library.load_scp(f"{tmp_path}/d.scp", separator=separator)
            assert (len(table), list(table)) == (2, ["a", "b"])
            same(table["a"], TABLE["float-vector"])


def test_loaded_script_has_the_methods_of_a_mutable_mapping(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", TABLE, scp=f"{tmp_path}/a.scp")
    for library in kaldiio, ours:
        table = library.load_scp(f"{tmp_path}/a.scp")
        assert list(table.keys()) == list(TABLE) and len(list(table.values())) == len(TABLE)
        table["new"] = f"{tmp_path}/a.ark:13"
        same(table["new"], TABLE["float-matrix"])
        del table["ints"]
        assert "ints" not in table and table.get("ints") is None and len(table) == len(TABLE)
        same(table.pop("new"), TABLE["float-matrix"])
        with pytest.raises(KeyError):
            del table["new"]
    loader = utils.LazyLoader(len, {})
    assert repr(loader) == "LazyLoader [0 keys]"


def test_notebook_completes_the_keys_of_a_script_file(tmp_path: Path) -> None:
    ours.save_ark(f"{tmp_path}/a.ark", TABLE, scp=f"{tmp_path}/a.scp")
    for table in ours.load_scp(f"{tmp_path}/a.scp"), io_ark.load_scp(f"{tmp_path}/a.scp"):
        assert table._ipython_key_completions_() == list(TABLE)  # type: ignore[attr-defined]


def test_opened_files_can_seek(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    for library in kaldiio, ours:
        with library.open_like_kaldi(f"{tmp_path}/a", "rb") as file:
            file.seek(4)
            assert (file.read(2), file.tell()) == (b"45", 6)
    with ours.open_like_kaldi(f"{tmp_path}/b", "wb") as file:
        file.write(b"abc")
        file.seek(1)
        file.write(b"x")
    assert (tmp_path / "b").read_bytes() == b"axc"
    with pytest.raises(FileNotFoundError):
        ours.open_like_kaldi(f"{tmp_path}/nosuch")


@pytest.mark.parametrize("through_pipe", [False, True])
def test_single_objects_are_read_from_an_open_file(through_pipe: bool, tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", TABLE)
    with ours.open_like_kaldi(f"cat {tmp_path}/a.ark |" if through_pipe else f"{tmp_path}/a.ark", "rb") as file:
        for key, value in TABLE.items():
            assert matio.read_token(file) == key
            same(matio.read_kaldi(file), value)
        assert matio.read_token(file) is None
    memory = io.BytesIO((tmp_path / "a.ark").read_bytes())
    next(ours.load_ark(memory))  # After this, the file is at the next entry.
    assert matio.read_token(memory) == list(TABLE)[1]


def test_names_of_submodules_are_used_as_in_kaldiio(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", TABLE | AUDIO, scp=f"{tmp_path}/a.scp")
    kaldiio.save_ark(f"{tmp_path}/t.ark", {"float-matrix": TABLE["float-matrix"]}, text=True)
    for line in (tmp_path / "a.scp").read_text().splitlines():
        key, place = line.split()
        found = []
        for library in kaldiio.matio, matio:
            name, offset, slices = library._parse_arkpath(f"{place}[0:2]")
            with library.open_or_fd(name, "rb") as file:
                assert library.seekable(file)
                found.append([library._load_mat(file, offset, slices)])
                if key not in AUDIO:
                    read = library.read_int32vector if key == "ints" else library.read_matrix_or_vector
                    file.seek(offset)
                    found[-1] += read(file, return_size=True)
        same(found[1][0], found[0][0])
        for theirs, mine in zip(found[0][1:], found[1][1:], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for library in kaldiio.matio, matio:
        with library.open_or_fd(f"{tmp_path}/t.ark", "rb") as file:
            assert library.read_token(file) == "float-matrix"
            value, size = library.read_ascii_mat(file, return_size=True)
            assert (value.shape, size) == ((20, 5), file.tell() - len("float-matrix "))
            same(value, TABLE["float-matrix"])
        with utils.open_or_fd(f"{tmp_path}/odd|", "w") as file:
            file.write("text")
        assert (tmp_path / "odd|").read_text() == "text"
        with library.open_or_fd(io.BytesIO(b"x"), "rb") as file:
            assert file.read() == b"x"
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert not utils.seekable(pipe)


def written_with_a_full_disk(write: Any, room: int = 100_000) -> dict[str, Any]:
    """Call ``write(key, matrix)`` 60 times; some fail, because a file may not grow. Return what was accepted."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    accepted = {}
    for number in range(60):
        key, matrix = f"k{number:02d}", RNG.standard_normal((20 + number, 20)).astype(np.float32)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[0] if number > 40 else room, limits[1]))
        try:
            write(key, matrix)
            accepted[key] = matrix
        except WriteError:
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 20 < len(accepted) < 60
    return accepted


@pytest.mark.parametrize("scp", [None, "a.scp"])
def test_a_failed_append_is_taken_back(scp: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accepted = written_with_a_full_disk(lambda key, value: ours.save_ark("a.ark", {key: value}, scp=scp, append=True))
    assert "k59" in accepted
    for found in [dict(ours.load_ark("a.ark"))] + ([dict(ours.load_scp(scp))] if scp else []):
        assert list(found) == list(accepted)
        for key, value in accepted.items():
            same(found[key], value)


@pytest.mark.parametrize("library", ["kaldiio", "kaldi_io"])
def test_an_open_file_takes_no_entry_after_a_part_of_one(library: str, tmp_path: Path) -> None:
    with open(tmp_path / "a.ark", "wb") as file:
        accepted = written_with_a_full_disk(
            (lambda key, value: ours.save_ark(file, {key: value}))
            if library == "kaldiio"
            else (lambda key, value: kaldi_io.write_mat(file, value, key))
        )
        with pytest.raises(WriteError, match="an earlier write failed"):
            ours.save_mat(file, np.ones((2, 2), np.float32))
    assert "k59" not in accepted
    found = {}
    with pytest.raises(TruncatedError):
        found.update(ours.load_ark(f"{tmp_path}/a.ark"))
    assert list(found) == list(accepted)


def test_compression_methods_have_the_originals_numbers() -> None:
    for name in filter(re.compile("k[A-Z]").match, compression_header.__all__):
        assert getattr(compression_header, name) == getattr(kaldiio.compression_header, name)


def test_value_that_save_mat_refuses_is_one_error_and_leaves_no_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for write in ours.save_mat, matio.write_array_ascii:
        with open(tmp_path / "m", "wb") as file:
            with pytest.raises(ArkError, match="dict"):
                write(file, {1: 2})
            write(file, np.ones((2, 2), np.float32))
        assert ours.load_mat(f"{tmp_path}/m").tolist() == [[1, 1], [1, 1]]
    assert not caplog.records


NOT_GIVEN = {"matio": {"Mapping", "MultiFileDescriptor", "LimitedSizeDict"}, "utils": {
    "CountFileDescriptor", "LimitedSizeDict", "MultiFileDescriptor", "MutableMapping", "OrderedDict", "TextIOBase",
}}  # fmt: skip


@pytest.mark.parametrize("module", ["matio", "utils", "wavio", "highlevel", "compression_header", "python_wave"])
def test_public_names_of_submodules_are_given(module: str) -> None:
    theirs = importlib.import_module(f"kaldiio.{module}")
    mine = importlib.import_module(f"kaldi_standins.kaldiio.{module}")
    modules = {name for name, value in vars(theirs).items() if inspect.ismodule(value)}
    standard = {"BytesIO", "StringIO", "partial", "contextmanager", "division", "unicode_literals", "PY3", "namedtuple"}
    standard |= {"KSDATAFORMAT_SUBTYPE_PCM", "WAVE_FORMAT_EXTENSIBLE", "WAVE_FORMAT_PCM"}
    names = {name for name in vars(theirs) if not name.startswith("_")} - modules - standard
    assert names - set(dir(mine)) - {"Chunk"} <= NOT_GIVEN.get(module, set())


@pytest.mark.parametrize("method", [2, 3, 5])
@pytest.mark.parametrize("endian", "<>")
def test_headers_of_compressed_matrices_equal_kaldiios(method: int, endian: str) -> None:
    array = TABLE["float-matrix"]
    theirs = kaldiio.compression_header.GlobalHeader.compute(array, method, endian)
    mine = compression_header.GlobalHeader.compute(array, method, endian)
    assert (mine.type, mine.size, mine.c, mine.rows, mine.cols) == (theirs.type, theirs.size, theirs.c, 20, 5)
    np.testing.assert_array_equal(mine.float_to_uint(array), theirs.float_to_uint(array))
    np.testing.assert_allclose(mine.uint_to_float(mine.float_to_uint(array)), array, atol=0.02)
    written, columns = [io.BytesIO(), io.BytesIO()], []
    for file, module, header in zip(
        written, (kaldiio.compression_header, compression_header), (theirs, mine), strict=True
    ):
        assert header.write(file) == header.size
        if method == 2:
            columns.append(module.PerColHeader.compute(array, header))
            assert columns[-1].write(file, header) == columns[-1].size == 40
    assert written[0].getvalue() == written[1].getvalue()
    written[0].seek(len(mine.type) + 1)
    assert compression_header.GlobalHeader.read(written[0], mine.type, endian) == mine
    if method == 2:
        read = compression_header.PerColHeader.read(written[0], mine)
        theirs_codes, codes = (each.float_to_char(array.T) for each in (columns[0], read))
        np.testing.assert_array_equal(codes, theirs_codes)
        np.testing.assert_allclose(read.char_to_float(codes), columns[0].char_to_float(codes), atol=2e-6)


def test_places_of_a_loaded_script_are_its_dict(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", TABLE, scp=f"{tmp_path}/a.scp")
    theirs, mine = (library.load_scp(f"{tmp_path}/a.scp") for library in (kaldiio, ours))
    assert mine._dict == theirs._dict
    mine._dict["again"] = mine._dict["ints"]
    same(mine["again"], TABLE["ints"])


def test_arguments_of_matio_are_taken(tmp_path: Path) -> None:
    audio = AUDIO["mono"]
    for library in kaldiio, ours:
        library.save_ark(f"{tmp_path}/a.ark", {"a": audio}, write_function="soundfile")
        for module in kaldiio.matio, matio:
            with open(f"{tmp_path}/a.ark", "rb") as file:
                file.seek(2)
                _, samples = module.read_kaldi(file, audio_loader="soundfile", load_kwargs={"dtype": "int16"})
                same(samples, audio[1])
    with pytest.raises(SpecifierError, match="audio_loader"):
        matio.read_kaldi(io.BytesIO(b"x"), audio_loader="sox")
    with pytest.raises(FormatError, match="decoded"):
        matio.read_kaldi(io.BytesIO((tmp_path / "a.ark").read_bytes()[2:]), load_kwargs={"dtype": "text"})
    for array in (TABLE["float-matrix"], TABLE["double-vector"], TABLE["ints"]):
        for arguments in {}, {"digit": ".3e"} if array.dtype.kind == "f" else {"digit": "05d"}:
            written = [io.BytesIO(), io.BytesIO()]
            sizes = [
                module.write_array_ascii(file, array, **arguments)
                for module, file in zip((kaldiio.matio, matio), written, strict=True)
            ]
            assert written[0].getvalue() == written[1].getvalue()
            assert sizes == [len(written[0].getvalue())] * 2
    ours.save_ark(f"{tmp_path}/w.ark", AUDIO, scp=f"{tmp_path}/wav.scp")
    (tmp_path / "segments").write_text("s1 mono 0.1 0.5\ns2 stereo 0.2 -1\n")
    theirs, mine = (
        module.SegmentsExtractor(f"{tmp_path}/wav.scp", segments=f"{tmp_path}/segments")
        for module in (kaldiio.matio, matio)
    )
    for key in theirs:
        same(mine[key][1], theirs[key][1])


def test_commands_and_sizes_are_read_as_by_kaldiio() -> None:
    with utils.my_popen("echo text") as file:
        assert file.read() == "text\n"
    file = io.BytesIO()
    assert matio._write_length_header(file, 70000) == 4
    file.seek(0)
    assert kaldiio.matio._read_length_header(file) == 70000
    file.seek(0)
    assert matio._read_length_header(file) == 70000
    assert matio.to_bytes(258, 2) == b"\2\1" and matio.from_bytes(b"\2\1", "big") == 513


@pytest.mark.parametrize("key", [*TABLE])
def test_arrays_have_the_machines_byte_order(key: str, tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", {key: TABLE[key]}, scp=f"{tmp_path}/a.scp")
    for value in dict(ours.load_ark(f"{tmp_path}/a.ark"))[key], ours.load_scp(f"{tmp_path}/a.scp")[key]:
        assert memoryview(value).tolist() == TABLE[key].tolist()
    for _, value in io_ark.read(f"ark:{tmp_path}/a.ark"):
        assert memoryview(value).format in "fdi"


def test_empty_matrices_keep_their_shape_in_kaldi_io_as_in_kaldiio() -> None:
    for dtype in np.float32, np.float64:
        theirs, mine = io.BytesIO(), io.BytesIO()
        kaldiio.save_mat(theirs, np.zeros((40, 0), dtype))
        kaldi_io.write_mat(mine, np.zeros((40, 0), dtype))
        assert mine.getvalue() == theirs.getvalue()


def test_segments_of_an_unreadable_recording_fail_each_time(tmp_path: Path) -> None:
    """The recording that was read before does not take its place."""
    ours.save_ark(f"{tmp_path}/a.ark", {"r1": (8000, np.arange(800, dtype=np.int16))}, scp=f"{tmp_path}/w.scp")
    with open(f"{tmp_path}/w.scp", "a") as file:
        file.write(f"r2 {tmp_path}/missing.ark:3\n")
    (tmp_path / "segments").write_text("u1 r1 0 0.01\nu2 r2 0 0.01\n")
    segments = ours.load_scp(f"{tmp_path}/w.scp", segments=f"{tmp_path}/segments")
    assert len(segments["u1"][1]) == 80
    for _ in range(2):
        with pytest.raises(ArkError, match="r2: cannot be opened"):
            segments["u2"]
