"""Classes of kaldi_python_io: script files by key or number, archives in order, and the writer."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np

from io_ark.codecs import Codec, codec
from io_ark.errors import ArkError, FormatError, KeyFormatError, SpecifierError, WriteError
from io_ark.specifier import decode_file_name, parse_wxfilename
from io_ark.streams.access import Access
from io_ark.streams.files import describe_error
from io_ark.tables.blocks import read_entries
from io_ark.tables.keys import encode_key
from io_ark.tables.loader import Loader
from io_ark.tables.readers import repeat_errors
from io_ark.tables.script import Script
from kaldi_standins import kaldi_io
from kaldi_standins.file_objects import get_stream_name, open_output_file, open_source
from kaldi_standins.kaldi_python_io.kinds import ExampleCodec, FloatCodec

__all__ = [
    "AlignArchiveReader", "AlignScriptReader", "ArchiveReader", "ArchiveWriter", "Nnet3EgsReader", "Reader",
    "ScriptReader", "SequentialReader", "Writer", "parse_scps",
]  # fmt: skip

Name = str | PathLike[str]
_INTEGERS = codec("int-vector")
_FLOATS = FloatCodec()


def parse_scps(
    scp_path: Name,
    value_processor: Callable[[Any], Any] = lambda value: value,
    num_tokens: int = 2,
    restrict: bool = True,
    *,
    pipes: bool = True,
    network: bool = True,
) -> dict[str, Any]:
    """Read lines with a key and values, such as ``utt2dur`` or ``text``, as a dictionary from keys to processed values.

    Args:
        scp_path: path of the file, ``-`` for standard input, or a command that ends in ``|``.
        value_processor: function that converts the value of a line. The value is a string if ``num_tokens`` is 2 or the
            line ends in the word ``|``, otherwise a list of strings.
        num_tokens: number of words of a line, including the key. A number below 2 allows any number of words.
        restrict: True to refuse lines that have only a key.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be read, a line has a wrong number of words, or a key is repeated.

    >>> import pathlib, tempfile
    >>> from kaldi_standins.kaldi_python_io.inst import parse_scps
    >>> path = pathlib.Path(tempfile.mkdtemp(), "utt2dur")
    >>> path.write_text("utt1 2.5\\n") and parse_scps(path, float)
    {'utt1': 2.5}
    """
    script = Script.open(scp_path, Access(pipes, network), empty=True)
    script.check_unique()
    return {
        key: value_processor(_parse_value(script.name, key, text.split(), num_tokens, restrict))
        for key, text in script.iterate_lines()
    }


def _parse_value(name: str, key: str, words: list[str], num_tokens: int, restrict: bool) -> str | list[str]:
    """Return the value of a line of the file ``name``. Raise FormatError for a wrong number of ``words``."""
    if words[-1:] == ["|"]:
        return " ".join(words)
    if (num_tokens >= 2 and len(words) + 1 != num_tokens) or (restrict and not words):
        expected = f"{num_tokens - 1}" if num_tokens >= 2 else "at least 1"
        advice = "set num_tokens (-1 for any number)" if words else "add a value, or pass num_tokens=-1, restrict=False"
        count = f"{len(words)} word{'s' * (len(words) != 1)}"
        raise FormatError(f"has {count} after the key, not {expected}: {advice}", file=name, key=key)
    return words[0] if num_tokens == 2 else words


class Reader:
    """Base class of readers by key. Looks up the lines that :func:`parse_scps` reads, by key or by number.

    It takes the arguments of :func:`parse_scps`. Subclasses override ``_load``, which returns the value of a key.

    Attributes:
        index_dict: maps keys to the processed values of their lines.
        index_keys: keys in the order of the file.

    >>> from kaldi_standins.kaldi_python_io import Reader
    >>> Reader("echo utt1 2.5 |", value_processor=float)["utt1"]
    2.5
    """

    def __init__(self, scp_path: Name, **kwargs: Any) -> None:
        self.index_dict = parse_scps(scp_path, **kwargs)
        self.index_keys = list(self.index_dict)

    def _load(self, key: str) -> Any:
        return self.index_dict[key]

    def __len__(self) -> int:
        return len(self.index_dict)

    def __contains__(self, key: object) -> bool:
        return key in self.index_dict

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for key in self.index_keys:
            yield key, self._load(key)

    def __getitem__(self, index: int | str) -> Any:
        """Return the value of a key, or of the line with a number, counted from 0.

        Raise KeyError if no line has the key or number, or IndexError if ``index`` is neither a string nor an integer.
        """
        if type(index) not in (int, str):
            raise IndexError(f"a reader cannot be indexed by {type(index).__name__}: pass a key or a number")
        if isinstance(index, int):
            if not 0 <= index < len(self.index_keys):
                lines = f"{len(self.index_keys)} line{'s' * (len(self.index_keys) != 1)}"
                raise KeyError(f"no line has the number {index}: the file has {lines}, numbered from 0")
            index = self.index_keys[index]
        if index not in self.index_dict:
            raise KeyError(f"no line has the key {index}: index_keys lists the keys")
        return self._load(index)


class ScriptReader(Reader):
    """Looks up the float matrices and vectors that a script file names, by key or number.

    Args:
        ark_scp: the script file, ``-``, or a command with ``|``.
        matrix: ignored. Version 1.0 needed this argument to choose between matrices and vectors.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the script file cannot be read or repeats a key, or an object cannot be read.

    >>> from kaldi_standins.kaldi_python_io import ScriptReader
    >>> ScriptReader("echo utt1 a.vec |").index_keys
    ['utt1']
    """

    _codec: Codec[Any] = _FLOATS

    def __init__(self, ark_scp: Name, matrix: bool = True, *, pipes: bool = True, network: bool = True) -> None:
        access = Access(pipes, network)
        script = Script.open(ark_scp, access)
        script.check_unique()
        self.index_dict = {key: _split_offset(location) for key, location in script.iterate_lines()}
        self.index_keys = list(self.index_dict)
        self._loader = Loader(self._codec, access)

    def _load(self, key: str) -> Any:
        path, offset = self.index_dict[key]
        return self._loader.load_value(key, path if offset is None else f"{path}:{offset}")


def _split_offset(location: str) -> tuple[str, int | None]:
    """Split a location such as ``a.ark:123`` into a path and an offset in bytes, or None without an offset."""
    path, _, offset = location.rpartition(":")
    return (path, int(offset)) if path and offset.isascii() and offset.isdecimal() else (location, None)


class AlignScriptReader(ScriptReader):
    """Looks up the vectors of integers that a script file names, such as alignments: see :class:`ScriptReader`."""

    _codec = _INTEGERS


class SequentialReader:
    """Base class of readers of archives. Each iteration reads the archive again.

    Args:
        ark_or_pipe: the archive, ``-``, or a command with ``|``.
        matrix: ignored. Version 1.0 needed this argument to choose between matrices and vectors.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, or an entry cannot be read.

    >>> from kaldi_standins.kaldi_python_io import AlignArchiveReader
    >>> [(key, alignment.tolist()) for key, alignment in AlignArchiveReader("echo utt1 2 2 4 |")]
    [('utt1', [2, 2, 4])]
    """

    _codec: Codec[Any]

    def __init__(self, ark_or_pipe: Name, matrix: bool = True, *, pipes: bool = True, network: bool = True) -> None:
        self.ark_or_pipe = ark_or_pipe
        self._access = Access(pipes, network)

    @repeat_errors
    def __iter__(self) -> Iterator[tuple[str, Any]]:
        with open_source(self.ark_or_pipe, self._access, whole=True) as source:
            yield from read_entries(source, self._codec)


class ArchiveReader(SequentialReader):
    """Iterates over the float matrices and vectors of an archive: see :class:`SequentialReader`."""

    _codec = _FLOATS


class AlignArchiveReader(SequentialReader):
    """Iterates over the vectors of integers of an archive, such as alignments: see :class:`SequentialReader`."""

    _codec = _INTEGERS


class Nnet3EgsReader(SequentialReader):
    """Iterates over the training examples of an archive: see :class:`SequentialReader`.

    An example is a list of dictionaries, one for each input and output, with the keys ``name``, ``index`` (a list of
    tuples (n, t, x)) and ``matrix`` (an array, or for a sparse matrix a list of rows of pairs (column, (value,))).
    """

    _codec = ExampleCodec()


class Writer:
    """Base class of writers. Subclasses write entries to ``ark_file`` and lines to ``scp_file``.

    Args:
        ark_path: the archive, or ``-`` for the standard output.
        scp_path: the script file, or None. If the archive is a stream or a command, a warning is issued instead of
            writing the script file.
        pipes, network: False to refuse commands and URLs, respectively.

    Attributes:
        ark_file: binary file object.
        scp_file: text file object, or None.

    Raises:
        ArkError: a file cannot be opened, or the name of the archive has a line feed, which a script file cannot hold.
    """

    scp_file: Any

    def __init__(
        self, ark_path: Name, scp_path: Name | None = None, *, pipes: bool = True, network: bool = True
    ) -> None:
        if scp_path and parse_wxfilename(decode_file_name(ark_path)).kind != "file":
            warnings.warn(
                f"{scp_path} is not written, because it cannot name entries of a stream: write the archive to a file",
                stacklevel=3,
            )
            scp_path = None
        if "\n" in f"{ark_path}" and scp_path:
            raise SpecifierError(
                "the name has a line feed, which a script file cannot hold: rename the archive",
                file=f"{ark_path}",
            )
        self.ark_path, self.scp_path = ark_path, scp_path
        access = Access(pipes, network)
        self.ark_file = open_output_file(decode_file_name(ark_path), access)
        self.scp_file = None
        if scp_path:
            try:
                binary_file = open_output_file(decode_file_name(scp_path), access)
            except ArkError:
                self.ark_file.close()
                raise
            self.scp_file = io.TextIOWrapper(binary_file, "utf-8", "surrogateescape", write_through=True)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive and the script file. Raise WriteError if buffered bytes cannot be written."""
        with contextlib.ExitStack() as stack:
            for file in filter(None, (self.scp_file, self.ark_file)):
                stack.callback(_close_file, file)

    def write(self, key: str, value: Any) -> None:
        """Write one entry. Subclasses override this method."""
        raise NotImplementedError


