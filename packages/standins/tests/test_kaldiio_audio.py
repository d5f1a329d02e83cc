"""Audio by kaldiio's names: the same values as kaldiio's own, and one shape for all formats."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
import soundfile

from io_ark.errors import FormatError
from kaldi_standins import kaldi_io, kaldi_native_io, torchaudio_kaldi_io
from kaldi_standins import kaldiio as ours
from tests.support.reading_ways import same

SAMPLES = np.arange(-50, 50, dtype="<i2").tobytes()


def chunk(tag: bytes, body: bytes, size: int | None = None) -> bytes:
    return tag + struct.pack("<I", len(body) if size is None else size) + body + bytes(len(body) % 2)


def wave(
    data: bytes = SAMPLES, *, bits: int = 16, channels: int = 1, byte_rate: int | None = None, block: int | None = None,
    announced: int | None = None, format_end: bytes = b"", before: bytes = b"",
) -> bytes:  # fmt: skip
    frame = (bits + 7) // 8 * channels
    fields = 1, channels, 8000, 8000 * frame if byte_rate is None else byte_rate, block or frame, bits
    body = b"WAVE" + before + chunk(b"fmt ", struct.pack("<HHIIHH", *fields) + format_end)
    return chunk(b"RIFF", body + chunk(b"data", data, announced))


WAVES = {
    "plain": wave(),
    "stereo": wave(channels=2),
    "wrong byte rate": wave(byte_rate=5),
    "wrong block size": wave(block=7),
    "no samples": wave(b""),
    "no samples in two channels": wave(b"", channels=2),
    "8 bits": wave(bits=8),
    "cut, 8 bits": wave(bits=8, announced=1000),
    "cut, 8 bits, stereo": wave(bits=8, channels=2, announced=1000),
    "cut, 16 bits": wave(announced=1000),
    "12 bits": wave(bits=12),
    "6 bits": wave(bits=6),
    "odd format chunk": wave(format_end=b"\1\0\0"),
    "odd chunk before": wave(before=chunk(b"note", b"abc")),
}  # fmt: skip


@pytest.mark.parametrize("name", WAVES)
@pytest.mark.filterwarnings("ignore")
def test_wave_files_are_read_as_kaldiio_reads_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(WAVES[name])
    rate, samples = kaldiio.load_mat(str(file))
    same(ours.load_mat(str(file)), (rate, samples))
    same(ours.load_mat(f"cat {file} |"), (rate, samples))
    assert bool(len(samples)) == ("no samples" not in name)


def test_audio_without_samples_leaves_the_next_entry_of_an_archive(tmp_path: Path) -> None:
    (tmp_path / "a.ark").write_bytes(b"a " + wave(b"") + b"b " + wave())
    table = dict(ours.load_ark(str(tmp_path / "a.ark")))
    assert [len(samples) for _, samples in table.values()] == [0, 100]


def test_data_of_unknown_size_reach_to_the_end_of_a_stream(tmp_path: Path) -> None:
    data = bytearray(wave())
    for riff, announced in ((0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x7FFFF024, 0x7FFFF000)):
        data[4:8], data[40:44] = struct.pack("<I", riff), struct.pack("<I", announced)
        (tmp_path / "a.wav").write_bytes(data)
        assert len(ours.load_mat(f"cat {tmp_path}/a.wav |")[1]) == 100


FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("flac", {}), ("ogg", {}), ("mp3", {}), ("aiff", {}), ("au", {}), ("caf", {}), ("nist", {"format": "NIST"}),
    ("wav", {"subtype": "PCM_24"}), ("wav", {"subtype": "FLOAT"}), ("wav", {"subtype": "ULAW"}), ("rf64", {}),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "options"), FORMATS, ids=str)
@pytest.mark.parametrize("channels", [1, 2])
def test_audio_of_every_format_is_an_integer_rate_and_samples_in_rows(
    ending: str, options: dict[str, Any], channels: int, tmp_path: Path
) -> None:
    file = tmp_path / f"a.{ending}"
    stored = np.random.default_rng(1).uniform(-0.5, 0.5, (16000, channels)).squeeze()
    soundfile.write(file, stored, 16000, **options)
    expected, _ = soundfile.read(file)
    (tmp_path / "wav.scp").write_text(f"rec {file}\n")
    (tmp_path / "segments").write_text("utt rec 0.25 0.5\n")
    for value in (
        ours.load_mat(str(file)),
        ours.load_mat(f"cat {file} |"),
        ours.load_scp(f"{tmp_path}/wav.scp")["rec"],
    ):
        same(value, (16000, expected))
        assert type(value[0]) is int and value[1].shape == stored.shape
    segments = ours.load_scp(f"{tmp_path}/wav.scp", segments=f"{tmp_path}/segments")
    same(segments["utt"], (16000, expected[4000:8000]))


# Sizes of the RIFF and data chunks that programs write to a pipe. sox writes whole blocks of at most 0x7FFFF000 bytes.
PIPED_SIZES = {
    "ffmpeg": (0xFFFFFFFF, 0xFFFFFFFF),
    "sox, float": (0x7FFFF032, 0x7FFFF000),
    "sox, 24 bits": (0x7FFFF048, 0x7FFFEFFF),
    "sox, GSM": (0x7FFFEFF6, 0x7FFFEFC2),
}


@pytest.mark.parametrize("program", PIPED_SIZES)
def test_audio_of_an_unknown_size_is_read_by_soundfile(program: str, tmp_path: Path) -> None:
    stored = np.random.default_rng(1).uniform(-0.5, 0.5, 800)
    soundfile.write(tmp_path / "a.wav", stored, 8000, subtype="DOUBLE")
    data = bytearray((tmp_path / "a.wav").read_bytes())
    riff, size = PIPED_SIZES[program]
    struct.pack_into("<I", data, 4, riff)
    struct.pack_into("<I", data, data.index(b"data") + 4, size)
    (tmp_path / "a.wav").write_bytes(data)
    for place in f"{tmp_path}/a.wav", f"cat {tmp_path}/a.wav |":
        same(ours.load_mat(place), (8000, stored))


def test_extensible_linear_audio_is_read_without_soundfile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subtype = struct.pack("<HHIH", 22, 16, 4, 1) + bytes.fromhex("000000001000800000aa00389b71")
    data = wave(format_end=subtype)
    at = data.index(b"fmt ") + 8
    (tmp_path / "a.wav").write_bytes(data[:at] + b"\xfe\xff" + data[at + 2 :])
    monkeypatch.setitem(sys.modules, "soundfile", None)
    same(ours.load_mat(f"{tmp_path}/a.wav"), (8000, np.frombuffer(SAMPLES, np.int16)))


FOREIGN = {
    "Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n",
    "HTML": b"<html>\n<body>Not Found</body></html>\n",
    "gunzip -c": b"\x1f\x8b\x08\0" + bytes(30),
    "NumPy": b"\x93NUMPY\1\0v\0" + bytes(130),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_stand_ins_for_readers_refuse_files_of_other_programs(what: str, tmp_path: Path) -> None:
    name = str(tmp_path / "x")
    Path(name).write_bytes(FOREIGN[what])
    readers = [
        lambda: ours.load_mat(name),
        lambda: list(ours.load_ark(name)),
        lambda: dict(ours.load_scp(name)),
        lambda: list(ours.ReadHelper(f"ark:{name}")),
        lambda: kaldi_io.read_mat(name),
        lambda: list(kaldi_io.read_mat_ark(name)),
        lambda: list(kaldi_io.read_mat_scp(name)),
        lambda: list(kaldi_io.read_vec_int_ark(name)),
        lambda: kaldi_native_io.FloatMatrix.read(name),
        lambda: list(kaldi_native_io.SequentialTokenVectorReader(f"ark:{name}")),
        lambda: list(torchaudio_kaldi_io.read_mat_ark(name)),
    ]
    for read in readers:
        with pytest.raises((FormatError, kaldi_native_io.errors.TableError)) as caught:
            read()
        assert what in str(caught.value)


def test_undecodable_audio_is_named_without_the_object_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wave(bits=24)[:20] + b"\xff" * 40)
    with pytest.raises(FormatError, match=r"a\.wav:\d+: audio cannot be decoded by soundfile: [^<>:]+$"):
        ours.load_mat(str(path))


def test_unencodable_audio_is_named_without_the_object_of_the_file(tmp_path: Path) -> None:
    samples = np.zeros((2, 5000), np.int16)  # libsndfile has fewer channels.
    with pytest.raises(FormatError, match=r"utt1: audio cannot be encoded by soundfile: [^<>:]+$"):
        ours.save_ark(str(tmp_path / "a.ark"), {"utt1": (8000, samples)}, write_function="soundfile")


def test_an_unknown_subtype_is_named(tmp_path: Path) -> None:
    """The text after the last colon of soundfile's message is only the value."""
    value, options = {"utt1": (16000, np.zeros(9, np.int16))}, {"format": "wav", "subtype": "PCM16"}
    with pytest.raises(FormatError, match="cannot be encoded by soundfile: Unknown subtype: 'PCM16'"):
        ours.save_ark(f"{tmp_path}/a.ark", value, write_function="soundfile", write_kwargs=options)
