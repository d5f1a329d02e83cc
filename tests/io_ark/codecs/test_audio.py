"""Audio that is not 16-bit linear WAV, compared with soundfile and with the same samples as WAV."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.cli import ark
from io_ark.codecs import audio as codec
from io_ark.errors import FormatError
from io_ark.streams.source import BytesSource

soundfile = pytest.importorskip("soundfile")

RATE = 16000
# Format, subtype, suffix, and whether it is lossless for 16-bit samples.
FORMATS = [
    ("FLAC", "PCM_16", True),
    ("FLAC", "PCM_24", True),
    ("OGG", "VORBIS", False),
    ("MP3", "MPEG_LAYER_III", False),
    ("NIST", "PCM_16", True),
    ("NIST", "ULAW", False),
    ("WAV", "PCM_U8", False),
    ("WAV", "PCM_24", True),
    ("WAV", "PCM_32", True),
    ("WAV", "FLOAT", True),
    ("WAV", "DOUBLE", True),
    ("WAV", "ULAW", False),
    ("WAV", "ALAW", False),
    ("WAV", "IMA_ADPCM", False),
    ("WAVEX", "PCM_24", True),
    ("WAVEX", "FLOAT", True),
    ("RF64", "PCM_16", True),
    ("W64", "PCM_16", True),
    ("AIFF", "PCM_16", True),
    ("AU", "PCM_16", True),
    ("CAF", "PCM_24", True),
]
IDS = [f"{kind}-{subtype}" for kind, subtype, _ in FORMATS]


def noise(length: int, channels: int = 1, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int16]]:
    """16-bit audio (channels, samples)."""
    return (np.random.default_rng(seed).standard_normal((channels, length)) * 3000).astype(np.int16)


def write(path: Path, samples: np.ndarray[Any, Any], kind: str, subtype: str) -> Path:
    if subtype in ("FLOAT", "DOUBLE") and samples.dtype == np.int16:
        samples = samples / 32768
    soundfile.write(path, samples.T, RATE, format=kind, subtype=subtype)
    return path


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("kind", "subtype", "lossless"), FORMATS, ids=IDS)
def test_samples_and_headers_are_soundfiles(
    kind: str, subtype: str, lossless: bool, channels: int, tmp_path: Path
) -> None:
    samples = noise(1601, channels)
    path = write(tmp_path / "a", samples, kind, subtype)
    wave = io_ark.load(path)  # whose type is detected
    assert (wave.sample_frequency, wave.samples.dtype) == (RATE, np.int16)
    if lossless:
        np.testing.assert_array_equal(wave.samples, samples)
    else:
        np.testing.assert_array_equal(wave.samples, soundfile.read(path, dtype="int16", always_2d=True)[0].T)
    np.testing.assert_array_equal(io_ark.load(f"cat {path} |", kind="wave").samples, wave.samples)
    info = io_ark.load(str(path), kind="wave-info")
    assert (info.sample_frequency, info.shape) == (RATE, wave.samples.shape)
    if not path.read_bytes().startswith(b"RIFF"):
        assert info.data_bytes == 2 * wave.samples.size


def test_entries_of_an_archive_follow_each_other_whatever_their_encoding(tmp_path: Path) -> None:
    parts, expected = [], {}
    for number, subtype in enumerate(["PCM_16", "PCM_24", "PCM_U8", "FLOAT", "ULAW", "IMA_ADPCM", "PCM_16"]):
        path = write(tmp_path / subtype, noise(1601, seed=number), "WAV", subtype)
        expected[f"u{number}"] = io_ark.load(path).samples
        parts.append(f"u{number} ".encode() + path.read_bytes())
    (tmp_path / "wav.ark").write_bytes(b"".join(parts))
    for table in (f"ark:{tmp_path}/wav.ark", f"ark:cat {tmp_path}/wav.ark |"):
        with io_ark.SequentialReader[Any](table, kind="wave") as reader:
            found = {key: wave.samples for key, wave in reader}
        with io_ark.SequentialReader[Any](table, kind="wave-info") as reader:
            shapes = {key: info.shape for key, info in reader}
        assert list(found) == list(shapes) == list(expected)
        for key, samples in expected.items():
            np.testing.assert_array_equal(found[key], samples)
            assert shapes[key] == samples.shape


def test_audio_without_a_known_end_is_refused_in_an_archive(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", noise(800), "FLAC", "PCM_16")
    (tmp_path / "wav.ark").write_bytes(b"u1 " + path.read_bytes() + b"u2 " + path.read_bytes())
    with pytest.raises(FormatError, match=r"wav\.ark:3: u1: FLAC audio within an archive is not supported"):
        list(io_ark.read(f"ark:{tmp_path}/wav.ark", kind="wave"))


def test_fractions_beyond_one_are_clipped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fractions = np.array([[0.5, 1.5, -2.0, 0, 1e-9, 0.25 + 0.6 / 32768]], np.float32)
    path = write(tmp_path / "a.wav", fractions, "WAV", "FLOAT")
    with caplog.at_level(logging.WARNING):
        samples = io_ark.load(str(path), kind="wave").samples
    assert samples.tolist() == [[16384, 32767, -32768, 0, 0, 8193]]
    assert "2 samples exceed -1 to 1 and were clipped" in caplog.text


def test_nan_is_not_read_as_silence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.array([[0.5, np.nan, 0.1]], np.float32), "WAV", "FLOAT")
    with pytest.raises(FormatError, match=r"a\.wav.*NaN"):
        io_ark.load(str(path), kind="wave")


@pytest.mark.parametrize(
    ("kind", "subtype", "name", "command"),
    [
        ("FLAC", "PCM_16", "FLAC", "flac -c -d -s FILE |"),
        ("OGG", "VORBIS", "OGG", "ffmpeg"),
        ("MP3", "MPEG_LAYER_III", "MP3", "ffmpeg"),
        ("NIST", "PCM_16", "SPHERE", "sph2pipe"),
        ("WAV", "PCM_24", "a wave file that has 24 bits per sample", "sox FILE -t wav -b 16 - |"),
        ("WAV", "FLOAT", r"a wave file that has samples that are not linear PCM \(format 3\)", "sox FILE"),
    ],
)
def test_without_soundfile_the_error_names_both_ways_out(
    kind: str, subtype: str, name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a", noise(800), kind, subtype)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    for codec_kind in ("wave", "wave-info"):
        with pytest.raises(FormatError, match=rf"{name} needs soundfile, .*: pip install soundfile .*; or .*") as error:
            io_ark.load(str(path), kind=codec_kind)
        assert command in str(error.value)


@pytest.mark.parametrize("kind", ["FLAC", "MP3", "NIST"])
def test_broken_files_are_refused_or_give_what_is_there(kind: str, tmp_path: Path) -> None:
    subtype = "MPEG_LAYER_III" if kind == "MP3" else "PCM_16"
    content = write(tmp_path / "a", noise(4000), kind, subtype).read_bytes()
    whole = io_ark.load(tmp_path / "a").samples
    rng = np.random.default_rng(1)
    for number in range(60):
        broken = bytearray(content[: int(rng.integers(4, len(content)))])
        for at in rng.integers(4, len(broken), number % 4):
            broken[at] = int(rng.integers(256))
        (tmp_path / "b").write_bytes(broken)
        try:
            samples = io_ark.load(str(tmp_path / "b"), kind="wave", max_duration=10.0).samples
        except FormatError as error:
            assert str(error).startswith(str(tmp_path / "b"))
        else:
            assert 0 < samples.shape[1] <= 10 * RATE and samples.dtype == whole.dtype


def test_impossible_length_allocates_no_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    samples = noise(5000)
    content = bytearray(write(tmp_path / "a.flac", samples, "FLAC", "PCM_16").read_bytes())
    content[21] |= 0x0F  # the upper bits of the number of samples, in the stream's first block
    (tmp_path / "b.flac").write_bytes(content)
    try:
        found = io_ark.load(str(tmp_path / "b.flac"), kind="wave").samples
    except FormatError as error:
        assert "b.flac" in str(error)
    else:
        np.testing.assert_array_equal(found, samples[:, : found.shape[1]])
        assert "only" in caplog.text


def test_long_audio_is_decoded_in_parts_and_refused_beyond_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "_CHUNK_SAMPLES", 1000)
    for length in (999, 1000, 1001, 3000):
        samples = noise(length, 2)
        path = write(tmp_path / "a.flac", samples, "FLAC", "PCM_16")
        np.testing.assert_array_equal(io_ark.load(str(path), kind="wave").samples, samples)
    with pytest.raises(FormatError, match=r"audio is longer than max_duration=0\.1 s"):
        io_ark.load(str(path), kind="wave", max_duration=0.1)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"FORM\0\0\0\x08AIFF", "AIFF"),
        (b"FORM\0\0\0\x08AIFC", "AIFF"),
        (b"FORM\0\0\0\x08ILBM", ""),
        (b"ID3\x04\0\0\0\0\0\0", "MP3"),
        (b"ID3 tagged", ""),
        (b"\xff\xfb\x90\x00", "MP3"),
        (b"\xff\xf3\x90\x00", "MP3"),
        (b"\xff\xeb\x90\x00", ""),  # a reserved version
        (b"\xff\xf9\x90\x00", ""),  # a reserved layer
        (b"\xff\xfb\x00\x00", ""),  # a free bit rate
        (b"\xff\xfb\xf0\x00", ""),  # an invalid bit rate
        (b"\xff\xfb\x9c\x00", ""),  # a reserved sampling rate
        (b"\xff\xdb\x90\x00", ""),  # no synchronization
        (b"\xff", ""),
    ],
)
def test_format_is_taken_for_another(head: bytes, name: str) -> None:
    assert codec.detect_audio_format(BytesSource(head)) == name


def test_file_without_samples_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.aiff", noise(0), "AIFF", "PCM_16")
    with pytest.raises(FormatError, match="AIFF audio has no samples"):
        io_ark.load(str(path), kind="wave")


def test_missing_samples_are_not_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    samples = noise(5000)
    path = write(tmp_path / "a.au", samples, "AU", "PCM_16")
    io_ark.load(str(path), kind="wave")
    assert not caplog.records
    file = SimpleNamespace(samplerate=RATE, frames=6000, channels=1, subtype="PCM_16")
    blocks = iter([samples.T, samples.T[:0]])
    file.read = lambda *_, **__: next(blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_open_audio", lambda *_: nullcontext(file))
        _, found = codec.decode_audio_file(b"", BytesSource(b"", name="a.flac"), "FLAC")
    np.testing.assert_array_equal(found, samples)
    assert "a.flac: 6000 samples announced, but only 5000 are present" in caplog.text


def test_words_that_start_like_audio_stay_text(tmp_path: Path) -> None:
    for text, expected in (("ID3\n", "ID3"), ("FORM a b\n", ["FORM", "a", "b"]), ("OggSound\n", "OggSound")):
        (tmp_path / "text").write_text(f"utt {text}")
        assert dict(io_ark.read(f"ark:{tmp_path}/text")) == {"utt": expected}


def test_check_of_a_directory_with_audio_of_all_formats_finds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for number, (kind, subtype, _) in enumerate(FORMATS):
        path = write(tmp_path / f"{number}", noise(800, seed=number), kind, subtype)
        lines.append(f"utt{number:02d} {path}\n")
    (tmp_path / "wav.scp").write_text("".join(lines))
    status = ark.main(["check", str(tmp_path / "wav.scp")])
    assert status == 0 and "no problem found" in capsys.readouterr().out


@pytest.mark.parametrize("specifier", ["ark:{}", "ark:cat {} |"])
def test_samples_of_a_truncated_wave_file_are_not_read_as_keys(specifier: str, tmp_path: Path) -> None:
    samples = np.frombuffer(b"key RIFF " * 20, np.int16)
    wave = io_ark.Wave(8000.0, samples.reshape(1, -1))
    with io_ark.Writer(f"ark:{tmp_path}/a.ark", kind="wave") as writer:
        writer["a"] = writer["b"] = wave
    data = (tmp_path / "a.ark").read_bytes()
    (tmp_path / "cut.ark").write_bytes(data[:-100])
    entries = list(io_ark.SequentialReader(specifier.format(tmp_path / "cut.ark"), kind="wave-info"))
    assert [(key, info.sample_count) for key, info in entries] == [("a", samples.size), ("b", samples.size)]


@pytest.mark.parametrize(("off", "warns"), [(-2, True), (-1, False), (0, False), (1, False), (2, True)])
def test_riff_size_may_be_off_by_the_padding_of_a_chunk(
    off: int, warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    samples = np.arange(20, dtype=np.int16)[None]
    io_ark.save(tmp_path / "a.wav", io_ark.Wave(8000.0, samples), kind="wave")
    file = bytearray((tmp_path / "a.wav").read_bytes())
    file[4:8] = (len(file) - 8 + off).to_bytes(4, "little")
    (tmp_path / "a.ark").write_bytes(b"".join(b"%c " % key + file for key in b"abc"))
    found = list(io_ark.SequentialReader(f"ark:{tmp_path}/a.ark", kind="wave"))
    assert [key for key, wave in found if np.array_equal(wave.samples, samples)] == ["a", "b", "c"]
    assert len(caplog.messages) == 3 * warns
