"""Read ``.npy`` and ``.npz`` files of NumPy, which may be damaged or hostile. Every error is one line.

Sizes in a header are checked against the size of the file before memory is allocated, and nothing is unpickled.
"""

from __future__ import annotations

import math
import os
import zipfile
from os import PathLike
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError, MissingFileError, OpenError
from io_ark.streams.files import describe_error

Array = npt.NDArray[Any]
# An array in a zip or tar file may have this many bytes when it is unpacked, or this many times the bytes of the zip or
# tar file. Without limits, a small damaged or malicious file could use up the memory.
MAX_UNPACKED_BYTES = 1 << 26
MAX_UNPACKED_RATIO = 200


def load_npy(path: str | PathLike[str]) -> Array:
    """Load and return the array of a ``.npy`` file.

    Raises:
        MissingFileError: the file does not exist.
        OpenError: the file cannot be opened, or is not a regular file.
        FormatError: the file does not contain an array of numbers or strings in NumPy's format, or is truncated.
    """
    name = os.fsdecode(path)
    size = _measure_regular_file(name)
    try:
        with open(name, "rb") as file:
            return read_npy(file, size, name)
    except OSError as error:
        raise _make_open_error(name, error) from None


def load_npz(path: str | PathLike[str]) -> dict[str, Array]:
    """Load all arrays of a ``.npz`` file as a dictionary from names without ``.npy`` to arrays.

    Raises:
        MissingFileError: the file does not exist.
        OpenError: the file cannot be opened, or is not a regular file.
        FormatError: the file is not a ``.npz`` file or is truncated, or an array is damaged, is not of numbers or
            strings, or is implausibly large for the file (see :func:`check_unpacked_size`).
    """
    name = os.fsdecode(path)
    _measure_regular_file(name)
    arrays = {}
    try:
        with zipfile.ZipFile(name) as archive:
            for member in archive.infolist():
                check_unpacked_size(member.file_size, Path(name), member.filename)
                with archive.open(member) as file:
                    array = read_npy(file, member.file_size, f"{name}: {member.filename}")
                arrays[member.filename.removesuffix(".npy")] = array
    except FormatError:
        raise
    except OSError as error:
        raise _make_open_error(name, error) from None
    except Exception as error:  # zipfile raises several types of errors for a damaged file.
        problem = f"cannot be read as a .npz file: {_describe_error(error)}"
        raise FormatError(f"{problem}; save the arrays again with numpy.savez", file=name) from None
    return arrays


def read_npy(file: Any, size: int, name: str) -> Array:
    """Read the array of an open ``.npy`` file, with the shape, dtype and memory order that its header declares.

    ``file`` is a binary file of ``size`` bytes at position 0, where the header starts. ``name`` names the file in error
    messages. Raise FormatError if the bytes are truncated, or are not an array of numbers or strings in NumPy's format.
    """
    try:
        major, minor = np.lib.format.read_magic(file)
        read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        if major not in read_header:
            raise ValueError(f"version {major}.{minor} of the format is not supported")
        shape, is_fortran, dtype = read_header[major](file)
        if dtype.hasobject:
            raise ValueError("it has Python objects instead of numbers or strings")
        if any(length < 0 for length in shape):
            raise ValueError(f"invalid shape {shape}")
        if dtype.itemsize == 0:
            raise ValueError("its elements have a size of 0 bytes")
        byte_count, available = math.prod(shape) * dtype.itemsize, size - file.tell()
        if byte_count > available:
            raise ValueError(f"expected {byte_count} bytes after the header, but only {available} are available")
        data = bytearray(byte_count)
        if file.readinto(data) != byte_count:
            raise ValueError("the file is truncated")
        array: Array = np.ndarray(shape, dtype, data, order="F" if is_fortran else "C")
        return array
    except Exception as error:  # NumPy and zipfile raise errors of many types, such as MemoryError.
        problem = f"cannot be read as a .npy array: {_describe_error(error)}"
        raise FormatError(f"{problem}; save the array again with numpy.save", file=name) from None


def check_unpacked_size(size: int, path: Path, name: str) -> None:
    """Raise FormatError if an array has more than 64 MiB, and more than 200 times the size of the file ``path``.

    ``name`` is the name of the array for the error message.
    """
    file_size = path.stat().st_size
    if size > max(MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO * file_size):
        raise FormatError(f"{name}: an array of {size} bytes is implausible in a file of {file_size} bytes: save it "
                          "as a .npy file", file=str(path))  # fmt: skip


def _measure_regular_file(name: str) -> int:
    """Return the size of a regular file in bytes. Raise OpenError for other files, because a FIFO may never end."""
    try:
        status = os.stat(name)
    except (OSError, ValueError) as error:
        raise _make_open_error(name, error) from None
    if S_ISDIR(status.st_mode):
        raise OpenError("is a directory: name a file in the directory", file=name)
    if not S_ISREG(status.st_mode):
        raise OpenError("is not a regular file: copy its data to a file first", file=name)
    return status.st_size


def _make_open_error(name: str, error: OSError | ValueError) -> OpenError:
    """Convert a system error to a MissingFileError or an OpenError that names the file."""
    if isinstance(error, FileNotFoundError):
        return MissingFileError("no such file: correct the name", file=name)
    return OpenError(f"cannot be read: {describe_error(error)}", file=name)


def _describe_error(error: Exception) -> str:
    """Return the first line of the message of an error, or the name of its type if the message is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]
