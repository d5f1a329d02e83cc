"""Opening what names mean: files, offsets, standard streams, pipes; and what goes wrong there."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.errors import (
    ClosedError,
    OpenError,
    PipeError,
    PipesRefusedError,
    ReaderGoneError,
    SpecifierError,
    WriteError,
)
from io_ark.streams.files import OpenFiles
from io_ark.streams.input import open_input
from io_ark.streams.output import open_output
from io_ark.streams.pipes import NO_PIPES_VARIABLE


def content(rxfilename: str) -> bytes:
    with open_input(rxfilename) as opened:
        return opened.source.read_rest()


def test_files_offsets_and_pipes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a b"
    path.write_bytes(b"0123456789")
    assert content(str(path)) == b"0123456789"
    assert content(f"{path}:4") == b"456789"
    assert content(f"{path}:10") == b""
    assert content(f"cat '{path}' | tr 0 x |") == b"x123456789"


def test_an_offset_after_the_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123")
    with pytest.raises(OpenError, match=r"a:5: has only 4 bytes"):
        content(f"{tmp_path}/a:5")


@pytest.mark.parametrize("name", ["nosuch", "nosuch/x:3", ".", "a\0b"])
def test_what_cannot_be_opened_says_so_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(OpenError) as caught:
        content(f"{tmp_path}/{name}")
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nosuch/x", ".", "a\0b"])
def test_what_cannot_be_written_says_so_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="cannot be opened for writing"):
        open_output(f"{tmp_path}/{name}")


def test_a_device_has_no_offset() -> None:
    assert content("/dev/null") == b""
    with pytest.raises(OpenError, match="no regular file"):
        content("/dev/null:3")


def test_a_named_pipe_is_read_as_a_stream(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"x" * 100_000,))
    writer.start()
    assert content(str(fifo)) == b"x" * 100_000
    writer.join()


def test_the_status_of_a_command_is_told() -> None:
    opened = open_input("echo hello; exit 3 |")
    assert opened.source.read_rest() == b"hello\n"
    assert opened.close() == 3
    assert opened.close() == 0
    ended = open_input("kill -9 $$ |")
    assert ended.source.read_rest() == b""
    assert ended.close() == -9


def test_a_command_that_is_not_read_to_its_end_dies_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    with open_input("yes |") as opened:
        assert bytes(opened.source.read(2)) == b"y\n"
    assert capfd.readouterr().err == ""


def test_bytes_go_to_files_and_commands(tmp_path: Path) -> None:
    big = os.urandom(300_000)
    for target in f"{tmp_path}/plain", f"| cat > {tmp_path}/plain":
        with open_output(target) as output:
            output.write(b"key ")
            assert output.tell() == 4
            output.write(big)
            output.write(np.arange(3, dtype=np.int32).data)
            assert output.tell() == 300_016
        assert (tmp_path / "plain").read_bytes() == b"key " + big + np.arange(3, dtype=np.int32).tobytes()


def test_flushing_hands_the_bytes_on(tmp_path: Path) -> None:
    output = open_output(f"{tmp_path}/a")
    output.write(b"x")
    assert (tmp_path / "a").read_bytes() == b""
    output.flush()
    assert (tmp_path / "a").read_bytes() == b"x"
    output.close()
    with pytest.raises(ClosedError):
        output.write(b"x" * 200_000)


def test_an_output_that_is_forgotten_is_written_all_the_same(tmp_path: Path) -> None:
    output = open_output(f"{tmp_path}/a")
    output.write(b"x")
    del output
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_full_disk_is_an_error() -> None:
    output = open_output("/dev/full")
    output.write(b"x")
    with pytest.raises(WriteError, match="No space left"):
        output.close()
    with pytest.raises(WriteError), open_output("/dev/full") as output:
        output.write(b"x" * 1_000_000)


def test_a_command_that_fails_or_stops_reading_is_an_error(tmp_path: Path) -> None:
    output = open_output(f"| cat > {tmp_path}/a; exit 4")
    output.write(b"x")
    with pytest.raises(PipeError, match="exit status 4"):
        output.close()
    gone = open_output("| exec <&-; sleep 0.1")
    with pytest.raises((ReaderGoneError, PipeError)) as caught:
        for _ in range(100):
            gone.write(b"x" * 100_000)
    assert isinstance(caught.value, BrokenPipeError)
    gone.close()


def test_pipes_can_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PipesRefusedError, match="'touch x' is not run"):
        open_input("touch x |", pipes=False)
    with pytest.raises(PipesRefusedError):
        open_output("| touch x", pipes=False)
    monkeypatch.setenv(NO_PIPES_VARIABLE, "1")
    (tmp_path / "evil.scp").write_text(f"a touch {tmp_path}/made |\n")
    for call in (
        lambda: open_input("touch x |"),
        lambda: list(io_ark.read(f"scp:{tmp_path}/evil.scp")),
        lambda: io_ark.load_scp(f"{tmp_path}/evil.scp")["a"],
        lambda: io_ark.load(f"touch {tmp_path}/made |"),
        lambda: io_ark.writer(f"ark:| touch {tmp_path}/made"),
    ):
        with pytest.raises(PipesRefusedError, match=NO_PIPES_VARIABLE):
            call()
    assert not (tmp_path / "made").exists()
    monkeypatch.setenv(NO_PIPES_VARIABLE, "0")
    assert content("echo x |") == b"x\n"


class FakeStandardInput:
    """What ``sys.stdin`` is, over bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input_is_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", FakeStandardInput(b"first second third"))
    with open_input("-") as opened:
        assert opened.source.read_token() == b"first"
        with pytest.raises(OpenError, match="named twice"):
            open_input("")
    with open_input("") as opened:  # what was read ahead is not lost
        assert opened.source.read_rest() == b" second third"
    monkeypatch.setattr(sys, "stdin", FakeStandardInput(b"other"))
    assert content("-") == b"other"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OpenError, match="closed"):
        open_input("-")


