"""Read the text files of a data directory as bytes: in chunks of whole lines, or line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BufferedReader

from io_ark.streams.system import BlockingInput

CHUNK_BYTES = 1 << 20  # Size of a chunk. Splitting its lines takes much longer than reading and passing it on.


def read_chunks(file: str | int) -> Iterator[bytes]:
    """Yield the bytes of a file (path or descriptor) in chunks of whole lines. The last line may lack its newline."""
    with BufferedReader(BlockingInput(file, closefd=isinstance(file, str))) as reader:
        while chunk := reader.read(CHUNK_BYTES):
            yield chunk if chunk.endswith(b"\n") else chunk + reader.readline()


def read_lines(file: str | int) -> Iterator[bytes]:
    """Yield the lines of a file (path or descriptor). Lines keep their newlines."""
    for chunk in read_chunks(file):
        yield from split_lines(chunk)


def split_lines(chunk: bytes) -> list[bytes]:
    """Split a chunk at newlines only. Lines keep their newlines."""
    if b"\r" not in chunk:
        return chunk.splitlines(keepends=True)
    lines = [line + b"\n" for line in chunk.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def number_chunks(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each chunk as a pair ``(number of lines before the chunk, chunk)``."""
    lines_before = 0
    for chunk in chunks:
        yield lines_before, chunk
        lines_before += count_lines(chunk)


def count_lines(chunk: bytes) -> int:
    """Return the number of lines of a chunk, which must not be empty. A last line without a newline counts."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))
