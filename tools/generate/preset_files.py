"""All presets with every option, and the JSON schema of a preset, for programs in other languages."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from kaldi_compat.frontends.description import convert_to_dict
from kaldi_compat.frontends.preset import FEATURES, FORMAT_VERSION, SET_BY_PRESET, Preset, list_presets
from kaldi_compat.frontends.steps import STEPS
from kaldi_compat.options.declaration import get_info

# Pages of docs/frontends that describe presets.
FAMILIES = ("asr", "audio-events", "funasr", "speakers", "transformers")
NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}
ABOUT = {
    "format": "version of this format",
    "name": "short name",
    "title": "models that the front end is for",
    "family": "page of the documentation",
    "source": "where the settings were read",
    "sampling_rate": "sampling rate of the audio in Hz",
    "sample_scale": "factor on audio in -1 to 1",
    "feature": "Kaldi's feature",
    "options": "Kaldi's options of the feature; those that are missing have Kaldi's default, dither 0",
    "subtract_clip_mean": "subtract the mean of all samples first",
    "shortens_frame": "audio shorter than a frame gives one shorter frame, instead of none",
    "double_precision": "the model's own code computes the spectrum in double precision",
    "steps": "steps after the feature, in this order, each one name with its options",
    "columns": "columns of the result; follows from the other entries",
    "notes": "pitfalls",
}


def check_family(preset: Preset) -> None:
    """Raise ValueError unless the family of a preset is a page of ``docs/frontends``."""
    if preset.family not in FAMILIES:
        raise ValueError(f"{preset.name}: family must be one of {', '.join(FAMILIES)}, not {preset.family!r}")


def presets() -> str:
    """Return the text of ``kaldi_compat/frontends/presets.json``."""
    loaded = [Preset.of(name) for name in list_presets()]
    for preset in loaded:
        check_family(preset)
    by_name = {preset.name: convert_to_dict(preset) for preset in loaded}
    return json.dumps({"format": FORMAT_VERSION, "presets": by_name}, indent=1, allow_nan=False) + "\n"


def schema() -> str:
    """Return the text of ``kaldi_compat/frontends/preset.schema.json``."""
    numbers = {"sampling_rate": {"type": "integer", "minimum": 1},
               "sample_scale": {"type": "number", "exclusiveMinimum": 0}}  # fmt: skip
    strings = {name: {"type": "string"} for name in ("name", "title", "family")}
    flags = {name: {"type": "boolean"} for name in ("subtract_clip_mean", "shortens_frame", "double_precision")}
    source = {name: {"type": "string"} for name in ("repository", "file", "commit", "date")}
    steps = [_step(name) for name in STEPS]
    properties: dict[str, Any] = {"format": {"const": FORMAT_VERSION}, **strings,
                                  "source": _make_schema(source), **numbers,
                                  "feature": {"enum": [*FEATURES]}, "options": {"type": "object"}, **flags,
                                  "steps": {"type": "array", "items": {"oneOf": steps}},
                                  "columns": {"type": "integer", "minimum": 1},
                                  "notes": {"type": "array", "items": {"type": "string"}}}  # fmt: skip
    for name, about in ABOUT.items():
        properties[name] = {"description": about, **properties[name]}
    options = [{"if": {"properties": {"feature": {"const": name}}},
                "then": {"properties": {"options": _make_options_schema(kind, SET_BY_PRESET)}}}
               for name, kind in FEATURES.items()]  # fmt: skip
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Front end of a published model"}
    whole = {**head, **_make_schema(properties), "required": ["name", "feature"], "allOf": options}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def _make_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _step(name: str) -> dict[str, Any]:
    options = _make_options_schema(STEPS[name].options)
    if name == "global_cmvn":
        about = "file of the model with a mean and a standard deviation for each column; then mean and std are absent"
        options["properties"]["statistics"] = {"description": about, "type": "string"}
    return {**_make_schema({name: options}), "required": [name]}


def _make_options_schema(kind: Any, left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    return _make_schema(
        {field.name: _make_option_schema(field) for field in dataclasses.fields(kind) if field.name not in left_out}
    )


def _make_option_schema(field: Any) -> dict[str, Any]:
    about = get_info(field)
    schema: dict[str, Any] = {"description": about.description, "type": NAMES[type(field.default)]}
    if about.choices:
        schema["enum"] = [*about.choices]
    for name, key in (("ge", "minimum"), ("gt", "exclusiveMinimum"), ("le", "maximum"), ("lt", "exclusiveMaximum")):
        if (limit := getattr(about, name)) is not None and math.isfinite(limit):
            schema[key] = limit
    default = 0.0 if field.name == "dither" else field.default
    return schema if isinstance(default, float) and math.isinf(default) else {**schema, "default": default}
