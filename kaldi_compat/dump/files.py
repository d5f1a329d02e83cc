"""Write files that appear complete or not at all, even if the writing is interrupted. Lock a dump."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from io_ark.streams.unfinished import choose_temporary_name, is_replaceable, put_in_place
from kaldi_compat.dump.errors import DumpError, OutputError

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no fcntl.
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

logger = logging.getLogger(__name__)

CHUNK = 1 << 20  # Number of bytes that are read at once.
# Time that a part of a job waits for the plan of another part. Planning ten million utterances takes a few seconds.
SECONDS_TO_WAIT = 300.0
SECONDS_BETWEEN_TRIES = 0.1
_FULL = (errno.ENOSPC, errno.EDQUOT)  # The disk is full, or the quota of the user is exceeded.


def encode_name(name: str) -> bytes:
    """Encode a name or a text as UTF-8. Surrogate escapes become the bytes from which they were decoded."""
    return name.encode("utf-8", "surrogateescape")


# Device, inode, size in bytes, and time of the last change in nanoseconds, of a file. The stamp changes if the file is
# changed or replaced.
Stamp = tuple[int, int, int, int]


def get_stamp(path: Path) -> Stamp | None:
    """Return the :data:`Stamp` of a file, or of the target of a link. Return None unless it is a regular file."""
    if not path.is_file():
        return None
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def make_directory(path: Path) -> None:
    """Create a directory and its parents unless they exist. Raise OutputError if it cannot be created or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the directory {path} cannot be created: {error.strerror}: choose another path") from None
    if not os.access(path, os.W_OK):
        raise OutputError(f"you cannot write to {path}: change the permissions, or choose another directory")


def check_archive_path(path: Path) -> None:
    """Raise :class:`OutputError` unless an archive can be put at ``path``, or at its target if it is a link.

    A link is accepted if the folder of its target exists, and the target is missing or has the name of the link.
    ``utils/create_data_link.pl`` makes such links to other disks.
    """
    real = Path(os.path.realpath(path))
    if path.is_dir():
        raise OutputError(f"{path} is a directory: move it out of the way")
    if not is_replaceable(path):
        raise OutputError(f"{path} is not a regular file: move it out of the way")
    if path.is_symlink() and not real.parent.is_dir():
        raise OutputError(
            f"{path} is a link to {real}, but {real.parent} does not exist: create it, or delete the link"
        )
    if path.is_symlink() and real.exists() and real.name != path.name:
        raise OutputError(f"{path} is a link to {real}, which would be replaced: delete the link, or move that file")


def check_writable(path: Path) -> None:
    """Raise :class:`OutputError` if a file cannot be written, so that a long job does not fail at its end."""
    if path.exists() and not is_replaceable(path):
        if not os.access(path, os.W_OK):
            raise OutputError(f"you cannot write to {path}: change the permissions, or choose another file")
        return
    if path.is_dir():
        raise OutputError(f"{path} is a directory: name a file")
    directory = Path(os.path.realpath(path)).parent
    if not directory.is_dir() or not os.access(directory, os.W_OK):
        raise OutputError(f"{path} cannot be written: {directory} must be an existing directory that you can write to")


@contextlib.contextmanager
def convert_write_errors(path: Path) -> Iterator[None]:
    """Convert an OSError of the ``with`` block to an :class:`OutputError` that names the file ``path``."""
    try:
        yield
    except OSError as error:
        remedy = ": free space, then repeat the command with --resume" if error.errno in _FULL else ""
        raise OutputError(f"cannot write {path}: {error.strerror or error}{remedy}") from error


