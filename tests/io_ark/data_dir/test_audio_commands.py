"""Commands of sox in wav.scp: file names stay names, every format stays readable, and nothing else runs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from io_ark import DataDir, DataDirError
from io_ark.data_dir import audio_commands, perturb, split_speed
from io_ark.data_dir.audio_commands import parse_audio_entry, quote_name
from io_ark.data_dir.perturb import add_speed_command
from io_ark.data_dir.stage import Printer
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.read import read_audio
from kaldi_compat.dump.speed_perturb import make_speed_directory
from tests.support.odd_names import ALL, NAMES, write_directory

PARTS = 35  # Of all names in all formats. It shares no factor with the number of formats.
NEEDS_SOX = pytest.mark.skipif(shutil.which("sox") is None, reason="sox is not installed")


def dumped(data: DataDir) -> DataDir:
    make_speed_directory(Path(data.path), Path("data-out"), ["0.8"])
    return DataDir("data-out")


# Each job: what makes the directory, the prefix of its names, and how many samples it makes of one.
JOBS: dict[str, tuple[Callable[[DataDir], DataDir], str, float]] = {
    "speed": (lambda data: data.perturb_speed("data-out", "0.8"), "sp0.8-", 1.25),
    "volume": (lambda data: data.copy("data-out").perturb_volume(low=0.5, high=1), "", 1),
    "resample": (lambda data: data.copy("data-out").resample(16000), "", 2),
    "dump": (dumped, "sp0.8-", 1.25),
}


@NEEDS_SOX
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.slow] * (part > 0), id=str(part)) for part in range(PARTS)]
)
def test_every_job_leaves_the_same_audio(job: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("soundfile")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")  # our wav-copy
    lengths = write_directory(Path("data"), ALL[(part + list(JOBS).index(job)) % PARTS :: PARTS])
    before = set(os.listdir())
    make, prefix, factor = JOBS[job]
    made = make(DataDir("data"))
    audio = io_ark.SequentialReader(f"scp:{made.file('wav.scp')}", kind="wave")
    found = {key: wave.samples.shape[1] for key, wave in audio}
    expected = {prefix + key: length * factor for key, length in lengths.items()}
    assert found == pytest.approx(expected, abs=2)
    assert set(os.listdir()) - before == {"data-out"}


@pytest.mark.parametrize(("speeds", "is_renamed"), [(["1.0"], False), (["1.0", "0.5"], True)])
def test_only_another_speed_changes_names_and_durations(
    tmp_path: Path, speeds: list[str], is_renamed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    files = {
        "utt2spk": "a s\nb s\n",
        "wav.scp": "a a.wav\nb b.wav\n",
        "utt2dur": "a 1\nb 2\n",
        "reco2dur": "a 1\nb 2\n",
    }
    for name, text in files.items():
        (tmp_path / "data" / name).write_text(text)
    make_speed_directory(tmp_path / "data", tmp_path / "out", speeds)
    added = {"utt2spk": "sp0.5-a sp0.5-s\nsp0.5-b sp0.5-s\n", "utt2dur": "sp0.5-a 2\nsp0.5-b 4\n"}
    added["reco2dur"] = added["utt2dur"]
    added["wav.scp"] = "".join(f"sp0.5-{key} sox -t wav {key}.wav -t wav - speed 0.5 |\n" for key in "ab")
    expected = {name: text + added[name] * is_renamed for name, text in files.items()}
    expected["spk2utt"] = "s a b\n" + "sp0.5-s sp0.5-a sp0.5-b\n" * is_renamed
    if is_renamed:
        expected["utt2uniq"] = "a a\nb b\nsp0.5-a a\nsp0.5-b b\n"
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == expected


def test_the_dump_reads_every_name_without_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("soundfile")
    monkeypatch.chdir(tmp_path)
    lengths = write_directory(Path("data"), [pair for pair in ALL if pair[1] != "pipe"])
    before = set(os.listdir())
    options = DumpOptions(speeds="0.8", speed_dir="out", pipes=False)
    script = Path(dumped(DataDir("data")).file("wav.scp")).read_bytes().decode("utf-8", "surrogateescape")
    entries = dict(line.split(" ", 1) for line in script[:-1].split("\n"))
    found = {key: read_audio(entries[f"sp0.8-{key}"], options).samples.shape[1] for key in lengths}
    assert found == pytest.approx({key: length * 1.25 for key, length in lengths.items()}, abs=1)
    assert set(os.listdir()) - before == {"data-out"}


file_names = st.text(st.characters(blacklist_characters="\0\n", blacklist_categories=["Cs"]), min_size=1).map(
    lambda text: text.encode().strip()
).filter(lambda name: name and not name.endswith(b"|"))  # fmt: skip
READABLE = (b"", b".wav", b".flac", b".mp3", b".ark:17")


@given(file_names, st.sampled_from(READABLE))
def test_names_survive_in_a_command(name: bytes, extension: bytes) -> None:
    name += extension
    if os.path.splitext(name)[1].lower() in audio_commands._UNREADABLE:
        return
    line = add_speed_command(b"key", name, b"0.9")[:-1].decode("utf-8", "surrogateescape")
    found = split_speed(line.partition(" ")[2])
    assert found is not None
    assert found[0].encode("utf-8", "surrogateescape") in (name, b"./" + name) and found[1] == "0.9"


@given(file_names)
def test_a_quoted_name_is_one_word(name: bytes) -> None:
    assert shlex.split(os.fsdecode(quote_name(name))) in ([os.fsdecode(name)], [os.fsdecode(b"./" + name)])


def test_the_shell_reads_quoted_names_as_they_are(tmp_path: Path) -> None:
    names = [os.fsencode(f"{name}.wav") for name in NAMES]
    command = b"printf '%s\\0' " + b" ".join(map(quote_name, names))
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=tmp_path, check=True)
    words = done.stdout.split(b"\0")[:-1]
    assert [word.removeprefix(b"./") if word.startswith(b"./-") else word for word in words] == names
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "speed", "volume", "resampled"),
    [
        ("a.wav", "sox -t wav a.wav -t wav - speed 0.9 |", "sox --vol 0.5 -t wav a.wav -t wav - |",
         "cat a.wav | {rate}"),
        ("größe.wav", "sox -t wav größe.wav -t wav - speed 0.9 |", "sox --vol 0.5 -t wav größe.wav -t wav - |",
         "cat größe.wav | {rate}"),
        ("a b.wav", "sox -t wav 'a b.wav' -t wav - speed 0.9 |", "sox --vol 0.5 -t wav 'a b.wav' -t wav - |",
         "cat 'a b.wav' | {rate}"),
        ("-t.wav", "sox -t wav ./-t.wav -t wav - speed 0.9 |", "sox --vol 0.5 -t wav ./-t.wav -t wav - |",
         "cat ./-t.wav | {rate}"),
        ("a.FLAC", "sox a.FLAC -b 16 -t wav - speed 0.9 |", "sox --vol 0.5 a.FLAC -b 16 -t wav - |",
         "/sox a.FLAC -c 1 -b 16 -t wav - rate 8000 |"),
        ("x[1].wav", "wav-copy 'x[1].wav' - | sox -t wav - -t wav - speed 0.9 |",
         "wav-copy 'x[1].wav' - | sox --vol 0.5 -t wav - -t wav - |", "wav-copy 'x[1].wav' - | {rate}"),
        ("a.mp3", "wav-copy a.mp3 - | sox -t wav - -t wav - speed 0.9 |",
         "wav-copy a.mp3 - | sox --vol 0.5 -t wav - -t wav - |", "wav-copy a.mp3 - | {rate}"),
        ("a.ark:17", "wav-copy a.ark:17 - | sox -t wav - -t wav - speed 0.9 |",
         "wav-copy a.ark:17 - | sox --vol 0.5 -t wav - -t wav - |", "wav-copy a.ark:17 - | {rate}"),
        ("https://a.org/a.wav?x=1&y=2", "wav-copy 'https://a.org/a.wav?x=1&y=2' - | sox -t wav - -t wav - speed 0.9 |",
         "wav-copy 'https://a.org/a.wav?x=1&y=2' - | sox --vol 0.5 -t wav - -t wav - |",
         "wav-copy 'https://a.org/a.wav?x=1&y=2' - | {rate}"),
        ("a  b |", "a b | sox -t wav - -t wav - speed 0.9 |", "a  b | sox --vol 0.5 -t wav - -t wav - |",
         "a  b | {rate}"),
        ("-", "sox -t wav - -t wav - speed 0.9 |", "sox --vol 0.5 -t wav - -t wav - |", "cat - | {rate}"),
    ],
)  # fmt: skip
def test_commands_are_as_short_as_the_name_allows(
    name: str, speed: str, volume: str, resampled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/sox")
    text = {"wav.scp": f"a {name}\n", "utt2spk": "a a\n", "spk2utt": "a a\n", "utt2dur": "a 1\n", "reco2dur": "a 1\n"}

    def made(job: Callable[[DataDir], DataDir], key: str = "a") -> str:
        for file, lines in text.items():
            (tmp_path / "data").mkdir(exist_ok=True)
            (tmp_path / "data" / file).write_text(lines)
        return Path(job(DataDir(tmp_path / "data")).file("wav.scp")).read_text().removeprefix(f"{key} ").rstrip("\n")

    assert made(lambda data: data.perturb_speed(tmp_path / "speed", "0.9"), "sp0.9-a") == speed
    assert made(lambda data: data.perturb_volume(low=0.5, high=0.5)) == volume
    assert made(lambda data: data.resample(8000)) == resampled.format(
        rate="/sox -t wav - -c 1 -b 16 -t wav - rate 8000 |"
    )


@pytest.mark.parametrize(
    ("name", "command", "file", "is_wav"),
    [
        ("http:a.wav", "wav-copy http:a.wav - |", "", True),
        ("FTP:a.wav", "wav-copy FTP:a.wav - |", "", True),
        ("a:b.wav", "", "a:b.wav", True),
        ("|touch x;.wav", "", "'./|touch x;.wav'", True),
        ("-n", "", "./-n", True),
        ("vol", "", "./vol", True),
        ("a.pls", "wav-copy a.pls - |", "", True),
        ("a.M3U", "wav-copy a.M3U - |", "", True),
        ("a~.wav", "wav-copy 'a~.wav' - |", "", True),
        ("a.SPH", "", "a.SPH", False),
        ("a.W64", "wav-copy a.W64 - |", "", True),
        ("a b.aiff", "", "'a b.aiff'", False),
    ],
)
def test_name_alone_tells_how_sox_gets_the_audio(name: str, command: str, file: str, is_wav: bool) -> None:
    assert parse_audio_entry(name.encode()) == (command.encode(), file.encode(), is_wav)


def test_content_tells_the_format_of_a_name_without_a_known_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.fsencode(tmp_path / "TRAIN.WAV")
    assert parse_audio_entry(path) == (b"", path, True)
    Path(tmp_path / "TRAIN.WAV").write_bytes(b"NIST_1A\n   1024\n".ljust(2000))
    assert parse_audio_entry(path).command == b"wav-copy %b - |" % path
    monkeypatch.chdir(tmp_path)
    for start, is_wav in (b"NIST_1A\n   1024\n", False), (b"RIFF    WAVEfmt ", True):
        for name in "-", "TRAIN":
            Path(name).write_bytes(start.ljust(2000))
        assert parse_audio_entry(b"-") == (b"", b"-", True)  # It is standard input, whatever a file of this name has.
        assert parse_audio_entry(b"TRAIN") == ((b"", b"TRAIN", True) if is_wav else (b"wav-copy TRAIN - |", b"", True))
    os.mkfifo(tmp_path / "fifo")
    assert parse_audio_entry(os.fsencode(tmp_path / "fifo")).is_wav
    assert parse_audio_entry(b"/dev/zero").is_wav


@pytest.mark.parametrize("job", ["speed", "volume", "resample", "dump"])
def test_a_format_that_nothing_reads_is_named(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: "/sox")
    Path("data").mkdir()
    for file, lines in (("wav.scp", "a a.wav\nb b.m4a\n"), ("utt2spk", "a a\nb b\n"), ("utt2dur", "a 1\nb 1\n")):
        Path("data", file).write_text(lines)
    data = DataDir("data").fix()
    with pytest.raises(
        DataDirError, match=r"/wav\.scp:2: (sp0\.8-)?b: neither sox nor wav-copy reads \.m4a: write a command"
    ):
        JOBS[job][0](data)


@pytest.mark.parametrize(
    "call",
    [
        lambda data: data.perturb_speed("out", "0.9;touch PWNED"),
        lambda data: data.perturb_speed("out", "0.9 "),
        lambda data: data.resample("8000;touch PWNED"),
        lambda data: data.resample(0),
        lambda data: data.resample("-8000"),
    ],
)
def test_numbers_are_numbers(call: Callable[[Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: "/a b/sox")
    write_directory(Path("data"), [(0, "wav")])
    before = Path("data", "wav.scp").read_bytes()
    with pytest.raises(DataDirError, match="must be a number above 0"):
        call(DataDir("data"))
    assert Path("data", "wav.scp").read_bytes() == before and not os.path.exists("out")
    DataDir("data").resample(16000)
    assert b" | '/a b/sox' -t wav - " in Path("data", "wav.scp").read_bytes()


def test_volume_is_changed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data", "wav.scp").write_text("a a b c d e f g h i j k l m.wav\n")
    Path("data", "utt2spk").write_text("a a\n")
    data = DataDir("data").perturb_volume()
    once = Path("data", "wav.scp").read_text()
    data.perturb_volume()
    assert once.count("--vol") == 1 and Path("data", "wav.scp").read_text() == once


@pytest.mark.parametrize(
    "line", [b"a a;b.wav\n", b"a -b.wav\n", b"a a.flac\n", b"a a'b.wav\n", b"a a*.wav\n", b"a a\n"]
)
def test_lines_that_need_care_are_not_replaced_at_once(line: bytes) -> None:
    plain = b"b b.wav\nc /d/c-1_x.wav\n"
    assert perturb.add_commands(plain, b"", b" cat ", b" |\n") == b"b cat b.wav |\nc cat /d/c-1_x.wav |\n"
    assert not perturb.add_commands(plain + line, b"", b" cat ", b" |\n")


def test_plain_files_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise AssertionError("a file is opened")

    monkeypatch.setattr(audio_commands, "read_head", fail)
    assert list(
        perturb.change_speed_in_wav_scp("wav.scp", [b"a a.wav\nb b c.wav\nc c.flac\nd cat x |\ne e.ark:5\n"], b"0.9")
    )


@NEEDS_SOX
@pytest.mark.parametrize(
    "name", ["http:$(touch PWNED).wav", 'FTP:x";touch PWNED;".wav', "x.m3u", "x.PLS", "speed", "vol"]
)
@pytest.mark.parametrize("job", ["speed", "volume"])
def test_sox_takes_a_name_for_nothing_else(
    name: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")  # our wav-copy
    io_ark.save(Path(name), io_ark.Wave(8000, np.ones((1, 1600), np.int16)))
    os.mkdir("data")
    Path("data/wav.scp").write_text(f"u {name}\n")
    for listing in ("utt2spk", "spk2utt"):
        Path("data", listing).write_text("u u\n")
    made = JOBS[job][0](DataDir("data"))
    [(_, wave)] = io_ark.SequentialReader(f"scp:{made.file('wav.scp')}", kind="wave")
    assert wave.samples.shape[1] == 1600 * JOBS[job][2]
    assert not os.path.exists("PWNED")


@NEEDS_SOX
def test_commands_in_a_playlist_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.m3u").write_text("|touch PWNED; cat x.wav\n")
    command = add_speed_command(b"u", b"x.m3u", b"0.9").decode().partition(" ")[2].rstrip(" |\n")
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    subprocess.run(command, shell=True, env={**os.environ, "PATH": path}, capture_output=True)
    assert not os.path.exists("PWNED")


def test_a_name_with_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        parse_audio_entry(b"a\0b.wav")


def test_volumes_are_not_written_over_a_file_of_the_directory(tmp_path: Path) -> None:
    for name in ("utt2spk", "spk2utt"):
        (tmp_path / name).write_text("u u\n")
    (tmp_path / "wav.scp").write_text("u u.wav\n")
    for name in ("utt2spk", "wav.scp"):
        with pytest.raises(DataDirError, match="is read by this job"):
            perturb.perturb_volume(Printer("x", as_script=False), str(tmp_path), write_reco2vol=str(tmp_path / name))
    (tmp_path / "link").symlink_to("wav.scp")
    os.link(tmp_path / "utt2spk", tmp_path / "other")
    (tmp_path / "volumes").write_text("u 0.5\n")
    for name, more in (("link", ""), ("other", ""), ("../" + tmp_path.name + "/utt2spk", ""), ("volumes", "volumes")):
        with pytest.raises(DataDirError, match="is read by this job"):
            volumes = str(tmp_path / more) if more else ""
            perturb.perturb_volume(
                Printer("x", as_script=False), str(tmp_path), reco2vol=volumes, write_reco2vol=str(tmp_path / name)
            )
    assert (tmp_path / "utt2spk").read_text() == "u u\n"
    assert (tmp_path / "wav.scp").read_text() == "u u.wav\n"
    assert (tmp_path / "volumes").read_text() == "u 0.5\n"


def test_volumes_are_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    entries = {"a": "a.wav", "b": "cat b.wav |", "c": "c.flac", "d": "d.ark:5"}
    text = "".join(f"{key} {entry}\n" for key, entry in entries.items())
    for name, lines in ("wav.scp", text), ("utt2spk", "a a\nb b\nc c\nd d\n"), ("feats.scp", "a x\n"):
        Path("data", name).write_text(lines)
    data = DataDir("data").perturb_volume(write_reco2vol="volumes", low=1, high=3)
    volumes = dict(line.split() for line in Path("volumes").read_text().splitlines())
    expected = {
        "a": "sox --vol {} -t wav a.wav -t wav - |", "b": "cat b.wav | sox --vol {} -t wav - -t wav - |",
        "c": "sox --vol {} c.flac -b 16 -t wav - |", "d": "wav-copy d.ark:5 - | sox --vol {} -t wav - -t wav - |",
    }  # fmt: skip
    changed = "".join(f"{key} {command.format(volumes[key])}\n" for key, command in expected.items())
    assert Path("data/wav.scp").read_text() == changed
    assert len(set(volumes.values())) == 4 and all(1 <= float(volume) < 3 for volume in volumes.values())
    assert not Path("data/feats.scp").exists() and Path("data/.backup/feats.scp").read_text() == "a x\n"
    Path("data/wav.scp").write_text(text)
    Path("factors").write_text("d 4\nc 3\n\nb 2\na 0.5\n")
    data.perturb_volume(reco2vol="factors", write_reco2vol="copy")
    assert [float(line.split()[1]) for line in Path("copy").read_text().splitlines()] == [0.5, 2, 3, 4]
    factors = [line.split("--vol ")[1].split()[0] for line in Path("data/wav.scp").read_text().splitlines()]
    assert list(map(float, factors)) == [0.5, 2, 3, 4]
    Path("data/wav.scp").write_text(text)
    Path("factors").write_text("a 0.5\nc 2\n")
    with pytest.raises(DataDirError, match=r"data/wav\.scp:2: b: has no volume in factors: add a line for the key"):
        data.perturb_volume(reco2vol="factors")
    with pytest.raises(DataDirError, match=r"^none/volumes: No such file or directory: nothing was changed"):
        data.perturb_volume(write_reco2vol="none/volumes")
    volumes_before = Path("volumes").read_bytes()
    Path("factors").write_text("a 1\nb 1\nc 1\nd 1\n")

    def refuse(_: object) -> None:
        raise DataDirError("refused")

    monkeypatch.setattr(perturb.Stage, "commit", refuse)
    with pytest.raises(DataDirError, match="refused"):
        data.perturb_volume(reco2vol="factors", write_reco2vol="volumes")
    assert Path("data/wav.scp").read_text() == text and Path("volumes").read_bytes() == volumes_before
    assert sorted(os.listdir()) == ["copy", "data", "factors", "volumes"]


@pytest.mark.parametrize("name", ["folder", "folder/", "link", "pipe", "/dev/fd/9"])
def test_volumes_replace_only_a_file(tmp_path: Path, name: str) -> None:
    """A folder cannot be replaced after the change of wav.scp, and a device would be replaced for every program."""
    (tmp_path / "wav.scp").write_text("u u.wav\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(DataDirError, match="is not a regular file: write the volumes to another file"):
        perturb.perturb_volume(
            Printer("x", as_script=False), str(tmp_path), write_reco2vol=str(tmp_path / name) + "/" * name.endswith("/")
        )
    assert (tmp_path / "wav.scp").read_text() == "u u.wav\n" and sorted(os.listdir(tmp_path)) == before


def test_features_of_resampled_audio_are_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/sox")
    for name in ("utt2spk", "feats.scp", "cmvn.scp", "vad.scp", "utt2dur"):
        (tmp_path / name).write_text("a 1\n")
    (tmp_path / "wav.scp").write_text("a a.wav\n")
    assert perturb.resample_directory(Printer("x"), "8k", str(tmp_path)) == 0
    assert sorted(os.listdir(tmp_path / ".backup")) == ["cmvn.scp", "feats.scp"]
    assert (tmp_path / "vad.scp").exists() and not (tmp_path / "feats.scp").exists()
    assert (tmp_path / "wav.scp").read_text() == "a cat a.wav | /sox -t wav - -c 1 -b 16 -t wav - rate 8k |\n"
    assert capsys.readouterr().out == f"x: feats.scp already exists. Moving it to {tmp_path}/.backup\n"


@pytest.mark.parametrize("name", ["a.wav", "a b.wav", "a.flac", "a.ark:17", "cat a.wav |"])
def test_blanks_behind_an_entry_are_no_part_of_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/sox")
    made = []
    for blanks in ("", " \t "):
        for job in (lambda data: data.perturb_volume(low=0.5, high=0.5), lambda data: data.resample(8000)):
            (tmp_path / "data").mkdir(exist_ok=True)
            (tmp_path / "data/wav.scp").write_text(f"a {name}{blanks}\n")
            for file, text in (("utt2spk", "a a\n"), ("utt2dur", "a 1\n")):
                (tmp_path / "data" / file).write_text(text)
            made.append(Path(job(DataDir(tmp_path / "data")).file("wav.scp")).read_text())
    assert made[:2] == made[2:]
