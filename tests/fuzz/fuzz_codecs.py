"""Fuzzing of all codecs led by coverage: ``python tests/fuzz/fuzz_codecs.py -max_total_time=600 [CORPUS]``.

The first byte of an input chooses the kind (or that it is to be guessed) and how it is read: from memory, from a
stream, or a part of it; the rest is what is read. A failure is any exception but an :class:`io_ark.ArkError`, or memory
beyond a small multiple of the input. The valid objects of the tests are the corpus to start from. Needs atheris.
"""

from __future__ import annotations

import io
import logging
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
with atheris.instrument_imports(include=["io_ark"]):
    from io_ark.codecs import KINDS, AnyCodec, codec, read_any
    from io_ark.errors import ArkError
    from io_ark.specifier import parse_range
    from io_ark.streams.source import BytesSource, Source, StreamSource
    from tests.support.codec_samples import samples

BYTES_FOR_A_BYTE = 200
BYTES_FOR_ALL = 4 << 20
WAYS = 4
PARTS = {2: parse_range("0:0,0:0"), 3: parse_range("0:0")}


def read_all(source: Source, kind: str | None) -> None:
    """Read objects until nothing is left or something is wrong."""
    while not source.at_end():
        before = source.tell()
        read_any(source) if kind is None else codec(kind).read(source)
        if source.tell() == before:
            return


def test_one_input(data: bytes) -> None:
    if not data:
        return
    choice, body = data[0], data[1:]
    kinds = (None, *KINDS)
    kind = kinds[choice // WAYS % len(kinds)]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        way = choice % WAYS
        if way not in PARTS:
            read_all(StreamSource(io.BytesIO(body)) if way else BytesSource(body), kind)
        elif (kind, way) != ("general-matrix", 3):  # whose rows are made full, however wide a sparse one says it is
            (AnyCodec() if kind is None else codec(kind)).read_part(BytesSource(body), PARTS[way])
    except ArkError as error:
        if not str(error):
            raise AssertionError("an error that says nothing") from error
    taken = tracemalloc.get_traced_memory()[1] - before
    if taken > BYTES_FOR_ALL + BYTES_FOR_A_BYTE * len(body):
        raise AssertionError(f"{taken} bytes of memory for {len(body)} of input")


def main() -> None:
    logging.getLogger("io_ark").addHandler(logging.NullHandler())
    warnings.simplefilter("error")
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder:
        for i, (kind, data) in enumerate(samples()):
            for way in range(WAYS):
                first = bytes([WAYS * (1 + KINDS.index(kind)) + way])
                (Path(folder) / f"{i}-{way}").write_bytes(first + data)
        atheris.Setup([*sys.argv, folder], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
