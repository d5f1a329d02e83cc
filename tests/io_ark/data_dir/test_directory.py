"""DataDir: what its methods make, and the errors of users' mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark import DataDir, DataDirError
from io_ark.data_dir import lists
from io_ark.data_dir.validate import find_unprintable_lines
from io_ark.errors import MissingFileError


def write(folder: Path, **files: str) -> DataDir:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_scp", ".scp")).write_text(text)
    return DataDir(folder)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    """Six utterances of three speakers, of 0.5 to 1.125 s, in a folder with a space in its name."""
    monkeypatch.chdir(tmp_path)
    keys = [f"s{at // 2}-{at}" for at in range(6)]
    for at, key in enumerate(keys):
        io_ark.save(f"{key}.wav", io_ark.Wave(8000.0, np.zeros((1, 4000 + 1000 * at), np.int16)))
    return write(
        tmp_path / "data" / "the set",
        wav_scp="".join(f"{key} {key}.wav\n" for key in keys),
        utt2spk="".join(f"{key} {key[:2]}\n" for key in reversed(keys)),
        text="".join(f"{key} word {key}\n" for key in keys),
    ).fix()


def test_fixed_directory_is_not_valid_or_lacks_its_backup(data: DataDir) -> None:
    assert data.validate(text=True) is data
    assert data.text["s1-3"] == "word s1-3" and data.spk2utt["s2"] == ["s2-4", "s2-5"] and data.utt2spk["s0-0"] == "s0"
    assert Path(data.path, ".backup", "utt2spk").read_text().startswith("s0-0")
    assert len(data) == 6 and "6 utterances, 3 speakers" in repr(data) and "<td" in data._repr_html_()


def test_existing_files_of_kaldi_are_counted(data: DataDir) -> None:
    Path(data.path, "notes").write_text("x\n")
    assert data.counts() == {"utt2spk": 6, "spk2utt": 3, "text": 6, "wav.scp": 6}
    Path(data.path, "spk2utt").unlink()
    assert repr(data) == f"<DataDir {data.path}: 6 utterances, utt2spk text wav.scp>"
    assert bool(data) and bool(DataDir("data"))  # A directory without utterances is a directory.
    with pytest.raises(MissingFileError, match=r"spk2utt: is missing; the directory has utt2spk, text, wav\.scp$"):
        data.file("spk2utt")


def test_copy_of_a_directory_without_recordings_is_valid(data: DataDir) -> None:
    Path(data.path, "wav.scp").unlink()
    copied = data.to_whole_recordings("data/copy")
    assert dict(copied.text) == dict(data.text) and copied.counts() == {"utt2spk": 6, "spk2utt": 3, "text": 6}
    assert len(copied) == 6 and copied.hours() is None
    html = copied._repr_html_()
    assert "hours" not in html and re.findall(r"<td[^>]*>([^<]*)</td>", html) == [
        "utt2spk", "6", "spk2utt", "3", "text", "6",
    ]  # fmt: skip
    Path(copied.path, "utt2dur").write_text("".join(f"{key} 1200\n" for key in copied.utterances()))
    assert copied.hours() == 2 and "2.00 hours" in copied._repr_html_() and ", 2.00 hours, utt2spk" in repr(copied)
    assert copied == DataDir(f"{copied.path}/../copy/") != data and hash(copied) == hash(DataDir("data/../data/copy"))


def test_validation_requires_what_its_options_say(data: DataDir) -> None:
    for name, option in ("feats.scp", "feats"), ("text", "text"), ("wav.scp", "wav"):
        Path(data.path, name).unlink(missing_ok=True)
        assert data.validate(**{"wav": name != "wav.scp", option: False}) is data
        with pytest.raises(DataDirError, match=rf"no such file .*/{re.escape(name)} "):
            data.validate(**{option: True})
    with pytest.raises(DataDirError, match=r"no such file .*/wav\.scp "):
        data.validate()
    Path(data.path, "text").write_text("".join(f"{key} a\x01b\n" for key in data.utterances()))
    with pytest.raises(DataDirError, match="contains characters that cannot be printed"):
        data.validate(wav=False)
    data.validate(wav=False, printable=False)
    Path(data.path, "utt2spk").write_text("a t\nb s\n")
    Path(data.path, "spk2utt").write_text("s b\nt a\n")
    for options, said in ({}, "begin every utterance's name with its speaker"), ({"spk_sort": False}, "spk2utt has"):
        with pytest.raises(DataDirError, match=said):
            data.validate(wav=False, **options)


@pytest.mark.parametrize("entire", [True, False])
def test_header_or_samples_tell_the_duration(data: DataDir, entire: bool) -> None:
    header = Path("s0-0.wav").read_bytes()
    Path("s0-0.wav").write_bytes(header[:4044])  # 2000 samples, of 4000 in the header
    durations = data.utt2dur(read_entire_file=True) if entire else data.utt2dur()
    assert durations["s0-0"] == (0.25 if entire else 0.5) and durations["s0-1"] == 0.625


def test_durations_and_frames_are_not_those_of_the_audio(data: DataDir) -> None:
    durations = [0.5, 0.625, 0.75, 0.875, 1.0, 1.125]
    assert [*data.utt2dur().values()] == [*data.reco2dur().values()] == durations
    assert [*data.num_frames().values()] == [48, 61, 73, 86, 98, 111]
    assert data.hours() == pytest.approx(sum(durations) / 3600)
    assert data.audio["s0-1"].samples.shape == (1, 5000)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"number": 2}, "s1-2 s2-5"),
        ({"number": 2, "how": "first"}, "s0-0 s0-1"),
        ({"number": 2, "how": "last"}, "s2-4 s2-5"),
        ({"number": 1, "how": "per speaker"}, "s0-0 s1-2 s2-4"),
        ({"number": 3, "how": "speakers"}, "s0-0 s0-1 s2-4 s2-5"),
        ({"utterances": ["s2-4", "s0-0", "none"]}, "s0-0 s2-4"),
        ({"speakers": ["s1"]}, "s1-2 s1-3"),
        ({"durations": (0.6, 0.9)}, "s0-1 s1-2 s1-3"),
    ],
)
def test_subset_has_other_utterances(data: DataDir, given: dict[str, Any], keys: str) -> None:
    assert data.subset("data/part", **given).validate().utterances() == keys.split()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: d.subset("x", 99), "cannot subset to more utterances"),
        (lambda d: d.subset("x", 0), "number is 1 or more"),
        (lambda d: d.subset("x", 2, how="odd"), "how is one of spread"),
        (lambda d: d.subset("x"), "pass exactly one of number"),
        (lambda d: d.subset("x", utterances=["a"], how="first"), "how='first' chooses utterances only with number"),
        (lambda d: d.subset("x", 1, how="shortest"), "no feats.scp"),
        (lambda d: d.subset("x", utterances="none"), "Could not open id-list file none: No such file"),
        (lambda d: d.subset(d, 1), "must be different"),
        (lambda d: d.split(9), "number of speakers 3 is less"),
        (lambda d: d.split(0), "number of parts"),
        (lambda d: d.combine("x", "none"), "no such file none/utt2spk"),
        (lambda d: d.combine(d, d), "is a source"),
        (lambda d: d.combine("x"), "give one source or more"),
        (lambda d: d.perturb_speed("x", 0), "factor must be a number above 0"),
        (lambda d: d.copy(d), "to be different"),
    ],
)
def test_mistake_has_no_message_or_changes_the_directory(data: DataDir, call: Any, said: str) -> None:
    before = {path: path.read_bytes() for path in Path(data.path).rglob("*") if path.is_file()}
    with pytest.raises(DataDirError, match=re.escape(said)):
        call(data)
    assert {path: path.read_bytes() for path in Path(data.path).rglob("*") if path.is_file()} == before


def test_missing_files_are_not_named(data: DataDir) -> None:
    with pytest.raises(MissingFileError, match=r"feats\.scp: is missing; the directory has utt2spk"):
        _ = data.feats
    with pytest.raises(MissingFileError, match="none: is not a directory"):
        DataDir("none")


def test_copies_parts_and_joins_have_other_names(data: DataDir) -> None:
    copied = data.copy("data/copy", utt_prefix="a-", spk_prefix="a-", utt_suffix=".x")
    assert copied.utterances()[0] == "a-s0-0.x" and copied.utt2spk["a-s2-5.x"] == "a-s2"
    assert "utt2uniq" not in copied and len(Path(copied.path, ".backup/utt2uniq").read_text().splitlines()) == 6
    assert [len(part) for part in data.split(2)] == [4, 2]
    assert [len(part) for part in data.split(4, per_utt=True)] == [2, 2, 1, 1]
    assert DataDir.combine("data/both", data, copied).utterances() == sorted(data.utterances() + copied.utterances())
    Path(copied.path, "text").write_text("a-s0-0.x yes\n")
    assert len(DataDir.combine("data/both", data, copied)) == 7
    assert len(DataDir.combine("data/both", data, copied, fix=False)) == 12


def test_perturbed_audio_is_not_that_of_sox(data: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bin", "bin/sox"):
        (tmp_path / name).mkdir() if name == "bin" else (tmp_path / name).write_text("")
    (tmp_path / "bin/sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    slow = data.perturb_speed("data/slow", 0.9)
    assert slow.utt2dur()["sp0.9-s0-0"] == 0.555556 and slow.utt2spk["sp0.9-s0-0"] == "sp0.9-s0"
    line = Path(slow.file("wav.scp")).read_text().splitlines()[0]
    assert line == "sp0.9-s0-0 sox -t wav s0-0.wav -t wav - speed 0.9 |"
    loud = Path(data.copy("data/loud").perturb_volume(low=0.5, high=1).file("wav.scp")).read_text()
    assert re.match(r"s0-0 sox --vol 0\.[5-9]\d+ -t wav s0-0.wav -t wav - \|\n", loud)
    assert "-t wav - rate 16000 |" in Path(data.copy("data/wide").resample(16000).file("wav.scp")).read_text()


def test_recordings_lose_texts_or_their_order(tmp_path: Path) -> None:
    data = write(
        tmp_path / "cut",
        wav_scp="r1 a.wav\nr2 b.wav\n",
        segments="u1 r1 0.2 0.5\nu2 r1 0 0.6\nu3 r2 0 0.4\n",
        utt2spk="u1 u1\nu2 u2\nu3 u3\n",
        text="u1 b\nu2 a\nu3 c\n",
    ).fix()
    assert data.utt2dur() == {"u1": 0.3, "u2": 0.6, "u3": 0.4}
    whole = data.to_whole_recordings(tmp_path / "whole").validate()
    assert dict(whole.text) == {"r1": "a b", "r2": "c"} and "segments" not in whole
    part = data.filter(tmp_path / "part", ["u3", "u1"])
    assert dict(part.text) == {"u1": "b", "u3": "c"} and part.audio.keys() == {"u1", "u3"}
    Path(data.path, "segments").write_text("u1 r1 0.2 0.5\nu2 r1\n")
    with pytest.raises(DataDirError, match=r"cut/segments:2: u2: expected a segment, its recording, start and end"):
        data.to_whole_recordings(tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("wav_scp", "a a.wav\na b.wav\nb c.wav\n", r"wav.scp:2: a: differs from line 1"),
        ("text", "a x\r\nb y\r\n", r"text:1: a: ends with a carriage return: .*--strip-cr"),
        ("text", "\ufeffa x\nb y\n", r"text:1: a: starts with a byte-order mark"),
        ("text", "a x\n\nb y\n", r"text:1: Invalid id-list file line without a key"),
        ("vad_scp", "a x\n\nb y\n", r"vad.scp:1: Bad line without a key"),
        ("utt2uniq", "a a\nb b\n \n", r"utt2uniq:1: Bad line without a key"),
        ("utt2dur", "", r"utt2dur: is empty: remove the file, or make the file"),
        ("segments", "a r 0 1 0\n", r"segments:1: a: has a fifth field"),
    ],
)
def test_fix_loses_data_in_silence(tmp_path: Path, name: str, text: str, said: str) -> None:
    files = {"wav_scp": "a a.wav\nb b.wav\n", "utt2spk": "a a\nb b\n", "text": "a x\nb y\n", name: text}
    data = write(tmp_path / "data", **files)
    with pytest.raises(DataDirError, match=said):
        data.fix()
    assert (tmp_path / "data" / name.replace("_scp", ".scp")).read_text() == text.replace("\r\n", "\n")
    if "\r" in text:
        assert data.fix(strip_cr=True).text["b"] == "y"
        assert (tmp_path / "data/text").read_bytes() == text.replace("\r\n", "\n").encode()


@pytest.mark.parametrize(
    ("character", "is_printable"),
    [
        ("\x01", False),
        ("\x7f", False),
        ("\u200b", True),
        ("\u00ad", True),
        ("\ue000", True),
        ("\u0085", True),
        ("\u0378", False),
        ("ß", True),
        ("~", True),
    ],
)
@pytest.mark.parametrize("chunk", [8, 1 << 20])
def test_lines_with_unprintable_characters_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str, is_printable: bool, chunk: int
) -> None:
    monkeypatch.setattr("io_ark.data_dir.line_chunks.CHUNK_BYTES", chunk)
    (tmp_path / "text").write_bytes(f"a x\nb y{character}z\nc {character}\nd größe\n".encode())
    expected = [] if is_printable else [(2, b"b"), (3, b"c")]
    assert list(find_unprintable_lines(str(tmp_path / "text"))) == expected


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (5, 0), (5, 2), (5, 5), (1000, 333), (7, 6)])
def test_spread_lines_are_not_those_of_halves(count: int, wanted: int) -> None:
    def halves(start: int, end: int, needed: int) -> list[int]:
        if end - start == 1:
            return [start] * (needed > 0)
        half, first = (end - start) // 2, needed // 2
        return halves(start, start + half, first) + halves(start + half, end, needed - first)

    assert [at for at, chosen in enumerate(lists._mark_spread_lines(count, wanted)) if chosen] == halves(
        0, count, wanted
    )


@pytest.mark.parametrize(
    ("durations", "names"), [((2, 3), "bc"), ((2.0001, 3), "c"), ((2, 2.9999), "b"), ((3, 3), "c"), ((0, 9), "abcd")]
)
def test_bounds_of_durations_belong_to_the_subset(tmp_path: Path, durations: tuple[float, float], names: str) -> None:
    pairs = "".join(f"{name} {name}\n" for name in "abcd")
    lengths = "a 1\nb 2\nc 3\nd 4\n"
    data = write(tmp_path / "data", utt2spk=pairs, spk2utt=pairs, wav_scp=pairs, utt2dur=lengths)
    assert data.subset(tmp_path / "out", durations=durations).utterances() == list(names)
