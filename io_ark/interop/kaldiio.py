"""kaldiio's functions over io_ark: replace ``import kaldiio`` with ``from io_ark.interop import kaldiio``.

Arguments and results have kaldiio's shapes (audio is ``(rate, samples)``, with samples of shape ``(samples,)`` or
``(samples, channels)``). Errors are those of :mod:`io_ark.errors`. Not supported: big-endian archives, and
``write_function`` (objects of pickle, NumPy or soundfile, which Kaldi does not have; nothing is unpickled). Other
differences are listed in docs/archives.md.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from types import TracebackType
from typing import IO, Any

from io_ark.data_dir import TO_THE_END, load_segments
from io_ark.errors import ArkError, FormatError, OrderError, RangeError, SpecifierError
from io_ark.interop.kaldiio_values import KaldiioCodec, KaldiioLoader, as_kaldiio, from_kaldiio, is_audio
from io_ark.specifier import classify_rspecifier, classify_wspecifier, name_of
from io_ark.streams.files import MAX_OPEN_FILES, MAX_OPEN_FILES_SEQUENTIAL
from io_ark.streams.input import Input, open_input
from io_ark.streams.output import Output, open_output
from io_ark.streams.source import StreamSource
from io_ark.tables.keys import check_key, encode_key, read_key
from io_ark.tables.loader import name_key
from io_ark.tables.readers import SequentialReader
from io_ark.tables.script import Script, ScriptTable
from io_ark.tables.writers import Writer
from io_ark.text import WHITE_SPACE

__all__ = [
    "ReadHelper",
    "WriteHelper",
    "load_ark",
    "load_mat",
    "load_scp",
    "load_scp_sequential",
    "load_wav_scp",
    "open_like_kaldi",
    "parse_specifier",
    "save_ark",
    "save_mat",
]

Stream = IO[bytes] | IO[str]
FileOrName = str | PathLike[str] | Stream


def load_mat(
    ark_name: str | PathLike[str], endian: str = "<", fd_dict: dict[str, Any] | None = None, *, pipes: bool = True
) -> Any:
    """Load one object, such as ``feats.ark:123``, with or without a range in brackets.

    Args:
        ark_name: an rxfilename.
        endian: "<"; other values are not supported.
        fd_dict: kaldiio's cache of open files; not needed, because no file position is shared.
        pipes: allow commands.

    Raises:
        ArkError: the object cannot be opened or read.
    """
    _check_endian(endian)
    return KaldiioLoader(pipes).load(name_of(ark_name))


def load_ark(fname: FileOrName, endian: str = "<", *, pipes: bool = True) -> Iterator[tuple[str, Any]]:
    """Iterate over the entries of an archive.

    Args:
        fname: name of the archive, or an open binary file.
        endian: "<"; other values are not supported.
        pipes: allow commands.

    Raises:
        ArkError: the archive cannot be opened, or an entry cannot be read.
    """
    _check_endian(endian)
    with _input(fname, pipes) as opened:
        source = opened.source
        codec = KaldiioCodec()
        while (key := read_key(source)) is not None:
            try:
                yield key, as_kaldiio(codec.read(source))
            except ArkError as error:
                raise name_key(error, key) from error.__cause__


def load_scp(
    fname: FileOrName,
    endian: str = "<",
    separator: str | None = None,
    segments: str | None = None,
    max_cache_fd: int = 0,
    *,
    pipes: bool = True,
) -> Mapping[str, Any]:
    """Load a script file as a mapping. Objects are read on access.

    Args:
        fname: name of the script file, or an open file.
        endian: "<"; other values are not supported.
        separator: separator after the key, which may then contain white space; None: any white space.
        segments: a segments file; then the keys are segments and the values ``(rate, samples)``.
        max_cache_fd: maximum number of archives kept open; 0 for the default.
        pipes: allow commands.

    Raises:
        ArkError: the file cannot be opened, is not a script file, or has a duplicate key.
    """
    _check_endian(endian)
    loader = KaldiioLoader(pipes, max_cache_fd or MAX_OPEN_FILES)
    if separator is None:
        recordings: Mapping[str, Any] = ScriptTable(_script(fname, pipes), loader.load_value)
    else:
        lines = list(_separated(fname, separator, pipes))
        recordings = _LazyTable(dict(lines), loader)
        if len(recordings) < len(lines):
            raise OrderError("has a duplicate key", file=_name(fname))
    return recordings if segments is None else _SegmentTable(segments, recordings, pipes)


def load_scp_sequential(
    fname: FileOrName,
    endian: str = "<",
    separator: str | None = None,
    segments: str | None = None,
    *,
    pipes: bool = True,
) -> Iterator[tuple[str, Any]]:
    """Iterate over the entries of a script file in its order; see :func:`load_scp`."""
    if segments is not None:
        yield from load_scp(fname, endian, separator, segments, pipes=pipes).items()
        return
    _check_endian(endian)
    loader = KaldiioLoader(pipes, MAX_OPEN_FILES_SEQUENTIAL)
    lines = _script(fname, pipes).lines() if separator is None else _separated(fname, separator, pipes)
    for key, rxfilename in lines:
        yield key, loader.load_value(key, rxfilename)


def load_wav_scp(
    fname: FileOrName, segments: str | None = None, separator: str | None = None, *, pipes: bool = True
) -> Mapping[str, Any]:
    """Load a script file: the older name of :func:`load_scp`."""
    return load_scp(fname, separator=separator, segments=segments, pipes=pipes)


def save_ark(
    ark: FileOrName,
    array_dict: Mapping[str, Any],
    scp: FileOrName | None = None,
    append: bool = False,
    text: bool = False,
    endian: str = "<",
    compression_method: int | None = None,
    write_function: str | None = None,
    write_kwargs: Mapping[str, Any] | None = None,
    *,
    pipes: bool = True,
) -> None:
    """Write an archive, and optionally a script file that points into it.

    Args:
        ark: name of the archive, or an open binary file.
        array_dict: keys and values; audio is ``(rate, samples)``.
        scp: name of the script file, or an open file.
        append: append to both files.
        text: write text.
        endian: "<"; other values are not supported.
        compression_method: compression method of matrices, from 1 to 7; None: not compressed.
        write_function: None; other values are not supported.
        write_kwargs: None; other values are not supported.
        pipes: allow commands.

    Raises:
        ArkError: a key or value cannot be written, or a file cannot be opened.
    """
    _check_endian(endian)
    if write_function is not None or write_kwargs:
        raise SpecifierError(f"write_function={write_function!r}: only Kaldi's own kinds of objects are written")
    codec = KaldiioCodec(compression_method)
    archive = _output(ark, append, pipes)
    script = None
    try:
        if scp is not None:
            script = _output(scp, append, pipes)
        for key, value in array_dict.items():
            check_key(key)
            gathered = io.BytesIO()
            try:
                codec.write(gathered, from_kaldiio(value), binary=not text)
            except ArkError as error:
                raise name_key(error, key) from error.__cause__
            archive.write(encode_key(key) + b" ")
            if script is not None:
                script.write(encode_key(f"{key} {archive.name}:{archive.start + archive.tell()}\n"))
            archive.write(gathered.getbuffer())
    finally:
        archive.close()
        if script is not None:
            script.close()


def save_mat(
    fname: FileOrName, array: Any, endian: str = "<", compression_method: int | None = None, *, pipes: bool = True
) -> int:
    """Write one object to a file, and return the number of bytes written."""
    _check_endian(endian)
    with _output(fname, False, pipes) as output:
        KaldiioCodec(compression_method).write(output, from_kaldiio(array), binary=True)
        return output.tell()


class WriteHelper:
    """Writes a table: ``with WriteHelper("ark,scp:a.ark,a.scp") as writer: writer(key, array)``.

    Args:
        wspecifier: the table.
        compression_method: compression method of matrices, from 1 to 7; None: not compressed.
        write_function: None; other values are not supported.
        pipes: allow commands.

    Raises:
        ArkError: the table cannot be opened, or a key or value cannot be written.
    """

    def __init__(
        self,
        wspecifier: str,
        compression_method: int | None = None,
        write_function: str | None = None,
        *,
        pipes: bool = True,
    ) -> None:
        if write_function is not None:
            raise SpecifierError(f"write_function={write_function!r}: only Kaldi's own kinds of objects are written")
        self._writer: Writer[Any] = Writer(KaldiioCodec(compression_method), _archive_first(wspecifier), pipes=pipes)

    def __call__(self, key: str, array: Any) -> None:
        """Write one entry."""
        self._writer[key] = from_kaldiio(array)

    __setitem__ = __call__

    def close(self) -> None:
        """Finish the table."""
        self._writer.close()

    def __enter__(self) -> WriteHelper:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._writer.__exit__(kind, error, traceback)


class ReadHelper:
    """Reads a table: ``for key, array in ReadHelper("scp:a.scp")``.

    Args:
        wspecifier: the table (an rspecifier, in spite of the name).
        segments: a segments file, for a script file of recordings.
        pipes: allow commands.

    Raises:
        ArkError: the table cannot be opened, or an entry cannot be read.
    """

    def __init__(self, wspecifier: str, segments: str | None = None, *, pipes: bool = True) -> None:
        self._close: Callable[[], None] = lambda: None
        table = classify_rspecifier(wspecifier)
        script = table is not None and table.kind == "scp"
        if segments is not None and not script:
            raise SpecifierError(f"{wspecifier!r}: segments need an 'scp:' table of recordings")
        if table is not None and script and (segments is not None or not table.permissive):
            self._entries = load_scp_sequential(table.rxfilename, segments=segments, pipes=pipes)
            return
        reader: SequentialReader[Any] = SequentialReader(KaldiioCodec(), wspecifier, pipes=pipes)
        self._close = reader.close
        self._entries = ((key, as_kaldiio(value)) for key, value in reader)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._entries

    def close(self) -> None:
        """Close the table."""
        self._close()

    def __enter__(self) -> ReadHelper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_like_kaldi(name: FileOrName, mode: str = "r", *, pipes: bool = True) -> Any:
    """Open a file, ``-`` or a command with ``|`` as a file object. An open file is returned unchanged.

    Raises:
        ArkError: the file cannot be opened.
    """
    if not isinstance(name, str | PathLike):
        return name
    name = name.strip() if isinstance(name, str) else name_of(name)
    reads = "r" in mode
    raw: Any = _SourceFile(open_input(name, pipes=pipes)) if reads else _SinkFile(open_output(name, pipes=pipes))
    buffered: Any = io.BufferedReader(raw) if reads else io.BufferedWriter(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")


def parse_specifier(specifier: str) -> dict[str, Any]:
    """Parse a specifier to a dictionary: ``ark``, ``scp`` (names or None) and the options ``t o p f s cs``.

    Raises:
        SpecifierError: the text is not a specifier.

    >>> from io_ark.interop.kaldiio import parse_specifier

    >>> parse_specifier("ark,t,scp:a.ark,a.scp")["scp"]
    'a.scp'
    """
    specifier = _archive_first(specifier)
    writing, reading = classify_wspecifier(specifier), classify_rspecifier(specifier)
    if writing is None and reading is None:
        raise SpecifierError(f"{specifier!r} is not a specifier: write ark:FILE or ark,scp:ARCHIVE,SCRIPT")
    options = specifier.partition(":")[0].replace(" ", ",").split(",")
    if writing is not None:
        names = {"ark": writing.archive or None, "scp": writing.script or None}
    else:
        assert reading is not None
        names = {"ark": None, "scp": None, reading.kind: reading.rxfilename}
    return {**names, **{flag: flag in options for flag in ("t", "o", "p", "f", "s", "cs")}}


def _archive_first(specifier: str) -> str:
    """Convert ``scp,ark:a.scp,a.ark``, which kaldiio accepts, to Kaldi's order."""
    options, _, names = specifier.partition(":")
    words = options.split(",")
    if not {"ark", "scp"} <= set(words) or words.index("ark") < words.index("scp") or "," not in names:
        return specifier
    flags = [word for word in words if word not in ("ark", "scp")]
    script, _, archive = names.partition(",")
    return f"{','.join(['ark', 'scp', *flags])}:{archive},{script}"


