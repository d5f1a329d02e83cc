"""Command line, clocks and rounds that the benchmarks share."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Work = Callable[[], object]


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's command line, which has ``--record``; ``text`` is its docstring."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="store the figures for the pages")
    return parser


def core_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def private_memory() -> int:
    """Return the bytes of memory of this process that are not mapped files."""
    status = Path("/proc/self/status").read_text()
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon")), 0)


def least_times(
    works: Mapping[str, Work],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
    written: Callable[[], Iterable[Path]] = tuple,
) -> dict[str, float]:
    """Return the least seconds of each work over rounds in which they take turns.

    A work does not find a file of another's, of those that ``written`` lists: truncating it would take time, more or
    less by how it was written.
    """
    least = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            for path in list(written()):
                path.unlink()
            start = clock()
            work()
            least[name] = min(least[name], clock() - start)
    return least
