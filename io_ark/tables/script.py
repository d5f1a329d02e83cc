"""Script files (scp), which map keys to the locations of objects.

A line is a key, white space, and a value. The value is an rxfilename, or any text in files such as ``utt2spk`` and
``text``. A short file is stored as a dictionary. A longer file is stored as its bytes, the start and key length of each
line, and an index of 8 bytes per line that the first lookup builds. There are no Python objects for the lines, so that
ten million lines fit into memory.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from functools import cached_property, partial
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.errors import ArkError, FormatError, MissingKeyError, OpenError, OrderError, SpecifierError
from io_ark.logs import logger
from io_ark.specifier import decode_file_name, is_url, parse_rxfilename
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFile
from io_ark.streams.foreign import HEAD_BYTES, refuse_foreign_head
from io_ark.streams.input import open_input
from io_ark.text import format_count

_TAIL_BYTES = 1 << 16  # Number of bytes that are searched at once for blank lines at the end of a file.
# Minimum bytes of a file that is mapped, which takes no memory. A smaller file is read, because its lines then stay
# valid if the file changes.
MIN_MAPPED_BYTES = 1 << 25
_CHUNK_BYTES = 1 << 24  # Maximum bytes of the lines that are indexed at once, which bounds temporary arrays.
_NEWLINE = 10
_WHITE = np.zeros(256, bool)
_WHITE[list(b" \t\n\v\f\r")] = True
_BLANK = _WHITE.copy()
_BLANK[_NEWLINE] = False
_VISIBLE = bytes(range(33, 256))
# Number of lines whose keys are located at once, which bounds the memory of temporary arrays.
_LINES_PER_STEP = 1 << 18
_MAX_KEY_BYTES = 2**16 - 1  # Maximum length of a key, because lengths are stored in 16 bits.
_LINE_BITS = 2**32 - 1  # Mask of the number of the line in an element of the index (see Script._get_index).
# Maximum lines of a file that is stored as a dictionary, which is faster but takes hundreds of bytes per line.
_MAX_DICTIONARY_LINES = 1 << 16
# Matches a line with a key and an optional value. 16383 characters have at most _MAX_KEY_BYTES bytes in UTF-8.
_LINE = re.compile(
    r"^[ \t\v\f\r]*([^\0- ]{1,16383})(?:[ \t\v\f\r]+(?=[^\0- ])(.*[^\0- ])|)[ \t\v\f\r]*\n", re.MULTILINE
)

Indices = npt.NDArray[np.int64]
Value = TypeVar("Value")


class LineSplitter:
    """Splits successive lines of a script file into keys and values.

    As in Kaldi, blank lines at the end of the file are skipped with a warning. A blank line before other lines is an
    error, because Kaldi would stop at the blank line and lose the lines after it.

    Attributes:
        blank: numbers of the blank lines that follow the last line with a key.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0  # Number of lines split so far.
        self.blank: list[int] = []

    def split(self, line: bytes) -> Iterable[tuple[str, str] | FormatError]:
        """Return an error for each blank line before ``line``, and then the key and value, or the error, of ``line``.

        Return () for a blank line after the first line, because it may be at the end of the file.
        """
        self._number += 1
        result: tuple[str, str] | FormatError
        try:
            result = split_line(line, self._name, self._number)
        except FormatError as error:
            if self._number > 1 and not line.strip():
                self.blank.append(self._number)
                return ()
            result = error
        if not self.blank:
            return (result,)
        errors = [FormatError(_describe_bad_line(number, b""), file=self._name) for number in self.blank]
        self.blank.clear()
        return (*errors, result)

    def skip_lines(self, count: int) -> None:
        """Advance the line number by ``count`` lines that the caller has split, for errors in later lines."""
        self._number += count

    def finish(self) -> None:
        """Log a warning if the file ends with blank lines. Call this method after the last line."""
        if self.blank:
            _warn_of_blank_lines(self._name, len(self.blank))


def _warn_of_blank_lines(name: str, count: int) -> None:
    logger.warning("%s: skipped %s at the end", name, format_count(count, "blank line"))


def _measure_text(data: bytes | mmap.mmap) -> int:
    """Return the number of bytes before the blank lines at the end, or ``len(data)`` if all lines are blank."""
    end = len(data)
    while end:
        begin = max(0, end - _TAIL_BYTES)
        text = data[begin:end].rstrip()
        if text:
            return data.find(b"\n", begin + len(text)) + 1
        end = begin
    return len(data)  # All lines are blank. The caller reports the first line.


