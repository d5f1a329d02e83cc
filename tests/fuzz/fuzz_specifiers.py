"""Fuzzing of specifiers, file names and script files: ``python tests/fuzz/fuzz_specifiers.py -max_total_time=600``.

The first byte of an input chooses what the rest is. A failure is any exception but an :class:`io_ark.ArkError`, or a
script whose keys cannot be looked up. No file is touched and no command run. Needs atheris.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["io_ark"]):
    from io_ark import specifier
    from io_ark.data_dir import parse_segment
    from io_ark.errors import ArkError
    from io_ark.tables.script import Script

TEXTS: tuple[Callable[[str], object], ...] = (
    specifier.parse_rspecifier,
    specifier.parse_wspecifier,
    specifier.parse_rxfilename,
    specifier.parse_wxfilename,
    specifier.split_range,
    parse_segment,
)


def look_up_all(data: bytes) -> None:
    """Find each key of a script file, in its own line and in the index."""
    script = Script(data)
    script.check_unique()
    for key, rest in script.iterate_lines():
        if script[key] != rest:
            raise AssertionError(f"{key!r} is looked up as {script[key]!r}, and its line says {rest!r}")


def test_one_input(data: bytes) -> None:
    if not data:
        return
    choice, body = data[0] % (len(TEXTS) + 1), data[1:]
    try:
        if choice == len(TEXTS):
            look_up_all(body)
        else:
            TEXTS[choice](body.decode("utf-8", "surrogateescape"))
    except ArkError as error:
        if not str(error):
            raise AssertionError("an error that says nothing") from error


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
