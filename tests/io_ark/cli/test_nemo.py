"""Manifests of NeMo that ``ark convert`` makes of data directories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import pytest

from io_ark.data_dir.durations import get_utt2dur
from io_ark.data_dir.stage import Printer
from tests.support.ark_program import Ark


def audio(name: str, seconds: float) -> None:
    with wave.open(name, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(2 * int(8000 * seconds)))


def directory(**files: str) -> None:
    Path("d").mkdir(exist_ok=True)
    for name, text in files.items():
        Path("d", "wav.scp" if name == "wav" else name).write_text(text)


def lines(name: str = "m.json") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(autouse=True)
def _recordings(ark: Ark) -> None:
    audio("r1.wav", 1.25)
    audio("two words; 'é'.wav", 0.5)


def test_recordings_have_their_duration_text_and_speaker(ark: Ark) -> None:
    directory(wav="u1 r1.wav\nu2 two words; 'é'.wav\n", text='u1 hello "wörld"\nu2\n', utt2spk="u1 anna\n")
    ark("convert d m.json")
    assert lines() == [
        {"audio_filepath": os.path.abspath("r1.wav"), "duration": 1.25, "text": 'hello "wörld"', "speaker": "anna"},
        {"audio_filepath": os.path.abspath("two words; 'é'.wav"), "duration": 0.5, "text": ""},
    ]
    assert sorted(os.listdir("d")) == ["text", "utt2spk", "wav.scp"]  # No utt2dur is written.


def test_ending_in_capital_letters_is_a_manifest(ark: Ark) -> None:
    directory(wav="u1 r1.wav\n")
    ark("convert d M.JSON")
    assert [line["duration"] for line in lines("M.JSON")] == [1.25]


def test_durations_of_the_directory_are_used(ark: Ark) -> None:
    directory(wav="u1 r1.wav\nu2 missing.wav\n", utt2dur="u2 7.5\n")
    ark("convert --to nemo d m.jsonl")
    assert [line["duration"] for line in lines("m.jsonl")] == [1.25, 7.5]


def test_segments_have_an_offset(ark: Ark) -> None:
    directory(
        wav="u1 r1.wav\nu2 none.wav\n",
        segments="a u1 0.1 0.4\nb u1 0.3 -1\nc u2 1 -1\n",
        reco2dur="u2 3\n",
        text="a x\nb y\nc z\n",
    )
    ark("convert d m.json")
    assert [(line["offset"], line["duration"], line["text"]) for line in lines()] == [
        (0.1, 0.3, "x"),
        (0.3, 0.95, "y"),
        (1.0, 2.0, "z"),
    ]
    assert {line["audio_filepath"] for line in lines()} == {os.path.abspath("r1.wav"), os.path.abspath("none.wav")}


def test_directory_without_text_is_converted_with_a_message(ark: Ark) -> None:
    directory(wav="u1 r1.wav\n")
    assert "ark: d: has no file `text`, so the manifest has no transcripts\n" in ark("convert d m.json").err
    assert lines() == [{"audio_filepath": os.path.abspath("r1.wav"), "duration": 1.25}]


def test_utterances_without_a_transcript_or_recording_fail(ark: Ark) -> None:
    directory(wav="u1 r1.wav\n", segments="a u1 0 1\nb u1 0 1\nc u3 0 1\n", text="a x\nc z\n")
    said = ark("convert d m.json", 1).err
    assert "ark: d/text: b: has no line, so the manifest omits it: add a line\n" in said
    assert "ark: d/wav.scp: c: lacks the recording u3: add the recording\n" in said
    assert [line["text"] for line in lines()] == ["x"]


@pytest.mark.parametrize("place", ["cat r1.wav |", "a.ark:12", "http://host/r1.wav", "-"])
def test_recordings_that_are_no_files_are_refused(place: str, ark: Ark) -> None:
    directory(wav=f"u1 {place}\n", text="u1 x\n")
    said = ark("convert d m.json", 2).err
    assert f"d/wav.scp: u1: '{place}' is not a separate file" in said
    assert not Path("m.json").exists()
    assert "d/wav.scp: is a file: a manifest of NeMo needs a data directory" in ark("convert d/wav.scp m.json", 2).err


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "ark: d: has no wav.scp: a manifest of NeMo needs a data directory"),
        ({"wav": "u1 none.wav\n"}, "none.wav: u1: cannot be opened: No such file or directory"),
        ({"wav": "u1 r1.wav\n", "segments": "a u1 0 1 1\n"}, "d/segments: a: has channel 1, which a manifest"),
        ({"wav": "u1 r1.wav\n", "segments": "a u1 x 1\n"}, "write start and end in seconds"),
        ({"wav": ""}, "d: has no entries to convert"),
        ({"wav": "u1 r1.wav\n", "segments": ""}, "d: has no entries to convert"),
        (
            {"wav": "u1 r1.wav\n", "segments": "a u1 0 1e400\n"},
            "d/segments: a: has the times '0' and '1e400': write start and end",
        ),
        ({"wav": "u1 a|b.wav\n"}, "ark: d/wav.scp: u1: 'a|b.wav' has a '|' in the middle"),
    ],
)
def test_directories_that_cannot_be_converted_leave_the_target(files: Any, message: str, ark: Ark) -> None:
    directory(**files)
    Path("m.json").write_text("old")
    assert message in ark("convert d m.json", 2).err
    assert Path("m.json").read_text() == "old"


@pytest.mark.parametrize("target", ["d/wav.scp", "d/text", "r1.wav", "d/../d/utt2spk", "link"])
def test_sources_are_not_overwritten(target: str, ark: Ark) -> None:
    directory(wav="u1 r1.wav\n", text="u1 x\n", utt2spk="u1 s\n")
    Path("link").symlink_to("d/text")
    before = Path(target).read_bytes()
    assert "is read as well, and writing would destroy it" in ark(f"convert --to nemo d {target}", 2).err
    assert Path(target).read_bytes() == before


def test_manifest_in_the_directory_replaces_no_other_file(ark: Ark) -> None:
    directory(wav="u1 r1.wav\n", spk2utt="s u1\n")
    assert "d/spk2utt: is read as well" in ark("convert --to nemo d d/spk2utt", 2).err
    for name in ("m.json", "m.jsonl"):
        for _ in range(2):
            ark(f"convert --to nemo d d/{name}")
        assert len(lines(f"d/{name}")) == 1


def test_utterances_without_audio_fail(ark: Ark) -> None:
    segments = "a u1 1.25 -1\nb u1 9 -1\nc u1 1 -1\n"
    directory(wav="u1 r1.wav\n", segments=segments, text="a x\nb x\nc x\n")
    said = ark("convert d m.json", 1).err
    assert "ark: d: a: starts at 1.25 s, but the recording u1 has 1.25 s of audio: remove the utterance\n" in said
    assert "ark: d: b: starts at 9 s, but the recording u1 has 1.25 s of audio: remove the utterance\n" in said
    assert [line["duration"] for line in lines()] == [0.25]


def test_utterances_whose_audio_cannot_be_read_fail_alone(ark: Ark) -> None:
    Path("empty.wav").touch()
    directory(wav="u1 r1.wav\nu2 empty.wav\nu3 r1.wav\nu4 none.wav\n", text="u1 x\nu2 x\nu3 x\nu4 x\n")
    said = ark("convert d m.json", 1).err.splitlines()
    assert said[0].startswith("ark: empty.wav:0: u2: expected RIFF or RIFX at the start of a wave file")
    assert said[1].startswith("ark: none.wav: u4: cannot be opened") and len(said) == 3
    assert [line["duration"] for line in lines()] == [1.25, 1.25]
    Path("d/segments").write_text("u1 u1 0 -1\nu2 u2 0 -1\n")
    assert "u2: expected RIFF" in ark("convert d m.json", 1).err
    assert [line["duration"] for line in lines()] == [1.25]


def test_recordings_that_never_end_fail_alone(ark: Ark) -> None:
    for name in ("fifo", "other"):
        os.mkfifo(name)
    directory(wav="u1 r1.wav\nu2 fifo\nu3 fifo\nu4 r1.wav\nu5 other\n", text="u1 x\nu2 x\nu3 x\nu4 x\nu5 x\n")
    said = ark("convert d m.json", 1).err.splitlines()
    assert [line.partition(" is not")[0] for line in said[:3]] == [
        "ark: d/wav.scp:2: u2: 'fifo'", "ark: d/wav.scp:3: u3: 'fifo'", "ark: d/wav.scp:5: u5: 'other'"
    ]  # fmt: skip
    assert [line["duration"] for line in lines()] == [1.25, 1.25]
    Path("d/segments").write_text("u1 u1 0 0.5\nu2 u2 0 0.5\n")
    ark("convert d m.json")
    assert [line["duration"] for line in lines()] == [0.5, 0.5]


def test_segments_end_with_their_recordings_as_in_extract_segments(ark: Ark) -> None:
    segments = "a u1 1 1.75\nb u1 1 1.76\nc u2 2 3.25\nd u2 2 9\ne u3 0 9\nf u1 1.25 1.5\n"
    directory(
        wav="u1 r1.wav\nu2 r1.wav\nu3 none.wav\n", segments=segments, reco2dur="u2 3\n",
        text="a x\nb x\nc x\nd x\ne x\nf x\n",
    )  # fmt: skip
    Path("none.wav").write_bytes(b"no audio")
    ark("convert d m.json", 1)  # The end of e cannot be checked, because the audio of u3 cannot be read.
    assert [line["duration"] for line in lines()] == [0.25, 1, 9]
    Path("none.wav").write_bytes(Path("r1.wav").read_bytes())
    said = ark("convert d m.json", 1).err
    assert [line["duration"] for line in lines()] == [0.25, 1]
    assert "ark: d: b: ends at 1.76 s, but the recording u1 has 1.25 s of audio: correct the end\n" in said
    assert "ark: d: d: ends at 9 s, but the recording u2 has 3 s of audio: correct the end\n" in said
    assert "ark: d: f: starts at 1.25 s, but the recording u1 has 1.25 s of audio: remove the utterance\n" in said


@pytest.mark.parametrize("name", ["utt2dur", "reco2dur"])
def test_advice_for_audio_without_a_duration_is_possible(name: str, ark: Ark) -> None:
    directory(wav="u1 r1.wav\n", utt2spk="u1 u1\n")
    header = bytearray(Path("r1.wav").read_bytes())
    header[40:44] = b"\xff\xff\xff\xff"
    Path("r1.wav").write_bytes(header)
    said = ark("convert d m.json", 2).err
    assert "u1: the header of the audio has no duration: " in said
    assert "write the duration to reco2dur, or pass --read-entire-file true to get_utt2dur.sh\n" in said
    if name == "utt2dur":
        get_utt2dur(Printer("get_utt2dur.sh", print), "d", read_entire_file=True)
    else:
        Path("d/reco2dur").write_text("u1 1.25\n")
    ark("convert d m.json")
    assert [line["duration"] for line in lines()] == [1.25]


def test_durations_have_microseconds(ark: Ark) -> None:
    directory(wav="u1 r1.wav\n", segments="a u1 0.1 0.1234567\n")
    ark("convert d m.json")
    assert lines()[0]["duration"] == 0.023457


def test_manifest_is_written_to_the_standard_output(ark: Ark) -> None:
    directory(wav="u1 r1.wav\n")
    program = "from io_ark.cli.ark import main; raise SystemExit(main())"
    words = [sys.executable, "-c", program, "convert", "--to", "nemo", "d", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["duration"] == 1.25
    assert not Path("-").exists()


def test_bytes_that_are_not_utf8_fail_alone(ark: Ark) -> None:
    directory(wav="u1 r1.wav\nu2 r1.wav\n")
    Path("d/text").write_bytes(b"u1 \xff\nu2 x\n")
    assert "ark: d: u1: has bytes that are not UTF-8 in text: convert them to UTF-8" in ark("convert d m.json", 1).err
    assert [line["text"] for line in lines()] == ["x"]
