"""The kaldifeat API equals kaldi-native-fbank, which has the same options and online interface."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import kaldi_compat.interop.kaldifeat as kaldifeat
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.interop.kaldifeat_groups import TARGET, options_source

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


def test_options_go_to_dictionaries_and_back() -> None:
    options = configured(kaldifeat.FbankOptions(), OPTION_SETS[1])
    again = kaldifeat.FbankOptions.from_dict(options.as_dict())
    assert again.as_dict() == options.as_dict()
    assert again.ours() == options.ours()
    assert "mel_opts=MelBanksOptions(num_bins=80, " in repr(options)
    with pytest.raises(OptionError, match=r"^FbankOptions has no option num_bin: "):
        kaldifeat.FbankOptions.from_dict({"num_bin": 80})


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
    assert "frame_length_ms: length of a frame, in milliseconds" in str(kaldifeat.FrameExtractionOptions.__doc__)


def test_generated_options_are_current() -> None:
    assert TARGET.read_text() == options_source(), "run: python -m kaldi_compat.interop.kaldifeat_groups"


def test_old_frames_are_discarded_if_requested() -> None:
    options = configured(kaldifeat.FbankOptions(), {"frame_opts.max_feature_vectors": 10})
    online = kaldifeat.OnlineFbank(options)
    online.accept_waveform(16000, audio(16000))
    assert online.num_frames_ready == 98 and online.dim == 23 and online.frame_shift_in_seconds == 0.01
    assert [frame.shape for frame in online.get_frames([88, 97])] == [(1, 23), (1, 23)]
    with pytest.raises(OptionError, match="frame 87 is not available: ask for 88 to 97"):
        online.get_frame(87)


def test_invalid_chunks_are_refused() -> None:
    online = kaldifeat.OnlineFbank(kaldifeat.FbankOptions())
    with pytest.raises(AudioError, match="8000 Hz"):
        online.accept_waveform(8000, audio(100))
    online.input_finished()
    with pytest.raises(AudioError, match="finished"):
        online.accept_waveform(16000, audio(100))
