"""Parse rspecifiers, wspecifiers and extended file names. No file is opened.

An *rspecifier* names a table to read (``scp,p:feats.scp``). A *wspecifier* names a table to write
(``ark,scp:a.ark,a.scp``). An *rxfilename* names a single object to read (``a.ark:123``, ``gunzip -c a.gz |``, ``-``). A
*wxfilename* names a single file or command to write. A range in brackets after an rxfilename selects a part of the
object. The rules are Kaldi's (src/util: kaldi-table.cc, kaldi-io.cc, kaldi-holder.cc), including unusual rules: options
are separated by commas or single spaces, and a specifier must not end in white space.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from os import PathLike
from typing import Literal, NamedTuple, NoReturn

from io_ark.errors import RangeSyntaxError, SpecifierError
from io_ark.text import WHITE_SPACE

# Number of rows by which a range may exceed the matrix: two for edge effects of framing, one for rounded times (Kaldi:
# src/util/kaldi-holder.cc).
ROW_TOLERANCE = 3
_MAX_OFFSET = 2**63 - 1  # Maximum offset in bytes that the system's calls accept.
_MAX_OFFSET_DIGITS = 19  # Number of digits of _MAX_OFFSET.
# First and last characters of names that may not be plain file names: white space, "-", "|", and the "a" and "s" of
# "ark" and "scp".
_ODD_STARTS, _ODD_ENDS = f"{WHITE_SPACE}-|as", f"{WHITE_SPACE}-|"
# Start of a table specifier, valid or not: options, the word "ark" or "scp", and a colon.
_SPECIFIER = re.compile(r"(?:[a-z]{0,3}[, ])*(?:ark|scp)(?:,[\w+-]*| [a-z]{0,3})*:", re.ASCII)
_OFFSET = re.compile(r"(.*):([0-9]+)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Rspecifier(NamedTuple):
    """A parsed rspecifier, which names a table to read."""

    kind: Literal["ark", "scp"]  # "ark" (an archive) or "scp" (a script file with the location of each object).
    rxfilename: str  # Name of the stream that contains the archive or script file.
    once: bool = False  # `o`: each key is looked up at most once.
    sorted: bool = False  # `s`: the keys of the table are sorted by their bytes.
    called_sorted: bool = False  # `cs`: keys are looked up in the order of their bytes.
    permissive: bool = False  # `p`: unreadable objects are treated as missing.
    background: bool = False  # `bg`: a thread reads ahead.


class Wspecifier(NamedTuple):
    """A parsed wspecifier, which names a table to write."""

    # "ark" (an archive), "both" (an archive, and a script file with the locations of its objects) or "scp" (an existing
    # script file that names the output file of each key)
    kind: Literal["ark", "scp", "both"]
    archive: str = ""  # The archive's wxfilename ("" for kind "scp").
    script: str = ""  # The script's file name ("" for kind "ark").
    binary: bool = True  # `b` (default): binary format; `t`: text format.
    flush: bool = False  # `f`: flush after each object; `nf` (default): do not.
    permissive: bool = False  # `p`: skip keys that are not in the script file (kind "scp").


class Rxfilename(NamedTuple):
    """A parsed rxfilename: a "file" to read from ``offset`` on, "stdin", or the output of a command ("pipe")."""

    kind: Literal["file", "stdin", "pipe"]
    path: str = ""  # Path or URL of a "file".
    offset: int | None = None  # Offset of the object in a "file", in bytes, or None for the start of the file.
    command: str = ""  # Command of a "pipe", without the bar at its end.


class Wxfilename(NamedTuple):
    """A parsed wxfilename: a "file" to write, "stdout", or the input of a command ("pipe")."""

    kind: Literal["file", "stdout", "pipe"]
    path: str = ""  # Path or URL of a "file".
    command: str = ""  # Command of a "pipe", without the bar at its start.


@dataclass(frozen=True)
class Range:
    """Rows and columns of a matrix, or elements of a vector, that a range in brackets selects."""

    rows: tuple[int, int] | None  # First and last row (element of a vector), both included; None: all.
    columns: tuple[int, int] | None  # First and last column, both included; None: all.
    text: str  # The range without brackets, as in the rxfilename, for messages.

    def to_slices(self, rows: int, columns: int | None = None) -> tuple[slice, slice]:
        """Return the slices of rows and columns that the range selects.

        For a vector, the first slice selects elements, and the second slice is empty.

        Args:
            rows: number of rows of a matrix, or of elements of a vector.
            columns: number of columns of a matrix, or None for a vector.

        Raises:
            ValueError: the range is reversed or outside the object (as in Kaldi, it may exceed the rows by three), or
                has columns although the object is a vector.
        """
        if columns is None and "," in self.text:
            problem = f"has rows and columns, but the object is a vector of length {rows}"
            raise ValueError(f"the range [{self.text}] {problem}: give one range, such as [0:9]")
        first_row, last_row = self.rows if self.rows is not None else (0, rows - 1)
        first_column, last_column = self.columns if self.columns is not None else (0, (columns or 0) - 1)
        is_inside = first_row <= last_row and first_row < rows and last_row < rows + ROW_TOLERANCE
        if columns is not None:
            is_inside = is_inside and first_column <= last_column < columns
        if not is_inside:
            size = f"a vector of length {rows}" if columns is None else f"a matrix of {rows} x {columns}"
            advice = "give the first and the last index, counted from 0"
            raise ValueError(f"the range [{self.text}] does not fit {size}: {advice}")
        return slice(first_row, min(last_row, rows - 1) + 1), slice(first_column, last_column + 1)


class FileName(str):
    """A plain file name, which is not parsed for an offset, a range or a command."""

    __slots__ = ()


def decode_file_name(file: str | PathLike[str]) -> str:
    """Return a string unchanged, and a path as a :class:`FileName`, which is not parsed for offsets or commands."""
    return file if isinstance(file, str) else FileName(os.fsdecode(file))


def classify_rspecifier(text: str) -> Rspecifier | None:
    """Parse an rspecifier by Kaldi's rules (src/util/kaldi-table.cc). Return None for any other string.

    >>> from io_ark.specifier import classify_rspecifier
    >>> classify_rspecifier("scp,p:feats.scp")
    Rspecifier(kind='scp', rxfilename='feats.scp', once=False, sorted=False, called_sorted=False, permissive=True, \
background=False)
    >>> classify_rspecifier("feats.ark:123") is None
    True
    """
    kinds, options, rxfilename = _split_specifier(text, _READ_OPTIONS)
    options.pop("format", None)
    if kinds == ["ark"]:
        return Rspecifier("ark", rxfilename, **options)
    return Rspecifier("scp", rxfilename, **options) if kinds == ["scp"] else None


def _split_specifier(text: str, option_words: dict[str, tuple[str, bool]]) -> tuple[list[str], dict[str, bool], str]:
    """Split a specifier into its kinds, such as "ark", its options, and the file names after the colon.

    ``option_words`` maps an option's word, such as "cs", to the option's name and value. The options are returned as a
    dictionary from names to values. All other words before the colon are returned as kinds, which the caller checks.
    All three parts are empty if the string cannot be a specifier.
    """
    prefix, colon, names = text.partition(":")
    if not colon or text[-1] in WHITE_SPACE or isinstance(text, FileName):
        return [], {}, ""
    kinds, options = [], {}
    for word in prefix.replace(" ", ",").split(","):
        if word in option_words:
            name, value = option_words[word]
            options[name] = value
        else:
            kinds.append(word)
    return kinds, options, names


_READ_OPTIONS = {
    "b": ("format", True),  # Readers ignore b and t, because they detect the format.
    "t": ("format", False),
    "o": ("once", True),
    "no": ("once", False),
    "s": ("sorted", True),
    "ns": ("sorted", False),
    "cs": ("called_sorted", True),
    "ncs": ("called_sorted", False),
    "p": ("permissive", True),
    "np": ("permissive", False),
    "bg": ("background", True),
}
_WRITE_OPTIONS = {
    "b": ("binary", True),
    "t": ("binary", False),
    "f": ("flush", True),
    "nf": ("flush", False),
    "p": ("permissive", True),
}

_ADVICE = {
    "r": "write 'ark:FILE', 'scp:FILE' or 'scp,p:-'; the options are b t o s cs p bg",
    "w": "write 'ark:FILE', 'ark,t:-' or 'ark,scp:ARCHIVE,SCRIPT'; the options are b t f p",
}


def classify_wspecifier(text: str) -> Wspecifier | None:
    """Parse a wspecifier by Kaldi's rules (src/util/kaldi-table.cc). Return None for any other string.

    >>> from io_ark.specifier import classify_wspecifier
    >>> classify_wspecifier("ark,t,scp:a.ark,a.scp")
    Wspecifier(kind='both', archive='a.ark', script='a.scp', binary=False, flush=False, permissive=False)
    """
    kinds, options, names = _split_specifier(text, _WRITE_OPTIONS)
    if kinds == ["ark"]:
        return Wspecifier("ark", names, "", **options)
    if kinds == ["scp"]:
        return Wspecifier("scp", "", names, **options)
    archive, comma, script = names.partition(",")
    return Wspecifier("both", archive, script, **options) if kinds == ["ark", "scp"] and comma else None


def is_table_rspecifier(text: str) -> bool:
    """Return True if a string is an rspecifier (``ark:...``, ``scp,p:...``), and False for any other string.

    An rxfilename, which names a single object in a file or in the output of a command, is not an rspecifier.

    >>> import io_ark
    >>> io_ark.is_table_rspecifier("scp:feats.scp"), io_ark.is_table_rspecifier("mean.vec")
    (True, False)
    """
    return classify_rspecifier(text) is not None


def is_table_wspecifier(text: str) -> bool:
    """Return True if a string is a wspecifier (``ark:...``, ``ark,scp:...``), and False for any other string.

    A wxfilename, which names a single file or command, is not a wspecifier.

    >>> import io_ark
    >>> io_ark.is_table_wspecifier("ark:-"), io_ark.is_table_wspecifier("mean.vec")
    (True, False)
    """
    return classify_wspecifier(text) is not None


def parse_rspecifier(text: str) -> Rspecifier:
    """Parse an rspecifier by Kaldi's rules. Raise :class:`SpecifierError` for any other string."""
    return classify_rspecifier(text) or _refuse(text, f"is not an rspecifier: {_ADVICE['r']}")


