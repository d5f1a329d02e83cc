"""Tokens: strings without white space; the same in binary and in text.

Source: ``TokenHolder`` and ``TokenVectorHolder`` in Kaldi's ``src/util/kaldi-holder-inl.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from io_ark.codecs.base import Codec, Sink, quoted
from io_ark.codecs.int_vector import read_text_line
from io_ark.errors import FormatError
from io_ark.streams.source import Source

_TOKEN = re.compile(rb"[^\0 \t\n\v\f\r]+")
_SPACED_TOKENS = re.compile(rb"(?:[^\0 \t\n\v\f\r]+ )*")
_LINE = re.compile(rb"[ \t\n\v\f\r]*([^ \t\n\v\f\r]+)[ \t\v\f\r]*\n")


def token_bytes(token: str) -> bytes:
    """A token as UTF-8.

    Raises:
        FormatError: it is empty, or holds white space or a character that no terminal shows.
    """
    data = token.encode("utf-8", "surrogateescape")
    if not _TOKEN.fullmatch(data):
        raise FormatError(f"a token is not empty and holds no white space, unlike {token!r}")
    return data


def token_text(data: bytes) -> str:
    """A token from its bytes; those that are not UTF-8 survive a round trip."""
    return data.decode("utf-8", "surrogateescape")


class TokenCodec(Codec[str]):
    """One token, on a line of its own."""

    marker = b""

    def read(self, source: Source) -> str:
        if usual := source.match(_LINE):
            return token_text(usual[1])
        source.skip_space()
        line, at = read_text_line(source, "a token")
        words = line.split()
        if len(words) != 1:
            source.fail(f"one token should stand on the line, not also {quoted(words[1])}", at)
        return token_text(words[0])

    def write_body(self, sink: Sink, value: str, binary: bool) -> None:
        sink.write(token_bytes(value) + b"\n")


class TokenVectorCodec(Codec[list[str]]):
    """Tokens, up to the end of a line."""

    marker = b""

    def read(self, source: Source) -> list[str]:
        line, _ = read_text_line(source, "a list of tokens")
        words = line.split()  # as bytes, which have other white space than text
        return token_text(b" ".join(words)).split(" ") if words else []

    def write_body(self, sink: Sink, value: Iterable[str], binary: bool) -> None:
        if isinstance(value, str):
            raise FormatError(f"a list of tokens is wanted, not the one string {value!r}")
        tokens = list(value)
        line = "".join([token + " " for token in tokens]).encode("utf-8", "surrogateescape")
        if not _SPACED_TOKENS.fullmatch(line) or line.count(b" ") != len(tokens):
            line = b"".join([token_bytes(token) + b" " for token in tokens])  # which says what is wrong
        sink.write(line + b"\n")
