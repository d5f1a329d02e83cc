"""Read and write files that are not tables. As in Kaldi, a file's name is a path, ``-`` or a shell command."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Skip
from io_ark.streams import open_input, open_output
from io_ark.streams.system import WRITE_FLAGS as TRUNCATING_FLAGS
from io_ark.streams.unfinished import is_replaceable
from io_ark.tables.overwriting import Identity, Inputs, make_overwriting_error
from kaldi_compat.cli.command_line import format_shell_line
from kaldi_compat.errors import FeatureError, OptionError

Array = npt.NDArray[Any]
WRITE_FLAGS = TRUNCATING_FLAGS & ~os.O_TRUNC
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # With this flag, open() refuses a symbolic link. Windows lacks the flag.
Encode = Callable[[ArrayBlock], tuple[Array, Array] | None]


def read_lines(rxfilename: str) -> Iterator[str]:
    """Yield the lines of a text file without their newlines. Raise :class:`ArkError` if the file cannot be read."""
    for lines in read_line_lists(rxfilename):
        yield from lines


def read_line_lists(rxfilename: str) -> Iterator[list[str]]:
    """Yield the lines of a text file, as :func:`read_lines` does, in lists of lines that were read together."""
    with open_input(rxfilename) as opened:
        for lines in opened.source.read_line_lists():
            yield b"\n".join(lines).decode(errors="surrogateescape").split("\n")


def format_rxfilename(rxfilename: str) -> str:
    """Return the name of an input as in Kaldi's logs: "standard input", or the name quoted for a shell."""
    return "standard input" if rxfilename in ("", "-") else format_shell_line([rxfilename])


def format_wxfilename(wxfilename: str) -> str:
    """Return the name of an output as in Kaldi's logs: "standard output", or the name quoted for a shell."""
    return "standard output" if wxfilename in ("", "-") else format_shell_line([wxfilename])


def write_text(wxfilename: str, text: str) -> None:
    """Write the string ``text`` to a file, as UTF-8. Raise :class:`ArkError` if the file cannot be written."""
    with open_output(wxfilename) as output:
        output.write(text.encode(errors="surrogateescape"))


class FileSink:
    """Writes each matrix of a table to a file ``directory/key.extension``. Creates a missing directory.

    Args:
        directory: directory of the files.
        extension: extension of the files.
        file_format: name of the file format, for warnings.
        encode: function from a block to the headers of its files, (entries, bytes), and the encoded numbers of all
            matrices. It returns None if a value does not fit into its field of the header.
        source: rspecifier of the matrices. Files that it reads are not overwritten.

    Raises:
        OptionError: the directory cannot be created, for example because its parent does not exist.
    """

    def __init__(self, directory: str, extension: str, file_format: str, encode: Encode, source: str) -> None:
        self._prefix, self._suffix = os.path.join(directory, ""), f".{extension}"
        self._format = file_format
        self._encode = encode
        self._inputs = Inputs(source)
        if not os.path.exists(directory):
            try:
                os.mkdir(directory)
            except OSError as error:
                raise OptionError(f"Could not create output directory: {directory}: {error.strerror}") from error

    def write(self, block: ArrayBlock) -> ArrayBlock:
        """Write a file for each matrix of a block, and return the block unchanged.

        Raises:
            FeatureError: the size of a matrix, or an option, does not fit into its field of the header.
            Skip: a file cannot be written.
            SpecifierError: a file is an input of the program.
        """
        encoded = self._encode(block)
        if encoded is None:
            rows, columns = block.shapes[0].tolist()
            raise FeatureError(f"a header of {self._format}'s format cannot hold the size {rows} x {columns}: write "
                               "fewer frames or columns")  # fmt: skip
        headers, numbers = encoded
        ends = np.cumsum(block.count_elements() * block.values.itemsize).tolist()
        data, begin = numbers.data, 0
        for key, header, end in zip(block.decode_keys(), headers, ends, strict=True):
            path = f"{self._prefix}{key}{self._suffix}"
            try:
                write_file(path, self._inputs, header.data, data[begin:end])
            except OSError as error:
                raise Skip(f"Could not write to {self._format} feature file: {path}: {error.strerror}") from error
            begin = end
        return block


def write_file(path: str, inputs: Container[Identity], *parts: memoryview) -> None:
    """Write bytes to a file.

    A symbolic link is replaced by a regular file, so that its target is unchanged. A link to a device, FIFO, socket or
    file descriptor is followed.

    Args:
        path: name of the file.
        inputs: devices and inodes of the program's input files, which are not overwritten.
        parts: the file's content, in consecutive parts.

    Raises:
        SpecifierError: the file is an input of the program.
        OSError: the file cannot be written.
    """
    try:
        descriptor = os.open(path, WRITE_FLAGS | NO_LINK, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP or not os.path.islink(path):  # NO_LINK refuses a symbolic link with ELOOP.
            raise
        if is_replaceable(Path(path)):
            os.unlink(path)
        descriptor = os.open(path, WRITE_FLAGS, 0o666)
    try:
        if (status := os.fstat(descriptor)).st_size and stat.S_ISREG(status.st_mode):
            if (status.st_dev, status.st_ino) in inputs:
                raise make_overwriting_error(path)
            os.ftruncate(descriptor, 0)
        for part in parts:
            while part:
                part = part[os.write(descriptor, part) :]
    finally:
        os.close(descriptor)
