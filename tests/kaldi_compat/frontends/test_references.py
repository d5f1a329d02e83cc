"""Every preset gives what its model's own code gave (reference_data/frontends), and its neighbours do not."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat import Frontend, list_presets, native
from kaldi_compat.errors import FeatureError
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.numpy import Frontend as ArrayFrontend
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.frontends.steps import Step, count_columns
from kaldi_compat.options.frontend import CenteredMeanOptions, LowFrameRateOptions
from tests.support.frontend_audio import clips, kept_rows, mean_and_deviation

REFERENCES = Path(__file__).parents[3] / "reference_data" / "frontends"
TOLERANCE = 1e-3
# torchaudio rounds the arguments of the cosines of 80 cepstra, which moves the 55th by 7e-4.
TOLERANCES = {"wekws-mfcc": 1.5e-3}
# Presets of other settings whose numbers are the same all the same: the floor of an energy that is never reached, or
# statistics as numbers.
EQUAL = [{"wenet", "fireredasr"}, {"ast", "audiomae", "eat"}]
# Constant columns, for which these projects divide rounding error, or zero, by about zero.
ILL_CONDITIONED = {
    ("speech2text", "silence"), ("speech2text", "one-frame"), ("telespeech", "silence"), ("seamless-m4t", "one-frame"),
    ("sonar", "silence"), ("sonar", "one-frame"),
}  # fmt: skip
KALDIS_OWN = ["kaldi-hires", "sre16-xvector", "voxceleb-xvector"]
LIVE = {
    "speech2text": ("speech_to_text", "Speech2TextFeatureExtractor", "input_features"),
    "seamless-m4t": ("seamless_m4t", "SeamlessM4TFeatureExtractor", "input_features"),
    "wav2vec2-bert": ("seamless_m4t", "SeamlessM4TFeatureExtractor", "input_features"),
    "ast": ("audio_spectrogram_transformer", "ASTFeatureExtractor", "input_values"),
    "phi4-multimodal": ("phi4_multimodal", "Phi4MultimodalFeatureExtractor", "audio_input_features"),
    "medasr": ("lasr", "LasrFeatureExtractor", "input_features"),
}


@functools.cache
def twins(name: str) -> frozenset[str]:
    """Return the presets with the settings of a preset, itself included: their projects run the same code."""
    fields = ("feature", "options", "sampling_rate", "sample_scale", "subtract_clip_mean", "shortens_frame", "steps")
    settings = [getattr(Preset.of(name), field) for field in fields]
    same = (other for other in list_presets() if [getattr(Preset.of(other), field) for field in fields] == settings)
    return frozenset(same)


def reference_of(name: str) -> str:
    """Return the preset whose stored reference serves a preset: itself, or a twin."""
    if (REFERENCES / f"{name}.npz").exists():
        return name
    stored = [twin for twin in sorted(twins(name)) if (REFERENCES / f"{twin}.npz").exists()]
    if not stored:
        pytest.fail(
            f"the preset {name} has no reference: reference_data/frontends/make.py computes {name}.npz", pytrace=False
        )
    return stored[0]


@functools.cache
def reference(name: str) -> dict[str, Any]:
    """Return the shape and the kept rows of each clip that the model's code computed, without ill-conditioned ones."""
    file = reference_of(name)
    stored = np.load(REFERENCES / f"{file}.npz")
    return {
        clip: (tuple(stored[f"{clip}/shape"].tolist()), stored[f"{clip}/rows"])
        for clip in clips()
        if f"{clip}/shape" in stored and (file, clip) not in ILL_CONDITIONED
    }


def statistics_for(preset: Preset) -> Statistics | None:
    if not preset.statistics:
        return None
    before = next(number for number, step in enumerate(preset.steps) if step.statistics)
    return Statistics.of(mean_and_deviation(count_columns(preset.options, preset.steps[:before])))


def difference(frontend: ArrayFrontend, name: str) -> float:
    """Return the largest difference from a reference, or the first that is too large; infinity for other shapes."""
    largest = 0.0
    for clip, (shape, rows) in reference(name).items():
        features = frontend(clips()[clip])
        if shape[0] == 0 and len(features) == 0:
            continue
        if features.shape != shape:
            return np.inf
        largest = max(largest, float(np.abs(features[kept_rows(len(features))] - rows).max()))
        if largest > TOLERANCES.get(name, TOLERANCE):
            break
    return largest


@functools.cache
def of_numpy(name: str) -> ArrayFrontend:
    preset = Preset.of(name)
    return ArrayFrontend(preset, statistics=statistics_for(preset))


@pytest.mark.parametrize("name", list_presets())
def test_preset_on_arrays_gives_what_the_models_own_code_gave(name: str) -> None:
    assert {"speech", "dc", "clipped", "quiet", "noise", "8khz", "30s"} <= set(reference(name))
    assert difference(of_numpy(name), name) < TOLERANCES.get(name, TOLERANCE)


