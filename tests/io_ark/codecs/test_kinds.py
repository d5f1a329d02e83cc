"""Kinds that kaldiio and kaldi_native_io lack, detection of kinds, and values that cannot be written or read."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.codecs import KINDS, codec, kind_of, read_any
from io_ark.codecs.compressed import CompressedMatrix, compress
from io_ark.codecs.detect import detect_kind
from io_ark.codecs.fst import Fst, read_acceptor
from io_ark.codecs.htk import HtkFeatures
from io_ark.codecs.packed import PackedMatrixCodec
from io_ark.codecs.ranges import extract_range
from io_ark.codecs.sparse import SparseMatrix, SparseVector
from io_ark.codecs.wave import Wave
from io_ark.errors import FormatError, TruncatedError
from io_ark.specifier import parse_range
from io_ark.streams.source import BytesSource
from io_ark.tables.writers import CollectedChunks
from tests.support.codec_samples import BINARY_ONLY, OWN_FILES, VALUES, kaldi_examples, samples
from tests.support.codec_tools import from_bytes, to_bytes
from tests.support.processes import memory_below

SAMPLES = samples()


def same(a: Any, b: Any) -> bool:
    """Return True if two values of a kind are equal, including their arrays."""
    if isinstance(a, dict | Fst):
        return bool(a == b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple | np.ndarray):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in (VALUES | OWN_FILES).items() for value in values]
)
@pytest.mark.parametrize("binary", [True, False])
def test_written_objects_are_read_back(kind: str, value: Any, binary: bool) -> None:
    if not binary and kind in BINARY_ONLY:
        with pytest.raises(FormatError, match=r"no text form|cannot write an FST as text"):
            to_bytes(kind, value, binary=False)
        return
    read = from_bytes(kind, to_bytes(kind, value, binary))
    expected = np.asarray(value) if isinstance(value, CompressedMatrix) else value
    if isinstance(expected, SparseMatrix | SparseVector):
        assert isinstance(read, type(expected))
        assert same(read.to_array(), expected.to_array())
    elif isinstance(value, CompressedMatrix) and not binary:
        assert np.allclose(read, expected, rtol=1e-3)  # compressed anew from seven digits
    else:
        assert same(read, expected)


def test_every_kind_has_a_sample() -> None:
    assert {kind for kind, _ in SAMPLES} == set(KINDS)


@pytest.mark.parametrize(("kind", "data"), SAMPLES)
def test_truncated_object_is_an_error(kind: str, data: bytes) -> None:
    if data[:1] not in (b"\0", b"R") and kind not in ("htk", "sphinx"):
        return  # a text that is cut may be a shorter text
    if kind == "acoustic-model":
        return  # a transition model may be all of it, and a network is not read
    needed = (
        data[:-1] if data.endswith((b"> ", b"ContextDependency ")) else data
    )  # the space after the last token may be missing
    for length in range(2, len(needed)):
        if kind.startswith("wave") and length >= 44:
            break  # cut audio is read as far as it goes, as Kaldi does
        with pytest.raises(FormatError):
            codec(kind).read(BytesSource(data[:length]))


@pytest.mark.parametrize("at", [3, 8])
def test_size_of_other_than_4_bytes_is_refused(at: int) -> None:
    data = bytearray(to_bytes("matrix", np.eye(2)))
    data[at + 2] = 8
    with pytest.raises(FormatError, match="as 4-byte integers"):
        read_any(BytesSource(bytes(data)))


def test_symmetric_and_triangular() -> None:
    lower = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], np.float32)
    data = to_bytes("packed-matrix", lower)
    assert data == b"\0BFP \4\3\0\0\0" + lower.tobytes()
    assert from_bytes("sp-matrix", data).tolist() == [[1, 2, 4], [2, 3, 5], [4, 5, 6]]
    assert from_bytes("tp-matrix", data).tolist() == [[1, 0, 0], [2, 3, 0], [4, 5, 6]]
    assert to_bytes("sp-matrix", from_bytes("sp-matrix", data)) == data
    assert to_bytes("sp-matrix", from_bytes("sp-matrix", data), binary=False) == b"[\n1 \n2 3 \n4 5 6 ]\n"
    assert from_bytes("packed-matrix", b"FP 2 1 2 3 ").tolist() == [1, 2, 3]
    double = PackedMatrixCodec(dtype=np.float64)
    assert double.read(BytesSource(to_bytes("packed-matrix", lower, dtype="float64"))).dtype == np.float64
    with pytest.raises(FormatError, match="transpose"):
        to_bytes("sp-matrix", [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(FormatError, match="triangular"):
        to_bytes("tp-matrix", [[1.0, 2.0], [3.0, 4.0]])


def test_unknown_form_of_a_packed_matrix_is_refused() -> None:
    with pytest.raises(FormatError, match="choose symmetric, triangular or packed"):
        PackedMatrixCodec("square")


def test_sparse_in_text() -> None:
    assert to_bytes("sparse-vector", [0.2, 0, 0, 0.9, 0], binary=False) == b"dim=5 [ 0 0.2 3 0.9 ] "
    assert to_bytes("sparse-matrix", [[0.0, 1.0], [0.0, 0.0]], binary=False) == b"rows=2 dim=2 [ 1 1 ] dim=2 [ ] \n"
    with pytest.raises(FormatError, match="not ascending"):
        from_bytes("sparse-vector", b"dim=5 [ 3 1 2 1 ]")


def test_text_of_sparse_doubles_has_the_digits_of_floats() -> None:
    """Kaldi's value is a float, so ``os << value`` writes 0.1234567, and not the 0.1234568 of the double."""
    vector = SparseVector(4, np.array([1]), np.array([0.12345675000001]))
    assert to_bytes("sparse-vector", vector, binary=False) == b"dim=4 [ 1 0.1234567 ] "
    assert b" 1 0.1234567 ]" in to_bytes("sparse-matrix", SparseMatrix([vector]), binary=False)


