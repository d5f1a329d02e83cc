"""Codecs of transition models, topologies and decision trees."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import pairwise

import numpy as np

from io_ark.codecs.base import (
    Codec,
    Sink,
    encode_int32,
    expect_token,
    quote,
    read_float,
    read_int32,
    read_size,
    read_token,
    view_raw_bytes,
)
from io_ark.codecs.int_vector import PlainIntVectorCodec, create_sized_layout, read_sized_records
from io_ark.codecs.vector import VectorCodec
from io_ark.models.fields import locate_errors
from io_ark.models.topology import NO_PDF, HmmState, HmmTopology, TopologyEntry
from io_ark.models.transitions import TransitionModel
from io_ark.models.tree import ContextDependency, EventMap, Leaf, Split, Table
from io_ark.streams.source import Source
from io_ark.text import parse_integer

_integers = PlainIntVectorCodec()
_vector = VectorCodec()
_UINT32 = np.dtype([("size", "i1"), ("value", "<u4")])
_INTEGER = re.compile(rb"[+-]?[0-9]+")


class HmmTopologyCodec(Codec[HmmTopology]):
    """Codec of topologies."""

    def read_body(self, source: Source, binary: bool) -> HmmTopology:
        start = source.tell()
        expect_token(source, binary, b"<Topology>")
        topology = _read_binary_topology(source) if binary else _read_text_topology(source)
        locate_errors(source, start, topology.check)
        return topology

    def write_body(self, sink: Sink, value: HmmTopology, binary: bool) -> None:
        sink.write(b"<Topology> ")
        (_write_binary_topology if binary else _write_text_topology)(sink, value)
        sink.write(b"</Topology> " if binary else b"</Topology> \n")


def _read_binary_topology(source: Source) -> HmmTopology:
    """Read a topology in binary, after its opening token. In a chain model, -1 precedes the number of HMMs."""
    phones = tuple(_integers.read_body(source, True).tolist())
    entry_of = tuple(_integers.read_body(source, True).tolist())
    count = read_int32(source, True)
    is_hmm = count != -1
    if not is_hmm:
        count = read_int32(source, True)
    entries = tuple(_read_binary_entry(source, is_hmm) for _ in range(count))
    expect_token(source, True, b"</Topology>")
    return HmmTopology(tuple(sorted(set(phones))), entry_of, entries)


def _read_binary_entry(source: Source, is_hmm: bool) -> TopologyEntry:
    """Read the states of an HMM in binary. A state has one pdf-class in the file if ``is_hmm``, and otherwise two."""
    states = []
    for _ in range(read_size(source, True, "the number of states of an HMM")):
        forward = read_int32(source, True)
        self_loop = forward if is_hmm else read_int32(source, True)
        count = read_size(source, True, "the number of transitions of a state")
        transitions = tuple((read_int32(source, True), read_float(source, True)) for _ in range(count))
        states.append(HmmState(forward, self_loop, transitions))
    return tuple(states)


def _write_binary_topology(sink: Sink, value: HmmTopology) -> None:
    """Write a topology in binary, without its opening and closing tokens."""
    _integers.write_body(sink, np.array(value.phones, np.int32), True)
    _integers.write_body(sink, np.array(value.entry_of, np.int32), True)
    if not value.is_hmm:
        sink.write(encode_int32(-1))
    sink.write(encode_int32(len(value.entries)))
    for entry in value.entries:
        sink.write(encode_int32(len(entry)))
        for state in entry:
            sink.write(encode_int32(state.forward_pdf_class))
            if not value.is_hmm:
                sink.write(encode_int32(state.self_loop_pdf_class))
            sink.write(encode_int32(len(state.transitions)))
            for target, probability in state.transitions:
                # In Kaldi's binary format, a byte with the size precedes a number.
                sink.write(encode_int32(target) + b"\4" + np.float32(probability).tobytes())


def _read_text_topology(source: Source) -> HmmTopology:
    """Read a topology in text, from its first entry to its closing token or, as in Kaldi, to the end of the file."""
    entry_of: dict[int, int] = {}
    entries: list[TopologyEntry] = []
    while True:
        start = source.tell()
        token = source.read_token()
        if token in (b"</Topology>", b""):  # As in Kaldi, the file may end without the closing token.
            break
        if token != b"<TopologyEntry>":
            source.fail(f"expected '</Topology>' or '<TopologyEntry>', found {quote(token)}", start)
        for phone in _read_phones(source):
            if phone in entry_of:
                source.fail(f"phone {phone} is in two entries of the topology: remove the phone from an entry", start)
            entry_of[phone] = len(entries)
        entries.append(_read_text_entry(source))
    if source.peek(1) == b"\n" or source.peek(1) == b" ":
        source.skip(1)
    size = max(entry_of, default=-1) + 1
    # Phones have few gaps, so a far larger number is damaged. It must not create a huge tuple.
    if size > 8 * (len(entry_of) + (1 << 16)):
        source.fail(f"phone {size - 1} of the topology is too large for {len(entry_of)} phones: the file is damaged")
    return HmmTopology(tuple(sorted(entry_of)), tuple(entry_of.get(i, -1) for i in range(size)), tuple(entries))


def _read_phones(source: Source) -> list[int]:
    """Read the phones of a topology entry in text, including the opening and the closing token of the list."""
    expect_token(source, False, b"<ForPhones>")
    phones = []
    while (token := source.read_token()) != b"</ForPhones>":
        if not _INTEGER.fullmatch(token) or not 0 < (phone := parse_integer(token)) < 1 << 31:
            source.fail(f"expected the number of a phone or '</ForPhones>', found {quote(token)}")
        phones.append(phone)
    return phones


def _read_text_entry(source: Source) -> TopologyEntry:
    """Read the states of an HMM in text. The states must be numbered from 0."""
    states: list[HmmState] = []
    while expect_token(source, False, b"<State>", b"</TopologyEntry>") == b"<State>":
        start = source.tell()
        number = read_int32(source, False)
        if number != len(states):
            source.fail(f"expected state {len(states)} of an HMM, found {number}: number the states from 0", start)
        states.append(_read_text_state(source))
    return tuple(states)


def _read_text_state(source: Source) -> HmmState:
    """Read a state in text, after its number. A state without a pdf-class emits no frames."""
    forward = self_loop = NO_PDF
    token = read_token(source, False)
    if token == b"<PdfClass>":
        forward = self_loop = read_int32(source, False)
        token = read_token(source, False)
    elif token == b"<ForwardPdfClass>":
        forward = read_int32(source, False)
        expect_token(source, False, b"<SelfLoopPdfClass>")
        self_loop = read_int32(source, False)
        token = read_token(source, False)
    transitions = []
    while token == b"<Transition>":
        transitions.append((read_int32(source, False), read_float(source, False)))
        token = read_token(source, False)
    if token != b"</State>":
        source.fail(f"expected '<Transition>' or '</State>', found {quote(token)}")
    return HmmState(forward, self_loop, tuple(transitions))


def _write_text_topology(sink: Sink, value: HmmTopology) -> None:
    """Write a topology in text, without its opening and closing tokens."""
    lines = [""]
    for entry_index, entry in enumerate(value.entries):
        phones = "".join(f"{phone} " for phone, index in enumerate(value.entry_of) if index == entry_index)
        lines += ["<TopologyEntry> ", "<ForPhones> ", phones, "</ForPhones> "]
        lines += [_format_state(i, state, value.is_hmm) for i, state in enumerate(entry)]
        lines.append("</TopologyEntry> ")
    sink.write("\n".join([*lines, ""]).encode())


def _format_state(number: int, state: HmmState, is_hmm: bool) -> str:
    """Format state ``number`` of an HMM as text, with one pdf-class if ``is_hmm``, and otherwise with two."""
    parts = [f"<State> {number} "]
    if state.forward_pdf_class != NO_PDF and is_hmm:
        parts.append(f"<PdfClass> {state.forward_pdf_class} ")
    elif state.forward_pdf_class != NO_PDF:
        parts.append(f"<ForwardPdfClass> {state.forward_pdf_class} <SelfLoopPdfClass> {state.self_loop_pdf_class} ")
    parts += [f"<Transition> {target} {np.float32(probability):.7g} " for target, probability in state.transitions]
    return "".join([*parts, "</State> "])


class TransitionModelCodec(Codec[TransitionModel]):
    """Codec of transition models. In a file of an acoustic model, only the transition model is read."""

    _topology = HmmTopologyCodec()

    def read_body(self, source: Source, binary: bool) -> TransitionModel:
        start = source.tell()
        expect_token(source, binary, b"<TransitionModel>")
        topology = self._topology.read_body(source, binary)
        token = expect_token(source, binary, b"<Triples>", b"<Tuples>")
        count = read_size(source, binary, "the number of states of a transition model")
        columns = 3 if token == b"<Triples>" else 4
        if binary:  # The fields of a record are named a, b, c and d. A byte with its size precedes each integer.
            records = read_sized_records(
                source, create_sized_layout(np.int32, *"abcd"[:columns]), count, "states of a transition model"
            )
            tuples = np.stack([records[name] for name in "abcd"[:columns]], axis=1)
        else:
            numbers = [read_int32(source, False) for _ in range(columns * count)]
            tuples = np.array(numbers, np.int32).reshape(count, columns)
        if columns == 3:  # A triple has one pdf, which is the forward pdf and the self-loop pdf.
            tuples = np.concatenate((tuples, tuples[:, 2:]), axis=1)
        expect_token(source, binary, b"</Triples>", b"</Tuples>")
        expect_token(source, binary, b"<LogProbs>")
        log_probs = _vector.read_body(source, binary)
        expect_token(source, binary, b"</LogProbs>")
        expect_token(source, binary, b"</TransitionModel>")
        model = TransitionModel(topology, tuples, log_probs)
        locate_errors(source, start, model.check)
        return model

    def write_body(self, sink: Sink, value: TransitionModel, binary: bool) -> None:
        columns = 3 if value.is_hmm else 4
        token = b"Triples" if value.is_hmm else b"Tuples"
        end = b"" if binary else b"\n"
        sink.write(b"<TransitionModel> " + end)
        self._topology.write_body(sink, value.topology, binary)
        if binary:  # The fields are named as in read_body. A field a_size holds the size in bytes of the field a.
            records = np.empty(len(value.tuples), create_sized_layout(np.int32, *"abcd"[:columns]))
            for i, name in enumerate("abcd"[:columns]):
                records[name + "_size"], records[name] = 4, value.tuples[:, i]
            sink.write(b"<%s> " % token + encode_int32(len(records)))
            sink.write(view_raw_bytes(records))
        else:
            rows = value.tuples[:, :columns].tolist()
            lines = "".join("".join(f"{number} " for number in row) + "\n" for row in rows)
            sink.write(b"<%s> %d \n%s" % (token, len(value.tuples), lines.encode()))
        sink.write(b"</%s> %s<LogProbs> %s" % (token, end, end))
        _vector.write_body(sink, value.log_probs, binary)
        sink.write(b"</LogProbs> %s</TransitionModel> %s" % (end, end))


class ContextDependencyCodec(Codec[ContextDependency]):
    """Codec of decision trees."""

    def read_body(self, source: Source, binary: bool) -> ContextDependency:
        expect_token(source, binary, b"ContextDependency")
        width, central = read_int32(source, binary), read_int32(source, binary)
        # Skip the tree of phone lengths that Kaldi before 2012 wrote.
        if expect_token(source, binary, b"ToLength", b"ToPdf") == b"ToLength":
            _read_tree(source, binary)
            expect_token(source, binary, b"ToPdf")
        start = source.tell()
        root = _read_tree(source, binary)
        if root is None:
            source.fail("the tree has no root: the file is damaged", start)
        expect_token(source, binary, b"EndContextDependency")
        return ContextDependency(width, central, root)

    def write_body(self, sink: Sink, value: ContextDependency, binary: bool) -> None:
        sink.write(b"ContextDependency " + _encode_int(value.width, binary) + _encode_int(value.central, binary))
        sink.write(b"ToPdf ")
        _write_tree(sink, value.root, binary)
        sink.write(b"EndContextDependency ")


class _OpenNode:
    """Node of a tree while the children are being read.

    Args:
        key: position in the window of phones, or ``PDF_CLASS``.
        values: values of a question, or None for a table.
        count: number of children in the file.
    """

    def __init__(self, key: int, values: tuple[int, ...] | None, count: int) -> None:
        self.key, self.values, self.count = key, values, count
        self.children: list[EventMap | None] = []

    def close(self, source: Source, binary: bool) -> EventMap:
        """Read the closing bracket and return the complete node. Raise FormatError if a question is invalid."""
        start = source.tell()
        if self.values is None:
            expect_token(source, binary, b")")
            return Table(self.key, tuple(self.children))
        expect_token(source, binary, b"}")
        yes, no = self.children
        if yes is None or no is None:
            source.fail("a question of the tree has an empty child: the file is damaged", start)
        if any(value > following for value, following in pairwise(self.values)):
            source.fail("the values of a question of the tree are not in ascending order: sort the values", start)
        return Split(self.key, self.values, yes, no)


def _read_tree(source: Source, binary: bool) -> EventMap | None:
    """Read the nodes of a tree, and return its root, or None for an empty tree.

    No recursion is used, because nodes may be nested to any depth.
    """
    open_nodes: list[_OpenNode] = []
    while True:
        # Tokens of a leaf (ConstantEventMap), a table (TableEventMap), a question (SplitEventMap) and a missing node.
        token = expect_token(source, binary, b"CE", b"TE", b"SE", b"NULL")
        node: EventMap | None = None
        if token == b"CE":
            node = Leaf(read_int32(source, binary))
        elif token == b"TE":
            key, count = read_int32(source, binary), _read_child_count(source, binary)
            expect_token(source, binary, b"(")
            open_nodes.append(_OpenNode(key, None, count))
        elif token == b"SE":
            key, values = read_int32(source, binary), tuple(_integers.read_body(source, binary).tolist())
            expect_token(source, binary, b"{")
            open_nodes.append(_OpenNode(key, values, 2))  # The children are the nodes for yes and no.
        if token in (b"CE", b"NULL"):
            if not open_nodes:
                return node
            open_nodes[-1].children.append(node)
        while len(open_nodes[-1].children) == open_nodes[-1].count:
            node = open_nodes.pop().close(source, binary)
            if not open_nodes:
                return node
            open_nodes[-1].children.append(node)


def _read_child_count(source: Source, binary: bool) -> int:
    """Read the number of children of a table. In binary, it is an unsigned 4-byte integer after a byte -4."""
    if not binary:
        return read_size(source, False, "the number of children of a table")
    start = source.tell()
    size, value = source.read_array(_UINT32, 1)[0]
    if size != -4:
        source.fail(f"expected a 4-byte unsigned integer (marked by a byte -4), found a byte {size}", start)
    return int(value)


def _write_tree(sink: Sink, root: EventMap, binary: bool) -> None:
    """Write a tree without recursion, because nodes may be nested to any depth."""
    end = b"" if binary else b"\n"
    buffer = BytesIO()
    stack: list[EventMap | bytes | None] = [root]  # Nodes and bytes to write. The last element is written first.
    while stack:
        node = stack.pop()
        if node is None:
            buffer.write(b"NULL ")
        elif isinstance(node, bytes):
            buffer.write(node)
        elif isinstance(node, Leaf):
            buffer.write(b"CE " + _encode_int(node.pdf, binary))
        elif isinstance(node, Table):
            count = len(node.children)
            # The byte -4 (0xfc) marks an unsigned integer of 4 bytes.
            size = b"\xfc" + count.to_bytes(4, "little") if binary else b"%d " % count
            buffer.write(b"TE " + _encode_int(node.key, binary) + size + b"( ")
            stack += [b") " + end, *reversed(node.children)]
        else:
            buffer.write(b"SE " + _encode_int(node.key, binary))
            _integers.write_body(buffer, np.array(node.values, np.int32), binary)
            buffer.write(b"{ ")
            stack += [b"} " + end, node.no, node.yes]
    sink.write(buffer.getvalue())


def _encode_int(value: int, binary: bool) -> bytes:
    return encode_int32(value) if binary else b"%d " % value
