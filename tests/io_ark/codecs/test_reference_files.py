"""Kaldi's own files, read and written again, give the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from io_ark.codecs import codec
from io_ark.errors import FormatError
from io_ark.streams.source import BytesSource
from tests.support.codec_tools import archive_bytes, archive_entries

REFERENCE = Path(__file__).parents[3] / "reference_data"
INPUTS = REFERENCE / "inputs"
ARCHIVE = REFERENCE / "expected" / "archive"


@pytest.mark.parametrize(
    ("kind", "name", "binary", "expected"),
    [
        ("matrix", "mats", True, "bin/o.ark"),
        ("matrix", "mats", False, "text/o.txt"),
        ("matrix", "mats", True, "matrix-bin/o.ark"),
        *((("matrix", f"text_{n}", True, f"text_{n}-bin/o.ark")) for n in ("layout", "layout2", "tiny")),
        *((("matrix", f"text_{n}", False, f"text_{n}/o.txt")) for n in ("layout", "layout2", "tiny")),
        ("vector", "vecs", True, "vector-bin/o.ark"),
        ("vector", "vecs", False, "vector-text/o.txt"),
        ("int-vector", "ints", True, "int-bin/o.ark"),
        ("int-vector", "ints", False, "int-text/o.txt"),
        ("posterior", "post", True, "post-bin/o.ark"),
    ],
)
def test_text_converted_by_kaldi_is_read(kind: str, name: str, binary: bool, expected: str) -> None:
    entries = archive_entries((INPUTS / f"{name}.txt").read_bytes(), kind)
    assert len(entries) > 0
    assert archive_bytes(entries, kind, binary) == (ARCHIVE / expected).read_bytes()


@pytest.mark.parametrize("name", ["badnum", "nokey", "nonfinite", "overflow", "ragged", "unclosed"])
def test_text_refused_by_kaldi_is_refused(name: str) -> None:
    with pytest.raises(FormatError) as caught:
        archive_entries((INPUTS / f"text_{name}.txt").read_bytes(), "matrix")
    assert caught.value.offset is not None


@pytest.mark.parametrize("method", range(1, 8))
def test_compression_by_each_method(method: int) -> None:
    entries = archive_entries((INPUTS / "mats_full.txt").read_bytes(), "matrix")
    written = archive_bytes(entries, "compressed-matrix", method=method)
    assert written == (ARCHIVE / f"compress{method}/o.ark").read_bytes()


@pytest.mark.parametrize(("method", "back"), [(1, ""), (3, "3"), (5, "5"), (7, "7")])
def test_decompression(method: int, back: str) -> None:
    entries = archive_entries((ARCHIVE / f"compress{method}/o.ark").read_bytes(), "matrix")
    assert archive_bytes(entries, "matrix") == (ARCHIVE / f"compress{back}-back/o.ark").read_bytes()


@pytest.mark.parametrize("kind", ["compressed-matrix", "general-matrix"])
def test_compressed_matrices_are_copied_as_they_are(kind: str) -> None:
    for method in range(1, 8):
        data = (ARCHIVE / f"compress{method}/o.ark").read_bytes()
        assert archive_bytes(archive_entries(data, kind), kind) == data


def test_posteriors_scaled_and_written_as_text() -> None:
    entries = archive_entries((INPUTS / "post.txt").read_bytes(), "posterior")
    halves = [(key, [[(i, 0.5 * p) for i, p in frame] for frame in value]) for key, value in entries]
    assert archive_bytes(halves, "posterior", binary=False) == (ARCHIVE / "post-text/o.txt").read_bytes()


def _wave_cases() -> list[str]:
    return sorted(path.stem for path in INPUTS.glob("fmt_*.scp"))


@pytest.fixture
def _no_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kaldi reads 16-bit linear wave files only."""
    monkeypatch.setitem(sys.modules, "soundfile", None)


@pytest.mark.usefixtures("_no_soundfile")
@pytest.mark.parametrize("name", _wave_cases())
def test_wave_files_copied_or_refused_as_kaldi_does(name: str) -> None:
    key, file = (INPUTS / f"{name}.scp").read_text().split()
    source = BytesSource((INPUTS / file).read_bytes())
    expected = (REFERENCE / "expected" / "wavformat" / f"{name}-copy" / "o.ark").read_bytes()
    if expected:
        assert archive_bytes([(key.encode(), codec("wave").read(source))], "wave") == expected
    else:
        with pytest.raises(FormatError):
            codec("wave").read(source)


@pytest.mark.usefixtures("_no_soundfile")
@pytest.mark.parametrize("name", _wave_cases())
def test_durations_from_the_header(name: str) -> None:
    _, file = (INPUTS / f"{name}.scp").read_text().split()
    expected = REFERENCE / "expected" / "wavformat" / f"{name}-duration" / "stdout"
    source = BytesSource((INPUTS / file).read_bytes())
    if expected.exists() and expected.stat().st_size:
        info = codec("wave-info").read(source)
        assert info.duration == pytest.approx(float(expected.read_text().split()[1]), rel=1e-6)
    else:  # Kaldi refuses, or does not know the length of audio that was piped
        try:
            assert codec("wave-info").read(source).duration is None
        except FormatError as error:
            assert "wave file" in str(error) or "too early" in str(error)
