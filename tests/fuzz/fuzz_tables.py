"""Fuzzing of whole tables led by coverage: ``python tests/fuzz/fuzz_tables.py -max_total_time=600 [CORPUS]``.

The first byte of an input chooses the kind of the objects, the second how many bytes a stream gives at a time; the rest
is an archive. It is read in every way there is (see tests/support/reading_ways.py), with the C library where there is
one. A failure is a way that differs from reading entry by entry without the library, any exception but an
:class:`io_ark.ArkError`, or memory beyond a small multiple of the input. Needs atheris; see README.md.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
with atheris.instrument_imports(include=["io_ark"]):
    from io_ark.codecs import KINDS
    from tests.support.codec_samples import VALUES as OBJECTS
    from tests.support.codec_samples import samples
    from tests.support.codec_tools import to_bytes
    from tests.support.reading_ways import by_lookup, expected, sequential_ways, without_offset
    from tests.support.table_samples import VALUES, archive

BYTES_FOR_A_BYTE = 100
BYTES_FOR_ALL = 8 << 20  # the buffers of scanners and streams
FOLDER = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def compare(kind: str, step: int, data: bytes) -> None:
    """Read an archive in every way and compare the outcomes."""
    want = expected(data, kind)
    for name, way in sequential_ways(step).items():
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        found = way(data, kind, FOLDER)
        taken = tracemalloc.get_traced_memory()[1] - before
        stream = name.startswith("stream")
        if (without_offset(found), stream or found) != (without_offset(want), stream or want):
            raise AssertionError(f"{kind}, {name}: {found} instead of {want}")
        if taken > BYTES_FOR_ALL + BYTES_FOR_A_BYTE * len(data):
            raise AssertionError(f"{kind}, {name}: {taken} bytes of memory for {len(data)} of input")
    good = to_bytes(kind, OBJECTS[kind][0]) if kind in OBJECTS else b""
    looked_up, should_be = by_lookup(good, data, kind, FOLDER)
    if looked_up != should_be:
        raise AssertionError(f"{kind}, looked up: {looked_up} instead of {should_be}")


def test_one_input(data: bytes) -> None:
    if len(data) >= 2:
        compare(KINDS[data[0] % len(KINDS)], 1 + 37 * data[1], data[2:])


def main() -> None:
    logging.getLogger("io_ark").addHandler(logging.NullHandler())
    warnings.simplefilter("error")
    tracemalloc.start()
    seeds = [(kind, b"key " + data) for kind, data in samples()]
    seeds += [(kind, archive(kind, binary)[:2000]) for kind in VALUES for binary in (True, False)]
    with tempfile.TemporaryDirectory() as folder:
        for i, (kind, data) in enumerate(seeds):
            (Path(folder) / str(i)).write_bytes(bytes([KINDS.index(kind), i % 256]) + data)
        atheris.Setup([*sys.argv, folder], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
