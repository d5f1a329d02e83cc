"""API of kaldi_native_io, implemented by io_ark.

Replace ``import kaldi_native_io`` with ``from kaldi_standins import kaldi_native_io``. The classes have the methods and
values of kaldi_native_io. All errors are a :class:`TableError`, which is a RuntimeError.
docs/migrating/kaldi_native_io.md lists the differences.

>>> import os, tempfile
>>> import numpy as np
>>> from kaldi_standins import kaldi_native_io
>>> os.chdir(tempfile.mkdtemp())
>>> with kaldi_native_io.FloatMatrixWriter("ark,scp:feats.ark,feats.scp") as writer:
...     writer["utt1"] = np.eye(2, dtype=np.float32)
>>> for key, matrix in kaldi_native_io.SequentialFloatMatrixReader("scp:feats.scp"):
...     print(key, matrix.shape)
utt1 (2, 2)
"""

from __future__ import annotations

from io_ark import load as _load
from io_ark.streams.access import Access as _Access
from io_ark.streams.input import open_input as _open_input
from kaldi_standins.kaldi_native_io import table_types
from kaldi_standins.kaldi_native_io.blob import BlobCodec as _BlobCodec
from kaldi_standins.kaldi_native_io.errors import TableError, as_table_error
from kaldi_standins.kaldi_native_io.table_types import *  # noqa: F403  __all__ lists the names.
from kaldi_standins.kaldi_native_io.values import (
    CompressionMethod,
    DoubleMatrix,
    DoubleVector,
    FloatMatrix,
    FloatVector,
    HtkHeader,
    MatrixShape,
    WaveData,
    WaveInfo,
)

__version__ = "1.23.0"  # Version of kaldi_native_io whose names this package has.

__all__ = [
    "CompressionMethod", "DoubleMatrix", "DoubleVector", "FloatMatrix", "FloatVector", "HtkHeader", "MatrixShape",
    "TableError", "WaveData", "WaveInfo", "read_blob",
]  # fmt: skip
__all__ += table_types.__all__


def read_blob(rxfilename: str, *, pipes: bool = True, network: bool = True) -> bytes:
    """Read a blob, or a range of its bytes.

    Args:
        rxfilename: location of the blob, such as ``blobs.ark:20``. A range such as ``[0:9]`` at the end selects bytes,
            counted from 0, both ends included. A last index of -1 means the last byte, and ``[:]`` all bytes.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        TableError: the object cannot be opened or read, or the range is invalid or outside the blob.

    >>> import tempfile
    >>> from kaldi_standins.kaldi_native_io import BlobWriter, read_blob
    >>> folder = tempfile.mkdtemp()
    >>> with BlobWriter(f"ark:{folder}/blobs.ark") as writer:
    ...     writer["utt1"] = b"bytes"
    >>> read_blob(f"{folder}/blobs.ark:5[0:2]")
    b'byt'
    """
    with as_table_error():
        name, bracket, range_text = rxfilename.removesuffix("]").rpartition("[")
        if not (bracket and rxfilename.endswith("]")):
            return _load(rxfilename, kind=_BlobCodec(), pipes=pipes, network=network)
        try:
            first, last = (0, -1) if range_text == ":" else map(int, range_text.split(":"))
        except ValueError:
            raise TableError(f"{rxfilename!r} ends in ']' but not in a range: write a range such as [0:9]") from None
        with _open_input(name, access=_Access(pipes, network)) as opened:
            return _BlobCodec().read_slice(opened.source, first, last)
