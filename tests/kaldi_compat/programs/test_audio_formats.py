"""Audio in other formats than WAV gives what the same samples give as WAV, in the programs, data sets and the dump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat.programs import compute_fbank_feats, extract_segments, wav_copy, wav_to_duration

soundfile = pytest.importorskip("soundfile")

LOSSLESS = {"flac": "PCM_16", "wav": "PCM_24", "nist": "PCM_16"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the scripts plain.scp and other.scp of the same audio."""
    rng = np.random.default_rng(0)
    plain, other = [], []
    for number, (suffix, subtype) in enumerate(LOSSLESS.items()):
        samples = (rng.standard_normal(8000) * 2000).astype(np.int16)
        soundfile.write(tmp_path / f"{number}.plain.wav", samples, 16000, subtype="PCM_16")
        path = tmp_path / f"{number}.{suffix}"
        soundfile.write(path, samples, 16000, format=suffix.upper(), subtype=subtype)
        plain.append(f"u{number} {tmp_path}/{number}.plain.wav\n")
        other.append(f"u{number} {path}\n")
    (tmp_path / "plain.scp").write_text("".join(plain))
    (tmp_path / "other.scp").write_text("".join(other))
    (tmp_path / "segments").write_text("s0 u0 0.1 0.3\ns1 u2 0.2 0.45\n")
    return tmp_path


@pytest.mark.parametrize(
    ("main", "arguments", "suffix"),
    [
        (compute_fbank_feats.main, ["scp:{scp}", "ark:{out}"], "ark"),
        (wav_copy.main, ["scp:{scp}", "ark:{out}"], "ark"),
        (wav_to_duration.main, ["scp:{scp}", "ark,t:{out}"], "txt"),
        (extract_segments.main, ["scp:{scp}", "{dir}/segments", "ark:{out}"], "ark"),
    ],
    ids=["compute-fbank-feats", "wav-copy", "wav-to-duration", "extract-segments"],
)
def test_program_writes_the_same_bytes(
    main: Any, arguments: list[str], suffix: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KALDI_COMPAT_WAV", "any")  # one of the files has 24 bits, which Kaldi refuses
    outputs = []
    for name in ("plain", "other"):
        out = directory / f"{name}.out.{suffix}"
        values = {"scp": directory / f"{name}.scp", "out": out, "dir": directory}
        assert main([argument.format(**values) for argument in arguments]) in (0, None)
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1] != b""


def test_program_refuses_24_bits_as_kaldi_does_and_says_how_to_read_them(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for main in (wav_copy.main, wav_to_duration.main):
        assert main([f"scp:{directory}/other.scp", f"ark:{directory}/out.ark"]) == 255
        assert "which Kaldi refuses: set KALDI_COMPAT_WAV=any" in capfd.readouterr().err


@pytest.mark.parametrize("value", ["", "kaldi"])
def test_program_refuses_24_bits_by_default_and_with_kaldi(
    value: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KALDI_COMPAT_WAV", value)
    assert wav_copy.main([f"scp:{directory}/other.scp", f"ark:{directory}/out.ark"]) == 255


def test_unknown_value_of_the_variable_is_taken_for_unset(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KALDI_COMPAT_WAV", "Any")
    assert wav_copy.main([f"scp:{directory}/plain.scp", f"ark:{directory}/out.ark"]) == 255
    [line] = capfd.readouterr().err.splitlines()[1:]  # after the command line
    assert "KALDI_COMPAT_WAV is 'Any': set it to 'any'" in line
    assert "'kaldi'" in line
    assert not (directory / "out.ark").exists()


def test_data_set_reads_the_same_samples(directory: Path) -> None:
    datasets = pytest.importorskip("kaldi_compat.torch.data.datasets")
    plain, other = (datasets.WaveDataset(directory / f"{name}.scp") for name in ("plain", "other"))
    assert len(plain) == len(other) == len(LOSSLESS)
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_array_equal(one.input, two.input)
    assert [len(wave.samples[0]) for _, wave in io_ark.read(f"scp:{directory}/other.scp")] == [8000] * len(LOSSLESS)
