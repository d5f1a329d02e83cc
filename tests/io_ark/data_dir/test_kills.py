"""Jobs on data directories that end early, by signals or by errors of the system: whole before or whole after."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from io_ark import DataDir, DataDirError
from io_ark.data_dir import directories, scripts, stage
from io_ark.data_dir.scripts import Ended, run_data_command
from io_ark.data_dir.stage import Printer, Stage, lock_directories

pytestmark = pytest.mark.sweep

CODE = "import sys; from io_ark.data_dir.scripts import run_data_command; sys.exit(run_data_command(sys.argv[1:]))"
KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, 128 + signal.SIGTERM, 128 + signal.SIGHUP)


def directory(folder: Path, count: int) -> None:
    """Make a directory that is not sorted."""
    folder.mkdir(parents=True)
    keys = [f"s{at % 50:02d}-{at:05d}" for at in random.Random(1).sample(range(count), count)]
    for name, value in (
        ("utt2spk", ""),
        ("text", "x y"),
        ("wav.scp", "a.wav"),
        ("utt2dur", "1.5"),
        ("reco2dur", "1.5"),
    ):
        (folder / name).write_text("".join(f"{key} {value or key[:3]}\n" for key in keys))


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, without temporary ones, and empty folders."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.endswith(".tmp"):
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.name.endswith(".tmp") or "passing" in path.name)


# Which folders a job writes at once; those of the others are written by several jobs after each other.
WHOLE = {
    "fix data": "data",
    "split data 3": "data",
    "copy sorted out --utt-prefix=s --spk-prefix=s": "out",
    "combine --skip-fix out sorted sorted": "out",
    "subset sorted 1000 out": "out",
    "modify-speakers sorted out --utts-per-spk-max 3": "out",
    "perturb-volume sorted": "sorted",
    "install utils": "utils",
    "remove-repetitions 900 sorted out": "",  # the directory, and then what fix does to it
    "perturb-speed-3way sorted out": "",
}


def started(place: Path, job: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CODE, *job.split()], cwd=place, stdout=-3, stderr=-1)


@pytest.mark.parametrize(("kills", "count"), [(8, 2000), pytest.param(100, 20_000, marks=pytest.mark.slow)])
def test_killed_job_leaves_a_mixed_directory_or_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int, count: int
) -> None:
    """What a killed job leaves is what was there or what it makes; after the next one nothing is left over."""
    (tmp_path / "sox").write_text("")
    (tmp_path / "sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    start = tmp_path / "start"
    directory(start / "data", count)
    shutil.copytree(start / "data", start / "sorted")
    DataDir(start / "sorted").fix()
    directory(start / "out", 10)  # an older one
    (start / "out/segments").write_text("old x 0 1\n")
    chance, done = random.Random(count), 0
    states: dict[str, tuple[list[dict[str, bytes]], float]] = {}

    def place_for(name: str) -> Path:
        monkeypatch.chdir(tmp_path)
        shutil.copytree(start, tmp_path / name)
        monkeypatch.chdir(tmp_path / name)
        return tmp_path / name

    for attempt in range(3 * kills):
        job = list(WHOLE)[attempt % len(WHOLE)]
        if job not in states:
            place, began = place_for(f"whole{len(states)}"), time.monotonic()
            made = [tree(place)]
            assert started(place, job).wait() == 0
            made.append(tree(place))
            states[job] = made, time.monotonic() - began
            assert run_data_command(job.split()) == 0
            made.append(tree(place))
        made, seconds = states[job]
        place = place_for(f"killed{attempt}")
        process = started(place, job)
        time.sleep(chance.uniform(0.3, 1.0) * seconds)
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]))
        error = process.communicate()[1].decode()
        if process.returncode in KILLED:
            done += 1
            assert "Traceback" not in error or process.returncode < 0, error
            left = leftovers(place)
            if WHOLE[job] and not any(name.startswith(".changes.") for name in left):
                now = within(tree(place), WHOLE[job])
                assert now in [within(each, WHOLE[job]) for each in made[:2]], (job, process.returncode)
            assert process.returncode < 0 or not left, (job, process.returncode, left)
        assert run_data_command(job.split()) == 0
        assert tree(place) in made[1:] and not leftovers(place), (job, process.returncode, leftovers(place))
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)
        if done == kills:
            break
    assert done >= kills // 2


def within(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name.startswith(f"{folder}/")}


def ended_at(number: int, work: Callable[[], object]) -> bool:
    """Do something in another process, which ends at a certain rename or removal; return True if it did."""
    child = os.fork()
    if not child:
        left = [number]

        def counting(call: Callable[..., None]) -> Callable[..., None]:
            def counted(*arguments: Any) -> None:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)
                call(*arguments)

            return counted

        stage.os.replace, stage.os.unlink = counting(os.replace), counting(os.unlink)  # type: ignore[assignment]
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("job", ["copy data out", "split data 2", "combine out data other", "modify-speakers data out"])
def test_job_that_ends_within_its_change_leaves_a_mixed_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, job: str
) -> None:
    (tmp_path / "start").mkdir()
    monkeypatch.chdir(tmp_path / "start")
    job += " --skip-fix" if "combine" in job else " --utts-per-spk-max=1" if "modify" in job else ""
    for at, name in enumerate(("data", "other", "out")):
        directory(Path(name), 3 + at)
        DataDir(name).fix()
    for name in ("text", "spk2warp", "split2/1/utt2spk"):
        Path("out", name).parent.mkdir(parents=True, exist_ok=True)
        Path("out", name).write_text("old\n")
    DataDir("data").split(2)
    for name in ("text", "utt2dur", "wav.scp"):
        Path("data", name).write_text(Path("data", name).read_text().replace("\n", "1\n"))
        os.utime(Path("data", name), (2e9, 2e9))
    Path("data/split2/1/segments").write_text("old\n")
    shutil.copytree(tmp_path / "start", tmp_path / "whole")
    monkeypatch.chdir(tmp_path / "whole")
    before, folder = tree(Path()), "data" if "split" in job else "out"
    assert run_data_command(job.split()) == 0
    after, unfinished = tree(Path()), 0
    for number in range(100):
        shutil.copytree(tmp_path / "start", tmp_path / str(number))
        monkeypatch.chdir(tmp_path / str(number))
        was_ended = ended_at(number, lambda: run_data_command(job.split()))
        capsys.readouterr()
        mixed = tree(Path())
        if any(name.startswith(".changes.") for name in leftovers(Path())):
            unfinished += mixed not in (before, after)
            with pytest.raises(DataDirError, match=f"{folder}: a job was ended while it changed this directory"):
                DataDir(folder).copy("third")
            with lock_directories(folder):
                pass
            assert capsys.readouterr().err.endswith(f"{folder}: finished the change of a job that was ended\n")
            assert tree(Path()) == after
        else:
            assert mixed in (before, after)
        assert run_data_command(job.split()) == 0
        assert tree(Path()) == after and not leftovers(Path())
        if not was_ended:
            break
    assert unfinished >= 3 and number < 99


def test_split_finishes_a_split_that_ended_after_its_first_part(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    directory(folder, 6)
    DataDir(folder).fix()
    unfinished = 0
    for number in range(100):
        shutil.rmtree(folder / "split3", ignore_errors=True)
        was_ended = ended_at(number, lambda: DataDir(folder).split(3))
        unfinished += (folder / "split3/1/wav.scp").exists() and not (folder / "split3/3/wav.scp").exists()
        DataDir(folder).split(3)
        assert len(list(folder.glob("split3/*/wav.scp"))) == 3 and not leftovers(folder), number
        if not was_ended:
            break
    assert unfinished and number < 99


@pytest.mark.parametrize("names", [("text", "wav.scp"), ("a%2Fb", "a%b"), ("split2/1/text", "text")])
def test_change_of_two_files_that_ends_early_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, str]
) -> None:
    unfinished = 0
    for number in range(10):
        folder = tmp_path / str(number)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("old\n")

        def work(folder: Path = folder) -> None:
            with Stage(str(folder), Printer("x")) as changed:
                for name in names:
                    changed.write(name, [b"new\n"])

        was_ended = ended_at(number, work)
        unfinished += len({(folder / name).read_text() for name in names}) == 2
        with lock_directories(str(folder)):
            pass
        assert len({(folder / name).read_text() for name in names}) == 1, number
        assert not leftovers(folder) and "is ignored" not in capsys.readouterr().err
        if not was_ended:
            break
    assert unfinished and number < 9


@pytest.mark.parametrize("as_script", [True, False])
@pytest.mark.parametrize("partly", [True, False])
def test_files_before_an_error_stay_only_as_a_script_leaves_them(tmp_path: Path, as_script: bool, partly: bool) -> None:
    with pytest.raises(DataDirError), Stage(str(tmp_path), Printer("x", as_script=as_script)) as changed:
        changed.write("a", [b"new\n"])
        raise DataDirError("bad", partly=partly)
    assert [path.name for path in tmp_path.iterdir()] == (["a"] if as_script and partly else [])


@pytest.mark.parametrize("place", [0, stage.BUFFER_BYTES - 1, stage.BUFFER_BYTES, 2 * stage.BUFFER_BYTES])
def test_large_file_with_one_other_byte_is_replaced(tmp_path: Path, place: int) -> None:
    content = bytearray(b"x" * (2 * stage.BUFFER_BYTES + 1))
    (tmp_path / "a").write_bytes(content)
    os.utime(tmp_path / "a", (1e9, 1e9))
    with Stage(str(tmp_path), Printer("x")) as changed:
        changed.write("a", [bytes(content)])
    assert (tmp_path / "a").stat().st_mtime == 1e9
    content[place] = 0
    with Stage(str(tmp_path), Printer("x")) as changed:
        changed.write("a", [bytes(content)])
    assert (tmp_path / "a").read_bytes() == content


def test_signal_interrupts_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path / "data", 5)
    apply_renames = stage.apply_renames

    def with_signal(folder: str, renames: Any, **more: str) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) if renames else ():
            os.kill(os.getpid(), number)
        apply_renames(folder, renames, **more)

    monkeypatch.setattr(stage, "apply_renames", with_signal)
    with (
        pytest.raises(KeyboardInterrupt),
        scripts.raise_ended_at_signals(),
        Stage(str(tmp_path), Printer("x")) as changed,
    ):
        for name in ("a", "b"):
            changed.write(name, [b"new\n"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "data"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_temporary_files(tmp_path: Path, number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Ended), scripts.raise_ended_at_signals(), Stage(str(tmp_path / "new"), Printer("x")) as changed:
        changed.write("a", [b"new\n"])
        os.kill(os.getpid(), number)
    assert list(tmp_path.iterdir()) == [] and signal.getsignal(number) is before
    assert scripts.run_protected(Printer("x"), lambda: os.kill(os.getpid(), number) or 0) == 128 + number


def test_second_signal_is_not_delayed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Ended), scripts.raise_ended_at_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with scripts.raise_ended_at_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


SOURCES: dict[str, tuple[Callable[[DataDir, Path], object], bool]] = {
    "combine": (lambda data, out: DataDir.combine(out, data), True),
    "perturb_speed": (lambda data, out: data.perturb_speed(out, 0.9), True),
    "divide_speakers": (
        lambda data, out: directories.divide_speakers(Printer("x"), data.path, str(out), utts_per_spk_max=1), True,
    ),
    "copy": (lambda data, out: data.copy(out), False),
    "subset": (lambda data, out: data.subset(out, 1), False),
    "remove_repetitions": (
        lambda data, out: directories.remove_repetitions(Printer("x"), "2", data.path, str(out)), False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_source_of_a_job_is_locked_for_what_the_job_does_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    directory(tmp_path / "data", 3)
    data, (job, is_changed) = DataDir(tmp_path / "data").fix(), SOURCES[name]
    modes, commit = [], Stage.commit

    def try_locks(self: Stage) -> None:
        if self.folder.endswith("out"):
            descriptor = os.open(data.path, os.O_RDONLY)
            for mode in fcntl.LOCK_SH, fcntl.LOCK_EX:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
                    modes.append(mode)
            os.close(descriptor)
        commit(self)

    monkeypatch.setattr(Stage, "commit", try_locks)
    job(data, tmp_path / "out")
    assert modes == ([] if is_changed else [fcntl.LOCK_SH])


def test_command_of_audio_is_waited_for_after_a_signal(tmp_path: Path) -> None:
    directory(tmp_path / "data", 1)
    for name in ("utt2dur", "reco2dur"):
        (tmp_path / "data" / name).unlink()
    key = (tmp_path / "data/utt2spk").read_text().split()[0]
    (tmp_path / "data/wav.scp").write_text(f"{key} touch begun; sleep 30; cat none |\n")
    job = started(tmp_path, "utt2dur data")
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    began = time.monotonic()
    job.terminate()
    assert job.wait(20) == 128 + signal.SIGTERM and time.monotonic() - began < 10
    assert not leftovers(tmp_path)


NAMES = {
    "text.{ours}.1.1": True,
    "split2%2F1%2Ftext.{ours}.1.1": True,
    "text.{ours}.{us}.1": True,
    "text.0000000a.1.1": False,  # of another machine
    "text.1.1": False,  # of another program
    "text": False,
    "text.{ours}.1.x": False,
    "text.0000000A.1.1": False,
}
FOREIGN = ("text.1.1", "text", "text.{ours}.1.x", "text.0000000A.1.1")


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("has_locks", [True, False])
def test_temporary_files_of_a_job_that_may_run_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, has_locks: bool, is_old: bool
) -> None:
    directory(tmp_path / "data", 2)
    paths = {}
    for name, is_over in NAMES.items():
        path = tmp_path / "data" / f".{name.format(ours=stage._MACHINE, us=os.getpid())}.tmp"
        path.write_text("x")
        os.utime(path, (time.time() - (stage._ABANDONED_SECONDS + 60) * is_old,) * 2)
        paths[path] = (is_over and has_locks) or (is_old and name not in FOREIGN)
    (tmp_path / "data" / f".linked.{stage._MACHINE}.1.1.tmp").symlink_to("utt2spk")
    (tmp_path / "data" / f".folder.{stage._MACHINE}.1.1.tmp").mkdir()
    if not has_locks:

        def fails(*_: object) -> None:
            raise OSError

        monkeypatch.setattr(stage.fcntl, "flock", fails)
    DataDir(tmp_path / "data").fix()
    assert [path.exists() for path in paths] == [not is_over for is_over in paths.values()]
    assert len(leftovers(tmp_path)) == 2 + list(paths.values()).count(False)
    count = list(paths.values()).count(True)
    assert capsys.readouterr().err == (
        f"{tmp_path / 'data'}: removed {count} temporary files of a job that was ended\n" if count else ""
    )


def test_temporary_files_are_removed_while_their_job_runs(tmp_path: Path) -> None:
    directory(tmp_path / "data", 2)
    with Stage(str(tmp_path / "data"), Printer("x")) as outer:
        outer.write("a", [b"x\n"])
        DataDir(tmp_path / "data").fix()
        with lock_directories(str(tmp_path / "data")):
            assert Path(outer.find("a")).read_bytes() == b"x\n"
    assert (tmp_path / "data/a").read_bytes() == b"x\n"


@pytest.mark.parametrize(
    "names",
    [
        ["text", "../text"],
        ["/etc/x", "text"],
        ["link/text", ""],
        ["../other", ""],
        ["a//b", "text"],
        ["./x", "text"],
        ["x", ""],
        ["a", "a2"],
        ["text", "x"],
        ["text", "", "x", ""],
        ["text"],
        ["text", "", "utt2dur"],
        [f".text.{stage._MACHINE}.1.2.tmp", "utt2spk"],
        [".backup/text", ""],
        ["text", ".backup/text"],
        ["split2/1/text", ""],
        [f".split2%2F1%2Ftext.{stage._MACHINE}.1.2.tmp", "split2/1/text"],
        [f".text.{stage._MACHINE}.2.2.tmp", "text"],
    ],
)
def test_list_of_changes_leads_out_of_the_directory(tmp_path: Path, names: list[str], capsys: Any) -> None:
    directory(tmp_path / "data", 2)
    directory(tmp_path / "other", 2)
    for name in ("a", "a/b"):
        (tmp_path / "data/a").mkdir(exist_ok=True) if name == "a" else (tmp_path / "data" / name).write_text("x\n")
    (tmp_path / "data/x").write_text("x\n")
    (tmp_path / "data/link").symlink_to("../other")
    (tmp_path / "data/.backup").symlink_to("../other")
    (tmp_path / "data/split2").mkdir()
    (tmp_path / "data/split2/1").symlink_to("../../other")
    if names[0].endswith(".1.2.tmp"):
        (tmp_path / "data" / names[0]).write_text("new\n")
    before = tree(tmp_path)
    changes = tmp_path / "data" / f".changes.{stage._MACHINE}.1.1.tmp"
    changes.write_text("\0".join(names))
    for _ in range(2):
        with lock_directories(str(tmp_path / "data")):
            assert tree(tmp_path) == before
    assert changes.exists()
    error = capsys.readouterr().err
    assert (
        error.startswith(f"{changes}: this list of changes is ignored, because the list is invalid")
        and error.count("\n") == 1
    )


@pytest.mark.parametrize(("change", "mode"), [(True, fcntl.LOCK_SH), (False, fcntl.LOCK_EX)])
def test_directory_is_read_while_it_changes(tmp_path: Path, change: bool, mode: int) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "link").symlink_to(".")
    names = str(tmp_path / "none"), f"{tmp_path}/link/", str(tmp_path)
    with lock_directories(*names, may_change=change, read_folders=names):
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        if not change:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


@pytest.mark.parametrize("changes", [True, False])
def test_source_changes_or_is_locked_while_it_is_only_read(tmp_path: Path, changes: bool) -> None:
    directory(tmp_path / "data", 2)
    descriptor = os.open(tmp_path / "data", os.O_RDONLY)
    with Stage(str(tmp_path / "out"), Printer("x"), sources=[str(tmp_path / "data")], changes_sources=changes):
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if changes:
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(descriptor)


def test_signal_that_is_ignored_ends_a_script(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with scripts.raise_ended_at_signals(), Stage(str(tmp_path), Printer("x")) as changed:
            changed.write("a", [b"new\n"])
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and (tmp_path / "a").exists()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("machine", ["deadbeef", stage._MACHINE])
def test_list_of_changes_of_another_machine_is_carried_out(tmp_path: Path, capsys: Any, machine: str) -> None:
    directory(tmp_path / "data", 2)
    names = {"changes": "utt2dur\0\0.text.MACHINE.1.2.tmp\0text".replace("MACHINE", machine), "text": "new\n"}
    for number, (name, text) in enumerate(names.items(), 1):
        path = tmp_path / "data" / f".{name}.{machine}.1.{number}.tmp"
        path.write_text(text)
        if machine == "deadbeef":
            os.utime(path, (1e9, 1e9))
    if machine == "deadbeef":
        with lock_directories(str(tmp_path / "data")):
            pass
        assert (tmp_path / "data/utt2dur").exists() and len(leftovers(tmp_path)) == 2
        assert f"/.changes.{machine}.1.1.tmp: this list of changes is ignored" in capsys.readouterr().err
    else:
        (tmp_path / f"data/.changes.{machine}.1.1.tmp").write_text(names["changes"])
        with lock_directories(str(tmp_path / "data")):
            pass
        assert (tmp_path / "data/text").read_text() == "new\n" and not (tmp_path / "data/utt2dur").exists()
        assert not leftovers(tmp_path)


@pytest.mark.parametrize("moved", [".backup/utt2dur", "", "utt2lang", ".backup/text"])
def test_ended_change_moves_a_file_aside_only_to_its_place_in_the_backup(tmp_path: Path, moved: str) -> None:
    data = tmp_path / "data"
    directory(data, 2)
    (data / ".backup").mkdir(exist_ok=True)
    before, text = (data / "utt2dur").read_text(), (data / "text").read_text()
    (data / f".text.{stage._MACHINE}.1.2.tmp").write_text("new\n")
    names = f"utt2dur\0{moved}\0.text.{stage._MACHINE}.1.2.tmp\0text"
    (data / f".changes.{stage._MACHINE}.1.1.tmp").write_text(names)
    with lock_directories(str(data)):
        pass
    is_ours = moved in (".backup/utt2dur", "")
    assert (data / "text").read_text() == ("new\n" if is_ours else text)
    assert (data / "utt2dur").exists() != is_ours and not (data / "utt2lang").exists()
    if moved == ".backup/utt2dur":
        assert (data / moved).read_text() == before and not leftovers(tmp_path)


def test_file_that_is_newer_than_an_ended_change_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    older = 0
    for number in range(20):
        directory(Path(str(number)), 3)
        for name in ("feats.scp", "kept.scp"):
            Path(str(number), name).write_text("old\n")
        os.utime(Path(str(number), "feats.scp"), (2e9, 2e9))
        was_ended = ended_at(number, lambda at=number: run_data_command(["perturb-volume", str(at)]))
        if is_left := any(name.startswith(".changes.") for name in leftovers(Path(str(number)))):
            time.sleep(0.02)
            os.replace(Path(str(number), "kept.scp"), Path(str(number), "feats.scp"))  # keeps its time
        capsys.readouterr()
        with lock_directories(str(number)):
            pass
        if is_left:
            older += 1
            assert Path(str(number), "feats.scp").read_text() == "old\n"
            assert "sox --vol" in Path(str(number), "wav.scp").read_text()
            end = "but did not replace files that were written since: feats.scp\n"
            assert capsys.readouterr().err.endswith(f"/{number}: finished the change of a job that was ended, {end}")
            assert not leftovers(Path(str(number)))
        if not was_ended:
            break
    assert older >= 3


def test_change_that_the_system_refuses_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    directory(tmp_path / "data", 3)
    data = tmp_path / "data"
    replace = os.replace

    def refuses(old: str, new: str) -> None:
        if new.endswith("/b"):
            raise PermissionError(13, "Permission denied")
        replace(old, new)

    monkeypatch.setattr(stage.os, "replace", refuses)
    for _ in range(2):  # the job, and the next one
        text = "b: cannot be written: Permission denied: only a part of the change was made"
        with pytest.raises(DataDirError, match=text), Stage(str(data), Printer("x")) as changed:
            for name in ("a", "b", "c"):
                changed.write(name, [b"new\n"])
        assert (data / "a").exists() and not (data / "b").exists()
    monkeypatch.undo()
    with lock_directories(str(data)):
        assert all((data / name).read_bytes() == b"new\n" for name in ("a", "b", "c")) and not leftovers(data)
    assert capsys.readouterr().err == f"{data}: finished the change of a job that was ended\n"


def test_folder_that_cannot_be_written_leaves_half_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path / "data", 3)
    (tmp_path / "data/.backup").mkdir()
    before = tree(tmp_path)
    monkeypatch.setattr(stage.os, "access", lambda path, mode: not path.endswith(".backup"))
    text = r"data/\.backup: cannot be written: nothing was changed"
    with pytest.raises(DataDirError, match=text), Stage(str(tmp_path / "data"), Printer("x")) as changed:
        changed.write("text", [b"new\n"])
        changed.move_to_backup("utt2dur")
    assert tree(tmp_path) == before and not leftovers(tmp_path)


PROGRAM = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"


def test_interrupt_leaves_temporary_files_of_the_program(tmp_path: Path) -> None:
    directory(tmp_path / "data", 1)
    for name in ("utt2dur", "reco2dur"):
        (tmp_path / "data" / name).unlink()
    key = (tmp_path / "data/utt2spk").read_text().split()[0]
    (tmp_path / "data/wav.scp").write_text(f"{key} touch begun; sleep 30; cat none |\n")
    words = ["data", "modify-speakers", "data", "out", "--seconds-per-spk-max=2"]
    with (tmp_path / "errors").open("wb") as errors:
        job = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], cwd=tmp_path, stdout=-3, stderr=errors)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    assert job.wait(20) == -signal.SIGINT and (tmp_path / "errors").read_text() == ""
    assert not leftovers(tmp_path) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["info", "fix", "validate"])
@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-"])
def test_closed_stream_ends_with_a_traceback(tmp_path: Path, command: str, streams: str) -> None:
    directory(tmp_path / "data", 1)
    before = tree(tmp_path)
    shell = f'"$0" -c "$1" data {command} data {streams}'
    done = subprocess.run(["sh", "-c", shell, sys.executable, PROGRAM], cwd=tmp_path, stderr=-1)
    said = f"kaldi-compat data {command}: standard output cannot be written to: it is closed\n".encode()
    assert (done.returncode, done.stderr) == (1, b"" if "2" in streams else said)
    assert tree(tmp_path) == before


def test_jobs_on_nested_directories_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sox").write_text("")
    (tmp_path / "sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    directory(tmp_path / "P", 3)
    shutil.copytree(tmp_path / "P", tmp_path / "sub")
    shutil.move(tmp_path / "sub", tmp_path / "P/sub")
    begun, go = tmp_path / "begun", tmp_path / "go"
    wait = "import sys, time, pathlib; from io_ark.data_dir import perturb; make = perturb._make_and_combine_speeds\n"
    wait += "def late(*given, **more):\n"
    wait += f"    pathlib.Path({str(begun)!r} + sys.argv[-1].replace('/', '_')).touch()\n"
    wait += f"    while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n"
    wait += "    make(*given, **more)\n"
    wait += "perturb._make_and_combine_speeds = late\n" + CODE
    jobs = [["P", "P/sub/t"], ["P/sub", "P/t"], ["P", "P/sub/t"]]
    running = [
        subprocess.Popen([sys.executable, "-c", wait, "perturb-speed-3way", *words], cwd=tmp_path, stdout=-3, stderr=-1)
        for words in jobs
    ]
    try:
        while not list(tmp_path.glob("begun*")):
            time.sleep(0.01)
        time.sleep(1)  # the others begin, too, or wait
        go.touch()
        errors = [job.communicate(timeout=60)[1].decode() for job in running]
    finally:
        for job in running:
            job.kill()
    assert [job.returncode for job in running] == [0, 0, 0], errors
    assert not leftovers(tmp_path) and not list(tmp_path.rglob("*_speed*"))


def half_changed(folder: Path) -> None:
    """Make a directory in which a job was ended between two renames."""
    directory(folder, 3)
    new = folder / f".text.{stage._MACHINE}.99999.1.tmp"
    new.write_text((folder / "text").read_text().replace("x y", "new"))
    (folder / f".changes.{stage._MACHINE}.99999.2.tmp").write_bytes(f"{new.name}\0text".encode())


READERS: dict[str, Callable[[DataDir], object]] = {
    "validate": lambda data: data.validate(spk_sort=False),
    "utterances": DataDir.utterances,
    "text": lambda data: data.text,
    "counts": DataDir.counts,
    "hours": DataDir.hours,
    "repr": repr,
}


@pytest.mark.parametrize("name", READERS)
def test_half_of_a_change_is_read(tmp_path: Path, name: str) -> None:
    half_changed(tmp_path / "data")
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    (tmp_path / "data").chmod(0o555)
    with pytest.raises(
        DataDirError, match="a job was ended while it changed this directory: run kaldi-compat data fix"
    ):
        READERS[name](DataDir(tmp_path / "data"))
    (tmp_path / "data").chmod(0o755)
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before


def test_directory_is_read_while_a_change_is_carried_out(tmp_path: Path) -> None:
    half_changed(tmp_path / "data")
    child = os.fork()
    if not child:
        with lock_directories(str(tmp_path / "data")):  # finishes the change
            pass
        os._exit(0)
    os.waitpid(child, 0)
    assert set(DataDir(tmp_path / "data").text.values()) == {"new"}


@pytest.mark.parametrize("is_failing", [True, False])
def test_target_that_another_job_removed_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    """The second job waits for a directory that the first one made, and removes after an error."""
    target = tmp_path / "new" / "out"
    go = tmp_path / "go"
    second = f"""
