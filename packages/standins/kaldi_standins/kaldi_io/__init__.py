"""API of Karel Vesely's ``kaldi_io``, implemented by io_ark: NumPy arrays by key.

Replace ``import kaldi_io`` with ``from kaldi_standins import kaldi_io``. The functions take an rspecifier or wspecifier
(``ark:feats.ark``), a file name (such as ``feats.ark``, ``feats.ark.gz`` or, with an offset, ``feats.ark:123``), a
command with ``|``, or an open file. docs/migrating/kaldi_io.md lists the differences from the original.

>>> import os, tempfile
>>> import numpy as np
>>> from kaldi_standins import kaldi_io
>>> os.chdir(tempfile.mkdtemp())
>>> with kaldi_io.open_or_fd("feats.ark", "wb") as file:
...     kaldi_io.write_mat(file, np.eye(2, dtype=np.float32), key="utt1")
>>> {key: matrix.shape for key, matrix in kaldi_io.read_mat_ark("feats.ark")}
{'utt1': (2, 2)}
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs import Codec, codec
from io_ark.codecs.base import BINARY_MARKER
from io_ark.errors import (
    ArkError,
    FormatError,
    OpenError,
    PipeError,
    RangeError,
    RangeSyntaxError,
    SpecifierError,
    WriteError,
)
from io_ark.specifier import decode_file_name
from io_ark.streams.access import Access
from io_ark.streams.files import describe_error
from io_ark.streams.source import BytesSource, Source
from io_ark.tables import repeat_errors
from io_ark.tables.blocks import read_entries
from io_ark.tables.keys import check_key, encode_key
from io_ark.tables.loader import Loader, name_key
from io_ark.tables.script import Script
from io_ark.tables.writers import CollectedChunks
from kaldi_standins.as_stored import AsStored
from kaldi_standins.file_objects import (
    FileOrName,
    check_writable,
    get_stream_name,
    mark_broken,
    open_input_file,
    open_output_file,
    open_sink,
    open_source,
    read_key,
)

__all__ = [
    "BadInputFormat", "BadSampleSize", "SubprocessFailed", "UnknownMatrixHeader", "UnknownVectorHeader",
    "UnsupportedDataType", "open_or_fd", "popen", "read_ali_ark", "read_cnet_ark", "read_cntime", "read_cntime_ark",
    "read_key", "read_mat", "read_mat_ark", "read_mat_scp", "read_post", "read_post_ark", "read_post_rxspec",
    "read_post_scp", "read_segments_as_bool_vec", "read_vec_flt", "read_vec_flt_ark", "read_vec_flt_scp",
    "read_vec_int", "read_vec_int_ark", "read_vec_int_scp", "write_ark_scp", "write_mat", "write_post",
    "write_vec_flt", "write_vec_int",
]  # fmt: skip

Array = npt.NDArray[Any]
Posterior = list[list[tuple[int, float]]]

BadInputFormat = FormatError
BadSampleSize = FormatError
SubprocessFailed = PipeError

_FLOAT_VECTOR, _FLOAT_MATRIX, _INT_VECTOR = AsStored("vector"), AsStored("matrix"), codec("int-vector")
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_RANGE = re.compile(r"(.+)\[(.+)\]")
_INTERVAL = re.compile(r"\s*(-?[0-9]+)?\s*:\s*(-?[0-9]+)?\s*")


class UnsupportedDataType(FormatError):
    """Error for writing an array that is neither float32 nor float64."""


class UnknownVectorHeader(FormatError):
    """Error for reading a binary object that is not a float vector."""


class UnknownMatrixHeader(FormatError):
    """Error for reading a binary object that is not a float matrix."""


# Matches the name of a gzipped file and an offset, but not a command that starts with "|" and ends in such a name.
_GZIPPED = re.compile(r"([^|].*\.gz)(?::([0-9]+))?", re.DOTALL)

# Matches a prefix that kaldi_io accepts before a name, such as "ark,t:".
_PREFIX = re.compile(r"(ark|scp)(,scp|,b|,t|,n?f|,n?p|,b?o|,n?s|,n?cs)*:")


def open_or_fd(file: FileOrName, mode: str = "rb", *, pipes: bool = True, network: bool = True) -> Any:
    """Open a file, a gzipped file or a command with ``|`` as a file object. An open file is returned unchanged.

    Args:
        file: a name, which may have a prefix ``ark:`` or ``scp:`` and an offset, or an open file in any mode.
        mode: "r", "w" or "a" for text, and "rb", "wb" or "ab" for bytes.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be opened.

    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.open_or_fd("echo hello |", "r").read()
    'hello\\n'
    """
    if not isinstance(file, str | PathLike):
        return file
    name = _strip_prefix(decode_file_name(file))
    if gzipped := ".gz" in name and _GZIPPED.fullmatch(name):
        opened: Any = _open_gzipped_file(gzipped, mode)
    elif "w" in mode or "a" in mode or name.startswith("|"):
        opened = open_output_file(name, Access(pipes, network), append="a" in mode)
    else:
        opened = open_input_file(name, Access(pipes, network))
    return opened if "b" in mode else io.TextIOWrapper(opened, encoding="utf-8")


def popen(cmd: str, mode: str = "rb") -> Any:
    """Run a command, and return its output (mode "rb" or "r") or its input (mode "wb" or "w") as a file object.

    Raises:
        ArkError: the command cannot be started.

    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.popen("echo hello").read()
    b'hello\\n'
    """
    return open_or_fd(f"|{cmd}" if "w" in mode else f"{cmd}|", mode)


def read_ali_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Iterator[tuple[str, Array]]:
    """Iterate over the alignments of an archive. See :func:`read_vec_int_ark` for the arguments and types.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a vector of integers.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, alignment.tolist()) for key, alignment in kaldi_io.read_ali_ark(io.BytesIO(b"utt1 2 2 4\\n"))]
    [('utt1', [2, 2, 4])]
    """
    return read_vec_int_ark(file_or_fd, pipes=pipes, network=network)


def read_vec_int_ark(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Array]]:
    """Iterate over the vectors of integers of an archive: int32 for binary entries, int64 for entries in text.

    Args:
        file_or_fd: name of a file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a vector of integers.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, vector.tolist()) for key, vector in kaldi_io.read_vec_int_ark(io.BytesIO(b"utt1 3 1 2\\n"))]
    [('utt1', [3, 1, 2])]
    """
    return _read_archive(_INTEGERS, file_or_fd, Access(pipes, network))


def read_vec_int_scp(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Array]]:
    """Iterate over the vectors of integers that a script file names.

    For the arguments and the types of the vectors, see :func:`read_vec_int_ark`. For ranges, see :func:`read_mat_scp`.

    Raises:
        ArkError: during iteration, if a file cannot be opened, an object is not a vector of integers, or a range is
            invalid.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, vector.tolist()) for key, vector in kaldi_io.read_vec_int_scp(io.BytesIO(b"utt1 echo 3 1 2 |\\n"))]
    [('utt1', [3, 1, 2])]
    """
    return _read_script(_INTEGERS, file_or_fd, Access(pipes, network))


def read_vec_int(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Array:
    """Read one vector of integers (size,): int32 for a binary object, int64 for text.

    Args:
        file_or_fd: name of a file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be opened, or the object is not a vector of integers.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.read_vec_int(io.BytesIO(b"3 1 2\\n")).tolist()
    [3, 1, 2]
    """
    return np.asarray(_read_single_object(_INTEGERS, file_or_fd, Access(pipes, network)))


def read_vec_flt_scp(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Array]]:
    """Iterate over the float vectors that a script file names.

    For the arguments and the types of the vectors, see :func:`read_vec_flt_ark`. For ranges, see :func:`read_mat_scp`.

    Raises:
        ArkError: during iteration, if a file cannot be opened, an object is not a float vector, or a range is invalid.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, vector.tolist()) for key, vector in kaldi_io.read_vec_flt_scp(io.BytesIO(b"utt1 echo [ 1 2 ] |\\n"))]
    [('utt1', [1.0, 2.0])]
    """
    return _read_script(_VECTORS, file_or_fd, Access(pipes, network))


def read_vec_flt_ark(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Array]]:
    """Iterate over the float vectors of an archive: float64 for entries in double precision or text, else float32.

    Args:
        file_or_fd: name of a file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a float vector.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, vector.tolist()) for key, vector in kaldi_io.read_vec_flt_ark(io.BytesIO(b"utt1 [ 1 2 ]\\n"))]
    [('utt1', [1.0, 2.0])]
    """
    return _read_archive(_VECTORS, file_or_fd, Access(pipes, network))


def read_vec_flt(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Array:
    """Read one float vector (size,): float64 for an object in double precision or text, else float32.

    For the arguments, see :func:`read_vec_int`.

    Raises:
        ArkError: the file cannot be opened, or the object is not a float vector.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.read_vec_flt(io.BytesIO(b" [ 1 2 ]\\n")).tolist()
    [1.0, 2.0]
    """
    return np.asarray(_read_single_object(_VECTORS, file_or_fd, Access(pipes, network)))


def read_mat_scp(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Iterator[tuple[str, Array]]:
    """Iterate over the matrices that a script file names. For the arguments and types, see :func:`read_mat_ark`.

    A range such as ``feats.ark:123[0:9]`` is a Python slice, as in kaldi_io, so it excludes its end and selects 9
    rows. In Kaldi and io_ark, it includes its end and selects 10 rows.

    Raises:
        ArkError: during iteration, if a file cannot be opened, an object is not a matrix, or a range is invalid.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, matrix.tolist()) for key, matrix in kaldi_io.read_mat_scp(io.BytesIO(b"utt1 echo [ 1 2 ] |[0:1]\\n"))]
    [('utt1', [[1.0, 2.0]])]
    """
    return _read_script(_MATRICES, file_or_fd, Access(pipes, network))


def read_mat_ark(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Iterator[tuple[str, Array]]:
    """Iterate over the matrices of an archive: float64 for entries in double precision, else float32.

    Args:
        file_or_fd: name of a file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a matrix.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> [(key, matrix.shape) for key, matrix in kaldi_io.read_mat_ark(io.BytesIO(b"utt1 [ 1 2 3\\n 4 5 6 ]\\n"))]
    [('utt1', (2, 3))]
    """
    return _read_archive(_MATRICES, file_or_fd, Access(pipes, network))


def read_mat(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Array:
    """Read one matrix (rows, columns): float64 for an object in double precision, else float32.

    Args:
        file_or_fd: name of a file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be opened, or the object is not a matrix.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.read_mat(io.BytesIO(b" [ 1 2 3\\n 4 5 6 ]\\n")).shape
    (2, 3)
    """
    return np.asarray(_read_single_object(_MATRICES, file_or_fd, Access(pipes, network)))


def read_cnet_ark(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Posterior]]:
    """Iterate over the confusion networks of an archive, which are stored as posteriors: see :func:`read_post_ark`.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a posterior.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> list(kaldi_io.read_cnet_ark(io.BytesIO(b"utt1 [ 1 0.5 2 0.5 ] \\n")))
    [('utt1', [[(1, 0.5), (2, 0.5)]])]
    """
    return read_post_ark(file_or_fd, pipes=pipes, network=network)


def read_post_rxspec(file_: str, *, pipes: bool = True, network: bool = True) -> Iterator[tuple[str, Posterior]]:
    """Iterate over the posteriors of an archive or a script file.

    Args:
        file_: ``ark:`` or ``scp:``, followed by the name of the archive or script file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        SpecifierError: the name does not start with ``ark:`` or ``scp:``.
        ArkError: during iteration, if the table cannot be opened, an entry is not a posterior, or a location has a
            range.

    >>> from kaldi_standins import kaldi_io
    >>> list(kaldi_io.read_post_rxspec("ark:echo utt1 [ 1 0.5 2 0.5 ] |"))
    [('utt1', [[(1, 0.5), (2, 0.5)]])]
    """
    if file_.startswith("ark:"):
        return read_post_ark(file_, pipes=pipes, network=network)
    if file_.startswith("scp:"):
        return read_post_scp(file_, pipes=pipes, network=network)
    raise SpecifierError(f"{file_!r} does not start with 'ark:' or 'scp:': write ark:FILE or scp:FILE")


def read_post_scp(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Posterior]]:
    """Iterate over the posteriors that a script file names. For the arguments and types, see :func:`read_post_ark`.

    Raises:
        ArkError: during iteration, if a file cannot be opened, an object is not a posterior, or a location has
            a range.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> list(kaldi_io.read_post_scp(io.BytesIO(b"utt1 echo [ 1 0.5 2 0.5 ] |\\n")))
    [('utt1', [[(1, 0.5), (2, 0.5)]])]
    """
    return _read_script(codec("posterior"), file_or_fd, Access(pipes, network))


def read_post_ark(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Posterior]]:
    """Iterate over the posteriors of an archive: lists (frames) of lists of pairs (index, value).

    Args:
        file_or_fd: name of a file, a command, or an open binary file.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a posterior.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> file = io.BytesIO()
    >>> kaldi_io.write_post(file, [[(1, 0.5), (2, 0.5)], [(3, 1.0)]], key="utt1")
    >>> position = file.seek(0)
    >>> list(kaldi_io.read_post_ark(file))
    [('utt1', [[(1, 0.5), (2, 0.5)], [(3, 1.0)]])]
    """
    return _read_archive(codec("posterior"), file_or_fd, Access(pipes, network))


def read_post(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> Posterior:
    """Read one posterior: a list (frames) of lists of pairs (index, value). For the arguments, see :func:`read_mat`.

    Raises:
        ArkError: the file cannot be opened, or the object is not a posterior.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.read_post(io.BytesIO(b"[ 1 0.5 2 0.5 ] [ 3 1 ]\\n"))
    [[(1, 0.5), (2, 0.5)], [(3, 1.0)]]
    """
    value: Posterior = _read_single_object(codec("posterior"), file_or_fd, Access(pipes, network))
    return value


def read_cntime_ark(
    file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Iterate over the times of confusion networks in an archive: lists of pairs (start, end) in seconds.

    For the arguments, see :func:`read_post_ark`.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry is not a list of pairs.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> list(kaldi_io.read_cntime_ark(io.BytesIO(b"utt1 0 0.5 ; 0.5 1\\n")))
    [('utt1', [(0.0, 0.5), (0.5, 1.0)])]
    """
    return _read_archive(_TIMES, file_or_fd, Access(pipes, network))


