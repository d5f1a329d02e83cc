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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy.typing as npt

from io_ark.codecs import AnyCodec, Codec
from io_ark.codecs.kinds import (
    ArrayKind,
    Float32,
    Float32Kind,
    Float64,
    Float64Kind,
    FloatKind,
    Int32,
    Int32Kind,
    Kind,
    OtherWrittenKind,
)
from io_ark.errors import FormatError
from io_ark.specifier import (
    Rspecifier,
    Wspecifier,
    classify_rspecifier,
    classify_wspecifier,
    name_of,
)
from io_ark.streams.files import OpenFiles
from io_ark.tables.loader import Loader, read_object
from io_ark.tables.readers import SequentialReader
from io_ark.tables.script import Script, ScriptTable
from io_ark.tables.writers import Writer

if TYPE_CHECKING:
    from io_ark.codecs.compressed import CompressedMatrix
    from io_ark.codecs.posterior import Posterior
    from io_ark.codecs.wave import Wave, WaveInfo


@overload
def load(rxfilename: str | PathLike[str], *, kind: Float32Kind, pipes: bool = ...) -> Float32: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Float64Kind, pipes: bool = ...) -> Float64: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Int32Kind, pipes: bool = ...) -> Int32: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Literal["int"], pipes: bool = ...) -> int: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: FloatKind, pipes: bool = ...) -> float: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Literal["token"], pipes: bool = ...) -> str: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Literal["token-vector"], pipes: bool = ...) -> list[str]: ...
@overload
def load(
    rxfilename: str | PathLike[str], *, kind: Literal["compressed-matrix"], pipes: bool = ...
) -> CompressedMatrix: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Literal["posterior"], pipes: bool = ...) -> Posterior: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Literal["wave"], pipes: bool = ...) -> Wave: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Literal["wave-info"], pipes: bool = ...) -> WaveInfo: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: Kind, pipes: bool = ...) -> Any: ...
@overload
def load(rxfilename: str | PathLike[str], *, kind: None = ..., pipes: bool = ...) -> Any: ...
def load(rxfilename: str | PathLike[str], *, kind: Kind | None = None, pipes: bool = True) -> Any:
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


@overload
def read(rspecifier: str | PathLike[str], *, kind: Float32Kind, pipes: bool = ...) -> Iterator[tuple[str, Float32]]: ...
@overload
def read(rspecifier: str | PathLike[str], *, kind: Float64Kind, pipes: bool = ...) -> Iterator[tuple[str, Float64]]: ...
@overload
def read(rspecifier: str | PathLike[str], *, kind: Int32Kind, pipes: bool = ...) -> Iterator[tuple[str, Int32]]: ...
@overload
def read(rspecifier: str | PathLike[str], *, kind: Literal["int"], pipes: bool = ...) -> Iterator[tuple[str, int]]: ...
@overload
def read(rspecifier: str | PathLike[str], *, kind: FloatKind, pipes: bool = ...) -> Iterator[tuple[str, float]]: ...
@overload
def read(
    rspecifier: str | PathLike[str], *, kind: Literal["token"], pipes: bool = ...
) -> Iterator[tuple[str, str]]: ...
@overload
def read(
    rspecifier: str | PathLike[str], *, kind: Literal["token-vector"], pipes: bool = ...
) -> Iterator[tuple[str, list[str]]]: ...
@overload
def read(
    rspecifier: str | PathLike[str], *, kind: Literal["compressed-matrix"], pipes: bool = ...
) -> Iterator[tuple[str, CompressedMatrix]]: ...
@overload
def read(
    rspecifier: str | PathLike[str], *, kind: Literal["posterior"], pipes: bool = ...
) -> Iterator[tuple[str, Posterior]]: ...
@overload
def read(
    rspecifier: str | PathLike[str], *, kind: Literal["wave"], pipes: bool = ...
) -> Iterator[tuple[str, Wave]]: ...
@overload
def read(
    rspecifier: str | PathLike[str], *, kind: Literal["wave-info"], pipes: bool = ...
) -> Iterator[tuple[str, WaveInfo]]: ...
@overload
def read(rspecifier: str | PathLike[str], *, kind: Kind, pipes: bool = ...) -> Iterator[tuple[str, Any]]: ...
@overload
def read(rspecifier: str | PathLike[str], *, kind: None = ..., pipes: bool = ...) -> Iterator[tuple[str, Any]]: ...
def read(rspecifier: str | PathLike[str], *, kind: Kind | None = None, pipes: bool = True) -> Iterator[tuple[str, Any]]:
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


@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Float32Kind,
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, Float32]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Float64Kind,
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, Float64]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str], *, kind: Int32Kind, mmap: bool = ..., max_open_files: int = ..., pipes: bool = ...
) -> Mapping[str, Int32]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["int"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, int]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str], *, kind: FloatKind, mmap: bool = ..., max_open_files: int = ..., pipes: bool = ...
) -> Mapping[str, float]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["token"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, str]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["token-vector"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, list[str]]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["compressed-matrix"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, CompressedMatrix]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["posterior"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, Posterior]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["wave"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, Wave]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Literal["wave-info"],
    mmap: bool = ...,
    max_open_files: int = ...,
    pipes: bool = ...,
) -> Mapping[str, WaveInfo]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str], *, kind: Kind, mmap: bool = ..., max_open_files: int = ..., pipes: bool = ...
) -> Mapping[str, Any]: ...
@overload
def load_scp(
    rxfilename: str | PathLike[str], *, kind: None = ..., mmap: bool = ..., max_open_files: int = ..., pipes: bool = ...
) -> Mapping[str, Any]: ...
def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Kind | None = None,
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


@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: ArrayKind, pipes: bool = ...
) -> Writer[npt.ArrayLike]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: Literal["int"], pipes: bool = ...
) -> Writer[int]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: FloatKind, pipes: bool = ...
) -> Writer[float]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: Literal["token"], pipes: bool = ...
) -> Writer[str]: ...
@overload
def writer(
    wspecifier: str | PathLike[str],
    *,
    compress: int | str | None = ...,
    kind: Literal["token-vector"],
    pipes: bool = ...,
) -> Writer[Iterable[str]]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: Literal["posterior"], pipes: bool = ...
) -> Writer[Sequence[Sequence[tuple[int, float]]]]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: Literal["wave"], pipes: bool = ...
) -> Writer[Wave]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: OtherWrittenKind, pipes: bool = ...
) -> Writer[Any]: ...
@overload
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = ..., kind: None = ..., pipes: bool = ...
) -> Writer[Any]: ...
def writer(
    wspecifier: str | PathLike[str], *, compress: int | str | None = None, kind: Kind | None = None, pipes: bool = True
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
