"""Output of ``ark`` on a terminal: colors, paging and progress."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

Item = TypeVar("Item")

PROGRESS_SECONDS = 5.0  # Minimum seconds between two lines of progress.
COLORS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "faint": "2"}


def color_text(text: str, *names: str) -> str:
    """Add escape codes for ``names`` of :data:`COLORS` to a string if standard output is a terminal or the pager.

    The string is unchanged if the environment variable NO_COLOR is set, or if TERM is "dumb".
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not (_is_terminal(sys.stdout) or _PAGING):
        return text
    return f"\x1b[{';'.join(COLORS[name] for name in names)}m{text}\x1b[0m"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # The stream is None or closed.
        return False


_PAGING: list[bool] = []  # The list has an element while standard output goes to a pager.


@contextlib.contextmanager
def page_output(is_enabled: bool) -> Iterator[None]:
    """Send standard output through a pager ($PAGER, or ``less``) if ``is_enabled`` is true.

    Do nothing if standard input or output is not a terminal, $PAGER is empty, or the pager cannot be started. If the
    user leaves the pager early, the ``with`` statement ends without an error.
    """
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not (is_enabled and command and _is_terminal(sys.stdout) and _is_terminal(sys.stdin)):
        yield
        return
    environment = {"LESS": "FRX", **os.environ}  # `less` exits if the output fits on the screen, and shows colors.
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, errors="surrogateescape")
    except OSError:
        yield
        return
    terminal, sys.stdout = sys.stdout, pager.stdin
    _PAGING.append(True)
    try:
        yield
    except BrokenPipeError:
        pass  # The user has left the pager.
    finally:
        _PAGING.pop()
        sys.stdout = terminal
        with contextlib.suppress(BrokenPipeError):
            pager.stdin.close()  # type: ignore[union-attr]
        pager.wait()


def show_progress(items: Iterable[Item], label: str) -> Iterator[Item]:
    """Yield ``items``, and show on standard error how many were yielded.

    The progress is shown as a bar on a terminal if tqdm is installed, otherwise as a line every 5 seconds.
    """
    if _is_terminal(sys.stderr):
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            pass
        else:
            yield from tqdm(items, desc=label, unit=" entries", delay=1.0, leave=False)
            return
    print_time = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if time.monotonic() - print_time >= PROGRESS_SECONDS:
            print_time = time.monotonic()
            print(f"{label}: {count} entries ...", file=sys.stderr)
