"""Command line, clocks and rounds that the benchmarks share."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Work = Callable[[], object]


def make_parser(text: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's command line with the option ``--record``. ``text`` is the help text."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="store the figures for the pages")
    return parser


def measure_core_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def measure_private_memory() -> int:
    """Return the memory of this process in bytes, without mapped files."""
    status = Path("/proc/self/status").read_text()
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon")), 0)


def measure_least_times(
    works: Mapping[str, Work],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
    written: Callable[[], Iterable[Path]] = tuple,
) -> dict[str, float]:
    """Return the shortest time of each work in seconds. In every round, all works run in turn.

    The files that ``written`` lists are deleted before every run, because the time for truncating a file depends on how
    another work has written the file.
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