def split_line(line: bytes, name: str, number: int) -> tuple[str, str]:
    """Split a line of a script file into key and value. Raise FormatError if either is missing.

    ``name`` is the name of the file, and ``number`` is the number of the line, counted from 1, for the error message.
    """
    fields = line.split(None, 1)
    if len(fields) < 2:
        raise FormatError(_describe_bad_line(number, line), file=name)
    return fields[0].decode("utf-8", "surrogateescape"), fields[1].rstrip().decode("utf-8", "surrogateescape")


def _describe_bad_line(number: int, line: bytes) -> str:
    """Return the error message for line ``number`` (from 1), which is blank or has a key without a value."""
    if not line.strip():
        return f"line {number} is blank: remove the line, because each line starts with a key"
    return f"line {number} has a key ({line.strip()[:60].decode('utf-8', 'replace')!r}) without a value: add the value"


class Script(Mapping[str, str]):
    """A script file as a read-only mapping from keys to values. A value is the text after the key.

    Args:
        data: bytes of the file.
        name: name of the file in error messages.
        empty: allow empty values, as in a file of transcripts.

    Raises:
        FormatError: the file has another format, or a line lacks a value, has an invalid key, or is blank and not at
            the end of the file.

    >>> from io_ark.tables import Script
    >>> Script(b"utt1 feats.ark:5\\n")["utt1"]
    'feats.ark:5'
    """

    def __init__(self, data: bytes | mmap.mmap, name: str = "<script>", *, empty: bool = False) -> None:
        refuse_foreign_head(data[:HEAD_BYTES], name, "scp")
        if len(data) and data[-1] != _NEWLINE:
            data = data[:] + b"\n"
        self.name = name
        self._empty = empty
        self._data = data
        self._values = self._build_dictionary()
        self._length = len(data)
        self._sorted_index: Indices | None = None
        self._next_line = 0  # Index of the line that the next lookup tries first.
        # Path, size in bytes and modification time in ns of a mapped file. Unpickling opens this file again.
        self._stamp: tuple[str, int, int] | None = None
        if self._values is not None:
            self._count = len(self._values)
            return
        self._length = _measure_text(data)
        if self._length < len(data):
            _warn_of_blank_lines(name, data[self._length :].count(b"\n"))
        self._count = len(self._key_bounds[0])

    @classmethod
    def open(cls, rxfilename: str | PathLike[str], access: Access | None = None, *, empty: bool = False) -> Script:
        """Read a script file.

        Args:
            rxfilename: location of the script file, as an rxfilename or a path.
            access: permission to run commands and to open URLs. None allows both.
            empty: allow empty values, as in a file of transcripts.

        Raises:
            ArkError: the file cannot be opened, or is not a script file.
        """
        target = parse_rxfilename(decode_file_name(rxfilename))
        if target.kind == "file" and not target.offset and not is_url(target.path):
            file = OpenFile(target.path)
            if file.is_regular and file.size < MIN_MAPPED_BYTES:
                return cls(file.open_source(0).read_text(), target.path, empty=empty)
            if file.is_regular:
                status = os.fstat(file.descriptor)
                script = cls(file.map(), target.path, empty=empty)
                script._stamp = (os.path.abspath(target.path), status.st_size, status.st_mtime_ns)
                return script
        with open_input(target, access=access) as opened:
            data = opened.source.read_text()
            name = opened.source.name
            opened.finish()
        return cls(data, name, empty=empty)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._stamp is None:
            return partial(Script, empty=self._empty), (bytes(self._data), self.name)
        return _reopen_script, (*self._stamp, self._empty)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        if self._values is not None:
            return iter(self._values)
        return (key.decode("utf-8", "surrogateescape") for key in self._iterate_keys())

    def _iterate_keys(self) -> Iterator[bytes]:
        """Iterate over the keys in file order."""
        return (self._data[start:end] for start, end in self._iterate_key_bounds())

    def _iterate_key_bounds(self) -> Iterator[tuple[int, int]]:
        """Iterate over the start and end (exclusive), in bytes, of each key in file order."""
        all_starts, lengths = self._key_bounds
        for begin in range(0, len(self), _LINES_PER_STEP):
            self._check_size()
            starts = all_starts[begin : begin + _LINES_PER_STEP]
            ends = starts + lengths[begin : begin + _LINES_PER_STEP]
            yield from zip(starts.tolist(), ends.tolist(), strict=True)

    def __contains__(self, key: object) -> bool:
        if self._values is not None:
            return key in self._values
        return isinstance(key, str) and self._find_key_end(key) is not None

    def __getitem__(self, key: str) -> str:
        value: str | None = self.get(key)
        if value is None:
            raise MissingKeyError("the key is not in the script file: `ark ls` lists the keys", file=self.name, key=key)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if the key is not in the file."""
        if self._values is not None:
            return self._values.get(key, default)
        end = self._find_key_end(key)
        return default if end is None else self._get_value(end)

    def items(self) -> ItemsView[str, str]:
        """Return a view of the keys and values in file order."""
        return _Lines(self)

    def iterate_lines(self) -> Iterator[tuple[str, str]]:
        """Iterate over keys and values in file order, repeated keys included, without a lookup of each key."""
        if self._values is not None:
            yield from self._values.items()
            return
        for start, end in self._iterate_key_bounds():
            yield self._decode(start, end), self._get_value(end)

    def get_line(self, number: int) -> tuple[str, str]:
        """Return the key and value of line ``number``. The first line has the number 0."""
        start, end = self._locate_key(number)
        return self._decode(start, end), self._get_value(end)

    def check_unique(self) -> None:
        """Raise :class:`OrderError` if a key occurs twice."""
        if self._values is not None:
            return
        # Keys with equal hashes are adjacent in the index, so that only these keys need a comparison.
        index = self._get_index()
        hashes = index >> 32
        positions = np.flatnonzero(hashes[1:] == hashes[:-1])
        # Successive numbers in `positions` belong to one group of equal hashes, whose keys are `group_keys`.
        group_keys: set[str] = set()
        previous = -2
        for position in positions.tolist():
            if position != previous + 1:
                group_keys = {self._get_key(int(index[position]) & _LINE_BITS)}
            previous = position
            line = int(index[position + 1]) & _LINE_BITS
            key = self._get_key(line)
            if key in group_keys:
                raise OrderError(f"is a duplicate key on line {line + 1}: remove the line", file=self.name, key=key)
            group_keys.add(key)

    def check_sorted(self) -> None:
        """Raise :class:`OrderError` unless the keys are strictly increasing in the order of their bytes."""
        previous = b""
        for line, key in enumerate(self._iterate_keys()):
            if key <= previous:
                raise OrderError(f"on line {line + 1} comes after {self._get_key(line - 1)!r}: the table has the "
                                 "option s, but is not sorted by bytes or has a duplicate key; sort it with LC_ALL=C "
                                 "sort, or omit the option s", file=self.name, key=self._get_key(line))  # fmt: skip
            previous = key

    def _get_key(self, line: int) -> str:
        return self._decode(*self._locate_key(line))

    def _locate_key(self, line: int) -> tuple[int, int]:
        """Return the start and end (exclusive), in bytes, of the key of a line. Lines are counted from 0."""
        self._check_size()
        starts, lengths = self._key_bounds
        start = int(starts[line])
        return start, start + int(lengths[line])

    def _check_size(self) -> None:
        """Raise :class:`OpenError` if a mapped file has become shorter, because reading it would kill this process."""
        if isinstance(self._data, mmap.mmap) and self._data.size() < self._length:
            raise OpenError("has changed since it was opened: open the file again", file=self.name)

    def _get_value(self, key_end: int) -> str:
        """Return the value after a key that ends at the offset ``key_end``."""
        end = self._data.find(b"\n", key_end)
        return self._data[key_end:end].strip().decode("utf-8", "surrogateescape")

    def _decode(self, start: int, end: int) -> str:
        return self._data[start:end].decode("utf-8", "surrogateescape")

    def _build_dictionary(self) -> dict[str, str] | None:
        """Return the values by key, or None for a file that needs the index of lines.

        The index is needed if the file is mapped or has too many lines, or if it has a blank or invalid line, a
        duplicate key, or a key that may be too long.
        """
        if isinstance(self._data, mmap.mmap) or (count := self._data.count(b"\n")) > _MAX_DICTIONARY_LINES:
            return None
        text = self._data.decode("utf-8", "surrogateescape")
        if self._data.translate(None, _VISIBLE) == b" \n" * count:  # Each line is a key, a space and a word.
            words = iter(text.replace("\n", " ").split(" "))
            values = dict(zip(words, words, strict=False))
            # A character has at most 4 bytes in UTF-8, so shorter keys cannot exceed the limit.
            if "" in values or (len(text) > _MAX_KEY_BYTES and max(map(len, values)) > _MAX_KEY_BYTES // 4):
                return None
        else:
            values = dict(_LINE.findall(text))
        return values if len(values) == count and (self._empty or all(values.values())) else None

    @cached_property
    def _key_bounds(self) -> tuple[Indices, npt.NDArray[np.uint16]]:
        """Offset in the file and length in bytes of the key of each line: two arrays of shape (lines,).

        The first access scans the file, and raises FormatError for an invalid line.
        """
        starts: list[Indices] = []
        lengths: list[npt.NDArray[np.uint16]] = []
        begin, line_count = 0, 0
        while begin < self._length:
            end = min(begin + _CHUNK_BYTES, self._length)
            end = self._data.rfind(b"\n", begin, end) + 1 or self._data.find(b"\n", end) + 1
            chunk_starts, chunk_lengths = self._find_keys(begin, end, line_count)
            starts.append(chunk_starts)
            lengths.append(chunk_lengths)
            line_count += len(chunk_starts)
            begin = end
        if not starts:
            return np.empty(0, np.int64), np.empty(0, np.uint16)
        return np.concatenate(starts), np.concatenate(lengths)

    def _find_keys(self, begin: int, end: int, lines_before: int) -> tuple[Indices, npt.NDArray[np.uint16]]:
        """Return the offset in the file and the length in bytes of the key of each line in ``data[begin:end]``.

        The results are two arrays of shape (lines,). The last byte of ``data[begin:end]`` must be a newline. Raise
        FormatError for an invalid line. Its message counts lines from the start of the file, and ``lines_before`` is
        the number of lines before ``begin``.
        """
        chunk = np.frombuffer(self._data, np.uint8, end - begin, begin)
        low_offsets = np.flatnonzero(chunk <= 32)  # Few bytes match, so fewer bytes are looked up in _WHITE.
        is_white = _WHITE[chunk[low_offsets]]
        white_offsets = low_offsets[is_white]
        newlines = np.flatnonzero(chunk[white_offsets] == _NEWLINE)
        starts = np.concatenate(([0], white_offsets[newlines[:-1]] + 1))
        key_ends = white_offsets[np.concatenate(([0], newlines[:-1] + 1))]
        indented_lines = np.flatnonzero(key_ends == starts)
        if len(indented_lines):
            _skip_blanks(chunk, starts, indented_lines)
            key_ends[indented_lines] = white_offsets[np.searchsorted(white_offsets, starts[indented_lines])]
        if len(white_offsets) < len(low_offsets):
            self._check_control_characters(low_offsets[~is_white], starts, key_ends, lines_before)
        value_starts = key_ends.copy()
        _skip_blanks(chunk, value_starts, np.arange(len(value_starts)))
        is_valueless = (chunk[value_starts] == _NEWLINE) & (not self._empty)
        invalid_lines = np.flatnonzero(is_valueless | (key_ends == starts) | (key_ends - starts > _MAX_KEY_BYTES))
        if len(invalid_lines):
            line = int(invalid_lines[0])
            if key_ends[line] - starts[line] > _MAX_KEY_BYTES:
                raise FormatError(f"line {lines_before + line + 1}: the key has {key_ends[line] - starts[line]} bytes: "
                                  f"shorten it to at most {_MAX_KEY_BYTES} bytes", file=self.name)  # fmt: skip
            text = bytes(chunk[starts[line] : value_starts[line]])
            raise FormatError(_describe_bad_line(lines_before + line + 1, text), file=self.name)
        return starts + begin, (key_ends - starts).astype(np.uint16)

    def _check_control_characters(
        self, offsets: Indices, starts: Indices, key_ends: Indices, lines_before: int
    ) -> None:
        """Raise :class:`FormatError` if one of the control characters at ``offsets`` is in a key.

        ``starts`` and ``key_ends`` hold the bounds of the key of each line. All offsets count from the start of a
        chunk of lines, and ``lines_before`` is the number of lines before the chunk, for the error message.
        """
        lines = np.searchsorted(starts, offsets, "right") - 1
        in_keys = lines[(lines >= 0) & (offsets < key_ends[lines])]
        if len(in_keys):
            line = lines_before + int(in_keys[0]) + 1
            raise FormatError(f"line {line}: the key has a control character, which tables cannot store: remove it",
                              file=self.name)  # fmt: skip

    def _get_index(self) -> Indices:
        """Return the sorted index (lines,). An element has the upper 32 bits of a key's hash, then its line number."""
        if self._sorted_index is None:
            if len(self) >= 2**32:
                raise SpecifierError("has 2**32 or more lines: split it into shorter files", file=self.name)
            index = np.fromiter(map(hash, self._iterate_keys()), np.int64, len(self))
            # The number of the line replaces the lower 32 bits of a hash.
            index.view(np.uint32)[::2] = np.arange(len(self), dtype=np.uint32)
            index.sort()
            self._sorted_index = index
        return self._sorted_index

    def _find_key_end(self, key: str) -> int | None:
        """Return the byte offset of the end of a key, or None if the file does not have the key.

        The next lookup tries the line after this key first.
        """
        try:
            encoded_key = key.encode("utf-8", "surrogateescape")
        except (AttributeError, UnicodeEncodeError):  # The key is not a string, or no bytes decode to it.
            return None
        line = self._find_line(encoded_key)
        if line is None:
            return None
        self._next_line = line + 1
        return self._locate_key(line)[1]

    def _find_line(self, key: bytes) -> int | None:
        """Return the index (from 0) of the line of a key, or None if the file does not have the key."""
        expected_line = self._next_line
        if expected_line < len(self) and self._has_key(expected_line, key):
            return expected_line
        index = self._get_index()
        upper_bits = hash(key) >> 32  # Keys with the same upper 32 bits of the hash follow each other in the index.
        position = int(index.searchsorted(upper_bits << 32))
        while position < len(index) and int(index[position]) >> 32 == upper_bits:
            line = int(index[position]) & _LINE_BITS
            if self._has_key(line, key):
                return line
            position += 1
        return None

    def _has_key(self, line: int, key: bytes) -> bool:
        start, end = self._locate_key(line)
        return self._data[start:end] == key


