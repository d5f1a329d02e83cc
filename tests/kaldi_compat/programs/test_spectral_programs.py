"""Programs that compute fbank, MFCC, PLP and spectrogram features: what the stored commands of Kaldi do not cover."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from io_ark.blocks import WaveBlock
from kaldi_compat.cli import compute, tables
from kaldi_compat.cli.compute import ExactComputer
from kaldi_compat.options.spectral import MfccOptions
from kaldi_compat.programs import compute_fbank_feats, compute_mfcc_feats
from tests.support.native import LEVELS, computing
from tests.support.programs import check_refused, log_of, run, run_words
from tests.support.reference import ROOT
from tests.support.tables import audio_archive, load, noise, save, wav_bytes

FBANK = "compute-fbank-feats --dither=0"
SPEECH = ROOT / "inputs" / "wav" / "speech16k_b.wav"


def test_utterances_that_fail_are_skipped_with_a_reason() -> None:
    audio_archive("a.ark", good=wav_bytes(noise(4000)), slow=wav_bytes(noise(4000), 8000), short=wav_bytes(noise(500)))
    log = log_of(f"{FBANK} --min-duration=0.1 ark:a.ark ark:o.ark")
    assert list(load("o.ark")) == ["good"]
    assert "Failed to compute features for utterance slow: Waveform and config sample Frequency mismatch: 8000" in log
    assert "short is too short (0.03125 sec)" in log
    assert log.endswith(" Done 1 out of 3 utterances.\n")


def test_only_utterances_without_pitch_frames_have_a_warning() -> None:
    audio_archive("a.ark", **{f"u{count}": wav_bytes(noise(count)) for count in (100, 200, 4000)})
    assert log_of("compute-kaldi-pitch-feats ark:a.ark ark:o.ark").count("No frames output in pitch extraction") == 2


def test_status_is_1_if_no_utterance_has_output() -> None:
    for source, option in (audio_archive("a.ark", a=wav_bytes(noise(4000))), 1), (audio_archive("none.ark"), 0):
        assert run_words(["compute-fbank-feats", f"--min-duration={option}", source, "ark:o.ark"])[0] == 1


def test_channel_selects_one_and_defaults_to_the_first() -> None:
    stereo = noise(4000, 2)
    audio_archive("a.ark", s=wav_bytes(stereo))
    for channel in (0, 1):
        mono = audio_archive(f"{channel}.ark", s=wav_bytes(stereo[:, channel : channel + 1]))
        log_of(f"{FBANK} {mono} ark:mono{channel}")
        log_of(f"{FBANK} --channel={channel} ark:a.ark ark:stereo{channel}")
        assert Path(f"mono{channel}").read_bytes() == Path(f"stereo{channel}").read_bytes()
    log = log_of(f"{FBANK} ark:a.ark ark:default")
    assert Path("default").read_bytes() == Path("mono0").read_bytes()
    assert "Channel not specified but you have data with 2 channels; defaulting to zero" in log
    assert run_words([*FBANK.split(), "--channel=2", "ark:a.ark", "ark:o.ark"])[0] == 1


@pytest.mark.parametrize(("rate", "checksum"), [(8000.9, 2692323039), (16000.5, 2743384966)])
def test_a_fraction_of_the_sampling_rate_moves_the_cutoff_of_the_resampling_only(rate: float, checksum: int) -> None:
    options = f"--sample-frequency={rate} --allow-downsample --allow-upsample 'scp:echo s {SPEECH} |'"
    log_of(f"{FBANK} {options} ark:o.ark")
    log_of(f"{FBANK} --engine=torch {options} ark:torch.ark")
    (exact,), (close,) = load("o.ark").values(), load("torch.ark").values()
    assert zlib.crc32(exact.tobytes()) == checksum, "of what Kaldi's compute-fbank-feats wrote"
    np.testing.assert_allclose(close, exact, atol=1e-3)


@pytest.mark.parametrize("engine", ["exact", "torch"])
@pytest.mark.parametrize(("rate", "same_rate"), [("16000.0001", "16000"), ("7999.9999999", "8000")])
def test_rates_are_compared_in_single_precision(engine: str, rate: str, same_rate: str) -> None:
    """Kaldi stores both rates as floats: float 16000.0001 is 16000, and the integer of float 7999.9999999 is 8000."""
    for number, target in ((rate, "o.ark"), (same_rate, "same.ark")):
        options = f"--engine={engine} --sample-frequency={number} --allow-downsample --allow-upsample"
        log_of(f"{FBANK} {options} 'scp:echo s {SPEECH} |' ark:{target}")
    assert Path("o.ark").read_bytes() == Path("same.ark").read_bytes()


def test_vtln_factors_are_looked_up_by_utterance_and_by_speaker() -> None:
    audio_archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(5000)))
    Path("spk2warp").write_text("s1 0.9\n")
    Path("utt2spk").write_text("u1 s1\nu2 s2\n")
    Path("utt2warp").write_text("u1 0.9\n")
    for options, target in (
        ("--vtln-warp=0.9", "all"),
        ("--vtln-map=ark:utt2warp", "utt"),
        ("--vtln-map=ark:spk2warp --utt2spk=ark:utt2spk", "spk"),
        ("", "unwarped"),
    ):
        log_of(f"{FBANK} {options} ark:a.ark ark:{target}")
    assert Path("utt").read_bytes() == Path("spk").read_bytes()
    assert list(load("utt")) == ["u1"]
    np.testing.assert_array_equal(load("utt")["u1"], load("all")["u1"])
    assert not np.array_equal(load("utt")["u1"], load("unwarped")["u1"])


def test_speakers_without_vtln_factors_have_no_effect_as_in_kaldi() -> None:
    audio_archive("a.ark", u1=wav_bytes(noise(4000)))
    log = log_of(f"{FBANK} --utt2spk=ark:missing ark:a.ark ark:with")
    assert "--utt2spk=ark:missing has no effect without --vtln-map" in log
    log_of(f"{FBANK} ark:a.ark ark:without")
    assert Path("with").read_bytes() == Path("without").read_bytes()


def test_an_impossible_vtln_factor_skips_the_utterance() -> None:
    audio_archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(4000)))
    Path("utt2warp").write_text("u1 100\nu2 1\n")
    log = log_of(f"{FBANK} --vtln-map=ark:utt2warp ark:a.ark ark:o.ark")
    assert list(load("o.ark")) == ["u2"]
    assert "Failed to compute features for utterance u1" in log


def test_utterance_whose_features_do_not_fit_into_memory_is_skipped_as_in_kaldi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = ExactComputer.compute

    def of_little_memory(self: ExactComputer, block: WaveBlock, *rest: Any) -> Any:
        if block.lengths.max() > 5000:
            raise MemoryError("Unable to allocate 25.0 GiB")
        return features(self, block, *rest)

    monkeypatch.setattr(ExactComputer, "compute", of_little_memory)
    audio_archive("a.ark", u1=wav_bytes(noise(4000)), u2=wav_bytes(noise(6000)), u3=wav_bytes(noise(4000)))
    log = log_of(f"{FBANK} ark:a.ark ark:o.ark")
    assert list(load("o.ark")) == ["u1", "u3"]
    assert "Failed to compute features for utterance u2: Unable to allocate" in log


def test_subtract_mean_gives_features_of_mean_zero() -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)), tiny=wav_bytes(noise(3)))
    log_of(f"{FBANK} --subtract-mean ark:a.ark ark:o.ark")
    features = load("o.ark")
    assert np.abs(features["a"].mean(axis=0)).max() < 1e-5
    assert features["tiny"].size == 0


def test_durations_have_kaldis_precision() -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4001)))
    log_of(f"{FBANK} --write-utt2dur=ark:dur ark:a.ark ark:o.ark")
    assert Path("dur").read_bytes() == b"a \0B\x08" + struct.pack("<d", np.float32(4001) / np.float32(16000))


@pytest.mark.parametrize(
    ("command", "kind", "period", "columns"),
    [
        ("fbank", 0o20007, 100000, 23),
        ("fbank --use-energy --frame-shift=20", 0o107, 100000, 24),
        ("mfcc", 0o106, 100000, 13),
        ("mfcc --use-energy=false", 0o20006, 100000, 13),
        ("plp", 0o20013, 100000, 13),
        ("spectrogram --frame-shift=12.5", 0o20007, 125000, 257),
    ],
)
def test_htk_headers_are_kaldis(command: str, kind: int, period: int, columns: int) -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)))
    feature, *options = command.split()
    words = [f"compute-{feature}-feats", "--dither=0", *options, "--output-format=htk"]
    assert run_words([*words, "ark:a.ark", "scp:echo a o.htk |"])[0] == 0
    content = Path("o.htk").read_bytes()
    frames = (len(content) - 12) // (4 * columns)
    assert struct.unpack(">iihH", content[:12]) == (frames, period, 4 * columns, kind)
    assert frames > 5


def test_background_threads_do_not_change_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    audio_archive("a.ark", **{f"u{i:02}": wav_bytes(noise(400 * i + 1)) for i in range(30)})
    outputs = []
    for second_core in (True, False):
        monkeypatch.setattr(tables, "has_second_core", lambda has=second_core: has)
        log_of("compute-fbank-feats ark:a.ark ark:out")  # dithered: the order matters
        outputs.append(Path("out").read_bytes())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 10000


def test_a_truncated_archive_is_an_error_after_the_entries_before() -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)), b=wav_bytes(noise(4000)))
    with open("a.ark", "ab") as file:
        file.write(b"c RIF")
    check_refused(compute_fbank_feats.main, "--dither=0", "ark:a.ark", "ark:o.ark", message="a.ark")
    assert list(load("o.ark")) == ["a", "b"]


def test_utterances_without_frames_are_written() -> None:
    audio_archive("a.ark", **{f"u{i:04}": wav_bytes(noise(1)) for i in range(2000)})
    log = log_of(f"{FBANK} --snip-edges=false ark:a.ark ark:o.ark")
    assert log.endswith(" Done 2000 out of 2000 utterances.\n")
    assert Path("o.ark").read_bytes().count(b"\0B") == 2000


@pytest.mark.parametrize("option", ["output-format=text", "device=nowhere", "num-mel-bins=2", "high-freq=9000",
                                    "frame-shift=0"])  # fmt: skip
def test_invalid_options_leave_no_output(option: str) -> None:
    source = audio_archive("a.ark", a=wav_bytes(noise(4000)))
    status, stderr = run(compute_fbank_feats.main, "--dither=0", f"--{option}", source, "ark:o.ark")
    assert status == 255
    assert not Path("o.ark").exists()
    assert len(stderr.splitlines()) == 1
    assert option.split("=")[0] in stderr.replace("_", "-")


def test_debug_mel_logs_the_bins() -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)))
    log = log_of(f"{FBANK} --debug-mel --num-mel-bins=17 ark:a.ark ark:o.ark")
    assert log.count(", vec =  [ ") == 17
    assert "bin 0, offset = 1, vec =  [ " in log


def test_debug_mel_prints_the_energies_of_each_frame_as_kaldi_does() -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)))
    log = log_of(f"{FBANK} --debug-mel --num-mel-bins=3 --use-log-fbank=false ark:a.ark ark:o.ark")
    rows = ["".join(f" {energy:f}" for energy in row.tolist()) for row in load("o.ark")["a"]]
    assert "".join(f"MEL BANKS:\n{row}\n" for row in rows) in log


def test_every_tenth_utterance_is_logged_in_kaldis_words() -> None:
    tracks = {f"u{i:02}": np.full((3, 2), 0.5 + i, np.float32) for i in range(25)}
    save("tracks.ark", {key: np.clip(track, [0, 60], [1, 900]).astype("f4") for key, track in tracks.items()})
    for command in "interpolate-pitch --linear-interpolation", "process-pitch-feats":
        log = log_of(f"{command} ark:tracks.ark ark:o.ark")
        assert log.count("Processed 10 utterances") == log.count("Processed 20 utterances") == 1


def test_options_of_the_feature_reach_the_module() -> None:
    options: Any = compute_mfcc_feats.main.options(num_ceps=5, channel=0, vtln_warp=1.1)
    inner = compute.select_feature_options(MfccOptions, options)
    assert inner.num_ceps == 5
    assert {field.name for field in dataclasses.fields(inner)}.isdisjoint({"channel", "vtln_warp", "device"})


def test_digital_silence_without_dither_is_counted_and_does_not_stop_a_recipe() -> None:
    silence = noise(16000)
    silence[4000:12000] = 0
    audio_archive("a.ark", a=wav_bytes(noise(16000)), b=wav_bytes(silence), c=wav_bytes(noise(16000)))
    log = log_of("compute-plp-feats --dither=0 ark:a.ark ark:plp.ark")
    assert log.count("WARNING") == 1
    assert "48 of 98 frames of utterance b contain NaN" in log  # as many as in the output of Kaldi's program
    plp = load("plp.ark")
    assert np.isnan(plp["b"]).any(axis=1).sum() == 48

    log = log_of("copy-feats --compress=true ark:plp.ark ark:o.ark")
    assert log.count("WARNING") == 1
    assert ") b: " in log
    assert "writing this matrix uncompressed" in log
    copied = load("o.ark")
    assert list(copied) == ["a", "b", "c"]
    np.testing.assert_array_equal(copied["b"], plp["b"])
    assert not np.array_equal(copied["a"], plp["a"])  # compressed


@pytest.mark.parametrize("how", [None, *LEVELS])
@pytest.mark.parametrize(
    ("exponent", "signs"),
    [("0.33333", "+-" + 11 * "+"), ("-1", "+" + 12 * "-"), ("nan", "-" + 12 * "+"), ("inf", "+-" + 11 * "+")],
)
def test_nans_of_silence_have_the_signs_that_kaldi_writes(how: str | None, exponent: str, signs: str) -> None:
    audio_archive("a.ark", u=wav_bytes(np.zeros((800, 1))))
    with computing(how):
        log_of(f"compute-plp-feats --dither=0 --use-energy=false --compress-factor={exponent} ark:a.ark ark:o")
    plp = load("o")["u"]
    assert np.isnan(plp).all()
    for frame in np.signbit(plp):
        assert "".join("-" if negative else "+" for negative in frame) == signs


@pytest.mark.parametrize("how", [None, *LEVELS])
def test_nans_of_frames_that_overflow_have_the_signs_that_kaldi_writes(how: str | None) -> None:
    with computing(how):
        log_of(f"compute-plp-feats --dither=0 --compress-factor=-1 'scp:echo u {SPEECH} |' ark:o")
    plp = load("o")["u"]
    signs = ["".join("-" if sign else "+" for sign in np.signbit(row[np.isnan(row)])) for row in plp]
    assert {t: sign for t, sign in enumerate(signs) if sign} == {77: 10 * "+" + "--", 116: 10 * "-"}


@pytest.mark.parametrize("rate", ["16000.0001", "15999.9999"])
@pytest.mark.parametrize("command", [FBANK, f"{FBANK} --engine=torch", "compute-kaldi-pitch-feats"])
def test_the_sampling_rate_is_rounded_to_a_float_as_in_kaldi(command: str, rate: str) -> None:
    audio_archive("a.ark", a=wav_bytes(noise(4000)), b=wav_bytes(noise(8000)))  # Both rates are 16000 as floats.
    log_of(f"{command} --sample-frequency=16000 ark:a.ark ark:expected.ark")
    log_of(f"{command} --sample-frequency={rate} ark:a.ark ark:o.ark")
    assert Path("o.ark").read_bytes() == Path("expected.ark").read_bytes()