def read_cntime(file_or_fd: FileOrName, *, pipes: bool = True, network: bool = True) -> list[tuple[float, float]]:
    """Read the times of one confusion network: a list of pairs (start, end) in seconds.

    For the arguments, see :func:`read_mat`.

    Raises:
        ArkError: the file cannot be opened or read.

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> kaldi_io.read_cntime(io.BytesIO(b"0 0.5 ; 0.5 1\\n"))
    [(0.0, 0.5), (0.5, 1.0)]
    """
    value: list[tuple[float, float]] = _read_single_object(_TIMES, file_or_fd, Access(pipes, network))
    return value


def write_vec_int(file_or_fd: FileOrName, v: Array, key: str = "", *, pipes: bool = True, network: bool = True) -> None:
    """Write a vector of integers in binary, as an entry of an archive or as a single object.

    Args:
        file_or_fd: name of a file, a command, or an open binary file, which stays open for more entries.
        v: int32 array of shape (size,).
        key: key of the entry. An empty key writes a single object.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the key or the value is invalid, or the file cannot be written.

    >>> import io, numpy as np
    >>> from kaldi_standins import kaldi_io
    >>> file = io.BytesIO()
    >>> kaldi_io.write_vec_int(file, np.array([3, 1, 2], np.int32))
    >>> kaldi_io.read_vec_int(io.BytesIO(file.getvalue())).tolist()
    [3, 1, 2]
    """
    _write_object(_INT_VECTOR, file_or_fd, v, key, Access(pipes, network))


