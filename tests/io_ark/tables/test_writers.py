"""Writers: archives, script files, failures, and peers that write the same."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.blocks import ArrayBlock, PackedBlock, PosteriorArrays, create_block
from io_ark.blocks.base import encode_keys
from io_ark.codecs import KINDS
from io_ark.codecs.sparse import SparseVector
from io_ark.errors import (
    ClosedError,
    FormatError,
    KeyFormatError,
    OpenError,
    OrderError,
    PipeError,
    SpecifierError,
    WriteError,
)
from io_ark.tables.overwriting import refuse_conflicts, refuse_overwriting
from tests.support.processes import output_of, python
from tests.support.table_samples import VALUES
from tests.support.tables import shapes, write_table

_MASKED = np.ma.masked_array(np.arange(1, 5, dtype=np.int32).reshape(2, 2), [[False, True], [False, False]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [
        _MASKED,
        _MASKED[0],
        _MASKED.astype(np.float32),
        [_MASKED[0], _MASKED[0]],
        [[(1, np.ma.masked)]],
        np.ma.masked,
        (16000, _MASKED[0].astype(np.int16)),
        SparseVector(4, np.array([0, 2], np.int32), _MASKED[0].astype(np.float32)),
        PosteriorArrays(np.array([2]), np.array([3, 4], np.int32), _MASKED[0].astype(np.float32)),
    ],
    ids=["matrix", "vector", "floats", "rows", "posterior", "number", "audio", "sparse", "arrays"],
)
def test_masked_elements_are_refused_not_written(kind: str, value: object, folder: Path) -> None:
    for wspecifier in "ark:o", "ark,t:o", "ark,scp:o,s":
        with pytest.raises(FormatError), io_ark.Writer(wspecifier, kind=kind) as writer:
            writer["u"] = value
        assert Path("o").stat().st_size == 0


@pytest.mark.parametrize(
    ("wspecifier", "back"),
    [("ark:o", "ark:o"), ("ark,t:o", "ark:o"), ("ark,scp:o,s", "scp:s"), ("ark,scp,t:o,s", "scp:s"),
     ("ark,f:o", "ark:o"), ("ark:| cat > o", "ark:o")],
)  # fmt: skip
def test_written_table_is_read_back(wspecifier: str, back: str, folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = {f"utt{i}é": rng.standard_normal((i, 5 if i else 0)).astype(np.float32) for i in range(10)}
    write_table("matrix", wspecifier, table)
    again = dict(io_ark.SequentialReader(back, kind="matrix"))
    assert list(again) == list(table)
    for key, value in table.items():
        np.testing.assert_allclose(again[key], value, rtol=0 if "t" not in wspecifier.split(":")[0] else 1e-4)


def test_scp_wspecifier_writes_each_object_to_its_file(folder: Path) -> None:
    Path("w.scp").write_text("b b.mat\na | cat > a.mat\n")
    one = np.ones((2, 2), np.float32)
    with io_ark.Writer("scp:w.scp", kind="matrix") as writer:
        writer["a"] = one
        writer["b"] = 2 * one
        with pytest.raises(WriteError, match="not in the script file"):
            writer["c"] = one
    with io_ark.Writer("scp,p,t:w.scp", kind="matrix") as writer:
        writer["c"] = one
    np.testing.assert_array_equal(io_ark.load("a.mat", kind="matrix"), one)
    np.testing.assert_array_equal(io_ark.load("b.mat", kind="matrix"), 2 * one)
    with pytest.raises(OrderError, match="duplicate key"):
        io_ark.Writer("scp:dup.scp", kind="matrix")


def test_refused_value_leaves_no_partial_entry(folder: Path) -> None:
    with io_ark.Writer("ark,scp:o,s", kind="matrix") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
        for key, value, error in ("b", "no matrix", FormatError), ("c d", np.ones((2, 2)), KeyFormatError):
            with pytest.raises(error):
                writer[key] = value
        writer["e"] = np.ones((2, 2), np.float32)
    assert [key for key, _ in shapes("ark:o")] == [key for key, _ in shapes("scp:s")] == ["a", "e"]
    with pytest.raises(ClosedError, match="the writer is closed"):
        writer["f"] = np.ones((2, 2), np.float32)
    with pytest.raises(ClosedError, match="the writer is closed"):
        writer.get_outputs()
    writer.close()


def test_output_that_is_not_written_is_an_error(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WriteError, match="No space left"), io_ark.Writer("ark:/dev/full", kind="matrix") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
    with (
        pytest.raises(PipeError, match="exit status 3"),
        io_ark.Writer("ark:| cat > o; exit 3", kind="matrix") as writer,
    ):
        writer["a"] = np.ones((2, 2), np.float32)
    with pytest.raises(OpenError, match="nosuch/s"):
        io_ark.Writer("ark,scp:o,nosuch/s", kind="matrix")
    with pytest.raises(ZeroDivisionError), io_ark.Writer("ark:/dev/full", kind="matrix") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
        raise ZeroDivisionError
    assert "No space left" in caplog.text


def test_script_file_does_not_list_entries_that_a_full_disk_has_lost(folder: Path) -> None:
    with (
        pytest.raises(WriteError, match="No space left"),
        io_ark.Writer("ark,scp:/dev/full,s", kind="matrix") as writer,
    ):
        writer["a"] = np.ones((2, 2), np.float32)
        writer["b"] = np.ones((2, 2), np.float32)
    assert Path("s").read_text() == ""


@pytest.mark.parametrize("kind", ["packed", "arrays", "single"])
def test_flushed_tables_are_on_disk_after_each_block(kind: str, folder: Path) -> None:
    with io_ark.Writer("ark,scp,f:o,s", kind="matrix") as writer:
        for key in "a", "b":
            value = np.ones((2, 2), np.float32)
            if kind == "single":
                writer[key] = value
            elif kind == "arrays":
                writer.write_block(ArrayBlock.from_arrays([key], [value]))
            else:
                packed: np.ndarray = np.frombuffer(f"{key} ".encode() + b"\0BFM \4\0\0\0\0\4\0\0\0\0", np.uint8)
                writer.write_block(PackedBlock(f"{key}\n".encode(), packed, np.array([2])))
            assert list(dict(io_ark.read("ark:o")))[-1] == list(dict(io_ark.read("scp:s")))[-1] == key


def test_command_ends_if_its_script_file_cannot_be_opened(folder: Path) -> None:
    with pytest.raises(OpenError) as raised:  # The traceback refers to the writer, so the writer is not deleted yet.
        io_ark.writer(f"ark,scp:| cat; touch {folder}/ended,{folder}/nosuch/o.scp")
    assert (raised.value.file, (folder / "ended").exists()) == (f"{folder}/nosuch/o.scp", True)


def test_script_file_for_a_pipe_warns(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    io_ark.Writer("ark,scp:| cat > o,s", kind="matrix").close()
    assert "is not a file, so the locations in the script file cannot be read: name a file" in caplog.text


@contextmanager
def racing(work: Callable[[int], None]) -> Iterator[None]:
    """Do work in four threads, which the interpreter switches as often as it can, and wait for their end."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    try:
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("wspecifier", ["ark,scp:o.ark,o.scp", "ark,t:o.ark", "ark,f:o.ark"])
def test_threads_sharing_a_writer_write_whole_entries(wspecifier: str, folder: Path) -> None:
    def write(thread: int) -> None:
        for i in range(300):
            writer[f"t{thread}-{i}"] = np.full((i % 7 + 1, 40 * (i % 5)), thread * 1000 + i, np.float32)

    with io_ark.Writer(wspecifier, kind="matrix") as writer, racing(write):
        pass
    rspecifiers = ["ark:o.ark", "scp:o.scp"] if "scp" in wspecifier else ["ark:o.ark"]
    for rspecifier in rspecifiers:
        found = dict(io_ark.SequentialReader(rspecifier, kind="matrix"))
        assert len(found) == 1200
        for key, value in found.items():
            thread, i = map(int, key[1:].split("-"))
            assert (value == thread * 1000 + i).all() and (value.size > 0) == (i % 5 > 0)


