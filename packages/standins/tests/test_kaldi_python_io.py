"""The names of kaldi_python_io, on archives that kaldiio and Kaldi have written, and in public code's forms."""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest

from io_ark.errors import (
    ArkError,
    FormatError,
    KeyFormatError,
    MissingFileError,
    OrderError,
    SpecifierError,
    WriteError,
)
from kaldi_standins import kaldi_python_io
from kaldi_standins.kaldi_python_io import functional, inst
from tests.support.reading_ways import same

RNG = np.random.default_rng(0)
ARRAYS = {
    "matrix": RNG.standard_normal((20, 5)).astype(np.float32),
    "doubles": RNG.standard_normal((3, 4)),
    "vector": RNG.standard_normal(7).astype(np.float32),
    "vector-of-doubles": RNG.standard_normal(7),
    "no-rows": np.zeros((0, 3), np.float32),
    "transposed": RNG.standard_normal((3, 4)).T,
}
INTEGERS = {"a": np.arange(9, dtype=np.int32), "b": np.array([-4], np.int32)}
EXAMPLES = Path(__file__).parents[3] / "tests" / "data" / "nnet_examples" / "nnet.ark"


def write(folder: Path, arrays: Any) -> tuple[str, str]:
    archive, script = f"{folder}/a.ark", f"{folder}/a.scp"
    with kaldi_python_io.ArchiveWriter(archive, script) as writer:
        for key, array in arrays.items():
            writer.write(key, array)
    return archive, script


def test_arrays_are_written_as_by_kaldiio_and_read(tmp_path: Path) -> None:
    archive, script = write(tmp_path, ARRAYS)
    kaldiio.save_ark(f"{tmp_path}/peer.ark", ARRAYS)
    assert Path(archive).read_bytes() == Path(f"{tmp_path}/peer.ark").read_bytes()
    assert Path(script).read_text().startswith(f"matrix\t{archive}:7\ndoubles\t{archive}:")
    for entries in (
        kaldi_python_io.ArchiveReader(archive),
        kaldi_python_io.ArchiveReader(f"cat {archive} |"),
        kaldi_python_io.ScriptReader(script),
        kaldi_python_io.ScriptReader(f"cat {script} |"),
    ):
        same(dict(entries), ARRAYS)
        same(dict(entries), ARRAYS)  # A second iteration reads the archive again.


