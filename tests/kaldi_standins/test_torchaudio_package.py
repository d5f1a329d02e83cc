"""The parts of torchaudio beside compliance.kaldi: functions, files and SoX's effects."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from io_ark import load as load_object
from kaldi_compat.errors import AudioError, KaldiCompatError, OptionError
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_standins import torchaudio_package as ours
from tests.support.native_fbank_forms import audio

WAV = Path(__file__).parents[2] / "reference_data" / "inputs" / "wav"


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_pitch_is_kaldis_in_kaldis_order_for_each_channel() -> None:
    samples = torch.from_numpy(audio(8000)) * 32768
    track = ours.functional.compute_kaldi_pitch(torch.stack((samples, samples.flip(0))), 16000, snip_edges=False)
    assert track.shape == (2, 50, 2)
    options = ours.functional.Pitch(snip_edges=False).options
    np.testing.assert_array_equal(track[0], track_pitch(samples.numpy(), options))


@pytest.mark.parametrize("win_length", [3, 6, 9])
def test_deltas_are_torchaudios(win_length: int) -> None:
    theirs = pytest.importorskip("torchaudio").functional.compute_deltas(noise(2, 5, 30), win_length)
    torch.testing.assert_close(ours.functional.compute_deltas(noise(2, 5, 30), win_length), theirs, rtol=0, atol=1e-6)
    torch.testing.assert_close(ours.transforms.ComputeDeltas(win_length)(noise(2, 5, 30)), theirs, rtol=0, atol=1e-6)


def test_deltas_without_a_window_raise_as_in_torchaudio() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 3"):
        ours.functional.compute_deltas(noise(5, 30), 2)


def test_kaldis_deltas_have_another_name() -> None:
    assert ours.functional.add_deltas(noise(30, 5)).shape == (30, 15)


@pytest.mark.parametrize(
    "options", [{}, {"center": True, "cmn_window": 50}, {"norm_vars": True, "cmn_window": 40, "min_cmn_window": 10}]
)
def test_sliding_normalization_is_torchaudios(options: dict[str, Any]) -> None:
    theirs = pytest.importorskip("torchaudio").functional.sliding_window_cmn(noise(2, 700, 3), **options)
    normalized = ours.functional.sliding_window_cmn(noise(2, 700, 3), **options)
    torch.testing.assert_close(normalized, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowpass_filter_width": 64, "rolloff": 0.95, "resampling_method": "sinc_interp_kaiser"},
        {"resampling_method": "sinc_interp_kaiser", "beta": 10},
    ],
)
@pytest.mark.parametrize("rates", [(44100, 16000), (16000.0, 8000), (8000, 16000), (16000, 16000)])
def test_resampling_is_torchaudios(rates: tuple[int, int], options: dict[str, Any]) -> None:
    torchaudio = pytest.importorskip("torchaudio")
    samples = noise(2, 3, 1001)
    theirs, found = (lib.functional.resample(samples, *rates, **options) for lib in (torchaudio, ours))
    torch.testing.assert_close(found, theirs, rtol=0, atol=2e-6)
    original, module = (lib.transforms.Resample(*rates, **options) for lib in (torchaudio, ours))
    torch.testing.assert_close(module(samples), original(samples), rtol=0, atol=2e-6)
    module.load_state_dict(original.state_dict())


def test_resampling_refuses_what_torchaudio_refuses() -> None:
    resample = ours.functional.resample
    for arguments in ((0, 8000), (44100.5, 8000), (16000, 8000, 0), (16000, 8000, 6, 0.99, "linear")):
        with pytest.raises(OptionError):
            resample(noise(100), *arguments)
    with pytest.raises(TypeError, match="int16"):
        resample(torch.zeros(100, dtype=torch.int16), 16000, 8000)


@pytest.mark.parametrize("speed", ["0.9", "1.1"])
def test_speed_is_that_of_the_command_that_kaldi_runs(speed: str) -> None:
    if shutil.which("sox") is None:
        pytest.skip("sox is not installed")
    samples = noise(2, 5000) * 0.1
    raw = ["-t", "raw", "-e", "float", "-b", "32", "-r", "16000", "-c", "2", "-"]
    audio_bytes = samples.T.contiguous().numpy().tobytes()
    done = subprocess.run(["sox", "-D", *raw, *raw, "speed", speed], input=audio_bytes, capture_output=True, check=True)
    effects = [["speed", speed], ["rate", "16000"]]
    changed, rate = ours.sox_effects.apply_effects_tensor(samples, 16000, effects)
    assert rate == 16000
    np.testing.assert_array_equal(changed, np.frombuffer(done.stdout, np.float32).reshape(-1, 2).T)


def test_speed_alone_changes_the_rate() -> None:
    samples, rate = ours.sox_effects.apply_effects_tensor(noise(100, 1), 16000, [["speed", 0.9]], channels_first=False)
    assert (rate, samples.shape) == (14400, (100, 1))


@pytest.mark.parametrize("channels_first", [True, False])
def test_effects_of_a_file_are_those_of_its_samples(tmp_path: Path, channels_first: bool) -> None:
    pytest.importorskip("soundfile")
    ours.save(tmp_path / "a.wav", noise(2, 100), 16000)
    effects = [["speed", "0.9"]]
    changed, rate = ours.sox_effects.apply_effects_file(tmp_path / "a.wav", effects, channels_first=channels_first)
    assert rate == 14400
    torch.testing.assert_close(changed if channels_first else changed.T, noise(2, 100), rtol=0, atol=0)


def test_effects_that_are_not_supported_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ours.sox_effects.apply_effects_tensor
    with pytest.raises(OptionError, match="reverb 50"):
        apply(noise(1, 100), 16000, [["reverb", "50"]])
    with pytest.raises(AudioError, match="shape"):
        apply(noise(100), 16000, [])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(KaldiCompatError, match="install SoX"):
        apply(noise(1, 100), 16000, [["rate", "8000"]])


@pytest.mark.parametrize(
    ("arguments", "dtype", "encoding", "bits"),
    [
        ({}, torch.float32, "PCM_F", 32),
        ({"bits_per_sample": 16}, torch.float32, "PCM_S", 16),
        ({}, torch.int16, "PCM_S", 16),
        ({"encoding": "ULAW", "bits_per_sample": 8}, torch.float32, "ULAW", 8),
    ],
)
def test_files_are_written_and_read(
    tmp_path: Path, arguments: dict[str, Any], dtype: torch.dtype, encoding: str, bits: int
) -> None:
    pytest.importorskip("soundfile")
    samples = torch.from_numpy(audio(2000)).reshape(2, 1000)
    path = tmp_path / "a.wav"
    ours.save(path, samples if dtype == torch.float32 else (samples * 32768).to(dtype), 8000, **arguments)
    assert ours.info(path) == ours.AudioMetaData(8000, 1000, 2, bits, encoding)
    read, rate = ours.load(str(path))
    assert (rate, read.dtype) == (8000, torch.float32)
    torch.testing.assert_close(read, samples, rtol=0, atol=0.02 if bits == 8 else 1e-4)
    part, _ = ours.load(path, frame_offset=10, num_frames=5, channels_first=False)
    torch.testing.assert_close(part, read[:, 10:15].T)


def test_integers_are_those_of_the_file() -> None:
    pytest.importorskip("soundfile")
    samples, _ = ours.load(WAV / "speech16k.wav", normalize=False)
    np.testing.assert_array_equal(samples, load_object(str(WAV / "speech16k.wav")).samples)
    assert samples.dtype == torch.int16
    scaled, _ = ours.load_wav(WAV / "speech16k.wav")
    torch.testing.assert_close(scaled, samples.float())


def test_files_that_cannot_be_read_raise_one_line(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    (tmp_path / "a.wav").write_bytes(b"nothing")
    for function in (ours.load, ours.info):
        for name in ("a.wav", "absent.wav"):
            with pytest.raises(AudioError, match=name):
                function(str(tmp_path / name))
    with pytest.raises(AudioError, match="shape"):
        ours.save(tmp_path / "b.wav", torch.zeros(5), 8000)


def test_settings_of_readers_that_torchaudio_has_removed_do_nothing() -> None:
    ours.set_audio_backend(*ours.list_audio_backends())
    assert [ours.get_audio_backend()] == ours.list_audio_backends()
    assert ours.backend.common.AudioMetaData is ours.AudioMetaData
    assert ours.backend.soundfile_backend.save is ours.backend.sox_io_backend.save is ours.save
    ours.utils.sox_utils.set_buffer_size(16500)


@pytest.mark.parametrize("kind", ["FrequencyMasking", "TimeMasking"])
@pytest.mark.parametrize("options", [{}, {"iid_masks": True}, {"p": 0.1}, {"p": 0.1, "iid_masks": True}])
@pytest.mark.parametrize("shape", [(3, 20, 50), (2, 3, 20, 50)])
def test_masks_are_torchaudios(kind: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    if kind == "FrequencyMasking":
        options = {name: value for name, value in options.items() if name != "p"}
    theirs = getattr(pytest.importorskip("torchaudio").transforms, kind)(15, **options)
    mine = getattr(ours.transforms, kind)(15, **options)
    for seed in range(5):
        torch.manual_seed(seed)
        expected = theirs(noise(*shape), mask_value=-1.0)
        torch.manual_seed(seed)
        torch.testing.assert_close(mine(noise(*shape), mask_value=-1.0), expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match="axis"):
        ours.functional.mask_along_axis(noise(*shape), 5, 0.0, 0)
