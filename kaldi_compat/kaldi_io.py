"""The names of the ``kaldi_io`` module that torchaudio removed, over io_ark: keys with tensors.

Each takes an rspecifier (``ark:feats.ark``, ``scp,p:feats.scp``, ``ark:gunzip -c feats.ark.gz |``), the bare name of an
archive or script (which may be gzipped: ``feats.ark.gz``), its path, or one as an open binary file, and is an iterator
of ``(key, tensor)``.

>>> for key, matrix in read_mat_scp("feats.scp"):  # doctest: +SKIP
...     print(key, matrix.shape)
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from os import PathLike
from typing import IO, Any, Literal

import torch

from io_ark.codecs import codec
from io_ark.errors import ArkError, OpenError
from io_ark.keys import read_key
from io_ark.objects import Loader, name_key
from io_ark.script import Script
from io_ark.source import StreamSource
from io_ark.specifier import Rspecifier, classify_rspecifier, name_of
from io_ark.tables import SequentialReader

Entries = Iterator[tuple[str, torch.Tensor]]
FileOrName = str | PathLike[str] | IO[bytes]
Table = Literal["ark", "scp"]


def read_mat_ark(file_or_fd: FileOrName, *, pipes: bool = True) -> Entries:
    """The float matrices of an archive: float32 tensors of shape (rows, columns).

    Args:
        file_or_fd: the archive.
        pipes: whether commands may be run.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is no matrix.
    """
    return _tensors("matrix", "ark", file_or_fd, pipes)


def read_mat_scp(file_or_fd: FileOrName, *, pipes: bool = True) -> Entries:
    """The float matrices that a script file names; see :func:`read_mat_ark`."""
    return _tensors("matrix", "scp", file_or_fd, pipes)


def read_vec_flt_ark(file_or_fd: FileOrName, *, pipes: bool = True) -> Entries:
    """The float vectors of an archive: float32 tensors of shape (elements,).

    Args:
        file_or_fd: the archive.
        pipes: whether commands may be run.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is no vector.
    """
    return _tensors("vector", "ark", file_or_fd, pipes)


def read_vec_flt_scp(file_or_fd: FileOrName, *, pipes: bool = True) -> Entries:
    """The float vectors that a script file names; see :func:`read_vec_flt_ark`."""
    return _tensors("vector", "scp", file_or_fd, pipes)


def read_vec_int_ark(file_or_fd: FileOrName, *, pipes: bool = True) -> Entries:
    """The integer vectors of an archive (alignments): int32 tensors of shape (elements,).

    Args:
        file_or_fd: the archive.
        pipes: whether commands may be run.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is no vector of integers.
    """
    return _tensors("int-vector", "ark", file_or_fd, pipes)


def read_vec_int_scp(file_or_fd: FileOrName, *, pipes: bool = True) -> Entries:
    """The integer vectors that a script file names; see :func:`read_vec_int_ark`."""
    return _tensors("int-vector", "scp", file_or_fd, pipes)


def _tensors(kind: str, table: Table, file: FileOrName, pipes: bool) -> Entries:
    if isinstance(file, str | PathLike):
        entries = _read(kind, table, name_of(file), pipes)
    else:
        entries = _read_stream(kind, table, file, pipes)
    return ((key, torch.from_numpy(value)) for key, value in entries)


def _read(kind: str, table: Table, name: str, pipes: bool) -> Iterator[tuple[str, Any]]:
    spec = classify_rspecifier(name)
    if spec is None and name.endswith(".gz"):
        with _open_gzipped(name) as stream:
            yield from _read_stream(kind, table, stream, pipes)
        return
    with SequentialReader[Any](kind, spec or Rspecifier(table, name), pipes=pipes) as reader:
        yield from reader


def _open_gzipped(name: str) -> Any:
    try:
        return gzip.open(name)
    except (OSError, ValueError) as error:
        raise OpenError(f"cannot be opened: {getattr(error, 'strerror', error)}", file=name) from error


def _read_stream(kind: str, table: Table, stream: Any, pipes: bool) -> Iterator[tuple[str, Any]]:
    source = StreamSource(stream, str(getattr(stream, "name", "<stream>")))
    if table == "scp":
        loader = Loader(kind, pipes=pipes, in_order=True)
        for name, rxfilename in Script(source.read_rest(), source.name).lines():
            yield name, loader.load_value(name, rxfilename)
        return
    decoder = codec(kind)
    while (key := read_key(source)) is not None:
        try:
            yield key, decoder.read(source)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__
