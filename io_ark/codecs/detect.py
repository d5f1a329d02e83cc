"""Detect the kind of an object: from its first bytes when reading, from the value when writing.

In binary, most objects start with a token that names their kind. Objects without one (integers, vectors of integers,
posteriors) are distinguished by the lengths they store. Text is classified by its syntax. Some encodings are ambiguous.
The reader chooses the most likely kind: a line with one integer is an integer, and ``[ ]`` is a matrix.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from io_ark.codecs.audio import detect_audio_format, is_audio_file
from io_ark.codecs.base import BINARY_MARKER, INTEGER, NUMBER, VALUE_KINDS, Codec, Sink, quote
from io_ark.codecs.registry import codec
from io_ark.errors import FormatError, TruncatedError
from io_ark.specifier import Range
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.source import BytesSource, Source

# Numbers of bytes that are examined to classify text and integers. The second number is used if an object does not end
# within the first number of bytes.
_WINDOWS = (1 << 12, 1 << 20)
_MAX_START_BYTES = 24  # Number of first bytes that distinguish a single object from an archive.
_ARCHIVE = ": if the file is an archive, read its entries with io_ark.read"
_NOT_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")

_TOKENS = {
    b"FM": ("matrix", {}), b"DM": ("double-matrix", {}),
    b"CM": ("matrix", {}), b"CM2": ("matrix", {}), b"CM3": ("matrix", {}),
    b"FV": ("vector", {}), b"DV": ("double-vector", {}),
    b"FP": ("packed-matrix", {}), b"DP": ("packed-matrix", {"dtype": np.float64}),
    b"SV": ("sparse-vector", {}), b"SM": ("sparse-matrix", {}),
    b"<Nnet3Eg>": ("nnet-example", {}), b"<Nnet3ChainEg>": ("nnet-chain-example", {}),
    b"<Plda>": ("plda", {}), b"<DiagGMM>": ("diag-gmm", {}), b"<FullGMM>": ("full-gmm", {}),
    b"<DiagGMMBegin>": ("diag-gmm", {}), b"<FullGMMBegin>": ("full-gmm", {}),
    b"<IvectorExtractor>": ("ivector-extractor", {}), b"<TransitionModel>": ("acoustic-model", {}),
    b"<Topology>": ("topology", {}), b"ContextDependency": ("tree", {}),
}  # fmt: skip
MODELS = [[token] for token in _TOKENS if len(token) > len("CM2")]  # First words of models in text.
FST = b"\xd6\xfd\xb2\x7e"  # First bytes of graphs in OpenFst's format.
# Matches the start of a configuration file: empty lines and comments, and then an option or a comment.
_CONFIG = re.compile(rb"(?:[ \t\r]*(?:#[ \t\r][^\n]*|#)?\n)*[ \t]*(?:--[A-Za-z]|#[ \t\r\n])")
_TOKEN_END = 5  # Bytes of the binary marker, a token of two letters and a space, with which most objects start.
_VECTOR = b"FV \x04"  # Start of the weights in a Gaussian posterior. No object ends before it.
# Kinds in order of preference. The first kind that fits the bytes is used.
_INTEGER_KINDS = ("int-vector", "gauss-posterior", "posterior", "int-vector-vector", "int-pair-vector")
_SIZED_NUMBER = np.dtype([("size", "u1"), ("bits", "<i4")])  # A number of 4 bytes after a byte with its size.
# Magnitudes of floats that are common. The bits of other floats are more likely an integer, because smaller floats have
# the bits of integers up to 500 million, and NaN has the bits of small negative integers.
_COMMON_FLOATS = (1e-20, 1e20)
# Bits of the NaNs that arithmetic returns. The bits of other NaNs are more likely small negative integers, or integers
# near 2**31.
_NAN_BITS = (0x7FC00000, -0x400000)

_codec = cache(codec)
# Maps the first _TOKEN_END bytes of binary objects to codecs, so that the kind is detected only once.
_BY_START: dict[bytes, Codec[Any]] = {}


def detect_kind(source: Source) -> tuple[str, dict[str, Any]]:
    """Return the kind of the object at the current position, and the options of its codec, without consuming bytes.

    Raise FormatError if the bytes are not the start of any kind of object.
    """
    head = source.peek(20)  # The marker and the longest token, <IvectorExtractor>.
    if head[:2] != BINARY_MARKER:
        if head[:4] in (b"RIFF", b"RIFX"):
            return "wave", {}
        refuse_foreign_file(source, "object")
        if source.tell() == 0 and detect_audio_format(source):
            return "wave", {}
        return "fst" if head[:4] == FST else _classify_text(source), {}
    body = head[2:]
    kind_and_options = _TOKENS.get(body.partition(b" ")[0])
    if kind_and_options is not None:
        return kind_and_options
    if body[:1] == b"\x04":
        return _detect_integer_kind(source), {}
    if body[:1] == b"\x08":
        return "double", {}
    if body[:1] not in (b"T", b"F"):
        source.fail(f"no known kind of object starts with {quote(body.partition(b' ')[0])}: create the file again")
    return "bool", {}


def is_single_object(source: Source) -> bool:
    """Return True if the next bytes of ``source`` start an object and cannot be a key.

    This is true for audio, an FST, an object in binary, an object in text that starts with ``[``, and a model in text.
    """
    head = source.peek_buffered(_MAX_START_BYTES)
    is_object = head[:2] == BINARY_MARKER or head.lstrip()[:1] == b"[" or head.split(maxsplit=1)[:1] in MODELS
    return is_object or head[:4] == FST or is_audio_file(head)


def _detect_integer_kind(source: Source) -> str:
    """Return the kind of an object in binary that starts with a 4-byte number, which is a count or the whole object."""
    head = source.peek(8)  # The marker of 2 bytes, a byte 4, the number, and the size byte of another number.
    count = int.from_bytes(head[3:7], "little")
    if head[7:] != b"\x04":
        return "int-vector" if count == 0 else _classify_number(head)
    min_size = min(2 + 5 * (1 + count) + len(_VECTOR), _WINDOWS[-1])  # Bytes of `count` integers and a token.
    for size in (min_size, *(window for window in _WINDOWS if window > min_size)):
        window = source.peek(size)
        kind = _find_fitting_kind(window, is_cut=len(window) == size, is_last=size == _WINDOWS[-1])
        if kind == "int-pair-vector" and _are_floats(window, first=1, count=2 * count):
            return "float-pair-vector"
        if kind is not None:
            return kind
    return _classify_number(head)


def _classify_number(head: bytes) -> str:
    return "float" if _are_floats(head, first=0, count=1) else "int"


def _are_floats(window: bytes, first: int, count: int) -> bool:
    """Return True if 4-byte numbers are probably floats: all are 0, infinite, NaN or common floats, but not all are 0.

    ``window`` holds the binary marker, and then numbers with a size byte before each number. ``count`` numbers from the
    index ``first`` on are examined, or fewer numbers if the window is shorter.
    """
    start = len(BINARY_MARKER) + first * _SIZED_NUMBER.itemsize
    count = min(count, (len(window) - start) // _SIZED_NUMBER.itemsize)
    bits = np.frombuffer(window, _SIZED_NUMBER, count, start)["bits"]
    magnitudes = np.abs(bits.astype("<i4").view("<f4"))
    smallest, greatest = _COMMON_FLOATS
    is_common = ((magnitudes >= smallest) & (magnitudes <= greatest)) | np.isinf(magnitudes) | np.isin(bits, _NAN_BITS)
    return bool(is_common.any() and (is_common | (bits == 0)).all())


def _find_fitting_kind(window: bytes, is_cut: bool, is_last: bool) -> str | None:
    """Return the first kind in ``_INTEGER_KINDS`` whose object ends within a window and is not followed by a number.

    If there is no such kind, return None, unless more bytes may follow (``is_cut``) and this is the largest window
    (``is_last``). In this case, return the first kind whose object is longer than the window, or None.
    """
    longer_kind = None
    for kind in _INTEGER_KINDS:
        trial = BytesSource(window)
        try:
            _codec(kind).read(trial)
        except TruncatedError:
            longer_kind = longer_kind or kind
        except FormatError:
            pass
        else:
            # In an archive, a key follows an object. Another number shows that the object has another kind.
            if not trial.peek(len(_VECTOR)).startswith((b"\x04", _VECTOR)):
                return kind
    return longer_kind if is_cut and is_last else None


def _classify_text(source: Source) -> str:
    """Return the kind of the object in text at the current position. Raise FormatError for bytes that are not text."""
    for size in _WINDOWS:
        text = source.peek(size)
        start = text.lstrip(b" \t")
        if b"\n" in start or b"]" in start or len(text) < size:
            break
    if not text:
        source.fail("expected an object, found the end; the file is empty or incomplete")
    if start.startswith(b"["):
        return _classify_brackets(start)
    if start.startswith(b"rows="):
        return "sparse-matrix"
    if start.startswith(b"dim="):
        return "sparse-vector"
    for token, (kind, _) in _TOKENS.items():
        if start.startswith(token + b" ") or (token[:1] == b"<" and start.startswith(token + b"\n")):
            return kind
    line, _, later_lines = start.partition(b"\n")
    if _NOT_TEXT.search(line):
        advice = _ARCHIVE if source.tell() == 0 else ": the offset is wrong, or the file is damaged"
        source.fail(f"expected a binary object or text{advice}")
    if source.tell() == 0 and b"\0" in text:
        source.fail(f"expected text, found a zero byte after the first line{_ARCHIVE}")
    if b" [" in line and INTEGER.match(line):
        return "gauss-posterior"
    # An object of an archive follows a key and fills one line. Text at the start of a file may be a whole text file.
    if source.tell() == 0 and _CONFIG.match(text):
        return "config"
    if source.tell() == 0 and later_lines.strip():
        lines = text.split(b"\n")
        complete_lines = lines if len(text) < size else lines[:-1]
        return _classify_lines([text_line.split() for text_line in complete_lines])
    return _classify_line(line)


def _classify_line(line: bytes) -> str:
    """Return the kind of an object in text that fills one line and has no brackets."""
    if b";" in line:
        return _classify_list(line)
    words = line.split()
    if words and all(INTEGER.fullmatch(word) for word in words):
        return "int" if len(words) == 1 else "int-vector"
    if len(words) != 1:
        return "token-vector"
    if NUMBER.fullmatch(words[0]):
        return "double"
    return "bool" if words[0] in (b"T", b"F") else "token"


def _classify_lines(lines: list[list[bytes]]) -> str:
    """Return the kind of a text file, given the words of its first lines.

    The kind is "int-lines" for one integer per line, "symbol-table" for a word and an integer, and otherwise "lines".
    """
    lengths = {len(words) for words in lines if words}
    if lengths in ({1}, {2}) and all(INTEGER.fullmatch(words[-1]) for words in lines if words):
        return "int-lines" if lengths == {1} else "symbol-table"
    return "lines"


def _classify_brackets(text: bytes) -> str:
    """Return the kind of an object in text that starts with ``[``."""
    inside, _, after_bracket = text[1:].partition(b"]")
    if b"\n" in inside or b";" in inside:
        # The rows of a triangle have 1, 2, 3 ... numbers. The rows of a matrix have equal lengths.
        counts = [len(row.split()) for row in re.split(rb"[\n;]", inside, maxsplit=4) if row.strip()]
        return "packed-matrix" if counts[:2] == [1, 2] else "matrix"
    # All frames of a posterior end with "] ", including the final frame.
    if after_bracket.startswith(b" "):
        return "posterior"
    return "vector" if inside.strip() else "matrix"


def _classify_list(line: bytes) -> str:
    """Return the kind of a line with ``;``, which ends each list of integers, or stands between pairs of numbers."""
    if line.rstrip().endswith(b";"):
        return "int-vector-vector"
    are_integers = all(INTEGER.fullmatch(word) for word in line.replace(b";", b" ").split())
    return "int-pair-vector" if are_integers else "float-pair-vector"


def read_any(source: Source) -> Any:
    """Read an object of any kind at the current position of ``source``, and return its value.

    Raises:
        FormatError: the bytes are not an object of a known kind.
        TruncatedError: the object is incomplete.

    >>> from io_ark.codecs import read_any
    >>> from io_ark.streams.source import BytesSource
    >>> read_any(BytesSource(b" [ 1 2 3 ]\\n"))
    array([1., 2., 3.], dtype=float32)
    """
    return AnyCodec().read(source)


class AnyCodec(Codec[Any]):
    """Codec of objects of any kind. It detects the kind from the first bytes when reading, from the value when writing.

    Args:
        compress: number or name of the compression method of float matrices, such as "speech". If None,
            matrices are not compressed.
        kind: kind of all written objects. If None, the kind of each object is detected from its value.

    >>> import io
    >>> from io_ark.codecs import AnyCodec
    >>> output = io.BytesIO()
    >>> AnyCodec().write(output, [1, 2, 3], binary=False)
    >>> output.getvalue()
    b'1 2 3 \\n'
    """

    marker = b""  # The codec of the detected kind writes the marker.

    def __init__(self, compress: int | str | None = None, kind: str | None = None) -> None:
        self._kind = kind
        self._compress = None if compress is None else codec("compressed-matrix", method=compress)
        self._detected: dict[tuple[str, int], Codec[Any]] = {}

    def starts_object(self, source: Source) -> bool:
        return is_single_object(source)

    def read(self, source: Source) -> Any:
        return self.detect_codec(source).read(source)

    def read_part(self, source: Source, selection: Range | None) -> Any:
        return self.detect_codec(source).read_part(source, selection)

    def detect_codec(self, source: Source) -> Codec[Any]:
        """Return the codec of the object at the current position of ``source``. Objects of the same kind share a codec.

        Raise FormatError if the bytes are not the start of any kind of object.
        """
        start = source.peek_buffered(_TOKEN_END)
        object_codec = _BY_START.get(start)
        if object_codec is None:
            kind, options = detect_kind(source)
            cache_key = kind, len(options)  # A kind has at most one nonempty set of options.
            object_codec = self._detected[cache_key] = self._detected.get(cache_key) or codec(kind, **options)
            # Most objects start with a token of two letters and a space, which alone determines the kind.
            if start.startswith(BINARY_MARKER) and start[2:4] in _TOKENS and start[4:] == b" ":
                _BY_START[start] = object_codec
        return object_codec

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        kind = self._kind or kind_of(value)
        if self._compress is not None and kind in ("matrix", "double-matrix") and binary:
            self._compress.write(sink, value, binary=True)
        else:
            _codec(kind).write(sink, value, binary=binary)


def kind_of(value: Any) -> str:
    """Return the kind in which :func:`io_ark.save` writes a value if you do not pass ``kind``.

    Raises:
        FormatError: no kind can be inferred from the type of the value, or from the dtype and dimensions of an array.

    >>> import numpy as np
    >>> from io_ark.codecs import kind_of
    >>> kind_of(np.zeros((2, 3))), kind_of([1, 2]), kind_of("word"), kind_of([[1, 2], [3]])
    ('double-matrix', 'int-vector', 'token', 'int-vector-vector')
    """
    if type(value) is not np.ndarray:
        for base, kind in _KINDS_OF_CLASSES:
            if isinstance(value, base):
                return kind
        for base in type(value).__mro__:
            if base in VALUE_KINDS:
                return VALUE_KINDS[base]
        if not hasattr(value, "__array__"):
            if isinstance(value, list | tuple):
                return _detect_kind_of_list(value)
            raise FormatError(f"cannot infer the Kaldi type of a {type(value).__name__!r}; pass kind=...")
    array = np.asarray(value)
    array_kind = _KINDS_OF_ARRAYS.get((array.ndim, array.dtype.kind))
    if array_kind is None:
        is_integer_matrix = array.ndim == 2 and array.dtype.kind in "iub"
        advice = "the numbers to float32" if is_integer_matrix else "the array to a vector or a matrix of numbers"
        raise FormatError(f"Kaldi has no {array.ndim}-dimensional arrays of {array.dtype}: convert {advice}")
    return array_kind if array.dtype.itemsize < 8 or array.dtype.kind != "f" else f"double-{array_kind}"


_KINDS_OF_CLASSES: tuple[tuple[Any, str], ...] = (
    (str, "token"), (bool | np.bool_, "bool"), (int | np.integer, "int"), (float, "double"), (np.floating, "float"),
)  # fmt: skip
_KINDS_OF_ARRAYS = {(2, "f"): "matrix", (1, "f"): "vector", (1, "i"): "int-vector", (1, "u"): "int-vector"}


def _detect_kind_of_list(value: list[Any] | tuple[Any, ...]) -> str:
    """Return the kind of a list of tokens, integers, lists of integers or lists of pairs, or raise FormatError."""
    if value and all(isinstance(element, str) for element in value):
        return "token-vector"
    if all(isinstance(element, int | np.integer) for element in value):  # An empty list counts as a list of integers.
        return "int-vector"
    if all(isinstance(element, list | tuple | np.ndarray) for element in value):
        items = [item for element in value for item in element]
        if all(isinstance(item, int | np.integer) for item in items):
            return "int-vector-vector"
        if all(isinstance(item, tuple) and len(item) == 2 for item in items):
            return "posterior"
    raise FormatError("cannot infer the Kaldi type of this list: it should hold words, integers, lists of integers, or "
                      "lists of (integer, weight) pairs; pass kind=... for any other type")  # fmt: skip
