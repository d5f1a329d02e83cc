"""What kind of object stands somewhere, told from its first bytes.

In binary, most objects start with a token that says what they are. Those that do not (integers, vectors of them,
posteriors) are told apart by how their lengths work out. In text it is the look that decides; where two kinds look
alike, the more usual one is meant: a line of one integer is an integer (not a vector of one), ``[ ]`` is a matrix.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from io_ark.codecs import codec
from io_ark.codecs.base import BINARY_MARKER, INTEGER, NUMBER
from io_ark.errors import FormatError, TruncatedError
from io_ark.streams.source import BytesSource, Source

# How far to look for what tells kinds of text or of integers apart, at first and then. What is longer is one long row.
_WINDOWS = (1 << 12, 1 << 20)
_NOT_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")

_TOKENS = {
    b"FM": ("matrix", {}), b"DM": ("double-matrix", {}),
    b"CM": ("matrix", {}), b"CM2": ("matrix", {}), b"CM3": ("matrix", {}),
    b"FV": ("vector", {}), b"DV": ("double-vector", {}),
    b"FP": ("packed-matrix", {}), b"DP": ("packed-matrix", {"dtype": np.float64}),
    b"SV": ("sparse-vector", {}), b"SM": ("sparse-matrix", {}),
    b"<Nnet3Eg>": ("nnet-example", {}), b"<Nnet3ChainEg>": ("nnet-chain-example", {}),
}  # fmt: skip
# In this order: where the bytes allow for several, the first is taken.
_VECTOR = b"FV \x04"
_INTEGER_KINDS = ("int-vector", "gauss-posterior", "posterior", "int-vector-vector", "int-pair-vector")
_SIZED = np.dtype([("size", "u1"), ("bits", "<i4")])
# Floats of other magnitudes are rarer than the integers with their bits: those up to 500 million, negative ones.
_USUAL_FLOATS = (1e-20, 1e20)
_NAN_BITS = (0x7FC00000, -0x400000)  # what arithmetic gives; all others are small negative integers, or 2^31 nearly

_codec = cache(codec)


def detect_kind(source: Source) -> tuple[str, dict[str, Any]]:
    """The kind of the object that starts here, which stays unread, and the options to read it with."""
    head = source.peek(20)
    if head[:4] in (b"RIFF", b"RIFX"):
        return "wave", {}
    if head[:2] != b"\0B":
        return _text_kind(source), {}
    body = head[2:]
    token = body.split(b" ", 1)[0]
    if token in _TOKENS:
        return _TOKENS[token]
    if body[:1] == b"\x04":
        return _integer_kind(source), {}
    if body[:1] == b"\x08":
        return "double", {}
    if body[:1] not in (b"T", b"F"):
        source.fail("no kind of object starts like this")
    return "bool", {}


def _integer_kind(source: Source) -> str:
    """Which of the objects that start with a 4-byte number this is: the one after which no other number follows."""
    head = source.peek(8)
    count = int.from_bytes(head[3:7], "little")
    if head[7:] != b"\x04":
        return "int-vector" if count == 0 else _number_kind(head)
    as_integers = min(2 + 5 * (1 + count) + len(_VECTOR), _WINDOWS[-1])  # suffices for a vector of so many integers
    for size in (as_integers, *(window for window in _WINDOWS if window > as_integers)):
        window = source.peek(size)
        kind = _fitting_kind(window, len(window) == size, size == _WINDOWS[-1])
        if kind is not None:
            return "float-pair-vector" if kind == "int-pair-vector" and _are_floats(window, 1, 2 * count) else kind
    return _number_kind(head)


def _number_kind(head: bytes) -> str:
    return "float" if _are_floats(head, 0, 1) else "int"


def _are_floats(window: bytes, first: int, count: int) -> bool:
    """Whether these of the 4-byte numbers are more plausible as floats than as integers."""
    start = len(BINARY_MARKER) + first * _SIZED.itemsize
    bits = np.frombuffer(window, _SIZED, min(count, (len(window) - start) // _SIZED.itemsize), start)["bits"]
    size = np.abs(bits.astype("<i4").view("<f4"))
    least, greatest = _USUAL_FLOATS
    usual = ((size >= least) & (size <= greatest)) | np.isinf(size) | np.isin(bits, _NAN_BITS)
    return bool(usual.any() and (usual | (bits == 0)).all())


def _fitting_kind(window: bytes, cut: bool, last: bool) -> str | None:
    """The kind that these bytes hold; if they are cut, the object may be longer, and in the last window is believed."""
    longer = None
    for kind in _INTEGER_KINDS:
        trial = BytesSource(window)
        try:
            _codec(kind).read(trial)
        except TruncatedError:
            longer = longer or kind
        except FormatError:
            pass
        else:
            if not trial.peek(len(_VECTOR)).startswith((b"\x04", _VECTOR)):
                return kind
    return longer if cut and last else None


def _text_kind(source: Source) -> str:
    for size in _WINDOWS:
        text = source.peek(size)
        start = text.lstrip(b" \t")
        if b"\n" in start or b"]" in start or len(text) < size:
            break
    if start.startswith(b"["):
        return _bracket_kind(start)
    if start.startswith(b"rows="):
        return "sparse-matrix"
    if start.startswith(b"dim="):
        return "sparse-vector"
    for token, (kind, _) in _TOKENS.items():
        if start.startswith(token + b" "):
            return kind
    line = start.split(b"\n", 1)[0]
    if _NOT_TEXT.search(line):
        source.fail("neither a binary object nor text stands here")
    words = line.split()
    if b" [" in line and INTEGER.match(line):
        return "gauss-posterior"
    if b";" in line:
        return _list_kind(line)
    if words and all(INTEGER.fullmatch(word) for word in words):
        return "int" if len(words) == 1 else "int-vector"
    if len(words) != 1:
        return "token-vector"
    if NUMBER.fullmatch(words[0]):
        return "double"
    return "bool" if words[0] in (b"T", b"F") else "token"


def _bracket_kind(text: bytes) -> str:
    """What a text that starts with ``[`` is."""
    inside, _, after = text[1:].partition(b"]")
    if b"\n" in inside or b";" in inside:
        # A triangle starts with rows of 1 and 2 numbers, which no matrix has.
        counts = [len(row.split()) for row in re.split(rb"[\n;]", inside, maxsplit=4) if row.strip()]
        return "packed-matrix" if counts[:2] == [1, 2] else "matrix"
    # Each frame of a posterior ends with "] ", be it the last one.
    if after.startswith(b" "):
        return "posterior"
    return "vector" if inside.strip() else "matrix"


def _list_kind(line: bytes) -> str:
    """What a line with semicolons in it is: lists that each end with one, or pairs that one stands between."""
    if line.rstrip().endswith(b";"):
        return "int-vector-vector"
    whole = all(INTEGER.fullmatch(word) for word in line.replace(b";", b" ").split())
    return "int-pair-vector" if whole else "float-pair-vector"