def write_vec_flt(file_or_fd: FileOrName, v: Array, key: str = "", *, pipes: bool = True, network: bool = True) -> None:
    """Write a float32 or float64 vector ``v`` (size,) in binary. See :func:`write_vec_int` for the arguments.

    Raises:
        UnsupportedDataType: ``v`` is not an array of float32 or float64.
        ArkError: the key is invalid, ``v`` is not a vector, or the file cannot be written.

    >>> import io, numpy as np
    >>> from kaldi_standins import kaldi_io
    >>> file = io.BytesIO()
    >>> kaldi_io.write_vec_flt(file, np.array([1.5, 2.0], np.float32))
    >>> kaldi_io.read_vec_flt(io.BytesIO(file.getvalue())).tolist()
    [1.5, 2.0]
    """
    _check_float(v)
    _write_object(_FLOAT_VECTOR, file_or_fd, v, key, Access(pipes, network))


def write_mat(file_or_fd: FileOrName, m: Array, key: str = "", *, pipes: bool = True, network: bool = True) -> None:
    """Write a float32 or float64 matrix ``m`` (rows, columns) in binary. See :func:`write_vec_int` for the arguments.

    Raises:
        UnsupportedDataType: ``m`` is not an array of float32 or float64.
        ArkError: the key is invalid, ``m`` is not a matrix, or the file cannot be written.

    >>> import io
    >>> import numpy as np
    >>> from kaldi_standins import kaldi_io
    >>> file = io.BytesIO()
    >>> kaldi_io.write_mat(file, np.zeros((5, 2), np.float32), key="utt1")
    >>> file.getvalue()[:10]
    b'utt1 \\x00BFM '
    """
    _check_float(m)
    _write_object(_FLOAT_MATRIX, file_or_fd, m, key, Access(pipes, network))