def parse_wspecifier(text: str) -> Wspecifier:
    """Parse a wspecifier by Kaldi's rules. Raise :class:`SpecifierError` for any other string."""
    return classify_wspecifier(text) or _refuse(text, f"is not a wspecifier: {_ADVICE['w']}")


def parse_rxfilename(text: str) -> Rxfilename:
    """Parse an rxfilename without a range (see :func:`split_range`).

    Raise SpecifierError for the specifier of a table, or an invalid rxfilename.
    """
    if isinstance(text, FileName):
        return Rxfilename("file", str(text))
    if text[:1] in _ODD_STARTS or text[-1:] in _ODD_ENDS:  # The condition is also true for "".
        if text in ("", "-"):
            return Rxfilename("stdin")
        if text[0] == "|":
            _refuse(text, "starts with '|': to read the output of a command, write 'COMMAND |'")
        if text[-1] == "|":
            return Rxfilename("pipe", command=text[:-1])
        _refuse_odd_name(text, "r")
    path, colon, digits = text.rpartition(":")
    if colon and digits.isdigit() and digits.isascii():
        digits = digits.lstrip("0") or "0"  # Python refuses more than 4,300 digits, and zeros do no harm.
        if len(digits) > _MAX_OFFSET_DIGITS or int(digits) > _MAX_OFFSET:
            _refuse(text, "has an offset beyond the size of any file: correct the offset, which is a number of bytes")
        return Rxfilename("file", path, int(digits))
    if colon:
        _refuse_odd_name(text, "r")
    if "|" in text:
        _refuse(text, "has a '|' in the middle: to read the output of a command, write 'COMMAND |'")
    return Rxfilename("file", text)


