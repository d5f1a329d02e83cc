"""Training examples that Kaldi wrote, compared with what it was given (data/nnet_examples/write_examples.cc)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import io_ark
from io_ark.cli.ark import main
from io_ark.codecs import nnet_example
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.codecs.fst import Acceptor, read_acceptor
from io_ark.codecs.nnet_example import (
    ChainOutput,
    NnetChainExample,
    NnetExample,
    NnetIo,
    Supervision,
    read_indexes,
)
from io_ark.codecs.sparse import SparseMatrix, SparseVector
from io_ark.errors import FormatError
from io_ark.streams.source import BytesSource
from tests.support.codec_samples import EXAMPLES

INT32 = np.iinfo(np.int32)
NONE = np.empty(0, np.float32)
NO_PDFS = np.empty(0, np.int32)


class Near(NamedTuple):
    """Numbers that were stored with this much of an error, and as what in binary."""

    values: Any
    tolerance: float
    stored: bytes | None = None


def values(rows: int, columns: int, start: float, row_step: float, column_step: float) -> Any:
    steps = row_step * np.arange(rows)[:, None] + column_step * np.arange(columns)
    return (start + steps).astype(np.float32)


def dense(rows: int, columns: int) -> Any:
    return values(rows, columns, 1.0, 0.25, -0.375)


def times(start: int, count: int, step: int = 1, n: int = 0, x: int = 0) -> list[tuple[int, int, int]]:
    return [(n, start + i * step, x) for i in range(count)]


def io(name: str, indexes: Iterable[tuple[int, int, int]], features: Any) -> NnetIo:
    return NnetIo(name, np.array(list(indexes), np.int32).reshape(-1, 3), features)


def compressed(method: int, matrix: Any, tolerance: float, stored: bytes) -> NnetIo:
    return io(f"method{method}", times(0, len(matrix)), Near(matrix, tolerance, stored))


def sparse(dim: int, rows: list[dict[int, float]]) -> SparseMatrix:
    return SparseMatrix(
        [SparseVector(dim, np.array(list(row), np.int32), np.array(list(row.values()), np.float32)) for row in rows]
    )


INDEXES: dict[str, list[tuple[int, int, int]]] = {
    "steps": times(-3, 4),
    "lowest-byte": [(0, -124, 0)],
    "highest-byte": [(0, 124, 0)],
    "below": [(0, -125, 0)],
    "above": [(0, 125, 0), (0, 126, 0)],
    "other-n": times(0, 2, n=1),
    "other-x": times(0, 2, x=2),
    "jumps": [(0, t, 0) for t in (0, 124, 0, 125, 0, 0, 1000, -1000)],
    "merged": [(n, t, 0) for t in (0, 3, 6) for n in range(3)],
    "x-changes": [(0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 3, 1), (0, 3, -1)],
    "limits": [(0, INT32.min, 0), (0, INT32.min + 1, 0), (INT32.max, 0, INT32.min), (INT32.max, 1, INT32.min),
               (0, INT32.max, 0), (0, INT32.max - 1, 0)],
    "none": [],
}  # fmt: skip
FEATURES = [
    io("dense", times(-2, 5), dense(5, 3)),
    compressed(1, dense(12, 3), 0.02, b"CM"),
    compressed(2, dense(12, 3), 0.02, b"CM"),
    compressed(3, dense(12, 3), 3.5 / 65535, b"CM2"),
    compressed(5, dense(12, 3), 3.5 / 255, b"CM3"),
    compressed(1, dense(4, 3), 1.5 / 65535, b"CM2"),
    compressed(4, values(12, 3, -500, 100, -7), 0, b"CM2"),
    compressed(6, values(12, 3, 0, 20, 3), 0, b"CM3"),
    compressed(7, values(12, 3, 0, 0.0625, 0.125), 1 / 255, b"CM3"),
    io("sparse", times(0, 4, 3), sparse(10, [{3: 1.0}, {}, {0: 0.25, 7: 0.75}, {9: 0.1}])),
]
NNET = {
    "usual": NnetExample([
        io("input", times(-1, 3), dense(3, 4)),
        io("ivector", times(0, 1), dense(1, 5)),
        io("output", times(0, 1), sparse(6, [{2: 1.0}])),
    ]),
    "indexes": NnetExample([io(name, at, dense(len(at), 2 * bool(at))) for name, at in INDEXES.items()]),
    "features": NnetExample(FEATURES),
}  # fmt: skip


def acceptor(start: int, final: list[float], arcs: list[tuple[int, int, float, int]]) -> Acceptor:
    """Of the final cost of each state, and (state, label, cost, next state) of each arc."""
    states, labels, costs, next_states = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    return Acceptor(start, np.array(final, np.float32), np.array(states, np.int32), np.array(labels, np.int32),
                    np.array(costs, np.float32), np.array(next_states, np.int32))  # fmt: skip


def frames(count: int, first_label: int) -> Acceptor:
    arcs = [(s, first_label + 2 * s + j, 0.125 * s - 0.5 * j, s + 1) for s in range(count) for j in range(2)]
    return acceptor(0, [np.inf] * count + [0.75], arcs)


def line(labels: Iterable[int]) -> Acceptor:
    arcs = [(s, label, 0.0, s + 1) for s, label in enumerate(labels)]
    return acceptor(0, [np.inf] * len(arcs) + [0.0], arcs)


def circle(states: int) -> Acceptor:
    arcs = [arc for s in range(states) for arc in ((s, s + 1, 0.1 * s, (s + 1) % states), (s, s + 11, 1e-10, s))]
    return acceptor(states - 1, [0.0, 1.5, np.inf][:states], arcs)


def supervision(graph: Acceptor, frames: int, weight: float = 1.0, sequences: int = 1) -> Supervision:
    return Supervision(float(np.float32(weight)), sequences, frames, 30, [graph], False, NO_PDFS)


def output(supervision: Supervision, weights: Any = NONE, name: str = "output", first: int = 0, step: int = 3) -> Any:
    sequences, frames = supervision.num_sequences, supervision.frames_per_sequence
    indexes = [(n, first + step * i, 0) for i in range(frames) for n in range(sequences)]
    return ChainOutput(name, np.array(indexes, np.int32), supervision, weights)


def weights(count: int) -> Any:
    return (1 - 0.2 * np.arange(count)).astype(np.float32)


INPUTS = [io("input", times(-2, 8), dense(8, 3)), io("ivector", times(0, 1), dense(1, 2))]
UNREACHED = acceptor(4, [np.inf] * 9 + [-0.25], [(4, 0, 1e30, 9), (4, INT32.max, -1e-30, 2)])
CHAIN = {
    "plain": NnetChainExample(INPUTS, [output(supervision(frames(4, 3), 4))]),
    "end-to-end": NnetChainExample(INPUTS, [
        output(Supervision(0.5, 2, 2, 30, [circle(3), circle(2)], True, np.array([4, 0, 29, 4], np.int32)), weights(4))
    ]),
    "two-outputs": NnetChainExample(INPUTS, [
        output(supervision(frames(3, 1), 3, 0.1), weights(3)),
        output(supervision(line([5, 6]), 2)._replace(alignment_pdfs=np.array([4, 5], np.int32)), NONE, "output-2",
               -300, 150),
    ]),
    "odd-graphs": NnetChainExample(INPUTS, [
        output(supervision(acceptor(-1, [], []), 2, -1e-20)),
        output(supervision(acceptor(0, [3.0], []), 2), NONE, "one-state", 0, 1),
        output(supervision(UNREACHED, 2), NONE, "unreached", 0, 1),
    ]),
    "merged": NnetChainExample(
        [io("input", [at for n in range(3) for at in times(-2, 8, n=n)],
            Near(np.tile(dense(8, 3), (3, 1)), 0.02, b"CM")),
         io("ivector", [(n, 0, 0) for n in range(3)], Near(np.tile(dense(1, 2), (3, 1)), 0.375 / 65535, b"CM2"))],
        [output(supervision(line([1, 2, 11, 12, 21, 22]), 2, sequences=3), np.repeat(weights(2), 3))],
    ),
}  # fmt: skip
OLD_CHAIN = {
    "byte-weights": NnetChainExample(INPUTS, [output(supervision(line([2, 3, 4]), 3), Near(weights(3), 1e-7))]),
    "no-weights": NnetChainExample(INPUTS, [output(supervision(line([2, 3, 4]), 3))]),
}


def assert_same(read: Any, expected: Any, binary: bool) -> None:
    """Equal in types, shapes and values, all the way down."""
    if isinstance(expected, Near):
        stored = expected.stored if binary else None
        assert (read.format if isinstance(read, CompressedMatrix) else None) == stored
        assert (np.asarray(read).dtype, np.shape(read)) == (np.float32, expected.values.shape)
        np.testing.assert_allclose(np.asarray(read), expected.values, rtol=1e-6, atol=expected.tolerance)
    elif isinstance(expected, list | tuple):
        assert type(read) is type(expected)
        assert len(read) == len(expected)
        for one, other in zip(read, expected, strict=True):
            assert_same(one, other, binary)
    elif isinstance(expected, np.ndarray):
        assert (read.dtype, read.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(read, expected)
    else:
        assert (type(read), read) == (type(expected), expected)


def in_order(reader: Callable[[str], Any], rspecifier: str) -> dict[str, Any]:
    with reader(rspecifier) as entries:
        return dict(entries)


def at_random(reader: Callable[[str], Any], rspecifier: str, keys: Iterable[str]) -> dict[str, Any]:
    with reader(rspecifier) as table:
        return {key: table[key] for key in keys}


def every_way(name: str, binary: bool, keys: list[str]) -> Iterator[dict[str, Any]]:
    """The table ``name``, read by each kind of reader."""
    rspecifier = f"ark:{name}.ark" if binary else f"ark:{name}.txt"
    kind: Any = "nnet-example" if name == "nnet" else "nnet-chain-example"
    sequential = functools.partial(io_ark.SequentialReader, kind=kind)
    random = functools.partial(io_ark.RandomAccessReader, kind=kind)
    yield dict(io_ark.read(rspecifier))
    yield in_order(sequential, rspecifier)
    yield in_order(sequential, rspecifier.replace("ark:", "ark:cat ", 1) + " |")
    yield at_random(random, rspecifier, reversed(keys))
    if binary:
        yield in_order(sequential, f"scp:{name}.scp")
        yield at_random(random, f"scp:{name}.scp", reversed(keys))


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("name", "expected"), [("nnet", NNET), ("chain", CHAIN), ("old_chain", OLD_CHAIN)])
def test_examples_are_read_in_every_way(
    name: str, expected: Mapping[str, Any], binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    for read in every_way(name, binary, list(expected)):
        assert read.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(read[key], value, binary)


@pytest.mark.parametrize("few", [1, 2, 3])
@pytest.mark.parametrize("many", [1, 2, 5])
def test_indexes_do_not_depend_on_how_many_are_read_at_a_time(
    few: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nnet_example, "_MIN_RUN", few)
    monkeypatch.setattr(nnet_example, "_MAX_RUN", many)
    read = dict(io_ark.read(f"ark:{EXAMPLES / 'nnet.ark'}"))["indexes"]
    assert_same(read, NNET["indexes"], True)


@pytest.mark.parametrize("at", ["\x7d", "\x7e", "\x80", "\x83", "\x7f\4\0\0\0\0\4\0\0\0\0\x08\0\0\0\0", "\0\x7f\4"])
def test_invalid_index_is_an_error(at: str) -> None:
    with pytest.raises(FormatError):
        read_indexes(BytesSource(b"<I1V> \4\2\0\0\0" + at.encode("latin1")), True)


def test_rows_without_an_index_are_an_error(tmp_path: Path) -> None:
    text = (EXAMPLES / "nnet.txt").read_bytes().replace(b"\n  1.5 1.125 0.75 0.375 ]", b" ]", 1)
    (tmp_path / "cut.txt").write_bytes(text)
    with pytest.raises(FormatError, match=r"3 indexes for 2 rows"):
        dict(io_ark.read(f"ark:{tmp_path}/cut.txt"))


def test_ark_shows_training_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert main(["ls", "chain.scp", "nnet.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "plain\tNnetChainExample\t-\tbinary\tchain.ark:6"
    assert [line.split("\t")[:2] for line in lines[5:]] == [[key, "NnetExample"] for key in NNET]
    assert main(["check", "chain.scp", "chain.ark", "chain.txt"]) == 0
    assert main(["show", "nnet.scp", "usual"]) == 0
    assert "NnetIo(name='ivector'" in capsys.readouterr().out


# What Kaldi's ReadFstKaldi says to graphs of one line, of which the second word is the next state.
REFUSED = ["inf 1 3 3", "1.0 1 3 3", "0 inf 3 3", "0 0x1 3 3", "0 1_0 3 3", "0 1 3.5 3.5", "0 1 0x3 0x3", "0 1 3",
           "0 1 99999999999 99999999999", "0 1 3 3 1e39", "0 1 3 3 1_0", "0 1 3 3 1.5e", "0 1 3 3 BadNumber",
           "0 1 3 3 1 1", "nan", "1 1e39x"]  # fmt: skip
TAKEN = {"+0 +1 3 3": 0.0, "0 1 +3 +3": 0.0, "0 1 3 3 .5": 0.5, "0 1 3 3 5.": 5.0, "0 1 3 3 1e-50": 0.0,
         "0 1 3 3 -Infinity": -np.inf, "0 1 3 3 0.1 ": np.float32(0.1)}  # fmt: skip


@pytest.mark.parametrize("text", [*REFUSED, "-1 1 3 3", "0 1 3 4", "0 1 3 3 " + "1" * 5000, "0 " + "1" * 5000 + " 3 3"])
def test_invalid_graph_in_text_is_an_error(text: str) -> None:
    with pytest.raises(FormatError, match=r"of an (FST|acceptor)") as caught:
        read_acceptor(BytesSource(f"\n0 0 5 5\n{text}\n\n".encode()), False)
    assert caught.value.offset == len("\n0 0 5 5\n")


@pytest.mark.parametrize(("text", "cost"), TAKEN.items())
def test_graphs_in_text_that_kaldi_accepts_are_read(text: str, cost: float) -> None:
    read = read_acceptor(BytesSource(f"\n{text}\n\n".encode()), False)
    assert_same(read, acceptor(0, [np.inf, np.inf], [(0, 3, cost, 1)]), False)
