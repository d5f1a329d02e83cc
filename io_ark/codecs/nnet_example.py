"""Read training examples of Kaldi's nnet3 and chain networks.

Source: Kaldi's ``src/nnet3/nnet-example.cc``, ``nnet-chain-example.cc``, ``nnet-common.cc`` (indexes) and
``src/chain/chain-supervision.cc``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import (
    Codec,
    Sink,
    expect_token,
    read_bool,
    read_float,
    read_int32,
    read_size,
    read_token,
    register_kind,
)
from io_ark.codecs.fst import Acceptor, read_acceptor
from io_ark.codecs.general import GeneralMatrix, GeneralMatrixCodec
from io_ark.codecs.int_vector import PlainIntVectorCodec, create_sized_layout
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_MAX_STEP = 124  # Largest magnitude of a signed byte that is the step in t from the previous index.
_COMPLETE_MARK = 127  # Byte before an index that is stored completely.
_COMPLETE_INDEX = np.dtype([("mark", "u1"), ("index", create_sized_layout("<i4", "n", "t", "x"))])
# Maximum number of indexes that are read at once: _MIN_RUN after a change between steps and complete indexes, and
# _MAX_RUN while there is no change.
_MIN_RUN, _MAX_RUN = 1 << 8, 1 << 12

_matrix = GeneralMatrixCodec()
_vector = VectorCodec()
_integers = PlainIntVectorCodec()


class NnetIo(NamedTuple):
    """Input or output of a network in a training example."""

    name: str  # Name, such as `input`, `ivector` or `output`.
    indexes: Array  # int32 of shape (rows, 3): sequence n, time t and x of each row.
    features: GeneralMatrix  # Array, CompressedMatrix or SparseMatrix with the same number of rows.


@register_kind("nnet-example")
class NnetExample(NamedTuple):
    """Training example of an nnet3 network."""

    io: list[NnetIo]  # Inputs and outputs.


class Supervision(NamedTuple):
    """Target of an output of a chain network, for sequences of equal length."""

    weight: float  # Weight of the example in the objective function.
    num_sequences: int  # Number of sequences in the example.
    frames_per_sequence: int  # Number of output frames per sequence.
    label_dim: int  # Number of pdfs. A label is a pdf plus 1.
    fsts: list[Acceptor]  # One acceptor for all sequences, or one per sequence for end-to-end training.
    end_to_end: bool  # True for end-to-end training.
    alignment_pdfs: Array  # int32 of shape (frames,): the pdf of each frame, or empty.


class ChainOutput(NamedTuple):
    """Output of a chain network in a training example, with its target."""

    name: str  # Name of the output in the network, usually `output`.
    indexes: Array  # int32 of shape (rows, 3): sequence n, time t and x of each row.
    supervision: Supervision  # Target of the output.
    deriv_weights: Array  # float32 of shape (rows,): weight of the derivative of each row, or empty.


@register_kind("nnet-chain-example")
class NnetChainExample(NamedTuple):
    """Training example of a chain network."""

    inputs: list[NnetIo]  # Inputs of the network.
    outputs: list[ChainOutput]  # Outputs of the network, with their targets.


def read_indexes(source: Source, binary: bool) -> Array:
    """Read the indexes of the rows of an array: sequence n, time t and extra index x, int32 of shape (rows, 3)."""
    expect_token(source, binary, b"<I1V>")
    count = read_size(source, binary, "the number of indexes")
    if not binary:
        return np.array([_read_index_in_text(source) for _ in range(count)], np.int32).reshape(-1, 3)
    runs: list[Array] = []
    previous_index = np.zeros(3, np.int64)
    limit = _MIN_RUN
    while count:
        limit = min(count, limit)
        run = _read_step_indexes(source, limit, previous_index)
        if not len(run):
            run = _read_complete_indexes(source, limit)
        runs.append(run)
        previous_index = run[-1]
        count -= len(run)
        limit = _MAX_RUN if len(run) == limit else _MIN_RUN
    return np.concatenate(runs).astype(np.int32) if runs else np.empty((0, 3), np.int32)


def _read_index_in_text(source: Source) -> list[int]:
    """Read one index in text. Return its three integers n, t and x."""
    expect_token(source, False, b"<I1>")
    return [read_int32(source, False) for _ in range(3)]


def _read_step_indexes(source: Source, limit: int, previous_index: Array) -> Array:
    """Read up to ``limit`` indexes that are each stored as a one-byte step in t. Return an array (indexes, 3).

    The first step is added to ``previous_index``, shape (3,). Stop before an index that is stored completely.
    """
    values = np.frombuffer(source.peek(limit), np.int8).astype(np.int64)
    steps = values[: _count_leading_true(np.abs(values) <= _MAX_STEP)]
    source.skip(len(steps))
    run = np.tile(previous_index, (len(steps), 1))
    run[:, 1] += np.cumsum(steps)
    return run


def _read_complete_indexes(source: Source, limit: int) -> Array:
    """Read 1 to ``limit`` completely stored indexes (indexes, 3). Raise FormatError if the first index is invalid."""
    data = source.peek(limit * _COMPLETE_INDEX.itemsize)
    records = np.frombuffer(data, _COMPLETE_INDEX, len(data) // _COMPLETE_INDEX.itemsize)
    index = records["index"]
    sizes = index["n_size"], index["t_size"], index["x_size"]
    count = _count_leading_true((records["mark"] == _COMPLETE_MARK) & np.all(np.equal(sizes, 4), axis=0))
    if count:
        source.skip(count * _COMPLETE_INDEX.itemsize)
        return np.stack([index[name][:count] for name in "ntx"], axis=1).astype(np.int64)
    if source.read(1)[0] != _COMPLETE_MARK:
        source.fail("an index is neither a step in time nor complete; the example is damaged", source.tell() - 1)
    return np.array([[read_int32(source, True) for _ in range(3)]])  # A wrong size byte is a FormatError.


def _count_leading_true(values: npt.NDArray[np.bool_]) -> int:
    """Return the number of True values before the first False."""
    return int(np.argmin(values)) if not values.all() else len(values)


def _read_io(source: Source, binary: bool) -> NnetIo:
    """Read an input or output. Raise FormatError if its indexes and features differ in the number of rows."""
    expect_token(source, binary, b"<NnetIo>")
    name = read_token(source, binary).decode("utf-8", "surrogateescape")
    indexes = read_indexes(source, binary)
    at = source.tell()
    features = _matrix.read_body(source, binary)
    if features.shape[0] != len(indexes):
        source.fail(f"{len(indexes)} indexes for {features.shape[0]} rows of features; the example is damaged", at)
    expect_token(source, binary, b"</NnetIo>")
    return NnetIo(name, indexes, features)


def _read_named_count(source: Source, binary: bool, name: bytes) -> int:
    """Read the token ``name`` and the count after it, and return the count."""
    expect_token(source, binary, name)
    return read_size(source, binary, name.decode())


def _read_supervision(source: Source, binary: bool) -> Supervision:
    """Read the target of an output. If the file has no alignments, ``alignment_pdfs`` is empty."""
    expect_token(source, binary, b"<Supervision>")
    expect_token(source, binary, b"<Weight>")
    weight = read_float(source, binary)
    num_sequences, frames_per_sequence, label_dim = (
        _read_named_count(source, binary, name) for name in (b"<NumSequences>", b"<FramesPerSeq>", b"<LabelDim>")
    )
    expect_token(source, binary, b"<End2End>")
    end_to_end = read_bool(source, binary)
    if end_to_end:
        expect_token(source, binary, b"<Fsts>")
        fsts = [read_acceptor(source, binary) for _ in range(num_sequences)]
        expect_token(source, binary, b"</Fsts>")
    else:
        fsts = [read_acceptor(source, binary)]
    alignment = np.empty(0, np.int32)
    if expect_token(source, binary, b"<AlignmentPdfs>", b"</Supervision>") == b"<AlignmentPdfs>":
        alignment = _integers.read_body(source, binary)
        expect_token(source, binary, b"</Supervision>")
    return Supervision(weight, num_sequences, frames_per_sequence, label_dim, fsts, end_to_end, alignment)


def _read_deriv_weights(source: Source, binary: bool) -> Array:
    """Read the derivative weights (rows,) and the token that ends the output. Without weights, the result is empty."""
    token = expect_token(source, binary, b"<DW>", b"<DW2>", b"</NnetChainSup>")
    if token == b"</NnetChainSup>":
        return np.empty(0, np.float32)
    # In text and after <DW2>, the weights are floats. In binary, <DW> precedes weights that are rounded to bytes.
    if token == b"<DW2>" or not binary:
        weights = _vector.read_body(source, binary)
    else:
        at = source.tell()
        if source.read(1)[0] != 1:  # The size of an element in bytes.
            source.fail("expected the derivative weights as a vector of bytes; the example is damaged", at)
        count = int(np.frombuffer(source.read(4), "<i4")[0])
        weights = source.read_array(np.uint8, count) * np.float32(1 / 255.0)  # The unit of a byte is 1/255.
    expect_token(source, binary, b"</NnetChainSup>")
    return weights


def _read_output(source: Source, binary: bool) -> ChainOutput:
    """Read an output of a chain network with its target."""
    expect_token(source, binary, b"<NnetChainSup>")
    name = read_token(source, binary).decode("utf-8", "surrogateescape")
    indexes = read_indexes(source, binary)
    supervision = _read_supervision(source, binary)
    return ChainOutput(name, indexes, supervision, _read_deriv_weights(source, binary))


class NnetExampleCodec(Codec[NnetExample]):
    """Codec that reads training examples of nnet3 networks. It cannot write."""

    def read_body(self, source: Source, binary: bool) -> NnetExample:
        expect_token(source, binary, b"<Nnet3Eg>")
        expect_token(source, binary, b"<NumIo>")
        count = read_size(source, binary, "the number of inputs and outputs")
        io = [_read_io(source, binary) for _ in range(count)]
        expect_token(source, binary, b"</Nnet3Eg>")
        return NnetExample(io)

    def write_body(self, sink: Sink, value: NnetExample, binary: bool) -> None:
        raise FormatError("training examples can be read, but not written: write them with Kaldi's nnet3 programs")


class NnetChainExampleCodec(Codec[NnetChainExample]):
    """Codec that reads training examples of chain networks. It cannot write."""

    def read_body(self, source: Source, binary: bool) -> NnetChainExample:
        expect_token(source, binary, b"<Nnet3ChainEg>")
        expect_token(source, binary, b"<NumInputs>")
        inputs = [_read_io(source, binary) for _ in range(read_size(source, binary, "the number of inputs"))]
        expect_token(source, binary, b"<NumOutputs>")
        outputs = [_read_output(source, binary) for _ in range(read_size(source, binary, "the number of outputs"))]
        expect_token(source, binary, b"</Nnet3ChainEg>")
        return NnetChainExample(inputs, outputs)

    def write_body(self, sink: Sink, value: NnetChainExample, binary: bool) -> None:
        raise FormatError("training examples can be read, but not written: write them with Kaldi's nnet3 programs")
