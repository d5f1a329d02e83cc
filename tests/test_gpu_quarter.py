"""The plan for a GPU fits the time for which one is lent, and its commands skip, stop and record as they say."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import gpu_quarter
from benchmarks.gpu_quarter import PART_SECONDS, PASSED, STEPS, Result, Step

ROOT = Path(__file__).parents[1]
COMMAND_SECONDS = {1: 400, 2: 300}


def test_steps_fit_the_time_for_which_a_machine_is_lent() -> None:
    planned = {part: sum(step.seconds for step in STEPS if step.part == part) for part in PART_SECONDS}
    assert sum(planned.values()) < 700
    for part, seconds in planned.items():
        assert seconds <= PART_SECONDS[part] <= COMMAND_SECONDS[part] - 15, "start and imports take time"
    assert [step.part for step in STEPS] == sorted(step.part for step in STEPS)
    assert [step.name for step in STEPS if not step.on_cpu] == ["memcheck", "racecheck"]


def test_programs_and_tests_that_steps_name_exist() -> None:
    words = " ".join(command for step in STEPS for command in (step.on_gpu, step.on_cpu)).split()
    paths = {word for word in words if word.startswith(("benchmarks/", "tests/"))}
    assert len(paths) > 8 and [path for path in paths if not (ROOT / path).exists()] == []


def steps_of(folder: Path) -> list[Step]:
    """Return steps that count their runs in files of a folder; the second fails until a file is there."""
    count = f"echo x >> {folder}/"
    return [
        Step("good", 1, 5, "", count + """good; echo '{"dump_ratio": 1.5}'; echo '{no JSON'"""),
        Step("bad", 1, 5, "", count + f"bad; echo reason; test -e {folder}/mended"),
        Step("slow", 1, 0.1, "", count + "slow; sleep 60"),
        Step("foreign", 1, 5, "", "true", ("pytest", "no_such_module")),
        Step("none", 1, 5, "true"),
        Step("after", 1, 5, "", count + "after"),
    ]


def results_of(out: Path) -> list[Result]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def test_failures_are_recorded_and_only_they_run_again(tmp_path: Path) -> None:
    out, runs = tmp_path / "out", tmp_path / "runs"
    out.mkdir(), runs.mkdir()
    gpu_quarter.run_steps(out, "cpu", steps_of(runs), 60)
    found = results_of(out)
    assert [result["state"] for result in found] == [
        PASSED, "failed with status 1", "over 1 s", "left out: no no_such_module",
        "left out: no substitute on a CPU", PASSED,
    ]  # fmt: skip
    assert found[0]["figures"] == [{"dump_ratio": 1.5}] and found[1]["last_lines"] == ["reason"]
    (runs / "mended").touch()
    gpu_quarter.run_steps(out, "cpu", steps_of(runs), 60)
    assert {path.name: len(path.read_text().split()) for path in runs.iterdir()} == {
        "good": 1, "bad": 2, "slow": 2, "after": 1, "mended": 0,
    }  # fmt: skip
    assert results_of(out)[6] == results_of(out)[6] | {"step": "bad", "state": PASSED}
    assert {path.name for path in out.iterdir()} == {"log.txt", "results.jsonl"}
    assert "== bad: " in (out / "log.txt").read_text()


def test_no_step_begins_without_time(tmp_path: Path) -> None:
    gpu_quarter.run_steps(tmp_path, "cpu", [Step("late", 1, 5, "", f"touch {tmp_path}/begun")], 1)
    assert results_of(tmp_path)[0]["state"] == "left out: no time left"
    assert not (tmp_path / "begun").exists()


def test_results_of_another_device_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"step": "one", "state": "passed", "device": "cuda", "figures": []}\n')
    gpu_quarter.run_steps(tmp_path, "cpu", [Step("one", 1, 5, "", "true")], 60)
    assert [result["device"] for result in results_of(tmp_path)] == ["cuda", "cpu"]


def test_long_output_loses_its_middle(tmp_path: Path) -> None:
    chatty = "echo begin; head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo '{\"last\": 1}'"
    gpu_quarter.run_steps(tmp_path, "cpu", [Step("chatty", 1, 5, "", chatty), Step("next", 1, 5, "", "echo end")], 60)
    log = (tmp_path / "log.txt").read_text()
    assert len(log) < 1.1 * gpu_quarter.MAX_LOG_BYTES and "begin\n" in log and log.endswith("end\n")
    assert results_of(tmp_path)[0]["figures"] == [{"last": 1}]


@pytest.mark.parametrize(
    ("figures", "consequence"),
    [
        ([{"dump_ratio": 1.3}, {"resident_ratio": 2.0}], "stay"),
        ([{"dump_ratio": 1.1}, {"resident_ratio": 9.0}, {"resident_ratio": 3.0}], "stay"),
        ([{"dump_ratio": 1.1}, {"resident_ratio": 9.0}, {"resident_ratio": 2.9}], "go"),
        ([{"dump_ratio": 1.1}], "undecided: a measurement is missing"),
        ([{"dump_ratio": 1.2}], "stay"),
    ],
)
def test_figures_decide_about_the_kernels(figures: list[Result], consequence: str) -> None:
    results = [{"step": number, "figures": [figure]} for number, figure in enumerate(figures)]
    before = [{"step": number, "figures": [{"dump_ratio": 99.0}]} for number in range(len(figures))]
    assert gpu_quarter.decide([*before, *results])["kernels"] == consequence


def test_card_that_only_the_driver_sees_ends_with_the_error_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho GPU 0: a card\n")
    program.chmod(0o755)
    with pytest.raises(SystemExit, match="--device cpu"):
        gpu_quarter.check_card()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(SystemExit, match=r"lists GPU 0: a card, but PyTorch cannot use it: \w+"):
        gpu_quarter.check_card()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with packages without content, carried libraries, and a probe that waits for a second."""
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "gpu_quarter.py", tmp_path / "benchmarks")
    (tmp_path / "benchmarks" / "gpu_probe.py").write_text("import time; time.sleep(1); print('{\"odd\": 1}')")
    for package in gpu_quarter.PACKAGES:
        library = gpu_quarter.find_library(tmp_path / gpu_quarter.CARRIED, package)
        library.parent.mkdir(parents=True)
        library.write_text(package)
        (tmp_path / package / "native").mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    return tmp_path


