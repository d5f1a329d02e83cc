"""Keys: what a table's entries are called, and how an archive has them (Kaldi: src/util/kaldi-table-inl.h)."""

from __future__ import annotations

import re

from io_ark.errors import KeyFormatError, TruncatedError
from io_ark.streams.source import Source

# Bytes that are not UTF-8 are read as the surrogates dc80 to dcff; no others can be written.
_KEY = re.compile(r"[!-~\x80-\ud7ff\udc80-\udcff\ue000-\U0010ffff]+")
_USUAL = re.compile(rb"[ \t\n\v\f\r]*([^ \t\n\v\f\r]+)[ \t]")


def check_key(key: str) -> None:
    """Raise :class:`KeyFormatError` unless a table can hold this key: text, not empty, without white space."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise KeyFormatError(f"{key!r} cannot be a key: keys are text, not empty and without white space", key=None)


def decode_key(key: bytes) -> str:
    """A key as text; bytes that are not UTF-8 survive the way there and back."""
    return key.decode("utf-8", "surrogateescape")


def encode_key(key: str) -> bytes:
    """The bytes of a key: what tables are sorted by."""
    return key.encode("utf-8", "surrogateescape")


def read_key(source: Source) -> str | None:
    """The next key of an archive, and the one white character after it; None at the archive's end."""
    usual = source.match(_USUAL)
    if usual:
        return decode_key(usual[1])
    key = source.read_token()
    if not key:
        return None
    after = source.peek(1)
    if after == b" " or after == b"\t":
        source.skip(1)
    elif after != b"\n":  # which stays, as the end of an empty text object
        where = source.tell()
        shown = repr(decode_key(key[:40])) + ("..." if len(key) > 40 else "")
        if not after:
            raise TruncatedError(f"ends after the key {shown}, before its object", file=source.name, offset=where)
        source.fail(f"a space should follow the key {shown}, but there is {after!r}: is this an archive?")
    return decode_key(key)
