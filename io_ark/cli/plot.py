"""The command ``ark plot``: pictures of objects."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from io_ark.cli.describe import description
from io_ark.cli.entries import Entry, allowed_access, find, table_of
from io_ark.codecs.wave import Wave
from io_ark.errors import FormatError, SpecifierError
from io_ark.extras import import_extra
from io_ark.streams.access import Access
from io_ark.tables.overwriting import refuse_overwriting

DPI = 100


def plot(chosen: argparse.Namespace) -> int:
    """Draw objects of a table into a file."""
    found = [_entry(chosen.table, key, allowed_access(chosen)) for key in chosen.keys]
    refuse_overwriting(chosen.output, [table_of(chosen.table)])
    draw(found, chosen.output, chosen.frame_shift)
    print(f"{chosen.output}: a picture of {', '.join(chosen.keys)}", file=sys.stderr)
    return 0


def _entry(table: str, key: str, access: Access) -> Entry:
    entry = find(table, key, access)
    if entry.numbers is None or not entry.numbers.size or entry.numbers.ndim == 0:
        raise FormatError(f"a {description(entry.value)} cannot be drawn", file=table, key=key)
    return entry


def draw(found: list[Entry], path: str, frame_shift: float = 0.0) -> None:
    """Draw objects below each other into a picture file, whose type follows from its name.

    Args:
        found: the entries: matrices become images, vectors curves and audio a waveform.
        path: the file: PNG, PDF, SVG ...
        frame_shift: milliseconds from frame to frame, for an axis in seconds; 0 counts frames.

    Raises:
        MissingExtraError: matplotlib is not installed.
        SpecifierError: the type of the file is unknown.
    """
    import_extra("matplotlib", "ark plot").use("Agg")
    pyplot = import_extra("matplotlib.pyplot", "ark plot")
    figure, axes = pyplot.subplots(
        len(found), 1, figsize=(10, 0.8 + 2.6 * len(found)), squeeze=False, layout="constrained"
    )
    for drawn, entry in zip(axes[:, 0], found, strict=True):
        _draw_entry(drawn, entry, frame_shift / 1000)
    try:
        figure.savefig(path, dpi=DPI)
    except ValueError as error:
        raise SpecifierError(str(error).partition("(")[0].strip(), file=path) from None
    finally:
        pyplot.close(figure)


def _draw_entry(axes: Any, entry: Entry, shift: float) -> None:
    axes.set_title(f"{entry.key}: {description(entry.value)}", fontsize="medium")
    numbers = np.asarray(entry.numbers)
    if isinstance(entry.value, Wave):
        rate = entry.value.sample_frequency
        for channel, samples in enumerate(numbers):
            axes.plot(np.arange(len(samples)) / rate, samples, linewidth=0.5, label=f"channel {channel}")
        axes.set_xlabel("time in seconds")
        axes.set_ylabel("sample")
        axes.margins(x=0)
        if len(numbers) > 1:
            axes.legend(loc="upper right")
        return
    step = shift or 1.0
    axes.set_xlabel("time in seconds" if shift else "frame" if numbers.ndim == 2 else "element")
    if numbers.ndim == 1:
        axes.plot(np.arange(len(numbers)) * step, numbers)
        axes.set_ylabel("value")
        axes.margins(x=0)
        return
    image = axes.imshow(
        np.ma.masked_invalid(numbers.T),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(-step / 2, (len(numbers) - 0.5) * step, -0.5, numbers.shape[1] - 0.5),
        cmap=import_extra("matplotlib").colormaps["viridis"].with_extremes(bad="red"),
    )
    axes.set_ylabel("column")
    axes.figure.colorbar(image, ax=axes, label="value")
