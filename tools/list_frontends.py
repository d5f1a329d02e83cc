"""Write the tables of docs/frontends: settings and sources of the presets, and differences from the models' own code.

``python tools/list_frontends.py`` measures, and rewrites the part of each page after MARK. The
tests check the settings, and that no difference is larger than the page says.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from kaldi_compat import list_presets
from kaldi_compat.errors import FeatureError
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.steps import STEPS, count_columns
from tests.kaldi_compat.frontends.test_references import (
    ILL_CONDITIONED,
    changed,
    reference,
    reference_of,
    statistics_for,
)
from tests.support.frontend_audio import clips, kept_rows

PAGES = Path(__file__).parents[1] / "docs" / "frontends"
MARK = "<!-- The rest is written by tools/list_frontends.py. -->\n"
MISTAKES = {
    "scale": "factor on the audio: 1 and 32768 swapped",
    "window": "Povey window",
    "high": "`high_freq` 400 Hz below the Nyquist frequency",
    "low": "`low_freq` higher by 40 Hz",
    "edges": "`snip_edges` inverted",
    "dc": "`remove_dc_offset` inverted",
    "preemphasis": "`preemphasis_coefficient` of 0.9",
    "dither": "dithering by one step of 16-bit audio (`dither=1`, Kaldi's default)",
    **{f"no {kind}": f"without the step `{kind}`" for kind in STEPS},
}

# Additions to the names of mistakes, for pages with a preset for which the mistake is a different one.
EXCEPTIONS: dict[str, tuple[str, Callable[[Preset], bool]]] = {
    "window": (", or Hamming window if Povey is right", lambda preset: preset.options.window_type == "povey"),
    "high": (
        ", or at it if -400 or 7600 is right",
        lambda preset: getattr(preset.options, "high_freq", 0.0) in (-400, 7600),
    ),
    "dither": (", or `dither=1/32768` if the factor is 1", lambda preset: preset.sample_scale == 1),
}

# Meanings of the cells without a number in the table of mistakes.
SPECIAL_CELLS = {
    "shape": 'The word "shape" means that the compared rows have a different shape.',
    "error": 'The word "error" means that the number of columns does not fit the statistics.',
    "-": 'A "-" means that the preset does not have this setting or step.',
}

EMPTY_BINS = (
    "`allow_empty_bins` is not an option of Kaldi's: with it, a mel bin that contains no FFT bin has the energy 0, "
    "whereas Kaldi's programs refuse such options. "
)


def group_by_family() -> dict[str, list[Preset]]:
    """Return the presets of each page."""
    pages: dict[str, list[Preset]] = {}
    for name in list_presets():
        preset = Preset.of(name)
        pages.setdefault(preset.family, []).append(preset)
    return pages


def format_settings(presets: list[Preset]) -> str:
    """Return the section with the settings and the sources."""
    options = [preset.options for preset in presets]
    paragraph = (
        "Samples in -1 to 1 are multiplied by the factor. Then the feature is computed with the listed options. All "
        "other options have Kaldi's defaults, except that there is no dithering. "
    )
    if any(getattr(option, "high_freq", 0.0) < 0 for option in options):
        paragraph += "A negative `high_freq` is relative to the Nyquist frequency. "
    if any(getattr(option, "allow_empty_bins", False) for option in options):
        paragraph += EMPTY_BINS
    paragraph += "The [steps](format.md#which-steps-are-there) are applied to the feature in the listed order. "
    different_rate = any(option.sample_frequency != 16000 for option in options)
    paragraph += "The sampling rate is 16 kHz" + " unless `sample_frequency` is listed" * different_rate + "."
    lines = [
        "## Settings",
        "",
        *textwrap.wrap(paragraph, 110, break_on_hyphens=False),
        "",
        "| preset | factor on the samples | feature and options | steps | shape of the model's input |",
        "| --- | --- | --- | --- | --- |",
    ]
    names_of_settings: dict[str, list[str]] = {}
    for preset in presets:
        values = [
            f"{field.name}={getattr(preset.options, field.name)!r}"
            for field in dataclasses.fields(preset.options)
            if getattr(preset.options, field.name) != field.default and field.name != "dither"
        ]
        mean = ", after the mean of the clip is subtracted" * preset.subtract_clip_mean
        steps = "<br>".join(f"`{step}`" for step in preset.steps) or "none"
        feature = f"{preset.feature}, `{', '.join(values)}`"
        is_stacked = any(step.kind in ("low_frame_rate", "stack_frames") for step in preset.steps)
        fixed = next((step.options.length for step in preset.steps if step.kind == "pad_frames"), 0)
        rows = fixed or ("stacks" if is_stacked else "frames")
        shape = f"({rows}, {count_columns(preset.options, preset.steps)})"
        settings = f"{preset.sample_scale:g}{mean} | {feature} | {steps} | {shape}"
        names_of_settings.setdefault(settings, []).append(f"`{preset.name}`")
    lines += [f"| {', '.join(names)} | {settings} |" for settings, names in names_of_settings.items()]
    lines += [
        "",
        "The settings come from the following code:",
        "",
        "| preset | models | source of the settings |",
        "| --- | --- | --- |",
    ]
    for preset in presets:
        source = preset.source
        version = f"commit {source.commit[:10]} of {source.date}" if source.date else source.commit
        url = f"{source.repository}/blob/{source.commit}/{source.file}"
        lines.append(f"| `{preset.name}` | {preset.title} | [{source.file}]({url}), {version} |")
    names: dict[str, list[str]] = {}
    for preset in presets:
        for note in preset.notes:
            names.setdefault(note, []).append(f"`{preset.name}`")
    notes = [f"- {', '.join(presets_of_note)}: {note}" for note, presets_of_note in names.items()]
    own = any("your own preset" in note for note in notes)
    heading = "Notes on the presets" + " ([how to write your own](index.md#your-own-presets))" * own + ":"
    return "\n".join([*lines, *(["", heading, "", *notes] if notes else []), ""])


def measure_differences(preset: Preset) -> tuple[float, float]:
    """Return the largest and the mean difference from the model's own code."""
    frontend, differences = Frontend(preset, statistics=statistics_for(preset)), []
    for clip, (shape, rows) in reference(preset.name).items():
        if shape[0]:
            features = frontend(clips()[clip])
            differences.append(np.abs(features[kept_rows(len(features))] - rows).ravel())
    values = np.concatenate(differences)
    return float(values.max()), float(values.mean())


