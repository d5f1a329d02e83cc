"""kaldi_native_io's names: the same calls give the same values and the same bytes as in kaldi_native_io."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import kaldi_native_io as theirs
import numpy as np
import pytest

from io_ark.errors import ArkError, MissingFileError
from kaldi_standins import kaldi_native_io as ours
from tests.support.reading_ways import same

RNG = np.random.default_rng(0)
MATRICES = {"a": RNG.standard_normal((5, 3)).astype(np.float32), "b": np.ones((2, 4), np.float32)}
VECTOR = np.array([1.5, -0.0, 1e-40, 1234567.5, 3e38])
TABLES: dict[str, dict[str, Any]] = {
    "Int32": {"a": 1, "b": -(2**31)},
    "Int32Vector": {"a": [1, -2, 2**31 - 1, 0], "b": []},
    "Int8Vector": {"a": [1, -2, 127, -128], "b": []},
    "Int32VectorVector": {"a": [[1, 2], [], [3]], "b": []},
    "Int32PairVector": {"a": [(1, 2), (-3, 4)], "b": []},
    "Float": {"a": 0.1, "b": -0.25},
    "FloatPairVector": {"a": [(1.5, -2.0), (0.1, 1e9)], "b": []},
    "Double": {"a": 1e-3, "b": 1e300},
    "Bool": {"a": True, "b": False},
    "Token": {"a": "wörd", "b": "x"},
    "TokenVector": {"a": ["two", "words"], "b": []},
    "Blob": {"a": b"\0\1\2", "b": b""},
    "FloatVector": {"a": VECTOR.astype(np.float32), "b": np.zeros(0, np.float32)},
    "DoubleVector": {"a": VECTOR, "b": np.zeros(0)},
    "FloatMatrix": MATRICES,
    "DoubleMatrix": {"a": RNG.standard_normal((300, 30)), "b": MATRICES["a"].astype(np.float64)},
    "Posterior": {"a": [[(1, 0.12345675), (3, -0.0), (4, 1e-7)], [], [(-(2**31), -1e30)]], "b": []},
    "GaussPost": {"a": [[(1, MATRICES["a"][0])], [], [(2, VECTOR[:0].astype("f4")), (3, np.ones(1, "f4"))]], "b": []},
}


def write(library: Any, kind: str, folder: Path, options: str) -> tuple[bytes, bytes]:
    table = TABLES[kind]
    if kind == "GaussPost":  # kaldi_native_io changes the lists of its caller.
        table = {key: [list(frame) for frame in value] for key, value in table.items()}
    with getattr(library, f"{kind}Writer")(f"ark,scp{options}:{folder}/a.ark,{folder}/a.scp") as writer:
        first, *others = table
        writer.write(first, table[first])
        for key in others:
            writer[key] = table[key]
    return (folder / "a.ark").read_bytes(), (folder / "a.scp").read_bytes()


def read(reader: Any) -> dict[str, Any]:
    """Read a table. kaldi_native_io's arrays share the memory of its reader, so they are copied at once."""
    return {key: copy.deepcopy(value) if isinstance(value, np.ndarray | list | tuple) else value
            for key, value in reader}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("options", ["", ",t"])
def test_tables_equal_kaldi_native_ios(kind: str, options: str, tmp_path: Path) -> None:
    if kind == "Blob" and options:
        pytest.skip("a blob has no text format")
    archive, script = write(theirs, kind, tmp_path, options)
    mine, my_script = write(ours, kind, tmp_path, options)
    if kind == "TokenVector":  # As in Kaldi, our line ends in a space.
        assert mine.replace(b"s \n", b"s\n") == archive
    else:
        assert (mine, my_script) == (archive, script)
    for specifier in f"ark:{tmp_path}/a.ark", f"scp:{tmp_path}/a.scp":
        wanted = read(getattr(theirs, f"Sequential{kind}Reader")(specifier))
        found = dict(getattr(ours, f"Sequential{kind}Reader")(specifier))
        same(found, wanted)
        with getattr(ours, f"RandomAccess{kind}Reader")(specifier) as reader:
            for key, value in wanted.items():
                assert key in reader and "nosuch" not in reader
                same(reader[key], value)


