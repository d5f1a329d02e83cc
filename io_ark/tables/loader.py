"""Reads and writes single objects: what one rxfilename or wxfilename names."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from typing import Any

from io_ark import codecs
from io_ark.codecs import Codec
from io_ark.codecs.ranges import extract_range
from io_ark.errors import ArkError, PipeError
from io_ark.native.scan import BLOCK
from io_ark.specifier import Rxfilename, name_of, parse_rxfilename, split_range
from io_ark.streams.files import OPEN_FILES, OPEN_FILES_IN_ORDER, OpenFiles
from io_ark.streams.input import open_input
from io_ark.streams.output import open_output
from io_ark.streams.pipes import describe_status
from io_ark.streams.source import FileSource, Source

logger = logging.getLogger("io_ark")

_LONGEST_OFFSET = 19  # digits; what is longer is refused by parse_rxfilename

# How a command ends that writes on after we have read enough: by SIGPIPE, or a shell says that what it ran did.
_STOPPED_READING = (-signal.SIGPIPE, 128 + signal.SIGPIPE)


def codec_of(kind: str | Codec[Any], options: dict[str, Any]) -> Codec[Any]:
    """The codec for a kind of object, or the one that was given."""
    return codecs.codec(kind, **options) if isinstance(kind, str) else kind


# Objects that are read one by one where some could not be read together.
_LONGEST_PAUSE = 64
# Lines of a script that are looked at to read their objects together.
_MOST_LINES = 1 << 11


class Loader:
    """Loads objects of one kind by rxfilename, as the lines of a script file name them.

    Args:
        kind: what they are (see :mod:`io_ark.codecs`), or a codec that reads them.
        pipes: whether commands may be run.
        files: where open files are kept between calls.
        in_order: whether the objects are mostly asked for in the order in which they stand in their files, once each:
            then a little is read ahead.
    """

    def __init__(
        self,
        kind: str | Codec[Any],
        *,
        pipes: bool = True,
        files: OpenFiles | None = None,
        in_order: bool = False,
        **options: Any,
    ) -> None:
        self._codec = codec_of(kind, options)
        self._pipes = pipes
        self._files = files if files is not None else OpenFiles(OPEN_FILES_IN_ORDER if in_order else OPEN_FILES)
        # Regular files that were named with an offset: the same with another offset need not be understood again.
        self._paths: set[str] = set()
        self._last: tuple[str, Any] | None = None
        self._in_order = in_order
        self._sources: list[FileSource] = []  # for the next call; who uses one takes it out
        self._scanner = self._codec.scanner() if in_order else None
        self._run_pause = 1  # objects to be read one by one; the first tells whether its file is a regular one

    def load(self, text: str) -> Any:
        """The object that an rxfilename, with or without a range, names.

        Raises:
            ArkError: it cannot be opened, read, or cut to the range.
        """
        path, _, offset = text.rpartition(":")
        if path in self._paths and offset.isascii() and offset.isdigit() and len(offset) < _LONGEST_OFFSET:
            return self._read_at(path, int(offset))
        name, part = split_range(text)
        target = parse_rxfilename(name)
        if part is None:
            return self._read(target)
        if target.kind == "file" and (file := self._files.get(target.path)).regular:
            return self._codec.read_range(file.source(target.offset or 0), part)
        return extract_range(self._whole(name, target), part, name)

    def load_value(self, key: str, text: str) -> Any:
        """The object of a key's line in a script file; errors name the key."""
        try:
            return self.load(text)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__

    def load_run(self, lines: list[bytes], first: int) -> list[Any]:
        """Return the small objects that lines of a script from ``first`` on name, as far as they are read together.

        They stand close together in one file, in this order. Most often there are none: then :meth:`load` reads them.
        """
        if self._scanner is None or self._run_pause > 0:
            self._run_pause -= 1
            return []
        prefix, places = _places(lines, first)
        path = prefix[:-1].decode("utf-8", "surrogateescape")
        values: list[Any] = []
        if len(places) > 1 and path in self._paths:
            with suppress(ArkError):  # which load() raises, too
                source = self._source(path, places[0])
                if isinstance(source, FileSource):
                    window, begin, end = source.buffered(BLOCK)
                    values = self._scanner.objects(window, begin, end, [place - places[0] for place in places])
                    self._sources.append(source)
        self._run_pause = 0 if values else _LONGEST_PAUSE
        return values

    def _source(self, path: str, offset: int) -> Source:
        """The file from an offset on; a source that was used before, if there is one."""
        source: Source | None
        try:
            source = self._sources.pop()
        except IndexError:
            source = None
        if not isinstance(source, FileSource) or source.name != path or not source.reach(offset):
            source = self._files.get(path).source(offset, ahead=self._in_order)
        return source

    def _read_at(self, path: str, offset: int) -> Any:
        source = self._source(path, offset)
        value = self._codec.read(source)
        if isinstance(source, FileSource):
            self._sources.append(source)
        return value

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sources": [], "_last": None}  # which are open, or large

    def _whole(self, name: str, target: Rxfilename) -> Any:
        """What a command gives, of which ranges are wanted: the next line often names another range of it."""
        last = self._last
        if last is None or last[0] != name:
            last = self._last = (name, self._read(target))
        return last[1]

    def _read(self, target: Rxfilename) -> Any:
        if target.kind == "file" and (file := self._files.get(target.path)).regular:
            if target.offset is not None:
                self._paths.add(target.path)
            return self._codec.read(file.source(target.offset or 0))
        with open_input(target, pipes=self._pipes, files=self._files) as opened:
            try:
                value = self._codec.read(opened.source)
            except ArkError as error:
                if (status := opened.close()) in (0, *_STOPPED_READING):
                    raise
                message = f"the command {describe_status(status)} ({error.message})"
                raise PipeError(message, file=error.file) from error
            status = opened.close()
        # The object came whole; a command that ends because nobody reads on is none the worse for it.
        if status not in (0, *_STOPPED_READING):
            logger.warning("the command %r %s", target.command.strip(), describe_status(status))
        return value

    def close(self) -> None:
        """Let go of open files."""
        self._files.clear()
        self._paths.clear()
        self._sources.clear()
        self._last = None