class _LazyTable(Mapping[str, Any]):
    """Mapping of lazily loaded objects. Unlike in a :class:`ScriptTable`, keys may contain white space."""

    def __init__(self, places: Mapping[str, str], loader: KaldiioLoader) -> None:
        self._places = places
        self._loader = loader

    def __getitem__(self, key: str) -> Any:
        return self._loader.load_value(key, self._places[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _SegmentTable(Mapping[str, Any]):
    """Mapping of segments, cut as in kaldiio: all channels, times rounded down, ends truncated, of any length."""

    def __init__(self, segments: str, recordings: Mapping[str, Any], pipes: bool) -> None:
        self._segments: Mapping[str, Any] = load_segments(segments, pipes=pipes)
        self._recordings = recordings
        self._last: tuple[str, Any] | None = None  # a recording's segments follow each other

    def __getitem__(self, key: str) -> Any:
        segment = self._segments[key]
        last = self._last
        if last is None or last[0] != segment.recording:
            last = self._last = (segment.recording, self._recordings[segment.recording])
        recording = last[1]
        if not is_audio(recording):
            raise FormatError(
                f"the recording {segment.recording!r} is not audio, so no segment can be cut out of it", key=key
            )
        rate, samples = recording
        if segment.channel is not None:  # kaldiio does not support channels
            if segment.channel >= samples[:1].size:
                raise RangeError(
                    f"has channel {segment.channel}, but {segment.recording} has {samples[:1].size}", key=key
                )
            samples = samples.reshape(len(samples), -1)[:, segment.channel]
        if segment.start * rate >= len(samples):
            raise RangeError(f"starts at {segment.start:g} s, after the end of {segment.recording}", key=key)
        end = None if segment.end == TO_THE_END else int(segment.end * rate)
        return rate, samples[int(segment.start * rate) : end]

    def __iter__(self) -> Iterator[str]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_last": None}


def _check_endian(endian: str) -> None:
    if endian != "<":
        raise FormatError(f"endian={endian!r} is not supported: Kaldi's archives are little-endian")


def _script(fname: FileOrName, pipes: bool) -> Script:
    if isinstance(fname, str | PathLike):
        return Script.open(fname, pipes=pipes)
    return Script(_bytes_of(fname), _name(fname))


def _bytes_of(stream: Stream) -> bytes:
    data = stream.read()
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data


def _separated(fname: FileOrName, separator: str, pipes: bool) -> Iterator[tuple[str, str]]:
    """Iterate over key and rest of each line of a script file with this separator."""
    if isinstance(fname, str | PathLike):
        with open_input(name_of(fname), pipes=pipes) as opened:
            data = opened.source.read_rest()
    else:
        data = _bytes_of(fname)
    name = _name(fname)
    lines = data.decode("utf-8", "surrogateescape").removesuffix("\n")
    for number, line in enumerate(lines.split("\n") if lines else (), 1):
        key, found, rest = line.partition(separator)
        if not found:
            raise FormatError(f"line {number} has no {separator!r} after its key", file=name)
        yield key, rest.rstrip(WHITE_SPACE)


def _input(fname: FileOrName, pipes: bool) -> Input:
    if isinstance(fname, str | PathLike):
        return open_input(name_of(fname), pipes=pipes)
    binary: Any = getattr(fname, "buffer", fname)
    return Input(StreamSource(binary if hasattr(binary, "readinto") else _SourceOfRead(binary), _name(fname)))


def _output(target: FileOrName, append: bool, pipes: bool) -> Output:
    if isinstance(target, str | PathLike):
        return open_output(name_of(target), pipes=pipes, append=append)
    if isinstance(target, io.TextIOBase):
        target.flush()
    binary: Any = getattr(target, "buffer", target)
    sink = _SinkOfText(target) if isinstance(target, io.StringIO) else binary
    try:
        start = binary.tell()
    except (OSError, AttributeError):
        start = 0
    return Output(_name(target), sink, lambda: None, flush_raw=True, start=start)


def _name(target: FileOrName) -> str:
    return name_of(target) if isinstance(target, str | PathLike) else str(getattr(target, "name", "<stream>"))


class _SourceOfRead:
    """Adapter for streams that have only ``read``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _SinkOfText:
    """Adapter that writes bytes to a text stream in memory."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: memoryview) -> int:
        self._stream.write(bytes(data).decode("utf-8", "surrogateescape"))
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""


class _SourceFile(io.RawIOBase):
    """An input as a file object."""

    def __init__(self, opened: Input) -> None:
        self._opened = opened
        self._source = opened.source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read_some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()


class _SinkFile(io.RawIOBase):
    """An output as a file object."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._output.write(bytes(data))
        return len(data)

    def flush(self) -> None:
        if not self.closed:
            self._output.flush()

    def close(self) -> None:
        if not self.closed:
            self._output.close()
        super().close()
