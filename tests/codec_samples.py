"""A valid object of every kind, in binary and in text where it has both: what the fuzzers start from."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from codec_tools import to_bytes

from io_ark.codecs.compressed import compress
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.sparse import SparseMatrix, SparseVector
from io_ark.codecs.wave import Wave

MATRIX = np.array([[1.5, -2.0, 0.375], [0.0, 1e6, -0.25]], np.float32)
SQUARE = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)

VALUES: dict[str, list[Any]] = {
    "matrix": [MATRIX, np.zeros((0, 0))],
    "double-matrix": [MATRIX.astype(np.float64)],
    "compressed-matrix": [compress(np.repeat(MATRIX, 6, axis=0), method) for method in (2, 3, 5)] + [np.zeros((0, 0))],
    "general-matrix": [MATRIX, SparseMatrix.of(MATRIX), compress(MATRIX)],
    "sparse-vector": [SparseVector.of(MATRIX[1]), SparseVector.of([])],
    "sparse-matrix": [SparseMatrix.of(MATRIX), SparseMatrix([])],
    "packed-matrix": [np.array([2.0, 1.0, 3.0])],
    "sp-matrix": [SQUARE],
    "tp-matrix": [np.tril(SQUARE)],
    "vector": [MATRIX[0], np.zeros(0)],
    "double-vector": [MATRIX[0].astype(np.float64)],
    "int-vector": [[1, -2, 3], []],
    "int8-vector": [[1, -2, 3]],
    "int-vector-vector": [[[1, 2], [], [3]]],
    "int-pair-vector": [[(1, 2), (3, 4)]],
    "float-pair-vector": [[(1.0, 0.5), (3.0, 0.25)]],
    "int": [7],
    "float": [0.5],
    "double": [0.5],
    "bool": [True],
    "token": ["word"],
    "token-vector": [["two", "words"]],
    "posterior": [[[(1, 0.5), (2, 0.5)], [], [(3, 1.0)]]],
    "gauss-posterior": [[[(1, [0.5, 0.25])], []]],
    "htk": [HtkFeatures(MATRIX, 100000, 9)],
    "sphinx": [np.arange(26, dtype=np.float32).reshape(2, 13)],
    "wave": [Wave(8000.0, np.array([[1, 2, 3], [4, 5, 6]], np.int16))],
}
BINARY_ONLY = {"htk", "sphinx", "wave"}

# What OpenFst 1.8 (pywrapfst) writes as compact_acceptor for
#   0 1 3 3 0.25 / 0 2 4 4 / 1 2 5 5 1 / 2 2 6 6 / 2 1.5
COMPACT_ACCEPTOR = bytes.fromhex(
    "d6fdb27e10000000636f6d706163745f6163636570746f72080000007374616e6461726402000000000000000100955aa5a5000000000000"
    "0000000003000000000000000400000000000000000000000200000003000000050000000300000000008"
    "03e01000000040000000000000002000000050000000000803f02000000ffffffff0000c03fffffffff060000000000000002000000"
)


def _int(value: int) -> bytes:
    return struct.pack("<bi", 4, value)


def _io(name: bytes, times: bytes, features: bytes) -> bytes:
    return b"<NnetIo> " + name + b" <I1V> " + _int(len(times)) + times + features + b"</NnetIo> "


def nnet_example() -> bytes:
    """An nnet3 example: dense input, sparse output."""
    rows = to_bytes("matrix", np.arange(6, dtype=np.float32).reshape(3, 2))[2:]
    output = to_bytes("sparse-matrix", SparseMatrix.of([[0.0, 1.0]]))[2:]
    return (
        b"\0B<Nnet3Eg> <NumIo> " + _int(2) + _io(b"input", b"\xff\x01\x01", rows) + _io(b"output", b"\0", output)
        + b"</Nnet3Eg> "
    )  # fmt: skip


def chain_example(end_to_end: bool = False, weights: bytes = b"<DW2> ") -> bytes:
    """A chain example of two frames; one index is given in full."""
    rows = to_bytes("compressed-matrix", compress(np.arange(6, dtype=np.float32).reshape(3, 2)))[2:]
    sequence = b"<Fsts> " + COMPACT_ACCEPTOR + b"</Fsts> " if end_to_end else COMPACT_ACCEPTOR
    supervision = (
        b"<Supervision> <Weight> " + struct.pack("<bf", 4, 1.0) + b"<NumSequences> " + _int(1)
        + b"<FramesPerSeq> " + _int(2) + b"<LabelDim> " + _int(7) + b"<End2End> " + (b"T" if end_to_end else b"F")
        + sequence + b"<AlignmentPdfs> " + struct.pack("<bi2i", 4, 2, 5, 6) + b"</Supervision> "
    )  # fmt: skip
    if weights == b"<DW2> ":
        weights += to_bytes("vector", [1.0, 0.5])[2:]
    elif weights == b"<DW> ":
        weights += struct.pack("<bi2B", 1, 2, 255, 51)
    return (
        b"\0B<Nnet3ChainEg> <NumInputs> " + _int(1) + _io(b"input", b"\xfe\x01\x01", rows) + b"<NumOutputs> " + _int(1)
        + b"<NnetChainSup> output <I1V> " + _int(2) + b"\x7f" + _int(0) + _int(300) + _int(0) + b"\x03" + supervision
        + weights + b"</NnetChainSup> </Nnet3ChainEg> "
    )  # fmt: skip


def samples() -> list[tuple[str, bytes]]:
    """(kind, bytes) of valid objects."""
    found = []
    for kind, values in VALUES.items():
        for value in values:
            found.append((kind, to_bytes(kind, value)))
            if kind not in BINARY_ONLY:
                found.append((kind, to_bytes(kind, value, binary=False)))
            if kind == "wave":
                found.append(("wave-info", to_bytes(kind, value)))
    found.append(("nnet-example", nnet_example()))
    found += [("nnet-chain-example", chain_example(end_to_end)) for end_to_end in (False, True)]
    found.append(("nnet-chain-example", chain_example(weights=b"<DW> ")))
    return found
