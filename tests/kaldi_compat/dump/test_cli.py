"""The dump's command line: defaults, the feature's own options, messages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaldi_compat.dump import cli as command
from kaldi_compat.dump import entry_point
from kaldi_compat.dump.errors import group_by_reason, remove_key
from kaldi_compat.dump.finalize import Outcome
from kaldi_compat.dump.options import Job, Layout
from tests.kaldi_compat.dump.test_kill import MAIN
from tests.support.dump_data import (
    archive_bytes,
    audio,
    dump,
    edited,
    failures,
    keys_of,
    make_data,
    matrices,
    said_by,
    write_wav,
)
from tests.support.processes import output_of
from tests.support.resources import list_resources, wait_for_release


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path, 4, samples=(4000,))


def run(*arguments: str) -> int:
    return command.main(["dump", "--nj=1", *arguments])


POSTPONED = """
import os, signal, threading, time
from kaldi_compat.dump.cli import Deadline, install_signal_handlers
from kaldi_compat.dump.workers import postpone_interrupts
install_signal_handlers(Deadline(9, print))
if {has_thread}:  # that receives the signal, as one of BLAS does
    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
time.sleep(0.1)
with postpone_interrupts():
    pass  # leaves the handler as it was
try:
    with postpone_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        print(sum(range(10**6)))  # as long as a worker's start
except KeyboardInterrupt:
    print("interrupted")
print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


@pytest.mark.parametrize("has_thread", [False, True])
def test_an_interrupt_waits_until_a_worker_has_started(has_thread: bool) -> None:
    assert output_of(POSTPONED.format(has_thread=has_thread)).split() == ["499999500000", "interrupted", "False"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the list of open files")
@pytest.mark.parametrize("is_started", [True, False])
def test_deadline_leaves_no_open_file_and_calls_nothing_after_its_end(is_started: bool) -> None:
    before, calls = list_resources(), list[str]()
    deadline = command.Deadline(60, lambda: calls.append("called"))
    if is_started:
        deadline.start()
    deadline.cancel()
    assert not wait_for_release(before) and not calls


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the list of open files")
def test_job_leaves_no_thread_and_no_open_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = list_resources()
    assert command.main(["dump", "fbank", str(tmp_path / "nowhere")]) == 255
    assert not wait_for_release(before)
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "status", "handler", "arguments"),
    [
        (["data", "fix", "d"], 3, signal.default_int_handler, ["fix", "d"]),
        (["data"], 130, signal.default_int_handler, []),
        (["frontend", "a"], 4, entry_point._end, None),
        (["conform"], 5, entry_point._end, None),
        (["dump", "fbank"], 6, entry_point._end, None),
        ([], 6, entry_point._end, None),
    ],
)
@pytest.mark.parametrize("is_ignored", [False, True])
def test_entry_point_runs_the_command_that_is_named(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], status: int, handler: Any, arguments: Any, is_ignored: bool
) -> None:
    calls: list[Any] = []

    def run(*received: Any) -> int:
        calls.append((*received, signal.getsignal(signal.SIGINT)))
        return status

    before = signal.signal(signal.SIGINT, signal.SIG_IGN if is_ignored else signal.default_int_handler)
    ended: list[int] = []
    monkeypatch.setattr(sys, "argv", ["kaldi-compat", *argv])
    place = {"data": "io_ark.data_dir.scripts.run_data_command", "frontend": "kaldi_compat.cli.frontends.main"}
    if argv == ["conform"]:
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [SimpleNamespace(load=lambda: run)])
    else:
        monkeypatch.setattr(place.get("".join(argv[:1]), "kaldi_compat.dump.cli.main"), run)
    monkeypatch.setattr("kaldi_compat.cli.program.end_process", lambda code: ended.append(code) or code)
    try:
        assert entry_point.main() == status
    finally:
        signal.signal(signal.SIGINT, before)
    received = [] if arguments is None else [arguments]
    assert calls == [(*received, signal.SIG_IGN if is_ignored else handler)]
    assert ended == [status] * (status in (4, 5, 130))