def test_doubles_are_read_where_floats_are_expected() -> None:
    double = b"\0BSV \4\5\0\0\0\4\1\0\0\0\4\2\0\0\0\x08" + np.float64(0.1).tobytes()
    vector = from_bytes("sparse-vector", double)
    assert (vector.dim, vector.indices.tolist(), vector.values.tolist()) == (5, [2], [float(np.float32(0.1))])
    assert from_bytes("float", b"\0B\x08" + np.float64(0.1).tobytes()) == float(np.float32(0.1))


@pytest.mark.parametrize(("kind", "data"), kaldi_examples())
def test_writing_training_examples_is_refused(kind: str, data: bytes) -> None:
    with pytest.raises(FormatError, match="not written"):
        to_bytes(kind, from_bytes(kind, data))


# If the bytes of two kinds are the same, the more usual kind is detected.
ALIKE = {
    "compressed-matrix": {"matrix"},
    "general-matrix": {"matrix", "sparse-matrix"},
    "double-matrix": {"matrix", "double-matrix"},
    "double-vector": {"vector", "double-vector"},
    "sp-matrix": {"packed-matrix"},
    "tp-matrix": {"packed-matrix"},
    "int8-vector": {"int-vector"},
    "float": {"float", "double"},
    "wave-info": {"wave"},
    "transition-model": {"acoustic-model"},
    "gauss-posterior": {"gauss-posterior", "int-vector"},
}


@pytest.mark.parametrize(("kind", "data"), SAMPLES)
def test_kind_is_detected_from_the_bytes(kind: str, data: bytes) -> None:
    from io_ark.codecs.detect import detect_kind

    if kind in ("htk", "sphinx") or (kind == "int8-vector" and data[:1] == b"\0"):
        return  # nothing in them says what they are
    if data in (b" [ ]\n", b"\n"):
        return  # empty text looks like anything empty
    assert detect_kind(BytesSource(data))[0] in ALIKE.get(kind, {kind})
    source = BytesSource(data)
    read_any(source)
    assert not source.read_rest().strip()