@pytest.mark.parametrize("library", [theirs, ours])
def test_sequential_reader_has_kaldis_methods(library: Any, tmp_path: Path) -> None:
    write(theirs, "FloatMatrix", tmp_path, "")
    reader = library.SequentialFloatMatrixReader(f"ark:{tmp_path}/a.ark")
    assert isinstance(reader, library.SequentialFloatMatrixReader)
    assert (reader.is_open, reader.done, reader.key) == (True, False, "a")
    np.testing.assert_array_equal(reader.value, MATRICES["a"])
    np.testing.assert_array_equal(reader.value, MATRICES["a"])
    reader.next()
    assert (reader.done, reader.key) == (False, "b")
    reader.next()
    assert reader.done
    for call in (lambda: reader.key, lambda: reader.value, reader.next):
        with pytest.raises(RuntimeError):
            call()
    reader.open(f"scp:{tmp_path}/a.scp")
    for _ in reader:
        break
    assert [key for key, _ in reader] == ["a", "b"]  # The iteration resumes at the current entry.
    reader.close()
    reader.close()
    assert not reader.is_open
    with pytest.raises(RuntimeError):
        reader.done  # noqa: B018


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # kaldi_native_io's __del__ fails.
@pytest.mark.parametrize("library", [theirs, ours])
def test_writers_open_flush_and_close(library: Any, tmp_path: Path) -> None:
    writer = library.TokenWriter(f"ark,t:{tmp_path}/a")
    writer.write("k", "v")
    writer.flush()
    assert (tmp_path / "a").read_text() == "k v\n"
    assert writer.is_open
    writer.close()
    writer.close()
    assert not writer.is_open
    for call in (lambda: writer.write("k", "v"), lambda: library.TokenWriter("nosuch/x"),
                 lambda: library.TokenWriter(f"ark:{tmp_path}/nosuch/x"), lambda: library.FloatMatrix.read("nosuch"),
                 lambda: library.RandomAccessTokenReader(f"ark:{tmp_path}/a")["x"]):  # fmt: skip
        with pytest.raises(RuntimeError):
            call()


def test_classes_can_be_subclassed(tmp_path: Path) -> None:
    write(ours, "Int32Vector", tmp_path, "")

    class Lengths(ours.SequentialInt32VectorReader):
        @property
        def value(self) -> int:
            return len(super().value)

    assert list(Lengths(f"ark:{tmp_path}/a.ark")) == [("a", 4), ("b", 0)]


def test_errors_name_their_cause(tmp_path: Path) -> None:
    with pytest.raises(ours.TableError, match="cannot be opened") as caught:
        ours.SequentialTokenReader(f"ark:{tmp_path}/nosuch")
    assert isinstance(caught.value, ArkError) and isinstance(caught.value.__cause__, MissingFileError)
    with pytest.raises(ours.TableError, match=r"a: needs a 2-dimensional array of float32, not float64 of shape"):
        ours.FloatMatrixWriter(f"ark:{tmp_path}/a")["a"] = np.zeros(3)
    with pytest.raises(ours.TableError, match=r"a: needs a 2-dimensional array of float32, not float32 of shape"):
        ours.FloatMatrixWriter(f"ark:{tmp_path}/a")["a"] = np.zeros(3, np.float32)
    (tmp_path / "short").write_bytes(b"a \0BFM \4\1\0\0\0\4\2\0\0\0" + bytes(4))
    with pytest.raises(ours.TableError, match=r"short:17: a: ends too early") as caught:
        ours.SequentialFloatMatrixReader(f"ark:{tmp_path}/short").value  # noqa: B018
    assert (caught.value.offset, caught.value.key) == (17, "a")


def test_matrices_and_vectors_read_and_write_themselves(tmp_path: Path) -> None:
    for name, shape in ("FloatMatrix", (4, 3)), ("DoubleMatrix", (4, 3)), ("FloatVector", (4,)), ("DoubleVector", (4,)):
        array = RNG.standard_normal(shape).astype(np.float64 if name.startswith("D") else np.float32)
        for binary in True, False:
            files = []
            for library in theirs, ours:
                getattr(library, name)(array).write(wxfilename=f"{tmp_path}/x", binary=binary)
                files.append((tmp_path / "x").read_bytes())
            assert files[0] == files[1]
            for suffix in ("", "[1:2]") if name.endswith("Matrix") else ("",):
                wanted, found = (getattr(library, name).read(f"{tmp_path}/x{suffix}") for library in (theirs, ours))
                same(found.numpy(), wanted.numpy())
                assert np.array_equal(found, wanted)
        same(np.asarray(getattr(ours, name)(array)), array)
        with pytest.raises(RuntimeError):
            getattr(ours, name)(np.zeros((1, 1, 1)))
    assert str(ours.FloatMatrix(np.eye(2))) == str(theirs.FloatMatrix(np.eye(2)))
    assert ours.FloatMatrix().shape == theirs.FloatMatrix().shape == (0, 0)