def test_command_of_a_package_that_is_not_installed_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group, name: [])
    for name in ("conform", "explain"):
        assert entry_point._run_command_of_package(name) == 2
        assert capsys.readouterr().err.startswith(
            f"kaldi-compat: {name} is a command of kaldi-explain, which is not installed: install it with pip "
        )


def test_deadline_calls_its_function_once_it_has_passed() -> None:
    is_called = threading.Event()
    deadline = command.Deadline(0.01, is_called.set)
    assert not is_called.wait(0.1)
    deadline.start()
    assert is_called.wait(10)
    deadline.cancel()


def test_end_at_once_does_not_need_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal or the reader of a pipe may have ended before."""
    ended: list[object] = []

    def fail(number: int, text: bytes) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(os, "write", fail)
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(command.COMMANDS, "end", lambda: ended.append("commands"))
    command.end_at_once()
    assert ended == ["commands", 130]


def test_without_a_conf_kaldis_defaults_hold(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "fbank.conf").write_text("")
    assert run("fbank", str(data)) == 0
    expected = archive_bytes(data)
    (tmp_path / "conf" / "fbank.conf").unlink()
    assert run("fbank", str(data)) == 0
    assert "no conf/fbank.conf in the working directory, so Kaldi's defaults are used" in capsys.readouterr().err
    assert archive_bytes(data) == expected
    assert (data / "conf" / "fbank.conf").exists() and (data / "frame_shift").read_text() == "0.01\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--num-mel-bins=30", "--frame-shift=12.5"],
        ["--num-mel-bins", "30", "--frame-shift", "12.5"],
        ["--num_mel_bins=30", "--FRAME-SHIFT=12.5"],
    ],
)
def test_options_of_the_feature_win_over_its_conf(data: Path, tmp_path: Path, arguments: list[str]) -> None:
    conf = tmp_path / "conf" / "fbank.conf"
    conf.write_text("--num-mel-bins=23\n--dither=0\n--frame-shift=10\n")
    assert run("fbank", arguments[0], *arguments[1:], str(data), f"--conf={conf}") == 0
    by_flags = matrices(data / "feats.scp")
    assert (data / "frame_shift").read_text() == "0.0125\n"
    # What later steps read the configuration from computes the same features.
    kept = data / "conf" / "fbank.conf"
    changed = tmp_path / "changed.conf"
    changed.write_bytes(kept.read_bytes())
    assert run("fbank", str(data), f"--conf={changed}") == 0
    for key, value in matrices(data / "feats.scp").items():
        assert value.shape[1] == 30 and value.tobytes() == by_flags[key].tobytes()


def test_recommended_option_is_accepted(data: Path, tmp_path: Path) -> None:
    write_wav(data / "wav" / "spk0-utt001.wav", audio(30000, 1), rate=48000)
    assert dump(data) == 1
    (flag,) = re.findall(r"--allow\S+=true", failures(data))
    assert dump(data, flag) == 0


def test_options_of_the_dump_in_other_spellings(data: Path) -> None:
    assert dump(data, "--shard_utterances=1", "--Compress=false") == 0
    assert len(list((data / "data").glob("*.ark"))) == 4
    assert b"\0BFM " in (data / "data" / "raw_fbank_train.1.ark").read_bytes()


def test_option_of_pitch(data: Path) -> None:
    assert dump(data, "--min-f0=70", feature="pitch") == 0
    assert "--min-f0=70" in (data / "conf" / "pitch.conf").read_text()


def test_conf_configures_pitch_alone(data: Path, tmp_path: Path) -> None:
    conf = tmp_path / "mine.conf"
    conf.write_text("--sample-frequency=16000\n--frame-shift=20\n")
    assert run("pitch", str(data), f"--conf={conf}") == 0
    assert (data / "conf" / "pitch.conf").read_text() == conf.read_text()
    assert float((data / "frame_shift").read_text()) == 0.02
    assert run("pitch", str(data), "--conf=none.conf") == 255


@pytest.fixture
def without_torch(tmp_path: Path) -> dict[str, str]:
    """Make an environment in which torch is not installed, for the processes that a dump starts too."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')")
    return {**os.environ, "PYTHONPATH": str(tmp_path / "packages")}