@pytest.mark.parametrize("name", list_presets())
def test_preset_on_tensors_gives_what_the_models_own_code_gave(name: str) -> None:
    preset = Preset.of(name)
    frontend = Frontend(preset, statistics=statistics_for(preset))
    for clip, (shape, rows) in reference(name).items():
        features = frontend(torch.from_numpy(clips()[clip]))
        if shape[0]:
            assert tuple(features.shape) == shape, clip
            # Without the C library, the torch engine computes this. It is more accurate than Kaldi, by up to 2e-3 in
            # cepstra of up to 100.
            close = TOLERANCES.get(name, TOLERANCE)
            close = 2 * TOLERANCE if name in KALDIS_OWN and not native.library() else close
            np.testing.assert_allclose(features[kept_rows(len(features))], rows, rtol=0, atol=close, err_msg=clip)
        else:
            assert len(features) == 0, clip


@pytest.mark.parametrize("name", KALDIS_OWN)
def test_kaldis_own_front_ends_are_equal_bit_for_bit(name: str) -> None:
    assert difference(of_numpy(name), name) == 0


@pytest.mark.parametrize("name", list_presets())
def test_other_presets_fail_the_same_comparison(name: str) -> None:
    same = twins(name).union(*(twins(other) for group in EQUAL if group & twins(name) for other in group))
    for other in list_presets():
        preset = Preset.of(other)
        try:
            # With the statistics of this preset, so that they are not what tells the two apart.
            frontend = ArrayFrontend(preset, statistics=statistics_for(Preset.of(name)) if preset.statistics else None)
        except FeatureError:  # of other dimensions
            assert other not in same
            continue
        assert (difference(frontend, name) < TOLERANCES.get(name, TOLERANCE)) == (other in same), other


def changed(preset: Preset) -> dict[str, Preset]:
    """Return a preset with each of the usual mistakes."""
    options = preset.options
    wrong: dict[str, Any] = {
        "window": {"window_type": "povey" if options.window_type != "povey" else "hamming"},
        "edges": {"snip_edges": not options.snip_edges},
        "low": {"low_freq": getattr(options, "low_freq", 0.0) + 40.0},
        "high": {"high_freq": -400.0 if getattr(options, "high_freq", 0.0) not in (-400, 7600) else 0.0},
        "dc": {"remove_dc_offset": not options.remove_dc_offset},
        "preemphasis": {"preemphasis_coefficient": 0.9},
        "bins": {"num_mel_bins": getattr(options, "num_mel_bins", 0) - 1},
        "dither": {"dither": 1.0 / (32768 if preset.sample_scale == 1 else 1)},
    }
    variants = {
        key: dataclasses.replace(preset, options=dataclasses.replace(options, **changes))
        for key, changes in wrong.items()
        if not (key == "bins" and preset.feature == "mfcc")
    }
    variants["scale"] = dataclasses.replace(preset, sample_scale=32768.0 if preset.sample_scale == 1 else 1.0)
    for number, step in enumerate(preset.steps):
        left = preset.steps[:number] + preset.steps[number + 1 :]
        variants[f"no {step.kind}"] = dataclasses.replace(preset, steps=left)
        if isinstance(step.options, LowFrameRateOptions):
            for stack, stride in ((step.options.stack, step.options.stride + 1), (step.options.stack + 2, 1)):
                other = Step(step.kind, LowFrameRateOptions(stack=stack, stride=stride))
                steps = (*preset.steps[:number], other, *preset.steps[number + 1 :])
                variants[f"low frame rate {stack}/{stride}"] = dataclasses.replace(preset, steps=steps)
    return variants


@pytest.mark.parametrize("name", sorted({reference_of(name) for name in list_presets()}))
def test_a_wrong_setting_fails_the_comparison(name: str) -> None:
    preset = Preset.of(name)
    for mistake, wrong in changed(preset).items():
        try:
            frontend = ArrayFrontend(wrong, statistics=statistics_for(preset) if wrong.statistics else None)
        except FeatureError:  # the statistics do not fit any more: this is noticed
            continue
        assert difference(frontend, name) > TOLERANCES.get(name, TOLERANCE), mistake


def test_running_mean_is_that_of_pyannote() -> None:
    # fbank_centering_span=0.5 seconds are 48 frames, of which pyannote takes 24 on each side.
    preset = Preset.of("pyannote-wespeaker")
    step = Step("centered_mean", CenteredMeanOptions(context=24))
    assert difference(ArrayFrontend(dataclasses.replace(preset, steps=(step,))), "pyannote-span") < TOLERANCE
    wrong = Step("centered_mean", CenteredMeanOptions(context=25))
    assert difference(ArrayFrontend(dataclasses.replace(preset, steps=(wrong,))), "pyannote-span") > TOLERANCE


@pytest.mark.parametrize("name", LIVE)
def test_released_transformers_gives_the_same(name: str) -> None:
    model, extractor, field = LIVE[name]
    module = pytest.importorskip(f"transformers.models.{model}.feature_extraction_{model}")
    theirs = getattr(module, extractor)()
    frontend = Frontend.from_preset(name)
    for clip in ("speech", "clipped", "8khz"):
        audio = clips()[clip].astype(np.float32) / 32768
        expected = np.asarray(theirs(audio, sampling_rate=16000, return_tensors="np")[field][0])
        np.testing.assert_allclose(frontend(torch.from_numpy(audio)), expected, rtol=0, atol=TOLERANCE, err_msg=clip)
