"""The presets of the C header ``packages/c/kaldi_features.h`` and of its WebAssembly package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from kaldi_compat.frontends.description import find_changed_options
from kaldi_compat.frontends.preset import Preset, list_presets
from kaldi_compat.frontends.steps import Step

BEGIN, END = "    /* presets: begin */\n", "    /* presets: end */\n"
# Steps in the order in which the header computes them, with the header's names of options that differ from ours.
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
# Steps that one option of the header turns on, and this option.
ALONE = {"voiced_cmvn": "keep_voiced", "utterance_cmvn": "utterance_cmvn"}
# Options that the header does not have, and their only supported values.
LEFT_OUT = {"max_warnings": 5, "norm_vars": False, "multiple": 1, "value": 0.0}


def table(header: str) -> str:
    """Return the text of the header with the presets of this checkout."""
    before, _, following = header.partition(BEGIN)
    return before + BEGIN + "".join(map(_format_row, list_presets())) + END + following.partition(END)[2]


def source(path: Path) -> str:
    """Return the text of ``packages/c/kaldi_features.h``."""
    return table(path.read_text(encoding="utf-8"))


def javascript() -> str:
    """Return the text of ``packages/c/wasm/kaldi_features.presets.js``."""
    lines = ["// Presets: written by `make generate` from kaldi_compat/frontends/presets.", "export const PRESETS = {"]
    for name in list_presets():
        row = _describe(name)
        value = {"feature": row.feature, "options": {key: _number(value) for key, value in row.options.items()}}
        lines.append(
            f"  {json.dumps(name)}: {json.dumps(value | ({'statistics': row.statistics} if row.statistics else {}))},"
        )
    return "\n".join([*lines, "};", ""])


class _Row(NamedTuple):
    """A preset in the header's words: its feature, the options that differ from the defaults, the model's file."""

    feature: str
    options: dict[str, Any]
    statistics: str


def _format_row(name: str) -> str:
    feature, options, file = _describe(name)
    text = " ".join(f"{key}={_number(value)}" for key, value in options.items())
    statistics = f'"{file}"' if file else "NULL"
    return f'    {{"{name}", KF_{feature.upper()}, "{text}", {statistics}}},\n'


def _describe(name: str) -> _Row:
    """Return the preset ``name`` in the header's words.

    Raises:
        ValueError: the header computes the steps in another order, or lacks an option.
    """
    preset = Preset.of(name)
    kinds = [step.kind for step in preset.steps]
    if kinds != sorted(kinds, key=list(STEPS).index):
        raise ValueError(f"preset {name}: packages/c/kaldi_features.h computes the steps {kinds} in another order")
    values = {name: value for name, value in find_changed_options(preset).items() if name != "dither"}
    for key, value, default in (
        ("sample_frequency", preset.sampling_rate, 16000),
        ("waveform_scale", preset.sample_scale, 1.0),
        ("subtract_clip_mean", preset.subtract_clip_mean, False),
        ("shorten_frame", preset.shortens_frame, False),
        ("double_precision", preset.double_precision, False),
    ):
        values |= {key: value} if value != default else {}
    for step in preset.steps:
        values |= _list_options(step)
    return _Row(preset.feature, values, preset.statistics or "")


def _list_options(step: Step) -> dict[str, Any]:
    """Return the options of a step under the header's names.

    Raises:
        ValueError: the header lacks an option whose value is not the supported one.
    """
    names = STEPS[step.kind]
    options: dict[str, Any] = {ALONE[step.kind]: True} if step.kind in ALONE else {}
    for name, value in vars(step.options).items() if not step.statistics else ():
        if name in names or name not in LEFT_OUT:
            options |= {names.get(name, name): value} if value or step.kind != "utterance_cmvn" else {}
        elif value != LEFT_OUT[name]:
            raise ValueError(f"packages/c/kaldi_features.h has no option {name} of the step {step.kind}")
    return options


def _number(value: Any) -> Any:
    """Convert a bool or a whole number to an integer. Return any other value unchanged."""
    is_whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole else value
