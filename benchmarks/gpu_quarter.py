"""Test and measure everything that needs a GPU in two commands, with the most valuable steps first.

    python3 benchmarks/gpu_quarter.py --prepare                     here: C libraries and compiled kernels to carry
    python3 benchmarks/gpu_quarter.py OUT --part 1                  on the card: the first command, 400 s
    python3 benchmarks/gpu_quarter.py OUT --part 2                  then: the steps that failed, and the others, 300 s
    python3 benchmarks/gpu_quarter.py OUT --part 2 --device cpu     substitutes of all steps, without a card

OUT gets log.txt and results.jsonl, which has a line for each step: its state, its time and its figures. Steps that have
passed are skipped if OUT or the carried folder has their results. A failing step does not stop the steps after it. The
steps run in a session that survives the end of this command; if you run the command again, it waits for them.

Depends on PyTorch, Triton and NumPy, but not on an installation of this project. Steps that need other programs or
modules are left out if these are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Git ignores this folder, so the tool that copies the working tree has to be told to carry it.
CARRIED = Path(".build", "gpu-quarter")
PACKAGES = ("io_ark", "kaldi_compat")
# Seconds that the steps of each command may take. The limits of the commands are 400 and 300 s, start included.
PART_SECONDS = {1: 385, 2: 285}
# A step that has less time than this left is not begun.
MIN_SECONDS = 5.0
# Bytes of the log that a step may fill. The middle of a longer output is removed.
MAX_LOG_BYTES = 1 << 20
MAX_LAST_LINES = 8
# The substitutes on a CPU may take this many times the limit of the step, because other work may slow them down.
CPU_PATIENCE = 12
# The kernels stay if one of these speeds, relative to PyTorch operations, is reached.
AIMS = {"dump": 1.2, "resident": 3.0}
PASSED = "passed"
Result = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A step of the plan.

    Attributes:
        name: name in the results.
        part: number of the command that runs it first.
        seconds: limit of its time.
        on_gpu: shell command on a GPU.
        on_cpu: shell command of the substitute; empty if there is none.
        needs: programs and modules that it requires, besides PyTorch, Triton and NumPy.
    """

    name: str
    part: int
    seconds: float
    on_gpu: str
    on_cpu: str = ""
    needs: tuple[str, ...] = ()


# The steps find PYTHON, VERSIONS and WORKERS in their environment.
VERSIONS = """
import sys, numpy, torch, triton, kaldi_compat.cli.info as info
print(sys.version, "numpy", numpy.__version__, "torch", torch.__version__, torch.version.cuda, triton.__version__)
print(info.info())
"""
PROBE = "$PYTHON benchmarks/gpu_probe.py"
PYTEST = "$PYTHON -m pytest -v -p no:cacheprovider $WORKERS"
SANITIZER = "PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --error-exitcode 9 --tool"
GPU_TESTS = "tests/kaldi_compat/dump/test_batching.py tests/kaldi_compat/torch"
KERNEL_TESTS = "tests/kaldi_compat/torch/kernels -k 'not as_exact_as and not compile_without and not benchmark_runs'"
NEEDED_BY_TESTS = ("pytest", "hypothesis")
STEPS = (
    Step("first", 1, 30, '$PYTHON -c "$VERSIONS"; nvidia-smi; ' + PROBE + " first",
         '$PYTHON -c "$VERSIONS"; ' + PROBE + " first"),
    Step("variants", 1, 85, PROBE + " variants --jobs 14", PROBE + " small"),
    Step("resident", 1, 60, "$PYTHON benchmarks/resident.py",
         "$PYTHON benchmarks/resident.py --device cpu --seconds 0.5 1 --batch 2 --rounds 1 --copied 1000000"),
    Step("dump", 1, 115, "$PYTHON benchmarks/gpu_dump.py",
         "$PYTHON benchmarks/gpu_dump.py --device cpu --hours 0.02 --jobs 1"),
    Step("tests marked gpu", 1, 55, PYTEST + " -m gpu " + GPU_TESTS,
         PYTEST + " tests/emulator/test_ptx_emulator.py -k faults_of_a_program", NEEDED_BY_TESTS),
    Step("tests of kernels", 1, 40, PYTEST + " -m 'not slow' " + KERNEL_TESTS,
         PYTEST + " tests/kaldi_compat/torch/kernels/test_kernels.py -k sparse_filters", NEEDED_BY_TESTS),
    Step("faults", 2, 75, "$PYTHON benchmarks/gpu_dump_faults.py",
         "$PYTHON benchmarks/gpu_dump_faults.py --device cpu"),
    Step("encoders", 2, 60, "$PYTHON benchmarks/gpu_encoders.py",
         "$PYTHON benchmarks/gpu_encoders.py --device cpu --hours 0.003 --jobs 1", ("transformers",)),
    Step("memcheck", 2, 40, SANITIZER + " memcheck " + PROBE + " small", "", ("compute-sanitizer",)),
    Step("racecheck", 2, 40, SANITIZER + " racecheck " + PROBE + " small", "", ("compute-sanitizer",)),
    Step("overlap", 2, 25, PROBE + " overlap", PROBE + " overlap"),
    Step("odd", 2, 15, PROBE + " odd", PROBE + " odd"),
    Step("stages", 2, 25, PROBE + " stages", PROBE + " stages"),
)  # fmt: skip


