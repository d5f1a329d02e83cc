"""The command ``ark convert``: to and from files of other programs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.cli.describe import counted, describe_kind, print_json
from io_ark.cli.entries import allowed, entries, table_of
from io_ark.cli.formats import Put, Settings, format_of
from io_ark.cli.terminal import progress
from io_ark.errors import ArkError, FormatError

__all__ = ["convert"]


def convert(chosen: argparse.Namespace) -> int:
    """Convert a table; the status is 1 if some entries could not be read or are not arrays."""
    source = format_of(chosen.source, "" if chosen.source_format == "ark" else chosen.source_format)
    target = format_of(chosen.target, "" if chosen.target_format == "ark" else chosen.target_format)
    is_table = chosen.source_format == "ark" or source is None
    if is_table:
        found = _of_table(chosen)
    else:
        assert source is not None
        if not Path(chosen.source).exists():
            raise FileNotFoundError(f"{chosen.source}: no such file")
        found = source.read(Path(chosen.source))
    settings = Settings(chosen.frame_shift / 1000, chosen.sample_frequency)
    done = failed = 0
    opened: Any
    if chosen.target_format == "ark" or target is None:
        opened = _to_table(chosen)
    else:
        opened = target.write(Path(chosen.target), settings)
    with opened as put:
        for key, value in progress(found, chosen.source):
            try:
                if not isinstance(value, np.ndarray):
                    raise (
                        value
                        if isinstance(value, ArkError)
                        else FormatError(
                            f"{describe_kind(value)}: only arrays are converted", file=chosen.source, key=key
                        )
                    )
                put(key, value)
                done += 1
            except FormatError as error:
                failed += 1
                print(f"ark: {error}", file=sys.stderr)
    if chosen.json:
        print_json({"source": chosen.source, "target": chosen.target, "converted": done, "failed": failed})
    else:
        print(f"{chosen.target}: {counted(done, 'entry', 'entries')}, {failed} failed", file=sys.stderr)
    return int(failed > 0)


def _of_table(chosen: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    for entry in entries(table_of(chosen.source), **allowed(chosen)):
        value = entry.error if entry.error is not None else entry.value
        numbers = None if hasattr(value, "duration") else entry.numbers
        yield entry.key, value if entry.error is not None or numbers is None else numbers


@contextlib.contextmanager
def _to_table(chosen: argparse.Namespace) -> Iterator[Put]:
    name = chosen.target
    if not io_ark.is_table_wspecifier(name):
        name = f"ark,scp:{name.removesuffix('.scp')}.ark,{name}" if name.endswith(".scp") else f"ark:{name}"
    options: dict[str, Any] = {"compress": "speech"} if chosen.compress else {}
    with io_ark.writer(name, **options) as writer:
        yield writer.__setitem__
