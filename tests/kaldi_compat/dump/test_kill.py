"""A dump that is killed, interrupted, or loses a worker leaves no wrong file and can be resumed."""

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

from tests.support.dump_data import archive_bytes, dump, edited, left_by_a_dead_process, make_data

pytestmark = pytest.mark.sweep

MAIN = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"


def start(data: Path, *arguments: str, nj: int = 1) -> subprocess.Popen[str]:
    """Start a dump in a process of its own."""
    conf = f"--conf={data.parent.parent}/conf/fbank.conf"
    command = [sys.executable, "-c", MAIN, "dump", "fbank", str(data), conf, f"--nj={nj}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def slow_data(root: Path, seconds: float, utterances: int = 24) -> Path:
    """Make utterances whose audio takes some time to read; that of the last one waits as long as :func:`held`."""
    data = make_data(root, utterances, samples=(3000, 5000))
    with edited(data / "wav.scp") as places:
        places |= {key: f"sleep {seconds}; cat {path} |" for key, path in places.items()}
        places[max(places)] = f"while test -e {data}/hold; do sleep 0.02; done; {places[max(places)]}"
    return data


@contextlib.contextmanager
def held(data: Path) -> Iterator[None]:
    """Keep dumps of :func:`slow_data` from ending during this block."""
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
    """Return the worker processes of a dump."""
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
    """Make a data directory, and run an undisturbed dump of it."""
    data = slow_data(tmp_path_factory.mktemp("kill"), 0.02)
    assert dump(data, "--shard-utterances=2") == 0
    return data, archive_bytes(data), (data / "feats.scp").read_bytes()


def forget(data: Path) -> None:
    for path in [*(data / "data").iterdir(), *(data / "log").iterdir(), data / "feats.scp"]:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("wanted", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_any_moment_and_resumed(undisturbed: tuple[Path, dict[str, bytes], bytes], wanted: int) -> None:
    data, archives, script = undisturbed
    forget(data)
    chance = random.Random(5)
    kills = 0
    while kills < wanted:
        resume = (data / "log" / "dump_fbank_train.plan.jsonl").exists()
        nj = chance.choice([1, 2])
        process = start(data, "--shard-utterances=2", *(["--resume"] if resume else []), nj=nj)
        if resume:  # the imports take some time: the moment counts from the first sign of work
            wait_for_work(data, process)
        else:
            wait_for(data / "log" / "dump_fbank_train.plan.jsonl")
        time.sleep(chance.uniform(0, 0.3))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]))
        process.communicate(timeout=60)
        killed = process.returncode in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, 130)
        kills += killed
        check_all_that_is_there(data, archives, f"after {kills} kills")
        if not killed:
            assert process.returncode == 0
            assert archive_bytes(data) == archives and (data / "feats.scp").read_bytes() == script
            forget(data)
    assert dump(data, "--shard-utterances=2", "--resume") == 0
    assert archive_bytes(data) == archives
    assert (data / "feats.scp").read_bytes() == script
    assert not list(data.glob("**/*unfinished*"))


def wait_for_work(data: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a temporary file or another manifest appears, or the process ends."""

    def traces() -> set[str]:
        return {path.name for place in ("log", "data") for path in (data / place).glob("*[0-9a-f]")} | {
            path.name for path in (data / "log").glob("*.json")
        }

    before = traces()
    while traces() == before and process.poll() is None:
        time.sleep(0.002)


def check_all_that_is_there(data: Path, archives: dict[str, bytes], when: str) -> None:
    """Check that a file under its own name is complete, and that the files of a manifest exist."""
    there = {name: content for name, content in archive_bytes(data).items() if "unfinished" not in name}
    assert all(archives[name] == content for name, content in there.items()), when
    for path in (data / "log").glob("dump_fbank_train.*.json"):
        assert f"raw_fbank_train.{path.stem.rsplit('.', 1)[1]}.ark" in there, when


def test_killed_while_finishing_and_resumed(tmp_path: Path) -> None:
    data = make_data(tmp_path, 2)
    assert dump(data) == 0
    left_by_a_dead_process(data / "frame_shift").touch()
    assert dump(data, "--resume") == 0
    assert not list(data.glob("**/*unfinished*"))


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


def test_dead_worker_is_replaced(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    data, archives, script = undisturbed
    forget(data)
    with held(data):
        process = start(data, "--shard-utterances=2", nj=2)
        wait_for(data / "log" / "dump_fbank_train.2.json")
        os.kill(children(process.pid)[0], signal.SIGKILL)
    assert process.wait(timeout=60) == 0
    assert archive_bytes(data) == archives
    assert (data / "feats.scp").read_bytes() == script


def test_archive_that_kills_its_workers_ends_the_job(tmp_path: Path) -> None:
    data = make_data(tmp_path, 4, samples=(3000,))
    with edited(data / "wav.scp") as places:
        places["spk1-utt003"] = f"echo >> {tmp_path}/tries; kill -9 $PPID; sleep 1 |"
    process = start(data, "--shard-utterances=1", nj=2)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 255
    assert "3 workers died while writing archive 4" in said and "Traceback" not in said
    assert (tmp_path / "tries").read_text() == 3 * "\n"
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
        assert "--resume creates the missing archives" in said and "Traceback" not in said
        assert not list((data / "data").glob("*unfinished*"))
        assert {name: archives[name] for name in archive_bytes(data)} == archive_bytes(data)
    assert dump(data, "--shard-utterances=2", "--resume") == 0
    assert archive_bytes(data) == archives


@pytest.mark.parametrize("signals", [1, 2])
def test_interrupted_job_that_cannot_end_in_order_ends_at_once(tmp_path: Path, signals: int) -> None:
    """A thread that reads from a FIFO cannot be freed; a second signal, or some time, ends the job nevertheless."""
    data = make_data(tmp_path, 2)
    os.mkfifo(data / "fifo")
    with edited(data / "wav.scp") as places:
        places.update(dict.fromkeys(places, f"{data}/fifo"))
    process = start(data)
    with open(data / "fifo", "wb"):  # which waits for the reader
        process.send_signal(signal.SIGTERM)
        since = time.monotonic()
        if signals == 2:
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 130
        assert time.monotonic() - since < (1.0 if signals == 2 else 2.5)
    assert process.stderr is not None
    said = process.stderr.read()
    assert "ended at once" in said or "interrupted;" in said


def test_callers_keep_their_signal_handlers(undisturbed: tuple[Path, dict[str, bytes], bytes]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert dump(undisturbed[0], "--resume", "--shard-utterances=2") == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
