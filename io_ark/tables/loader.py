"""Read single objects by rxfilename. Relative file names may start at the folder of a script file."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from typing import Any, Literal

from io_ark import codecs
from io_ark.codecs import Codec
from io_ark.codecs.ranges import extract_range
from io_ark.errors import ArkError, OpenError, PipeError, SpecifierError
from io_ark.specifier import Range, Rxfilename, decode_file_name, is_url, parse_rxfilename, split_range
from io_ark.streams.access import Access
from io_ark.streams.files import MAX_OPEN_FILES, MAX_OPEN_FILES_SEQUENTIAL, OpenFiles
from io_ark.streams.input import STOPPED_READING, open_input
from io_ark.streams.pipes import describe_status
from io_ark.streams.source import FileSource, Source
from io_ark.text import quote_value

RelativeTo = Literal["script"]
MAX_OFFSET_DIGITS = 19  # An offset with fewer digits fits into 64 bits. parse_rxfilename checks longer offsets.


def resolve_codec(kind: str | Codec[Any], options: dict[str, Any]) -> Codec[Any]:
    """Create the codec of the kind ``kind`` with the arguments ``options``, or return ``kind`` if it is a codec.

    Raise TypeError if ``kind`` is a codec with options, and FormatError if the kind or an argument is unknown.
    """
    if options and not isinstance(kind, str):
        raise TypeError(
            f"unexpected arguments {', '.join(options)}: pass them to your codec, or pass a name such as kind='wave'"
        )
    return codecs.codec(kind, **options) if isinstance(kind, str) else kind


def read_rxfilename(codec: Codec[Any], rxfilename: str, access: Access) -> Any:
    """Read the object at an rxfilename, which may have a range, with ``codec``. Raise ArkError if this fails."""
    name, selection = split_range(rxfilename)
    return read_target(codec, parse_rxfilename(name), selection, access)


def read_target(
    codec: Codec[Any], target: Rxfilename, selection: Range | None, access: Access, files: OpenFiles | None = None
) -> Any:
    """Read the object at a parsed rxfilename, or the rows and columns ``selection`` of the object.

    ``files`` is a cache of open files, or None to open the file for this call only. Raise ArkError if the object cannot
    be opened or read, such as PipeError if the command failed before the object was complete.
    """
    with open_input(target, access, files) as opened:  # If the object is complete, a failed command only warns.
        try:
            return codec.read_single(opened.source) if selection is None else codec.read_part(opened.source, selection)
        except ArkError as error:
            status = opened.close()
            if status in (0, *STOPPED_READING):
                raise
            message = f"the command {describe_status(status)} ({error.message}): correct the command"
            raise PipeError(message, file=error.file) from error


def resolve_folder(script: str | PathLike[str], relative_to: RelativeTo | None) -> str | None:
    """Return the absolute path, or the URL, of a script file's folder. Return None if ``relative_to`` is None.

    Raise SpecifierError if ``relative_to`` is neither None nor "script", or if ``script`` is not a file or URL.
    """
    if relative_to is None:
        return None
    if relative_to != "script":
        message = f"relative_to={quote_value(relative_to)} is not known: pass 'script', or None for the current folder"
        raise SpecifierError(message)
    target = parse_rxfilename(decode_file_name(script))
    if target.kind != "file":
        message = f"{script!r} is not a file, so it has no folder: pass the name of a file, or relative_to=None"
        raise SpecifierError(message)
    if is_url(target.path):
        return target.path.partition("?")[0].rpartition("/")[0]
    return os.path.dirname(os.path.abspath(target.path))


def prepend_folder(rxfilename: str, folder: str) -> str:
    """Prepend ``folder`` to a relative file name. Return commands, ``-``, URLs, absolute and empty names unchanged."""
    name, _ = split_range(rxfilename)
    if name in ("", "-") or "|" in (name[0], name[-1]) or is_url(name) or os.path.isabs(name):
        return rxfilename
    return f"{folder}/{rxfilename}" if is_url(folder) else os.path.join(folder, rxfilename)


class Loader:
    """Loads objects of one kind by rxfilename, for the lines of a script file.

    Args:
        kind: kind of the objects (see :mod:`io_ark.codecs`), or a codec.
        access: permission to run commands and to open URLs.
        files: cache of open files. By default, the loader has its own cache.
        in_order: True if objects are read once and mostly in file order, so that reading ahead saves time.
        folder: folder against which relative file names are resolved, or None for the current folder.
        options: arguments of the codec.

    >>> import io_ark, numpy as np, tempfile
    >>> from io_ark.streams import Access
    >>> from io_ark.tables import Loader
    >>> name = tempfile.mkdtemp() + "/a.mat"
    >>> io_ark.save(name, np.eye(3), kind="matrix")
    >>> Loader("matrix", Access()).load(f"{name}[0:1]").shape
    (2, 3)
    """

    def __init__(
        self,
        kind: str | Codec[Any],
        access: Access,
        *,
        files: OpenFiles | None = None,
        in_order: bool = False,
        folder: str | None = None,
        **options: Any,
    ) -> None:
        self._codec = resolve_codec(kind, options)
        self._folder = folder
        self._access = access
        limit = MAX_OPEN_FILES_SEQUENTIAL if in_order else MAX_OPEN_FILES
        self._files = OpenFiles(limit, access=access) if files is None else files
        # Names of regular files that occurred with an offset. They need not be parsed again, which saves time.
        self._paths: set[str] = set()
        self._last: tuple[str, Any] | None = None  # Name and value of the last object that was loaded as a whole.
        self._in_order = in_order

    def load(self, rxfilename: str) -> Any:
        """Load the object at an rxfilename, which may have a range. Raise ArkError if it cannot be opened or read."""
        return self.load_value(None, rxfilename)

    def load_value(self, key: str | None, rxfilename: str) -> Any:
        """Load the object at ``rxfilename``. Raise ArkError, which names ``key`` unless it is None, if this fails."""
        try:
            path, _, offset = rxfilename.rpartition(":")
            if path in self._paths and offset.isascii() and offset.isdigit() and len(offset) < MAX_OFFSET_DIGITS:
                return self._read_at_offset(path, int(offset))
            full_name = rxfilename if self._folder is None else prepend_folder(rxfilename, self._folder)
            name, selection = split_range(full_name)
            target = parse_rxfilename(name)
            if selection is not None and not (target.kind == "file" and self._files.get_file(target.path).is_regular):
                return extract_range(self._load_whole_object(name, target), selection, name)
            if selection is None and target.offset:
                value = self._read_at_offset(target.path, target.offset)
                self._paths.add(target.path)
                return value
            return read_target(self._codec, target, selection, self._access, self._files)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__

    def _load_whole_object(self, name: str, target: Rxfilename) -> Any:
        """Load the whole object at ``target``. If the previous call had the same ``name``, return its object again.

        Successive lines often name ranges of the output of one command.
        """
        last_name, value = self._last or (None, None)
        if last_name != name:
            value = read_target(self._codec, target, selection=None, access=self._access, files=self._files)
            self._last = name, value
        return value

    def _read_at_offset(self, path: str, offset: int) -> Any:
        """Read the object at an offset (bytes) of a file. Reuse the last idle source if it can reach this position.

        Raise ArkError if the file cannot be opened or is not regular, or if the object cannot be read.
        """
        idle_sources = self._files.idle_sources
        source: Source | None
        try:
            source = idle_sources.pop()
        except IndexError:
            source = None
        if source is None or source.name != path or not source.reach(offset):
            source = None  # Before the next file is opened, this closes a file that the cache has dropped.
            file = self._files.get_file(path)
            if not file.is_regular:
                raise OpenError("is not a regular file, so it has no offsets: copy its data to a file first", file=path,
                                offset=offset)  # fmt: skip
            source = file.open_source(offset, ahead=self._in_order)
        value = self._codec.read(source)
        if isinstance(source, FileSource):
            idle_sources.append(source)
        return value

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # The last object may be large, so it is not pickled.

    def close(self) -> None:
        """Close all open files of the cache, and release the last object."""
        self._files.clear()
        self._paths.clear()
        self._last = None


def wrap_value(value: Any) -> Callable[[], Any]:
    """Return a function without arguments that returns ``value``."""
    return lambda: value


def name_key(error: ArkError, key: str | None) -> ArkError:
    """Add the key to an error without a key, and return the error."""
    if error.key is None:
        error.key = key
    return error