def test_archive_is_written_without_a_script(tmp_path: Path) -> None:
    with kaldi_python_io.ArchiveWriter(f"{tmp_path}/a.ark") as writer:
        for key, array in ARRAYS.items():
            writer.write(key, array)
    same(dict(kaldi_python_io.ArchiveReader(f"{tmp_path}/a.ark")), ARRAYS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ark"]


def test_script_is_indexed_by_key_and_number(tmp_path: Path) -> None:
    archive, script = write(tmp_path, ARRAYS)
    reader = kaldi_python_io.ScriptReader(script)
    assert reader.index_keys == list(ARRAYS)
    assert reader.index_dict["matrix"] == (archive, 7)
    assert len(reader) == len(ARRAYS)
    assert "vector" in reader
    assert "none" not in reader
    same({"doubles": reader[1]}, {"doubles": reader["doubles"]})
    for index, error, words in (
        ("none", KeyError, "no line has the key none: index_keys lists the keys"),
        (-1, KeyError, "no line has the number -1"),
        (6, KeyError, "no line has the number 6: the file has 6 lines, numbered from 0"),
        (1.5, IndexError, "cannot be indexed by float"),
        (True, IndexError, "cannot be indexed by bool"),
    ):
        with pytest.raises(error, match=words):
            reader[index]  # type: ignore[index]
    copied = pickle.loads(pickle.dumps(reader))  # Spawned workers of a DataLoader receive a pickle.
    same({"vector": copied["vector"]}, {"vector": ARRAYS["vector"]})


def test_script_names_files_commands_and_paths_with_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "two words; é"
    folder.mkdir()
    _, script = write(folder, ARRAYS)
    same(dict(kaldi_python_io.ScriptReader(script)), ARRAYS)
    kaldiio.save_mat(f"{tmp_path}/one", ARRAYS["matrix"])
    (tmp_path / "scp").write_text(f"a {tmp_path}/one\nb cat {tmp_path}/one |\nc {tmp_path}/one[0:1]\n")
    expected = {"a": ARRAYS["matrix"], "b": ARRAYS["matrix"], "c": ARRAYS["matrix"][:2]}
    same(dict(kaldi_python_io.ScriptReader(f"{tmp_path}/scp")), expected)
    with pytest.raises(ArkError, match="b: "):
        kaldi_python_io.ScriptReader(f"{tmp_path}/scp", pipes=False)["b"]
    assert functional.read_kaldi_mat(f"{tmp_path}/one").shape == (20, 5)
    with pytest.raises(FormatError, match="expected a vector"):
        functional.read_kaldi_vec(f"{tmp_path}/one")
    kaldiio.save_mat(f"{tmp_path}/mean", ARRAYS["vector"])
    same({"v": functional.read_kaldi_vec(tmp_path / "mean")}, {"v": ARRAYS["vector"]})


def test_alignments_are_read(tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", INTEGERS, scp=f"{tmp_path}/a.scp")
    (tmp_path / "a.gz").write_bytes(gzip.compress((tmp_path / "a.ark").read_bytes()))
    same(dict(kaldi_python_io.AlignArchiveReader(f"gunzip -c {tmp_path}/a.gz |")), INTEGERS)
    same(dict(kaldi_python_io.AlignScriptReader(f"{tmp_path}/a.scp")), INTEGERS)


@pytest.mark.parametrize("method", [2, 3, 5])
def test_compressed_matrices_are_arrays(method: int, tmp_path: Path) -> None:
    kaldiio.save_ark(f"{tmp_path}/a.ark", {"a": ARRAYS["matrix"]}, compression_method=method)
    ((_, array),) = kaldi_python_io.ArchiveReader(f"{tmp_path}/a.ark")
    assert array.dtype == np.float32
    np.testing.assert_allclose(array, ARRAYS["matrix"], atol=0.05)


def test_training_examples_are_dictionaries() -> None:
    """As speaker recognition in PyTorch reads them: the features of the input, and the class of the output."""
    (key, parts), *_ = kaldi_python_io.Nnet3EgsReader(EXAMPLES)
    assert key == "usual"
    assert [part["name"] for part in parts] == ["input", "ivector", "output"]
    assert parts[0]["index"] == [(0, -1, 0), (0, 0, 0), (0, 1, 0)]
    assert parts[0]["matrix"][1].tolist() == [1.25, 0.875, 0.5, 0.125]
    assert parts[2]["matrix"] == [[(2, (1.0,))]]
    assert parts[2]["matrix"][0][0][0] == 2


def test_all_training_examples_are_read() -> None:
    examples = dict(kaldi_python_io.Nnet3EgsReader(EXAMPLES))
    assert all(
        isinstance(part["matrix"], np.ndarray | list) and len(part["matrix"]) == len(part["index"])
        for parts in examples.values()
        for part in parts
    )


def test_lines_of_other_files_are_values(tmp_path: Path) -> None:
    (tmp_path / "wav.scp").write_text("a x.wav\nb sox y.wav -t wav - |\n")
    (tmp_path / "utt2dur").write_text("a 1.5\nb 2\n")
    (tmp_path / "text").write_text("a 3 4 5\nb 6\nc\n")
    assert list(kaldi_python_io.Reader(f"{tmp_path}/wav.scp")) == [("a", "x.wav"), ("b", "sox y.wav -t wav - |")]
    assert kaldi_python_io.Reader(f"{tmp_path}/utt2dur", value_processor=float)["b"] == 2.0
    tokens = kaldi_python_io.Reader(
        f"{tmp_path}/text", num_tokens=-1, restrict=False, value_processor=lambda words: list(map(int, words))
    )
    assert dict(tokens) == {"a": [3, 4, 5], "b": [6], "c": []}
    for options in {}, {"num_tokens": 3}, {"num_tokens": -1}:
        with pytest.raises(FormatError, match=r"text: [ac]: has [03] words after the key, not "):
            kaldi_python_io.Reader(f"{tmp_path}/text", **options)
    with pytest.raises(
        FormatError, match="c: has 0 words after the key, not at least 1: add a value, or pass num_tokens"
    ):
        kaldi_python_io.Reader(f"{tmp_path}/text", num_tokens=-1)
    (tmp_path / "text").write_text("a 3\na 4\n")
    for reader in kaldi_python_io.Reader, kaldi_python_io.ScriptReader:
        with pytest.raises(OrderError, match="duplicate"):
            reader(f"{tmp_path}/text")
    with pytest.raises(MissingFileError):
        kaldi_python_io.Reader(f"{tmp_path}/none")


class Waves(kaldi_python_io.Reader):
    """As public readers of audio override the base class."""

    def _load(self, key: str) -> str:
        return f"{key}: {super()._load(key)}"


class Bytes(inst.Writer):
    """As aps writes archives of audio."""

    def write(self, key: str, value: bytes) -> None:
        self.ark_file.write(f"{key} ".encode())
        offset = self.ark_file.tell()
        self.ark_file.write(value)
        self.scp_file.write(f"{key}\t{self.ark_path}:{offset}\n")


def test_subclasses_read_and_write_other_objects(tmp_path: Path) -> None:
    with Bytes(f"{tmp_path}/a.ark", f"{tmp_path}/a.scp") as writer:
        writer.write("a", b"RIFF")
        writer.write("b", b"RIFX")
    assert Path(f"{tmp_path}/a.ark").read_bytes() == b"a RIFFb RIFX"
    reader = Waves(f"{tmp_path}/a.scp")
    assert list(reader) == [("a", f"a: {tmp_path}/a.ark:2"), ("b", f"b: {tmp_path}/a.ark:8")]
    assert reader[1] == reader["b"]


def test_entry_that_cannot_be_written_leaves_no_bytes(tmp_path: Path) -> None:
    wrong = [np.arange(3), [1.0, 2.0], np.zeros((1, 2, 3)), np.float32(1)]
    with kaldi_python_io.ArchiveWriter(f"{tmp_path}/a.ark", f"{tmp_path}/a.scp") as writer:
        for value in wrong:
            with pytest.raises(FormatError):
                writer.write("a", value)
        for key in "two words", "":
            with pytest.raises(KeyFormatError):
                writer.write(key, ARRAYS["matrix"])
        writer.write("b", ARRAYS["matrix"])
    same(dict(kaldi_python_io.ScriptReader(f"{tmp_path}/a.scp")), {"b": ARRAYS["matrix"]})


def test_outputs_that_lose_each_other_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ArkError), kaldi_python_io.ArchiveWriter(f"{tmp_path}/a", f"{tmp_path}/a") as writer:
        writer.write("a", ARRAYS["matrix"])
    with pytest.raises(SpecifierError, match="line feed"):
        kaldi_python_io.ArchiveWriter(f"{tmp_path}/a\nb", f"{tmp_path}/a.scp")
    with pytest.warns(UserWarning, match=r"a\.scp is not written"):
        kaldi_python_io.ArchiveWriter(f"| cat > {tmp_path}/p", f"{tmp_path}/a.scp").close()
    assert not (tmp_path / "a.scp").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_full_disk_is_an_error_of_the_file(tmp_path: Path) -> None:
    writer = kaldi_python_io.ArchiveWriter("/dev/full", f"{tmp_path}/a.scp")
    writer.write("a", ARRAYS["matrix"])
    with pytest.raises(WriteError, match="/dev/full: cannot be written: No space left on device"):
        writer.close()
    assert writer.scp_file.closed
    with pytest.raises(MissingFileError, match=r"none/a\.scp"):
        kaldi_python_io.ArchiveWriter(f"{tmp_path}/a.ark", f"{tmp_path}/none/a.scp")


def test_arguments_of_version_1_0_are_accepted(tmp_path: Path) -> None:
    with kaldi_python_io.ArchiveWriter(f"{tmp_path}/a.ark", f"{tmp_path}/a.scp", matrix=False) as writer:
        writer.write("a", ARRAYS["vector"])
    for entries in (
        kaldi_python_io.ScriptReader(f"{tmp_path}/a.scp", matrix=False),
        kaldi_python_io.ArchiveReader(f"{tmp_path}/a.ark", matrix=False),
    ):
        same(dict(entries), {"a": ARRAYS["vector"]})


def test_public_scripts_run_by_the_switch(tmp_path: Path) -> None:
    _, script = write(tmp_path, ARRAYS)
    program = (
        "import sys, kaldi_python_io as kio\n"
        "from kaldi_python_io.functional import read_kaldi_mat\n"
        "from kaldi_python_io.inst import Reader, Writer\n"
        "print(len(kio.ScriptReader(sys.argv[1])), kio.__name__)\n"
    )
    (tmp_path / "plot.py").write_text(program)
    switch = [sys.executable, "-m", "kaldi_standins", "replace", "kaldi_python_io", "--", f"{tmp_path}/plot.py", script]
    done = subprocess.run(switch, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["6", "kaldi_standins.kaldi_python_io"]