@pytest.mark.parametrize("kind", ["int", "float", "token", "vector", "int-pair-vector"])
def test_each_entry_is_written_by_its_own_call(kind: io_ark.Kind, folder: Path) -> None:
    value = VALUES[kind][-1]
    with io_ark.Writer(f"ark:{folder}/a", kind=kind) as writer:
        archive, _ = writer.get_outputs()
        for i in range(1, 4):
            writer[f"key{i}"] = value
            size = archive.tell()
            archive.flush()
            assert Path(folder, "a").stat().st_size == size > i * len("key1 ")


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", 2**31, "2147483648 does not fit into 32 bits"),
        ("token", "a b", "invalid token 'a b'"),
        ("token-vector", ["a", ""], "invalid token ''"),
        ("token-vector", ["a b", ""], "invalid token 'a b'"),
        ("float", "x", "'x' is not a number that fits into a float"),
        ("posterior", [[(1, 0.5)], [(1.5, 0.5)]], "expected an integer, not 1.5"),
        ("posterior", [[(1, 0.5), (2,)]], "expected pairs of numbers"),
        ("int-vector-vector", [[1], [2**31]], "2147483648 does not fit into 32 bits"),
        ("int-pair-vector", [(1, 2), 3], "expected pairs of numbers"),
        ("float-pair-vector", [(1, 2), (np.ma.masked, 3)], "elements are masked"),
    ],
)
def test_invalid_value_is_refused_by_its_own_call(kind: io_ark.Kind, value: Any, reason: str, folder: Path) -> None:
    usual = VALUES[kind][-1]
    with io_ark.Writer(f"ark:{folder}/a", kind=kind) as writer:
        writer["first"] = usual
        with pytest.raises(FormatError, match=f"second.*{reason}"):
            writer["second"] = value
        writer["third"] = usual
    assert list(dict(io_ark.SequentialReader(f"ark:{folder}/a", kind=kind))) == ["first", "third"]