def group_ill_conditioned(presets: list[Preset]) -> dict[str, list[str]]:
    """Return the presets for which a recording is left out, because the model's own code divides by about zero."""
    words = {"silence": "silence", "one-frame": "one frame"}
    return {
        words[clip]: names
        for clip in words
        if (names := [f"`{preset.name}`" for preset in presets if (reference_of(preset.name), clip) in ILL_CONDITIONED])
    }


def format_differences(presets: list[Preset]) -> str:
    """Return the section with the measured differences."""
    compared = {preset.name: sum(shape[0] > 0 for shape, _ in reference(preset.name).values()) for preset in presets}
    constant = [f"{clip}: {', '.join(names)}" for clip, names in group_ill_conditioned(presets).items()]
    paragraph = (
        "The table shows the largest and the mean absolute difference between the input that the preset computes and "
        "the input that the model's own code computes without dithering, in up to seven rows of each of ten "
        "recordings: speech, quiet speech, clipped speech, speech with a DC offset, speech that was resampled from "
        "8 kHz to 16 kHz, noise, silence, and recordings of 20 ms, of one frame and of 30 s. "
    )
    for preset in presets:
        if preset.sampling_rate != 16000:
            rate = f"{preset.sampling_rate / 1000:g} kHz"
            paragraph += f"For `{preset.name}`, the same samples are used as audio of {rate}. "
    if with_statistics := [f"`{preset.name}`" for preset in presets if preset.statistics]:
        names = "all presets of this page"
        if len(with_statistics) < len(presets):
            names = " and ".join(filter(None, [", ".join(with_statistics[:-1]), with_statistics[-1]]))
        paragraph += f"For {names}, this table and the next one use invented statistics instead of the model's file. "
    reasons = ["refuses it or computes no frames"] * (min(compared.values()) < len(clips()))
    reasons += [f"divides by zero or by rounding errors ({'; '.join(constant)})"] * bool(constant)
    if reasons:
        paragraph += f"A recording is left out if the model's own code {', or '.join(reasons)}."
    lines = [
        "## Differences from the models' own code",
        "",
        *textwrap.wrap(paragraph, 110, break_on_hyphens=False),
        "",
        "| preset | largest difference | mean difference |",
        "| --- | --- | --- |",
    ]
    names_of_differences: dict[str, list[str]] = {}
    for preset in presets:
        largest, mean = measure_differences(preset)
        numbers = f"{largest:.1e} | {mean:.1e}" if largest else "0 | 0"
        names_of_differences.setdefault(numbers, []).append(f"`{preset.name}`")
    lines += [f"| {', '.join(names)} | {numbers} |" for numbers, names in names_of_differences.items()]
    return "\n".join([*lines, ""])