def is_url(path: str) -> bool:
    """Return True for a URL, and False for the path of a local file."""
    return "://" in path and _URL.match(path) is not None


def parse_wxfilename(text: str) -> Wxfilename:
    """Parse a wxfilename, the name of a single file or command to write.

    Raise SpecifierError for the specifier of a table, a name with an offset, or an invalid wxfilename.
    """
    if isinstance(text, FileName):
        return Wxfilename("file", str(text))
    if text in ("", "-"):
        return Wxfilename("stdout")
    if text[0] == "|":
        return Wxfilename("pipe", command=text[1:])
    if text[-1] == "|":
        _refuse(text, "ends in '|': to write to a command, write '| COMMAND'")
    if ":" in text or text[0] in WHITE_SPACE or text[-1] in WHITE_SPACE:
        _refuse_odd_name(text, "w")
    if _OFFSET.fullmatch(text):
        advice = "remove the offset, or pass a pathlib.Path"
        _refuse(text, f"ends in an offset, but only whole files can be written: {advice}")
    if "|" in text:
        _refuse(text, "has a '|' in the middle: to write to a command, write '| COMMAND'")
    return Wxfilename("file", text)


def _refuse_odd_name(text: str, mode: str) -> None:
    """Raise SpecifierError for a file name with white space at its edges, or for a table's specifier, even if invalid.

    Other names are accepted. Kaldi uses an invalid specifier such as ``scp,ark:a.scp,a.ark`` as a file name where Kaldi
    expects a single file. ``mode`` is "r" for a name to read, and "w" for a name to write.
    """
    if text[0] in WHITE_SPACE or text[-1] in WHITE_SPACE:
        _refuse(text, "starts or ends with white space: remove the white space, or pass a pathlib.Path")
    if not _SPECIFIER.match(text):
        return
    if is_table_rspecifier(text) or is_table_wspecifier(text):
        _refuse(text, "is the specifier of a table: name a file, '-' or a pipe instead")
    _refuse(text, f"is neither a file name nor a valid {mode}specifier: {_ADVICE[mode]}")