@pytest.mark.parametrize("writes", [20, 700, 3000])
def test_entry_that_a_thread_wrote_before_another_one_closed_the_writer_is_in_the_table(
    writes: int, folder: Path
) -> None:
    accepted = [0] * 4

    def write(thread: int) -> None:
        for i in range(100_000):
            try:
                writer[f"t{thread}-{i}"] = i
            except ClosedError:
                return
            accepted[thread] = i + 1

    writer = io_ark.Writer("ark:o.ark", kind="int")
    with racing(write):
        while sum(accepted) < writes:
            pass
        writer.close()
    assert max(accepted) < 100_000
    found: dict[int, list[int]] = {thread: [] for thread in range(4)}
    for key, value in io_ark.SequentialReader("ark:o.ark", kind="int"):
        found[int(key[1:].split("-")[0])].append(value)
    for thread, values in found.items():
        # The entry during which the writer was closed may be in the table.
        assert values in (list(range(accepted[thread])), list(range(accepted[thread] + 1)))


@pytest.mark.parametrize("wspecifier", ["ark,t:o.ark", "ark,t,scp:o.ark,o.scp", "ark,t,f:o.ark"])
def test_fork_does_not_write_entries_twice(wspecifier: str, folder: Path) -> None:
    with io_ark.Writer(wspecifier, kind="int") as writer:
        writer["before"] = 1
        child = os.fork()
        if child == 0:
            status = 1
            try:
                writer["child"] = 2
            except ClosedError:
                writer.close()
                status = 0
            finally:
                del writer
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        writer["after"] = 3
    assert Path("o.ark").read_text() == "before 1 \nafter 3 \n"
    assert "scp" not in wspecifier or len(Path("o.scp").read_text().splitlines()) == 2


