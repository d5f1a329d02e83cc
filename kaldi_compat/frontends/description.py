"""Describe presets to people: on the command line and in Jupyter."""

from __future__ import annotations

import dataclasses
from typing import Any

from io_ark.text import format_html_table
from kaldi_compat.frontends.preset import FORMAT_VERSION, SET_BY_PRESET, Preset
from kaldi_compat.frontends.steps import count_columns


def describe_rows(preset: Preset) -> list[tuple[str, str]]:
    """Describe a preset as pairs (name, description). A pair without a name continues the pair before it."""
    options = ", ".join(f"{name}={value!r}" for name, value in find_changed_options(preset).items())
    scale = "-1 to 1" if preset.sample_scale == 1 else f"-1 to 1, multiplied by {preset.sample_scale:g}"
    preprocessing = ["the mean of the clip is subtracted"] if preset.subtract_clip_mean else []
    steps = [*map(str, preset.steps)] or ["none"]
    return [
        ("audio", f"{preset.sampling_rate} Hz, {'; '.join([scale, *preprocessing])}"),
        ("feature", f"{preset.feature}({options})"),
        *(("" if index else "steps", step) for index, step in enumerate(steps)),
        ("input", f"(frames, {count_columns(preset.options, preset.steps)})"),
        ("stream", f"no: {preset.why_no_stream}" if preset.why_no_stream else "yes"),
        ("source", f"{preset.source.repository} {preset.source.file}"),
        ("", f"{preset.source.commit} {preset.source.date}"),
        *(("note", note) for note in preset.notes),
    ]


def format_text(preset: Preset) -> str:
    """Return the description of a preset as a string of several lines, without a line ending after the last line."""
    lines = [
        f"{preset.name}: {preset.title}",
        *(f"  {name:9} {about}".rstrip() for name, about in describe_rows(preset)),
    ]
    return "\n".join(lines)


def format_html(preset: Preset, title: str) -> str:
    """Return the description of a preset as an HTML table for Jupyter, headed by ``title`` and the preset's title."""
    return format_html_table(f"{title}: {preset.title}", describe_rows(preset))


def convert_to_dict(preset: Preset) -> dict[str, Any]:
    """Return the description of a preset for :meth:`Preset.from_dict`. docs/frontends/format.md describes the keys.

    The entry "options" has all options of the feature, except for the options that other entries determine.
    """
    values = {"format": FORMAT_VERSION} | dataclasses.asdict(preset)
    values["options"] = {name: value for name, value in values["options"].items() if name not in SET_BY_PRESET}
    values["steps"] = [
        {step.kind: {"statistics": step.statistics} if step.statistics else dataclasses.asdict(step.options)}
        for step in preset.steps
    ]
    return values | {"notes": list(preset.notes), "columns": count_columns(preset.options, preset.steps)}


def find_changed_options(preset: Preset) -> dict[str, Any]:
    """Return the values of the feature's options that differ from Kaldi's defaults, without ``sample_frequency``."""
    return {
        field.name: getattr(preset.options, field.name)
        for field in dataclasses.fields(preset.options)
        if getattr(preset.options, field.name) != field.default and field.name != "sample_frequency"
    }
