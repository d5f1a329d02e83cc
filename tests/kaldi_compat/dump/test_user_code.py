"""Whatever the code of an extractor does, the status of the dump and its line say what happened."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from pathlib import Path

import numpy as np
import pytest

import io_ark
import kaldi_compat
from kaldi_compat.dump import workers
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.user_code import Interrupted, get_signal_name, guard_user_code
from kaldi_compat.dump.workers import describe_ending
from tests.support.dump_data import dump, make_data
from tests.support.extractors import arrays, module_data
from tests.support.resources import list_open_files

MAIN = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"
MODULE = """
import os, signal, sys

import numpy as np

ACT, WHERE, FILE = sys.argv and {act!r}, {where!r}, "calls"


class Custom(BaseException):
    pass


def act():
    {act}


if WHERE == "import":
    act()


class Extractor:
    def __init__(self):
        if WHERE == "construction":
            act()

    def __call__(self, audio):
        with open(FILE, "a") as file:
            file.write(".")
        # The trial calls with noise, whose length is no length of the data.
        if WHERE == "trial" or (WHERE == "call" and len(audio[0]) in (6000, 9037, 16074, 30111)):
            act()
        return [np.abs(samples).mean(keepdims=True) for samples in audio]
"""
MODULE_THAT_FORKS_LATER = """
import os, signal

import numpy as np

PLACE = {place!r}


def fork_once(*_):
    if not os.path.exists("has_forked"):
        open("has_forked", "w").close()
        child = os.fork()
        if child:
            os.waitpid(child, 0)


class Output(np.ndarray):
    def __del__(self):
        if Extractor.calls > 3:
            fork_once()


class Extractor:
    calls = 0

    def __init__(self):
        signal.signal(signal.SIGALRM, fork_once)

    def __call__(self, audio):
        Extractor.calls += 1
        if PLACE == "signal handler" and Extractor.calls > 3:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        means = [np.abs(samples).mean(keepdims=True) for samples in audio]
        return [mean.view(Output) for mean in means] if PLACE == "__del__ of an output" else means

    def __del__(self):
        if PLACE == "__del__ of the extractor":
            fork_once()
