"""Run code in a new process, and check the memory that code takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)


def output_of(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a new process, check that it succeeds, and return its output."""
    done = python(code, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def memory_below(limit: float) -> Iterator[None]:
    """Check that the block never holds ``limit`` bytes or more of memory at the same time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
