"""The omniio API: names beside kaldiio's, whose behaviour test_kaldiio.py compares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from io_ark.errors import FormatError, SpecifierError
from kaldi_standins.omniio import kaldi

# The names that omniio 0.1.2 exports.
NAMES = """LazyLoader ReadError SegmentedLoader ReadHelper WriteHelper kAutomaticMethod kOneByteAuto
    kOneByteUnsignedInteger kOneByteZeroOne kSpeechFeature kTwoByteAuto kTwoByteSignedInteger load_ark load_mat load_scp
    load_scp_sequential load_segments load_wav_scp open_like_kaldi parse_extended_filename parse_rspecifier
    parse_specifier parse_wspecifier read_object save_ark save_mat slice_segment"""


def test_every_name_of_the_original_exists() -> None:
    assert set(kaldi.__all__) == set(NAMES.split())
    assert all(hasattr(kaldi, name) for name in kaldi.__all__)


def test_archives_are_written_and_read(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    with kaldi.WriteHelper(
        f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", compression_method=kaldi.kTwoByteAuto
    ) as writer:
        writer["a"] = matrix
    with kaldi.ReadHelper(f"scp:{tmp_path}/a.scp") as reader:
        ((key, read),) = reader
    assert key == "a"
    np.testing.assert_allclose(read, matrix, atol=1e-3)
    with open(f"{tmp_path}/a.ark", "rb") as file:
        file.seek(2)
        assert kaldi.read_object(file, return_size=True)[1] == (tmp_path / "a.ark").stat().st_size - 2
    with pytest.raises(kaldi.ReadError):
        kaldi.load_mat(f"{tmp_path}/a.ark:7")


def test_segments_are_cut(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("s rec 0.5 -1\n")
    assert kaldi.load_segments(tmp_path / "segments") == [("s", "rec", 0.5, -1.0)]
    rate, samples = kaldi.slice_segment((10, np.arange(20)), 0.5, -1)
    assert (rate, samples[0], len(samples)) == (10, 5, 15)
    assert len(kaldi.slice_segment((10, np.arange(20)), 0.5, 1.0)[1]) == 5
    with pytest.raises(FormatError):
        kaldi.slice_segment(np.arange(20), 0, 1)


def test_specifiers_are_parsed() -> None:
    assert kaldi.parse_rspecifier("ark:gunzip -c a.gz |") == ("ark", "gunzip -c a.gz |")
    assert kaldi.parse_wspecifier("ark,f:a.ark") == {"ark": "a.ark", "f": None}
    assert kaldi.parse_extended_filename("C:feats") == ("C:feats", None)
    for parse, wrong in ((kaldi.parse_rspecifier, "ark,scp:a,b"), (kaldi.parse_wspecifier, "scp:a.scp")):
        with pytest.raises(SpecifierError):
            parse(wrong)
