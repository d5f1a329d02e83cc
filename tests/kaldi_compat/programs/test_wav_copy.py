"""Tests of wav-copy that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kaldi_compat.programs import wav_copy
from tests.support.programs import run
from tests.support.tables import wav


def test_a_single_file_is_copied_byte_for_byte() -> None:
    wav("a.wav", 8000, np.ones((1234, 2)))
    assert wav_copy.main(["a.wav", "b.wav"]) == 0
    assert Path("b.wav").read_bytes() == Path("a.wav").read_bytes()


def test_the_log_counts_wave_files_as_kaldis_does() -> None:
    wav("a.wav", 8000, np.ones((10, 1)))
    Path("wav.scp").write_text("a a.wav\nb a.wav\n")
    status, stderr = run(wav_copy.main, "scp:wav.scp", "ark:o.ark")
    assert status == 0
    assert stderr.endswith(") Copied 2 wave files\n")
    assert run(wav_copy.main, "a.wav", "b.wav") == (0, "")


def test_warnings_of_damaged_wave_files_are_kaldis() -> None:
    wav("whole.wav", 16000, np.ones((100, 1), np.int16))
    data = Path("whole.wav").read_bytes()
    Path("cut.wav").write_bytes(data[:-20])
    Path("long.wav").write_bytes(data[:4] + (300).to_bytes(4, "little") + data[8:])
    for name, warning in (
        ("cut.wav", "Expected 200 bytes of wave data, but read only 180 bytes. Truncated file?"),
        (
            "long.wav",
            "Expected 300 bytes in RIFF chunk, but after first data block there will be 36 + 200 bytes "
            "(we do not support reading multiple data chunks).",
        ),
    ):
        assert warning in run(wav_copy.main, f"scp:echo u {name} |", "ark:o.ark")[1]
