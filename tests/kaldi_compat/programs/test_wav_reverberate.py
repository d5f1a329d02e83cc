"""Tests of wav-reverberate that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import kaldiio
import numpy as np
import pytest

from kaldi_compat.programs import wav_reverberate
from tests.support.programs import check_refused
from tests.support.tables import noise, wav

Stderr = pytest.CaptureFixture[str]


def test_channels_of_the_impulse_response() -> None:
    rng = np.random.default_rng(0)
    speech = rng.integers(-9000, 9000, (4000, 2))
    room = np.zeros((10, 3))
    room[[2, 3, 4], [0, 1, 2]] = 32000
    wav("in.wav", 16000, speech)
    wav("room.wav", 16000, room)
    arguments = ["--impulse-response=room.wav", "--input-wave-channel=1", "in.wav", "out.wav"]
    assert wav_reverberate.main(["--multi-channel-output=true", *arguments]) == 0
    rate, all_channels = kaldiio.load_mat("out.wav")
    assert (rate, all_channels.shape) == (16000, (4000, 3))
    for channel in range(3):
        assert wav_reverberate.main([f"--rir-channel={channel}", *arguments]) == 0
        np.testing.assert_array_equal(kaldiio.load_mat("out.wav")[1], all_channels[:, channel])
        # A room that only delays gives the input back, up to Kaldi's tone at the Nyquist frequency.
        assert np.corrcoef(all_channels[:, channel], speech[:, 1])[0, 1] > 0.9


def test_invalid_options_are_refused_without_output() -> None:
    tone = (1000 * np.sin(np.arange(800)))[:, None]
    wav("in.wav", 16000, tone)
    wav("slow.wav", 8000, tone)
    noise = "--additive-signals=in.wav"
    for options, says in (
        (["--input-wave-channel=1"], "in.wav has no channel 1"),
        (["--impulse-response=in.wav", "--rir-channel=1"], "in.wav has no channel 1"),
        ([noise], "--additive-signals has 1 entries, --snrs 0 and --start-times 0"),
        ([noise, "--snrs=1,2", "--start-times=0"], "--snrs 2"),
        ([noise, "--snrs=loud", "--start-times=0"], "--snrs: expected comma-separated numbers"),
        ([noise, "--snrs=1_0", "--start-times=0"], "--snrs: expected comma-separated numbers, not '1_0'"),
        ([noise, "--snrs=1", "--start-times=nan"], "starts at nan s"),
        (["--duration=0.00001"], "duration=1e-05 s is 0.16 samples"),
        (
            ["--additive-signals=slow.wav", "--snrs=1", "--start-times=0"],
            "slow.wav has 8000 Hz, but the input 16000 Hz",
        ),
        (["--multi-channel-output=true"], "needs --impulse-response"),
        (["--impulse-response=absent.wav"], "absent.wav"),
    ):
        check_refused(wav_reverberate.main, *options, "in.wav", "out.wav", message=says)
        assert not Path("out.wav").exists()


def test_nearly_silent_audio_is_accepted() -> None:
    wav("in.wav", 8000, np.full((2000, 1), 7))
    assert wav_reverberate.main(["--volume=0.1", "in.wav", "out.wav"]) == 0
    assert Path("out.wav").read_bytes()[44:] == bytes(4000)


def test_a_silent_channel_of_the_impulse_response_is_logged_if_it_is_used(capsys: Stderr) -> None:
    wav("in.wav", 8000, noise(500))
    wav("rir.wav", 8000, np.array([[0, 9000], [0, 100]]))
    for options, warnings in (([], 1), (["--rir-channel=1"], 0), (["--multi-channel-output"], 1)):
        assert wav_reverberate.main([*options, "--impulse-response=rir.wav", "in.wav", "out.wav"]) == 0
        assert capsys.readouterr().err.count("rir.wav is silent in channel 0; the output is silent") == warnings


def test_clipped_samples_are_logged(capsys: Stderr) -> None:
    wav("in.wav", 16000, np.full((100, 1), 20000))
    assert wav_reverberate.main(["--volume=2", "in.wav", "out.wav"]) == 0
    assert "clipped 100 samples out of total 100. Reduce volume?" in capsys.readouterr().err
    assert (kaldiio.load_mat("out.wav")[1] == 32767).all()