def write_ark_scp(key: str, mat: Array, ark_fout: Any, scp_out: Any) -> None:
    """Write a matrix to an open archive, and its location to an open script file, as WeNet's copy of kaldi_io does.

    Args:
        key: key of the entry.
        mat: float32 or float64 matrix (rows, columns).
        ark_fout: binary file, whose name is written to the script file.
        scp_out: text file.

    Raises:
        ArkError: the key or the matrix is invalid, or a file cannot be written.

    >>> import io, numpy as np, tempfile
    >>> from kaldi_standins import kaldi_io
    >>> script = io.StringIO()
    >>> with tempfile.NamedTemporaryFile() as archive:
    ...     kaldi_io.write_ark_scp("utt1", np.zeros((5, 2), np.float32), archive, script)
    >>> script.getvalue().rpartition(":")[2]
    '5\\n'
    """
    offset = ark_fout.tell() + len(encode_key(key)) + 1
    write_mat(ark_fout, mat, key)
    scp_out.write(f"{key}\t{ark_fout.name}:{offset}\n")


def write_post(
    file_or_fd: FileOrName, p: Posterior, key: str = "", *, pipes: bool = True, network: bool = True
) -> None:
    """Write a posterior in binary. For the other arguments and the errors, see :func:`write_vec_int`.

    ``p`` is a list (frames) of lists of pairs (index, value).

    >>> import io
    >>> from kaldi_standins import kaldi_io
    >>> file = io.BytesIO()
    >>> kaldi_io.write_post(file, [[(1, 0.5), (2, 0.5)]])
    >>> kaldi_io.read_post(io.BytesIO(file.getvalue()))
    [[(1, 0.5), (2, 0.5)]]
    """
    _write_object(codec("posterior"), file_or_fd, p, key, Access(pipes, network))