@pytest.mark.parametrize("name", ["FloatMatrix", "DoubleMatrix", "FloatVector", "DoubleVector", "WaveData"])
def test_masks_are_not_dropped(name: str) -> None:
    masked = np.ma.masked_array(np.ones((2, 2)), [[True, False], [False, False]])
    with pytest.raises(ours.TableError, match="masked"):
        if name == "WaveData":
            ours.WaveData(16000, masked)
        else:
            getattr(ours, name)(masked[0] if "Vector" in name else masked)


@pytest.mark.parametrize("name", ["Wave", "HtkMatrix"])
def test_values_of_another_class_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ours.TableError, match=r"a: .*Writer cannot write this ndarray: convert"):  # noqa: SIM117
        with getattr(ours, f"{name}Writer")(f"ark:{tmp_path}/a.ark") as writer:
            writer["a"] = np.ones((5, 3), np.float32)


def test_each_matrix_has_its_compression_method(tmp_path: Path) -> None:
    files = []
    for library in theirs, ours:
        with library.CompressedMatrixWriter(f"ark:{tmp_path}/c") as writer:
            for method in library.CompressionMethod.__members__.values():
                writer.write(method.name, np.tile(MATRICES["a"], (3, 1)), method=method)
            writer["tuple"] = MATRICES["b"], library.CompressionMethod.kOneByteAuto
            writer["array"] = MATRICES["a"].astype(np.float64)
        files.append((tmp_path / "c").read_bytes())
    assert files[0] == files[1]
    assert int(ours.CompressionMethod.kTwoByteAuto) == int(theirs.CompressionMethod.kTwoByteAuto)
    assert dict(ours.SequentialFloatMatrixReader(f"ark:{tmp_path}/c"))["tuple"].shape == (2, 4)


def test_shapes_are_read_without_values(tmp_path: Path) -> None:
    write(theirs, "FloatMatrix", tmp_path, "")
    for library in theirs, ours:
        reader = library.SequentialMatrixShapeReader(f"scp:{tmp_path}/a.scp")
        assert [(shape.num_rows, shape.num_cols) for _, shape in reader] == [(5, 3), (2, 4)]
        lookup = library.RandomAccessMatrixShapeReader(f"scp:{tmp_path}/a.scp")
        assert lookup["b"].num_cols == 4
        assert library.MatrixShape.read(f"{tmp_path}/a.ark:2").num_rows == 5
        assert library.MatrixShape().num_rows == 0


def test_htk_headers_are_kept(tmp_path: Path) -> None:
    files = []
    for library in theirs, ours:
        header = library.HtkHeader(num_samples=5, sample_period=100000, sample_size=12, sample_kind=6 | 0o100)
        with library.HtkMatrixWriter(f"ark,scp:{tmp_path}/h,{tmp_path}/h.scp") as writer:
            writer["a"] = MATRICES["a"], header
        files.append((tmp_path / "h").read_bytes())
        reader = library.SequentialHtkMatrixReader(f"scp:{tmp_path}/h.scp")
        lookup = library.RandomAccessHtkMatrixReader(f"scp:{tmp_path}/h.scp")
        for matrix, read_header in reader.value, lookup["a"]:
            same(matrix, MATRICES["a"])
            assert read_header == header
        header.num_samples = 7
        assert header != library.HtkHeader(5, 100000, 12, 0o106)
    assert files[0] == files[1]


def test_blobs_are_read_in_part(tmp_path: Path) -> None:
    write(theirs, "Blob", tmp_path, "")
    for part in "", "[0:1]", "[1:-1]", "[:]", "[2:2]":
        assert ours.read_blob(f"{tmp_path}/a.ark:2{part}") == theirs.read_blob(f"{tmp_path}/a.ark:2{part}")
    for part in "[0:3]", "[2:1]", "[a]", "[1]":
        with pytest.raises(RuntimeError):
            ours.read_blob(f"{tmp_path}/a.ark:2{part}")
    (tmp_path / "short").write_bytes((tmp_path / "a.ark").read_bytes()[2:16])
    with pytest.raises(RuntimeError, match=r"expected \d+ more bytes"):
        ours.read_blob(f"{tmp_path}/short")
    (tmp_path / "other").write_bytes(b"\0BFM " + bytes(20))
    with pytest.raises(RuntimeError, match="not a blob"):
        ours.read_blob(f"{tmp_path}/other")