"""
ACTS = {
    "sys.exit(0)": "called sys.exit(0)",
    "sys.exit('no')": "called sys.exit('no')",
    "os._exit(0)": "status 0",
    "os._exit(3)": "status 3",
    "os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
    "os.kill(os.getpid(), signal.SIGSEGV)": "SIGSEGV",
    "os.chdir('/')": "changed the working directory to /",
    "os.close(2)": "closed the standard stream 2",
    "sys.stderr.close()": "closed sys.stderr",
    "sys.stderr = None; os._exit(1)": "status 1",
    "os.closerange(3, 200)": "closed files of the program",
    "raise KeyboardInterrupt": "raised KeyboardInterrupt",
    "raise Custom": "raised Custom",
    "raise GeneratorExit": "raised GeneratorExit",
}


def dumped(root: Path, act: str, where: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a dump of a module that acts somewhere, as a program."""
    (root / "hostile.py").write_text(MODULE.format(act=act, where=where))
    return subprocess.run(
        [sys.executable, "-c", MAIN, "dump", "--module=hostile.py:Extractor", "data/train", *arguments],
        cwd=root, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("act", ACTS)
def test_act_in_a_call_is_named(tmp_path: Path, act: str) -> None:
    data = module_data(tmp_path, 4)
    found = dumped(tmp_path, act, "call", "--nj=1")
    line = found.stderr.splitlines()[-1]
    assert found.returncode == 255, found.stderr
    assert ACTS[act] in line and "--module=hostile.py:Extractor" in line and "Traceback" not in found.stderr
    assert not (data / "feats.scp").exists()


@pytest.mark.sweep
@pytest.mark.parametrize("where", ["import", "construction", "trial"])
@pytest.mark.parametrize("act", ["sys.exit(0)", "os._exit(0)", "os.chdir('/')", "sys.stderr.close()", "raise Custom"])
def test_act_at_the_start_is_named(tmp_path: Path, act: str, where: str) -> None:
    data = module_data(tmp_path, 2)
    found = dumped(tmp_path, act, where, "--nj=1")
    named = "SystemExit: 0" if act == "sys.exit(0)" and where != "trial" else ACTS[act]
    assert found.returncode == 255, found.stderr
    assert named in found.stderr.splitlines()[-1] and "hostile.py:Extractor" in found.stderr.splitlines()[-1]
    assert not (data / "log").exists()


@pytest.mark.sweep
@pytest.mark.parametrize("act", ["sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "raise Custom"])
def test_act_in_one_of_two_workers_is_named(tmp_path: Path, act: str) -> None:
    module_data(tmp_path, 4)
    found = dumped(tmp_path, act, "call", "--nj=2")
    line = found.stderr.splitlines()[-1]
    assert found.returncode == 255, found.stderr
    assert ACTS[act] in line and "internal error" not in line
    assert ("enough memory" in line) == ("SIGKILL" in act)


def test_ending_is_said_while_another_process_of_the_users_lives(tmp_path: Path) -> None:
    module_data(tmp_path, 2)
    act = "os.fork() or (__import__('time').sleep(30), os._exit(0)); os._exit(0)"
    (tmp_path / "hostile.py").write_text(MODULE.format(act=act, where="call"))
    with open(tmp_path / "said", "wb") as said:
        status = subprocess.run(
            [sys.executable, "-c", MAIN, "dump", "--module=hostile.py:Extractor", "data/train", "--nj=1"],
            cwd=tmp_path, stdout=said, stderr=said, stdin=subprocess.DEVNULL, timeout=25,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        ).returncode  # fmt: skip
    assert status == 255 and "with status 0" in (tmp_path / "said").read_text().splitlines()[-1]


@pytest.mark.parametrize("where, ending", [
    ("import", "pass"), ("construction", "raise ValueError"), ("trial", "sys.exit(0)"), ("call", "pass"),
    ("call", "raise Custom"), ("call", "sys.exit(0)"),
])  # fmt: skip
def test_forked_child_that_does_not_end_by_itself_is_ended(tmp_path: Path, where: str, ending: str) -> None:
    data = module_data(tmp_path, 4)
    # The code forks once, since the child would otherwise run the whole job, and fork again.
    act = "if not os.path.exists('has_forked'):\n        open('has_forked', 'w').close()\n        child = os.fork()\n"
    act += f"        if not child:\n            {ending}\n        else:\n            os.waitpid(child, 0)"
    run = dumped(tmp_path, act, where, "--nj=1")
    assert run.returncode == 0 and "Traceback" not in run.stderr, run.stderr
    [line] = [line for line in run.stderr.splitlines() if "forked" in line]
    assert "hostile.py:Extractor" in line and "os._exit" in line
    assert len(arrays(data / "xvector.scp")) == 4 and not list(data.glob("**/*unfinished*"))


@pytest.mark.sweep
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("place", ["__del__ of the extractor", "__del__ of an output", "signal handler"])
def test_forked_child_of_other_code_than_a_call_is_ended(tmp_path: Path, place: str, jobs: int) -> None:
    data = module_data(tmp_path, 4)
    (tmp_path / "hostile.py").write_text(MODULE_THAT_FORKS_LATER.format(place=place))
    run = subprocess.run(
        [sys.executable, "-c", MAIN, "dump", "--module=hostile.py:Extractor", "data/train", f"--nj={jobs}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert run.returncode == 0 and "Traceback" not in run.stderr, run.stderr
    assert run.stderr.count("this run:") == 1
    if (tmp_path / "has_forked").exists():
        assert run.stderr.count("has forked a child process that does not end by itself") == 1
    else:  # The process ends without the deletion of the extractor.
        assert jobs == 2 and place == "__del__ of the extractor"
    assert len(dict(io_ark.load_scp(data / "xvector.scp"))) == 4


def test_resumed_dump_without_the_act_is_complete(tmp_path: Path) -> None:
    data = module_data(tmp_path, 4)
    assert dumped(tmp_path, "os._exit(0)", "call", "--nj=1").returncode == 255
    assert dumped(tmp_path, "pass", "call", "--nj=1").returncode == 0
    assert len(arrays(data / "xvector.scp")) == 4 and not list(data.glob("**/*unfinished*"))


def test_nothing_is_read_from_standard_input(tmp_path: Path) -> None:
    data = module_data(tmp_path, 2)
    (tmp_path / "asks.py").write_text("import os\nanswer = os.read(0, 100)\ndef f(audio):\n"
                                      "    return [abs(x[:1]) + len(answer) for x in audio]\n")  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", MAIN, "dump", "--module=asks.py:f", "data/train", "--nj=1"],
        cwd=tmp_path, capture_output=True, text=True, input="yes\n" * 10, timeout=100,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert all(value < 1 for value in arrays(data / "xvector.scp").values())


def test_object_that_asks_gets_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = module_data(tmp_path, 2)

    def asks(audio: list[np.ndarray]) -> list[np.ndarray]:
        input("y/N?")
        return audio

    with pytest.raises(DumpError, match="EOF"):
        kaldi_compat.dump(data, asks, nj=1)


def test_objects_that_exit_or_move_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = module_data(tmp_path, 2)
    monkeypatch.chdir(tmp_path)

    def exits(audio: list[np.ndarray]) -> list[np.ndarray]:
        raise SystemExit(0)

    def moves(audio: list[np.ndarray]) -> list[np.ndarray]:
        os.chdir("/")
        return audio

    with pytest.raises(DumpError, match=r"^exits has called sys.exit\(0\)"):
        kaldi_compat.dump(data, exits, nj=1)
    with pytest.raises(DumpError, match=r"^moves has changed the working directory to /"):
        kaldi_compat.dump(data, moves, nj=1)
    assert Path.cwd() == tmp_path


def test_interruption_of_an_object_stays_one(tmp_path: Path) -> None:
    data = module_data(tmp_path, 2)

    def slow(audio: list[np.ndarray]) -> list[np.ndarray]:
        raise KeyboardInterrupt  # as Python's own handler of ^C does

    with pytest.raises(KeyboardInterrupt):
        kaldi_compat.dump(data, slow, nj=1)


@pytest.mark.parametrize("code, text", [(-9, "enough memory"), (-11, "SIGSEGV"), (0, "os._exit"), (None, "without")])
def test_ending_of_a_worker_is_described(code: int | None, text: str) -> None:
    assert text in describe_ending(code)


WAITS = """
import os, time


def f(audio):
    if len(audio[0]) in (6000, 9037):
        with open("begun.new", "w") as file:
            file.write(f"{os.getpid()} {os.getpgrp()}")
        os.rename("begun.new", "begun")
        time.sleep(60)
    return [each[:3] for each in audio]
"""


@contextmanager
def waiting(root: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """Start a dump whose extractor waits in a call; yield it, the number of its child, and the group of that."""
    module_data(root, 2)
    (root / "waits.py").write_text(WAITS)
    line = [sys.executable, "-c", MAIN, "dump", "--module=waits.py:f", "data/train", "--nj=1"]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    job = subprocess.Popen(line, cwd=root, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=paths)
    try:
        while not (root / "begun").exists():
            assert job.poll() is None, job.communicate()[1]
            time.sleep(0.02)
        child, group = map(int, (root / "begun").read_text().split())
        yield job, child, group
    finally:
        job.kill()
        job.communicate()


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signal_to_the_job_ends_the_process_that_runs_the_code(tmp_path: Path, number: signal.Signals) -> None:
    with waiting(tmp_path) as (job, child, group):
        assert child != job.pid and group == child, "^C in a terminal would arrive twice"
        job.send_signal(number)
        said = job.communicate(timeout=50)[1]
        end = time.monotonic() + 20
        while is_running(child):
            assert time.monotonic() < end, "the process lives on"
            time.sleep(0.05)
        assert "Traceback" not in said
        assert job.returncode == (-number if number == signal.SIGKILL else 130)


def test_guard_leaves_no_descriptor_open() -> None:
    with guard_user_code("f"):
        pass
    before = list_open_files()
    for _ in range(3):
        with guard_user_code("f"):
            pass
        with pytest.raises(KeyError), guard_user_code("f"):
            raise KeyError
    assert list_open_files() <= before


def test_stream_that_replaces_a_closed_one_does_not_close_the_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    copy = os.dup(2)
    try:
        with pytest.raises(DumpError, match=r"^f has closed sys\.stderr"), guard_user_code("f"):
            sys.stderr.close()
        sys.stderr.close()
        os.fstat(2)
    finally:
        os.dup2(copy, 2)
        os.close(copy)


@pytest.mark.parametrize("is_blocked", [True, False])
def test_interruption_by_a_signal_is_told_from_an_exception_of_user_code(is_blocked: bool) -> None:
    """Python's own handler raises the same exception as user code may; it cannot have run if ^C is blocked."""
    handler = signal.default_int_handler if is_blocked else signal.SIG_IGN
    before = signal.signal(signal.SIGINT, handler)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT} if is_blocked else set())
    try:
        with pytest.raises(Interrupted), guard_user_code("f"):
            raise Interrupted
        with (
            pytest.raises(DumpError, match=r"^f has raised KeyboardInterrupt: an extractor must"),
            guard_user_code("f"),
        ):
            raise KeyboardInterrupt
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)


def test_interruption_by_the_default_handler_passes_the_guard() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), guard_user_code("f"):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_signal_without_a_name_is_a_number() -> None:
    assert (get_signal_name(9), get_signal_name(200)) == ("SIGKILL", "signal 200")


def test_undisturbed_dump_starts_only_the_workers_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that die are replaced, so that the result alone does not show it."""
    started: list[object] = []
    start = workers._start_worker
    monkeypatch.setattr(workers, "_start_worker", lambda *arguments: started.append(arguments) or start(*arguments))
    monkeypatch.setattr(workers, "count_cores", lambda: 2)
    assert dump(make_data(tmp_path, 4), "--shard-utterances=2", nj=2) == 0
    assert len(started) == 2


@pytest.mark.parametrize(
    ("extractor", "error"), [(print, OSError("no process is left")), (None, ValueError("a mistake in the program"))]
)
def test_only_errors_of_an_object_are_explained_by_pickling(
    tmp_path: Path, extractor: object, error: Exception
) -> None:
    job = Job(Layout.from_paths(tmp_path, "fbank"), extractor=extractor)
    with pytest.raises(type(error)) as caught, workers._explain_pickling(job):
        raise error
    assert caught.value is error


def test_guard_restores_the_streams() -> None:
    before = sys.stdin, sys.stdout, sys.stderr
    with guard_user_code("f"):
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        assert sys.stdin.read() == ""
    assert (sys.stdin, sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("number", range(4))
def test_one_closed_file_of_the_guard_is_an_error(number: int) -> None:
    """The guard has opened the working directory and copies of the three standard streams."""
    before, opened = list_open_files(), list[int]()
    try:
        with pytest.raises(DumpError, match=r"^f has closed files of the program: "), guard_user_code("f"):
            opened += sorted(list_open_files() - before)
            os.close(opened[number])
    finally:
        for descriptor in list_open_files().intersection(opened):
            os.close(descriptor)
    assert len(opened) == 4


BLOCKED = """
import signal
from multiprocessing import resource_tracker
from kaldi_compat.dump.workers import postpone_interrupts

with postpone_interrupts():
    resource_tracker.getfd()  # Starting a process calls this, which starts the tracker.
    assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""


def test_first_worker_starts_with_blocked_interrupts() -> None:
    """Python 3.11 unblocks ^C when it starts the tracker of resources."""
    subprocess.run([sys.executable, "-c", BLOCKED], check=True, timeout=120)


def test_dump_in_one_process_is_not_advised_to_use_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_process(), "_inheriting", True, raising=False)
    for nj, end in (1, "if __name__ == '__main__'$"), (2, "compute in this process with --nj=1$"):
        with pytest.raises(DumpError, match=end):
            workers.refuse_start_in_worker(Job(Layout.from_paths(tmp_path, "fbank"), DumpOptions(nj=nj)))


SCRIPT = """
import kaldi_compat

f = lambda audio: [samples[:3] for samples in audio]
{call}
"""


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            "kaldi_compat.dump('data/train', 'wenet', nj=2)",
            "each worker process imports the main module, which starts a dump: put the call under "
            "if __name__ == '__main__', or compute in this process with nj=1\n",
        ),
        (
            "if __name__ == '__main__': kaldi_compat.dump('data/train', f, nj=2, name='first')",
            "DumpError: first cannot be sent to worker processes (PicklingError: ",
        ),
        (
            "from multiprocessing import Pool\n"
            "if __name__ == '__main__': Pool(1).apply(kaldi_compat.dump, ('data/train', 'fbank'), {'nj': 2})",
            "DumpError: a daemonic process, such as a worker of multiprocessing.Pool, cannot start worker processes: ",
        ),
    ],
)
def test_script_that_workers_cannot_run_is_told_how_to_change(tmp_path: Path, call: str, error: str) -> None:
    module_data(tmp_path, 4)
    (tmp_path / "script.py").write_text(SCRIPT.format(call=call))
    run = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1 and error in run.stderr, run.stderr
    assert "has locked" not in run.stderr
    last = run.stderr.splitlines()[-1]
    assert "with status 1: see the messages above" in last or last.endswith("in this process with nj=1"), last