def read_segments_as_bool_vec(
    segments_file: Any, return_key: bool = False, *, pipes: bool = True, network: bool = True
) -> Any:
    """Read the segments of one recording as a mask of frames, at 100 frames per second.

    Args:
        segments_file: name of a segments file, or an open binary file. Each line has an utterance, a recording, a start
            time and an end time in seconds.
        return_key: True to return also the name of the recording.
        pipes, network: False to refuse commands and URLs, respectively.

    Returns:
        A bool array (frames,), which is True in segments and ends with the last segment. Times are rounded to frames.
        With ``return_key``, a pair of the array and the name of the recording.

    Raises:
        FormatError: the file has no segments, a line of fewer than 4 fields, segments of several recordings, or times
            that are invalid or decrease.
        ArkError: the file cannot be opened.

    >>> import io
    >>> from kaldi_standins.kaldi_io import read_segments_as_bool_vec
    >>> mask = read_segments_as_bool_vec(io.BytesIO(b"utt1 rec1 0.0 0.5\\nutt2 rec1 1.0 1.2\\n"))
    >>> mask.shape, int(mask.sum())
    ((120,), 70)
    """
    name = get_stream_name(segments_file)
    with open_source(segments_file, Access(pipes, network), whole=True) as source:
        lines = [line.split() for line in source.read_text().decode("utf-8", "surrogateescape").splitlines()]
    fields = [line for line in lines if line]
    if not fields:
        raise FormatError(
            "has no segments: write an utterance, a recording, a start time and an end time on every line", file=name
        )
    if any(len(line) < 4 for line in fields):
        raise FormatError(
            "has a line of fewer than 4 fields: write an utterance, a recording, a start time and an end time on every "
            "line",
            file=name,
        )
    recordings = {line[1] for line in fields}
    if len(recordings) > 1:
        raise FormatError(
            f"has segments of {len(recordings)} recordings: write one segments file for each recording", file=name
        )
    try:
        seconds = np.array([line[2:4] for line in fields], np.float32)
    except ValueError as error:
        raise FormatError(f"has a time that is not a number: {error}; correct the line", file=name) from error
    if not np.isfinite(seconds).all():
        raise FormatError("has a time that is NaN or infinite: correct the line", file=name)
    frames = np.rint(100 * seconds).astype(int)
    if (np.diff(np.append(0, frames)) < 0).any():
        raise FormatError(
            "has times that are negative or decrease: sort the segments by time, and remove overlaps", file=name
        )
    mask = np.zeros(frames[-1, 1], bool)
    for begin, end in frames:
        mask[begin:end] = True
    return (mask, fields[0][1]) if return_key else mask