def test_audio_equals_kaldi_native_ios(tmp_path: Path) -> None:
    samples = RNG.integers(-3000, 3000, (2, 800)).astype(np.float32)
    samples[:, :2] = 32767, -32768
    files = []
    for library in theirs, ours:
        with library.WaveWriter(f"ark,scp:{tmp_path}/w,{tmp_path}/w.scp") as writer:
            writer["a"] = library.WaveData(8000, samples)
            writer["b"] = library.WaveData(sample_freq=16000, data=samples[0])
        files.append((tmp_path / "w").read_bytes())
        reader = library.SequentialWaveReader(f"ark:{tmp_path}/w")
        lookup = library.RandomAccessWaveReader(f"scp:{tmp_path}/w.scp")
        for wave in reader.value, lookup["a"], library.read_wave(f"{tmp_path}/w:2"):
            np.testing.assert_array_equal(wave.data.numpy(), samples)
            assert (wave.sample_freq, wave.data.shape) == (8000, (2, 800))
    assert files[0] == files[1]
    names = ("sample_freq", "sample_count", "num_channels", "block_align", "data_bytes", "reverse_bytes")
    (tmp_path / "w.wav").write_bytes(files[0][2 : 2 + 44 + 3200])
    wanted, found = (library.read_wave_info(f"{tmp_path}/w.wav") for library in (theirs, ours))
    assert [getattr(found, name) for name in names] == [getattr(wanted, name) for name in names]
    assert str(found) == str(wanted)
    assert dict(ours.SequentialWaveInfoReader(f"scp:{tmp_path}/w.scp"))["b"].sample_count == 800
    assert str(ours.WaveData(8000, samples)) == str(theirs.WaveData(8000, samples))


def test_header_of_audio_from_a_pipe_has_no_sample_count(tmp_path: Path) -> None:
    with ours.WaveWriter(f"ark:{tmp_path}/w") as writer:
        writer["a"] = ours.WaveData(8000, np.zeros((1, 800), np.float32))
    wav = bytearray((tmp_path / "w").read_bytes()[2:])
    wav[4:8] = wav[40:44] = b"\xff\xff\xff\xff"
    (tmp_path / "w.wav").write_bytes(wav)
    found = ours.read_wave_info(f"{tmp_path}/w.wav")
    assert (found.sample_count, found.sample_freq, found.num_channels) == (-1, 8000.0, 1)
    assert found.duration == theirs.read_wave_info(f"{tmp_path}/w.wav").duration


def test_text_of_a_header_has_all_digits_of_a_large_count(tmp_path: Path) -> None:
    """A minute at 16 kHz has about a million samples."""
    with ours.WaveWriter(f"ark:{tmp_path}/w") as writer:
        writer["a"] = ours.WaveData(16000, np.zeros((1, 1234567), np.float32))
    (tmp_path / "w.wav").write_bytes((tmp_path / "w").read_bytes()[2:])
    wanted, found = (str(library.read_wave_info(f"{tmp_path}/w.wav")) for library in (theirs, ours))
    assert found == wanted and "sample_count: 1234567\n" in found


@pytest.mark.parametrize(("count", "rate"), [(8400, 16000), (800, 8000), (1, 44100), (2**24 + 1, 44100)])
def test_durations_equal_kaldi_native_ios(count: int, rate: int, tmp_path: Path) -> None:
    with ours.WaveWriter(f"ark:{tmp_path}/w") as writer:
        writer["a"] = ours.WaveData(rate, np.zeros((1, count), np.float32))
    (tmp_path / "w.wav").write_bytes((tmp_path / "w").read_bytes()[2:])
    durations = {
        getattr(library, name)(f"{tmp_path}/w.wav").duration
        for library in (theirs, ours)
        for name in ("read_wave", "read_wave_info")
    }
    assert len(durations) == 1


def test_integer_vectors_are_read_from_files_of_their_own(tmp_path: Path) -> None:
    for kind, name in ("Int32Vector", "read_int32_vector"), ("Int8Vector", "read_int8_vector"):
        write(theirs, kind, tmp_path, "")
        assert getattr(ours, name)(f"{tmp_path}/a.ark:2") == getattr(theirs, name)(f"{tmp_path}/a.ark:2")


def test_every_public_name_of_kaldi_native_io_is_there() -> None:
    private = {"cmake_prefix_path", "List", "table_types", "lib"}
    missing = {name for name in dir(theirs) if not name.startswith("_")} - private - set(ours.__all__)
    assert not missing


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 does not pass copy=False")
def test_a_view_is_refused_if_numpy_needs_a_copy() -> None:
    """np.asarray(copy=False) of another type returned a copy."""
    matrix = ours.FloatMatrix(np.eye(2))
    assert np.shares_memory(np.asarray(matrix, copy=False), matrix.numpy())
    assert not np.shares_memory(np.asarray(matrix, copy=True), matrix.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(matrix, np.float64, copy=False)
