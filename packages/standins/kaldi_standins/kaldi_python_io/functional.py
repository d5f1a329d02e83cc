"""Functions of kaldi_python_io that read a file with a single object, such as statistics of a corpus."""

from os import PathLike
from typing import Any

import numpy.typing as npt

from io_ark.specifier import decode_file_name
from io_ark.streams.access import Access
from io_ark.tables.loader import read_rxfilename
from kaldi_standins.kaldi_python_io.kinds import FloatCodec

__all__ = ["read_kaldi_mat", "read_kaldi_vec"]

Array = npt.NDArray[Any]


def read_kaldi_mat(file: str | PathLike[str], *, pipes: bool = True, network: bool = True) -> Array:
    """Read a matrix (rows, columns), such as CMVN statistics: float64 for a matrix in double precision, else float32.

    A sparse matrix becomes a list of rows, which are lists of pairs (column, (value,)).

    Args:
        file: path, with an optional offset or range (``a.ark:123[0:9]``), or a command that ends in ``|``.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be opened, or does not hold a matrix.

    >>> import io_ark, numpy as np, tempfile
    >>> from kaldi_standins.kaldi_python_io.functional import read_kaldi_mat
    >>> io_ark.save(name := tempfile.mkdtemp() + "/stats", np.ones((2, 41)))
    >>> read_kaldi_mat(name).shape
    (2, 41)
    """
    matrix: Array = read_rxfilename(FloatCodec("matrix"), decode_file_name(file), Access(pipes, network))
    return matrix


def read_kaldi_vec(file: str | PathLike[str], *, pipes: bool = True, network: bool = True) -> Array:
    """Read the float vector (size,) of a file. See :func:`read_kaldi_mat` for the arguments, type and errors.

    >>> import io_ark, numpy as np, tempfile
    >>> from kaldi_standins.kaldi_python_io.functional import read_kaldi_vec
    >>> io_ark.save(name := tempfile.mkdtemp() + "/mean", np.ones(3))
    >>> read_kaldi_vec(name)
    array([1., 1., 1.])
    """
    vector: Array = read_rxfilename(FloatCodec("vector"), decode_file_name(file), Access(pipes, network))
    return vector
