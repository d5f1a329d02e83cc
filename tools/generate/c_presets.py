"""The table of presets in ``packages/c/kaldi_features.h``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kaldi_compat.frontends.description import changed_options
from kaldi_compat.frontends.preset import Preset, list_presets
from kaldi_compat.frontends.steps import Step

BEGIN, END = "    /* presets: begin */\n", "    /* presets: end */\n"
# In the order in which the header computes them; the names of a step's options there, where they differ.
STEPS: dict[str, dict[str, str]] = {
    "voiced_cmvn": {"center": "cmn_center"},
    "utterance_cmvn": {f"{name}": f"utterance_{name}" for name in ("norm_vars", "unbiased", "epsilon")},
    "repeated_deltas": {},
    "low_frame_rate": {"stack": "lfr_stack", "stride": "lfr_stride"},
    "stack_frames": {"size": "stack_frames"},
    "pad_frames": {"length": "pad_frames"},
    "global_cmvn": {"mean": "global_mean", "std": "global_std"},
    "floor": {"minimum": "floor_minimum"},
}
ALONE = {"voiced_cmvn": "keep_voiced", "utterance_cmvn": "utterance_cmvn"}  # Options that switch a step on.
# Options that the header does not have, and the only values that a preset may give them.
LEFT_OUT = {"max_warnings": 5, "norm_vars": False, "multiple": 1, "value": 0.0}


def table(header: str) -> str:
    """Return the header with the presets of this checkout."""
    before, _, following = header.partition(BEGIN)
    return before + BEGIN + "".join(map(_row, list_presets())) + END + following.partition(END)[2]


def source(path: Path) -> str:
    """Return the text of ``packages/c/kaldi_features.h``."""
    return table(path.read_text(encoding="utf-8"))


def _row(name: str) -> str:
    preset = Preset.of(name)
    kinds = [step.kind for step in preset.steps]
    if kinds != sorted(kinds, key=list(STEPS).index):
        raise ValueError(f"the preset {name} has its steps {kinds} in another order than packages/c/kaldi_features.h")
    values = {name: value for name, value in changed_options(preset).items() if name != "dither"}
    for key, value, default in (
        ("sample_frequency", preset.sampling_rate, 16000),
        ("waveform_scale", preset.sample_scale, 1.0),
        ("subtract_clip_mean", preset.subtract_clip_mean, False),
        ("shorten_frame", preset.shortens_frame, False),
        ("double_precision", preset.double_precision, False),
    ):
        values |= {key: value} if value != default else {}
    for step in preset.steps:
        values |= _options(step)
    text = " ".join(f"{key}={_text(value)}" for key, value in values.items())
    statistics = f'"{preset.statistics}"' if preset.statistics else "NULL"
    return f'    {{"{name}", KF_{preset.feature.upper()}, "{text}", {statistics}}},\n'


def _options(step: Step) -> dict[str, Any]:
    names, options = STEPS[step.kind], {ALONE[step.kind]: True} if step.kind in ALONE else {}
    for name, value in vars(step.options).items() if not step.statistics else ():
        if name in names or name not in LEFT_OUT:
            options |= {names.get(name, name): value} if value or step.kind != "utterance_cmvn" else {}
        elif value != LEFT_OUT[name]:
            raise ValueError(f"packages/c/kaldi_features.h has no option {name} of the step {step.kind}")
    return options


def _text(value: Any) -> str:
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return str(value)