import pathlib
from io_ark.data_dir.stage import Printer, Stage
pathlib.Path({str(go)!r}).touch()
with Stage({str(target)!r}, Printer("x")) as stage:
    stage.write("text", [b"second\\n"])
"""
    with pytest.raises(KeyError) if is_failing else contextlib.nullcontext(), Stage(str(target), Printer("x")) as first:
        first.write("text", [b"first\n"])
        job = subprocess.Popen([sys.executable, "-c", second], stderr=-1)
        while not go.exists():
            time.sleep(0.01)
        time.sleep(0.3)
        if is_failing:
            raise KeyError
    assert job.communicate(timeout=60)[1] == b"" and job.returncode == 0
    assert (target / "text").read_text() == "second\n" and os.listdir(target) == ["text"]


@pytest.mark.parametrize("job", ["perturb-speed 0.9 data out_speed0.9", "combine out data"])
def test_jobs_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    """A job has some of the directories of speeds and their source, and waits for the others, as does a second job."""
    (tmp_path / "sox").write_text("")
    (tmp_path / "sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    directory(tmp_path / "data", 3)
    DataDir(tmp_path / "data").fix()
    first = "import fcntl, os, subprocess, sys, time; from io_ark.data_dir import perturb\n"
    first += "make = perturb._make_and_combine_speeds\n"
    first += "def late(*given, **more):\n"
    first += f"    other = subprocess.Popen([sys.executable, '-c', {CODE!r}, *{job.split()!r}], stdout=-3)\n"
    first += "    source = os.open('data', os.O_RDONLY)\n"
    first += "    try:\n"
    first += "        while True:\n"  # until one of the two jobs has locked the source
    first += "            fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    first += "            fcntl.flock(source, fcntl.LOCK_UN)\n"
    first += "            time.sleep(0.01)\n"
    first += "    except OSError:\n"
    first += "        time.sleep(0.5)\n"
    first += "    make(*given, **more)\n"
    first += "    late.other = other\n"
    first += "perturb._make_and_combine_speeds = late\n" + CODE.replace("sys.exit(", "status = (") + "\n"
    first += "late.other.wait(); sys.exit(status)"
    command = [sys.executable, "-c", first, "perturb-speed-3way", "data", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=-3, stderr=-1, start_new_session=True)
    try:
        error = process.communicate(timeout=60)[1].decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, error
    assert not leftovers(tmp_path)


def test_job_that_ends_while_it_removes_its_directories_is_refused_later(tmp_path: Path) -> None:
    """A kill before each removal leaves a directory that the next job knows as its own."""
    folder = tmp_path / "out_speed0.9"

    def make(ends_at: int) -> None:
        def end(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal ends_at
            if event in ("os.remove", "os.rmdir") and str(arguments[0]).startswith(str(folder)):
                ends_at -= 1
                if not ends_at:
                    os._exit(3)

        with stage.make_temporary_directories(str(folder)):
            (folder / ".backup").mkdir()
            for name in ("text", ".backup/text"):
                (folder / name).touch()
            sys.addaudithook(end)
        os._exit(0)

    for ends_at in range(1, 10):
        if not (child := os.fork()):
            make(ends_at)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with stage.make_temporary_directories(str(folder)):
            pass
        assert not folder.exists()
        if status == 0:
            break
    assert (status, ends_at) == (0, 7)
