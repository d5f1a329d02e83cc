"""API of the ``kaldi_io`` module that torchaudio removed: :mod:`kaldi_standins.kaldi_io` with tensors.

A function takes an rspecifier (``ark:feats.ark``, ``scp:feats.scp``, ``ark:gunzip -c feats.ark.gz |``), the path of
an archive or script file (which may be gzipped: ``feats.ark.gz``), or an open file. It returns an iterator of
``(key, tensor)``. As in torchaudio, a range in a script file is a Python slice, which excludes its end.

>>> for key, matrix in read_mat_scp("feats.scp"):  # doctest: +SKIP
...     print(key, matrix.shape)
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import IO, Any

import torch

import kaldi_standins.kaldi_io as kaldi_io
from io_ark.tables import repeat_errors

__all__ = [
    "read_mat_ark", "read_mat_scp", "read_vec_flt_ark", "read_vec_flt_scp", "read_vec_int_ark", "read_vec_int_scp",
]  # fmt: skip

Entries = Iterator[tuple[str, torch.Tensor]]
FileOrName = str | PathLike[str] | IO[bytes] | IO[str]


def read_mat_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float matrices of an archive. Return an iterator of (key, tensor (rows, columns)).

    Tensors are float64 for matrices stored in double precision, and otherwise float32.

    Args:
        file_or_fd: an rspecifier, the path of an archive, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        io_ark.ArkError: during iteration, if the archive cannot be opened, or an entry is not a matrix.

    >>> import io
    >>> from kaldi_standins.torchaudio_kaldi_io import read_mat_ark
    >>> [(key, matrix.shape) for key, matrix in read_mat_ark(io.BytesIO(b"utt1 [ 1 2 3 ]\\n"))]
    [('utt1', torch.Size([1, 3]))]
    """
    return _convert_to_tensors(kaldi_io.read_mat_ark(file_or_fd, pipes=pipes, network=network))


def read_mat_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float matrices that a script file lists. See :func:`read_mat_ark` for the results.

    Args:
        file_or_fd: an rspecifier, the path of a script file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        io_ark.ArkError: during iteration, if a file cannot be opened, an entry is not a matrix, or a range is invalid.

    >>> import io
    >>> from kaldi_standins.torchaudio_kaldi_io import read_mat_scp
    >>> dict(read_mat_scp(io.BytesIO(b"utt1 echo [ 1 2 3 ] |\\n")))
    {'utt1': tensor([[1., 2., 3.]])}
    """
    return _convert_to_tensors(kaldi_io.read_mat_scp(file_or_fd, pipes=pipes, network=network))


def read_vec_flt_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float vectors of an archive. Return an iterator of (key, tensor (elements,)).

    Tensors are float64 for vectors stored in double precision or as text, and otherwise float32. For the arguments, see
    :func:`read_mat_ark`.

    Raises:
        io_ark.ArkError: during iteration, if the archive cannot be opened, or an entry is not a vector.

    >>> import io
    >>> from kaldi_standins.torchaudio_kaldi_io import read_vec_flt_ark
    >>> dict(read_vec_flt_ark(io.BytesIO(b"utt1 [ 1 2 3 ]\\n")))
    {'utt1': tensor([1., 2., 3.], dtype=torch.float64)}
    """
    return _convert_to_tensors(kaldi_io.read_vec_flt_ark(file_or_fd, pipes=pipes, network=network))


def read_vec_flt_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the float vectors that a script file lists. See :func:`read_vec_flt_ark` for the results.

    For the arguments, see :func:`read_mat_scp`.

    Raises:
        io_ark.ArkError: during iteration, if a file cannot be opened, an entry is not a vector, or a range is invalid.

    >>> import io
    >>> from kaldi_standins.torchaudio_kaldi_io import read_vec_flt_scp
    >>> dict(read_vec_flt_scp(io.BytesIO(b"utt1 echo [ 1 0 1 ] |\\n")))
    {'utt1': tensor([1., 0., 1.], dtype=torch.float64)}
    """
    return _convert_to_tensors(kaldi_io.read_vec_flt_scp(file_or_fd, pipes=pipes, network=network))


def read_vec_int_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the integer vectors of an archive, such as alignments. Return an iterator of (key, tensor (elements,)).

    Tensors are int64 for vectors stored as text, and otherwise int32. For the arguments, see :func:`read_mat_ark`.

    Raises:
        io_ark.ArkError: during iteration, if the archive cannot be opened, or an entry is not a vector of integers.

    >>> import io
    >>> from kaldi_standins.torchaudio_kaldi_io import read_vec_int_ark
    >>> dict(read_vec_int_ark(io.BytesIO(b"utt1 3 3 5\\n")))
    {'utt1': tensor([3, 3, 5])}
    """
    return _convert_to_tensors(kaldi_io.read_vec_int_ark(file_or_fd, pipes=pipes, network=network))


def read_vec_int_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Entries:
    """Read the integer vectors that a script file lists. See :func:`read_vec_int_ark` for the results.

    For the arguments, see :func:`read_mat_scp`.

    Raises:
        io_ark.ArkError: during iteration, if a file cannot be opened, an entry is not a vector of integers, or a
            range is invalid.

    >>> import io
    >>> from kaldi_standins.torchaudio_kaldi_io import read_vec_int_scp
    >>> dict(read_vec_int_scp(io.BytesIO(b"utt1 echo 3 3 5 |\\n")))
    {'utt1': tensor([3, 3, 5])}
    """
    return _convert_to_tensors(kaldi_io.read_vec_int_scp(file_or_fd, pipes=pipes, network=network))


@repeat_errors
def _convert_to_tensors(entries: Iterator[tuple[str, Any]]) -> Entries:
    """Yield each key with its array converted to a tensor, which shares the array's memory."""
    for key, value in entries:
        yield key, torch.from_numpy(value)
