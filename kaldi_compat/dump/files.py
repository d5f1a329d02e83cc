"""Write files that appear complete or not at all, whatever interrupts the writing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kaldi_compat.dump.errors import OutputError

TEMPORARY = ".unfinished-"
CHUNK = 1 << 20
# Start of the names of files that are open in a process. Under /dev lies /dev/shm, too, a place for files like others.
DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/")
# A temporary file of another machine is taken for abandoned after this time without a write.
SECONDS_UNTIL_ABANDONED = 24 * 3600.0


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


def is_replaceable(path: Path) -> bool:
    """Return True unless the path, links followed, is a device, FIFO, socket or file descriptor of a process.

    A rename would put a regular file in the place of those; they are written to instead.
    """
    if str(path).startswith(DESCRIPTORS):  # which may lead to a regular file that is open already
        return False
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def check_place(path: Path) -> None:
    """Raise :class:`OutputError` unless a file can be renamed to this path."""
    real = Path(os.path.realpath(path))
    if path.is_dir():
        raise OutputError(f"{path} is a directory: move it out of the way")
    if not is_replaceable(path):
        raise OutputError(f"{path} is not a regular file: move it out of the way")
    if path.is_symlink() and not real.parent.is_dir():
        raise OutputError(f"{path} is a link to {real}, but {real.parent} does not exist: make it, or delete the link")


def check_writable(path: Path) -> None:
    """Raise :class:`OutputError` before the work, rather than after it, if a file cannot be written."""
    if path.exists() and not is_replaceable(path):
        if not os.access(path, os.W_OK):
            raise OutputError(f"{path} is not writable for you")
        return
    directory = Path(os.path.realpath(path)).parent
    if path.is_dir() or not directory.is_dir() or not os.access(directory, os.W_OK):
        raise OutputError(f"{path} cannot be written: is {directory} an existing directory, and writable for you?")


def temporary_name(path: Path) -> Path:
    """Return a name next to ``path`` that only this process uses; links are followed, so that a rename is possible."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{TEMPORARY}{_machine()}-{os.getpid()}-{secrets.token_hex(4)}")


def _machine() -> str:
    """Return an identifier of the machine and, in containers, of the set of processes seen there."""
    processes = 0
    with contextlib.suppress(OSError):
        processes = os.stat("/proc/self/ns/pid").st_ino
    return hashlib.blake2b(f"{socket.gethostname()} {processes}".encode(), digest_size=4).hexdigest()


def remove_unfinished(path: Path, *, own: bool = False) -> None:
    """Remove the temporary files that processes which no longer run left of this file; with ``own`` this one's too."""
    real = Path(os.path.realpath(path))
    clear_directory(real.parent, real.name + TEMPORARY, own=own)


def clear_directory(directory: Path, start: str = "", *, own: bool = False) -> None:
    """Remove such temporary files of all files in a directory whose names start so."""
    if not directory.is_dir():
        return
    for left in directory.iterdir():
        if left.name.startswith(start) and TEMPORARY in left.name and _is_abandoned(left, own):
            left.unlink(missing_ok=True)


def _is_abandoned(temporary: Path, own: bool) -> bool:
    machine, _, rest = temporary.name.rpartition(TEMPORARY)[2].partition("-")
    pid = rest.partition("-")[0]
    if machine == _machine() and pid.isdecimal():
        return own if int(pid) == os.getpid() else not _is_running(int(pid))
    try:
        return time.time() - temporary.stat().st_mtime > SECONDS_UNTIL_ABANDONED
    except OSError:
        return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    with contextlib.suppress(OSError, IndexError):  # a zombie has ended
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    return True


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a complete temporary file such that after a crash of the machine the old or the new file is there."""
    real = os.path.realpath(path)
    os.replace(temporary, real)
    directory = os.open(os.path.dirname(real), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


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

    Attributes:
        temporary: its name until then.
        size, checksum: number of bytes, and their CRC-32.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = self.checksum = 0
        self.temporary = temporary_name(path)
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
            put_in_place(self.temporary, self.path)
        return self.size, self.checksum

    def abandon(self) -> None:
        """Delete what was written."""
        with contextlib.suppress(OSError):  # the content is not needed, so it does not matter if it got there
            self._file.close()
        self.temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Any]:
    """Open a :class:`WholeFile` for this block; after an error nothing is left of it.

    What is not a regular file (see :func:`is_replaceable`) is written to in place.
    """
    if not is_replaceable(path):
        with writing(path), open(path, "wb") as file:
            yield file
        return
    whole = WholeFile(path)
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


def write_whole(path: Path, text: str) -> None:
    """Write a text file completely or not at all."""
    with whole_file(path) as file:
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