def check_card() -> None:
    """End the program with the reason if PyTorch cannot use a GPU."""
    import torch

    if torch.cuda.is_available():
        return
    cards = ""
    with contextlib.suppress(OSError):
        cards = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.strip()
    if not cards.startswith("GPU"):
        sys.exit("there is no GPU here: --device cpu runs the substitutes")
    try:
        torch.zeros(1, device="cuda")
    except (AssertionError, RuntimeError) as error:
        sys.exit(f"nvidia-smi lists {cards}, but PyTorch cannot use it: {error}")


def is_available(name: str) -> bool:
    """Return True if there is a module with this name, or a program if no module can have the name."""
    if not name.isidentifier():
        return shutil.which(name) is not None
    code = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({name!r}))"
    return subprocess.run([sys.executable, "-c", code]).returncode == 0


def step_environment(device: str, cache: Path) -> dict[str, str]:
    """Return the environment of the steps."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        "PYTHON": sys.executable,
        "VERSIONS": VERSIONS,
        "WORKERS": "-n 14" if device == "cuda" and is_available("xdist") else "",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": str(cache),
    }
    return os.environ | settings | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {})


def read_results(path: Path, device: str) -> list[Result]:
    """Return the results of the steps on this device, in the order in which they ended."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [result for result in map(json.loads, lines) if result["device"] == device]


def decide(results: Sequence[Result]) -> Result:
    """Return the ratios of the speeds with kernels to those with PyTorch operations, and the consequence.

    The ratio of resident audio is the smaller one of its batches. A step that ran again counts once, as it ended.
    """
    figures = [figure for result in {r["step"]: r for r in results}.values() for figure in result["figures"]]
    ratios = {
        aim: min((figure[f"{aim}_ratio"] for figure in figures if f"{aim}_ratio" in figure), default=None)
        for aim in AIMS
    }
    reached = [ratio >= AIMS[aim] for aim, ratio in ratios.items() if ratio is not None]
    undecided = "undecided: a measurement is missing"
    kernels = "stay" if any(reached) else undecided if len(reached) < len(AIMS) else "go"
    return {"ratios": ratios, "aims": AIMS, "kernels": kernels}


def trim_log(path: Path, start: int) -> str:
    """Remove the middle of what a step has written to the log since `start`; return the output that is left."""
    with open(path, "r+b") as log:
        log.seek(start)
        output = log.read()
        if len(output) > MAX_LOG_BYTES:
            half = MAX_LOG_BYTES // 2
            output = output[:half] + b"\n[...]\n" + output[-half:]
            log.seek(start)
            log.write(output)
            log.truncate()
    return output.decode(errors="replace")


def parse_figures(output: str) -> list[Result]:
    """Return the lines of JSON in an output."""
    figures = []
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            if line.startswith("{"):
                figures.append(json.loads(line))
    return figures


def run_command(command: str, seconds: float, variables: dict[str, str], log: Path) -> str:
    """Run a shell command that writes to the log, and return the state in which it ended."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
            return f"over {seconds:.0f} s"
    return PASSED if status == 0 else f"failed with status {status}"


def run_step(step: Step, out: Path, device: str, seconds: float, variables: dict[str, str]) -> Result:
    """Run a step in the time that is left, and return its result."""
    command = step.on_gpu if device == "cuda" else step.on_cpu
    missing = [name for name in step.needs if not is_available(name)]
    patience = CPU_PATIENCE if device == "cpu" else 1
    begun, output, log = time.monotonic(), "", out / "log.txt"
    if not command:
        state = "left out: no substitute on a CPU"
    elif missing:
        state = f"left out: no {', '.join(missing)}"
    elif seconds < MIN_SECONDS:
        state = "left out: no time left"
    else:
        with open(log, "a") as file:
            print(f"\n== {step.name}: {command}", file=file)
        start = log.stat().st_size
        state = run_command(command, min(step.seconds * patience, seconds), variables, log)
        output = trim_log(log, start)
    result = {"step": step.name, "state": state, "seconds": round(time.monotonic() - begun, 1), "device": device,
              "figures": parse_figures(output)}  # fmt: skip
    return result if state == PASSED else result | {"last_lines": output.splitlines()[-MAX_LAST_LINES:]}


def run_steps(out: Path, device: str, steps: Sequence[Step], seconds: float) -> None:
    """Run the steps that have not passed, in this process's session."""
    end = time.monotonic() + seconds
    results = out / "results.jsonl"
    passed = {result["step"] for result in read_results(results, device) if result["state"] == PASSED}
    cache = Path(tempfile.gettempdir()) / f"kaldi-compat-triton-{device}"
    variables = step_environment(device, cache)
    placed = f"{sys.executable} benchmarks/gpu_cache.py place {CARRIED / 'triton-cache'} {cache}"
    if device == "cuda":
        run_command(placed, seconds, variables, out / "log.txt")
    for step in steps:
        if step.name not in passed:
            result = run_step(step, out, device, end - time.monotonic(), variables)
            with open(results, "a") as file:
                print(json.dumps(result), file=file)


