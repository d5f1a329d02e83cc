"""API of the ``kaldi_io`` module that torchaudio removed: keys with tensors.

A function takes an rspecifier (``ark:feats.ark``, ``scp,p:feats.scp``, ``ark:gunzip -c feats.ark.gz |``), the path of
an archive or script file (which may be gzipped: ``feats.ark.gz``), or an open file. It returns an iterator of
``(key, tensor)``.

>>> for key, matrix in read_mat_scp("feats.scp"):  # doctest: +SKIP
...     print(key, matrix.shape)
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from os import PathLike
from typing import IO, Any, Literal

import torch

from io_ark import SequentialReader
from io_ark.codecs import Codec, codec
from io_ark.errors import ArkError, OpenError
from io_ark.interop.as_stored import AsStored
from io_ark.specifier import Rspecifier, classify_rspecifier, name_of
from io_ark.streams import Access, StreamSource
from io_ark.tables import Loader, Script
from io_ark.tables.keys import read_key
from io_ark.tables.loader import name_key

__all__ = [
    "read_mat_ark",
    "read_mat_scp",
    "read_vec_flt_ark",
    "read_vec_flt_scp",
    "read_vec_int_ark",
    "read_vec_int_scp",
]

Entries = Iterator[tuple[str, torch.Tensor]]
FileOrName = str | PathLike[str] | IO[bytes] | IO[str]
Table = Literal["ark", "scp"]


def read_mat_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float matrices of an archive: tensors (rows, columns), float64 if stored as such, else float32.

    Args:
        file_or_fd: the archive.
        pipes: False refuses to run commands.
        network: allow URLs.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is not a matrix.
    """
    return _tensors(AsStored("matrix"), "ark", file_or_fd, pipes, network)


def read_mat_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float matrices that a script file names; see :func:`read_mat_ark`."""
    return _tensors(AsStored("matrix"), "scp", file_or_fd, pipes, network)


def read_vec_flt_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float vectors of an archive: tensors (elements,), float64 if stored as such, else float32.

    Args:
        file_or_fd: the archive.
        pipes: False refuses to run commands.
        network: allow URLs.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is not a vector.
    """
    return _tensors(AsStored("vector"), "ark", file_or_fd, pipes, network)


def read_vec_flt_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float vectors that a script file names; see :func:`read_vec_flt_ark`."""
    return _tensors(AsStored("vector"), "scp", file_or_fd, pipes, network)


def read_vec_int_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the integer vectors of an archive (alignments): int32 tensors (elements,).

    Args:
        file_or_fd: the archive.
        pipes: False refuses to run commands.
        network: allow URLs.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is not a vector of integers.
    """
    return _tensors(codec("int-vector"), "ark", file_or_fd, pipes, network)


def read_vec_int_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the integer vectors that a script file names; see :func:`read_vec_int_ark`."""
    return _tensors(codec("int-vector"), "scp", file_or_fd, pipes, network)


def _tensors(kind: Codec[Any], table: Table, file: FileOrName, pipes: bool, network: bool) -> Entries:
    if isinstance(file, str | PathLike):
        entries = _read(kind, table, name_of(file), pipes, network)
    else:
        entries = _read_stream(kind, table, file, pipes, network)
    return ((key, torch.from_numpy(value)) for key, value in entries)


def _read(kind: Codec[Any], table: Table, name: str, pipes: bool, network: bool) -> Iterator[tuple[str, Any]]:
    spec = classify_rspecifier(name)
    if spec is None and name.endswith(".gz"):
        with _open_gzipped(name) as stream:
            yield from _read_stream(kind, table, stream, pipes, network)
        return
    with SequentialReader[Any](kind, spec or Rspecifier(table, name), pipes=pipes, network=network) as reader:
        yield from reader


def _open_gzipped(name: str) -> Any:
    try:
        return gzip.open(name)
    except (OSError, ValueError) as error:
        raise OpenError(f"cannot be opened: {getattr(error, 'strerror', error)}", file=name) from error


def _read_stream(kind: Codec[Any], table: Table, stream: Any, pipes: bool, network: bool) -> Iterator[tuple[str, Any]]:
    binary: Any = stream.buffer if isinstance(stream, io.TextIOWrapper) else stream
    source = StreamSource(binary, str(getattr(stream, "name", "<stream>")))
    if isinstance(binary, io.TextIOBase):
        raise OpenError("is a text stream without a binary buffer: open it in binary mode", file=source.name)
    if table == "scp":
        loader = Loader(kind, Access(pipes, network), in_order=True)
        for name, rxfilename in Script(source.read_text(), source.name).lines():
            yield name, loader.load_value(name, rxfilename)
        return
    while (key := read_key(source)) is not None:
        try:
            yield key, kind.read(source)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__
