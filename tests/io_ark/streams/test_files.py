"""Open files shared by readers, and scarce file descriptors."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.errors import OpenError
from io_ark.streams.files import OpenFiles
from io_ark.streams.input import open_input
from tests.support.processes import output_of
from tests.support.tables import content


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in ten archives."""
    folder = tmp_path_factory.mktemp("many")
    lines = []
    for archive in range(10):
        with io_ark.Writer(f"ark,scp:{folder}/{archive}.ark,{folder}/one.scp", kind="matrix") as writer:
            for i in range(30):
                writer[f"utt{archive}-{i:02}"] = np.full((50 + i, 20), 100 * archive + i, np.float32)
        lines.append((folder / "one.scp").read_text())
    (folder / "all.scp").write_text("".join(lines))
    return folder


def check_all(table: object, keys: list[str]) -> None:
    for key in keys:
        archive, i = key[3:].split("-")
        value = table[key]  # type: ignore[index]
        assert value.shape == (50 + int(i), 20)
        assert (value == 100 * int(archive) + int(i)).all()


def in_child(table: object, keys: list[str], failures: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    try:
        check_all(table, keys)
    except BaseException as error:
        failures.put(repr(error))


def with_descriptors(limit: int, script: str, *arguments: str) -> str:
    """Return the output of a Python script that is limited to this number of descriptors."""
    prelude = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); import io_ark, sys\n"
    return output_of(prelude + script, *arguments).strip()


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in a hundred archives, a second one that names each twice, and one of commands."""
    folder = tmp_path_factory.mktemp("hundred")
    lines = []
    for i in range(100):
        with io_ark.Writer(f"ark:{folder}/{i}.ark", kind="matrix") as writer:
            writer["k"] = np.full((2, 3), i, np.float32)
        lines.append(f"k{i:03} {folder}/{i}.ark:2\n")
    (folder / "all.scp").write_text("".join(lines))
    (folder / "pipes.scp").write_text(
        "".join([line.replace(" ", " cat ").replace(":2", " | tail -c+3 |") for line in lines])
    )
    return folder


def test_offset_after_end_of_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123")
    with pytest.raises(OpenError, match=r"a:5: the offset is beyond the end of the file, which has 4 bytes"):
        content(f"{tmp_path}/a:5")


@pytest.mark.parametrize("name", ["nosuch", "nosuch/x:3", ".", "a\0b"])
def test_file_that_cannot_be_opened_gives_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(OpenError) as caught:
        content(f"{tmp_path}/{name}")
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_number_of_open_files_is_bounded(tmp_path: Path) -> None:
    def count_open_files() -> int:
        links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
        return sum(os.path.realpath(link).startswith(str(tmp_path)) for link in links)

    for i in range(40):
        (tmp_path / f"{i}.ark").write_bytes(b"x")
    files = OpenFiles(5)
    for _ in range(3):
        for i in range(40):
            assert bytes(files.get_file(f"{tmp_path}/{i}.ark").open_source(0).read(1)) == b"x"
        assert count_open_files() == 5
    files.clear()
    assert count_open_files() == 0


def test_file_dropped_from_the_cache_while_read_stays_open(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / str(i)).write_bytes(b"x" * 100_000)
    files = OpenFiles(1)
    first = open_input(f"{tmp_path}/0", files=files)
    for i in (1, 2):
        open_input(f"{tmp_path}/{i}", files=files).close()
    assert len(first.source.read_rest()) == 100_000


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("mmap", [False, True])
def test_processes_can_share_a_table(many: Path, start: str, mmap: bool) -> None:
    table = io_ark.load_scp(f"{many}/all.scp", max_open_files=3, mmap=mmap)
    keys = list(table)
    check_all(table, keys[:5])
    context = multiprocessing.get_context(start)
    failures = context.Queue()
    children = [context.Process(target=in_child, args=(table, keys[i::2], failures)) for i in range(2)]
    for child in children:
        child.start()
    check_all(table, keys[::-3])
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert failures.empty()


def test_threads_can_share_a_table(many: Path) -> None:
    table = io_ark.load_scp(f"{many}/all.scp", max_open_files=2)
    failures: list[str] = []

    def work(keys: list[str]) -> None:
        try:
            check_all(table, keys)
        except BaseException as error:
            failures.append(repr(error))

    keys = list(table)
    threads = [
        threading.Thread(target=work, args=(np.random.default_rng(i).permutation(keys).tolist(),)) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pickled_table_is_small_and_reads_again(many: Path) -> None:
    table = io_ark.load_scp(f"{many}/all.scp")
    check_all(table, list(table))
    again = pickle.loads(pickle.dumps(table))
    check_all(again, list(again))


def test_mapped_values_are_read_only_views(many: Path) -> None:
    with io_ark.Writer(f"ark,scp:{many}/v.ark,{many}/v.scp", kind="vector") as writer:
        writer["a"] = np.arange(1000, dtype=np.float32)
    mapped = io_ark.load_scp(f"{many}/v.scp", mmap=True)["a"]
    plain = io_ark.load_scp(f"{many}/v.scp")["a"]
    assert not mapped.flags.writeable and plain.flags.writeable
    np.testing.assert_array_equal(mapped, plain)


@pytest.mark.parametrize("table", ["all.scp", "pipes.scp"])
def test_many_archives_are_read_with_few_descriptors(hundred: Path, table: str) -> None:
    script = "print(sum(int(value[0, 0]) for _, value in io_ark.SequentialReader('scp:' + sys.argv[1], kind='matrix')))"
    assert with_descriptors(24, script, f"{hundred}/{table}") == str(sum(range(100)))


def test_tables_share_scarce_descriptors(hundred: Path) -> None:
    # Four tables would each keep 64 files; what else is opened then, here a command and an output, finds room, too.
    script = """
