"""What a dump leaves when it is killed, interrupted, or loses a worker: nothing wrong, and all that it needs."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dump_data import archive_bytes, dump, make_data

MAIN = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
KILLS = int(os.environ.get("DUMP_KILLS", "6"))  # 50 takes minutes


def start(data: Path, *arguments: str, nj: int = 1) -> subprocess.Popen[str]:
    """A dump in a process of its own."""
    conf = f"--conf={data.parent.parent}/conf/fbank.conf"
    command = [sys.executable, "-c", MAIN, "dump", "fbank", str(data), conf, f"--nj={nj}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def slow_data(root: Path, seconds: float, utterances: int = 24) -> Path:
    """Utterances whose audio takes a while to come; that of the last one does not come as long as :func:`held`."""
    data = make_data(root, utterances, samples=(3000, 5000))
    text = (data / "wav.scp").read_text().splitlines()
    lines = [f"{k} sleep {seconds}; cat {p} |\n" for k, p in map(str.split, text)]
    lines[-1] = lines[-1].replace(" ", f" while test -e {data}/hold; do sleep 0.02; done; ", 1)
    (data / "wav.scp").write_text("".join(lines))
    return data


@contextlib.contextmanager
def held(data: Path) -> Iterator[None]:
    """As long as this lasts, no dump of :func:`slow_data` comes to its end."""
    (data / "hold").touch()
    try:
        yield
    finally:
        (data / "hold").unlink()


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """The worker processes of a dump."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == pid and b"spawn_main" in (entry.parent / "cmdline").read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], bytes]:
    """A data directory, and what a dump that nobody disturbs makes of it."""
    data = slow_data(tmp_path_factory.mktemp("kill"), 0.02)
    assert dump(data, "--shard-utterances=2") == 0
    return data, archive_bytes(data), (data / "feats.scp").read_bytes()


def forget(data: Path) -> None:
    for path in [*(data / "data").iterdir(), *(data / "log").iterdir(), data / "feats.scp"]:
        path.unlink(missing_ok=True)


def test_killed_at_any_moment_and_resumed(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    data, archives, script = undisturbed
    forget(data)
    moments = random.Random(5)
    kills = 0
    while kills < KILLS:
        resume = (data / "log" / "dump_fbank_train.plan.jsonl").exists()
        process = start(data, "--shard-utterances=2", *(["--resume"] if resume else []))
        if resume:  # the imports take what time they take: the moment counts from the first sign of work
            wait_for_work(data, process)
        else:
            wait_for(data / "log" / "dump_fbank_train.plan.jsonl")
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        killed = process.wait() == -signal.SIGKILL
        kills += killed
        check_all_that_is_there(data, archives, f"after {kills} kills")
        if not killed:
            assert archive_bytes(data) == archives and (data / "feats.scp").read_bytes() == script
            forget(data)
    assert dump(data, "--shard-utterances=2", "--resume") == 0
    assert archive_bytes(data) == archives
    assert (data / "feats.scp").read_bytes() == script


def wait_for_work(data: Path, process: subprocess.Popen[str]) -> None:
    """Until a temporary file or another manifest appears, or the process ends."""

    def traces() -> set[str]:
        return {path.name for place in ("log", "data") for path in (data / place).glob("*[0-9a-f]")} | {
            path.name for path in (data / "log").glob("*.json")
        }

    before = traces()
    while traces() == before and process.poll() is None:
        time.sleep(0.002)


def check_all_that_is_there(data: Path, archives: dict[str, bytes], when: str) -> None:
    """A file under its own name is complete, and a manifest speaks of files that are there."""
    there = {name: content for name, content in archive_bytes(data).items() if "unfinished" not in name}
    assert all(archives[name] == content for name, content in there.items()), when
    for path in (data / "log").glob("dump_fbank_train.*.json"):
        assert f"raw_fbank_train.{path.stem.rsplit('.', 1)[1]}.ark" in there, when


def test_workers_end_with_their_parent(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    data, archives, _ = undisturbed
    forget(data)
    with held(data):
        process = start(data, "--shard-utterances=2", nj=2)
        wait_for(data / "log" / "dump_fbank_train.2.json")
        workers = children(process.pid)
        assert workers
        process.kill()
        process.wait()
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and _alive(pid) for pid in workers):
        assert time.monotonic() < end, "workers live on without their parent"
        time.sleep(0.05)
    assert dump(data, "--shard-utterances=2", "--resume") == 0
    assert archive_bytes(data) == archives


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_dies_is_replaced(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    data, archives, script = undisturbed
    forget(data)
    with held(data):
        process = start(data, "--shard-utterances=2", nj=2)
        wait_for(data / "log" / "dump_fbank_train.2.json")
        os.kill(children(process.pid)[0], signal.SIGKILL)
    assert process.wait(timeout=60) == 0
    assert archive_bytes(data) == archives
    assert (data / "feats.scp").read_bytes() == script


def test_an_archive_that_kills_its_workers_ends_the_job(tmp_path: Path) -> None:
    data = make_data(tmp_path, 4, samples=(3000,))
    lines = (data / "wav.scp").read_text().splitlines(keepends=True)
    (data / "wav.scp").write_text("".join(lines[:3]) + f"{lines[3].split()[0]} kill -9 $PPID; sleep 1 |\n")
    process = start(data, "--shard-utterances=1", nj=2)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 255
    assert "workers died at archive 4" in said and "Traceback" not in said
    assert not (data / "feats.scp").exists()


def test_interrupted(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    data, archives, _ = undisturbed
    for nj in (1, 2):
        forget(data)
        with held(data):
            process = start(data, "--shard-utterances=2", nj=nj)
            wait_for(data / "log" / "dump_fbank_train.1.json")
            process.send_signal(signal.SIGINT if nj == 1 else signal.SIGTERM)
            time.sleep(0.3)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "--resume goes on" in said and "Traceback" not in said
        assert not list((data / "data").glob("*unfinished*"))
        assert {name: archives[name] for name in archive_bytes(data)} == archive_bytes(data)
    assert dump(data, "--shard-utterances=2", "--resume") == 0
    assert archive_bytes(data) == archives


def test_interrupted_twice_ends_at_once(tmp_path: Path) -> None:
    """The first signal waits for the commands that are being read; nobody has to wait for them."""
    data = make_data(tmp_path, 2)
    keys = [line.split()[0] for line in (data / "wav.scp").read_text().splitlines()]
    (data / "wav.scp").write_text("".join(f"{key} touch {data}/begun; sleep 20 |\n" for key in keys))
    process = start(data)
    wait_for(data / "begun")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    since = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 130 and time.monotonic() - since < 5
    assert process.stderr is not None
    assert "ended at once" in process.stderr.readline()


def test_callers_keep_their_signal_handlers(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert dump(undisturbed[0], "--resume", "--shard-utterances=2") == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
