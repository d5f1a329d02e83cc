"""compute-fbank-feats and its kin as programs: what the stored cases of Kaldi do not show."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

from kaldi_compat.cli import compute, pipeline
from kaldi_compat.options.spectral import MfccOptions
from kaldi_compat.programs import compute_fbank_feats, compute_mfcc_feats, compute_plp_feats
from kaldi_compat.programs import compute_spectrogram_feats as spectrogram

QUIET = ["--print-args=false", "--dither=0"]


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def noise(samples: int, channels: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(samples).integers(-3000, 3000, (samples, channels)).astype(np.int16)


def wav_bytes(samples: np.ndarray[Any, Any], rate: int = 16000) -> bytes:
    data, width = samples.astype("<i2").tobytes(), 2 * samples.shape[1]
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, samples.shape[1], rate,
                       rate * width, width, 16, b"data", len(data))  # fmt: skip
    return head + data


def archive(name: str, **audio: bytes) -> str:
    Path(name).write_bytes(b"".join(key.encode() + b" " + wave for key, wave in audio.items()))
    return f"ark:{name}"


def load(path: str) -> dict[str, np.ndarray[Any, Any]]:
    return {key: np.array(value) for key, value in kaldiio.load_ark(path)}


def fbank(*argv: str) -> int:
    return compute_fbank_feats.main([*QUIET, *argv])


def test_utterances_that_fail_are_skipped_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    source = archive(
        "a.ark", good=wav_bytes(noise(4000)), slow=wav_bytes(noise(4000), 8000), short=wav_bytes(noise(500))
    )
    assert fbank("--min-duration=0.1", source, "ark:o.ark") == 0
    assert list(load("o.ark")) == ["good"]
    error = capsys.readouterr().err
    assert "slow: it has 8000 Hz, not --sample-frequency=16000; --allow-upsample=true would resample it" in error
    assert "short is too short (0.03125 sec)" in error
    assert error.endswith(" Done 1 out of 3 utterances.\n")


def test_nothing_done_is_no_success() -> None:
    assert fbank("--min-duration=1", archive("a.ark", a=wav_bytes(noise(4000))), "ark:o.ark") == 1
    assert fbank(archive("none.ark"), "ark:o.ark") == 1


def test_channels(capsys: pytest.CaptureFixture[str]) -> None:
    stereo = noise(4000, 2)
    source = archive("a.ark", s=wav_bytes(stereo))
    for channel in (0, 1):
        mono = archive(f"{channel}.ark", s=wav_bytes(stereo[:, channel : channel + 1]))
        assert fbank(mono, f"ark:mono{channel}") == fbank(f"--channel={channel}", source, f"ark:stereo{channel}") == 0
        assert Path(f"mono{channel}").read_bytes() == Path(f"stereo{channel}").read_bytes()
    assert fbank(source, "ark:default") == 0
    assert Path("default").read_bytes() == Path("mono0").read_bytes()
    assert "2 channels" in capsys.readouterr().err
    assert fbank("--channel=2", source, "ark:o.ark") == 1
    assert fbank("--channel=-2", source, "ark:o.ark") == 255


def test_vtln_by_utterance_and_by_speaker() -> None:
    source = archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(5000)))
    Path("spk2warp").write_text("s1 0.9\n")
    Path("utt2spk").write_text("u1 s1\nu2 s2\n")
    Path("utt2warp").write_text("u1 0.9\n")
    assert fbank("--vtln-warp=0.9", source, "ark:all") == 0
    assert fbank("--vtln-map=ark:utt2warp", source, "ark:utt") == 0
    assert fbank("--vtln-map=ark:spk2warp", "--utt2spk=ark:utt2spk", source, "ark:spk") == 0
    assert Path("utt").read_bytes() == Path("spk").read_bytes()
    assert list(load("utt")) == ["u1"]
    np.testing.assert_array_equal(load("utt")["u1"], load("all")["u1"])
    assert not np.array_equal(load("all")["u2"], np.zeros(1))


def test_a_vtln_factor_without_room_skips_the_utterance(capsys: pytest.CaptureFixture[str]) -> None:
    source = archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(4000)))
    Path("utt2warp").write_text("u1 100\nu2 1\n")
    assert fbank("--vtln-map=ark:utt2warp", source, "ark:o.ark") == 0
    assert list(load("o.ark")) == ["u2"]
    assert "Failed to compute features for utterance u1" in capsys.readouterr().err


def test_subtract_mean() -> None:
    source = archive("a.ark", a=wav_bytes(noise(4000)), tiny=wav_bytes(noise(3)))
    assert fbank("--subtract-mean", source, "ark:o.ark") == 0
    features = load("o.ark")
    assert np.abs(features["a"].mean(axis=0)).max() < 1e-5
    assert features["tiny"].size == 0


def test_utt2dur_in_kaldis_precision() -> None:
    source = archive("a.ark", a=wav_bytes(noise(4001)))
    assert fbank("--write-utt2dur=ark:dur", source, "ark:o.ark") == 0
    assert Path("dur").read_bytes() == b"a \0B\x08" + struct.pack("<d", np.float32(4001) / np.float32(16000))


@pytest.mark.parametrize(
    ("main", "options", "kind", "period", "columns"),
    [
        (compute_fbank_feats.main, [], 0o20007, 100000, 23),
        (compute_fbank_feats.main, ["--use-energy", "--frame-shift=20"], 0o107, 100000, 24),
        (compute_mfcc_feats.main, [], 0o106, 100000, 13),
        (compute_mfcc_feats.main, ["--use-energy=false"], 0o20006, 100000, 13),
        (compute_plp_feats.main, [], 0o20013, 100000, 13),
        (spectrogram.main, ["--frame-shift=12.5"], 0o20007, 125000, 257),
    ],
)
def test_htk_headers(main: Any, options: list[str], kind: int, period: int, columns: int) -> None:
    source = archive("a.ark", a=wav_bytes(noise(4000)))
    assert main([*QUIET, *options, "--output-format=htk", source, "scp:echo a o.htk |"]) == 0
    content = Path("o.htk").read_bytes()
    frames = (len(content) - 12) // (4 * columns)
    assert struct.unpack(">iihH", content[:12]) == (frames, period, 4 * columns, kind)
    assert frames > 5


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = archive("a.ark", **{f"u{i:02}": wav_bytes(noise(400 * i + 1)) for i in range(30)})
    outputs = []
    for second_core in (True, False):
        for module in (compute, pipeline):
            monkeypatch.setattr(module, "has_second_core", lambda has=second_core: has)
        assert compute_fbank_feats.main([source, f"ark:{second_core}"]) == 0  # dithered: the order matters
        outputs.append(Path(str(second_core)).read_bytes())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 10000


def test_a_cut_archive_is_an_error_after_what_came_before(capsys: pytest.CaptureFixture[str]) -> None:
    archive("a.ark", a=wav_bytes(noise(4000)), b=wav_bytes(noise(4000)))
    with open("a.ark", "ab") as file:
        file.write(b"c RIF")
    assert fbank("ark:a.ark", "ark:o.ark") == 255
    assert list(load("o.ark")) == ["a", "b"]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("ERROR (compute-fbank-feats[")
    assert "a.ark" in last


def test_many_tiny_utterances(capsys: pytest.CaptureFixture[str]) -> None:
    source = archive("a.ark", **{f"u{i:04}": wav_bytes(noise(1)) for i in range(2000)})
    assert fbank("--snip-edges=false", source, "ark:o.ark") == 0
    assert capsys.readouterr().err.endswith(" Done 2000 out of 2000 utterances.\n")
    assert Path("o.ark").read_bytes().count(b"\0B") == 2000


@pytest.mark.parametrize(
    "option",
    [
        "--output-format=text",
        "--utt2spk=ark:x",
        "--device=nowhere",
        "--num-mel-bins=2",
        "--high-freq=9000",
        "--frame-shift=0",
    ],
)
def test_bad_options_leave_no_output(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fbank(option, archive("a.ark", a=wav_bytes(noise(4000))), "ark:o.ark") == 255
    assert not Path("o.ark").exists()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_features_options_reach_the_module() -> None:
    options: Any = compute_mfcc_feats.main.options(num_ceps=5, channel=0, vtln_warp=1.1)
    inner = compute.feature_options(MfccOptions, options)
    assert inner.num_ceps == 5
    assert {field.name for field in dataclasses.fields(inner)}.isdisjoint({"channel", "vtln_warp", "device"})


def test_debug_mel_logs_the_bins(capsys: pytest.CaptureFixture[str]) -> None:
    assert fbank("--debug-mel", "--num-mel-bins=17", archive("a.ark", a=wav_bytes(noise(4000))), "ark:o.ark") == 0
    error = capsys.readouterr().err
    assert error.count(", vec = [ ") == 17
    assert "bin 0, offset = 1, vec = [ " in error
