"""Test and measure everything that requires a GPU, the most valuable results first.

    python3 benchmarks/gpu_first_hour.py OUT [--device cuda | cpu] [--wait 570] [step...]

The steps run in sequence in a separate session, which survives the end of this command. The command waits for them for
--wait seconds. Run it again to continue waiting, or to resume; steps that have passed are skipped. OUT receives
log.txt, and results.jsonl with a line for each step. A failed step does not stop the others. With --device cpu, small
substitutes for the steps run without a GPU, with the kernels in Triton's interpreter.

PyTorch, Triton and NumPy have to be installed; steps that need more (pytest, compute-sanitizer, ncu) say so.
The C libraries are built if a compiler is there, unless they came along: io_ark/native and kaldi_compat/native hold
_native.so. A folder .triton-cache in the project is used as Triton's cache.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = """
import sys, numpy, torch, kaldi_compat, kaldi_compat.cli.info as info
print(sys.version, "numpy", numpy.__version__, "torch", torch.__version__, torch.version.cuda)
print(info.info())
try:
    import triton
    print("triton", triton.__version__)
except ImportError as error:
    print(error)
"""
GPU_TESTS = "tests/kaldi_compat/dump tests/kaldi_compat/torch"
PROPERTIES = "tests/kaldi_compat/torch/features/test_properties.py tests/kaldi_compat/torch/features/test_export.py"
KEPT = "; done=$?; cp docs/supported.md {out}; exit $done"
EXAMPLES = "KALDI_COMPAT_EXAMPLES=200 {python} -m pytest -n 14 tests/kaldi_compat/torch/kernels -k 'exact or codec'"
SANITIZED = "PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --error-exitcode 9 --tool"


@dataclass(frozen=True)
class Step:
    """A step of the script.

    Attributes:
        seconds: time limit in seconds.
        on_gpu: shell command on a machine with a GPU.
        on_cpu: small substitute without a GPU, or "".
        needs: program or module that the step requires.
    """

    seconds: int
    on_gpu: str
    on_cpu: str = ""
    needs: str = ""


def dump(seconds: int, hours: int, jobs: int, more: str = "", work: str = "{memory}") -> Step:
    """Return a step that dumps ``hours`` hours of audio. Without a GPU, it dumps two hours."""
    command = f"{{python}} benchmarks/dump.py --gpu --work {work}{f' --more={more}' if more else ''}"
    return Step(seconds, f"{command} --hours {hours} --jobs {jobs}", f"{command} --hours 2 --jobs 2 --device cpu")


STEPS = {
    "versions": Step(60, "{python} -c '{versions}'; nvidia-smi; lscpu | head -20; df -h /tmp /dev/shm",
                     "{python} -c '{versions}'"),
    "first": Step(120, "{python} benchmarks/gpu_probe.py --first", "{python} benchmarks/gpu_probe.py --first"),
    "probe": Step(300, "{python} benchmarks/gpu_probe.py --jobs 14", "{python} benchmarks/gpu_probe.py --small"),
    "dump": dump(300, 100, 16),
    "dithered dump": dump(200, 100, 16, "--dither=1"),
    "tests": Step(570, "{python} -m pytest -n 14 -m gpu " + GPU_TESTS,
                  "{python} -m pytest tests/kaldi_compat/torch/kernels/test_launch.py", "pytest"),
    "kernels": Step(570, "{python} -m pytest -n 14 -m 'not slow' tests/kaldi_compat/torch/kernels",
                    "{python} -m pytest tests/emulator/test_ptx_emulator.py -k 'not compiled'", "pytest"),
    "supported": Step(300, "{python} -m pytest -n 14 --write-supported " + PROPERTIES + KEPT,
                      "{python} -m pytest --co tests/kaldi_compat/torch/features/test_properties.py", "pytest"),
    "overlap": Step(200, "{python} benchmarks/gpu_probe.py --overlap", "{python} benchmarks/gpu_probe.py --overlap"),
    "faults": Step(400, "{python} benchmarks/gpu_dump_faults.py",
                   "{python} benchmarks/gpu_dump_faults.py --device cpu"),
    "odd": Step(120, "{python} benchmarks/gpu_probe.py --odd", "{python} benchmarks/gpu_probe.py --odd"),
    "memcheck": Step(200, SANITIZED + " memcheck {python} benchmarks/gpu_probe.py --small", "", "compute-sanitizer"),
    "racecheck": Step(200, SANITIZED + " racecheck {python} benchmarks/gpu_probe.py --small", "", "compute-sanitizer"),
    "initcheck": Step(200, SANITIZED + " initcheck {python} benchmarks/gpu_probe.py --small", "", "compute-sanitizer"),
    "stages": Step(120, "{python} benchmarks/gpu_probe.py --stages", "{python} benchmarks/gpu_probe.py --stages"),
    "resident": Step(200, "{python} benchmarks/resident.py --batch 64",
                     "{python} benchmarks/resident.py --device cpu --seconds 1 --batch 2 --rounds 1 --copied 1000000"),
    "profile": Step(300, "ncu --set detailed --launch-count 6 {python} benchmarks/gpu_probe.py --small", "", "ncu"),
    "one worker": dump(200, 20, 1),
    "four workers": dump(200, 50, 4),
    "cmvn": dump(200, 50, 16, "--cmvn=global"),
    "uncompressed": dump(200, 50, 16, "--no-compress"),
    "cold": dump(200, 20, 16, "--cold", "{out}/work"),
    "examples": Step(570, EXAMPLES, "", "pytest"),
    "host": Step(120, "{python} benchmarks/gpu_host_cost.py", "{python} benchmarks/gpu_host_cost.py --rounds 1 '2 s'"),
}  # fmt: skip
WITHOUT_GPU = ("versions", "host")
SLOWER = 4  # times as long the stand-ins may take, in Triton's interpreter


def why_no_gpu() -> str:
    """Return why PyTorch cannot use a GPU; an empty string if it can.

    It ends the program if there is one that PyTorch cannot use, since every step would say so again.
    """
    import torch

    if torch.cuda.is_available():
        return ""
    with contextlib.suppress(OSError):
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
        if listing.returncode == 0 and listing.stdout.strip():
            try:
                torch.zeros(1, device="cuda")
            except (AssertionError, RuntimeError) as error:
                sys.exit(f"nvidia-smi lists {listing.stdout.strip()}, but PyTorch cannot use it: {error}")
    return "no GPU"


def is_missing(needed: str) -> bool:
    """Return True if neither a program nor a module of this name is there."""
    finds = [sys.executable, "-c", f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({needed!r}))"]
    return bool(needed) and shutil.which(needed) is None and subprocess.run(finds).returncode != 0


def environment(device: str) -> dict[str, str]:
    """Return the environment of the steps."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    if (ROOT / ".triton-cache").is_dir():
        variables["TRITON_CACHE_DIR"] = str(ROOT / ".triton-cache")
    return variables | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {})