# Public code imports the following private functions, for example WeSpeaker's and VBx's readers of PLDA models. These
# readers parse the bytes around an object themselves, so the functions must not read beyond the object.

_CHUNK_BYTES = 1 << 20  # Number of bytes that are read at once.


def _read_mat_binary(fd: Any) -> Array:
    """Read a matrix (rows, columns) from an open file, after the two bytes of the binary marker."""
    token = fd.read(3)
    if token.startswith(b"CM"):
        return _read_compressed_mat(fd, token.decode())
    sizes = fd.read(10)  # The numbers of rows and columns. A size byte precedes each number.
    element_count = _parse_size(sizes[1:5]) * _parse_size(sizes[6:10])
    return _decode_object(_MATRICES, token, sizes + _read_exactly(fd, element_count * _get_element_size(token)), fd)


def _read_vec_flt_binary(fd: Any) -> Array:
    """Read a float vector (size,) from an open file, after the two bytes of the binary marker."""
    token, size = fd.read(3), fd.read(5)  # A size byte precedes the number of elements.
    data = _read_exactly(fd, _parse_size(size[1:]) * _get_element_size(token))
    return _decode_object(_VECTORS, token, size + data, fd)


def _read_compressed_mat(fd: Any, format: str) -> Array:
    """Read a compressed matrix, after its first three bytes, from an open file. ``format`` is "CM ", "CM2" or "CM3"."""
    token = format.encode()
    if token in (b"CM2", b"CM3"):
        token += fd.read(1)
    header = fd.read(16)  # The minimum, the range, and the numbers of rows and columns.
    rows, columns = _parse_size(header[8:12]), _parse_size(header[12:])
    # A column of CM has 8 bytes of percentiles before the codes.
    size = {b"CM ": (rows + 8) * columns, b"CM2 ": 2 * rows * columns, b"CM3 ": rows * columns}.get(token, 0)
    return _decode_object(_MATRICES, token, header + _read_exactly(fd, size), fd)


def _read_mat_ascii(fd: Any) -> Array:
    """Read a text matrix from an open file whose opening bracket has already been consumed."""
    lines = [b"["]
    while not lines[-1].rstrip().endswith(b"]"):
        lines.append(fd.readline())
        if not lines[-1]:
            break
    return np.asarray(_MATRICES.read(BytesSource(b" ".join(lines), name=f"{get_stream_name(fd)} (matrix)")))


def _parse_size(data: bytes) -> int:
    """Decode a little-endian int32. Return 0 for a negative number, as in a damaged file."""
    return max(0, int.from_bytes(data, "little", signed=True))


def _get_element_size(token: bytes) -> int:
    return 8 if token.startswith(b"D") else 4