@pytest.mark.parametrize(
    "after", [b"", b"k \0B\4\1\0\0\0", b"k \0B\4\1\0\0\0" * 200000], ids=["alone", "before another", "before many"]
)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("int", n) for n in (-(2**31), -8000000, -100, -2, -1, 1, 2, 300, 16777216, 20000000, 500000000, 2**31 - 1)),
        *(("float", float(np.float32(x))) for x in (1e-20, -3e-5, 0.1, 1, -400.5, 16000, 1e20, np.inf, -np.inf)),
        ("float", np.nan),
        ("int-pair-vector", [(3, -4), (0, 500)]),
        ("int-pair-vector", [(7, 0), (0, 0)]),
        ("float-pair-vector", [(0.0, 0.5), (-3e4, 0.25)]),
        ("float-pair-vector", [(100000.0, 0.5)]),
    ],
)  # fmt: skip
def test_numbers_told_from_the_bytes(kind: str, value: Any, after: bytes) -> None:
    source = BytesSource(to_bytes(kind, value) + after)
    detected = read_any(source)
    np.testing.assert_array_equal(detected, value)
    assert isinstance(detected, int) == (kind == "int")
    assert source.read_rest() == after


@pytest.mark.parametrize("data", [b"", b"\0Bxyz", b"\0x", b"\0B"])
def test_undetectable_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises((FormatError, TruncatedError)):
        read_any(BytesSource(data))


def test_unknown_kinds_and_options() -> None:
    with pytest.raises(FormatError, match=r"unknown kind of object .matrices.: choose one of matrix"):
        codec("matrices")
    with pytest.raises(FormatError, match="method"):
        codec("matrix", method=2)
    with pytest.raises(FormatError, match="2 speech_feature"):
        codec("compressed-matrix", method=8)


def test_audio_on_a_scale_to_one_is_refused() -> None:
    with pytest.raises(FormatError, match="multiply them by 32768"):
        to_bytes("wave", (16000, [0.9, -0.5, 0.0]))
    for near_silence in ([0.0, 0.0], [0.0, -1.0, 1.0], [0.5, 1.5]):
        samples = from_bytes("wave", to_bytes("wave", (16000, near_silence))).samples
        assert samples.tolist() == [np.trunc(near_silence).tolist()]


def test_clipped_audio_is_told(caplog: pytest.LogCaptureFixture) -> None:
    data = to_bytes("wave", (16000, [40000.0, -1.9, 1.9]))
    assert from_bytes("wave", data).samples.tolist() == [[32767, -1, 1]]
    assert "clipped 1 samples out of total 3" in caplog.text


def test_scaling_without_decompressing() -> None:
    matrix = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    for method in 2, 3, 5:
        packed = compress(matrix, method)
        scaled = packed.multiply(-2.0)
        assert np.array_equal(scaled.codes, packed.codes)
        assert np.allclose(np.asarray(scaled), -2 * np.asarray(packed), rtol=1e-6, atol=1e-6)


def test_ranges_of_matrices_kept_as_stored() -> None:
    part = extract_range(compress(np.eye(4, dtype=np.float32), 3), parse_range("1:2,0:1"))
    assert np.allclose(part, [[0, 1], [0, 0]], atol=1e-4)


@settings(max_examples=100)
@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_ranges_of_sparse_objects_are_those_of_all_elements(rows: int, columns: int, data: st.DataObject) -> None:
    cells = data.draw(
        st.lists(st.sampled_from([0.0, 0.0, 1.5, -2.0]), min_size=rows * columns, max_size=rows * columns)
    )
    dense = np.array(cells, np.float32).reshape(rows, columns)
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    bottom, right = data.draw(st.integers(top, rows - 1)), data.draw(st.integers(left, columns - 1))
    of_rows, of_columns = slice(top, bottom + 1), slice(left, right + 1)
    part = parse_range(f"{top}:{bottom},{left}:{right}")
    source = BytesSource(to_bytes("sparse-matrix", dense), name="s")
    cut = codec("sparse-matrix").read_part(source, part)
    assert isinstance(cut, SparseMatrix) and same(cut.to_array(), dense[of_rows, of_columns])
    # Kaldi's GeneralMatrix is made full before a range of it is taken (src/util/kaldi-holder.cc).
    full = codec("general-matrix").read_part(BytesSource(to_bytes("sparse-matrix", dense)), part)
    assert isinstance(full, np.ndarray) and same(full, dense[of_rows, of_columns])
    vector = extract_range(SparseVector.from_array(dense[top]), parse_range(f"{left}:{right}"))
    assert isinstance(vector, SparseVector) and same(vector.to_array(), dense[top, of_columns])