def run_steps(out: Path, device: str, names: list[str]) -> None:
    """Run the steps that have not passed, in this process's session."""
    results = out / "results.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    passed = {line["step"] for line in map(json.loads, lines) if line["state"] == "passed"}
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else out
    without = why_no_gpu() if device == "cuda" else ""
    values = {"python": sys.executable, "versions": VERSIONS, "out": out, "memory": memory / "kaldi-compat-first-hour"}
    with open(out / "log.txt", "a") as log:
        for name in [line for line in names if line not in passed]:
            step, begun = STEPS[name], time.time()
            command = step.on_gpu if device == "cuda" else step.on_cpu
            state = without if name not in WITHOUT_GPU else ""
            if not command:
                state = "no stand-in on a CPU"
            elif not state and is_missing(step.needs):
                state = f"no {step.needs}"
            if not state:
                print(f"\n== {name}: {command}", file=log, flush=True)
                seconds = step.seconds * (SLOWER if device == "cpu" else 1)
                state = finished(command.format(**values), seconds, environment(device), log.fileno())
            result = {"step": name, "state": state, "seconds": round(time.time() - begun, 1), "device": device}
            with open(results, "a") as file:
                print(json.dumps(result), file=file)
            print(json.dumps(result), file=log, flush=True)


def finished(command: str, seconds: int, variables: dict[str, str], log: int) -> str:
    """Run a shell command and return how it ended."""
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True
    )
    try:
        return "passed" if process.wait(seconds) == 0 else f"failed with status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return f"over {seconds} s"


def is_running(pid: Path) -> bool:
    """Return True if the process whose id is in a file is running."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pid.read_text()), 0)
        return True
    return False


def build_libraries() -> None:
    """Build the C libraries unless they are there; without a compiler, NumPy does their work."""
    if all((ROOT / package / "native" / "_native.so").exists() for package in ("io_ark", "kaldi_compat")):
        return
    line = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    print(
        "built the C libraries" if done.returncode == 0 else f"no C libraries: {done.stderr.strip()[-300:]}", flush=True
    )


def main() -> None:
    """Start the steps, or find them running, and wait."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("steps", nargs="*", metavar="step", help=", ".join(STEPS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--wait", type=float, default=570.0, help="seconds")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if unknown := set(chosen.steps) - set(STEPS):
        parser.error(f"unknown steps {', '.join(unknown)}: choose from {', '.join(STEPS)}")
    out, names = chosen.out.absolute(), chosen.steps or list(STEPS)
    out.mkdir(parents=True, exist_ok=True)
    if chosen.inside:
        run_steps(out, chosen.device, names)
        return
    pid = out / "pid"
    if not is_running(pid):
        build_libraries()
        probe = subprocess.run(
            [sys.executable, "-c", "import kaldi_compat"],
            cwd=out,
            env=environment(chosen.device),
            capture_output=True,
            text=True,
        )
        if probe.returncode:
            sys.exit(f"kaldi_compat cannot be imported: {probe.stderr[-1000:]}")
        line = [sys.executable, __file__, str(out), *names, f"--device={chosen.device}", "--inside"]
        with open(out / "log.txt", "a") as log:
            begun = subprocess.Popen(line, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        pid.write_text(str(begun.pid))
    end = time.monotonic() + chosen.wait
    while is_running(pid) and time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(pid.read_text()), os.WNOHANG)
        time.sleep(0.5)
    results = out / "results.jsonl"
    print(results.read_text() if results.exists() else (out / "log.txt").read_text()[-2000:], end="")
    print("still running: give the command again" if is_running(pid) else "done", f"({out})")


if __name__ == "__main__":
    main()