def _read_exactly(fd: Any, size: int) -> bytes:
    """Read ``size`` bytes, or fewer at the end of the file.

    The bytes are read in chunks, so that a damaged file with a huge size does not fill the memory.
    """
    chunks: list[bytes] = []
    while size > 0 and (chunk := fd.read(min(size, _CHUNK_BYTES))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _decode_object(decoder: Codec[Any], token: bytes, data: bytes, fd: Any) -> Array:
    return np.asarray(decoder.read(BytesSource(BINARY_MARKER + token + data, name=f"{get_stream_name(fd)} (object)")))


class _Matrices(AsStored):
    """Codec of matrices. Any other binary object raises kaldi_io's error."""

    def __init__(self) -> None:
        super().__init__("matrix")

    def read(self, source: Source) -> Any:
        _check_token(source, (b"FM ", b"DM ", b"CM ", b"CM2", b"CM3"), UnknownMatrixHeader, "matrix")
        return super().read(source)


class _Vectors(AsStored):
    """Codec of vectors. Vectors in text are float64."""

    def __init__(self) -> None:
        super().__init__("vector")

    def read(self, source: Source) -> Any:
        _check_token(source, (b"FV ", b"DV "), UnknownVectorHeader, "vector")
        return super().read(source)

    def _choose_codec(self, source: Source) -> Codec[Any]:
        return super()._choose_codec(source) if source.peek(2) == BINARY_MARKER else self._double


def _check_token(source: Source, tokens: tuple[bytes, ...], error: type[FormatError], kind: str) -> None:
    """Raise ``error`` if the next object is binary, but not a float ``kind``, which starts with one of ``tokens``."""
    head = source.peek(5)
    if head[:2] == BINARY_MARKER and head[2:] not in tokens:
        raise error(f"expected a float {kind}, found {head[2:]!r}", file=source.name, offset=source.tell())


class _Integers(Codec[Array]):
    """Codec of vectors of integers. Vectors in text are int64, with or without brackets."""

    def __init__(self) -> None:
        self._codec = codec("int-vector")

    def read(self, source: Source) -> Array:
        if source.peek(2) == BINARY_MARKER:
            return np.asarray(self._codec.read(source))
        start = source.tell()
        if not source.peek(1):
            source.fail("expected a line of integers, found the end", start)
        words = [word for word in source.read_line().split() if word not in (b"[", b"]")]
        try:
            return np.array([int(word) for word in words], int)
        except (ValueError, OverflowError):
            source.fail("expected a line of integers: write whole numbers separated by spaces", start)


class _Times(Codec[list[tuple[float, float]]]):
    """Codec of pairs (start, end) in seconds."""

    def __init__(self) -> None:
        self._codec = codec("float-pair-vector")

    def read(self, source: Source) -> list[tuple[float, float]]:
        return [(begin, end) for begin, end in self._codec.read(source).tolist()]


_MATRICES, _VECTORS, _INTEGERS, _TIMES = _Matrices(), _Vectors(), _Integers(), _Times()


def _strip_prefix(name: str) -> str:
    """Remove a prefix such as ``ark,t:`` from a name. A name without a prefix is returned unchanged."""
    prefix = ":" in name and _PREFIX.match(name)
    return name[prefix.end() :] if prefix else name


def _open_gzipped_file(match: re.Match[str], mode: str) -> Any:
    """Open a gzipped file in binary mode. ``match`` is the match of ``_GZIPPED`` with a file name.

    The offset in the name counts bytes of the uncompressed data.
    """
    path, offset = match.groups()
    try:
        stream = gzip.GzipFile(path, mode[0] + "b")
        if offset is not None:
            stream.seek(int(offset))
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise OpenError(f"cannot be opened: {getattr(error, 'strerror', None) or error}", file=match.string) from error
    return stream


def _open_source(file: FileOrName, access: Access, whole: bool) -> AbstractContextManager[Source]:
    """Open a file, which may be gzipped or have a prefix such as ``ark:``. See :func:`.file_objects.open_source`."""
    if isinstance(file, str | PathLike):
        name = _strip_prefix(decode_file_name(file))
        if gzipped := _GZIPPED.fullmatch(name):
            return _open_gzipped_source(gzipped)
        file = name
    return open_source(file, access, whole=whole)


@contextmanager
def _open_gzipped_source(match: re.Match[str]) -> Iterator[Source]:
    """Yield a source of the uncompressed data of a gzipped file. For ``match``, see :func:`_open_gzipped_file`."""
    with _open_gzipped_file(match, "rb") as stream, open_source(stream) as source:
        yield source


@repeat_errors
def _read_archive(object_codec: Codec[Any], file: FileOrName, access: Access) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of an archive. ``object_codec`` reads the values."""
    with _open_source(file, access, whole=True) as source:
        yield from read_entries(source, object_codec)


def _read_single_object(object_codec: Codec[Any], file: FileOrName, access: Access) -> Any:
    """Read one object with ``object_codec``, from an open file or from a location."""
    with _open_source(file, access, whole=False) as source:
        return object_codec.read(source)


@repeat_errors
def _read_script(object_codec: Codec[Any], file: FileOrName, access: Access) -> Iterator[tuple[str, Any]]:
    """Yield keys and objects of a script file. A range after a location is a Python slice, so it excludes its end."""
    with _open_source(file, access, whole=True) as source:
        script = Script(source.read_text(), source.name)
    loader = Loader(object_codec, access, in_order=True)

    def load_object(key: str, location: str) -> Any:
        """Load the object at a location, which may be a gzipped file. Errors name the key."""
        if not _GZIPPED.fullmatch(location):
            return loader.load_value(key, location)
        try:
            return _read_single_object(object_codec, location, access)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__

    for key, location in script.iterate_lines():
        match = _RANGE.fullmatch(location)
        if match is None:
            yield key, load_object(key, location)
            continue
        location, range_text = match.groups()
        value = load_object(key, location)
        slices = _parse_slices(range_text, key)
        if not isinstance(value, np.ndarray):
            raise RangeError(f"the range [{range_text}] cannot cut a posterior: remove the range", key=key)
        if len(slices) > value.ndim:
            dimensions = f"{len(slices)} dimensions, but the array has {value.ndim}: shorten the range"
            raise RangeError(f"the range [{range_text}] has {dimensions}", key=key)
        yield key, value[slices].copy()


def _parse_slices(text: str, key: str) -> tuple[slice, ...]:
    """Parse a range as kaldi_io does. The slices exclude their ends, unlike Kaldi's ranges. Errors name the key."""
    intervals = [_INTERVAL.fullmatch(interval) for interval in text.split(",")]
    if None in intervals:
        raise RangeSyntaxError(f"'[{text}]' is not a range: write a range such as [0:10] or [:,0:13]", key=key)
    bounds = [[int(bound) if bound else None for bound in interval.groups()] for interval in intervals if interval]
    return tuple(slice(*pair) for pair in bounds)


def _check_float(array: Array) -> None:
    """Raise UnsupportedDataType unless ``array`` is an array of float32 or float64."""
    if not isinstance(array, np.ndarray) or array.dtype not in _FLOATS:
        shown = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise UnsupportedDataType(
            f"needs an array of float32 or float64, not {shown}: convert the value with np.asarray(value, np.float32)"
        )


def _write_object(object_codec: Codec[Any], file: FileOrName, value: Any, key: str, access: Access) -> None:
    """Write an entry, or an object without a key if ``key`` is empty. If the value is refused, nothing is written."""
    buffer = CollectedChunks()
    try:
        if key:
            check_key(key)
            buffer.write(encode_key(key) + b" ")
        object_codec.write(buffer, value)
    except ArkError as error:
        raise name_key(error, key) from error.__cause__
    data = b"".join(buffer)
    if isinstance(file, io.BufferedIOBase):  # For small objects, this is faster than open_sink.
        check_writable(file)
        try:
            file.write(data)
        except BaseException as error:
            mark_broken(file)
            if not isinstance(error, (OSError, ValueError)):
                raise
            raise WriteError(f"cannot be written: {describe_error(error)}", file=get_stream_name(file)) from error
    elif isinstance(file, str | PathLike):
        with open_or_fd(file, "wb", pipes=access.pipes, network=access.network) as output:
            output.write(data)
    else:
        with open_sink(file) as output:
            output.write(data)
