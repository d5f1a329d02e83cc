"""Functions take their options as a dataclass or by name, as the modules do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kaldi_compat.errors import OptionError
from kaldi_compat.functional import cmvn, deltas, normalization, reverberate, splice, stacking, vad
from kaldi_compat.numpy import OnlineCmvn
from kaldi_compat.options import frontend, pitch, postprocessing
from kaldi_compat.pitch import interpolate, process, smooth, tracker

FEATURES = np.random.default_rng(1).normal(8, 3, (30, 4)).astype(np.float32)
TRACK = np.stack((np.linspace(0.1, 0.9, 30), np.linspace(90, 120, 30)), -1).astype(np.float32)
AUDIO = (3000 * np.sin(0.1 * np.arange(4000))).astype(np.float32)
STATISTICS = cmvn.cmvn_statistics(FEATURES)

# A function, what it takes before its options, their class, and a change that has an effect.
CASES: list[tuple[Callable[..., Any], tuple[Any, ...], type[Any], dict[str, Any]]] = [
    (deltas.add_deltas, (FEATURES,), postprocessing.DeltaOptions, {"delta_order": 1}),
    (deltas.repeated_deltas, (FEATURES,), postprocessing.DeltaOptions, {"delta_window": 3}),
    (deltas.add_shifted_deltas, (FEATURES,), postprocessing.ShiftedDeltaOptions, {"num_blocks": 2}),
    (cmvn.apply_cmvn, (FEATURES, STATISTICS), postprocessing.CmvnOptions, {"norm_vars": True}),
    (cmvn.apply_own_cmvn, (FEATURES,), postprocessing.CmvnOptions, {"norm_vars": True}),
    (
        cmvn.compute_sliding_mean_and_variance,
        (FEATURES,),
        postprocessing.SlidingCmvnOptions,
        {"cmn_window": 5, "center": True},
    ),
    (cmvn.sliding_cmvn, (FEATURES,), postprocessing.SlidingCmvnOptions, {"cmn_window": 5, "center": True}),
    (cmvn.online_cmvn, (FEATURES, STATISTICS), postprocessing.OnlineCmvnOptions, {"cmn_window": 5}),
    (vad.compute_vad, (FEATURES,), postprocessing.VadOptions, {"vad_energy_threshold": 3.0}),
    (vad.voiced_cmvn, (FEATURES,), frontend.VoicedCmvnOptions, {"vad_energy_threshold": 3.0}),
    (stacking.low_frame_rate, (FEATURES,), frontend.LowFrameRateOptions, {"stack": 3}),
    (stacking.stack_frames, (FEATURES,), frontend.StackFramesOptions, {"size": 3}),
    (stacking.pad_frames, (FEATURES,), frontend.PadFramesOptions, {"length": 40}),
    (normalization.utterance_cmvn, (FEATURES,), frontend.UtteranceCmvnOptions, {"norm_vars": True}),
    (normalization.subtract_centered_mean, (FEATURES,), frontend.CenteredMeanOptions, {"context": 2}),
    (normalization.floor_features, (FEATURES,), frontend.FloorOptions, {"minimum": 8.0}),
    (splice.splice, (FEATURES,), postprocessing.SpliceOptions, {"left_context": 1}),
    (reverberate.reverberate, (AUDIO, 16000.0), postprocessing.ReverberationOptions, {"volume": 0.5}),
    (tracker.track_pitch, (AUDIO,), pitch.PitchOptions, {"min_f0": 60, "frame_shift": 5}),
    (tracker.track_pitches, ([("a", AUDIO)],), pitch.PitchOptions, {"frame_shift": 5}),
    (process.process_pitch, (TRACK,), pitch.ProcessPitchOptions, {"add_delta_pitch": False}),
    (interpolate.interpolate_smoothly, (TRACK,), pitch.InterpolatePitchOptions, {"pitch_interval": 1.0}),
    (smooth.smooth_pitch, (TRACK,), pitch.SmoothPitchOptions, {"average_window_size": 1}),
]
each_function = pytest.mark.parametrize(
    ("function", "inputs", "options", "changes"), CASES, ids=[case[0].__name__ for case in CASES]
)


def _arrays(result: Any) -> list[Any]:
    if isinstance(result, np.ndarray):
        return [result]
    return [array for part in result if not isinstance(part, str) for array in _arrays(part)]


def test_every_function_with_optional_options_takes_them_by_name() -> None:
    modules = (cmvn, deltas, normalization, reverberate, splice, stacking, vad, interpolate, process, smooth, tracker)
    found = {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and "Options | None" in str(value.__annotations__.get("options"))
    }
    assert found == {case[0].__name__ for case in CASES}


@each_function
def test_option_by_name_has_no_effect_or_another_than_in_the_dataclass(
    function: Callable[..., Any], inputs: tuple[Any, ...], options: type[Any], changes: dict[str, Any]
) -> None:
    calls: tuple[dict[str, Any], ...] = ({}, changes, {"options": options(**changes)})
    usual, by_name, changed = (_arrays(function(*inputs, **arguments)) for arguments in calls)
    assert all(map(np.array_equal, by_name, changed))
    assert not all(map(np.array_equal, by_name, usual))


@each_function
def test_signature_and_help_lack_an_option(
    function: Callable[..., Any], inputs: tuple[Any, ...], options: type[Any], changes: dict[str, Any]
) -> None:
    shown = inspect.signature(function).parameters
    for name, option in inspect.signature(options).parameters.items():
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default == option.default
    assert "changes" not in shown


@each_function
def test_wrong_option_is_no_option_error(
    function: Callable[..., Any], inputs: tuple[Any, ...], options: type[Any], changes: dict[str, Any]
) -> None:
    owner, name = function.__name__, next(iter(changes))
    with pytest.raises(OptionError, match=rf"^{owner} has no option {name}x: did you mean {name}"):
        function(*inputs, **{f"{name}x": 1})
    with pytest.raises(OptionError, match=rf"^{owner} takes {options.__name__}, not int: pass options by name"):
        function(*inputs, options=1)


def test_name_of_another_library_is_not_recognized() -> None:
    with pytest.raises(OptionError) as caught:
        tracker.track_pitch(AUDIO, fmin=60)  # type: ignore[call-arg]
    assert str(caught.value) == "track_pitch has no option fmin: did you mean min_f0 (in Hz)?"


def test_online_normalization_without_torch_does_not_name_its_options() -> None:
    assert inspect.signature(OnlineCmvn).parameters["cmn_window"].default == 600
    with pytest.raises(OptionError, match=r"^OnlineCmvn has no option window: did you mean cmn_window"):
        OnlineCmvn(STATISTICS, window=5)  # type: ignore[call-arg]
