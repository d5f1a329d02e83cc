"""The command ``ark plot``: pictures of objects, in a file or in the terminal."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from io_ark.cli.describe import description, escape
from io_ark.cli.entries import Entry, allowed_access, find, table_of
from io_ark.cli.terminal import blocks, graphics_protocol, show_png
from io_ark.codecs.wave import Wave
from io_ark.errors import FormatError, SpecifierError
from io_ark.extras import import_extra
from io_ark.streams.access import Access
from io_ark.tables.overwriting import refuse_overwriting

DPI = 100
ROWS_OF_BLOCKS = 20


def plot(chosen: argparse.Namespace) -> int:
    """Draw objects of a table."""
    if not chosen.output and not sys.stdout.isatty():
        raise SpecifierError("standard output is not a terminal: add -o FILE.png", file=chosen.table)
    found = [_entry(chosen.table, key, allowed_access(chosen)) for key in chosen.keys]
    if chosen.output:
        refuse_overwriting(chosen.output, [table_of(chosen.table)])
        draw(found, chosen.output, chosen.frame_shift)
        print(f"{chosen.output}: a picture of {', '.join(chosen.keys)}", file=sys.stderr)
        return 0
    protocol = graphics_protocol()
    if protocol != "blocks":
        with tempfile.TemporaryDirectory() as folder:
            draw(found, f"{folder}/picture.png", chosen.frame_shift)
            show_png(Path(folder, "picture.png"), protocol)
        return 0
    width = shutil.get_terminal_size().columns
    for entry in found:
        print(f"{escape(entry.key)}: {description(entry.value)}")
        numbers = _numbers(entry)
        image = numbers.T[::-1] if numbers.ndim == 2 else _curve(numbers, width)
        print("\n".join(blocks(image, width, ROWS_OF_BLOCKS)))
        print(f"{numbers.min():.4g} (dark) to {numbers.max():.4g} (bright); frames to the right, columns upwards")
    return 0


def _entry(table: str, key: str, access: Access) -> Entry:
    entry = find(table, key, access)
    if entry.numbers is None or not entry.numbers.size or entry.numbers.ndim == 0:
        raise FormatError(f"a {description(entry.value)} cannot be drawn", file=table, key=key)
    return entry


def _numbers(entry: Entry) -> np.ndarray[Any, Any]:
    numbers = np.asarray(entry.numbers)
    return numbers[0] if isinstance(entry.value, Wave) else numbers


def _curve(values: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """Draw a curve into a matrix: for each column the range of the values that fall into it."""
    parts = np.array_split(values, min(width, len(values)))
    low, high = float(values.min()), float(values.max())
    levels = np.linspace(high, low, 2 * ROWS_OF_BLOCKS)[:, None]
    step = (high - low) / (2 * ROWS_OF_BLOCKS - 1) or 1.0
    tops, bottoms = (np.array([f(part) for part in parts]) for f in (np.max, np.min))
    return ((levels <= tops + step / 2) & (levels >= bottoms - step / 2)).astype(np.float64)


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