tables = [io_ark.load_scp(sys.argv[1]) for _ in range(4)]
total = 0
for key in tables[0]:
    total += sum(int(table[key][0, 0]) for table in tables)
total += int(io_ark.load("cat " + sys.argv[1].replace("all.scp", "7.ark") + " | tail -c+3 |")[0, 0])
while True:
    try:
        held = [*globals().get("held", []), open("/dev/null")]
    except OSError:
        break
with io_ark.writer("ark:" + sys.argv[2]) as writer:
    writer["total"] = total
held.clear()
print(dict(io_ark.read("ark:" + sys.argv[2])))
"""
    assert (
        with_descriptors(70, script, f"{hundred}/all.scp", f"{hundred}/out")
        == f"{{'total': {4 * sum(range(100)) + 7}}}"
    )


def test_no_descriptor_left_is_an_ark_error(hundred: Path) -> None:
    script = """
held, table = [], io_ark.load_scp(sys.argv[1], mmap=sys.argv[2] == "map", max_open_files=4)
while True:
    try:
        held.append(open("/dev/null"))
    except OSError:
        break
out = "ark:" + sys.argv[1] + ".out"
for action in (lambda: table["k000"], lambda: io_ark.load("echo |"), lambda: io_ark.writer(out)):
    try:
        action()
    except io_ark.ArkError as error:
        print("Too many open files" in str(error))
"""
    for how in "map", "read":
        assert with_descriptors(40, script, f"{hundred}/all.scp", how).split() == ["True"] * 3


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="maps have no descriptors of their own any more")
def test_maps_that_take_all_descriptors_are_an_ark_error(hundred: Path) -> None:
    script = """
table = io_ark.load_scp(sys.argv[1], mmap=True, max_open_files=4)
try:
    kept = [table[key] for key in table]
except io_ark.ArkError as error:
    print("Too many open files" in str(error))
"""
    assert with_descriptors(40, script, f"{hundred}/all.scp") == "True"


@pytest.mark.parametrize("limit", [64, 128])
def test_threads_near_the_descriptor_limit_read_a_table(hundred: Path, limit: int) -> None:
    script = """
import random, threading
errors = []
def read(table, seed):
    keys = list(table)
    random.Random(seed).shuffle(keys)
    try:
        for key in keys * 3:
            assert table[key][0, 0] == int(key[1:])
    except io_ark.ArkError as error:
        errors.append(error)
for _ in range(6):
    table = io_ark.load_scp(sys.argv[1])
    threads = [threading.Thread(target=read, args=(table, seed)) for seed in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
print(len(errors))
"""
    assert with_descriptors(limit, script, f"{hundred}/all.scp") == "0"
