"""The kaldifeat API equals kaldi-native-fbank, which has the same options and online interface.

kaldifeat's own tests run over these names outside the repository: see docs/migrating/kaldifeat.md.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import kaldi_standins.kaldifeat as kaldifeat
from kaldi_compat import native
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.functional import checks
from kaldi_compat.options import spectral as ours

OPTION_SETS: list[dict[str, Any]] = [
    {},
    {"frame_opts.snip_edges": False, "mel_opts.num_bins": 80, "mel_opts.high_freq": -400.0},
    {"frame_opts.samp_freq": 8000.0, "frame_opts.window_type": "hamming", "use_energy": True, "htk_compat": True},
    {"frame_opts.frame_shift_ms": 12.5, "frame_opts.preemph_coeff": 0.9, "energy_floor": 1.0, "raw_energy": False},
]


def audio(samples: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(samples, generator=torch.Generator().manual_seed(seed)) * 1000


def configured(options: Any, values: dict[str, Any]) -> Any:
    """Options of either library with these attributes set."""
    for name, value in {"frame_opts.dither": 0.0, **values}.items():
        *groups, last = name.split(".")
        target = options
        for group in groups:
            target = getattr(target, group)
        assert hasattr(target, last)
        setattr(target, last, value)
    return options


def test_whole_numbers_are_numbers_with_a_point_in_every_way_to_set_them() -> None:
    set_later = kaldifeat.FrameExtractionOptions()
    set_later.samp_freq = 10
    assert set_later.samp_freq == 10 and "samp_freq=10.0" in str(set_later)
    for same in (
        kaldifeat.FrameExtractionOptions(samp_freq=10),
        kaldifeat.FrameExtractionOptions.from_dict({"samp_freq": 10}),
    ):
        assert str(same) == str(set_later)


@pytest.mark.parametrize("values", OPTION_SETS, ids=range(len(OPTION_SETS)))
@pytest.mark.parametrize("kind", ["Fbank", "Mfcc"])
def test_online_features_are_kaldi_native_fbanks(kind: str, values: dict[str, Any]) -> None:
    native = pytest.importorskip("kaldi_native_fbank")
    features = []
    for library in (kaldifeat, native):
        options = configured(getattr(library, f"{kind}Options")(), values)
        online = getattr(library, f"Online{kind}")(options)
        ready = []
        for chunk in audio(9000).split(1234):
            online.accept_waveform(options.frame_opts.samp_freq, chunk.tolist())
            ready.append(online.num_frames_ready)
        assert not online.is_last_frame(ready[-1] - 1)
        online.input_finished()
        count = online.num_frames_ready
        assert online.is_last_frame(count - 1)
        frames = [np.asarray(online.get_frame(i)).reshape(-1) for i in range(count)]
        features.append((ready, np.stack(frames)))
    (our_ready, ours), (their_ready, theirs) = features
    assert our_ready == their_ready
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["Fbank", "Mfcc", "Plp", "Spectrogram"])
def test_offline_features_of_one_of_many_and_in_chunks(kind: str) -> None:
    options = configured(getattr(kaldifeat, f"{kind}Options")(), {"frame_opts.snip_edges": False})
    feature = getattr(kaldifeat, kind)(options)
    waves = [audio(5000, 1), audio(300, 2)]
    many = feature(waves)
    assert isinstance(many, list) and [len(x) for x in many] == [31, 2]
    for one, wave in zip(many, waves, strict=True):
        assert torch.equal(feature(wave), one)
        torch.testing.assert_close(feature(wave, chunk_size=7), one, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["Fbank", "Mfcc", "Plp", "Spectrogram"])
def test_frames_are_cut_and_computed_in_two_steps(kind: str) -> None:
    options = configured(getattr(kaldifeat, f"{kind}Options")(), {"frame_opts.snip_edges": False})
    feature = getattr(kaldifeat, kind)(options)
    wave = audio(5000)
    frames = feature.convert_samples_to_frames(wave)
    assert frames.shape == (31, 400)
    assert torch.equal(frames[1, 80:], wave[120:440])  # The middle of frame 1 is sample 240.
    rounding = 1e-5 if native.library() else 1e-4  # PyTorch's products depend on the number of rows.
    for chunk_size in (None, 0, 1, 7, 31, 100):
        found = feature.compute(frames, chunk_size=chunk_size)
        torch.testing.assert_close(found, feature(wave), rtol=1e-6, atol=rounding)
    assert feature.compute(frames[:0]).shape == feature(wave[:0]).shape
    assert feature.opts is options and feature.computer.dim == feature(wave).shape[1]


def test_invalid_frames_and_chunks_are_refused() -> None:
    fbank = kaldifeat.Fbank(kaldifeat.FbankOptions())
    with pytest.raises(AudioError, match=r"shape \(frames, 400\), not \(3, 399\)"):
        fbank.compute(torch.zeros(3, 399))
    with pytest.raises(OptionError, match="chunk_size must be a number of frames, or None for all, not -1"):
        fbank.compute(torch.zeros(3, 400), chunk_size=-1)


@pytest.mark.parametrize("snip_edges", [True, False])
def test_num_frames_counts_what_an_online_feature_has(snip_edges: bool) -> None:
    options = configured(kaldifeat.FbankOptions(), {"frame_opts.snip_edges": snip_edges})
    online = kaldifeat.OnlineFbank(options)
    received = 0
    for chunk in audio(3000).split(137):
        online.accept_waveform(16000, chunk)
        received += len(chunk)
        assert online.num_frames_ready == kaldifeat.num_frames(received, options.frame_opts, flush=False)
    online.input_finished()
    assert online.num_frames_ready == kaldifeat.num_frames(received, options.frame_opts)
    assert kaldifeat.num_frames(0, options.frame_opts) == kaldifeat.num_frames(0, options.frame_opts, False) == 0


@pytest.mark.parametrize("kind", ["Fbank", "Mfcc", "Plp"])
def test_htk_mode_drops_the_first_fft_bin_of_the_lowest_mel_bin(kind: str) -> None:
    options = configured(getattr(kaldifeat, f"{kind}Options")(), {"mel_opts.low_freq": 60.0})
    plain = getattr(kaldifeat, kind)(options).computer.mel
    options.mel_opts.htk_mode = True
    weights = getattr(kaldifeat, kind)(options).computer.mel
    assert (plain != weights).nonzero().tolist() == [[int(plain[:, 0].nonzero()[0]), 0]]
    options.mel_opts.low_freq = 0.0
    at_zero = getattr(kaldifeat, kind)(options).computer.mel
    options.mel_opts.htk_mode = False
    assert torch.equal(at_zero, getattr(kaldifeat, kind)(options).computer.mel)


@pytest.mark.parametrize("num_mels", [80, 128])
def test_whisper_features_are_whispers_of_kaldis_frames(num_mels: int) -> None:
    audio_utils = pytest.importorskip("transformers.audio_utils")
    wave = audio(8000) / 32768
    options = kaldifeat.WhisperFbankOptions(num_mels=num_mels)
    assert kaldifeat.WhisperFbank(options)(wave).shape == (48, num_mels)
    options.frame_opts.snip_edges = False
    features = kaldifeat.WhisperFbank(options)(wave, chunk_size=20)
    assert features.shape == (50, num_mels)
    # Kaldi's frame 1 starts at sample 40, and the last one inside the audio is frame 48.
    power = torch.stft(wave[40:], 400, 160, window=torch.hann_window(400), center=False, return_complex=True).abs() ** 2
    mel = audio_utils.mel_filter_bank(201, num_mels, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney")
    logs = (torch.from_numpy(mel).float().T @ power).clamp(min=1e-10).log10().T
    peak = 4.0 * features.max() - 4.0
    expected = (torch.maximum(logs, peak - 8.0) + 4.0) / 4.0
    torch.testing.assert_close(features[1:48], expected[:47], rtol=0, atol=1e-4)
    with pytest.raises(OptionError, match="num_mels must be 80 or 128"):
        kaldifeat.WhisperFbank(kaldifeat.WhisperFbankOptions(num_mels=64))


@pytest.mark.parametrize("kind", ["Fbank", "Mfcc", "Plp", "Spectrogram", "WhisperFbank"])
def test_options_go_to_dictionaries_and_back(kind: str) -> None:
    options = getattr(kaldifeat, f"{kind}Options")()
    options.frame_opts.dither, options.device = 0.25, "cuda:2"
    again = type(options).from_dict({**options.as_dict(), "num_bin": 80})  # kaldifeat ignores unknown names.
    assert again == options and again.as_dict() == options.as_dict() and again.device == torch.device("cuda", 2)
    assert again.as_dict()["frame_opts"] == options.frame_opts.as_dict()
    assert pickle.loads(pickle.dumps(options)) == options
    assert type(options).from_dict({}) == type(options)()


def test_groups_of_options_have_kaldifeats_order_and_defaults() -> None:
    frames = kaldifeat.FrameExtractionOptions(8000, 12.5, 20.0)
    assert (frames.samp_freq, frames.frame_shift_ms, frames.frame_length_ms) == (8000, 12.5, 20.0)
    assert kaldifeat.MelBanksOptions().num_bins == 25 and kaldifeat.FbankOptions().mel_opts.num_bins == 23
    assert kaldifeat.FbankOptions.from_dict({"mel_opts": {"low_freq": 1}}).mel_opts.num_bins == 25
    options = kaldifeat.FbankOptions(
        kaldifeat.MelBanksOptions(40), frames, True, 1.5, False, True, False, False, "cuda"
    )
    assert options.as_dict() == {
        "mel_opts": kaldifeat.MelBanksOptions(num_bins=40).as_dict(),
        "frame_opts": frames.as_dict(),
        "use_energy": True,
        "energy_floor": 1.5,
        "raw_energy": False,
        "htk_compat": True,
        "use_log_fbank": False,
        "use_power": False,
        "device": torch.device("cuda"),
    }


@pytest.mark.parametrize("kind", ["Fbank", "Mfcc", "Plp", "Spectrogram"])
def test_defaults_are_kaldis_but_for_empty_mel_bins(kind: str) -> None:
    empty = {} if kind == "Spectrogram" else {"allow_empty_bins": True}
    assert getattr(kaldifeat, f"{kind}Options")().to_our_options() == getattr(ours, f"{kind}Options")(**empty)


@pytest.mark.parametrize(
    ("theirs", "our_name", "value"),
    [
        ("frame_opts.samp_freq", "sample_frequency", 8000.0),
        ("frame_opts.frame_shift_ms", "frame_shift", 5.0),
        ("frame_opts.frame_length_ms", "frame_length", 20.0),
        ("frame_opts.dither", "dither", 0.5),
        ("frame_opts.preemph_coeff", "preemphasis_coefficient", 0.5),
        ("frame_opts.remove_dc_offset", "remove_dc_offset", False),
        ("frame_opts.window_type", "window_type", "sine"),
        ("frame_opts.round_to_power_of_two", "round_to_power_of_two", False),
        ("frame_opts.blackman_coeff", "blackman_coeff", 0.3),
        ("frame_opts.snip_edges", "snip_edges", False),
        ("frame_opts.max_feature_vectors", "max_feature_vectors", 7),
        ("mel_opts.num_bins", "num_mel_bins", 40),
        ("mel_opts.low_freq", "low_freq", 30.0),
        ("mel_opts.high_freq", "high_freq", -300.0),
        ("mel_opts.vtln_low", "vtln_low", 90.0),
        ("mel_opts.vtln_high", "vtln_high", -400.0),
        ("mel_opts.debug_mel", "debug_mel", True),
        ("use_energy", "use_energy", False),
        ("energy_floor", "energy_floor", 1.0),
        ("raw_energy", "raw_energy", False),
        ("lpc_order", "lpc_order", 14),
        ("num_ceps", "num_ceps", 11),
        ("compress_factor", "compress_factor", 0.5),
        ("cepstral_lifter", "cepstral_lifter", 20),
        ("cepstral_scale", "cepstral_scale", 2.0),
        ("htk_compat", "htk_compat", True),
    ],
)
def test_an_option_of_kaldifeat_is_ignored(theirs: str, our_name: str, value: Any) -> None:
    options = kaldifeat.PlpOptions()
    *group, name = theirs.split(".")
    setattr(getattr(options, group[0]) if group else options, name, value)
    assert options.to_our_options() == dataclasses.replace(ours.PlpOptions(allow_empty_bins=True), **{our_name: value})


def test_audio_of_any_scale_is_accepted_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    options = kaldifeat.FbankOptions()
    wave = audio(1000) / 32768
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fbank = kaldifeat.Fbank(options)
        fbank(wave)
        fbank.compute(fbank.convert_samples_to_frames(wave))
        kaldifeat.OnlineFbank(options).accept_waveform(16000, wave)


def test_a_misspelt_option_is_refused() -> None:
    options = kaldifeat.FbankOptions()
    with pytest.raises(OptionError, match=r"^FrameExtractionOptions has no option sample_frequency: .* samp_freq\?$"):
        options.frame_opts.sample_frequency = 8000.0  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=r"^MelBanksOptions has no option n_mels: did you mean num_bins\?$"):
        kaldifeat.MelBanksOptions(n_mels=80)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="no option num_bins"):
        options.num_bins = 80  # type: ignore[attr-defined]


def test_signature_lists_options_with_kaldifeats_names_and_our_defaults() -> None:
    parameters = inspect.signature(kaldifeat.FrameExtractionOptions).parameters
    assert (parameters["samp_freq"].default, parameters["window_type"].default) == (16000.0, "povey")


def test_old_frames_are_discarded_if_requested() -> None:
    options = configured(kaldifeat.FbankOptions(), {"frame_opts.max_feature_vectors": 10})
    online = kaldifeat.OnlineFbank(options)
    online.accept_waveform(16000, audio(16000))
    assert online.num_frames_ready == 98 and online.dim == 23 and online.frame_shift_in_seconds == 0.01
    assert [frame.shape for frame in online.get_frames([88, 97])] == [(1, 23), (1, 23)]
    with pytest.raises(OptionError, match="frame 87 is not available: ask for 88 to 97"):
        online.get_frame(87)
    options.frame_opts.max_feature_vectors = 0  # As in kaldifeat, 0 sets no limit.
    online = kaldifeat.OnlineFbank(options)
    online.accept_waveform(16000, audio(16000))
    assert online.get_frame(0).shape == (1, 23)


def test_invalid_chunks_are_refused() -> None:
    online = kaldifeat.OnlineFbank(kaldifeat.FbankOptions())
    with pytest.raises(AudioError, match="8000 Hz"):
        online.accept_waveform(8000, audio(100))
    online.input_finished()
    online.accept_waveform(16000, audio(0))
    with pytest.raises(AudioError, match="finished"):
        online.accept_waveform(16000, audio(100))


@pytest.mark.parametrize(("module", "name"), [("fbank", "Fbank"), ("mfcc", "MfccOptions"), ("plp", "Plp"),
                                              ("spectrogram", "Spectrogram"), ("whisper_fbank", "WhisperFbank"),
                                              ("offline_feature", "OfflineFeature"),
                                              ("online_feature", "OnlineFeature")])  # fmt: skip
def test_submodules_can_be_imported_under_kaldifeats_name(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kaldifeat", kaldifeat)
    imported = importlib.import_module(f"kaldifeat.{module}")
    del sys.modules[f"kaldifeat.{module}"]
    assert getattr(imported, name) is getattr(kaldifeat, name)


def test_arrays_are_refused_with_advice() -> None:
    for waves in np.zeros(1600, np.float32), [np.zeros(1600, np.float32)]:
        with pytest.raises(AudioError, match=r"torch\.from_numpy"):
            kaldifeat.Fbank(kaldifeat.FbankOptions())(waves)  # type: ignore[call-overload]