def _refuse(text: str, reason: str) -> NoReturn:
    raise SpecifierError(f"{text!r} {reason}")


def split_range(text: str) -> tuple[str, Range | None]:
    """Split an rxfilename into a name and a range, or None without brackets. Raise RangeSyntaxError for a bad range."""
    if text[-1:] != "]" or isinstance(text, FileName):
        return text, None
    name, inside = split_brackets(text)
    return name, parse_range(inside)


def split_brackets(text: str) -> tuple[str, str]:
    """Split an rxfilename that ends in ``]`` into the name before the brackets and the text in the brackets.

    Raise RangeSyntaxError if there is no "[", or if the name or the text is empty.
    """
    name, _, inside = text[:-1].partition("[")
    if not name or not inside or "[" in inside:
        advice = "write a range such as [0:9] or [0:9,2:3], or pass a pathlib.Path"
        raise RangeSyntaxError(f"{text!r} ends in ']' but not in a range: {advice}")
    return name, inside


def parse_range(text: str) -> Range:
    """Parse a range without its brackets, such as ``0:9`` (rows) or ``:,2:3`` (columns). Both ends are included.

    Raise RangeSyntaxError for any other string.
    """
    parts = [_parse_interval(part, text) for part in text.split(",")]
    if len(parts) > 2:
        raise RangeSyntaxError(f"'[{text}]' is not a range: give rows and, after a comma, columns, as in [0:9,2:3]")
    return Range(parts[0], parts[1] if len(parts) == 2 else None, text)


def _parse_interval(part: str, text: str) -> tuple[int, int] | None:
    """Return the first and last index of ``part``, such as ``0:9``, or None for ``:``.

    Raise RangeSyntaxError for any other string. The message shows ``text``, the range that contains ``part``.
    """
    if part == ":":
        return None
    interval = re.fullmatch(r"\s*\+?([0-9]{1,10}):\s*\+?([0-9]{1,10})", part, re.ASCII)
    if interval is None:
        advice = "give the first and the last index, counted from 0, as in [0:9] or [0:9,2:3]"
        raise RangeSyntaxError(f"'[{text}]' is not a range: {advice}")
    first, last = map(int, interval.groups())
    return first, last