def command_of(project: Path, *arguments: str) -> list[str]:
    script = str(project / "benchmarks" / "gpu_quarter.py")
    return [sys.executable, script, str(project / "out"), *arguments, "--device=cpu", "--part=2"]


def test_a_package_that_cannot_be_imported_ends_the_command(project: Path) -> None:
    (project / "kaldi_compat" / "__init__.py").write_text("raise ImportError('broken')")
    done = subprocess.run(command_of(project), capture_output=True, text=True)
    assert done.returncode == 1 and "kaldi_compat cannot be imported" in done.stderr and "broken" in done.stderr
    for package in gpu_quarter.PACKAGES:
        assert gpu_quarter.find_library(project, package).read_text() == package, "brought along"


def test_steps_survive_the_command_and_carried_results_count(project: Path) -> None:
    carried = {"step": "stages", "state": PASSED, "device": "cpu", "seconds": 1.0, "figures": []}
    (project / gpu_quarter.CARRIED / "results.jsonl").write_text(json.dumps(carried) + "\n")
    command = subprocess.Popen(command_of(project, "odd", "stages"), stdout=subprocess.DEVNULL)
    while not (project / "out" / "pid").exists():
        assert command.poll() is None
        time.sleep(0.02)
    command.kill()
    command.wait()
    done = subprocess.run(command_of(project, "odd", "stages"), capture_output=True, text=True)
    assert "ended" in done.stdout, done.stderr
    states = [(result["step"], result["state"], result["figures"]) for result in results_of(project / "out")]
    assert states == [("stages", PASSED, []), ("odd", PASSED, [{"odd": 1}])]
    assert {path.name for path in (project / "out").iterdir()} == {"log.txt", "pid", "results.jsonl"}


def test_compiled_kernels_get_the_names_that_triton_looks_for(tmp_path: Path) -> None:
    cache = pytest.importorskip("triton.runtime.cache")
    from benchmarks import gpu_cache

    folder, target = tmp_path / "carried", tmp_path / "cache"
    (folder / "NAME").mkdir(parents=True)
    (folder / "NAME" / "kernel.cubin").write_text("code")
    names = {"triton": gpu_cache.triton.__version__, "keys": {"NAME": "-source-backend"}}
    (folder / "names-0.json").write_text(json.dumps(names))
    assert gpu_cache.place(folder, target) == "1 compiled kernels"
    key = cache.triton_key() + "-source-backend"
    assert (target / cache._base32(hashlib.sha256(key.encode()).hexdigest()) / "kernel.cubin").read_text() == "code"
    (folder / "names-0.json").write_text(json.dumps(names | {"triton": "0.0"}))
    assert "are of Triton 0.0" in gpu_cache.place(folder, target)


@pytest.mark.slow
def test_substitutes_of_all_steps_pass_on_a_cpu(tmp_path: Path) -> None:
    line = [sys.executable, str(ROOT / "benchmarks" / "gpu_quarter.py"), str(tmp_path), "--part=2", "--device=cpu"]
    subprocess.run(line, check=True, cwd=tmp_path)
    states = {result["step"]: result["state"] for result in results_of(tmp_path)}
    assert list(states) == [step.name for step in STEPS]
    assert [name for name, state in states.items() if state != PASSED and not state.startswith("left out")] == []
    assert len(list(tmp_path.iterdir())) <= 8


def test_program_does_not_count_as_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_such_module", "no-such-program"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = ("pytest", "no_such_module", "no-such-program", "none-such")
    assert [gpu_quarter.is_available(name) for name in names] == [True, False, True, False]
