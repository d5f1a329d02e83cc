"""Write files that appear complete or not at all, whatever interrupts the writing."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from io_ark.streams.unfinished import is_replaceable, put_in_place, temporary_name
from kaldi_compat.dump.errors import OutputError

CHUNK = 1 << 20


def in_bytes(name: str) -> bytes:
    """Encode a name as it stood in the file that it came from."""
    return name.encode("utf-8", "surrogateescape")


def make_directory(path: Path) -> None:
    """Create a directory and its parents unless they exist.

    Raises:
        OutputError: it cannot be created or is not writable.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be made a directory: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise OutputError(f"{path} is not writable for you")


def check_place(path: Path) -> None:
    """Raise :class:`OutputError` unless an archive can be renamed to this path, links followed.

    A link may lead to another disk, as ``utils/create_data_link.pl`` makes them: then the file there has the same name.
    """
    real = Path(os.path.realpath(path))
    if path.is_dir():
        raise OutputError(f"{path} is a directory: move it out of the way")
    if not is_replaceable(path):
        raise OutputError(f"{path} is not a regular file: move it out of the way")
    if path.is_symlink() and not real.parent.is_dir():
        raise OutputError(f"{path} is a link to {real}, but {real.parent} does not exist: make it, or delete the link")
    if path.is_symlink() and real.exists() and real.name != path.name:
        raise OutputError(f"{path} is a link to {real}, which would be replaced: delete the link, or move that file")


def check_writable(path: Path) -> None:
    """Raise :class:`OutputError` before the work, rather than after it, if a file cannot be written."""
    if path.exists() and not is_replaceable(path):
        if not os.access(path, os.W_OK):
            raise OutputError(f"{path} is not writable for you")
        return
    directory = Path(os.path.realpath(path)).parent
    if path.is_dir() or not directory.is_dir() or not os.access(directory, os.W_OK):
        raise OutputError(f"{path} cannot be written: is {directory} an existing directory, and writable for you?")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the operating system into an :class:`OutputError` that names the file."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


class WholeFile:
    """Writes a binary file in parts that gets its name when :meth:`finish` has all of it on the disk.

    Args:
        path: the file; see :func:`is_replaceable` for what it should not be.
        follow: if the file is a link, replace its target rather than the link.

    Attributes:
        temporary: its name until then.
        size, checksum: number of bytes, and their CRC-32.
    """

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self.path = path
        self.follow = follow
        self.size = self.checksum = 0
        self.temporary = temporary_name(path, follow=follow)
        with writing(path):
            self._file = open(self.temporary, "xb")  # noqa: SIM115  closed in close or abandon

    def write(self, data: bytes | memoryview) -> None:
        """Append to the file."""
        with writing(self.path):
            self._file.write(data)
        self.size += len(data)
        self.checksum = zlib.crc32(data, self.checksum)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size

    def flush(self) -> None:
        """Pass to the system what has been written."""
        with writing(self.path):
            self._file.flush()

    def close(self) -> None:
        """Write the rest to the disk; the file keeps its temporary name."""
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def finish(self) -> tuple[int, int]:
        """Give the file its name, closing it if necessary, and return its size and CRC-32."""
        if not self._file.closed:
            self.close()
        with writing(self.path):
            put_in_place(self.temporary, self.path, follow=self.follow)
        return self.size, self.checksum

    def abandon(self) -> None:
        """Delete what was written."""
        with contextlib.suppress(OSError):  # the content is not needed, so it does not matter if it got there
            self._file.close()
        self.temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path, *, follow: bool = False) -> Iterator[Any]:
    """Open a :class:`WholeFile` for this block; after an error nothing is left of it.

    What is not a regular file (see :func:`is_replaceable`) is written to in place.
    """
    if not is_replaceable(path):
        with writing(path), open(path, "wb") as file:
            yield file
        return
    whole = WholeFile(path, follow=follow)
    try:
        with writing(path):
            yield whole
            whole.finish()
    except BaseException:
        whole.abandon()
        raise


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def write_whole(path: Path, text: str, *, follow: bool = False) -> None:
    """Write a text file completely or not at all."""
    with whole_file(path, follow=follow) as file:
        file.write(in_bytes(text))


def write_sealed(path: Path, values: Iterable[Any]) -> None:
    """Write a JSON value per line, and in a last line the CRC-32 of all of them."""
    text = "".join(json.dumps(value) + "\n" for value in values)
    write_whole(path, text + _seal(text.encode()).decode() + "\n")


def read_sealed(path: Path) -> list[Any]:
    """Read what :func:`write_sealed` wrote.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    body, _, seal = path.read_bytes().removesuffix(b"\n").rpartition(b"\n")
    body += b"\n"
    if seal != _seal(body):
        raise ValueError("it is damaged")
    return [json.loads(line) for line in body.decode().splitlines()]


def _seal(body: bytes) -> bytes:
    return json.dumps({"crc32": zlib.crc32(body)}).encode()