def _places(lines: list[bytes], first: int) -> tuple[bytes, list[int]]:
    """Return the path with ``:`` that lines of a script have in common, from the first on, and the offsets after it.

    The offsets are near each other and ascending.
    """
    _, _, rest = lines[first].partition(b" ")
    prefix = rest[: rest.rfind(b":") + 1]
    places: list[int] = []
    if not prefix:
        return prefix, places
    start = len(prefix)
    least = most = -1
    for line in lines[first : first + _MOST_LINES]:
        _, _, rest = line.partition(b" ")
        digits = rest[start:]
        if not rest.startswith(prefix) or not digits.isdigit() or len(digits) >= _LONGEST_OFFSET:
            break
        place = int(digits)
        if places and not least < place < most:
            break
        if not places:
            most = place + BLOCK
        least = place
        places.append(place)
    return prefix, places


def read_object(kind: str | Codec[Any], rxfilename: str | PathLike[str], *, pipes: bool = True, **options: Any) -> Any:
    """Read one object.

    Args:
        kind: what it is, such as "matrix" (see :mod:`io_ark.codecs`).
        rxfilename: a file, ``file:offset``, ``-`` or a command that ends in ``|``; a range may follow. Or a path,
            which is the name of a file whatever it looks like.
        pipes: whether a command may be run.

    Returns:
        The value, of the codec's type.

    Raises:
        ArkError: it cannot be opened or is no such object.
    """
    return Loader(kind, pipes=pipes, files=OpenFiles(1), **options).load(name_of(rxfilename))


def write_object(
    kind: str | Codec[Any],
    wxfilename: str | PathLike[str],
    value: Any,
    binary: bool = True,
    *,
    pipes: bool = True,
    **options: Any,
) -> None:
    """Write one object to a file, standard output or a command.

    Args:
        kind: what it is, such as "matrix" (see :mod:`io_ark.codecs`).
        wxfilename: a file, ``-`` or a command that starts with ``|``; or a path.
        value: the object.
        binary: binary, or text.
        pipes: whether a command may be run.

    Raises:
        ArkError: the value is no such object, or it cannot be written there.
    """
    writer = codec_of(kind, options)
    with open_output(name_of(wxfilename), pipes=pipes) as output:
        writer.write(output, value, binary=binary)


def ready(value: Any) -> Callable[[], Any]:
    """A function that returns this value, which has been read already."""
    return lambda: value


def name_key(error: ArkError, key: str) -> ArkError:
    """The same error, which now says which key it is about."""
    if error.key is None:
        error.key = key
    return error
