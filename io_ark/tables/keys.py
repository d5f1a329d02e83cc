"""Keys of table entries, and their encoding in archives (Kaldi: src/util/kaldi-table-inl.h)."""

from __future__ import annotations

import re

from io_ark.errors import KeyFormatError, TruncatedError
from io_ark.streams.source import Source
from io_ark.text import quote_value

# Bytes that are not UTF-8 are decoded to the surrogates dc80 to dcff; other surrogates cannot be encoded.
_KEY = re.compile(r"[!-~\x80-\ud7ff\udc80-\udcff\ue000-\U0010ffff]+")
_is_key = _KEY.fullmatch
_SIMPLE_KEY = re.compile(rb"[ \t\n\v\f\r]*([^ \t\n\v\f\r]+)[ \t]")


def check_key(key: str) -> None:
    """Raise :class:`KeyFormatError` if a key is empty, or has white space or control characters of ASCII.

    A key may have the surrogates that :func:`decode_key` returns, but no other surrogates.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise KeyFormatError(f"invalid key {quote_value(key)}: use a nonempty string without white space, control "
                             "characters or lone surrogates", key=None)  # fmt: skip


def encode_valid_key(key: str) -> bytes:
    """Encode a key to bytes. Raise :class:`KeyFormatError` for an invalid key, such as "" (see :func:`check_key`)."""
    if type(key) is not str or not _is_key(key):
        check_key(key)
    return key.encode("utf-8", "surrogateescape")


def decode_key(key: bytes) -> str:
    """Decode the bytes of a key. Bytes that are not UTF-8 become surrogates, which :func:`encode_key` reverses."""
    return key.decode("utf-8", "surrogateescape")


def encode_key(key: str) -> bytes:
    """Encode a key to bytes without checking it. Tables are sorted by these bytes."""
    return key.encode("utf-8", "surrogateescape")


def read_key(source: Source) -> str | None:
    """Read the next key of an archive and the space or tab after the key. Return None at the end of the archive.

    A newline after the key is not read, because it is the text form of an empty object.

    Raises:
        FormatError: white space other than a space, tab or newline follows the key, or the key exceeds 16 MiB.
        TruncatedError: the archive ends after the key.
    """
    match = source.match(_SIMPLE_KEY)
    if match:
        return decode_key(match[1])
    key = source.read_token()
    if not key:
        return None
    end_byte = source.peek(1)
    if end_byte == b" " or end_byte == b"\t":
        source.skip(1)
    elif end_byte != b"\n":
        offset = source.tell()
        quoted_key = repr(decode_key(key[:40])) + ("..." if len(key) > 40 else "")
        if not end_byte:
            raise TruncatedError(f"ends after the key {quoted_key}, before the object: create the archive again",
                                 file=source.name, offset=offset)  # fmt: skip
        source.fail(f"expected a space after the key {quoted_key}, found {decode_key(end_byte)!r}: check that the file "
                    "is an archive")  # fmt: skip
    return decode_key(key)
