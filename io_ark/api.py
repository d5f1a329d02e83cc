"""Load and write tables. The kind of an object is detected from the data when reading, from the value when writing.

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

from io_ark.codecs import AnyCodec, Codec
from io_ark.codecs.kinds import Kind
from io_ark.errors import FormatError, SpecifierError
from io_ark.specifier import Rspecifier, Wspecifier, classify_rspecifier, classify_wspecifier, decode_file_name
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFiles
from io_ark.streams.output import open_output
from io_ark.tables.loader import Loader, RelativeTo, read_rxfilename, resolve_codec, resolve_folder
from io_ark.tables.readers import SequentialReader
from io_ark.tables.script import Script, ScriptTable
from io_ark.tables.writers import Writer


def load(
    rxfilename: str | PathLike[str],
    *,
    kind: Kind | Codec[Any] | None = None,
    pipes: bool = True,
    network: bool = True,
    **options: Any,
) -> Any:
    """Load one object from a file, a URL, a command or standard input. :func:`save` writes such an object.

    Args:
        rxfilename: location of the object: a file (``mean.vec``), a file and an offset in bytes (``feats.ark:123``), a
            URL, ``-`` for standard input, or a command that ends in ``|``. A range in brackets (``a.ark:123[0:9]``)
            selects a part of the object, both ends included. A path object is a plain file name.
        kind: kind of the object, such as "matrix" (see :mod:`io_ark.codecs`), or a codec. If None, the kind is
            detected from the data.
        pipes: False to refuse commands.
        network: False to refuse URLs.
        options: arguments of the codec of ``kind``.

    Returns:
        The object: an array for a matrix or vector (in the stored precision, unless ``kind`` sets it), a
        :class:`~io_ark.codecs.wave.Wave` for audio, a number, a string, or an object of another kind.

    Raises:
        ArkError: the object cannot be opened or read as this kind, or a script file is passed without ``kind``.
        TypeError: ``options`` are passed, but ``kind`` is not a name.

    >>> import io_ark, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/identity.mat"
    >>> io_ark.save(name, np.eye(3, dtype=np.float32))
    >>> io_ark.load(name + "[0:1]")
    array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    """
    name = decode_file_name(rxfilename)
    if kind is None and name.endswith(".scp"):
        raise SpecifierError("is a script file: read it with io_ark.load_scp or io_ark.read", file=name)
    return read_rxfilename(resolve_codec(AnyCodec() if kind is None else kind, options), name, Access(pipes, network))


def save(
    wxfilename: str | PathLike[str],
    value: Any,
    *,
    kind: Kind | Codec[Any] | None = None,
    binary: bool = True,
    compress: int | str | None = None,
    pipes: bool = True,
    network: bool = True,
    **options: Any,
) -> None:
    """Save one object to a file, a URL or a command. :func:`load` reads the object.

    Args:
        wxfilename: location to write to: a path, a URL, ``-`` for standard output, or a command that starts with
            ``|``.
        value: the object.
        kind: kind of the object, such as "matrix" (see :mod:`io_ark.codecs`), or a codec. If None, the kind is
            detected from the value.
        binary: True for the binary format, False for text.
        compress: compression method of a float matrix, as for :func:`writer`.
        pipes: False to refuse commands.
        network: False to refuse URLs.
        options: arguments of the codec of ``kind``, such as ``method`` for "compressed-matrix".

    Raises:
        ArkError: the value cannot be written as this kind, ``compress`` is passed for a kind that is not a float
            matrix, ``wxfilename`` ends in ``.scp``, or the output cannot be written.
        TypeError: ``options`` are passed, but ``kind`` is not a name.

    >>> import io_ark, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/mean.vec"
    >>> io_ark.save(name, np.float32([1, 2]))
    >>> io_ark.load(name)
    array([1., 2.], dtype=float32)
    """
    name = _refuse_script_name(decode_file_name(wxfilename))
    codec = _choose_codec(kind, compress, options)
    with open_output(name, access=Access(pipes, network)) as output:
        codec.write(output, value, binary=binary)


def read(
    rspecifier: str | PathLike[str], *, kind: Kind | None = None, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Any]]:
    """Iterate over the entries of a table, in the order of the table.

    Args:
        rspecifier: ``ark:feats.ark``, ``scp,p:feats.scp``, ``ark:-``; or the name or path of an archive or of a script
            file (``*.scp``).
        kind: kind of the objects, such as "matrix". If None, the kind of each object is detected.
        pipes: False to refuse commands.
        network: False to refuse URLs.

    Yields:
        Pairs of a key and a value (see :func:`load`).

    Raises:
        ArkError: the table cannot be opened, or an entry cannot be read. The iterator raises the errors of entries.

    >>> import io_ark, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/means.ark"
    >>> with io_ark.writer(name) as writer:
    ...     writer["utt1"] = np.float32([1, 2])
    >>> for key, value in io_ark.read(name):
    ...     print(key, value)
    utt1 [1. 2.]
    """
    name = decode_file_name(rspecifier)
    table = classify_rspecifier(name) or Rspecifier("scp" if name.endswith(".scp") else "ark", name)
    codec = AnyCodec() if kind is None else kind
    # Only the iterator refers to the reader, so deleting or exhausting the iterator closes the table.
    return iter(SequentialReader[Any](table, kind=codec, pipes=pipes, network=network))


def load_scp(
    rxfilename: str | PathLike[str],
    *,
    kind: Kind | None = None,
    mmap: bool = False,
    max_open_files: int = 64,
    pipes: bool = True,
    network: bool = True,
    relative_to: RelativeTo | None = None,
) -> Mapping[str, Any]:
    """Load a script file as a mapping from keys to objects. An object is read when its key is accessed.

    A file of ten million lines opens in seconds and takes about 20 bytes per line in addition to its own size. The
    mapping can be shared by threads and forked processes, and pickled (for spawned DataLoader workers): no file
    position is shared.

    Args:
        rxfilename: location of the script file, as for :func:`load`.
        kind: kind of the objects, such as "matrix". If None, the kind of each object is detected.
        mmap: True to map archives into memory, and return read-only views of the archives where the layout allows.
        max_open_files: maximum number of archives kept open.
        pipes: False to refuse commands.
        network: False to refuse URLs.
        relative_to: "script" resolves relative file names against the folder of the script file. None resolves
            relative file names against the current folder, as Kaldi does.

    Returns:
        A mapping from keys to values (see :func:`load`). Arrays are writable, unless ``mmap`` is true.

    Raises:
        ArkError: the script file cannot be opened, is invalid, or has a duplicate key. The mapping raises ArkError for
            an unreadable object, and MissingKeyError (an ArkError and a KeyError) for an unknown key.

    >>> import io_ark, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with io_ark.writer(f"ark,scp:{folder}/means.ark,{folder}/means.scp") as writer:
    ...     writer["utt1"] = np.float32([1, 2])
    >>> means = io_ark.load_scp(f"{folder}/means.scp")
    >>> list(means), means["utt1"]
    (['utt1'], array([1., 2.], dtype=float32))
    """
    codec: str | Codec[Any] = AnyCodec() if kind is None else kind
    access = Access(pipes, network)
    files = OpenFiles(max_open_files, mmap=mmap, access=access)
    loader = Loader(codec, access, files=files, folder=resolve_folder(rxfilename, relative_to))
    return ScriptTable(Script.open(rxfilename, access), loader.load_value)


def writer(
    wspecifier: str | PathLike[str],
    *,
    compress: int | str | None = None,
    kind: Kind | None = None,
    pipes: bool = True,
    network: bool = True,
) -> Writer[Any]:
    """Open a table for writing. The kind of each object is detected from its value.

    Args:
        wspecifier: ``ark:feats.ark``, ``ark,t:-``, ``ark,scp:feats.ark,feats.scp``; or the name or path of an archive.
        compress: compression method of float matrices: "speech" (recommended), or the name or number of another method.
            If None, matrices are not compressed. Text is never compressed.
        kind: kind of all objects, such as "vector". If None, the kind of each object is detected from its value.
        pipes: False to refuse commands.
        network: False to refuse URLs.

    Returns:
        A writer: ``with io_ark.writer(...) as w: w[key] = value``. float64 arrays are written as double.

    Raises:
        ArkError: the table cannot be opened, ``wspecifier`` is a file name that ends in ``.scp``, or ``compress`` is
            passed for a kind that is not a float matrix. The writer raises the errors of single values.

    >>> import io_ark, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/feats.ark"
    >>> with io_ark.writer(name, compress="speech") as writer:
    ...     writer["utt1"] = np.zeros((98, 40), np.float32)
    >>> [(key, matrix.shape) for key, matrix in io_ark.read(name)]
    [('utt1', (98, 40))]
    """
    name = decode_file_name(wspecifier)
    table = classify_wspecifier(name) or Wspecifier("ark", _refuse_script_name(name))
    return Writer(table, kind=_choose_codec(kind, compress, {}), pipes=pipes, network=network)


def _refuse_script_name(name: str) -> str:
    """Return ``name``. Raise SpecifierError for a name ``*.scp``, because a script file is written with an archive."""
    if name.endswith(".scp"):
        archive = f"{name.removesuffix('.scp')}.ark"
        advice = f"choose another name, or pass 'ark,scp:{archive},{name}' to io_ark.writer"
        raise SpecifierError(f"is the name of a script file: {advice}", file=name)
    return name


def _choose_codec(kind: Kind | Codec[Any] | None, compress: int | str | None, options: dict[str, Any]) -> Codec[Any]:
    """Return the codec of ``kind`` with the arguments ``options``, or a codec that detects kinds if ``kind`` is None.

    ``compress`` is the compression method of float matrices, or None. Raise FormatError if a method is passed for a
    kind that is not a float matrix.
    """
    if compress is None:
        return resolve_codec(AnyCodec() if kind is None else kind, options)
    if kind == "compressed-matrix":
        return resolve_codec(kind, options | {"method": compress})
    if kind not in (None, "matrix", "double-matrix"):
        name = kind if isinstance(kind, str) else type(kind).__name__
        raise FormatError(f"compress={compress!r} applies to matrices, not to objects of kind {name!r}: omit compress")
    return resolve_codec(AnyCodec(compress, kind), options)
