"""Presets as data: what is read, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from kaldi_compat import list_presets
from kaldi_compat.errors import OptionError
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.preset import FOLDER

MINIMAL: dict[str, Any] = {"name": "mine", "feature": "fbank"}


def test_all_models_have_a_preset_with_a_source() -> None:
    assert list(list_presets()) == sorted(path.stem for path in FOLDER.glob("*.json"))
    for name in list_presets():
        preset = Preset.of(name)
        assert preset.name == name and preset.title and preset.family
        assert all(dataclasses.astuple(preset.source)[:3]), name
        assert preset.options.dither == 0 and preset.options.waveform_scale == 1
        assert preset.feature_options.waveform_scale == preset.sample_scale


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("parafomer", "did you mean 'paraformer'"),
        ("SenseVoice", "did you mean 'sensevoice'"),
        ("xx", "choose from ast,"),
    ],
)
def test_an_unknown_preset_is_refused_with_a_suggestion(wrong: str, suggestion: str) -> None:
    with pytest.raises(OptionError, match=f"there is no preset '{wrong}': {suggestion}"):
        Preset.of(wrong)


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("whisper", r"kaldifeat\.WhisperFbank"),
        ("Whisper_large", "WhisperFbank"),
        ("moonshine", "takes audio"),
        ("parakeet-tdt", "own front end"),
    ],
)
def test_models_without_kaldis_features_are_named(model: str, advice: str) -> None:
    with pytest.raises(OptionError, match=f"there is no preset '{model}': .*{advice}"):
        Preset.of(model)


def test_preset_of_another_type_is_refused() -> None:
    with pytest.raises(OptionError, match="preset=None is of type NoneType: pass a name"):
        Preset.of(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature": "mel"}, "feature must be one of fbank, mfcc, plp, spectrogram, not 'mel'"),
        ({"featur": 1}, "there is no entry 'featur': did you mean 'feature'"),
        ({"options": {"num_mell_bins": 3}}, "no option num_mell_bins: did you mean num_mel_bins"),
        ({"options": {"num_mel_bins": "80"}}, "num_mel_bins must be an integer"),
        ({"options": {"sample_frequency": 8000}}, "set this entry instead"),
        ({"options": {"waveform_scale": 2}}, "follows from the entry 'sample_scale'"),
        ({"sampling_rate": "16k"}, "sampling_rate must be an integer"),
        ({"sampling_rate": True}, "sampling_rate must be an integer"),
        ({"sample_scale": 0}, "sample_scale must be positive"),
        ({"steps": [{"low_framerate": {}}]}, "there is no step 'low_framerate': did you mean low_frame_rate"),
        ({"steps": ["pad_frames"]}, "a step is one name with its options"),
        ({"steps": [{"stack_frames": 2}]}, "options of the step stack_frames must be names with values"),
        ({"steps": [{"stack_frames": {"size": 0}}]}, "size must be at least 1"),
        ({"steps": [{"pad_frames": {"length": 5, "multiple": 2}}]}, "exclude each other"),
        ({"steps": [{"pad_frames": {"length": 10**9}}]}, "length must be from 0 to 1e.06"),
        ({"steps": [{"pad_frames": {"multiple": 2**31 - 1}}]}, "multiple must be from 1 to 1e.06"),
        ({"steps": [{"global_cmvn": {"statistics": "a", "mean": 1.0}}]}, "leave one of them out"),
        (
            {"feature": "spectrogram", "shortens_frame": True},
            "shortens_frame does not work with the feature spectrogram",
        ),
        ({"steps": [{"stack_frames": {"size": 2}}] * 2000}, "there are 2000 steps: use at most 100"),
        ({"steps": [{"stack_frames": {"size": 999}}] * 2}, r"into 2.3e\+07, but at most 1048576 are supported"),
        (
            {"steps": [{"repeated_deltas": {"delta_order": 3}}, *[{"low_frame_rate": {"stack": 500}}] * 2]},
            "at most 104",
        ),
        ({"sampling_rate": 10**300}, "sampling_rate is an integer of 997 bits: write a number of at most"),
        ({"source": {"url": "x"}}, "source has an unknown entry 'url': choose from repository, file, commit, date"),
        ({"source": {"commit": 3}}, "the entry 'commit' of source must be a string, not 3: put the value in quotes"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_name(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({**MINIMAL, **changes}))
    with pytest.raises(OptionError, match=message) as caught:
        Preset.of(str(file))
    assert str(caught.value).startswith(f"the preset {file}: ") and "\n" not in str(caught.value)


def test_files_that_hold_no_preset_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(OptionError, match=r"cannot read the preset .*a\.json: No such file"):
        Preset.of(str(file))
    file.write_text("{")
    with pytest.raises(OptionError, match="is not a JSON file"):
        Preset.of(file)
    file.write_text("[]")
    with pytest.raises(OptionError, match="must be a JSON object"):
        Preset.of(file)
    file.write_text('{"name": "a"}')
    with pytest.raises(OptionError, match="the entry 'feature' is missing"):
        Preset.of(file)
