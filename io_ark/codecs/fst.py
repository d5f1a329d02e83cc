"""Read acceptors with tropical weights, which chain training examples contain, and the headers of any OpenFst file.

Source: the formats of OpenFst's ``compact-fst.h`` and ``fst.h``; for text, ``ReadFstKaldi`` in Kaldi's
``src/fstext/kaldi-fst-io-inl.h``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import INT32_MAX, INT32_MIN, MAX_NUMBER_CHARACTERS, NUMBER, Codec, Sink, quote, register_kind
from io_ark.codecs.text_parse import round_to_float32
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_MAGIC = 2125659606
_LENGTH = struct.Struct("<i")
_HEADER = struct.Struct("<iiQqqq")
_HAS_SYMBOLS = 1 | 2  # Flags of a header that is followed by symbol tables of the input or output.
_IS_ALIGNED = 4  # Flag of files with aligned arrays.
_ALIGNED_VERSION = 1  # Version of compact FSTs whose arrays are aligned without a flag.
_ALIGNMENT = 16  # Aligned arrays start at a multiple of this number of bytes.
_FINAL = -1  # Label of an element that is a final cost and not an arc.
_ELEMENT = np.dtype([("label", "<i4"), ("weight", "<f4"), ("next_state", "<i4")])
_MAX_NAME_BYTES = 100  # Longer names of FST or arc types show a damaged file.
_INT32_DIGITS = re.compile(rb"[+-]?[0-9]{1,10}")
_INFINITE = b"Infinity", b"-Infinity"  # Infinite costs, as OpenFst prints them.


class Acceptor(NamedTuple):
    """A weighted acceptor. Its weights are costs (negative logarithms)."""

    start: int  # Start state, or -1 without states.
    final_costs: Array  # float32 of shape (states,): cost of ending in a state, infinite if it is not final.
    states: Array  # int32 of shape (arcs,): source state of each arc, ascending.
    labels: Array  # int32 of shape (arcs,): label of each arc.
    costs: Array  # float32 of shape (arcs,): cost of each arc.
    next_states: Array  # int32 of shape (arcs,): destination state of each arc.


@register_kind("fst")
@dataclass(frozen=True, repr=False)
class Fst:
    """Graph that fills a file, such as ``HCLG.fst``: the fields of its header, and the bytes after the header."""

    type: str  # Type of the FST as OpenFst names it, such as `vector`, `const`, `ngram` or `olabel_lookahead`.
    arc_type: str  # Type of the arcs, such as `standard`.
    version: int  # Version of the file format of this FST type.
    flags: int  # Bits of the header: 1 and 2 for symbol tables, 4 for aligned states and arcs.
    properties: int  # Bits of OpenFst's known properties, such as sorted arcs.
    start: int  # Start state, or -1 if there is none.
    num_states: int  # Number of states, or -1 or 0 if the header lacks it.
    num_arcs: int  # Number of arcs, or -1 or 0 if the header lacks it.
    data: bytes  # The bytes after the header: symbol tables, states and arcs.

    def __repr__(self) -> str:
        return f"Fst({self.type!r}, {self.arc_type!r}, num_states={self.num_states}, num_arcs={self.num_arcs})"


class FstCodec(Codec[Fst]):
    """Codec of graphs that fill a file."""

    marker = b""

    def read(self, source: Source) -> Fst:
        at = source.tell()
        if at:
            source.fail("an FST is a whole file and cannot be in an archive or at an offset: use its file name", at)
        if _LENGTH.unpack(source.read(_LENGTH.size))[0] != _MAGIC:
            source.fail("expected an FST in OpenFst's binary format: name another file, or convert the FST", at)
        fst_type, arc_type = _read_name(source).decode("latin1"), _read_name(source).decode("latin1")
        version, flags, properties, start, state_count, arc_count = _HEADER.unpack(source.read(_HEADER.size))
        remaining = source.count_remaining()  # Reading a known number of bytes at once saves a copy.
        data = source.read_rest() if remaining is None else bytes(source.read(remaining))
        return Fst(fst_type, arc_type, version, flags, properties, start, state_count, arc_count, data)

    def write_body(self, sink: Sink, value: Fst, binary: bool) -> None:
        if not binary:
            raise FormatError("io_ark cannot write an FST as text: write it in binary")
        names = (name.encode("latin1") for name in (value.type, value.arc_type))
        sink.write(b"".join([_LENGTH.pack(_MAGIC), *(_LENGTH.pack(len(name)) + name for name in names)]))
        sink.write(_HEADER.pack(value.version, value.flags, value.properties, value.start, value.num_states,
                                value.num_arcs))  # fmt: skip
        sink.write(value.data)


def read_acceptor(source: Source, binary: bool) -> Acceptor:
    """Read an acceptor, an FST whose arcs have one label. Raise FormatError for any other FST.

    The binary format is OpenFst's ``compact_acceptor``. In text, each line is an arc or a final state, and an empty
    line ends the acceptor.
    """
    return _read_binary_acceptor(source) if binary else _read_text_acceptor(source)


def _read_name(source: Source) -> bytes:
    """Read the name of an FST type or arc type: its length, and its bytes. Raise FormatError for an invalid length."""
    (length,) = _LENGTH.unpack(source.read(_LENGTH.size))
    if not 0 <= length <= _MAX_NAME_BYTES:
        source.fail(f"invalid length of the name of an FST's type: {length} bytes; the file is damaged")
    return bytes(source.read(length))


def _read_binary_acceptor(source: Source) -> Acceptor:
    """Read an acceptor in binary. Raise FormatError for any other type of FST, and for an invalid FST."""
    at = source.tell()
    if _LENGTH.unpack(source.read(_LENGTH.size))[0] != _MAGIC:
        source.fail("expected an FST in OpenFst's binary format", at)
    fst_type, arc_type = _read_name(source), _read_name(source)
    if (fst_type, arc_type) != (b"compact_acceptor", b"standard"):
        source.fail(f"cannot read an FST of type {quote(fst_type)} with arcs {quote(arc_type)}: only "
                    "compact_acceptor with standard arcs is supported", at)  # fmt: skip
    version, flags, _, start, state_count, _ = _HEADER.unpack(source.read(_HEADER.size))
    if flags & _HAS_SYMBOLS:
        source.fail("an FST with symbol tables is not supported: remove them with fstsymbols --clear_isymbols "
                    "--clear_osymbols", at)  # fmt: skip
    if not (0 <= state_count < INT32_MAX and -1 <= start < max(state_count, 0)):
        source.fail(f"invalid FST of {state_count} states with start state {start}; the file is damaged", at)
    is_aligned = bool(flags & _IS_ALIGNED) or version == _ALIGNED_VERSION
    # The arcs and the final cost of state i are the elements bounds[i] to bounds[i + 1] - 1.
    bounds = _read_array(source, is_aligned, "<u4", state_count + 1).astype(np.int64)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any():
        source.fail("the arcs of an FST's states are not in order; the file is damaged", at)
    elements = _read_array(source, is_aligned, _ELEMENT, int(bounds[-1]))
    states = np.repeat(np.arange(state_count, dtype=np.int32), np.diff(bounds))
    is_final = elements["label"] == _FINAL
    final_costs = np.full(state_count, np.inf, np.float32)
    final_costs[states[is_final]] = elements["weight"][is_final]
    arcs = elements[~is_final]
    if ((arcs["next_state"] < 0) | (arcs["next_state"] >= state_count)).any():
        source.fail("an arc of an FST leads to a state that does not exist; the file is damaged", at)
    return Acceptor(start, final_costs, states[~is_final], *(arcs[name].copy() for name in _ARC_FIELDS))


_ARC_FIELDS = ("label", "weight", "next_state")


def _read_array(source: Source, is_aligned: bool, dtype: npt.DTypeLike, count: int) -> Array:
    """Read ``count`` elements in binary. If ``is_aligned``, first skip bytes until the offset is a multiple of 16."""
    if is_aligned:
        source.skip(-source.tell() % _ALIGNMENT)
    return source.read_array(dtype, count)


def _read_text_acceptor(source: Source) -> Acceptor:
    """Read an acceptor in text. Raise FormatError for a line that is not an arc or a final state of an acceptor."""
    arcs: list[tuple[int, int, float, int]] = []
    cost_of_final_state: dict[int, float] = {}
    start = -1
    if source.read_line().strip():
        source.fail("expected an FST in text to start on a new line")
    at = source.tell()
    while words := source.read_line().split():
        state = _parse_integer(source, words[0], at, minimum=0)
        start = state if start < 0 else start  # The first line begins with the start state.
        cost = _parse_cost(source, words[-1], at) if len(words) in (2, 5) else 0.0
        if len(words) <= 2:
            cost_of_final_state[state] = cost
        elif len(words) in (4, 5) and words[2] == words[3]:
            label = _parse_integer(source, words[2], at)
            arcs.append((state, label, cost, _parse_integer(source, words[1], at, minimum=0)))
        else:
            source.fail(f"a line of {len(words)} words is neither an arc of an acceptor (state, next state, label, the "
                        "same label, cost) nor a final state", at)  # fmt: skip
        at = source.tell()
    last_states = (max(state, next_state) for state, _, _, next_state in arcs)
    state_count = 1 + max([start, *cost_of_final_state, *last_states])
    # A line names at most two states, so more states than this bound come from a damaged number.
    if state_count > 2 * (len(arcs) + len(cost_of_final_state)) + 1:
        source.fail(f"most of the {state_count} states of an FST have no arc and are not final; the file is damaged",
                    at)  # fmt: skip
    final_costs = np.full(state_count, np.inf, np.float32)
    for state, cost in cost_of_final_state.items():
        final_costs[state] = cost
    arcs.sort(key=lambda arc: arc[0])  # Sort by the source state.
    states, labels, costs, next_states = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    return Acceptor(start, final_costs, np.array(states, np.int32), np.array(labels, np.int32),
                    np.array(costs, np.float32), np.array(next_states, np.int32))  # fmt: skip


def _parse_integer(source: Source, word: bytes, at: int, minimum: int = INT32_MIN) -> int:
    """Parse a label, or a state if ``minimum`` is 0. If this fails, raise FormatError with the line's offset ``at``."""
    if not _INT32_DIGITS.fullmatch(word) or not minimum <= int(word) <= INT32_MAX:
        source.fail(f"expected a {'label' if minimum else 'state'} of an FST (an integer), found {quote(word)}", at)
    return int(word)


def _parse_cost(source: Source, word: bytes, at: int) -> float:
    """Parse a cost, which may be ``Infinity``. If this fails, raise FormatError with the line's offset ``at``."""
    if word in _INFINITE:
        return float(word)
    cost = round_to_float32(word) if len(word) <= MAX_NUMBER_CHARACTERS and NUMBER.fullmatch(word) else np.inf
    if np.isinf(cost):
        source.fail(f"expected a cost of an FST (a number), found {quote(word)}", at)
    return cost
