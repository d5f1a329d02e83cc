"""Tests of compute-fbank-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from io_ark.blocks import WaveBlock
from kaldi_compat.cli import tables
from kaldi_compat.cli.compute import ExactComputer
from kaldi_compat.programs import (
    compute_fbank_feats,
    compute_mfcc_feats,
    compute_plp_feats,
    interpolate_pitch,
    process_pitch_feats,
)
from kaldi_compat.programs import compute_spectrogram_feats as spectrogram
from tests.support.programs import check_refused, run
from tests.support.reference import ROOT
from tests.support.tables import audio_archive, load, noise, save, wav_bytes

SPEECH = ROOT / "inputs" / "wav" / "speech16k_b.wav"
QUIET = ["--print-args=false", "--dither=0"]


def fbank(*argv: str) -> int:
    return compute_fbank_feats.main([*QUIET, *argv])


def test_utterances_that_fail_are_skipped_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    source = audio_archive(
        "a.ark", good=wav_bytes(noise(4000)), slow=wav_bytes(noise(4000), 8000), short=wav_bytes(noise(500))
    )
    assert fbank("--min-duration=0.1", source, "ark:o.ark") == 0
    assert list(load("o.ark")) == ["good"]
    error = capsys.readouterr().err
    assert "Failed to compute features for utterance slow: Waveform and config sample Frequency mismatch: 8000" in error
    assert "short is too short (0.03125 sec)" in error
    assert error.endswith(" Done 1 out of 3 utterances.\n")


def test_status_is_1_if_no_utterance_has_output() -> None:
    assert fbank("--min-duration=1", audio_archive("a.ark", a=wav_bytes(noise(4000))), "ark:o.ark") == 1
    assert fbank(audio_archive("none.ark"), "ark:o.ark") == 1


def test_channel_selects_one_and_defaults_to_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    stereo = noise(4000, 2)
    source = audio_archive("a.ark", s=wav_bytes(stereo))
    for channel in (0, 1):
        mono = audio_archive(f"{channel}.ark", s=wav_bytes(stereo[:, channel : channel + 1]))
        assert fbank(mono, f"ark:mono{channel}") == fbank(f"--channel={channel}", source, f"ark:stereo{channel}") == 0
        assert Path(f"mono{channel}").read_bytes() == Path(f"stereo{channel}").read_bytes()
    assert fbank(source, "ark:default") == 0
    assert Path("default").read_bytes() == Path("mono0").read_bytes()
    assert "Channel not specified but you have data with 2 channels; defaulting to zero" in capsys.readouterr().err
    assert fbank("--channel=2", source, "ark:o.ark") == 1


@pytest.mark.parametrize(("rate", "checksum"), [(8000.9, 2692323039), (16000.5, 2743384966)])
def test_a_fraction_of_the_sampling_rate_moves_the_cutoff_of_the_resampling_only(rate: float, checksum: int) -> None:
    options = [f"--sample-frequency={rate}", "--allow-downsample", "--allow-upsample", f"scp:echo s {SPEECH} |"]
    assert fbank(*options, "ark:o.ark") == fbank("--engine=torch", *options, "ark:torch.ark") == 0
    (exact,), (close,) = load("o.ark").values(), load("torch.ark").values()
    assert zlib.crc32(exact.tobytes()) == checksum, "of what Kaldi's compute-fbank-feats wrote"
    np.testing.assert_allclose(close, exact, atol=1e-3)


def test_vtln_factors_are_looked_up_by_utterance_and_by_speaker() -> None:
    source = audio_archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(5000)))
    Path("spk2warp").write_text("s1 0.9\n")
    Path("utt2spk").write_text("u1 s1\nu2 s2\n")
    Path("utt2warp").write_text("u1 0.9\n")
    assert fbank("--vtln-warp=0.9", source, "ark:all") == 0
    assert fbank("--vtln-map=ark:utt2warp", source, "ark:utt") == 0
    assert fbank("--vtln-map=ark:spk2warp", "--utt2spk=ark:utt2spk", source, "ark:spk") == 0
    assert Path("utt").read_bytes() == Path("spk").read_bytes()
    assert fbank(source, "ark:unwarped") == 0
    assert list(load("utt")) == ["u1"]
    np.testing.assert_array_equal(load("utt")["u1"], load("all")["u1"])
    assert not np.array_equal(load("utt")["u1"], load("unwarped")["u1"])


def test_speakers_without_vtln_factors_have_no_effect_as_in_kaldi(capsys: pytest.CaptureFixture[str]) -> None:
    source = audio_archive("a.ark", u1=wav_bytes(noise(4000)))
    assert fbank("--utt2spk=ark:missing", source, "ark:with") == 0
    assert "--utt2spk=ark:missing has no effect without --vtln-map" in capsys.readouterr().err
    assert fbank(source, "ark:without") == 0
    assert Path("with").read_bytes() == Path("without").read_bytes()


def test_an_impossible_vtln_factor_skips_the_utterance(capsys: pytest.CaptureFixture[str]) -> None:
    source = audio_archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(4000)))
    Path("utt2warp").write_text("u1 100\nu2 1\n")
    assert fbank("--vtln-map=ark:utt2warp", source, "ark:o.ark") == 0
    assert list(load("o.ark")) == ["u2"]
    assert "Failed to compute features for utterance u1" in capsys.readouterr().err


def test_utterance_whose_features_do_not_fit_into_memory_is_skipped_as_in_kaldi(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    features = ExactComputer.features

    def of_little_memory(self: ExactComputer, block: WaveBlock, *rest: Any) -> Any:
        if block.lengths.max() > 5000:
            raise MemoryError("Unable to allocate 25.0 GiB")
        return features(self, block, *rest)

    monkeypatch.setattr(ExactComputer, "features", of_little_memory)
    source = audio_archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(6000)), u3=wav_bytes(noise(4000)))
    assert fbank(source, "ark:o.ark") == 0
    assert list(load("o.ark")) == ["u1", "u3"]
    assert "Failed to compute features for utterance u2: Unable to allocate" in capsys.readouterr().err


def test_subtract_mean_gives_features_of_mean_zero() -> None:
    source = audio_archive("a.ark", a=wav_bytes(noise(4000)), tiny=wav_bytes(noise(3)))
    assert fbank("--subtract-mean", source, "ark:o.ark") == 0
    features = load("o.ark")
    assert np.abs(features["a"].mean(axis=0)).max() < 1e-5
    assert features["tiny"].size == 0


def test_durations_have_kaldis_precision() -> None:
    source = audio_archive("a.ark", a=wav_bytes(noise(4001)))
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
def test_htk_headers_are_kaldis(main: Any, options: list[str], kind: int, period: int, columns: int) -> None:
    source = audio_archive("a.ark", a=wav_bytes(noise(4000)))
    assert main([*QUIET, *options, "--output-format=htk", source, "scp:echo a o.htk |"]) == 0
    content = Path("o.htk").read_bytes()
    frames = (len(content) - 12) // (4 * columns)
    assert struct.unpack(">iihH", content[:12]) == (frames, period, 4 * columns, kind)
    assert frames > 5


def test_background_threads_do_not_change_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    source = audio_archive("a.ark", **{f"u{i:02}": wav_bytes(noise(400 * i + 1)) for i in range(30)})
    outputs = []
    for second_core in (True, False):
        monkeypatch.setattr(tables, "has_second_core", lambda has=second_core: has)
        assert compute_fbank_feats.main([source, f"ark:{second_core}"]) == 0  # dithered: the order matters
        outputs.append(Path(str(second_core)).read_bytes())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 10000


def test_a_truncated_archive_is_an_error_after_the_entries_before() -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)), b=wav_bytes(noise(4000)))
    with open("a.ark", "ab") as file:
        file.write(b"c RIF")
    check_refused(compute_fbank_feats.main, "--dither=0", "ark:a.ark", "ark:o.ark", message="a.ark")
    assert list(load("o.ark")) == ["a", "b"]


def test_utterances_without_frames_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    source = audio_archive("a.ark", **{f"u{i:04}": wav_bytes(noise(1)) for i in range(2000)})
    assert fbank("--snip-edges=false", source, "ark:o.ark") == 0
    assert capsys.readouterr().err.endswith(" Done 2000 out of 2000 utterances.\n")
    assert Path("o.ark").read_bytes().count(b"\0B") == 2000


@pytest.mark.parametrize(
    "option",
    [
        "--output-format=text",
        "--device=nowhere",
        "--num-mel-bins=2",
        "--high-freq=9000",
        "--frame-shift=0",
    ],
)
def test_invalid_options_leave_no_output(option: str) -> None:
    source = audio_archive("a.ark", a=wav_bytes(noise(4000)))
    name = option[2:].split("=")[0]
    status, stderr = run(compute_fbank_feats.main, "--dither=0", option, source, "ark:o.ark")
    assert status == 255
    assert not Path("o.ark").exists()
    assert len(stderr.splitlines()) == 1
    assert name in stderr.replace("_", "-")


def test_debug_mel_logs_the_bins(capsys: pytest.CaptureFixture[str]) -> None:
    assert fbank("--debug-mel", "--num-mel-bins=17", audio_archive("a.ark", a=wav_bytes(noise(4000))), "ark:o.ark") == 0
    error = capsys.readouterr().err
    assert error.count(", vec =  [ ") == 17
    assert "bin 0, offset = 1, vec =  [ " in error


def test_debug_mel_prints_the_energies_of_each_frame_as_kaldi_does(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--debug-mel", "--num-mel-bins=3", "--use-log-fbank=false"
    assert fbank(*options, audio_archive("a.ark", a=wav_bytes(noise(4000))), "ark:o.ark") == 0
    rows = ["".join(f" {energy:f}" for energy in row.tolist()) for row in load("o.ark")["a"]]
    assert "".join(f"MEL BANKS:\n{row}\n" for row in rows) in capsys.readouterr().err


def test_every_tenth_utterance_is_logged_in_kaldis_words() -> None:
    tracks = {f"u{i:02}": np.full((3, 2), 0.5 + i, np.float32) for i in range(25)}
    source = save("tracks.ark", {key: np.clip(track, [0, 60], [1, 900]).astype("f4") for key, track in tracks.items()})
    for main, options in ((interpolate_pitch.main, ["--linear-interpolation"]), (process_pitch_feats.main, [])):
        lines = run(main, *options, source, "ark:o.ark")[1]
        assert lines.count("Processed 10 utterances") == lines.count("Processed 20 utterances") == 1
