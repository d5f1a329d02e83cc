"""Code in a process of its own, and code whose memory is limited."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)


def output_of(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a process of its own, check that it succeeds, and return its output."""
    done = python(code, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def memory_below(limit: float) -> Iterator[None]:
    """Check that code takes at most this number of bytes at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