ODD_VALUES = {
    "none": None,
    "object": object(),
    "integer": 5,
    "half a pair of surrogates": "\ud800",
    "list of integers": [1, 2],
    "triples": [[1, 2, 3]],
    "tuples of three": [[(1, 2, 3)]],
    "ragged lists": [[1.0], [1.0, 2.0]],
    "pairs of words": [[("a", "b")]],
    "large integers": [[(2**80, 0.5)]],
    "dictionary": {"a": 1},
    "function": len,
    "array": np.zeros((2, 3), np.float32),
    "array of objects": np.array([None, {}], object),
    "tensor that wants a gradient": torch.zeros(2, 2, requires_grad=True),
    "wave of an undefined rate": Wave(float("nan"), np.zeros((1, 9), np.int16)),
    "wave of an infinite rate": Wave(float("inf"), np.zeros((1, 9), np.int16)),
    "wave of a word's rate": Wave("x", np.zeros((1, 9), np.int16)),  # type: ignore[arg-type]
    "sparse vector of nothing": SparseVector(None, None, None),  # type: ignore[arg-type]
    "sparse matrix of nothing": SparseMatrix([None]),  # type: ignore[list-item]
    "HTK features of nothing": HtkFeatures(None, None, None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", KINDS)
def test_value_of_another_kind_is_written_or_refused(kind: str) -> None:
    failures = {}
    for (name, value), binary in itertools.product(ODD_VALUES.items(), (True, False)):
        sink = CollectedChunks()
        try:
            codec(kind).write(sink, value, binary=binary)
        except FormatError as error:
            has_answer = bool(str(error))
        except Exception as error:  # so that one run names all values
            failures[name, binary] = repr(error)
            continue
        else:
            has_answer = bool(sink)
        if not has_answer:
            failures[name, binary] = "neither bytes nor a message"
    assert failures == {}


NOT_A_TOKEN = "a token must not be empty"
REFUSED: list[tuple[str, Any, str]] = [
    ("matrix", [1.0], ""), ("matrix", [["a"]], ""), ("vector", [[1.0]], ""), ("int-vector", [1.5], ""),
    ("int-vector", [2**31], ""), ("int", 1.5, ""), ("int", 2**31, ""), ("float", "x", ""), ("token", "two words", ""),
    ("token", "", ""), ("token-vector", "abc", ""), ("int-pair-vector", [1, 2, 3], ""), ("wave", (8000, []), ""),
    ("wave", (0, [1]), ""), ("wave", (2.0**31, [1]), ""), ("packed-matrix", [1.0, 2.0], ""),
    ("posterior", [[(1.5, 0.5)]], "1.5"), ("posterior", [[(2**31, 0.5)]], "2147483648"),
    ("posterior", [[("1", 0.5)]], "'1'"), ("posterior", [[(1, "x")]], "must be real number, not str"),
    ("matrix", [[1.0], [1.0, 2.0]], ""),
    *(("sparse-vector", SparseVector(5, np.array(indices), np.ones(len(indices), np.float32)), message)
      for indices, message in (([5], "not in 0 to 4"), ([-1], "not in 0 to 4"), ([3, 1], "not ascending"),
                               ([2**32], "do not fit"), ([0.5], "float64"))),
    *(("sparse-vector", SparseVector(dim, np.empty(0, np.int32), np.empty(0, np.float32)), message)
      for dim, message in ((2**31, "does not fit"), (-1, "cannot have -1 elements"), (3.0, "expected an integer"))),
    ("symbol-table", {"a": 2**63}, "does not fit into 64 bits"), ("symbol-table", {"a": 1.5}, "expected an integer"),
    ("sparse-vector", SparseVector(5, np.array([1, 2]), np.ones(1, np.float32)), "pass one value for each index"),
    *(("token-vector", tokens, NOT_A_TOKEN)
      for tokens in (["a", ""], ["a\tb", ""], ["a b", "c"], ["a\0"], ["\n", "a"], [" "])),
]  # fmt: skip
# Values of another type: the error that they cause stands behind ours.
WITH_CAUSE: list[tuple[str, Any]] = [
    ("token", 5), ("token-vector", 5), ("posterior", [[1, 2, 3]]), ("int-vector-vector", 5), ("gauss-posterior", 5),
    ("wave", Wave(float("nan"), np.zeros((1, 9)))), ("wave", Wave("x", np.zeros((1, 9)))),  # type: ignore[arg-type]
    ("htk", np.zeros((2, 2))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    REFUSED + [(kind, value, f"cannot be written as '{kind}'") for kind, value in WITH_CAUSE],
)
def test_value_of_another_kind_is_refused(kind: str, value: Any, said: str) -> None:
    with pytest.raises(FormatError) as refused:
        to_bytes(kind, value)
    assert said in str(refused.value)
    assert "cannot be written as" not in said or refused.value.__cause__ is not None


def test_many_columns_take_little_memory() -> None:
    matrix = np.random.default_rng(0).standard_normal((10, 20000)).astype(np.float32)
    data = to_bytes("compressed-matrix", matrix, method=2)
    with memory_below(20 * len(data) + (8 << 20)):
        back = from_bytes("matrix", data)
    assert np.abs(back - matrix).max() < 0.1
    parts = [np.asarray(compress(matrix[:, i : i + 100], 2)) for i in range(0, 20000, 100)]
    assert np.abs(np.concatenate(parts, axis=1) - back).max() < 0.1


def arrays_of(value: Any) -> Iterator[np.ndarray]:  # type: ignore[type-arg]
    """The arrays in a value, however deep."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, CompressedMatrix):
        yield from (value.codes, value.percentiles, value.to_array())
    elif isinstance(value, list | tuple):
        for part in value:
            yield from arrays_of(part)


def assert_natural_layout(value: Any) -> None:
    for array in arrays_of(value):
        assert not array.size or array.strides == np.empty(array.shape, array.dtype).strides
        assert array.flags.c_contiguous and array.flags.aligned and array.flags.writeable


ONE_ELEMENT: list[tuple[str, Any]] = [
    ("int-vector", [7]), ("int8-vector", [7]), ("int-vector-vector", [[7]]), ("int-pair-vector", [(1, 2)]),
    ("float-pair-vector", [(1.0, 2.0)]), ("matrix", [[1.0]]), ("vector", [1.0]), ("sp-matrix", [[1.0]]),
    ("compressed-matrix", [[1.0]]), ("sphinx", np.ones((1, 13))), ("wave", Wave(8e3, np.ones((1, 1), np.int16))),
    ("wave", Wave(8e3, np.ones((2, 1), np.int16))), ("wave", Wave(8e3, np.ones((1, 9), np.int16))),
]  # fmt: skip


@pytest.mark.parametrize("where", ["{}", "{}:0", "cat {} |"])
@pytest.mark.parametrize(("kind", "data"), SAMPLES + [(kind, to_bytes(kind, value)) for kind, value in ONE_ELEMENT])
def test_arrays_read_have_natural_strides_and_are_writable(kind: str, data: bytes, where: str, tmp_path: Path) -> None:
    # torch.from_numpy refuses the stride of 5 bytes that a single integer had.
    (tmp_path / "object").write_bytes(data)
    assert_natural_layout(io_ark.load(where.format(tmp_path / "object"), kind=kind))


@pytest.mark.parametrize("part", ["0:0", "1:1,2:2", "0:0,1:2", ":,1:1", "0:1,0:2"])
@pytest.mark.parametrize("kind", ["matrix", "double-matrix", "compressed-matrix"])
def test_ranges_read_have_natural_strides_and_are_writable(kind: str, part: str, tmp_path: Path) -> None:
    io_ark.save(f"{tmp_path}/object", np.arange(12.0).reshape(3, 4), kind=kind)
    for reader in (kind, "matrix"):
        assert_natural_layout(io_ark.load(f"{tmp_path}/object[{part}]", kind=reader))


def test_one_arc_has_natural_strides() -> None:
    # OpenFst's compact acceptor: state 0 with one arc to the final state 1.
    names = b"".join(struct.pack("<i", len(name)) + name for name in (b"compact_acceptor", b"standard"))
    header = struct.pack("<i", 2125659606) + names + struct.pack("<iiQqqq", 2, 0, 0, 0, 2, 1)
    elements = struct.pack("<ifi", 5, 0.5, 1) + struct.pack("<ifi", -1, 0.0, -1)
    fst = read_acceptor(BytesSource(header + struct.pack("<III", 0, 1, 2) + elements), True)
    assert fst.labels.tolist() == [5] and fst.next_states.tolist() == [1]
    assert_natural_layout([fst.labels, fst.costs, fst.next_states, fst.states])


def test_class_with_the_name_of_a_value_class_is_not_taken_for_it() -> None:
    class Wave(list[int]):
        """A list of integers of the user's."""

    assert kind_of(Wave([1, 2])) == "int-vector"


def test_subclass_of_a_value_class_is_written_as_its_base() -> None:
    class MyWave(Wave):
        """Audio of the user's."""

    assert kind_of(MyWave(8000.0, np.ones((1, 2), np.int16))) == "wave"


@pytest.mark.parametrize("rspecifier", ["ark:{}.ark", "scp:{}.scp", "ark,bg:{}.ark", "ark:cat {}.ark |"])
@pytest.mark.parametrize(
    "kind", ["int-vector", "int8-vector", "vector", "double-vector", "matrix", "int-vector-vector"]
)
def test_arrays_of_a_table_have_natural_strides_and_are_writable(kind: str, rspecifier: str, tmp_path: Path) -> None:
    values = {"matrix": [[1.0, 2.0]], "int-vector-vector": [[7], [1, 2]]}.get(kind, [7])
    with io_ark.Writer(f"ark,scp:{tmp_path}/t.ark,{tmp_path}/t.scp", kind=kind) as writer:  # type: ignore[call-overload]
        for i in range(300):
            writer[f"k{i}"] = values
    found = list(io_ark.SequentialReader(rspecifier.format(tmp_path / "t"), kind=kind))  # type: ignore[call-overload]
    assert len(found) == 300
    assert_natural_layout([value for _, value in found])


def test_samples_beyond_16_bits_are_clipped_and_rates_beyond_32_refused() -> None:
    written = io.BytesIO()
    codec("wave").write(written, Wave(8000.0, np.array([[32768.0, -32769.0, 7.0]])))
    assert codec("wave").read(BytesSource(written.getvalue())).samples.tolist() == [[32767, -32768, 7]]
    with pytest.raises(FormatError, match="do not fit into a wave file"):
        codec("wave").write(io.BytesIO(), Wave(2.0**31, np.ones((1, 3), np.int16)))


def test_columns_and_lines_of_words_are_told_from_triangles_and_integers() -> None:
    assert detect_kind(BytesSource(b" [\n 1\n 2 ]\n"))[0] == "matrix"
    assert detect_kind(BytesSource(b" [\n 1\n 2 3 ]\n"))[0] == "packed-matrix"
    assert detect_kind(BytesSource(b"1\nword\n"))[0] == "lines"


def test_short_format_chunk_of_the_extensible_format_is_refused() -> None:
    for extension in (b"", bytes(20), struct.pack("<HHI", 21, 16, 4) + bytes(16)):
        chunk = struct.pack("<HHIIHH", 0xFFFE, 1, 8000, 16000, 2, 16) + extension
        body = b"WAVEfmt " + struct.pack("<I", len(chunk)) + chunk + b"data\2\0\0\0\1\0"
        with pytest.raises(FormatError, match="format chunk that is too short for the extensible format"):
            from_bytes("wave", b"RIFF" + struct.pack("<I", len(body)) + body)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 does not pass copy=False")
def test_a_compressed_matrix_refuses_a_view() -> None:
    """np.asarray(copy=False) must not return a copy, and a compressed matrix is always decompressed to a copy."""
    matrix = compress(np.eye(9, 3, dtype=np.float32), 2)
    with pytest.raises(ValueError, match="omit copy=False"):
        np.asarray(matrix, copy=False)
    assert np.asarray(matrix, copy=True).shape == (9, 3)
