"""kaldiio and kaldi_native_io (Kaldi's own code) read what we write, and we read what they write.

Fixed values of all kinds are compared in ``interop/test_kaldi_native_io.py``.
"""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path
from typing import Any

import kaldi_native_io as native
import kaldiio
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from io_ark.errors import FormatError
from tests.support.codec_tools import archive_bytes, archive_entries, from_bytes, to_bytes

FILES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
METHODS = list(native.CompressionMethod.__members__.values())
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def matrices(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """Shapes from one element up; noise of any size, constants, ties, denormals, whole numbers beyond every range."""
    rows, columns = draw(st.one_of(st.integers(1, 9), st.integers(1, 300))), draw(st.integers(1, 12))
    noise = np.random.default_rng(draw(st.integers(0, 2**32))).standard_normal((rows, columns))
    match draw(st.integers(0, 5)):
        case 0:
            matrix = np.full((rows, columns), draw(FLOATS))
        case 1:
            matrix = np.round(noise * 2)
        case 2:
            matrix = noise * 10.0 ** draw(st.integers(-44, 30))
        case 3:
            matrix = 1e8 + 8 * np.round(noise)
        case 4:
            matrix = np.round(noise * 30000)
        case _:
            matrix = np.abs(noise)
    return matrix.astype(np.float32)


def native_write(tmp: Path, writer: type, *values: Any, text: bool = False) -> bytes:
    file = tmp / "native"
    with writer(f"ark,t:{file}" if text else f"ark:{file}") as out:
        out.write("key", *values)
    return file.read_bytes()


def native_read(tmp: Path, reader: type, data: bytes) -> Any:
    file = tmp / "ours"
    file.write_bytes(data)
    with reader(f"ark:{file}") as entries:
        for key, value in entries:
            assert key == "key"
            return np.array(value) if hasattr(value, "__array__") or hasattr(value, "numpy") else value
    raise AssertionError("kaldi_native_io read nothing")


@FILES
@given(matrix=matrices(), method=st.integers(1, 7))
@example(matrix=np.float32([[1, -0.0], [1, 0]]), method=1)
@example(matrix=np.float32([[1, 0], [1, -0.0]]), method=5)
@example(matrix=np.float32([[1.7014118e38]]), method=1)
def test_compressed_bytes_are_kaldis(tmp_path: Path, matrix: npt.NDArray[np.float32], method: int) -> None:
    try:
        theirs = native_write(tmp_path, native.CompressedMatrixWriter, matrix, METHODS[method - 1])
    except RuntimeError:  # a constant so large that the range Kaldi makes for it is infinite
        with pytest.raises(FormatError, match="cannot be compressed"):
            to_bytes("compressed-matrix", matrix, method=method)
        return
    assert archive_bytes([(b"key", matrix)], "compressed-matrix", method=method) == theirs
    ours = archive_entries(theirs, "matrix")[0][1]
    expected = native_read(tmp_path, native.SequentialFloatMatrixReader, theirs)
    assert ours.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("kind", "stored", "top"), [("CM2", "<u2", 65535), ("CM3", "u1", 255)])
@pytest.mark.parametrize("minimum", [0.0, -0.0, -32768.0, 0.1])
@pytest.mark.parametrize("span", ["top", "-top", 0.0, -0.0, 1.0, 1e-40])
def test_stored_integers_mean_what_they_mean_to_kaldi(
    tmp_path: Path, kind: str, stored: str, top: int, minimum: float, span: str | float
) -> None:
    # Steps of 1 and least values of 0 take fewer operations, which must not show (in the sign of zero, say).
    width = {"top": top, "-top": -top}.get(str(span), span)
    header = struct.pack("<ffii", minimum, width, 2, 3)
    data = b"key \0B" + kind.encode() + b" " + header + np.array([0, 1, 2, 7, top - 1, top], stored).tobytes()
    expected = native_read(tmp_path, native.SequentialFloatMatrixReader, data)
    assert archive_entries(data, "matrix")[0][1].tobytes() == expected.tobytes()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_few_rows_with_percentiles(tmp_path: Path, rows: int) -> None:
    # kaldiio's trouble: fewer rows than percentiles.
    matrix = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)[::-1] * 0.3
    theirs = native_write(tmp_path, native.CompressedMatrixWriter, np.ascontiguousarray(matrix), METHODS[1])
    assert archive_bytes([(b"key", matrix)], "compressed-matrix", method=2) == theirs


@pytest.mark.parametrize(("method", "least", "greatest"), [(4, -32768, 32767), (6, 0, 255), (7, 0, 1)])
def test_fixed_ranges_clip_and_do_not_wrap(method: int, least: float, greatest: float) -> None:
    matrix = np.array([[-np.inf, least - 1, least, greatest, greatest + 1, 1e30, np.inf]], np.float32)
    back = np.asarray(from_bytes("compressed-matrix", to_bytes("compressed-matrix", matrix, method=method)))
    assert back.tolist() == [[least, least, least, greatest, greatest, greatest, greatest]]