class WholeFile:
    """Writes a binary file that gets the name ``path`` in :meth:`finish`, when all of its bytes are on the disk.

    An existing file must be replaceable (:func:`is_replaceable`). With ``follow``, the target of a link is replaced.

    Attributes:
        temporary: name of the unfinished file.
        size, checksum: number of bytes written, and CRC-32 of these bytes.
    """

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self.path = path
        self.follow = follow
        self.size = self.checksum = 0
        self.temporary = choose_temporary_name(path, follow=follow)
        with convert_write_errors(path):
            self._file = open(self.temporary, "xb")  # noqa: SIM115  close() or abandon() closes it.

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes, and update ``size`` and ``checksum``."""
        with convert_write_errors(self.path):
            self._file.write(data)
        self.size += len(data)
        self.checksum = zlib.crc32(data, self.checksum)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Write buffered bytes to the file, which keeps its temporary name."""
        with convert_write_errors(self.path):
            self._file.flush()

    def close(self) -> None:
        """Synchronize the file with the disk and close it. The file keeps its temporary name."""
        with convert_write_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def finish(self) -> tuple[int, int]:
        """Close the file, rename it to its final name, and return its size and CRC-32."""
        if not self._file.closed:
            self.close()
        with convert_write_errors(self.path):
            put_in_place(self.temporary, self.path, follow=self.follow)
        return self.size, self.checksum

    def abandon(self) -> None:
        """Close and remove the unfinished file."""
        with contextlib.suppress(OSError):  # A failed write does not matter, since the content is not needed.
            self._file.close()
        self.temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def open_whole_file(path: Path, *, follow: bool = False) -> Iterator[Any]:
    """Open a :class:`WholeFile` for a ``with`` block. Finish it at the end of the block, and delete it after an error.

    A device or FIFO (see :func:`is_replaceable`) is opened directly. With ``follow``, the target of a link is replaced.
    An OSError in the block becomes an OutputError.
    """
    if not is_replaceable(path):
        with convert_write_errors(path), open(path, "wb") as file:
            yield file
        return
    unfinished_file = WholeFile(path, follow=follow)
    try:
        with convert_write_errors(path):
            yield unfinished_file
            unfinished_file.finish()
    except BaseException:
        unfinished_file.abandon()
        raise


def read_in_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in chunks of :data:`CHUNK` bytes. The last chunk may be shorter."""
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def write_whole_file(path: Path, text: str, *, follow: bool = False) -> None:
    """Write a text file with :func:`open_whole_file`, so that an interruption leaves no incomplete file at ``path``."""
    with open_whole_file(path, follow=follow) as file:
        file.write(encode_name(text))


def write_sealed_file(path: Path, values: Iterable[Any]) -> None:
    """Write one JSON value per line, followed by a line with the CRC-32 of the preceding lines."""
    text = "".join(json.dumps(value) + "\n" for value in values)
    write_whole_file(path, text + _make_seal(text.encode()).decode() + "\n")


def read_sealed_file(path: Path) -> list[Any]:
    """Read the values of a file that :func:`write_sealed_file` has written. Raise ValueError if it is damaged."""
    body, _, seal = path.read_bytes().removesuffix(b"\n").rpartition(b"\n")
    body += b"\n"
    if seal != _make_seal(body):
        raise ValueError("it is damaged")
    return [json.loads(line) for line in body.decode().splitlines()]


def _make_seal(body: bytes) -> bytes:
    return json.dumps({"crc32": zlib.crc32(body)}).encode()


def check_system() -> None:
    """Raise :class:`DumpError` on Windows, which lacks the file locks that a dump needs."""
    if not HAS_LOCKS:
        raise DumpError("kaldi-compat dump needs file locks, which Windows lacks: use Linux, macOS or WSL")


def lock_dump(path: Path, plan: Path | None = None) -> int:
    """Lock the file ``path`` of a dump until the returned descriptor is closed or this process ends.

    ``plan`` is the path of the plan if the dump has several parts, which share the lock once the plan exists.

    Raises:
        DumpError: another process holds the lock. A part of a dump first waits, up to :data:`SECONDS_TO_WAIT`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    deadline = time.monotonic() + (SECONDS_TO_WAIT if plan else 0.0)
    while not _try_lock(descriptor, fcntl.LOCK_SH if plan and plan.exists() else fcntl.LOCK_EX, path):
        if time.monotonic() >= deadline:
            os.close(descriptor)
            owner = "a dump that is not a part of the same plan" if plan else "another dump into the same archives"
            raise DumpError(f"{owner} is running and has locked {path}: wait until that dump ends")
        time.sleep(SECONDS_BETWEEN_TRIES)
    return descriptor


def share_lock(descriptor: int, path: Path) -> None:
    """Make the lock of ``descriptor`` on the file ``path`` a shared lock, so that other parts of the job can run."""
    _try_lock(descriptor, fcntl.LOCK_SH, path)


def _try_lock(descriptor: int, mode: int, path: Path) -> bool:
    """Lock a file in the ``mode`` ``LOCK_SH`` or ``LOCK_EX``. Return False if another process holds the lock.

    Do not wait for the lock. If the file system does not support locks, warn and return True.
    """
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Without locks, two simultaneous dumps do no harm, because they write equal archives under different names.
        logger.warning("cannot lock %s: %s", path, error.strerror)
    return True