def in_environment(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAIN, "dump", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.parametrize(
    ("feature", "arguments"),
    [
        ("fbank", ["--nj=1", "--cmvn=global"]),
        ("mfcc_pitch", ["--nj=2"]),
        ("fbank", ["--nj=1", "--speeds=0.9", "--speed-dir=SPEEDS"]),
    ],
)
def test_dump_needs_no_torch(
    data: Path, tmp_path: Path, without_torch: dict[str, str], feature: str, arguments: list[str]
) -> None:
    options = [argument.replace("SPEEDS", str(tmp_path / "sp")) for argument in arguments]
    ended = in_environment(without_torch, feature, str(data), "--dither=0", *options)
    assert ended.returncode == 0, ended.stderr


def test_gpu_without_torch_names_the_package(data: Path, without_torch: dict[str, str]) -> None:
    ended = in_environment(without_torch, "fbank", str(data), "--device=cuda")
    assert ended.returncode == 255
    assert (
        "pip install torch (in a checkout: pip install '.[torch]')" in ended.stderr
        and "internal error" not in ended.stderr
    )


def test_help_needs_no_torch(without_torch: dict[str, str]) -> None:
    ended = in_environment(without_torch, "--help")
    assert ended.returncode == 0 and "--max-duration" in ended.stdout


def failing(data: Path) -> list[str]:
    """Give three utterances the same fault and a fourth another one; return their keys."""
    keys = keys_of(data / "wav.scp")
    with edited(data / "wav.scp") as places:
        places |= {key: f"{data}/none/{key}.wav" for key in keys[:3]}
        places[keys[3]] = f"echo {'x' * 100_000} >/dev/null; exit 3 |"
    return keys


def test_failures_are_counted_by_reason(data: Path, tmp_path: Path) -> None:
    keys = failing(data)
    report = tmp_path / "page.html"
    said = said_by(data, f"--report={report}", status=1)
    place = re.escape(f"{data}/none/{keys[0]}.wav")
    assert re.search(rf"3 utterances: {place}.*No such file or directory \(first: {keys[0]}\)", said)
    assert "relative file names" not in said
    assert re.search(rf"1 utterance: .*exit status 3.*{keys[3]}", said)
    assert "<b>3 utterances</b>" in report.read_text() and "No such file" in report.read_text()


def test_summary_says_which_directory_relative_names_start_from(data: Path) -> None:
    with edited(data / "wav.scp") as places:
        places |= dict.fromkeys(places, "wav/none.wav")
    said = said_by(data, status=1)
    assert "4 utterances: wav/none.wav: cannot be opened: No such file or directory (first: " in said
    assert f"relative file names in wav.scp are relative to the working directory, {os.getcwd()}" in said


def test_conf_that_is_read_from_the_working_directory_is_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = "the options of mfcc are read from conf/mfcc.conf in the working directory"
    assert run("mfcc_pitch", str(data), "--pitch-conf=conf/pitch.conf") == 0
    printed = capsys.readouterr().err
    assert line in printed and "options of pitch" not in printed
    assert run("mfcc_pitch", str(data), "--conf=conf/mfcc.conf") == 0
    assert line not in capsys.readouterr().err


def test_size_of_archives_that_a_plan_overrides_is_named(data: Path) -> None:
    said_by(data, "--shard-utterances=2")
    assert "has no effect" not in said_by(data, "--shard-utterances=2", "--resume")
    said = said_by(data, "--shard-utterances=3", "--resume", "--nj=2")
    assert "has no effect" not in said  # Three utterances at most also result in two archives.
    said = said_by(data, "--shard-utterances=1", "--resume")
    text = "--shard-utterances=1 has no effect on the existing plan, which has 2 archives of up to 2 utterances"
    assert text in said
    said_by(data, "--nj=1")
    assert "which has 1 archive of up to " in said_by(data, "--shard-utterances=1", "--resume", "--nj=1")


def test_long_command_is_not_echoed_whole(data: Path) -> None:
    failing(data)
    assert len(said_by(data, status=1)) < 5000
    for name in ("dump_fbank_train.failures", "dump_fbank_train.1.log"):
        assert (data / "log" / name).stat().st_size < 5000
    assert "exit status 3" in failures(data)


@pytest.mark.parametrize("conf", ["--channel=2\n", "--min-duration=100\n", "--sample-frequency=8000\n"])
def test_key_stands_once_in_a_line(data: Path, tmp_path: Path, conf: str) -> None:
    (tmp_path / "conf" / "fbank.conf").write_text(conf)
    with edited(data / "wav.scp") as places:
        for i, (key, path) in enumerate(places.items()):  # the key is not in the file's name
            os.symlink(path, data / f"{i}.wav")
            places[key] = f"{data}/{i}.wav"
    said = [line for line in said_by(data, status=1).splitlines() if "spk0-utt000" in line]
    log = (data / "log" / "dump_fbank_train.1.log").read_text().splitlines()
    failed = failures(data).splitlines()
    assert said and len(failed) == 4
    for line in [*failed, *log, *said]:
        keys = re.findall(r"spk\d-utt\d+", line)
        assert len(keys) == len(set(keys)), line


def test_control_characters_never_reach_the_terminal(data: Path, tmp_path: Path) -> None:
    bad = "\x9b31m"  # of the control characters, a key can have only those outside of ASCII
    with edited(data / "wav.scp") as places:
        places[f"{bad}key"] = f"{data}/none\x1b[2J.wav"
    (data / "utt2spk").unlink()
    said = said_by(data, status=1)
    assert "key" in said
    for text in (said, (data / "log" / "dump_fbank_train.1.log").read_text()):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@pytest.mark.parametrize(("name", "sign"), [("two\nlines", "newline"), ("two|lines", "'|'")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_directory_that_no_script_file_can_name_is_refused_at_the_start(
    data: Path, tmp_path: Path, place: int, name: str, sign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / name
    arguments = [str(data), str(tmp_path / "log"), str(tmp_path / "archives")]
    if place == 0:
        data.rename(odd)
    arguments[place] = str(odd)
    assert run("fbank", *arguments, f"--conf={tmp_path}/conf/fbank.conf") == 255
    said = capsys.readouterr().err
    assert repr(name)[1:-1] in said and sign in said and len(said.splitlines()) == 1
    assert not (tmp_path / "log").exists()


def test_flags_in_messages_become_keywords() -> None:
    message = "--per-speaker needs it: start again without --resume, or with --seed=3"
    expected = "per_speaker=True needs it: start again without resume=True, or with seed=3"
    assert command.spell_as_keywords(message) == expected
    message = "there is no option --x: --help lists all options"
    assert command.spell_as_keywords(message) == "there is no option x: kaldi-compat dump --help lists all options"


def test_key_is_removed_from_a_message() -> None:
    message = "Failed to compute features for utterance utt1: it is empty"
    assert remove_key("utt1", message) == "Failed to compute features: it is empty"


def test_failures_with_similar_reasons_are_grouped() -> None:
    failures = [("a", "it is empty"), ("b", "/d/b.wav: No such file"), ("c", "/d/c.wav: No such file")]
    assert group_by_reason(failures)[0] == ("… No such file", failures[1:])


def test_summary_counts_the_reasons_that_it_does_not_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job, monitor = Job(Layout.from_paths(tmp_path, "fbank")), SimpleNamespace(summarize=lambda bound: "")
    reasons = [(str(number), f"it is {'un' * number}readable") for number in range(command.MAX_REASONS + 2)]
    for count, expected in ((1, "and 1 more reason\n"), (2, "and 2 more reasons\n")):
        outcome = Outcome(0, 7, tuple(reasons[: command.MAX_REASONS + count]), 0.0, {})
        command.print_summary(job, outcome, monitor)
        assert expected in capsys.readouterr().err