def test_standard_output_keeps_the_order(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    script = """
import sys, io_ark.streams.output
print("before")
with io_ark.streams.output.open_output("-") as output:
    output.write(b"binary\\n")
print("after")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"before\nbinary\nafter\n"


def test_a_bounded_number_of_files_is_open(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"{i}.ark").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    files = OpenFiles(5)
    for _ in range(3):
        for i in range(40):
            assert bytes(files.get(f"{tmp_path}/{i}.ark").source(0).read(1)) == b"x"
        assert len(os.listdir("/proc/self/fd")) - before <= 5
    files.clear()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_in_use_outlives_its_place_among_the_open_ones(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / str(i)).write_bytes(b"x" * 100_000)
    files = OpenFiles(1)
    first = open_input(f"{tmp_path}/0", files=files)
    for i in (1, 2):
        open_input(f"{tmp_path}/{i}", files=files).close()
    assert len(first.source.read_rest()) == 100_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in ten archives."""
    folder = tmp_path_factory.mktemp("many")
    lines = []
    for archive in range(10):
        with io_ark.Writer("matrix", f"ark,scp:{folder}/{archive}.ark,{folder}/one.scp") as writer:
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


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("mmap", [False, True])
def test_processes_share_a_table(many: Path, start: str, mmap: bool) -> None:
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


def test_threads_share_a_table(many: Path) -> None:
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


def test_a_table_is_pickled_small_and_reads_again(many: Path) -> None:
    table = io_ark.load_scp(f"{many}/all.scp")
    check_all(table, list(table))
    again = pickle.loads(pickle.dumps(table))
    check_all(again, list(again))


def test_mapped_values_are_views_that_cannot_be_changed(many: Path) -> None:
    with io_ark.Writer("vector", f"ark,scp:{many}/v.ark,{many}/v.scp") as writer:
        writer["a"] = np.arange(1000, dtype=np.float32)
    mapped = io_ark.load_scp(f"{many}/v.scp", mmap=True)["a"]
    plain = io_ark.load_scp(f"{many}/v.scp")["a"]
    assert not mapped.flags.writeable and plain.flags.writeable
    np.testing.assert_array_equal(mapped, plain)


def test_errors_keep_their_place_on_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(SpecifierError("odd", file="a.scp", offset=3, key="k")))
    assert str(error) == "a.scp:3: k: odd"
    assert isinstance(error, SpecifierError)


def test_importing_io_ark_brings_neither_torch_nor_subprocess() -> None:
    script = (
        "import sys, io_ark; "
        "print([name for name in ('torch', 'kaldi_compat', 'subprocess', 'tempfile') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {script}"], capture_output=True
    )
    assert done.stdout.strip() == b"[]", done


def with_descriptors(limit: int, script: str, *arguments: str) -> str:
    """What a script in Python prints that may have so many descriptors."""
    prelude = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); import io_ark, sys\n"
    done = subprocess.run([sys.executable, "-c", prelude + script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in a hundred archives, a second one that names each twice, and one of commands."""
    folder = tmp_path_factory.mktemp("hundred")
    lines = []
    for i in range(100):
        with io_ark.Writer("matrix", f"ark:{folder}/{i}.ark") as writer:
            writer["k"] = np.full((2, 3), i, np.float32)
        lines.append(f"k{i:03} {folder}/{i}.ark:2\n")
    (folder / "all.scp").write_text("".join(lines))
    (folder / "pipes.scp").write_text(
        "".join([line.replace(" ", " cat ").replace(":2", " | tail -c+3 |") for line in lines])
    )
    return folder


@pytest.mark.parametrize("table", ["all.scp", "pipes.scp"])
def test_a_table_in_many_archives_is_read_with_few_descriptors(hundred: Path, table: str) -> None:
    script = "print(sum(int(value[0, 0]) for _, value in io_ark.SequentialReader('matrix', 'scp:' + sys.argv[1])))"
    assert with_descriptors(24, script, f"{hundred}/{table}") == str(sum(range(100)))


def test_tables_make_room_for_each_other(hundred: Path) -> None:
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


def test_no_descriptor_left_is_our_error(hundred: Path) -> None:
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
def test_maps_in_use_that_take_all_descriptors_are_our_error(hundred: Path) -> None:
    script = """
table = io_ark.load_scp(sys.argv[1], mmap=True, max_open_files=4)
try:
    kept = [table[key] for key in table]
except io_ark.ArkError as error:
    print("Too many open files" in str(error))
"""
    assert with_descriptors(40, script, f"{hundred}/all.scp") == "True"


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_standard_stream_of_text_is_our_error(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, stream, io.StringIO("a b\n"))
    with pytest.raises(OpenError, match=f"standard {stream[3:]}put: cannot be .*StringIO"):
        (open_input if stream == "stdin" else open_output)("-")


def test_an_output_that_is_added_to_knows_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with open_output(f"{tmp_path}/a", append=True) as output:
        output.write(b" after")
        assert (output.start, output.tell()) == (6, 6)
    assert (tmp_path / "a").read_bytes() == b"before after"


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800"])
def test_a_command_that_no_shell_can_be_given_is_our_error(command: str) -> None:
    with pytest.raises(PipeError, match="cannot be started"):
        open_input(f"{command} |")
