"""What a test holds open: the threads and the files of this process."""

import os
import threading
import time


def list_open_files() -> set[int]:
    """Return the open files of this process, without the one that reads the list."""
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def list_resources() -> set[object]:
    """Return the threads and the open files of this process."""
    return {*threading.enumerate(), *list_open_files()}


def wait_for_release(before: set[object], seconds: float = 10) -> set[object]:
    """Wait until there is nothing beside what there was before, and return what is left.

    What an earlier test left behind may go in the meantime, so fewer are as good as equally many.
    """
    end = time.monotonic() + seconds
    while (left := list_resources() - before) and time.monotonic() < end:
        time.sleep(0.01)
    return left
