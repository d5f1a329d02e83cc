"""Fuzzing of all codecs led by coverage: ``python tests/fuzz/fuzz_codecs.py -max_total_time=600 [CORPUS]``.

The first byte of an input chooses the kind (or that it is to be guessed) and where the bytes come from; the rest is
what is read. A failure is any exception but an :class:`io_ark.ArkError`, or memory beyond a small multiple of the
input. The valid objects of the tests are the corpus to start from. Needs atheris.
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
with atheris.instrument_imports(include=["io_ark"]):
    from codec_samples import samples

    from io_ark.codecs import KINDS, codec, guess
    from io_ark.errors import ArkError
    from io_ark.source import BytesSource, Source, StreamSource

BYTES_FOR_A_BYTE = 200
BYTES_FOR_ALL = 4 << 20


def read_all(source: Source, kind: str | None) -> None:
    """Read objects until nothing is left or something is wrong."""
    while not source.at_end():
        before = source.tell()
        guess(source) if kind is None else codec(kind).read(source)
        if source.tell() == before:
            return


def test_one_input(data: bytes) -> None:
    if not data:
        return
    choice, body = data[0], data[1:]
    kinds = (None, *KINDS)
    kind = kinds[choice // 2 % len(kinds)]
    source = StreamSource(io.BytesIO(body)) if choice % 2 else BytesSource(body)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        read_all(source, kind)
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
            for stream in 0, 1:
                first = bytes([2 * (1 + KINDS.index(kind)) + stream])
                (Path(folder) / f"{i}-{stream}").write_bytes(first + data)
        atheris.Setup([*sys.argv, folder], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
