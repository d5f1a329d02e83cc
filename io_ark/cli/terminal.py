"""Output of ``ark`` on a terminal: colours, paging, progress and pictures."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")
Levels = npt.NDArray[Any]

PROGRESS_SECONDS = 5.0
COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "faint": "2"}
# Dark blue to green to yellow, evenly spaced in lightness (the ends and middles of matplotlib's viridis).
PALETTE = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float64)
BAR = "▏▎▍▌▋▊▉█"
KITTY_CHUNK = 4096


def has_colours(stream: Any = None) -> bool:
    """Return True if a stream (standard output by default) is a terminal with colours, and NO_COLOR is not set."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return _is_terminal(stream) or bool(_PAGING)


def colour_text(text: str, *names: str) -> str:
    """Return a text with colours if standard output shows them.

    >>> colour_text("utt1", "red")  # a test has no terminal
    'utt1'
    """
    if not has_colours():
        return text
    return f"\x1b[{';'.join(COLOURS[name] for name in names)}m{text}\x1b[0m"


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


_PAGING: list[bool] = []  # not empty while standard output is a pager


@contextlib.contextmanager
def page_output(wanted: bool) -> Iterator[None]:
    """Send standard output through a pager ($PAGER, or less) if it is a terminal and ``wanted``."""
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not (wanted and command and _is_terminal(sys.stdout) and _is_terminal(sys.stdin)):
        yield
        return
    environment = {"LESS": "FRX", **os.environ}  # end at once if it fits on the screen; keep colours
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True, errors="surrogateescape")
    except OSError:
        yield
        return
    terminal, sys.stdout = sys.stdout, pager.stdin
    _PAGING.append(True)
    try:
        yield
    except BrokenPipeError:
        pass  # the user has left the pager
    finally:
        _PAGING.pop()
        sys.stdout = terminal
        with contextlib.suppress(BrokenPipeError):
            pager.stdin.close()  # type: ignore[union-attr]
        pager.wait()


def progress(items: Iterable[Item], label: str) -> Iterator[Item]:
    """Yield the items and show progress on standard error: a tqdm bar on a terminal, else a line every few seconds."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            pass
        else:
            yield from tqdm(items, desc=label, unit=" entries", delay=1.0, leave=False)
            return
    printed = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if time.monotonic() - printed >= PROGRESS_SECONDS:
            printed = time.monotonic()
            print(f"{label}: {count} entries ...", file=sys.stderr)


def bars(counts: Iterable[int], width: int = 40) -> list[str]:
    """Return a bar of block characters for each count, in eighths of a character.

    >>> bars([0, 1, 2], width=2)
    ['', '█', '██']
    """
    values = np.array(list(counts), np.float64)
    eighths = np.ceil(values / max(values.max(initial=0), 1) * width * 8).astype(int)
    return ["█" * (count // 8) + (BAR[count % 8 - 1] if count % 8 else "") for count in eighths.tolist()]


def graphics_protocol() -> str:
    """Return the protocol by which this terminal shows pictures: "kitty", "iterm", or "blocks" for characters."""
    term, program = os.environ.get("TERM", ""), os.environ.get("TERM_PROGRAM", "")
    if "kitty" in term or "ghostty" in term or os.environ.get("KITTY_WINDOW_ID"):
        return "kitty"
    return "iterm" if program in ("iTerm.app", "WezTerm", "mintty") else "blocks"


def show_png(path: Path, protocol: str) -> None:
    """Write a PNG file to the terminal by a graphics protocol, "kitty" or "iterm"."""
    data = base64.standard_b64encode(path.read_bytes()).decode()
    if protocol == "iterm":
        sys.stdout.write(f"\x1b]1337;File=inline=1;size={path.stat().st_size}:{data}\a\n")
        return
    for start in range(0, len(data), KITTY_CHUNK):
        first = "a=T,f=100," if start == 0 else ""
        more = int(start + KITTY_CHUNK < len(data))
        sys.stdout.write(f"\x1b_G{first}m={more};{data[start : start + KITTY_CHUNK]}\x1b\\")
    sys.stdout.write("\n")


def blocks(values: Levels, columns: int, rows: int) -> list[str]:
    """Draw a matrix in lines of half blocks, two of its rows in each line; without colours, in shades.

    Args:
        values: (height, width), the first row at the top; values that are not finite are drawn like the smallest.
        columns: largest number of characters in a line.
        rows: largest number of lines.
    """
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 1.0)
    levels = (np.where(finite, values, low) - low) / ((high - low) or 1.0)
    small = _shrink_levels(levels, min(2 * rows, 2 * ((len(levels) + 1) // 2)), min(columns, levels.shape[1]))
    if not has_colours():
        shades = " .:-=+*#%@"
        return [
            "".join(shades[int(level * 9.999)] for level in row)
            for row in _shrink_levels(small, (len(small) + 1) // 2, 0)
        ]
    colours = np.stack([np.interp(small * 4, range(5), PALETTE[:, i]) for i in range(3)], axis=-1).astype(int)
    lines = []
    for top, bottom in zip(colours[::2], colours[1::2], strict=False):
        cells = (
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m▀" for a, b in zip(top, bottom, strict=True)
        )
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def _shrink_levels(levels: Levels, height: int, width: int) -> Levels:
    """Average a matrix down to a height and a width (0 keeps the width); a smaller one is repeated to the height."""
    for axis, size in ((0, height), (1, width or levels.shape[1])):
        edges = np.linspace(0, levels.shape[axis], size + 1)
        starts = np.minimum(edges[:-1].astype(int), levels.shape[axis] - 1)
        counts = np.diff(np.append(starts, levels.shape[axis])).clip(1)
        if size < levels.shape[axis]:
            shape = [1, 1]
            shape[axis] = -1
            levels = np.add.reduceat(levels, starts, axis=axis) / counts.reshape(shape)
        else:
            levels = np.take(levels, starts, axis=axis)
    return levels