@pytest.mark.parametrize("method", range(1, 8))
def test_undefined_values_are_refused(method: int) -> None:
    with pytest.raises(FormatError, match="NaN"):
        to_bytes("compressed-matrix", [[1.0, np.nan], [2.0, 3.0]], method=method)
    if method not in (4, 6, 7):
        with pytest.raises(FormatError, match="inf"):
            to_bytes("compressed-matrix", [[1.0, np.inf], [2.0, 3.0]], method=method)


@FILES
@given(
    matrix=hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 20), st.integers(1, 9)),
        elements=st.floats(width=32),
    )
)
def test_matrices_with_both_peers(tmp_path: Path, matrix: npt.NDArray[Any]) -> None:
    double = matrix.dtype == np.float64
    kind = "double-matrix" if double else "matrix"
    data = archive_bytes([(b"key", matrix)], kind)
    reader = native.SequentialDoubleMatrixReader if double else native.SequentialFloatMatrixReader
    assert native_read(tmp_path, reader, data).tobytes() == matrix.tobytes()
    (tmp_path / "ours").write_bytes(data)
    assert dict(kaldiio.load_ark(str(tmp_path / "ours")))["key"].tobytes() == matrix.tobytes()
    kaldiio.save_ark(str(tmp_path / "theirs"), {"key": matrix})
    assert (tmp_path / "theirs").read_bytes() == data
    assert archive_entries(data, kind)[0][1].tobytes() == matrix.tobytes()


@pytest.mark.parametrize("padding", [b"\0", b""])
def test_audio_after_a_format_chunk_of_odd_size(padding: bytes) -> None:
    plain = archive_bytes([(b"key", (8000.0, np.arange(1, 6, dtype="<i2")))], "wave")[len(b"key ") :]
    odd = plain[:16] + struct.pack("<I", 19) + plain[20:36] + b"\1\0\7" + padding + plain[36:]
    assert archive_entries(b"key " + odd, "wave")[0][1].samples.tolist() == [[1, 2, 3, 4, 5]]
    assert archive_entries(b"key " + odd, "wave-info")[0][1].sample_count == 5


@pytest.mark.parametrize("where", ["before fmt", "after fmt"])
def test_audio_after_a_chunk_of_odd_size(tmp_path: Path, where: str) -> None:
    samples = np.arange(1, 6, dtype="<i2")
    plain = archive_bytes([(b"key", (8000.0, samples))], "wave")[len(b"key ") :]
    begin = 12 if where == "before fmt" else 36
    odd = b"LIST" + struct.pack("<I", 7) + b"INFO\1\2\3"
    padded, bare = (plain[:4] + struct.pack("<I", len(plain) - 8 + len(chunk)) + plain[8:begin] + chunk + plain[begin:]
                    for chunk in (odd + b"\0", odd))  # fmt: skip
    with wave.open(io.BytesIO(padded)) as standard:
        assert standard.readframes(5) == samples.tobytes()
    file = tmp_path / "bare"
    file.write_bytes(b"key " + bare)
    with native.SequentialWaveReader(f"ark:{file}") as waves:
        assert [audio.data.numpy().tolist() for _, audio in waves] == [[samples.tolist()]]
    for data in padded, bare:
        assert archive_entries(b"key " + data, "wave")[0][1].samples.tolist() == [samples.tolist()]


@FILES
@given(matrix=hnp.arrays(np.float32, st.tuples(st.integers(1, 30), st.integers(1, 40)), elements=FLOATS))
def test_matrices_in_text_with_kaldi_native_io(tmp_path: Path, matrix: npt.NDArray[np.float32]) -> None:
    theirs = native_write(tmp_path, native.FloatMatrixWriter, matrix, text=True)
    assert archive_bytes([(b"key", matrix)], "matrix", binary=False) == theirs
    try:
        expected = native_read(tmp_path, native.SequentialFloatMatrixReader, theirs)
    except RuntimeError:  # seven digits of the greatest floats are beyond them
        with pytest.raises(FormatError, match="out of range"):
            archive_entries(theirs, "matrix")
        return
    assert archive_entries(theirs, "matrix")[0][1].tobytes() == expected.tobytes()


def test_empty_compressed_matrix_is_read_by_peers(tmp_path: Path) -> None:
    empty = np.zeros((0, 0), np.float32)
    theirs = native_write(tmp_path, native.CompressedMatrixWriter, empty, METHODS[0])
    entry = theirs + b"next " + to_bytes("matrix", [[1.0]])
    read = [(key, value.shape) for key, value in archive_entries(entry, "matrix")]
    assert read == [(b"key", (0, 0)), (b"next", (1, 1))]
    ours = archive_bytes([(b"key", empty)], "compressed-matrix")
    assert ours == b"key \0BCM " + struct.pack("<ffii", 0, 0, 0, 0)
    (tmp_path / "ours").write_bytes(ours + b"next " + to_bytes("matrix", [[1.0]]))
    with native.SequentialFloatMatrixReader(f"ark:{tmp_path / 'ours'}") as entries:
        assert [(key, np.array(value).shape) for key, value in entries] == [("key", (0, 0)), ("next", (1, 1))]