def test_forked_process_that_exits_writes_nothing_and_logs_nothing(folder: Path) -> None:
    script = """
import os, sys, io_ark
writer = io_ark.Writer("ark,t:o.ark", kind="int")
writer["once"] = 1
if os.fork() == 0:
    sys.exit(0)
assert os.wait()[1] == 0
writer["after"] = 2
writer.close()
"""
    done = python(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("o.ark").read_text() == "once 1 \nafter 2 \n"


def test_fork_while_a_thread_writes_does_not_block_the_child(folder: Path) -> None:
    # The child's copy of the writer's lock may be held by a thread that the child does not have.
    script = """
import os, threading, io_ark
writer = io_ark.Writer("ark:o.ark", kind="int")
stop = False
def write():
    i = 0
    while not stop:
        writer[f"k{i}"] = i
        i += 1
thread = threading.Thread(target=write)
thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
stop = True
thread.join()
writer.close()
values = [value for _, value in io_ark.SequentialReader("ark:o.ark", kind="int")]
assert values == list(range(len(values))), "entries lost or written twice"
"""
    output_of(script)


def test_file_on_standard_input_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    before = os.dup(0)
    try:
        with open(tmp_path / "a") as file:
            os.dup2(file.fileno(), 0)
        refuse_overwriting(f"ark:{tmp_path / 'b'}", ["ark:-"])
        with pytest.raises(SpecifierError, match="is read as well"):
            refuse_overwriting(f"ark:{tmp_path / 'a'}", ["ark:-"])
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.mark.parametrize(("kind", "dtype"), [("int", np.int32), ("float", np.float32), ("double", np.float64)])
@pytest.mark.parametrize("form", ["ark", "ark,t"])
def test_blocks_of_numbers_are_written_as_entries(kind: io_ark.Kind, dtype: Any, form: str, tmp_path: Path) -> None:
    edges = [0.0, -0.0, 1 / 3, 1e38, np.inf, -np.inf, np.nan, -np.nan, 2.5e-45, 1234567.5]
    numbers = np.array([0, -1, 2**31 - 1, -(2**31)] if kind == "int" else edges, dtype)
    names = [f"utt-{'é' * i}{i}" for i in range(len(numbers))]
    block = ArrayBlock(encode_keys(names), numbers, np.zeros((len(numbers), 2), np.int64), 0)
    with io_ark.Writer[Any](f"{form},scp:{tmp_path}/a.ark,{tmp_path}/a.scp", kind=kind) as writer:
        writer.write_block(block)
    with io_ark.Writer[Any](f"{form},scp:{tmp_path}/b.ark,{tmp_path}/b.scp", kind=kind) as writer:
        for name, number in zip(names, numbers.tolist(), strict=True):
            writer.write(name, number)
    assert (tmp_path / "a.ark").read_bytes() == (tmp_path / "b.ark").read_bytes()
    assert (tmp_path / "a.scp").read_text() == (tmp_path / "b.scp").read_text().replace("b.ark", "a.ark")


def test_script_file_of_a_block_of_large_matrices_points_to_them(tmp_path: Path) -> None:
    matrices = {f"u{i}": np.random.default_rng(i).normal(size=(90 + i, 100)).astype(np.float32) for i in range(3)}
    with io_ark.Writer[Any](f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", kind="matrix") as writer:
        writer.write_block(ArrayBlock.from_arrays([*matrices], [*matrices.values()]))
    for key, matrix in io_ark.load_scp(f"{tmp_path}/a.scp").items():
        np.testing.assert_array_equal(matrix, matrices.pop(key))
    assert not matrices


def test_single_file_may_replace_files_of_a_script_but_no_archive(tmp_path: Path) -> None:
    matrix, script = tmp_path / "a.mat", tmp_path / "list.scp"
    io_ark.save(f"{matrix}", np.eye(2, dtype=np.float32))
    script.write_text(f"a {matrix}\n")
    refuse_conflicts([str(matrix)], [f"scp:{script}", str(matrix)])
    script.write_text(f"a {matrix}\nb {matrix}:2\n")
    with pytest.raises(SpecifierError, match="writing would destroy it"):
        refuse_conflicts([str(matrix)], [f"scp:{script}"])
    with pytest.raises(SpecifierError, match="writing would destroy it"):
        refuse_conflicts([str(matrix)], [f"{matrix}:2"])


@pytest.mark.parametrize("keys", [[""], ["a\nb"], ["a", ""], ["a\nb", "c"], ["a b"], ["a", "b\0"]])
def test_block_with_an_invalid_key_is_refused(keys: list[str], folder: Path) -> None:
    matrices = [np.ones((2, 3), np.float32)] * len(keys)
    with io_ark.Writer("ark:a.ark", kind="matrix") as writer, pytest.raises(KeyFormatError):
        writer.write_block(create_block(keys, matrices))


@pytest.mark.parametrize("wspecifier", ["ark,t:out", "scp:out.scp"])
def test_packed_entries_are_refused_outside_a_binary_archive(folder: Path, wspecifier: str) -> None:
    Path("out.scp").write_text("a single\n")
    packed = PackedBlock(b"a\n", np.frombuffer(b"a \0BFM \4\0\0\0\0\4\0\0\0\0", np.uint8), np.array([2]))
    with io_ark.Writer(wspecifier, kind="matrix") as writer, pytest.raises(TypeError, match="to a binary archive"):
        writer.write_block(packed)
