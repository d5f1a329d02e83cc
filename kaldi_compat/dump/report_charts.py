"""Charts of the report as SVG and HTML: axes with units and ticks, in the page's colors, readable without color."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 68, 14, 10, 44
MIDDLE = 'text-anchor="middle"'
DASHES = ("", "7 4", "2 4")  # SVG dash patterns of the lines of a chart, which tell the lines apart without color.


def choose_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return up to ``count + 1`` round numbers from ``low`` to ``high`` for the ticks of an axis.

    Return [low] unless ``high - low`` is positive and finite.
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if span / (factor * power) <= count)
    # The tolerance of 1e-9 steps and the rounding to 12 digits hide errors of floating point.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _scale(values: Any, low: float, high: float, start: float, stop: float) -> Any:
    return start + (values - low) / ((high - low) or 1.0) * (stop - start)


def _draw_axes(content: str, x: tuple[float, float], y: tuple[float, float], names: tuple[str, str], label: str) -> str:
    """Return an SVG with axes of the ranges ``x`` and ``y``, and the SVG elements ``content`` inside of the axes.

    ``names`` are labels of the horizontal and the vertical axis. ``label`` describes the picture for screen readers.
    """
    parts = []
    for value in choose_ticks(*x, count=6):
        pixel = _scale(value, *x, LEFT, WIDTH - RIGHT)
        parts.append(
            f'<line class="grid" x1="{pixel:.1f}" x2="{pixel:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}"/>'
        )
        parts.append(f'<text x="{pixel:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{value:g}</text>')
    for value in choose_ticks(*y):
        pixel = _scale(value, *y, HEIGHT - BOTTOM, TOP)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{pixel:.1f}" y2="{pixel:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{pixel + 4:.1f}" text-anchor="end">{value:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}">{"".join(parts)}{content}'
        f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>'
        f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" {MIDDLE}>{html.escape(names[0])}</text>'
        f'<text class="name" transform="translate(14 {middle}) rotate(-90)" {MIDDLE}>{html.escape(names[1])}</text>'
        "</svg>"
    )


def draw_curve(x: Floats, lines: Sequence[tuple[str, Floats]], names: tuple[str, str]) -> str:
    """Return HTML with lines in different dash patterns, and a legend. The vertical axis starts at 0 or below.

    Args:
        x: positions (points,) of the values on the horizontal axis.
        lines: name and values (points,) of each line. The legend omits lines with the name "".
        names: labels of the horizontal and the vertical axis, with units.
    """
    low = min(0.0, *(float(line.min()) for _, line in lines))
    high = max(float(line.max()) for _, line in lines)
    x_range = float(x[0]), float(x[-1])
    x_pixels = _scale(x, *x_range, LEFT, WIDTH - RIGHT)
    parts = []
    for number, (_, line) in enumerate(lines):
        y_pixels = _scale(line, low, high, HEIGHT - BOTTOM, TOP)
        points = " ".join(f"{column:.1f},{row:.1f}" for column, row in zip(x_pixels, y_pixels, strict=True))
        dashes = DASHES[number % len(DASHES)]
        parts.append(f'<polyline class="line" points="{points}" stroke-dasharray="{dashes}"/>')
    legend = "".join(
        f'<span><svg class="key" viewBox="0 0 30 8"><line class="line" x1="0" x2="30" y1="4" y2="4" '
        f'stroke-dasharray="{DASHES[number % len(DASHES)]}"/></svg> {html.escape(name)}</span>'
        for number, (name, _) in enumerate(lines)
        if name
    )
    label = f"{names[1]} over {names[0]}, {low:.4g} to {high:.4g}"
    chart = _draw_axes("".join(parts), x_range, (low, high), names, label)
    return f'{chart}<p class="legend">{legend}</p>' if legend else chart


def draw_histogram(counts: Floats, edges: Floats, names: tuple[str, str]) -> str:
    """Return an SVG histogram of ``counts`` (bins,) with bin ``edges`` (bins + 1,). ``names`` label the axes."""
    x_range, highest = (float(edges[0]), float(edges[-1])), float(counts.max())
    x_pixels = _scale(edges, *x_range, LEFT, WIDTH - RIGHT)
    tops = _scale(counts, 0.0, highest, HEIGHT - BOTTOM, TOP)
    rectangles = "".join(
        f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{max(right - left - 1, 1):.1f}" '
        f'height="{HEIGHT - BOTTOM - top:.1f}"/>'
        for left, right, top in zip(x_pixels, x_pixels[1:], tops, strict=False)
    )
    label = f"{names[1]} by {names[0]}, {x_range[0]:.4g} to {x_range[1]:.4g}, at most {highest:g} in a bin"
    return _draw_axes(rectangles, x_range, (0.0, highest), names, label)


def draw_bars(rows: Sequence[tuple[str, float]], unit: str) -> str:
    """Return an HTML table of ``rows`` (name, value): each row shows the name, a bar, and the value with ``unit``."""
    largest = max((value for _, value in rows), default=0.0) or 1.0
    cells = ""
    for name, value in rows:
        number = f"{value:.1f}" if value >= 1 else f"{value:.3f}"
        bar = f'<div class="bar" style="width:{100 * value / largest:.1f}%"></div>'
        cells += f'<tr><td>{html.escape(name)}</td><td class="wide">{bar}</td>'
        cells += f'<td class="number">{number} {html.escape(unit)}</td></tr>'
    return f"<table>{cells}</table>"


def draw_features(values: Floats, frame_shift: float, column_label: str, title: str) -> str:
    """Return an SVG of ``values`` (frames, dim) with axes. Small and nonfinite values are dark, large values are light.

    Args:
        frame_shift: time between the starts of consecutive frames in seconds. For 0, the horizontal axis counts frames.
        column_label: label of the vertical axis.
        title: description of the picture for screen readers.
    """
    finite = np.isfinite(values)
    lowest, highest = (float(values[finite].min()), float(values[finite].max())) if finite.any() else (0.0, 0.0)
    scaled_values = (np.where(finite, values, lowest) - lowest) / ((highest - lowest) or 1.0)
    data = base64.b64encode(encode_png((scaled_values.T[::-1] * 255).astype(np.uint8))).decode()
    picture = (
        f'<image href="data:image/png;base64,{data}" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{HEIGHT - TOP - BOTTOM}" preserveAspectRatio="none" style="image-rendering: pixelated"/>'
    )
    time_axis = "time in seconds" if frame_shift else "frame"
    names = (f"{time_axis} (dark: {lowest:.4g}, light: {highest:.4g})", column_label)
    return _draw_axes(picture, (0.0, len(values) * (frame_shift or 1.0)), (0.0, float(values.shape[1])), names, title)


def encode_png(levels: npt.NDArray[np.uint8]) -> bytes:
    """Encode 8-bit gray levels (rows, columns) as a PNG file."""
    rows, columns = levels.shape
    scanlines = np.zeros((rows, columns + 1), np.uint8)  # A scanline begins with a filter number: 0 for no filter.
    scanlines[:, 1:] = levels

    def make_chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    # 8 bits per pixel, color type 0 (gray), the only methods of compression and filtering, and no interlacing.
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    pixels = zlib.compress(scanlines.tobytes(), level=1)  # Higher levels hardly compress noise better.
    chunks = make_chunk(b"IHDR", header) + make_chunk(b"IDAT", pixels) + make_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