def format_mistakes(presets: list[Preset]) -> str:
    """Return the section about the effects of common mistakes."""
    paragraph = (
        "The first row of the table shows the standard deviation of the model's input for one recording of speech. The "
        "other rows show the mean absolute change of the input when one setting is wrong. Only the first 158 rows of "
        "an input are compared, so that padding at the end does not count. "
    )
    rows: dict[str, list[str]] = {key: [] for key in ("deviation", *MISTAKES)}
    for preset in presets:
        statistics = statistics_for(preset)
        audio = clips()["speech"]
        right = Frontend(preset, statistics=statistics)(audio)[:158]
        rows["deviation"].append(f"{right.std():.2f}")
        variants = changed(preset)
        for key in MISTAKES:
            cell = "-"
            if key in variants:
                try:
                    wrong = Frontend(variants[key], statistics=statistics if variants[key].statistics else None)(audio)[
                        :158
                    ]
                    same = wrong.shape == right.shape
                    cell = f"{np.abs(wrong - right).mean():.2g}" if same else "shape"
                except FeatureError:
                    cell = "error"
            rows[key].append(cell)
    rows = {key: row for key, row in rows.items() if any(cell not in ("-", "0") for cell in row)}
    cells = {cell for row in rows.values() for cell in row}
    paragraph += " ".join(meaning for cell, meaning in SPECIAL_CELLS.items() if cell in cells)
    # Presets with the same cells share a column.
    names_of_columns: dict[tuple[str, ...], list[str]] = {}
    for preset, *column in zip(presets, *rows.values(), strict=True):
        names_of_columns.setdefault(tuple(column), []).append(f"`{preset.name}`")
    lines = [
        "## How much does a wrong setting matter?",
        "",
        *textwrap.wrap(paragraph, 110, break_on_hyphens=False),
        "",
        f"| wrong setting | {' | '.join(', '.join(names) for names in names_of_columns.values())} |",
        "| --- |" + " --- |" * len(names_of_columns),
    ]
    for index, key in enumerate(rows):
        text = MISTAKES.get(key, "none: standard deviation of the input")
        exception, applies_to = EXCEPTIONS.get(key, ("", bool))
        text += exception if any(applies_to(preset) for preset in presets) else ""
        lines.append(f"| {text} | {' | '.join(column[index] for column in names_of_columns)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Rewrite the pages."""
    warnings.simplefilter("ignore")
    same_dithering = functools.partial(np.random.default_rng, 0)
    for family, presets in group_by_family().items():
        page = PAGES / f"{family}.md"
        text = page.read_text().partition(MARK)[0]
        with mock.patch("numpy.random.default_rng", same_dithering):
            sections = (
                format_settings(presets),
                format_differences(presets),
                format_mistakes(presets),
            )
        page.write_text(f"{text}{MARK}\n" + "\n".join(sections))


if __name__ == "__main__":
    main()