def _close_file(file: Any) -> None:
    """Close a file, and convert an OSError to WriteError."""
    try:
        file.close()
    except ArkError:
        raise
    except OSError as error:
        raise WriteError(f"cannot be written: {describe_error(error)}", file=get_stream_name(file)) from error


class ArchiveWriter(Writer):
    """Writes float32 and float64 matrices and vectors to an archive, and their locations to a script file.

    Args:
        ark_path: see :class:`Writer`.
        scp_path: see :class:`Writer`.
        matrix: ignored. Version 1.0 needed this argument to choose between matrices and vectors.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: a file cannot be opened or written, or cannot hold the key or value.

    >>> import numpy as np, tempfile
    >>> from kaldi_standins.kaldi_python_io import ArchiveWriter
    >>> with ArchiveWriter(f"{tempfile.mkdtemp()}/means.ark") as writer:
    ...     writer.write("utt1", np.ones(3))
    """

    def __init__(
        self,
        ark_path: Name,
        scp_path: Name | None = None,
        matrix: bool = True,
        *,
        pipes: bool = True,
        network: bool = True,
    ) -> None:
        super().__init__(ark_path, scp_path, pipes=pipes, network=network)

    def write(self, key: str, obj: Any) -> None:
        """Write one entry.

        Args:
            key: key of the entry.
            obj: float32 or float64 array of one or two dimensions.

        Raises:
            ArkError: the key is empty or invalid, the value is not a vector or matrix, or a file cannot be written.
        """
        offset = self.ark_file.tell() + len(encode_key(key)) + 1 if self.scp_file is not None else 0
        if not key:  # kaldi_io would write an object without a key.
            raise KeyFormatError("the key is empty: choose a key", file=f"{self.ark_path}")
        write = kaldi_io.write_vec_flt if np.ndim(obj) == 1 else kaldi_io.write_mat
        write(self.ark_file, obj, key)
        if self.scp_file is not None:
            self.scp_file.write(f"{key}\t{os.path.abspath(self.ark_path)}:{offset}\n")
