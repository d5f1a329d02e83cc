"""The names of the ``kaldi_io`` module that torchaudio removed, over io_ark: keys with tensors.

Each takes an rspecifier (``ark:feats.ark``, ``scp,p:feats.scp``, ``ark:gunzip -c feats.ark.gz |``), the bare name of an
archive or script (which may be gzipped: ``feats.ark.gz``), or one as an open binary file, and is an iterator of
``(key, tensor)``.

>>> for key, matrix in read_mat_scp("feats.scp"):  # doctest: +SKIP
...     print(key, matrix.shape)
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import IO, Any

import torch

from io_ark.codecs import codec
from io_ark.errors import ArkError
from io_ark.keys import read_key
from io_ark.objects import Loader, name_key
from io_ark.script import Script
from io_ark.source import StreamSource
from io_ark.specifier import is_table_rspecifier
from io_ark.tables import SequentialReader

Entries = Iterator[tuple[str, torch.Tensor]]
FileOrName = str | IO[bytes]


def read_mat_ark(file_or_fd: FileOrName) -> Entries:
    """The float matrices of an archive: float32 tensors of shape (rows, columns).

    Args:
        file_or_fd: the archive.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is no matrix.
    """
    return _tensors("matrix", "ark", file_or_fd)


def read_mat_scp(file_or_fd: FileOrName) -> Entries:
    """The float matrices that a script file names; see :func:`read_mat_ark`."""
    return _tensors("matrix", "scp", file_or_fd)


def read_vec_flt_ark(file_or_fd: FileOrName) -> Entries:
    """The float vectors of an archive: float32 tensors of shape (elements,).

    Args:
        file_or_fd: the archive.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is no vector.
    """
    return _tensors("vector", "ark", file_or_fd)


def read_vec_flt_scp(file_or_fd: FileOrName) -> Entries:
    """The float vectors that a script file names; see :func:`read_vec_flt_ark`."""
    return _tensors("vector", "scp", file_or_fd)


def read_vec_int_ark(file_or_fd: FileOrName) -> Entries:
    """The integer vectors of an archive (alignments): int32 tensors of shape (elements,).

    Args:
        file_or_fd: the archive.

    Raises:
        io_ark.ArkError: it cannot be opened, or an entry is no vector of integers.
    """
    return _tensors("int-vector", "ark", file_or_fd)


def read_vec_int_scp(file_or_fd: FileOrName) -> Entries:
    """The integer vectors that a script file names; see :func:`read_vec_int_ark`."""
    return _tensors("int-vector", "scp", file_or_fd)


def _tensors(kind: str, table: str, file: FileOrName) -> Entries:
    entries = _read(kind, table, file) if isinstance(file, str) else _read_stream(kind, table, file)
    return ((key, torch.from_numpy(value)) for key, value in entries)


def _read(kind: str, table: str, name: str) -> Iterator[tuple[str, Any]]:
    if name.endswith(".gz") and not is_table_rspecifier(name):
        with gzip.open(name) as stream:
            yield from _read_stream(kind, table, stream)  # type: ignore[arg-type]
        return
    with SequentialReader[Any](kind, name if is_table_rspecifier(name) else f"{table}:{name}") as reader:
        yield from reader


def _read_stream(kind: str, table: str, stream: IO[bytes]) -> Iterator[tuple[str, Any]]:
    source = StreamSource(stream, str(getattr(stream, "name", "<stream>")))  # type: ignore[arg-type]
    if table == "scp":
        loader = Loader(kind)
        for name, rxfilename in Script(source.read_rest(), source.name).lines():
            yield name, loader.load_value(name, rxfilename)
        return
    decoder = codec(kind)
    while (key := read_key(source)) is not None:
        try:
            yield key, decoder.read(source)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__
