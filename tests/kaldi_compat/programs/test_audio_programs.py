"""Programs on audio: what the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import kaldiio
import numpy as np

from tests.support.programs import log_of
from tests.support.tables import noise, wav


def test_channels_of_the_impulse_response() -> None:
    rng = np.random.default_rng(0)
    speech = rng.integers(-9000, 9000, (4000, 2))
    room = np.zeros((10, 3))
    room[[2, 3, 4], [0, 1, 2]] = 32000
    wav("in.wav", 16000, speech)
    wav("room.wav", 16000, room)
    arguments = "--impulse-response=room.wav --input-wave-channel=1 in.wav out.wav"
    log_of(f"wav-reverberate --multi-channel-output=true {arguments}")
    rate, all_channels = kaldiio.load_mat("out.wav")
    assert (rate, all_channels.shape) == (16000, (4000, 3))
    for channel in range(3):
        log_of(f"wav-reverberate --rir-channel={channel} {arguments}")
        np.testing.assert_array_equal(kaldiio.load_mat("out.wav")[1], all_channels[:, channel])
        # A room that only delays gives the input back, up to Kaldi's tone at the Nyquist frequency.
        assert np.corrcoef(all_channels[:, channel], speech[:, 1])[0, 1] > 0.9


def test_nearly_silent_audio_is_accepted() -> None:
    wav("in.wav", 8000, np.full((2000, 1), 7))
    log_of("wav-reverberate --volume=0.1 in.wav out.wav")
    assert Path("out.wav").read_bytes()[44:] == bytes(4000)


def test_a_silent_channel_of_the_impulse_response_is_logged_if_it_is_used() -> None:
    wav("in.wav", 8000, noise(500))
    wav("rir.wav", 8000, np.array([[0, 9000], [0, 100]]))
    for option, warnings in (("--rir-channel=0", 1), ("--rir-channel=1", 0), ("--multi-channel-output", 1), ("", 1)):
        log = log_of(f"wav-reverberate {option} --impulse-response=rir.wav in.wav out.wav")
        assert log.count("rir.wav is silent in channel 0, so the output is silent") == warnings


def test_clipped_samples_are_logged() -> None:
    wav("in.wav", 16000, np.full((100, 1), 20000))
    log = log_of("wav-reverberate --volume=2 in.wav out.wav")
    assert "clipped 100 samples out of total 100. Reduce volume?" in log
    assert (kaldiio.load_mat("out.wav")[1] == 32767).all()


def test_a_single_file_is_copied_byte_for_byte_and_in_silence() -> None:
    wav("a.wav", 8000, np.ones((1234, 2)))
    assert log_of("wav-copy a.wav b.wav") == ""
    assert Path("b.wav").read_bytes() == Path("a.wav").read_bytes()


def test_recordings_in_pipes_are_read_once_for_neighbouring_segments() -> None:
    wav("a.wav", 8000, np.ones((8000, 1)))
    Path("wav.scp").write_text("r echo x >> runs; cat a.wav |\n")
    Path("segments").write_text("s1 r 0 0.5\ns2 r 0.5 1.0\n")
    log_of("extract-segments scp:wav.scp segments ark:o.ark")
    assert Path("runs").read_text() == "x\n"
