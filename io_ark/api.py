"""The casual face: the type is told from the bytes when reading, and from the value when writing.

>>> import io_ark, numpy as np, tempfile, os
>>> folder = tempfile.mkdtemp()
>>> with io_ark.writer(f"ark,scp:{folder}/a.ark,{folder}/a.scp") as writer:
...     writer["utt1"] = np.eye(2, dtype=np.float32)
>>> io_ark.load_scp(f"{folder}/a.scp")["utt1"]
array([[1., 0.],
       [0., 1.]], dtype=float32)
>>> [key for key, value in io_ark.read(f"ark:{folder}/a.ark")]
['utt1']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from io_ark import codecs
from io_ark.codecs import Codec
from io_ark.codecs.base import Sink
from io_ark.codecs.detect import detect_kind
from io_ark.errors import FormatError
from io_ark.specifier import (
    Range,
    Rspecifier,
    Wspecifier,
    classify_rspecifier,
    classify_wspecifier,
    name_of,
)
from io_ark.streams.files import OpenFiles
from io_ark.streams.source import Source
from io_ark.tables.loader import Loader, read_object
from io_ark.tables.readers import SequentialReader
from io_ark.tables.script import Script, ScriptTable
from io_ark.tables.writers import Writer


class AnyCodec(Codec[Any]):
    """Objects of any kind: what stands there is told from its first bytes, what is written from the value.

    Args:
        compress: how float matrices are compressed: a method's number or name, such as "speech"; None: not at all.
        kind: what all values are written as; None tells it from each.
    """

    marker = b""  # the codec that is told writes it

    def __init__(self, compress: int | str | None = None, kind: str | None = None) -> None:
        self._kind = kind
        self._compress = None if compress is None else codecs.codec("compressed-matrix", method=compress)
        self._told: dict[tuple[str, int], Codec[Any]] = {}

    def read(self, source: Source) -> Any:
        return self._tell(source).read(source)

    def read_range(self, source: Source, part: Range) -> Any:
        return self._tell(source).read_range(source, part)

    def read_info(self, source: Source) -> Any:
        return self._tell(source).read_info(source)

    def _tell(self, source: Source) -> Codec[Any]:
        """The codec for the object that stands here; each is made once."""
        kind, options = detect_kind(source)
        known = kind, len(options)  # a kind has one set of options besides none
        if known not in self._told:
            self._told[known] = codecs.codec(kind, **options)
        return self._told[known]

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        kind = self._kind or kind_of(value)
        if self._compress is not None and kind in ("matrix", "double-matrix") and binary:
            self._compress.write(sink, value, binary=True)
        else:
            codecs.codec(kind).write(sink, value, binary=binary)


def kind_of(value: Any) -> str:
    """The kind of object that a value is written as.

    Raises:
        FormatError: there is no kind for it.

    >>> kind_of(np.zeros((2, 3))), kind_of([1, 2]), kind_of("word"), kind_of([[1, 2], [3]])
    ('double-matrix', 'int-vector', 'token', 'int-vector-vector')
    """
    named = _KINDS_OF_TYPES.get(type(value).__name__)
    if named is not None:
        return named
    if isinstance(value, str):
        return "token"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | np.integer):
        return "int"
    if isinstance(value, float | np.floating):
        return "double" if isinstance(value, float) and not isinstance(value, np.float32) else "float"
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        kind = _KINDS_OF_ARRAYS.get((array.ndim, array.dtype.kind))
        if kind is not None:
            return kind if array.dtype.itemsize < 8 or array.dtype.kind != "f" else f"double-{kind}"
    if isinstance(value, list | tuple):
        return _kind_of_list(value)
    raise FormatError(f"there is no kind of object for a {type(value).__name__}: say which is meant")


_KINDS_OF_TYPES = {
    "Wave": "wave",
    "CompressedMatrix": "compressed-matrix",
    "HtkFeatures": "htk",
    "SparseVector": "sparse-vector",
    "SparseMatrix": "sparse-matrix",
}
_KINDS_OF_ARRAYS = {(2, "f"): "matrix", (1, "f"): "vector", (1, "i"): "int-vector", (1, "u"): "int-vector"}


def _kind_of_list(value: list[Any] | tuple[Any, ...]) -> str:
    """Lists: tokens, integers, lists of integers, posteriors (lists of pairs of an integer and a float)."""
    if value and all(isinstance(element, str) for element in value):
        return "token-vector"
    if all(isinstance(element, int | np.integer) for element in value):
        return "int-vector"
    if all(isinstance(element, list | tuple | np.ndarray) for element in value):
        inner = [part for element in value for part in element]
        if all(isinstance(part, int | np.integer) for part in inner):
            return "int-vector-vector"
        if all(isinstance(part, tuple) and len(part) == 2 for part in inner):
            return "posterior"
    raise FormatError(
        "a list is written if it holds words, integers, lists of integers, or a posterior's lists of pairs"
    )


def load(rxfilename: str | PathLike[str], *, pipes: bool = True) -> Any:
    """The object that an rxfilename names: ``feats.ark:123``, ``mean.vec``, ``feats.ark:123[0:9]``, ``a.wav``, ``-``.

    Args:
        rxfilename: where it is; a range in brackets, ends included, takes a part. A path is a file's name as it is.
        pipes: whether a command may be run.

    Returns:
        What the bytes say it is: an array for a matrix or vector (float64 if stored so), a :class:`Wave`, a number ...

    Raises:
        ArkError: it cannot be opened, or is no object.
    """
    return read_object(AnyCodec(), rxfilename, pipes=pipes)


def read(rspecifier: str | PathLike[str], *, pipes: bool = True) -> Iterator[tuple[str, Any]]:
    """The entries of a table, in its order.

    Args:
        rspecifier: ``ark:feats.ark``, ``scp,p:feats.scp``, ``ark:-``; or the name of an archive or (``*.scp``) script,
            or its path.
        pipes: whether commands may be run.

    Yields:
        Pairs of a key and a value (see :func:`load`).

    Raises:
        ArkError: the table cannot be opened, or an entry not be read.
    """
    name = name_of(rspecifier)
    table = classify_rspecifier(name) or Rspecifier("scp" if name.endswith(".scp") else "ark", name)
    return _entries(SequentialReader(AnyCodec(), table, pipes=pipes))


def _entries(reader: SequentialReader[Any]) -> Iterator[tuple[str, Any]]:
    with reader:
        yield from reader


def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: str | None = None,
    mmap: bool = False,
    max_open_files: int = 64,
    pipes: bool = True,
) -> Mapping[str, Any]:
    """A script file as a mapping from key to object, which is read when it is asked for.

    Ten million lines open in seconds, in about 20 bytes a line besides the file itself. The mapping can be shared by
    threads and forked processes, and pickled (for spawned DataLoader workers): no file position is shared.

    Args:
        rxfilename: the script file: an rxfilename, or a path.
        kind: what the objects are, such as "matrix"; None tells it from the bytes of each.
        mmap: map archives into memory, and return views of them (read-only) where the layout allows.
        max_open_files: how many archives are held open.
        pipes: whether commands may be run.

    Raises:
        ArkError: it cannot be opened, is no script file, or has a key twice.
    """
    codec: str | Codec[Any] = AnyCodec() if kind is None else kind
    loader = Loader(codec, pipes=pipes, files=OpenFiles(max_open_files, mmap=mmap))
    return ScriptTable(Script.open(rxfilename, pipes=pipes), loader.load_value)


def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = None, kind: str | None = None, pipes: bool = True
) -> Writer[Any]:
    """A writer that tells from each value how it is to be written.

    Args:
        wspecifier: ``ark:feats.ark``, ``ark,t:-``, ``ark,scp:feats.ark,feats.scp``; or the name of an archive, or its
            path.
        compress: how float matrices are compressed: "speech" (the usual one), another method's name or number; None:
            not at all. Text is never compressed.
        kind: what all values are, such as "vector"; None tells it from each.
        pipes: whether commands may be run.

    Returns:
        To be used as ``with io_ark.writer(...) as w: w[key] = value``. Arrays keep their precision: float64 is written
        as double.

    Raises:
        ArkError: it cannot be opened.
    """
    name = name_of(wspecifier)
    table = classify_wspecifier(name) or Wspecifier("ark", name)
    if compress is not None and kind not in (None, "matrix", "double-matrix", "compressed-matrix"):
        raise FormatError(f"compress={compress!r}: matrices are compressed, not objects of the kind {kind!r}")
    if kind is None or (compress is not None and kind != "compressed-matrix"):
        return Writer(AnyCodec(compress, kind), table, pipes=pipes)
    return Writer(kind, table, pipes=pipes, **({} if compress is None else {"method": compress}))
