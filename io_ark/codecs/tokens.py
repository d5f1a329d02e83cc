"""Tokens, which are strings without white space. Their binary and text formats are the same.

Source: ``TokenHolder`` and ``TokenVectorHolder`` in Kaldi's ``src/util/kaldi-holder-inl.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from io_ark.codecs.base import Codec, Sink, quote
from io_ark.codecs.int_vector import read_text_line
from io_ark.errors import FormatError
from io_ark.streams.source import Source
from io_ark.text import quote_value

_TOKEN = re.compile(rb"[^\0 \t\n\v\f\r]+")


def encode_token(token: str) -> bytes:
    """Encode a token in UTF-8. Raise FormatError if it is empty, or contains white space or a null byte."""
    data = token.encode("utf-8", "surrogateescape")
    if not _TOKEN.fullmatch(data):
        problem = f"invalid token {quote_value(token)}"
        raise FormatError(f"{problem}: a token must not be empty, or contain white space or a null byte")
    return data


def decode_token(data: bytes) -> str:
    """Decode a token. Bytes that are not UTF-8 become surrogates, which :func:`encode_token` reverses."""
    return data.decode("utf-8", "surrogateescape")


class TokenCodec(Codec[str]):
    """Codec of tokens: strings without white space. In a table, a token fills a line."""

    marker = b""
    scan_kind = "token"

    def read(self, source: Source) -> str:
        source.skip_space()
        line, at = read_text_line(source, "a token")
        words = line.split()
        if len(words) != 1:
            source.fail(f"expected one token on the line, found {quote(words[1])} after it", at)
        return decode_token(words[0])

    def write_body(self, sink: Sink, value: str, binary: bool) -> None:
        sink.write(encode_token(value) + b"\n")


class TokenVectorCodec(Codec[list[str]]):
    """Codec of lists of tokens. In a table, a list fills a line."""

    marker = b""
    scan_kind = "token-vector"

    def read(self, source: Source) -> list[str]:
        line, _ = read_text_line(source, "a list of tokens")
        words = line.split()  # Like Kaldi, bytes.split splits at ASCII white space only.
        return decode_token(b" ".join(words)).split(" ") if words else []  # One call decodes all tokens.

    def write_body(self, sink: Sink, value: Iterable[str], binary: bool) -> None:
        if isinstance(value, str):
            raise FormatError(f"expected a list of tokens, not the string {value!r}: split it into words")
        tokens = list(value)
        data = " ".join(tokens).encode("utf-8", "surrogateescape")
        words = data.split()
        if len(words) != len(tokens) or b" ".join(words) != data or b"\0" in data:
            data = b" ".join(map(encode_token, tokens))  # This raises the error that names the token.
        sink.write(data + b" \n" if tokens else b"\n")