def is_running(pid: Path) -> bool:
    """Return True if the process whose number is in a file runs."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pid.read_text()), 0)
        return True
    return False


def find_library(folder: Path, package: str) -> Path:
    """Return the path of a package's C library in a source tree, or in the carried folder."""
    return folder / package / "native" / "_native.so"


def build_libraries() -> None:
    """Build the C libraries; without a compiler, NumPy replaces them."""
    line = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(f"no C libraries: {done.stderr.strip()[-300:]}", flush=True)


def provide_libraries() -> None:
    """Copy the carried C libraries to their places, or build them."""
    if all(find_library(ROOT, package).exists() for package in PACKAGES):
        return
    carried = ROOT / CARRIED
    if not all(find_library(carried, package).exists() for package in PACKAGES):
        build_libraries()
        return
    for package in PACKAGES:
        shutil.copy(find_library(carried, package), find_library(ROOT, package))


def prepare() -> None:
    """Build the C libraries and compile the kernels for compute capability 9.0, into the folder to carry."""
    carried = ROOT / CARRIED
    build_libraries()
    for package in PACKAGES:
        find_library(carried, package).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(find_library(ROOT, package), find_library(carried, package))
    line = [sys.executable, "benchmarks/gpu_cache.py", "compile", str(carried / "triton-cache")]
    subprocess.run(line, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    size = sum(path.stat().st_size for path in carried.rglob("*") if path.is_file())
    print(f"{CARRIED}: {size / 2**20:.1f} MiB to carry")


def start_steps(out: Path, options: argparse.Namespace) -> None:
    """Start the steps in a session that survives this process."""
    if options.device == "cuda":
        check_card()
    provide_libraries()
    carried = ROOT / CARRIED / "results.jsonl"
    if carried.exists() and not (out / "results.jsonl").exists():
        shutil.copy(carried, out / "results.jsonl")
    variables = step_environment(options.device, out)
    probe = subprocess.run(
        [sys.executable, "-c", "import kaldi_compat"], cwd=out, env=variables, capture_output=True, text=True
    )
    if probe.returncode:
        sys.exit(f"kaldi_compat cannot be imported: {probe.stderr[-1000:]}")
    line = [sys.executable, __file__, str(out), *options.steps, f"--device={options.device}", f"--part={options.part}",
            f"--seconds={options.seconds}", "--inside"]  # fmt: skip
    with open(out / "log.txt", "a") as log:
        process = subprocess.Popen(line, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    (out / "pid.new").write_text(str(process.pid))
    (out / "pid.new").replace(out / "pid")  # Another command must not find an empty file, and start the steps again.


def main() -> None:
    """Prepare, or start the steps and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder of the log and the results")
    parser.add_argument("steps", nargs="*", metavar="step", help=", ".join(step.name for step in STEPS))
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--part", type=int, choices=PART_SECONDS, default=1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, help="time of all steps; by default that of the part")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.prepare:
        prepare()
        return
    if options.out is None or (unknown := set(options.steps) - {step.name for step in STEPS}):
        parser.error("name a folder for the results" if options.out is None else f"unknown steps: {unknown}")
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    if options.seconds is None:
        options.seconds = PART_SECONDS[options.part] * (CPU_PATIENCE if options.device == "cpu" else 1)
    if options.inside:
        steps = [step for step in STEPS if step.part <= options.part and step.name in (options.steps or [step.name])]
        run_steps(out, options.device, steps, options.seconds)
        return
    pid = out / "pid"
    if not is_running(pid):
        start_steps(out, options)
    end = time.monotonic() + options.seconds + 2
    while is_running(pid) and time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(pid.read_text()), os.WNOHANG)
        time.sleep(0.2)
    results = read_results(out / "results.jsonl", options.device)
    for result in results:
        print(json.dumps(result))
    if options.device == "cuda":
        print(json.dumps(decide(results)))
    print("still running: run the command again" if is_running(pid) else "ended", f"({out})")


if __name__ == "__main__":
    main()