def _skip_blanks(chunk: npt.NDArray[np.uint8], offsets: Indices, lines: Indices) -> None:
    """Increase each of ``offsets[lines]``, in place, to the offset of the next byte of ``chunk`` that is not a blank.

    A blank is white space except a newline. The last byte of ``chunk`` is a newline.
    """
    lines = lines[_BLANK[chunk[offsets[lines]]]]
    offsets[lines] += 1
    lines = lines[_BLANK[chunk[offsets[lines]]]]
    if len(lines):  # Three or more blanks in a row are rare, so this may be slower.
        blanks = np.flatnonzero(_BLANK[chunk])
        last_of_run = blanks[np.diff(blanks, append=len(chunk) + 1) > 1]
        offsets[lines] = last_of_run[np.searchsorted(last_of_run, offsets[lines])] + 1


class _Lines(ItemsView[str, str]):
    """View of the keys and values of a script file. It iterates over the lines without looking up keys."""

    _mapping: Script

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self._mapping.iterate_lines()


class ScriptTable(Mapping[str, Value]):
    """A script file as a read-only mapping from keys to values that a function creates on access.

    Threads and processes can share the mapping. It can be pickled if ``make`` can be pickled.

    Args:
        script: the script file.
        make: function that creates the value of a key. Its arguments are the key and the text after the key.

    Raises:
        OrderError: a key occurs twice in the script file.

    >>> from io_ark.tables import Script, ScriptTable
    >>> ScriptTable(Script(b"utt1 98\\nutt2 35\\n"), lambda key, text: int(text))["utt2"]
    35
    """

    def __init__(self, script: Script, make: Callable[[str, str], Value]) -> None:
        script.check_unique()
        self._script = script
        self._make = make

    def __getitem__(self, key: str) -> Value:
        try:
            return self._make(key, self._script[key])
        except ArkError as error:
            error.file, error.key = error.file or self._script.name, error.key or key
            raise

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._script)

    def __len__(self) -> int:
        return len(self._script)

    def __contains__(self, key: object) -> bool:
        return key in self._script

    def __repr__(self) -> str:
        return f"<{self._script.name}: {format_count(len(self), 'key')}>"

    def _repr_html_(self) -> str:
        from io_ark.text import FIRST, format_html_table

        rows = [self._script.get_line(line) for line in range(min(FIRST, len(self)))]
        more = f"... and {len(self) - len(rows)} more" if len(rows) < len(self) else ""
        return format_html_table(f"{self._script.name}: {format_count(len(self), 'key')}", rows, ("key", "value"), more)


def _reopen_script(path: str, size: int, modified_ns: int, empty: bool) -> Script:
    """Open a pickled script file again. Raise :class:`SpecifierError` if its size or modification time differs."""
    status = os.stat(path)
    if (status.st_size, status.st_mtime_ns) != (size, modified_ns):
        raise SpecifierError("has changed since it was opened: open the file again", file=path)
    return Script.open(path, empty=empty)
